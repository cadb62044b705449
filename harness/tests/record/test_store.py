"""The run folder: written once, torn and full disks survived, other schemas refused in one line."""

from __future__ import annotations

import itertools
import json
import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from opscope.base import damage, stored
from opscope.base.children.call import call
from opscope.base.children.inside import Parent
from opscope.base.children.process import Local
from opscope.base.tests.another_user import as_another_user, open_folder
from opscope.harness.record import run_folders, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext, build_test, now
from opscope.harness.record.records import ManifestHeader, OpTest, Origin, RunRecord
from opscope.harness.record.stages import Status
from opscope.harness.tests.ops import add_row

CONTEXT = RunContext("r1", "run")


def header(folder, **changes):
    counts = {"models": ("toy",), "export_dirs": (str(folder),), "module_ops": {"toy": 2}, "structural": {"toy": 0}}
    return ManifestHeader(**(counts | changes))


def record(**changes):
    return RunRecord(
        run_id="r1", models=("toy",), backend="null", arch="n150", started=now(), origin=Origin(), **changes
    )


def result(row, status=Status.SUCCESS, **fields):
    return build_test(row, CONTEXT, status=status, started=now(), **fields)


@pytest.fixture
def run(tmp_path):
    rows = [add_row(tmp_path / "export", name) for name in ("b", "a")]
    store.write_run(tmp_path, record())
    store.write_manifest(tmp_path, header(tmp_path), rows)
    return tmp_path, rows


def test_a_written_run_is_read_back(run):
    folder, rows = run
    with store.Journal(folder, "gw1") as journal:
        journal.append(result(rows[1]))
    with store.Journal(folder, "gw0") as journal:
        journal.append(result(rows[0], Status.STOPPED, error="line\u2028separator\n"))
    loaded = store.load_run(folder)
    assert loaded.record.run_id == "r1"
    assert loaded.rows == rows
    assert [test.op_id for test in loaded.tests] == ["b", "a"]  # the manifest's order, whoever wrote first
    assert loaded.tests[0].status is Status.PASSED, "it was stopped after its last stage"


def test_a_text_of_several_lines_is_no_line(run):
    test = result(run[1][0])
    text = test.model_dump_json()
    assert store.line_of(test, text) == store.line_of(test)
    assert store.line_of(test, text.replace(",", ",\n")) == store.line_of(test)


def test_the_higher_attempt_wins_wherever_it_was_written(run):
    folder, rows = run
    with store.Journal(folder, "a") as late, store.Journal(folder, "b") as early:
        late.append(result(rows[0], Status.SUCCESS, attempt=2))
        early.append(result(rows[0], Status.CRASHED, attempt=1, error="boom"))
    assert [test.status for test in store.load_run(folder).tests] == [Status.SUCCESS]
    assert store.next_attempt(folder, rows[0].op_id) == 3
    assert store.next_attempt(folder, "unheard of") == 1


def test_a_torn_last_line_is_ignored_and_cut_by_the_next_writer(run):
    folder, rows = run
    with store.Journal(folder, "w") as journal:
        journal.append(result(rows[0]))
    path = folder / "journal" / "w.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    assert [test.op_id for test in store.load_run(folder).tests] == ["b"]
    with store.Journal(folder, "w") as journal:
        journal.append(result(rows[1]))
    assert [test.op_id for test in store.load_run(folder).tests] == ["b", "a"]
    path.write_bytes(whole[:40])  # torn in its very first line
    with store.Journal(folder, "w") as journal:
        journal.append(result(rows[1]))
    assert [test.op_id for test in store.load_run(folder).tests] == ["a"]


def test_a_damaged_line_is_named(run, capsys):
    damage.forget()
    folder, rows = run
    with store.Journal(folder, "w") as journal:
        journal.append(result(rows[0]))
    path = folder / "journal" / "w.jsonl"
    path.write_bytes(b"{broken\n" + path.read_bytes())
    assert [test.op_id for test in store.load_run(folder).tests] == ["b"]
    assert damage.losses() == 1
    assert "w.jsonl:1: damaged (invalid JSON" in capsys.readouterr().err


def test_a_journal_of_another_user_is_no_damage():
    with open_folder() as folder:
        with store.Journal(folder, "main") as journal:
            journal.append(result(add_row(folder / "export", "a")))
        (folder / store.JOURNAL_DIR).chmod(0)
        try:
            with as_another_user(), pytest.raises(InputError, match=r"expected a folder that may be entered"):
                list(store.read_journal(folder))
        finally:
            (folder / store.JOURNAL_DIR).chmod(0o755)


def test_a_journal_survives_sigkill(run):
    folder, rows = run

    def written(parent: Parent) -> None:
        journal = store.Journal(folder, "w")
        for attempt in itertools.count(1):
            journal.append(result(rows[attempt % 2], attempt=attempt))
            if attempt == 50:
                parent.send({"process": os.getpid()})

    ended = call(Local(written), {}, seconds=60, on_message=lambda message: os.kill(message["process"], signal.SIGKILL))
    assert ended.ending.text == "killed by SIGKILL"
    tests = list(store.read_journal(folder))
    assert len(tests) >= 50
    assert [test.attempt for test in tests] == list(range(1, len(tests) + 1))


def test_a_full_disk_is_one_line_and_costs_no_earlier_record(run):
    """A file size limit gives short writes and then refusals, as a full disk does."""
    folder, rows = run

    def written(_: Parent) -> list[object]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        journal = store.Journal(folder, "w")
        attempt = 0
        while True:
            attempt += 1
            try:
                journal.append(result(rows[0], attempt=attempt))
            except InputError as error:
                return [attempt, str(error)]

    attempt, line = call(Local(written), {}, seconds=60).result
    assert "expected a writable place, got No space left on device; try another --run-dir" in line
    assert "\n" not in line
    assert (folder / "journal" / "w.jsonl").read_bytes().endswith(b"\n")
    assert [test.attempt for test in store.read_journal(folder)] == list(range(1, attempt))


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for write in (
        lambda: store.write_run(tmp_path / "file" / "run", record()),
        lambda: store.Journal(tmp_path / "file" / "run", "w").append(result(add_row(tmp_path, "a"))),
    ):
        with pytest.raises(InputError, match="expected a writable place, got Not a directory"):
            write()


@pytest.mark.parametrize(("version", "hint"), [(0, "running the models again"), (2, "a newer opscope")])
def test_another_schema_is_refused_in_one_line(run, version, hint):
    folder, _rows = run
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": version}))
    with pytest.raises(InputError, match=f"expected schema 1, got schema {version}; try {hint}"):
        store.load_run(folder)


def test_an_upgrader_brings_an_old_record_up(run, monkeypatch):
    folder, rows = run

    def rename(values):
        return {
            **{key: value for key, value in values.items() if key != "pcc_min"},
            "pcc": values["pcc_min"],
            "schema_version": 1,
        }

    monkeypatch.setitem(store.UPGRADERS[OpTest], 0, rename)
    with store.Journal(folder, "w") as journal:
        journal.append(result(rows[0]))
    path = folder / "journal" / "w.jsonl"
    old = json.loads(path.read_text()) | {"schema_version": 0, "pcc_min": 0.5}
    del old["pcc"], old["digest"]
    path.write_text(json.dumps(old) + "\n")
    assert store.load_run(folder).tests[0].pcc == 0.5


def test_no_run_there_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"expected a run folder, got no run\.json"):
        store.load_run(tmp_path)
    (tmp_path / "run.json").write_text("[1]")
    with pytest.raises(InputError, match="expected a RunRecord, got list"):
        store.load_run(tmp_path)


def test_runs_that_start_together_have_folders_of_their_own(tmp_path):
    started = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    (tmp_path / ".opscope" / "runs").mkdir(parents=True)
    (tmp_path / ".opscope" / "runs" / "20260102-030405-m").symlink_to("nowhere")
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: run_folders.make_run_dir(["m"], started, tmp_path), range(40)))
    assert len(set(made)) == 40
    assert all(path.is_dir() for path in made)


def test_run_folders_have_names_of_their_own(tmp_path):
    started = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    first = run_folders.default_run_dir(["resnet50", "some/where/my model.mlir"], started, tmp_path)
    assert first == tmp_path / ".opscope/runs/20260102-030405-resnet50+my_model.mlir"
    first.mkdir(parents=True)
    second = run_folders.default_run_dir(["resnet50", "some/where/my model.mlir"], started, tmp_path)
    assert second.name == first.name + "-2"
    assert run_folders.newest_run(tmp_path) is None
    for age, folder in ((100, second), (200, first)):
        store.write_manifest(folder, header(tmp_path), [])
        os.utime(folder / "manifest.jsonl", (age, age))
    assert run_folders.newest_run(tmp_path) == first


def test_writing_is_whole_or_not_at_all(run):
    folder, _ = run
    store.write_run(folder, record(outcome="complete"))
    assert [path.name for path in Path(folder).glob(".*")] == []
    assert store.read_run(folder).outcome == "complete"


def test_of_two_records_of_one_attempt_the_later_counts(tmp_path: Path) -> None:
    row = add_row(tmp_path, "op")
    first, again = result(row), result(row, Status.RUN_FAILED)
    higher = first.model_copy(update={"attempt": first.attempt + 1})
    assert store.latest([first, again]) == [again]
    assert store.latest([higher, again]) == store.latest([again, higher]) == [higher]


def test_a_line_that_is_no_record_is_described(tmp_path: Path) -> None:
    good = result(add_row(tmp_path, "op")).model_dump()
    for change, said in (
        (
            {"op_id": "../up"},
            "op_id: Value error, expected a name without separators or control characters, got '../up'",
        ),
        (
            {"op_id": f"../{'x' * 100}"},
            f"op_id: Value error, expected a name without separators or control characters, got '../{'x' * 76}…'",
        ),
        ({"uses": "many"}, "uses: Input should be a valid integer, unable to parse string as an integer"),
        ({"surprise": 1}, "surprise: Extra inputs are not permitted"),
    ):
        text = json.dumps(good | change, default=str).encode()
        with pytest.raises(store.NotARecordError) as caught:
            store.parse(OpTest, text, "w.jsonl:3")
        assert str(caught.value) == f"w.jsonl:3: expected a OpTest, got {said}"


def test_names_of_files_keep_letters_of_every_alphabet() -> None:
    assert run_folders.file_name("größe/x y+1.2") == "größe_x_y+1.2"


def test_records_of_whole_models_that_are_gone_are_damage(run, capsys) -> None:
    """A run that has ended says how many there were; one that goes on does not know yet."""
    damage.forget()
    folder, rows = run
    assert store.whole_tests(folder) == []
    whole = folder / store.WHOLE_FILE
    whole.touch()
    assert (store.whole_tests(folder), damage.losses()) == ([], 0)
    whole.write_bytes(store.line_of(result(rows[0])) + store.line_of(result(rows[1])))
    assert [test.op_id for test in store.whole_tests(folder)] == ["b", "a"]
    store.write_run(folder, record(ended=now()))
    for left, said in ((1, "1 lines instead of 2"), (0, "0 lines instead of 2")):
        whole.write_bytes(b"".join(whole.read_bytes().splitlines(keepends=True)[:left]))
        assert len(store.whole_tests(folder)) == left
        assert f"{said}" in capsys.readouterr().err
    store.write_run(folder, record(ended=now()))
    assert store.whole_tests(folder) == []
    assert damage.losses() == 2
    whole.write_bytes(store.line_of(result(rows[0])))
    store.write_run(folder, record(ended=now()))
    whole.unlink()
    assert store.whole_tests(folder) == []
    assert "0 lines instead of 1" in capsys.readouterr().err


def test_a_torn_line_as_long_as_what_is_read_at_once_takes_no_whole_one_with_it(run) -> None:
    folder, rows = run
    with store.Journal(folder, "w") as journal:
        journal.append(result(rows[0]))
    path = folder / "journal" / "w.jsonl"
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o644 & ~umask
    for torn in (65535, 65536, 200_000):
        path.write_bytes(path.read_bytes() + b"x" * torn)
        with store.Journal(folder, "w") as journal:
            journal.append(result(rows[1]))
    assert len(path.read_bytes().splitlines()) == 4
    assert [test.op_id for test in store.read_journal(folder)] == ["b", "a", "a", "a"]


def test_a_damaged_row_of_the_manifest_is_named_by_its_line(run, capsys) -> None:
    damage.forget()
    folder, rows = run
    path = folder / "manifest.jsonl"
    header, first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + first.replace(b"stablehlo.add", b"stablehlo.bad") + second)
    assert store.read_manifest(folder)[1] == rows[1:]
    assert "manifest.jsonl:2: damaged" in capsys.readouterr().err


@pytest.mark.parametrize("escape", ["\\ud800", "\\uD800"])
def test_a_lone_surrogate_stays_as_its_escape(escape: str, tmp_path: Path) -> None:
    line = result(add_row(tmp_path, "op"), Status.RUN_FAILED, error="so it was").model_dump_json()
    read = store.parse(OpTest, line.replace("so it was", f"so {escape} w\u00e4s").encode(), "w.jsonl:1")
    assert read.error_message == "so \\ud800 w\u00e4s"


def test_a_record_of_a_newer_opscope_is_refused(tmp_path: Path) -> None:
    newer = result(add_row(tmp_path, "op")).model_copy(update={"schema_version": store.SCHEMA_VERSION + 1})
    with pytest.raises(InputError, match=f"schema {store.SCHEMA_VERSION + 1}"):
        store.parse(OpTest, newer.model_dump_json().encode(), "w.jsonl:1")


def test_a_run_is_named_by_60_characters_of_its_models_at_most(tmp_path: Path) -> None:
    started = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    runs = tmp_path / ".opscope/runs"
    assert run_folders.default_run_dir(["x" * 61], started, tmp_path).name == f"20260102-030405-{'x' * 60}"
    assert run_folders.default_run_dir([], started, tmp_path) == runs / "20260102-030405-run"
    for name in ("20260102-030405-run", "20260102-030405-run-2"):
        (runs / name).mkdir(parents=True)
    assert run_folders.default_run_dir([], started, tmp_path) == runs / "20260102-030405-run-3"
    assert store.artifact_dir(tmp_path, "op") == tmp_path / "artifacts" / "op"


def test_missing_lines_are_reported(run, capsys) -> None:
    """A manifest says how many rows follow, a run that has ended how many lines each segment has."""
    damage.forget()
    folder, rows = run
    for writer, row in zip(("a", "b"), rows, strict=True):
        with store.Journal(folder, writer) as journal:
            journal.append(result(row))
            journal.append(result(row, attempt=2))
    manifest, second = folder / "manifest.jsonl", folder / "journal" / "b.jsonl"
    store.write_run(folder, record(ended=now()))
    assert [len(store.load_run(folder).tests), damage.losses()] == [2, 0]
    second.write_bytes(second.read_bytes().splitlines(keepends=True)[0])
    manifest.write_bytes(b"".join(manifest.read_bytes().splitlines(keepends=True)[:2]))
    header, kept = store.read_manifest(folder)
    assert (header.models, [row.op_id for row in kept]) == (("toy",), ["b"])
    assert [test.attempt for test in store.read_journal(folder)] == [1, 2, 1]
    said = capsys.readouterr().err
    assert "manifest.jsonl: damaged (1 lines instead of 2)" in said
    assert "journal/b.jsonl: damaged (1 lines instead of 2)" in said
    second.unlink()
    assert len(list(store.read_journal(folder))) == 2
    assert "journal/b.jsonl: damaged (no such file)" in capsys.readouterr().err
    assert damage.losses() == 3
    manifest.write_bytes(b"")
    with pytest.raises(InputError, match="expected a manifest, got an empty file; try running the models again"):
        store.read_manifest(folder)


def test_lines_that_came_after_a_runs_end_are_no_damage(run, capsys) -> None:
    damage.forget()
    folder, rows = run
    store.write_run(folder, record(ended=now()))
    assert b'\n "run_id": "r1",\n' in (folder / "run.json").read_bytes()
    with store.Journal(folder, "w") as journal:
        journal.append(result(rows[0]))
    assert len(list(store.read_journal(folder))) == 1
    assert (damage.losses(), capsys.readouterr().err) == (0, "")


def test_a_run_without_digests_is_said_to_be_unverified_once(run, capsys) -> None:
    damage.forget()
    folder, rows = run
    with store.Journal(folder, "w") as journal:
        journal.append(result(rows[0]))
    for path in (folder / "manifest.jsonl", folder / "journal" / "w.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text(
            "".join(json.dumps({k: v for k, v in line.items() if k != "digest"}) + "\n" for line in lines).replace(
                '"lines": 2, ', ""
            )
        )
    assert [test.op_id for test in store.load_run(folder).tests] == ["b"]
    unverified = f"opscope: {folder}: unverified (written without digests, by an older opscope)\n"
    assert capsys.readouterr().err == unverified
    assert damage.losses() == 0
    (folder / "journal" / "w.jsonl").write_text("\n{}\n")
    assert list(store.read_journal(folder)) == []
    assert "w.jsonl:2: damaged (" in capsys.readouterr().err


def test_small_files_of_a_run_have_digests_too(tmp_path: Path, capsys) -> None:
    damage.forget()
    path = tmp_path / "plan.json"
    assert store.read_json(path, "a plan") is None
    assert store.write_json(path, {"a": [1]}) == path
    assert store.read_json(path, "a plan") == {"a": [1]}
    assert capsys.readouterr().err == ""
    whole = path.read_bytes()
    assert whole.endswith(b'"a": [\n  1\n ]\n}\n')
    for content, got in ((whole.replace(b"[", b"]"), "another content"), (b"{", "something else (")):
        path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            store.read_json(path, "a plan")
        assert str(caught.value).startswith(f"{path}: expected a plan, got {got}")
        assert str(caught.value).endswith("; try a copy of the run folder, or a new run")
    path.write_text("[3]")
    assert store.read_json(path, "a plan") == [3]
    assert f"{tmp_path}: unverified" in capsys.readouterr().err
    with pytest.raises(InputError, match="got Is a directory; try another --out"):
        store.write_json(tmp_path, {}, "another --out")


def test_a_model_that_ran_whole_counts_by_its_last_record(run) -> None:
    folder, rows = run
    first = result(rows[0]).model_copy(update={"op_name": "model", "model_name": "m"})
    (folder / store.WHOLE_FILE).write_bytes(store.line_of(first))
    later = first.model_copy(update={"status": Status.CRASHED})
    other = first.model_copy(update={"backend": "xla"})
    assert store.whole_models(folder, []) == [first]
    assert store.whole_models(folder, [later, result(rows[1]), other]) == [later, other]


def test_results_of_devices_are_kept_up_to_a_size_and_the_largest_go_first(run) -> None:
    folder, _ = run
    sizes = {"a": 5, "b": 3, "c": 4}
    place = folder / "artifacts" / "x" / "compare-null"
    place.mkdir(parents=True)
    for limit, kept in ((None, "abc"), (12, "abc"), (11, "bc"), (7, "bc"), (6, "b"), (2, "")):
        for name, size in sizes.items():
            (place / f"result-{name}.npy").write_bytes(b"x" * size)
        (place / "compare.txt").write_bytes(b"x" * 100)
        options = {} if limit is None else {"repro_size": limit}
        store.write_run(folder, record(ended=now()).model_copy(update={"origin": Origin(options=options)}))
        assert "".join(sorted(path.stem[-1] for path in place.glob("*.npy"))) == kept
        assert (place / "compare.txt").exists()


def test_a_manifest_tells_which_of_its_lines_have_a_digest_and_need_not_say_how_many_there_are(run) -> None:
    damage.forget()
    folder, _ = run
    path = folder / "manifest.jsonl"
    assert [line.verified for line in store.lines_of_manifest(folder)] == [True] * 3
    _, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header(folder).model_dump_json().encode() + b"\n" + b"".join(rest))
    assert [line.verified for line in store.lines_of_manifest(folder)] == [False, True, True]
    path.write_bytes(stored.sealed(header(folder).model_dump_json()) + b"\n")
    assert store.read_manifest(folder) == (header(folder), [])
    assert damage.losses() == 0


def test_a_second_row_of_an_op_is_reported_as_damage_and_ignored(run):
    folder, rows = run
    path = folder / store.MANIFEST_FILE
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[-1])
    damage.forget()
    assert [row.op_id for row in store.read_manifest(folder)[1]] == [row.op_id for row in rows]
    assert damage.losses() == 1, "the exit code says it"
    damage.forget()

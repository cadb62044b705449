"""Kept verdicts: found again only where nothing changed that could change them, and told as this run's own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opscope.base import stored
from opscope.harness.backends import life, registry
from opscope.harness.cache import verdict_fingerprint
from opscope.harness.cache.json_store import JsonStore
from opscope.harness.climb import result_cache
from opscope.harness.climb.result_cache import ResultCache, key
from opscope.harness.engine.climber import Climber, Terms
from opscope.harness.lanes.flight import Ready
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.record import artifacts, lowered_ir, store
from opscope.harness.record.optest import RunContext, build_test, now
from opscope.harness.record.records import VOLATILE, OpRow, OpTest
from opscope.harness.record.stages import Stage, Status
from opscope.harness.run.api import run_op_by_op
from opscope.harness.tests.ops import FAULTY, NOTHING_READ, add_row
from opscope.harness.tests.own_backend import own_backend

READY = Ready(
    "sim-n150", "reference-1", (Stage.COMPILE, Stage.RUN), "", "HiFi4", "1-abc", lasting=True, read=NOTHING_READ
)


def context(folder: Path, **changes: Any) -> RunContext:
    return RunContext(changes.pop("run_id", "first"), str(folder / "run"), **changes)


def ask(asked: RunContext, **options: Any) -> RunContext:
    return replace(asked, options=asked.options.changed(**options))


def verdict(row: OpRow, asked: RunContext, status: Status = Status.SUCCESS, **fields: Any) -> OpTest:
    return build_test(row, asked, status=status, started=now(), **fields)


CHANGES = {
    "op": lambda row, asked, ready: (row.model_copy(update={"op_id": "x"}), asked, ready),
    "values": lambda row, asked, ready: (row.model_copy(update={"provenance": "captured:other:0:0"}), asked, ready),
    "seed": lambda row, asked, ready: (
        row.model_copy(update={"sources": tuple(s.model_copy(update={"seed": 1}) for s in row.sources)}),
        asked,
        ready,
    ),
    "golden": lambda row, asked, ready: (row.model_copy(update={"golden": ()}), asked, ready),
    "backend": lambda row, asked, ready: (row, replace(asked, backend="xla"), ready),
    "board": lambda row, asked, ready: (row, ask(asked, arch="p150"), ready),
    "format": lambda row, asked, ready: (row, ask(asked, data_format="Bfp8_b"), ready),
    "fidelity": lambda row, asked, ready: (row, ask(asked, math_fidelity="LoFi"), ready),
    "until": lambda row, asked, ready: (row, ask(asked, until="run"), ready),
    "compiler": lambda row, asked, ready: (row, asked, replace(ready, fingerprint="reference-2")),
    "verdict_fingerprint": lambda row, asked, ready: (row, asked, replace(ready, verdict_fingerprint="2-abc")),
    "card": lambda row, asked, ready: (row, asked, replace(ready, card_type="sim-p150")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_could_change_a_verdict_is_in_its_key(tmp_path: Path, change: str) -> None:
    arguments = add_row(tmp_path, "a"), context(tmp_path), READY
    assert key(*arguments) != key(*CHANGES[change](*arguments))


def test_what_cannot_change_a_verdict_is_not(tmp_path: Path) -> None:
    row, asked = add_row(tmp_path, "a"), context(tmp_path)
    moved = row.model_copy(
        update={
            "uses": row.uses * 2,
            "frontend": "other",
            "module": "elsewhere",
            "sources": tuple(s.model_copy(update={"path": "elsewhere"}) for s in row.sources),
        }
    )
    assert key(row, asked, replace(READY, commit={"revision": "abc"})) == key(row, asked, READY)
    assert key(moved, replace(asked, run_id="r9", run_dir="/elsewhere"), READY) == key(row, asked, READY)


def test_a_hit_is_this_runs_record_with_the_verdict_of_that_one(tmp_path: Path) -> None:
    first, second = context(tmp_path), replace(context(tmp_path), run_id="second", run_dir=str(tmp_path / "two"))
    row = add_row(tmp_path, "a")
    diagnostic = tmp_path / "run" / "artifacts" / "a" / "compile.mlir"
    diagnostic.parent.mkdir(parents=True)
    diagnostic.write_text("the whole story\n")
    kept = verdict(
        row,
        first,
        Status.COMPILE_FAILED,
        error="no kernel",
        failed_stage=Stage.COMPILE,
        artifact="artifacts/a/compile.mlir",
        attempt=3,
    )
    ResultCache(tmp_path / "cache", first, READY).keep(row, kept, READY)
    used_more = add_row(tmp_path, "a", uses=2)
    hit = ResultCache(tmp_path / "cache", second, READY).find(used_more)
    assert hit is not None
    assert (hit.run_id, hit.cached_from, hit.attempt, hit.uses, kept.uses) == ("second", "first", 1, 2, 1)
    assert len(hit.locations) == 2
    assert (tmp_path / "two" / str(hit.artifact)).read_text() == "the whole story\n"
    assert "--run-dir second" in hit.repro
    varies = VOLATILE | {"uses", "locations"}
    assert hit.model_dump(exclude=set(varies)) == kept.model_dump(exclude=set(varies))
    # A chain of hits names the run that did the work.
    again = ResultCache(tmp_path / "cache", replace(second, run_id="third"), READY).find(row)
    assert again is not None
    assert again.cached_from == "first"


LASTING = {"success", "passed", "compile_failed", "run_failed", "wrong_result", "golden_in_doubt"}


@pytest.mark.parametrize(
    ("status", "reached"), [*((status, Stage.RUN) for status in Status), (Status.STOPPED, Stage.COMPILE)]
)
def test_only_what_an_op_will_do_again_is_kept(tmp_path: Path, status: Status, reached: Stage) -> None:
    row, asked = add_row(tmp_path, "a"), context(tmp_path)
    cache = ResultCache(tmp_path / "cache", asked, READY)
    ended = verdict(row, asked, status, error="it said so", stage_reached=reached)
    cache.keep(row, ended, READY)
    assert cache.has(row) == (cache.find(row) is not None) == (ended.status in LASTING)
    assert (ended.status == "passed") == (status == "passed" or reached is Stage.COMPILE)


def test_an_op_needs_a_lane_unless_its_record_or_its_verdict_is_there(tmp_path: Path) -> None:
    kept, recorded, other = (add_row(tmp_path, name) for name in ("kept", "recorded", "other"))
    asked = context(tmp_path)
    cache = ResultCache(tmp_path / "cache", asked, READY)
    cache.keep(kept, verdict(kept, asked), READY)
    lane = Lane(LaneConfig(asked, {"toy": str(tmp_path)}))
    known = {recorded.op_id: verdict(recorded, asked)}
    for terms, needing in (
        (Terms(), [kept, recorded, other]),
        (Terms(cache), [recorded, other]),
        (Terms(recorded=known), [kept, other]),
        (Terms(cache, known), [other]),
    ):
        climber = Climber(asked, lane, store.Journal(Path(asked.run_dir), "main"), terms)
        assert [row for row in (kept, recorded, other) if climber.needs_lane(row)] == needing


@pytest.mark.parametrize("error", ["MemoryError: ", "internal error: OSError: x", "FileNotFoundError: [Errno 2] gone"])
def test_what_the_machine_did_is_not(tmp_path: Path, error: str) -> None:
    row, asked = add_row(tmp_path, "a"), context(tmp_path)
    cache = ResultCache(tmp_path / "cache", asked, READY)
    cache.keep(row, verdict(row, asked, Status.RUN_FAILED, error=error), READY)
    assert not cache.has(row)


def test_a_damaged_entry_and_kept_ir_are_misses(tmp_path: Path) -> None:
    row, asked = add_row(tmp_path, "a"), context(tmp_path)
    cache = ResultCache(tmp_path, asked, READY)
    cache.keep(row, verdict(row, asked), READY)
    assert cache.find(row) is not None
    assert ResultCache(tmp_path, replace(asked, keep_ir=True), READY).find(row) is None
    assert ResultCache(tmp_path, asked, None).find(row) is None
    path = JsonStore(tmp_path / "results").place(key(row, asked, READY))
    whole = path.read_bytes()
    for text in (whole[:-9], b"", b"[]", b"{}", whole.replace(b'"success": true', b'"success": 7')):
        path.write_bytes(text)
        assert cache.find(row) is None


def test_with_the_ir_an_op_that_ran_with_keep_ir_is_kept(tmp_path: Path) -> None:
    row, before = add_row(tmp_path, "a"), replace(context(tmp_path), keep_ir=True, run_dir=str(tmp_path / "before"))
    later = replace(before, run_dir=str(tmp_path / "later"))
    texts = {"z.mlir": "first\n" * 9999, "a.mlir": "second\n"}
    for age, (name, text) in enumerate(texts.items()):
        path = artifacts.write(before.run_dir, row.op_id, f"ir-reference/{name}", text)
        os.utime(Path(before.run_dir, path or ""), (age, age))
    cache = ResultCache(tmp_path, before, READY)
    cache.keep(row, verdict(row, before), READY)
    folder = Path(later.run_dir, artifacts.ARTIFACT_DIR, row.op_id, "ir-reference")
    assert ResultCache(tmp_path, replace(later, keep_ir=False), READY).find(row) is not None
    assert not folder.exists()
    assert ResultCache(tmp_path, later, READY).find(row) is not None
    assert {file.name: file.read_text() for file in folder.iterdir()} == texts
    assert lowered_ir.last_ir(folder) == folder / "a.mlir", "the newest is the last, as where it was made"
    (Path(before.run_dir, artifacts.ARTIFACT_DIR, row.op_id, "ir-reference") / "link").symlink_to("/etc/passwd")
    cache.keep(row, verdict(row, before), READY)
    assert ResultCache(tmp_path, later, READY).find(row) is None, "what cannot be kept whole is made again"


def test_lane_and_kept_verdicts_agree_and_a_crash_is_never_kept(tmp_path: Path) -> None:
    rows = [
        add_row(tmp_path, name, text)
        for name, text in (
            ("good", b"fine"),
            ("wrong", b"run:wrong"),
            ("refused", b"compile:refuse"),
            ("dead", b"run:sigsegv"),
        )
    ]
    runs = []
    for name in ("one", "two"):
        asked = RunContext(name, str(tmp_path / name), FAULTY)
        with Lane(LaneConfig(asked, {"toy": str(tmp_path)})) as lane:
            terms = Terms(ResultCache(tmp_path / "cache", asked, lane.ready()))
            with Climber(asked, lane, store.Journal(Path(asked.run_dir), "main"), terms) as climber:
                runs.append([climber.climb(row)[0] for row in rows])
            starts = lane.starts
    assert [test.status.value for test in runs[1]] == ["success", "wrong_result", "compile_failed", "crashed"]
    assert [test.cached_from for test in runs[1]] == ["one", "one", "one", ""]
    assert starts == 1, "the crash was the only op of the second run"
    for one, two in zip(*runs, strict=True):
        assert one.model_dump(exclude=set(VOLATILE)) == two.model_dump(exclude=set(VOLATILE))
        if two.artifact and two.cached_from:
            assert (tmp_path / "two" / two.artifact).read_text() == (tmp_path / "one" / str(one.artifact)).read_text()


PICKY = own_backend(
    "picky",
    """
    if b"tanh" in job.module:
        (x,) = job.inputs
        job.outputs, job.ran_on = [np.tanh(np.maximum(x, 0))], "host"
    """,
    stages="Stage.RUN",
    at="host",
    top="import numpy as np",
)
"""Gets tanh right where its input is not negative: one op, two verdicts."""


def module(operation: str) -> str:
    return f"""module @m {{ func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
        %0 = stablehlo.{operation} %x : tensor<8xf32>
        %1 = stablehlo.tanh %0 : tensor<8xf32>
        return %1 : tensor<8xf32> }} }}"""


@pytest.mark.slow
def test_one_op_id_with_other_values_in_another_model_keeps_its_own_verdict(tmp_path: Path) -> None:
    backend = tmp_path / "picky.py"
    backend.write_text(PICKY)

    def tanh(run: str, operation: str) -> OpTest:
        tests = run_op_by_op(
            module(operation),
            backend=str(backend),
            cache_dir=tmp_path / "cache",
            run_dir=tmp_path / f"{run}-{operation}",
            name="same_name",
        )
        return next(test for test in tests if test.op_name == "stablehlo.tanh")

    first = {word: tanh("one", word) for word in ("abs", "negate")}
    assert len({test.op_id for test in first.values()}) == 1
    assert {word: test.status.value for word, test in first.items()} == {"abs": "success", "negate": "wrong_result"}
    for word, test in first.items():
        again = tanh("two", word)
        assert (again.status, again.cached_from) == (test.status, test.run_id)
    # The file of a backend that is given by its path is part of the key, whatever its fingerprint says.
    backend.write_text(PICKY.replace("np.maximum(x, 0)", "x"))
    mended = tanh("three", "negate")
    assert (mended.status.value, mended.cached_from) == ("success", "")


# --- what a backend said


def test_a_verdict_is_kept_until_a_source_or_an_option_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = context(tmp_path)
    for name in ("compiler/passes/a.py", "simulator/b.py", "harness/c.py", "models/d.py", "compiler/boards/e.yaml"):
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    monkeypatch.setattr(verdict_fingerprint, "room", lambda name: tmp_path / "src" / name)
    result_cache.note(tmp_path, asked, replace(READY, lasting=False))
    assert result_cache.recall(tmp_path, asked) is None, "it did not say that it lasts"
    result_cache.note(tmp_path, asked, READY)
    assert result_cache.recall(tmp_path, replace(asked, run_id="r2", run_dir="/r2")) == READY
    assert result_cache.recall(tmp_path, replace(asked, backend="xla")) is None
    for change in ({"arch": "p150"}, {"data_format": "Bfp8_b"}, {"until": "run"}, {"amp_level": 2}):
        assert result_cache.recall(tmp_path, ask(asked, **change)) is None
    for path in sorted((tmp_path / "src").rglob("*.*")):
        path.write_text("changed")
        assert result_cache.recall(tmp_path, asked) is None, path
        path.write_text("")
    assert result_cache.recall(tmp_path, asked) == READY


@pytest.mark.slow
def test_a_yaml_file_is_recalled_while_its_compiler_is_the_same_and_its_commit_is_todays(tmp_path):
    tool, file, commit = tmp_path / "tool", tmp_path / "mine.yaml", tmp_path / "commit"
    tool.write_text("#!/bin/sh\nexit 0\n")
    tool.chmod(0o700)
    words = f"{{name: lower, command: ['{tool}', '{{input}}', '{{output}}']}}"
    file.write_text(f"version: [cat, '{tmp_path}/version']\nrevision: [cat, commit]\nstages: [{words}]\n")
    (tmp_path / "version").write_text("1")
    commit.write_text("abc")
    asked = RunContext("r", "/r", str(file))
    opened = life.open_(str(file), registry.load(str(file)), asked.options)
    ready = replace(READY, fingerprint=opened.fingerprint, commit=opened.commit)
    result_cache.note(tmp_path, asked, ready)
    assert (result_cache.recall(tmp_path, asked), ready.commit) == (ready, {"revision": "abc"})
    commit.write_text("def-dirty")
    recalled = result_cache.recall(tmp_path, asked)
    assert recalled is not None
    assert recalled.commit == {"revision": "def", "dirty": "yes"}
    commit.unlink()
    assert "expected its revision, got exit code 1" in result_cache.recall(tmp_path, asked).commit["problem"]
    for changed, text in ((tmp_path / "version", "2"), (tool, "#!/bin/sh\nexit 1\n"), (file, "stages: wrong")):
        before = changed.read_text()
        changed.write_text(text)
        assert result_cache.recall(tmp_path, asked) is None, changed
        changed.write_text(before)
    assert result_cache.recall(tmp_path, asked).fingerprint == ready.fingerprint


# --- the shelf


HAMMER = """
import sys
from pathlib import Path
from opscope.harness.cache.json_store import JsonStore

shelf, bad = JsonStore(Path(sys.argv[1])), 0
for turn in range(150):
    name = f"ab{turn % 5}"
    shelf.put(name, {"text": "x" * 5000})
    value = shelf.get(name)
    bad += value is None or len(value["text"]) != 5000
print(bad)
"""


def test_two_processes_never_see_half_of_a_value(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HAMMER, str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [child.communicate()[0] for child in both] == ["0\n", "0\n"]
    assert {path.name for path in (tmp_path / "ab").iterdir()} == {f"ab{n}.json" for n in range(5)}


def test_a_shelf_that_cannot_be_written_is_only_a_miss(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shelf = JsonStore(tmp_path / "file")
    shelf.put("abc", {"a": 1})
    assert shelf.get("abc") is None
    assert not shelf.has("abc")


def test_a_kept_verdict_rests_on_the_values_that_it_was_made_with(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    row, asked, folder = add_row(tmp_path / "toy", "a"), context(tmp_path), tmp_path / "toy"
    stored.seal(folder, "toy")
    cache = ResultCache(tmp_path / "cache", asked, READY, {"toy": str(folder)})
    cache.keep(row, verdict(row, asked), READY)
    assert cache.find(row) is not None
    assert ResultCache(tmp_path / "cache", asked, READY).find(row) is not None, "values that are not known here"
    assert capfd.readouterr().err == ""
    (folder / "values" / "sum.npy").write_bytes(b"another golden")
    stored.seal(folder, "toy")
    assert cache.find(row) is None
    assert "its cached verdict rests on other values; it runs again" in capfd.readouterr().err

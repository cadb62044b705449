"""Run folders from elsewhere: through every command their texts act on nothing, and no id of theirs leaves a folder."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opscope.base import stored
from opscope.harness.cli.main import root
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.sample_run import make_run, op_id

HOSTILE = (
    "\x1b]0;t\x07\x1b[2J\x9b31m\x00\x7f\u202eevil\u2066\ud800\r\b\n\tx\U000e0041 %s %n {} {0} [red]x[/red] [/] "
    "<b>&amp; |`"
)
OWN_STAGES = {"stablehlo-to-ttir": "lower", "ttir-to-ttnn": "assemble", "ttnn-to-flatbuffer": "link.it"}
"""Stage of the sample -> the word of somebody else's backend, as in docs/backends.md."""
KEPT = frozenset(
    {
        "schema_version",
        "run_id",
        "op_id",
        "test_start_ts",
        "test_end_ts",
        "status",
        "stage_reached",
        "failed_stage",
        "backend",
        "artifact",
        "module",
        "golden",
        "started",
        "ended",
        "outcome",
        "stages",
        "arch",
        "kind",
        "export_dirs",
        "models",
        "model",
        "model_name",
        "path",
        "workflow",
        "options",
    }
)
"""Fields that are checked, or by which commands find the run; every other text is made hostile."""
TENSOR = op_id(2)

COMMANDS = (
    "show one",
    "show one --json",
    "publish one",
    "publish two",
    f"show {TENSOR}",
    f"show {TENSOR} --json",
    "show demo",
    "diff one two",
    "diff --json one two",
    "unblock",
    "unblock --json",
    "readiness demo",
    "report one",
    "sql top_errors",
    "sql top_errors --csv",
    "sql top_errors --json",
    "status",
    "costs one",
    "db stats",
    "export one --format csv -o -",
    "export one --format junit -o -",
    "export one --format optest-json --job-id 5 -o -",
    "export one --format builder-xml --job-id 5 -o out",
    "limitations update one",
    f"repro {TENSOR} --run one",
    f"reduce {TENSOR} --run one",
    "merge one two --into joined",
    "clean --dry-run",
)


def invoke(command: str) -> Result:
    return CliRunner().invoke(root, command.split())


def hostile(value: Any) -> Any:
    match value:
        case dict():
            return {name: item if name in KEPT else hostile(item) for name, item in value.items()}
        case list():
            return [hostile(item) for item in value]
        case str():
            return HOSTILE + value
        case _:
            return value


def changed(path: Path, change: Callable[[Any], Any], line: int | None = None) -> None:
    """Rewrites the values of a file of a run, or of one of its lines, with digests, as somebody who can count them."""
    lines = [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines()
    for number in range(len(lines)) if line is None else [line]:
        values = json.loads(lines[number])
        sealed = stored.is_sealed(lines[number].encode())
        if sealed:
            values.pop(next(iter(values)))
        text = json.dumps(change(values))
        lines[number] = stored.sealed(text).decode() if sealed else text
    path.write_text("\n".join(lines) + "\n")


def own_stages(run_dir: Path) -> None:
    def renamed(values: Any) -> Any:
        text = json.dumps(values)
        for stage, word in OWN_STAGES.items():
            text = text.replace(f'"{stage}"', f'"{word}"')
        return json.loads(text)

    for name in ("journal/main.jsonl", "manifest.jsonl"):
        changed(run_dir / name, renamed)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def acts(text: str) -> set[str]:
    return {c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


def check(result: Result, command: str) -> None:
    """It has an answer, or says in one line what is wrong; and what it writes acts on nothing."""
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        assert isinstance(error, InputError), (command, repr(error))
        assert not acts(str(error)), command
    assert not acts(result.output), command


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, but the names of fields."""
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(item)


@pytest.mark.slow
def test_texts_and_stages_of_others_pass_through_every_command(folder: Path) -> None:
    for name in ("one", "two"):
        run_dir = make_run(folder / name, run_id=name)
        for file in ("run.json", "manifest.jsonl", "journal/main.jsonl"):
            changed(run_dir / file, hostile)
        own_stages(run_dir)
    for command in COMMANDS:
        check(invoke(command), command)
    page = (folder / "one" / "report.html").read_text()
    assert not acts(page) & acts(HOSTILE)
    data = page.partition('<script type="application/json" id="data">')[2].partition("</script>")[0]
    assert not acts("".join(_texts(json.loads(data))))
    answer = CliRunner().invoke(root, ["sql", "SELECT DISTINCT stage_reached AS s FROM op_tests", "--json"])
    assert {"lower", "assemble", "link.it"} <= {row["s"] for row in json.loads(answer.output)}


BAD_IDS = {
    "run_id": ("../../x", "..", "a/b", "x\x1b", ""),
    "op_id": ("../..", "a/b", "\n"),
    "backend": ("../../b", ""),
    "artifact": ("../../../etc/passwd", "/etc/passwd", "a/../../b"),
    "attempt": (2**70, -(2**70)),
    "cycles": (2**64, 10**400),
    "stage_reached": ("../x", "UP"),
}


@pytest.mark.parametrize(("field", "value"), [(name, value) for name, values in BAD_IDS.items() for value in values])
def test_a_record_that_leaves_its_folder_or_64_bits_is_refused_by_name(folder: Path, field: str, value: object) -> None:
    run_dir = make_run(folder / "inner" / "run", run_id="run")
    changed(run_dir / "journal" / "main.jsonl", lambda test: {**test, field: value}, line=2)
    before = {path for path in folder.rglob("*") if "opscope" not in path.name}
    for command in ("publish inner/run", "export inner/run --format csv -o out", "show inner/run"):
        result = invoke(command)
        if isinstance(result.exception, InputError):
            assert "main.jsonl:3" in str(result.exception)
        else:
            assert result.exit_code in (0, 1, 2)
            assert result.exception is None or isinstance(result.exception, SystemExit)
    allowed = {folder / "out", folder / "out" / "run.csv"}
    assert {path for path in folder.rglob("*") if "opscope" not in str(path.relative_to(folder))} <= before | allowed


@pytest.mark.parametrize("value", ["../../x", "..", "x\x1b"])
def test_a_run_whose_id_is_a_path_writes_nothing(folder: Path, value: str) -> None:
    run_dir = make_run(folder / "inner" / "run", run_id="run")
    changed(run_dir / "run.json", lambda run: {**run, "run_id": value})
    for command in ("export inner/run --format csv", "export inner/run --format junit", "publish inner/run"):
        error = invoke(command).exception
        assert error is not None
        assert not list(folder.rglob("x.*"))
    with pytest.raises(InputError, match=r"run\.json: expected a RunRecord, got run_id"):
        publish(run_dir, f"sqlite:///{folder}/db.sqlite")


@pytest.mark.parametrize("name", ["run.json", "manifest.jsonl", "journal/main.jsonl"])
def test_a_pipe_or_a_device_in_place_of_a_file_is_one_line(folder: Path, name: str) -> None:
    for kind in ("pipe", "device"):
        path = make_run(folder / kind, run_id=kind) / name
        path.unlink()
        os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
        with pytest.raises(InputError, match="no regular file"):
            publish(folder / kind, f"sqlite:///{folder}/db.sqlite")


def test_half_a_surrogate_pair_is_kept_as_an_escape(folder: Path) -> None:
    run_dir = make_run(folder / "run", run_id="run")
    changed(run_dir / "journal" / "main.jsonl", lambda test: {**test, "error_message": "a\ud800b"}, line=2)
    publish(run_dir, fresh(folder / "db.sqlite"))
    query = "SELECT error_message AS e FROM op_tests WHERE error_message LIKE 'a%'"
    answer = CliRunner().invoke(root, ["sql", query, "--json", "--db", "sqlite:///db.sqlite"])
    assert json.loads(answer.output) == [{"e": "a\\ud800b"}]


def test_an_artifact_that_leaves_its_run_by_a_link_is_refused(folder: Path) -> None:
    secret = folder / "secret"
    secret.write_text('{"op_id": "x", "verdict": "jump"}')
    run_dir = make_run(folder / "run", run_id="run")
    (run_dir / "artifacts").mkdir()
    (run_dir / "artifacts" / "leak").symlink_to(folder)
    values = {"artifact": "artifacts/leak/secret", "op_name": "model", "intermediates": 1}
    changed(run_dir / "journal" / "main.jsonl", lambda test: {**test, **values}, line=2)
    result = CliRunner().invoke(root, ["show", "run"])
    expected = "run/artifacts/leak/secret: damaged (a path that leads out of its folder, or by a link)"
    assert expected in result.output
    # The same folder as a share: what the link leads to is not copied.
    share = {"index": 1, "of": 1, "division": "", "ops": ["leak"], "seconds": 0.0, "all_seconds": 0.0}
    store.write_json(run_dir / "shard.json", share)
    error = invoke("merge run --into joined").exception
    assert isinstance(error, InputError)
    assert "a path that leads out of its folder, or by a link" in str(error)
    assert not (folder / "joined" / "artifacts").exists()
    (folder / "out").mkdir()
    (folder / "out" / "run.csv").symlink_to(secret)
    error = invoke("export run --format csv -o out").exception
    assert isinstance(error, InputError)
    assert "out/run.csv: expected a writable place, got a path that leads out" in str(error)
    assert secret.read_text().startswith("{")

"""Wrong calls of every verb: one line on stderr that begins with the command and says what to try, and nothing written.

A hint that is a command is run. Wrong calls of pytest's own options of a run are in
harness/tests/acceptance/test_endings.py.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from opscope.base import damage
from opscope.base.tests.in_this_process import in_this_process
from opscope.harness.cli import read_file
from opscope.harness.cli.main import main, root
from opscope.reports.publish.publish import publish
from opscope.reports.tests.nights import Op, night

DB = "--db sqlite:///d.sqlite"
CALLS = (
    # no such command, option, argument
    "shwo",
    "dashboard strat",
    "show one two three",
    "plan m.mlir --archh n150",
    "sql --db",
    "readiness",
    "diff --json=3",
    # a value of another kind
    "sql --limit -3 'select 1'",
    "sql --limit many 'select 1'",
    "unblock --by model",
    "export --format xml",
    "plan m.mlir --chips 0",
    "plan m.mlir --arch n15",
    "plan m.mlir --data-format Float12",
    "plan m.mlir --policy Best",
    "compile m.mlir --optimization-level 7",
    "compile m.mlir --math-fidelity HiFi9",
    "compile m.mlir --to elf",
    "simulate m.ttnn --seed -1",
    "simulate empty",
    "demo --until yesterday",
    "demo --nights 0",
    "nightly --started noon",
    "gate --budget 10",
    "reduce 0123 --budget soon",
    "status --max-age 3",
    "db prune --keep 180",
    "artifacts serve --port 99999",
    "score suite:onnx -n 0",
    "decode gpt9",
    "ops sofmax",
    "device show n151",
    "netlist empty --loops 0",
    "benchmark -d gpu",
    "clean --keep-runs -1",
    "clean --max-cache big",
    # no such file, a folder, an empty file, one of bytes
    "compile nowhere.mlir",
    "compile folder",
    "compile empty",
    "compile bytes",
    "opt nowhere.mlir -p stablehlo-to-ttir",
    "plan nowhere.yaml",
    "plan folder",
    "netlist nowhere.yaml",
    "netlist bytes",
    "run-image bytes",
    "replay folder",
    "diff-tensors nowhere.npy other.npy",
    "limitations check nowhere",
    "limitations list --limitations bytes",
    "costs nowhere",
    "merge nowhere --into joined",
    "publish nowhere --to sqlite:///new.sqlite",
    "publish run --night nowhere.json --to sqlite:///new.sqlite",
    "nightly nowhere.yaml --dry-run",
    "gate --config bytes",
    "backend check nowhere.yaml",
    "backend new mine.txt",
    f"unblock --owners nowhere.yaml {DB}",
    f"show {'0' * 16} --db sqlite:///empty",
    "sql 'select 1' --db sqlite:///nowhere.sqlite",
    "sql 'select 1' --db mysql://host/name",
    # no such run, op, model, night, series, question
    f"show nosuch {DB}",
    f"show {'0' * 16} {DB}",
    f"report 2020-01-01 {DB}",
    f"diff 2020-01-01 2020-01-02 {DB}",
    f"diff nosuch {DB}",
    f"diff xla@0.10.1 tt@0.1.2 {DB}",
    f"diff --since 2020-01-01 {DB}",
    f"diff --since soon {DB}",
    f"diff --cause 99999999 {DB}",
    f"readiness nosuch {DB}",
    f"unblock nosuch {DB}",
    f"sql nosuch {DB}",
    f"sql 'drop table runs' {DB}",
    f"sql 'select nosuch from runs' {DB}",
    f"sql 'select * from nosuch' {DB}",
    f"sql 'select 1; select 2' {DB}",
    f"sql top_errors --json --csv {DB}",
    f"export nosuch --format csv {DB}",
    "repro 0123 --run nowhere",
    "repro nosuch",
    "probe nosuch",
    "bisect nosuch --good HEAD~1 --bad HEAD",
    "mcp --db sqlite:///nowhere.sqlite",
    "dashboard up --db sqlite:///nowhere.sqlite",
    "image nowhere.mlir",
    "models nosuch",
    "config nosuch",
    "doctor --backend nosuch",
    "agents --write folder",
    # values at their limits, options that change nothing, files of another kind
    "ops --against bytes",
    "ops --against-run nowhere",
    "compile m.mlir --mesh 99999x99999",
    "compile m.mlir --argument-types input",
    "compile m.mlir --argument-types input --optimization-level 1 --to ttir",
    "compile m.mlir --argument-types nosuch --optimization-level 1",
    "compile latin.mlir",
    "plan m.mlir --target-cycles -1",
    "plan m.mlir --op nosuch",
    "diff-tensors bytes bytes",
    "diff-tensors empty empty",
    "diff-tensors bytes bytes --above nan",
    f"sql 'select 1' --timeout nan {DB}",
    f"sql 'select 1' --timeout inf {DB}",
    f"sql 'select randomblob(1000000000)' {DB}",
    "limitations update run --expires 2020-01-01",
    "publish run --to sqlite://",
    "publish run --to sqlite:///:memory:",
    "merge run --into joined --publish sqlite://",
    f"publish run --shard 2 --to {DB.split()[1]}",
    "publish --night empty --to sqlite:///new.sqlite",
    "publish run --night empty --to sqlite:///new.sqlite",
    f"db prune --keep 0d {DB}",
    f"db prune --keep 99999999999w {DB}",
    f"scoreboard -o empty {DB}",
    "dashboard restore nowhere",
)
PLACEHOLDER = re.compile(r"\b[A-Z][A-Z_]*\b|\.\.\.")
WRITES = frozenset({"publish", "demo", "clean", "nightly", "history", "backend", "agents", "dashboard", "pytest"})
"""Verbs that a hint may name, and that a test does not run for it."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, its database, and files of many kinds."""
    folder = tmp_path_factory.mktemp("place")
    run = night(folder, 1, {"add": Op(uses={"a": 1}), "exp": Op("crashed", uses={"a": 2})})
    run.rename(folder / "run")
    publish(folder / "run", f"sqlite:///{folder}/d.sqlite")
    (folder / "folder").mkdir()
    (folder / "empty").write_text("")
    (folder / "bytes").write_bytes(bytes(range(256)))
    (folder / "latin.mlir").write_bytes(b"// caf\xe9\n")
    (folder / "m.mlir").write_text(
        "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %a : tensor<4xf32>\n}\n"
    )
    return folder


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_call_is_one_line_with_a_hint_that_works(
    call: str, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    damage.forget()
    before = written(place)
    words = shlex.split(call)
    with in_this_process(read_file):  # but for those of its hint
        code, out, err = called(words, capfd)
    assert (code, out) == (2, ""), (out, err)
    (line,) = err.splitlines()
    hint = line.partition("; try ")[2]
    assert line.startswith(f"{root.called(words)[0]}: "), line
    assert "--help" not in hint, line
    assert "expected " in line and " got" in line and hint, line  # noqa: PT018
    assert written(place) == before
    for text in re.findall(r"`(opscope [^`]*)`", hint) or re.findall(r"^opscope .*", hint):
        check_command(text.removeprefix("opscope "), capfd)


def check_command(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A hint that is a command does not end in another wrong call."""
    words = shlex.split(re.split(r"[;,] | with | on the machine| or |, which", text)[0])
    whole = len(words) > 1 and words[0] not in WRITES and not PLACEHOLDER.search(text)
    if "--help" in words or whole:
        code, _, err = called(words, capfd)
        assert code != 2, err
    else:
        assert root.get_command(click.Context(root), words[0]) is not None, text


def called(words: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a call."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    out, err = capfd.readouterr()
    return int(ended.value.code or 0), out, err


def written(folder: Path) -> dict[str, int]:
    """The files below a folder with their sizes."""
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*")}

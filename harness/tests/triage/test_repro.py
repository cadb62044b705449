"""Repro folders of real failures: what is in them, how much room they take, and that they show the failure again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from opscope.base.tests.captured import captured
from opscope.base.tests.own_fork_server import own_fork_server
from opscope.harness.record import run_folders, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow, Source, TensorDesc
from opscope.harness.tests import run_folder
from opscope.harness.tests.faulty_backends import hidden
from opscope.harness.tests.triage.runs import binary, run
from opscope.harness.tests.without_plugins import WITHOUT_PLUGINS
from opscope.harness.triage import after_run, bundle, from_run, in_child
from opscope.harness.triage.cli import repro
from opscope.harness.triage.replay import replay

ROOT = Path(__file__).parents[3]
TWO = """func.func @main(%a: tensor<4x6xf32>, %b: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = stablehlo.add %a, %b : tensor<4x6xf32>
  %1 = stablehlo.multiply %a, %b : tensor<4x6xf32>
  return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
}
"""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory):
    """A run whose two ops are computed wrong, its repro folders with it."""
    folder = tmp_path_factory.mktemp("repro")
    backend = hidden.write(folder, "off_by_one", "True", hidden.WRONG)
    run_dir, tests = run(folder, TWO, backend, repro_size=1 << 20)
    return run_dir, tests


def test_a_failure_leaves_a_complete_repro_folder(failed) -> None:
    run_dir, tests = failed
    assert [test.status for test in tests] == ["wrong_result"] * 2
    folder = after_run.place(run_dir, tests[0])
    left, right = (np.load(folder / "inputs" / f"{n}.npy") for n in (0, 1))
    assert np.array_equal(np.load(folder / "golden" / "0.npy"), left + right)
    assert "stablehlo.add" in (folder / "module.mlir").read_text()
    stored = bundle.read(folder)
    assert stored.failure.same(tests[0])
    assert not stored.failure.same(tests[0].model_copy(update={"error_signature": "0"}))
    assert stored.versions["jaxlib"]
    assert stored.options.backend == "backend/off_by_one.py"
    assert tests[0].error_message in (folder / "README.md").read_text()


def test_equal_values_are_stored_once(failed) -> None:
    run_dir, tests = failed
    first, second = (after_run.place(run_dir, test) / "inputs" / "0.npy" for test in tests)
    assert first.stat().st_ino == second.stat().st_ino


@pytest.mark.slow
def test_a_repro_folder_fails_in_the_same_way_and_passes_elsewhere(failed, tmp_path: Path) -> None:
    run_dir, tests = failed
    folder = tmp_path / "moved"
    shutil.copytree(after_run.place(run_dir, tests[0]), folder)
    again = replay(folder)
    assert (again.code, again.test.error_signature) == (1, tests[0].error_signature)
    assert again.text.startswith("it fails as recorded: wrong_result at compare on off_by_one (host)")
    assert replay(folder, backend="xla").code == 0
    crash = hidden.write(tmp_path, "crash", "True", hidden.CRASH)
    other = replay(folder, backend=crash)
    assert other.code == 3
    assert "recorded: wrong_result at compare" in other.text


@pytest.mark.slow
def test_room_for_values_is_bounded(failed, tmp_path: Path) -> None:
    run_dir, tests = failed
    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy, ignore=shutil.ignore_patterns("repro-*"))
    assert after_run.write_all(copy, 400) == []  # one op takes 3 x 96 bytes
    folders = [after_run.place(copy, test) for test in tests]
    assert sorted((folder / "inputs").is_dir() for folder in folders) == [False, True]
    without = next(folder for folder in folders if not (folder / "inputs").is_dir())
    assert "generated again" in (without / "README.md").read_text()
    assert replay(without).code == 1, "inputs drawn again and a golden computed show the failure too"
    shutil.rmtree(folders[0])
    after_run.write_all(copy, 1 << 20)
    assert (folders[0] / "inputs").is_dir()


def test_one_of_each_cause_comes_first(failed) -> None:
    _, tests = failed
    big = tests[0].model_copy(update={"op_id": "big", "inputs": tests[0].inputs * 9})
    assert [t.op_id for t in after_run.ordered([big, tests[0], tests[1]])][-1] == "big"


def test_the_verb_takes_any_op_of_a_run(failed, tmp_path: Path) -> None:
    run_dir, tests = failed
    out = tmp_path / "a folder"
    words = [tests[1].op_id[:8], "--run", str(run_dir), "--out", str(out)]
    done = CliRunner().invoke(repro, words)
    assert done.stdout == f"{out}\n", done.output
    wrote, again, smaller = done.stderr.splitlines()[-3:]
    assert {*wrote.removeprefix("wrote").strip().split(", ")} == {p.name + "/" * p.is_dir() for p in out.iterdir()}
    assert (again, smaller) == (f"again   sh '{out}'/run.sh", f"smaller opscope reduce '{out}'")
    assert bundle.read(out).failure.same(tests[1])
    (tmp_path / "else").mkdir()
    for words, message in (
        (
            ["nope", "--run", str(run_dir)],
            f"opscope repro: expected the id of an op of {run_dir}, got 'nope'; try --run",
        ),
        ([tests[1].op_id, "--run", str(tmp_path)], "expected a run folder"),
        ([tests[1].op_id, "--run", str(run_dir), "--out", str(tmp_path / "else")], "--out: expected a new folder"),
    ):
        raised = CliRunner().invoke(repro, words).exception
        assert isinstance(raised, InputError)
        assert message in str(raised)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a repro folder, got no"):
        replay(tmp_path)
    (tmp_path / "repro.json").write_text('{"format": 2}')
    with pytest.raises(InputError, match="expected format 1, got format 2; try a newer opscope"):
        replay(tmp_path)
    (tmp_path / "repro.json").write_text("{")
    with pytest.raises(InputError, match="expected a file that opscope repro wrote"):
        replay(tmp_path)


@pytest.mark.slow
def test_run_sh_and_the_test_work_from_a_clean_checkout(failed, tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    run_dir, tests = failed
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(checkout)], check=True)
    folder = tmp_path / "folder"
    shutil.copytree(after_run.place(run_dir, tests[0]), folder)
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "OPSCOPE"))}
    env = {**keep, "OPSCOPE": str(checkout), "PYTHON": sys.executable}
    for words, code in (((), 1), (("--backend", "xla"), 0), (("--backend", "xal"), 2)):
        done = captured([folder / "run.sh", *words], cwd=tmp_path, env=env)
        assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    printed = captured([folder / "run.sh", "--json"], cwd=tmp_path, env=env).stdout
    assert json.loads(printed)["error_signature"] == tests[0].error_signature
    for backend, words in (("", "1 failed"), ("xla", "1 passed")):
        command = [sys.executable, "-P", "-m", "pytest", *WITHOUT_PLUGINS, "-q", str(folder / "test_repro.py")]
        extra = {"OPSCOPE_BACKEND": backend} if backend else {}
        done = captured(command, cwd=tmp_path, env={**keep, "PYTHONPATH": str(checkout), **extra})
        assert words in done.stdout, done.stdout


@pytest.mark.slow
def test_a_module_that_is_no_mlir_is_kept_as_it_is(tmp_path: Path) -> None:
    from opscope.harness.tests.ops import FAULTY, add_row
    from opscope.harness.triage.bundle import Options, Origin, write

    row = add_row(tmp_path, "op", b"compile:refuse")
    _, (test,) = run(tmp_path, binary("add", "2xf32"), "xla")
    write(tmp_path / "repro", row, test, Origin(export_dir=tmp_path, options=Options(backend=FAULTY, arch="n150")))
    assert (tmp_path / "repro" / "module.mlir").read_text().startswith("// this version cannot read the module: module")
    assert replay(tmp_path / "repro").test.status == "compile_failed"
    assert store.load_run(tmp_path / "run").tests == [test]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "data", "got"),
    [
        ("module.mlirbc", b"garbage", "expected StableHLO"),
        ("module.mlirbc", TWO.encode(), "expected a module of one op, got one of 2"),
        ("inputs/0.npy", b"x", "expected an array that opscope stored"),
        ("inputs/0.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4'", "expected an array that opscope stored"),
        ("inputs/0.npy", None, "no regular file"),
    ],
    ids=["module", "two ops", "no array", "half an array", "device"],
)
def test_a_folder_from_elsewhere_is_one_line(failed, tmp_path: Path, file: str, data: bytes | None, got: str) -> None:
    run_dir, tests = failed
    folder = tmp_path / "theirs"
    shutil.copytree(after_run.place(run_dir, tests[0]), folder)
    (folder / file).unlink()
    if data is None:
        (folder / file).symlink_to("/dev/zero")
    else:
        (folder / file).write_bytes(data)
    for verb in ("probe", "reduce")[: 1 if "one op" in got else 2]:  # `reduce` takes a module of any size
        done = captured([sys.executable, "-m", "opscope.harness.cli.main", verb, str(folder)])
        assert done.returncode == 2
        assert got in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_module_that_kills_what_reads_it_is_one_line(failed, tmp_path: Path, monkeypatch) -> None:
    run_dir, tests = failed
    _, stored, row, test = from_run.find(tests[0].op_id, run_dir, "test")
    origin = from_run.origin(run_dir, stored, row, test)
    aborts = tmp_path / "sitecustomize.py"  # ends each process that imports what reads the module
    aborts.write_text(
        "import os, sys\n"
        "class Aborts:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {in_child.__name__!r}: os.abort()\n"
        "sys.meta_path.insert(0, Aborts())\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    expected = "opscope repro: expected an op whose module can be read, got the end of what"
    with own_fork_server(), pytest.raises(InputError, match=expected):
        in_child.write(tmp_path / "out", row, test, origin, "opscope repro")
    assert not (tmp_path / "out").exists()


def test_an_open_dimension_has_no_values(tmp_path: Path) -> None:
    source = Source(kind="seeded", law="normal:1", seed=0, index=0)
    row = OpRow(
        op_id="0",
        op_name="model",
        module=None,
        inputs=(TensorDesc(shape=(-1, 4), data_type="f32"),),
        outputs=(),
        uses=(),
        sources=(source,),
    )
    values = bundle._Values(tmp_path, tmp_path, {}, keep=True)
    assert values.source(row, 0) == source
    assert values.note == "an input has an open dimension, so it has no values; --shape of a run binds it"
    assert values.size == 0


@pytest.mark.slow
def test_an_op_of_an_older_run_needs_only_its_id(failed, tmp_path: Path, monkeypatch) -> None:
    """The newest run has another op; runs are also named by their ids."""
    run_dir, tests = failed
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / ".opscope" / "runs"
    runs.mkdir(parents=True)
    (runs / "older").symlink_to(run_dir)
    newer = run_folder.write(runs / "newer")
    os.utime(newer / store.MANIFEST_FILE, (2e9, 2e9))
    assert run_folders.newest_run() == newer.relative_to(tmp_path) or run_folders.newest_run() == newer
    folder_of_run, _, row, test = from_run.find(tests[0].op_id[:12], None, "opscope reduce")
    assert (folder_of_run.name, row.op_id, test.status) == ("older", tests[0].op_id, "wrong_result")
    by_id = from_run.find(tests[0].op_id, Path(tests[0].run_id), "opscope reduce")[0]
    assert by_id.name == "older"
    with pytest.raises(InputError, match="newer"):
        from_run.find("feedfeedfeedfeed", None, "opscope reduce")


def test_run_sh_finds_opscope_in_an_environment_above(failed, tmp_path: Path) -> None:
    run_dir, tests = failed
    folder = tmp_path / "project" / "repro"
    shutil.copytree(after_run.place(run_dir, tests[0]), folder)
    tool = tmp_path / "project" / ".venv" / "bin" / "opscope"
    tool.parent.mkdir(parents=True)
    tool.write_text('#!/bin/sh\necho "$@"\n')
    tool.chmod(0o755)
    env = {"PATH": "/nowhere:/bin:/usr/bin", "HOME": str(tmp_path)}
    if shutil.which("opscope", path=env["PATH"]):
        pytest.skip("opscope is installed for everyone here")
    done = captured([folder / "run.sh", "--json"], cwd="/", env=env)
    assert done.stdout == f"replay {folder} --json\n", done.stderr

"""Unchanged work is not repeated: no process, no framework; any source of the compiler or simulator brings it back."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.harness.cli.commands import show
from opscope.harness.record import store
from opscope.harness.record.records import VOLATILE, OpTest
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.test_adding import ROOMS, ROOT, append

MODULE = """func.func @main(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.add %x, %y : tensor<8x16xf32>
  %1 = stablehlo.exponential %0 : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}"""

WRONG_EXP = """

from dataclasses import replace as changed

from opscope.simulator.kernels.registry import KERNELS

KERNELS["exp"] = changed(KERNELS["exp"], function=lambda images, call: images[0])
"""

TELLTALE = """
import subprocess, sys, pytest
def tell(event, arguments):
    if event in ("subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn", "os.system") and arguments[:1] != ("git",):
        print(event, *arguments[:2], file=sys.stderr)
sys.addaudithook(tell)
code = pytest.main(sys.argv[1:])
print(*{"jax", "numpy"} & {*sys.modules}, sep="\\n", end="", file=sys.stderr)
sys.exit(code)
"""
"""A pytest that says what it starts, and at its end which framework it has imported."""


def command(name: str, *words: str) -> tuple[str, ...]:
    """A run on the reference backend, to the folder `name`."""
    return ("pytest", "--model", "m.mlir", "--op-by-op", "--run-dir", name, "--no-report", *words)


def records(place: Place, name: str) -> dict[str, OpTest]:
    """The records of a run by the op's name."""
    return {test.op_name: test for test in store.load_run(place.folder / name).tests}


def stable(tests: dict[str, OpTest]) -> dict[str, dict[str, object]]:
    return {name: test.model_dump(exclude=set(VOLATILE)) for name, test in tests.items()}


def unchanged(place: Place, tmp_path: Path) -> tuple[dict[str, OpTest], dict[str, str]]:
    """A run and an unchanged second one: the records of the first, and the environment with its cache."""
    (place.folder / "m.mlir").write_text(MODULE)
    cache = {"OPSCOPE_CACHE_DIR": str(tmp_path / "own-cache")}
    (done,) = place.one_after_another(command("one"), **cache)
    assert done.code == 0, done.out + done.err
    first = records(place, "one")
    done = place.run("python", "-P", "-c", TELLTALE, *command("two")[1:], **cache)
    assert (done.code, done.err) == (0, ""), done.out + done.err
    second = records(place, "two")
    assert {test.cached_from for test in second.values()} == {first["stablehlo.add"].run_id}
    assert stable(second) == stable(first)
    assert not any(test.cached_from for test in first.values())
    page = CliRunner().invoke(show, [str(place.folder / "two")], catch_exceptions=False).output
    assert "2 of 2 verdicts come from earlier runs" in page
    return first, cache


def test_an_unchanged_second_run_starts_no_process_and_says_the_same(place: Place, tmp_path: Path) -> None:
    unchanged(place, tmp_path)


@pytest.mark.slow
def test_what_is_forced_or_changed_runs_again(place: Place, tmp_path: Path) -> None:
    first, cache = unchanged(place, tmp_path)
    # Both of these have work to do; that the process before them did it too is nothing that they could keep.
    ends = replace(place, environment=place.environment | cache).one_after_another(
        command("three", "--no-cache"), command("four", "--math-fidelity", "LoFi")
    )
    assert [done.code for done in ends] == [0, 0], ends
    forced, other = (records(place, name) for name in ("three", "four"))
    assert not any(test.cached_from for test in forced.values())
    assert stable(forced) == stable(first)
    assert not any(test.cached_from for test in other.values())


@pytest.mark.slow
def test_a_change_of_a_source_brings_back_what_it_must(place: Place, tmp_path: Path) -> None:
    (place.folder / "m.mlir").write_text(MODULE)
    copy = tmp_path / "src"
    for room in ROOMS:
        shutil.copytree(ROOT / room, copy / room, symlinks=True, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    environment = {"PYTHONPATH": str(copy), "OPSCOPE_CACHE_DIR": str(tmp_path / "own-cache")}

    def run(name: str) -> dict[str, OpTest]:
        folder = place.folder / name
        command = [sys.executable, "-P", "-m", "pytest", "--model", "m.mlir", "--op-by-op", "--run-dir", str(folder)]
        done = subprocess.run(
            [*command, "--no-report"],
            cwd=place.folder,
            env=place.environment | environment,
            check=False,
            capture_output=True,
            text=True,
        )
        print(name, done.stdout, done.stderr, sep="\n")  # why it kept what it kept, where the test fails
        return {test.op_name: test for test in store.load_run(folder).tests}

    def kept(tests: dict[str, OpTest]) -> int:
        return sum(bool(test.cached_from) for test in tests.values())

    assert kept(run("first")) == 0
    assert kept(run("second")) == 2
    # A file that decides no verdict; one that does not compute but could; a kernel that is wrong from now on.
    append(copy / "harness" / "page" / "summary.py", "\n# shown otherwise\n")
    assert kept(run("third")) == 2
    append(copy / "compiler" / "pipelines" / "pipeline.py", "\n# compiled otherwise\n")
    assert kept(run("fourth")) == 0
    assert kept(run("fifth")) == 2
    kernels = copy / "simulator" / "kernels" / "eltwise.py"
    right = kernels.read_text()
    kernels.write_text(right + WRONG_EXP)
    wrong = run("sixth")
    assert kept(wrong) == 0
    assert {name: test.status.value for name, test in wrong.items()} == {
        "stablehlo.add": "success",
        "stablehlo.exponential": "wrong_result",
    }
    kernels.write_text(right)
    again = run("seventh")
    assert kept(again) == 2, "the sources are those of before, and so are the verdicts"
    assert all(test.success for test in again.values())

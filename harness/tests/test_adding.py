"""Adding an op, a format, a measure, a chart, a model, a backend, an option, each where docs/architecture.md says.

Done to a copy of the rooms by writing what a newcomer would write. Then a sweep takes the new op of the new model
through the new backend, and whatever follows from an option has the new one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opscope.base.tests.captured import captured

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("opscope", "compiler", "harness", "models", "reports", "simulator")

ROW = '\nregister_all(OpRow("chlo.lgamma", "lgamma"))\n'
KERNEL = '''

@kernel("lgamma", EltwiseParams, max_ulp=8, cycles=("log", "exp"))
def lgamma(images: Images, call: Call) -> np.ndarray:
    """log|gamma(x)|."""
    import math

    return np.vectorize(math.lgamma, otypes=[np.float32])(images[0])
'''
MODEL = '''
"""An example: lgamma of a vector."""

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model


@model(name="example_model", family="example")
def build(dtype: str) -> Built:
    import jax

    return Built(lambda w: jax.lax.lgamma(w["x"]), (ArgSpec("x", (64,), dtype, "uniform:3:9", "input"),))
'''
BACKEND = '''
"""An example: the reference backend under another name."""

from opscope.harness.backends.reference import Reference


class Example(Reference):
    """The reference backend."""

    name = "example_backend"
'''
FORMAT = 'NumberFormat("Bfp6_b", "bfp_bf6", "block", 6, 8, 5),'
TOLERANCE = '    Tolerance("Bfp6", 0.12, block=True, saturates_at=_LARGE),'
OPTION = """
    rounding: Annotated[str, one_of(("nearest", "down"))] = row(
        "nearest", "How results are rounded: nearest or down.", "WORD", column="how results were rounded",
    )
"""
MEASURE = """
    energy_nj: Annotated[float | None, Measure("nanojoules of one execution")] = None
"""
LAST_MEASURE = "_HINTS = "
"""What follows the last row."""
MEASURING = '''
    def climb(self, stage: Stage, job: Job) -> None:
        """Climbs as the reference backend does, and measures."""
        super().climb(stage, job)
        if stage is Stage.RUN:
            job.energy_nj = 12.5
'''
CHART = """
name: Seconds of each op family
dataset: dashboard_ops
kind: table
below: performance
params: {groupby: [op_kind], metrics: [compile_ms]}
"""
CHARTED = """
from opscope.dashboards import asset_files, bundle, checks
from opscope.dashboards.layout import position

assets = asset_files.read()
assert checks.problems(assets) == []
(made,) = (doc for path, doc in bundle.render(assets, bundle.Source("sqlite:///x")).items() if "example_chart" in path)
cells = position(assets.dashboards["performance"], assets, {name: 0 for name in assets.charts})
print(made["uuid"] == asset_files.uuid_of("chart", "example_chart"), cells["CHART-example_chart"]["meta"]["width"])
"""
LAST_OPTION = "    @classmethod\n    def of("
"""What follows the last row."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for room in ROOMS:
        # Bytecode is copied too: it knows its source by time and size, so that only what changes is compiled again.
        shutil.copytree(ROOT / room, tmp_path / "src" / room, symlinks=True, ignore=shutil.ignore_patterns("tests"))
    return tmp_path / "src"


def with_migrations(copy: Path) -> None:
    """Adds what `make migration` needs."""
    tests = ROOT / "reports" / "tests"
    shutil.copytree(tests / "data" / "heads", copy / "reports" / "tests" / "data" / "heads")
    for name in ("__init__.py", "new_migration.py", "stored_head.py"):
        shutil.copy(tests / name, copy / "reports" / "tests")


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_an_op_a_model_and_a_backend(copy: Path, tmp_path: Path):
    append(copy / "compiler" / "ops" / "eltwise.py", ROW)
    append(copy / "simulator" / "kernels" / "eltwise.py", KERNEL)
    (copy / "models" / "jax" / "example_model.py").write_text(MODEL.lstrip())
    (copy / "harness" / "backends" / "example_backend.py").write_text(BACKEND.lstrip())
    record, ttnn = swept(copy, tmp_path, "--backend", "example_backend")
    assert (record["op_name"], record["status"], record["backend"]) == ("chlo.lgamma", "success", "example_backend")
    assert '"ttnn.lgamma"' in ttnn


def test_a_format(copy: Path, tmp_path: Path):
    formats, board = (
        copy / "opscope" / "base" / "number_formats.py",
        copy / "compiler" / "target" / "boards" / "n150.yaml",
    )
    row = 'NumberFormat("Bfp4_b"'
    formats.write_text(formats.read_text().replace(row, f"{FORMAT}\n        {row}"))
    board.write_text(board.read_text().replace("Bfp4_b,", "Bfp4_b, Bfp6_b,"))
    tolerances = copy / "harness" / "verdict" / "tolerance.py"
    row = '    Tolerance("Bfp4"'
    tolerances.write_text(tolerances.read_text().replace(row, f"{TOLERANCE}\n{row}"))
    (copy / "models" / "jax" / "example_model.py").write_text(MODEL.lstrip().replace("lgamma", "tanh"))
    record, ttnn = swept(copy, tmp_path, "--data-format", "Bfp6_b")
    assert (record["op_name"], record["status"]) == ("stablehlo.tanh", "success"), record
    assert [check["tolerance"] for check in record["results"]] == ["Bfp6"]
    assert "bfp_bf6" in ttnn


def swept(copy: Path, tmp_path: Path, *options: str) -> tuple[dict[str, Any], str]:
    """The record of the example's one op, and its TTNN."""
    run = tmp_path / "run"
    command = ["-m", "pytest", "--model", "example_model", "--op-by-op", "--keep-ir", *options]
    environment = os.environ | {"PYTHONPATH": str(copy), "OPSCOPE_CACHE_DIR": str(tmp_path / "cache")}
    environment = {k: v for k, v in environment.items() if not k.startswith("PYTEST_")}
    done = captured([sys.executable, "-P", *command, "--run-dir", run, "--no-report"], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = (json.loads(line) for path in (run / "journal").iterdir() for line in path.read_text().splitlines())
    return record, "".join(p.read_text(errors="replace") for p in (run / "artifacts").rglob("*ttnn*") if p.is_file())


def test_an_op_without_cycles_is_refused_by_name(copy: Path):
    append(copy / "simulator" / "kernels" / "eltwise.py", KERNEL.replace(', cycles=("log", "exp")', ""))
    done = python_in(copy, "-c", "import opscope.simulator.api")
    assert done.returncode
    assert "kernel 'lgamma': expected cycles of its own" in done.stderr


def run_in(copy: Path, *words: str | Path) -> str:
    """What a Python program prints that has the copy for its rooms."""
    done = python_in(copy, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python_in(copy: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A Python program that has the copy for its rooms, once it has ended."""
    return captured([sys.executable, "-P", *words], cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)})


def test_an_option(copy: Path, tmp_path: Path):
    options = copy / "harness" / "record" / "result_options.py"
    before, after = options.read_text().split(LAST_OPTION)
    options.write_text(f"{before.rstrip()}\n{OPTION}\n{LAST_OPTION}{after}")
    with_migrations(copy)
    run_in(copy, "-m", "opscope.reports.tests.new_migration", "How results were rounded")
    (copy / "harness" / "tests").mkdir()
    shutil.copy(ROOT / "harness" / "tests" / "ops.py", copy / "harness" / "tests")
    (tmp_path / "work").mkdir()
    program = ROOT / "harness" / "tests" / "added_option.py"
    places = json.loads(run_in(copy, program, tmp_path / "work").splitlines()[-1])
    assert "--rounding=WORD How results are rounded: nearest or down." in places.pop("help")
    assert places.pop("repro").endswith(" --rounding down")
    assert places.pop("merged repro").endswith(" --rounding down")
    assert "with rounding 'down' and 'nearest'" in places.pop("other shares")
    assert places.pop("resumed otherwise").startswith("--rounding: expected the run's own value with --resume")
    assert places == {
        "command line": "down",
        "environment": "down",
        "project": "down",
        "default": "nearest",
        "signature": "nearest",
        "record": "down",
        "status": "wrong_result",
        "keys": 2,
        "resumed": "down",
        "repro folder": "down",
        "column": "down",
        "series": "rounds n150 rounding=down",
    }


def test_a_measure(copy: Path, tmp_path: Path):
    append(copy / "compiler" / "ops" / "eltwise.py", ROW)
    append(copy / "simulator" / "kernels" / "eltwise.py", KERNEL)
    measures = copy / "harness" / "record" / "measures.py"
    before, after = measures.read_text().split(LAST_MEASURE)
    measures.write_text(f"{before.rstrip()}\n{MEASURE}\n\n{LAST_MEASURE}{after}")
    imports = (
        "from opscope.harness.backends.base import Job\n"
        "from opscope.harness.backends.reference import Reference\n"
        "from opscope.harness.record.stages import Stage\n"
    )
    backend = BACKEND.replace("from opscope.harness.backends.reference import Reference\n", imports) + MEASURING
    (copy / "harness" / "backends" / "example_backend.py").write_text(backend.lstrip())
    (copy / "models" / "jax" / "example_model.py").write_text(MODEL.lstrip())
    with_migrations(copy)
    run_in(copy, "-m", "opscope.reports.tests.new_migration", "Energy")
    assert swept(copy, tmp_path, "--backend", "example_backend")[0]["energy_nj"] == 12.5
    opscope, url = ("-m", "opscope.harness.cli.main"), f"sqlite:///{tmp_path}/db.sqlite"
    run_in(copy, *opscope, "publish", tmp_path / "run", "--to", url)
    asked = run_in(copy, *opscope, "sql", "SELECT energy_nj FROM performance", "--csv", "--db", url)
    assert asked.split() == ["energy_nj", "12.5"]
    frame = "from opscope.reports.exports import frames; f = frames.op_tests({!r}).energy_nj; print(f.dtype, *f)"
    assert run_in(copy, "-c", frame.format(url)).split() == ["float64", "12.5"]
    page = run_in(copy, ROOT / "ci" / "metrics_page.py")
    assert "| `energy_nj` | float64 | nanojoules of one execution |" in page


def test_a_chart(copy: Path):
    shutil.copytree(ROOT / "dashboards", copy / "dashboards", ignore=shutil.ignore_patterns("tests"))
    (copy / "dashboards" / "assets" / "charts" / "example_chart.yaml").write_text(CHART)
    assert run_in(copy, "-c", CHARTED).split() == ["True", "12"]

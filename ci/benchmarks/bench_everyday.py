"""How long a user waits apart from running ops: for a verdict, a page, the start of a compiler, one compiled op.

`python -m pytest ci/benchmarks/bench_everyday.py` prints the table.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from opscope.compiler import api
from opscope.harness.verdict.check import check
from opscope.harness.verdict.tolerance import TABLE
from opscope.reports.pages.html import write_report
from opscope.reports.tests.sample_run import make_run

GOLDEN = np.random.default_rng(0).standard_normal(25_000_000, dtype=np.float32)
GOT = GOLDEN * np.float32(1 + 1e-7)


def test_verdict_on_25_million_elements(benchmark: Any) -> None:
    assert benchmark.pedantic(check, (GOLDEN, GOT, TABLE["Float32"]), rounds=3).passed


def test_numpy_correlation_of_the_same(benchmark: Any) -> None:
    """For comparison: how long NumPy takes for the correlation alone."""
    benchmark.pedantic(np.corrcoef, (GOLDEN, GOT), {"dtype": np.float64}, rounds=1)


def test_report_of_150_ops(benchmark: Any, tmp_path: Path) -> None:
    benchmark.pedantic(write_report, (make_run(tmp_path / "run", repeat=12),), rounds=3)


def test_import_of_the_compiler(benchmark: Any) -> None:
    benchmark.pedantic(
        subprocess.run, ([sys.executable, "-c", "import opscope.compiler.api"],), {"check": True}, rounds=3
    )


def test_compile_of_one_op(benchmark: Any) -> None:
    ones = np.ones((8, 8), np.float32)
    source = jax.jit(jnp.matmul).lower(ones, ones).as_text()
    benchmark(api.compile, source, api.load_board("n150"))

"""What the optimization levels make of whole models on the simulated n150: cycles, launches, traffic, accuracy, time.

`OPENBLAS_NUM_THREADS=1 python -m ci.benchmarks.bench_levels [MODEL ...] [--dtypes T ...]` prints a line of
docs/measurements.yaml for each model and element type. The processor time of a run is that of a model's second one, for
which tables and what is computed once for the weights are there.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ci.benchmarks.bench_compiler import ADD
from ci.lines import print_lines
from opscope.compiler import api
from opscope.harness.prepare import golden
from opscope.harness.prepare.export import Exported, export_model
from opscope.models import registry
from opscope.models.seeding import draw
from opscope.simulator.api import Device, Profile

MODELS = ("mnist_mlp", "resnet50", "bert_base", "vit_base", "gpt2_small")
BOARD = "n150"
MEGABYTE = 1e6


@dataclass(frozen=True)
class Level:
    """A model at one level."""

    profile: Profile
    pcc: float
    compile_seconds: float
    run_seconds: float
    memory: float
    """Largest memory of NumPy's arrays in a run, over that of the tensors that the card holds at the same time."""

    @property
    def launches(self) -> int:
        """Operations that take cycles in every run."""
        return sum(1 for op in self.profile.ops if op.cycles)

    @property
    def megabytes(self) -> float:
        """What they read from DRAM and write to it."""
        return sum(op.dram_bytes for op in self.profile.ops) / MEGABYTE

    @property
    def once(self) -> int:
        """Cycles of what is computed once for the weights."""
        return sum(op.cycles for op in self.profile.once)


def values(exported: Exported) -> list[np.ndarray]:
    """Returns the arguments of a model as a run draws them, of seed 0."""
    return [
        exported.values.get(spec.name, draw(spec.law, spec.shape, spec.dtype, 0, index))
        for index, spec in enumerate(exported.arguments)
    ]


def pcc(results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Returns the smallest correlation of results that have more than one value."""
    pairs = [
        (a.astype(np.float64).ravel(), b.astype(np.float64).ravel()) for a, b in zip(results, expected, strict=True)
    ]
    return min(float(np.corrcoef(a, b)[0, 1]) for a, b in pairs if a.size > 1)


def at_level(exported: Exported, arrays: list[np.ndarray], expected: list[np.ndarray], level: int, amp: int) -> Level:
    """Compiles a model at a level, with mixed precision of a level, and runs it three times."""
    board = api.load_board(BOARD)
    roles = tuple("input" if spec.role == "input" else "parameter" for spec in exported.arguments)
    options = api.CompileOptions(optimization_level=level, argument_types=roles if level else (), amp_level=amp)
    api.compile(ADD, board, api.CompileOptions(optimization_level=level))  # imports
    begin = time.process_time()
    data = api.compile(exported.bytecode, board, options)
    compiled = time.process_time()
    executable = Device(BOARD).load(data)
    first = executable.run(arrays)
    before = time.process_time()
    executable.run(arrays)
    spent = time.process_time() - before
    tracemalloc.start()
    executable.run(arrays)
    peak = tracemalloc.get_traced_memory()[1] / first.profile.dram_peak_bytes
    tracemalloc.stop()
    return Level(first.profile, pcc(first.outputs, expected), compiled - begin, spent, peak)


def row(name: str, dtype: str, amp: int) -> tuple[str, ...]:
    """Returns one line of the table."""
    exported = export_model(registry.get(name), dtype)
    arrays = values(exported)
    expected = golden.compile_module(exported.bytecode)(arrays)
    zero, one, two = (at_level(exported, arrays, expected, level, amp) for level in (0, 1, 2))
    return (
        f"{name} {dtype}",
        *(f"{level.profile.total_cycles:,}" for level in (zero, one, two)),
        f"{two.once:,}",
        f"{zero.launches} / {two.launches}",
        " / ".join(f"{level.megabytes:.0f}" for level in (zero, one, two)),
        f"{zero.pcc:.6f} / {two.pcc:.6f}",
        f"{zero.compile_seconds:.1f} / {two.compile_seconds:.1f} s",
        f"{zero.run_seconds:.1f} / {two.run_seconds:.1f} s",
        f"{zero.memory:.1f} / {two.memory:.1f}",
    )


if __name__ == "__main__":
    print_lines(
        (__doc__ or "").splitlines()[0],
        "model | cycles at level 0 | 1 | 2 | once | launches 0 / 2 | DRAM MB 0 / 1 / 2 | PCC 0 / 2 | compiled in 0 / 2 "
        "| run in 0 / 2 | memory / tensors 0 / 2",
        row,
        MODELS,
        dtypes=("float32", "bfloat16"),
        amp_level=(0,),
    )

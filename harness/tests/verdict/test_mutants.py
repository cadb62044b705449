"""The verdict is no echo: broken kernels of the ops that the models use become failed ops.

Each mutant is one mistake in one kernel (`opscope.simulator.tests.mutants`), applied to one op of a model on captured
inputs.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.target import binary
from opscope.harness.backends.reference import Reference
from opscope.harness.engine import model_jobs
from opscope.harness.prepare.inputs import row_golden, row_inputs, row_term_sizes
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.record.records import OpRow
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.verdict.compare import compare_op
from opscope.harness.verdict.operands import Operands
from opscope.simulator.api import Device, DeviceError
from opscope.simulator.tests.mutants import NO_MUTANTS, Mutation, mutations_for

pytestmark = pytest.mark.slow

BOARD = "n150"
MODELS = ("mnist_mlp", "resnet50", "bert_base", "vit_base", "gpt2_small")


@dataclass(frozen=True, eq=False)
class Op:
    """One compiled op of a model and where its values lie."""

    row: OpRow
    folder: Path
    module: bytes
    program: bytes

    def mutants(self) -> Iterator[Mutation]:
        """The mistakes that its kernels could hold."""
        for operation in binary.read(self.program).programs[0].operations:
            if operation.kernel not in NO_MUTANTS:
                yield from mutations_for(operation.kernel, operation.params)

    def run(self) -> list[np.ndarray]:
        return Device(BOARD).load(self.program).run(row_inputs(self.row, self.folder)).outputs

    def passes(self, outputs: list[np.ndarray]) -> bool:
        """The verdict of a sweep."""
        row = self.row
        operands = Operands(
            row.op_name,
            self.module,
            lambda: row_inputs(row, self.folder),
            row.op_params.get("body"),
            (lambda: row_term_sizes(row, self.folder)) if row.term_sizes else None,
        )
        target = Reference().target(ResultOptions(arch=BOARD))
        checks = compare_op(row, row_golden(row, self.folder), outputs, target, operands)
        return all(check.passed for check in checks)


def compiled(models: tuple[str, ...], dtype: str) -> Iterator[Op]:
    header, rows = model_jobs.prepare(Preparation(models, dtype=dtype))
    folders = {name: Path(folder) for name, folder in zip(header.models, header.export_dirs, strict=True)}
    board = api.load_board(BOARD)
    for row in rows:
        if row.module:
            folder = folders[row.uses[0].model]
            module = (folder / row.module).read_bytes()
            yield Op(row, folder, module, api.compile(module, board, api.CompileOptions()))


@dataclass
class Tally:
    """What became of the mutants drawn."""

    failed: int = 0
    survivors: list[str] = field(default_factory=list)
    equivalent: list[str] = field(default_factory=list)
    """Mutants that change no bit of the result on the op's values: no verdict could tell them from the kernel."""

    def __str__(self) -> str:
        total = self.failed + len(self.survivors)
        lines = [f"{self.failed} of {total} mutants became a failed op", *(f"  survived: {s}" for s in self.survivors)]
        return "\n".join([*lines, f"  {len(self.equivalent)} more changed no bit of the result on the op's values"])


def judge(ops: list[Op], count: int, seed: int) -> Tally:
    """Draws mutants, an op first and then one of its mistakes, until `count` of them have changed a result."""
    draw = random.Random(seed)
    menu = [(op, mutants) for op in ops if (mutants := list(op.mutants()))]
    right = functools.cache(lambda op: op.run())
    tally = Tally()
    while tally.failed + len(tally.survivors) < count:
        op, mutants = draw.choice(menu)
        mutant = draw.choice(mutants)
        name = f"{mutant.kernel}: {mutant.name} on {op.row.op_name} [{op.row.op_id}]"
        with mutant.apply():
            try:
                outputs = op.run()
            except DeviceError:
                tally.failed += 1
                continue
        if all(a.tobytes() == b.tobytes() for a, b in zip(right(op), outputs, strict=True)):
            tally.equivalent.append(name)
        elif op.passes(outputs):
            tally.survivors.append(name)
        else:
            tally.failed += 1
    return tally


@pytest.mark.parametrize(
    ("models", "dtype", "count"),
    [(("mnist_mlp",), "float32", 60), (MODELS, "float32", 200), (MODELS, "bfloat16", 200)],
    ids=["mnist_mlp", "five_models", "five_models_bfloat16"],
)
def test_a_broken_kernel_is_a_failed_op(models, dtype, count, capsys):
    ops = list(compiled(models, dtype))
    assert all(op.passes(op.run()) for op in ops[:20]), "the right kernels pass"
    tally = judge(ops, count, seed=2)
    with capsys.disabled():
        print(f"\n{tally}")
    assert tally.failed >= 0.95 * count

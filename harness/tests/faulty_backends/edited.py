"""Backends that compute as XLA does, but of programs in which a rule of the test has changed ops: a fault of a pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxlib.mlir import ir

from opscope.harness.backends.base import Job
from opscope.harness.prepare import golden, mlir
from opscope.harness.prepare.mlir.door import context
from opscope.harness.record.stages import Stage
from opscope.harness.tests.faulty_backends.hidden import Hidden


class Edited(Hidden):
    """XLA behind a pass with a fault."""

    def edit(self, op: ir.Operation) -> None:
        """What the pass does with an op, if anything."""
        raise NotImplementedError

    def climb(self, stage: Stage, job: Job) -> None:
        if stage is Stage.COMPILE:
            module = mlir.load(job.module)
            with context(), ir.Location.unknown():
                for op in list(ops_of(module.operation)):
                    if op.name not in ("func.func", "func.return"):
                        self.edit(op)
            job.state[stage] = golden.compile_module(mlir.to_bytecode(module))
        else:
            job.outputs = job.state[Stage.COMPILE](job.inputs)
            job.ran_on = "host"


def ops_of(op: ir.Operation) -> Iterator[ir.Operation]:
    """All ops inside one, in order."""
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                yield view.operation
                yield from ops_of(view.operation)


def place(op: ir.Operation) -> int:
    """How many ops stand before one in its block."""
    return [view.operation for view in op.block.operations].index(op)


def scaled(op: ir.Operation, factor: float) -> None:
    """Multiplies the first result of an op, for all that read it."""
    [result, *_] = op.results
    kind: Any = result.type
    element = ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get(kind.element_type, factor))
    after = ir.InsertionPoint.after(op)
    constant = ir.Operation.create("stablehlo.constant", results=[kind], attributes={"value": element}, ip=after)
    product = ir.Operation.create(
        "stablehlo.multiply", results=[kind], operands=[result, constant.results[0]], ip=after
    )
    result.replace_all_uses_except(product.results[0], product)


def write(folder: Path, name: str, body: str) -> str:
    """The path of a backend whose pass has `body`: statements over `op`, with `place` and `scaled` at hand."""
    path = folder / f"{name}.py"
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    path.write_text(
        "from opscope.harness.tests.faulty_backends.edited import Edited, place, scaled\n\n\n"
        f"class Pass(Edited):\n    name = {name!r}\n\n    def edit(self, op):\n{lines}\n"
    )
    return str(path)

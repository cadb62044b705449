"""Backends that compute as XLA does but for a bug by a rule that only the test knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opscope.harness.backends.base import Job, StageError, Target
from opscope.harness.backends.xla import Xla
from opscope.harness.prepare import golden, mlir
from opscope.harness.prepare.identity import attribute_items
from opscope.harness.prepare.mlir.values import tensor_desc
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage


class Op:
    """What a rule may look at."""

    def __init__(self, module: bytes) -> None:
        self.module = mlir.load(module)
        main = next(
            op.operation for op in self.module.body.operations if op.operation.attributes["sym_name"].value == "main"
        )
        ops = [view.operation for view in main.regions[0].blocks[0].operations]
        self.op = next(op for op in ops if op.name not in ("stablehlo.constant", "func.return"))
        self.name = self.op.name
        self.shapes = [tensor_desc(value.type).shape for value in self.op.operands]
        self.types = [tensor_desc(value.type).data_type for value in self.op.operands]
        self.params = {key: str(attr) for key, attr in attribute_items(self.op)}


class Hidden:
    """XLA with a bug: `broken` says for which ops."""

    stages = (Stage.COMPILE, Stage.RUN)

    def broken(self, op: Op) -> bool:
        raise NotImplementedError

    def fail(self, op: Op) -> None:
        """What happens then, at compile."""
        raise StageError(f"no tiling for {op.shapes}")

    def wrong(self, job: Job) -> None:
        """What happens then to the results."""

    def target(self, options: ResultOptions) -> Target:
        return Target("host", None, "exact")

    def fingerprint(self) -> str:
        return "hidden-1"

    def available(self) -> str | None:
        return None

    def warm_up(self) -> None:
        # XLA starts once for each lane: an op that starts it changes its process, and the next one gets a fresh one.
        Xla().warm_up()

    def climb(self, stage: Stage, job: Job) -> None:
        if stage is Stage.COMPILE:
            op = Op(job.module)
            broken = job.state["broken"] = self.broken(op)
            if broken:
                self.fail(op)
            job.state[stage] = golden.compile_module(job.module)
        else:
            job.outputs = job.state[Stage.COMPILE](job.inputs)
            job.ran_on = "host"
            if job.state["broken"]:
                self.wrong(job)


def write(folder: Path, name: str, rule: str, more: str = "") -> str:
    """The path of a backend whose bug follows `rule`, a Python expression over `op`; `more` is text of its class."""
    path = folder / f"{name}.py"
    path.write_text(
        "from opscope.harness.tests.faulty_backends.hidden import Hidden\n\n\n"
        f"class Rule(Hidden):\n    name = {name!r}\n\n    def broken(self, op):\n        return {rule}\n{more}"
    )
    return str(path)


WRONG = """
    def fail(self, op):
        pass

    def wrong(self, job):
        job.outputs = [output + 1 for output in job.outputs]
"""
CRASH = """
    def fail(self, op):
        import os, signal
        os.kill(os.getpid(), signal.SIGABRT)
"""


def sizes(values: Any) -> int:
    """The product of extents, for rules."""
    errors = 1
    for value in values:
        errors *= value
    return errors

"""StableHLO's reference interpreter, which computes small tensors as the specification defines them.

An op that the interpreter does not support ends the process, which the lane turns into a record.
"""

from __future__ import annotations

from importlib import metadata, util

from opscope.harness.backends.base import Backend, Declined, Job, StageError, Target, climb_smallest, exact_host
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage

MOST_WORK = 1 << 20
"""Largest number of elements that an op may visit one by one: about three seconds."""


class StablehloInterpreter(Backend):
    """`eval_module` of jaxlib. It ignores `arch`, and refuses number formats other than the module's own."""

    name = "stablehlo-interpreter"
    lasting = True
    ignores_board = True
    forkable = True
    stages = (Stage.LEGALIZE, Stage.RUN)

    def target(self, options: ResultOptions) -> Target:
        """The host in exact IEEE arithmetic. Raises InputError if the options ask for a device's number formats."""
        return exact_host(self.name, options)

    def fingerprint(self, options: ResultOptions | None = None) -> str:
        """The version of jaxlib, which contains the interpreter."""
        return f"stablehlo-interpreter-{metadata.version('jaxlib')}"

    def climb(self, stage: Stage, job: Job) -> None:
        """Rewrites chlo ops as StableHLO, or evaluates. Raises Declined for an op that would take too long."""
        from opscope.harness.prepare.mlir import interpreter

        try:
            if stage is Stage.LEGALIZE:
                module = interpreter.legalised(job.module)
                if reason := interpreter.refusal(module):
                    raise StageError(reason)
                if (work := interpreter.work(module)) > MOST_WORK:
                    raise Declined(f"{work:,} elements to compute one by one, at most {MOST_WORK:,} are taken")
                job.state[stage] = module
            else:
                job.outputs = interpreter.evaluate(job.state.pop(Stage.LEGALIZE), job.inputs)
                job.ran_on = "host"
        except interpreter.InterpreterError as error:
            raise StageError(str(error).partition("\n")[0], str(error)) from error

    def warm_up(self, options: ResultOptions | None = None) -> None:
        """Evaluates one small op, which loads MLIR."""
        climb_smallest(self)

    def available(self) -> str | None:
        """Returns None if jaxlib is installed."""
        return None if util.find_spec("jaxlib") else "pip install jax jaxlib"

"""XLA on this machine's processor: compiles each op as it is and computes it in the module's own types."""

from __future__ import annotations

from importlib import metadata, util

from opscope.harness.backends.base import Backend, Job, StageError, Target, climb_smallest, exact_host
from opscope.harness.backends.pjrt import keep_program
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage


class Xla(Backend):
    """XLA CPU. It ignores `arch`, and refuses number formats other than the module's own."""

    name = "xla"
    packages = "jaxlib jax"
    lasting = True
    repeats = True
    ignores_board = True
    runs_meshes = True
    stages = (Stage.COMPILE, Stage.RUN)

    def target(self, options: ResultOptions) -> Target:
        """The host in exact IEEE arithmetic. Raises InputError if the options ask for a device's number formats."""
        return exact_host(self.name, options)

    def fingerprint(self, options: ResultOptions | None = None) -> str:
        """The version of jaxlib, and of the code here that calls it."""
        from opscope.harness.prepare import golden

        return f"xla-{metadata.version('jaxlib')}-{golden.VERSION}"

    def reads_stablehlo(self) -> str:
        """The version that jaxlib reads."""
        from opscope.harness.prepare import mlir

        return mlir.stablehlo_version()

    def climb(self, stage: Stage, job: Job) -> None:
        """Compiles, or runs the compiled program. Raises StageError with XLA's own message."""
        from opscope.harness.prepare import golden

        try:
            if stage is Stage.COMPILE and job.several_devices:
                return  # XLA has as many devices only in a process of its own, which compiles and runs the op
            if stage is Stage.COMPILE:
                job.state[stage] = golden.compile_module(job.module, tested=True)
                keep_program(job, job.state[stage])
            elif job.several_devices:
                from opscope.harness.prepare.mesh import host_devices

                job.mesh_outputs = host_devices.run(job.module, job.mesh_inputs)
                job.ran_on = "host"
            else:
                job.outputs = job.state[Stage.COMPILE](job.inputs)
                job.ran_on = "host"
        except (golden.GoldenError, InputError) as error:
            cause = error.__cause__
            raise StageError(str(error), str(cause) if cause else "") from error

    def warm_up(self, options: ResultOptions | None = None) -> None:
        """Compiles and runs one small op, which starts the client and loads LLVM."""
        climb_smallest(self)

    def available(self) -> str | None:
        """Returns None if jaxlib is installed."""
        return None if util.find_spec("jaxlib") else "pip install jax jaxlib"

"""The Buda route: plans an op onto cores as TT-Buda does, and runs its netlist on the simulated card.

Stages are TT-Buda's compile depths. `run` is BACKEND_GOLDEN_VERIFY: the placed program must give the same bits as the
unplaced graph. `compare` is FULL.
"""

from __future__ import annotations

from importlib import util
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.harness.backends.base import Backend, Declined, Job, StageError, Target, refuse
from opscope.harness.backends.reference import Reference, float_format_of
from opscope.harness.backends.simulated import board_of
from opscope.harness.record.depths import DEPTHS, NAMES
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage

if TYPE_CHECKING:
    from opscope.compiler.api import Compilation

FORMAT, FIDELITY = "Float16_b", "HiFi3"
"""TT-Buda's defaults."""
_KEY = Stage(DEPTHS[0])


class Buda(Backend):
    """StableHLO -> TTIR -> Buda graph -> plan -> netlist -> simulated device."""

    name = "buda"
    lasting = True
    of_this_project = True
    forkable = True
    compile_depths = NAMES
    stages = (*map(Stage, DEPTHS), Stage.RUN)

    def target(self, options: ResultOptions) -> Target:
        """The simulated card of a board; by default floats are Float16_b and the fidelity is HiFi3.

        Raises InputError if there is no such board or format, or if `--amp-level` is given.
        """
        refuse(self.name, options, "amp_level", "numerics")
        board = board_of(options.arch)
        return Target(
            card_type=f"sim-{board.board}",
            float_format=float_format_of(board, options.data_format or FORMAT),
            math_fidelity=options.math_fidelity or FIDELITY,
            matrix_format="Tf32",
            narrow_dst=True,
            exact_order=options.exact_order,
        )

    def fingerprint(self, options: ResultOptions | None = None) -> str:
        """The fingerprint of the reference backend, which has the same compiler and device."""
        return Reference().fingerprint().replace(Reference.name, self.name, 1)

    def climb(self, stage: Stage, job: Job) -> None:
        """Compiles to one depth, or runs.

        Raises StageError with the compiler's own message, Declined for an op that TT-Buda leaves to the host.
        """
        from opscope.compiler.api import CompilerInputError, StageFailure
        from opscope.simulator.api import DeviceError

        try:
            if stage is Stage.RUN:
                _run(job)
            else:
                _step(stage, job)
        except StageFailure as failure:
            if failure.kind == "host":
                raise Declined(failure.message) from failure
            message = failure.message if failure.op == "module" else f"{failure.op}: {failure.message}"
            raise StageError(message, failure.diagnostic or str(failure)) from failure
        except (CompilerInputError, DeviceError) as failure:
            raise StageError(str(failure)) from failure

    def available(self) -> str | None:
        """Returns None if the compiler's framework is installed."""
        missing = [name for name in ("xdsl", "jaxlib") if util.find_spec(name) is None]
        return f"pip install {' '.join(missing)}" if missing else None


def _step(stage: Stage, job: Job) -> None:
    from opscope.compiler.api import Compilation, CompileDepth, Configuration, take_step

    if stage is _KEY:
        config, board = Configuration(), board_of(job.options.arch)
        config.set_configuration_options(
            default_df_override=float_format_of(board, job.options.data_format or FORMAT),
            math_fidelity=job.options.math_fidelity or FIDELITY,
        )
        job.state[_KEY] = Compilation(job.module, board.board, config, "op", single_op=True)
    compilation: Compilation = job.state[_KEY]
    take_step(compilation, CompileDepth.of(stage))
    if job.ir_dir is not None and compilation.netlist_text:
        (job.ir_dir / "netlist.yaml").write_text(compilation.netlist_text, encoding="utf-8")


def _run(job: Job) -> None:
    from opscope.compiler.api import planned_binaries
    from opscope.simulator.api import Device, counters

    compilation: Compilation = job.state.pop(_KEY)
    host, data = planned_binaries(compilation)
    assert compilation.host is not None
    assert compilation.program is not None
    queues = compilation.host.queues(Device("n150").load(host).run(job.inputs).outputs)
    inputs = [np.ascontiguousarray(queues[name], np.float32) for name in compilation.program.graph.sources]
    executable = Device(compilation.board, exact_order=job.options.exact_order).load(data)
    placed, alone = executable.run(inputs, per_core=True), executable.run(inputs)
    for i, (a, b) in enumerate(zip(placed.outputs, alone.outputs, strict=True)):
        if not np.array_equal(a, b, equal_nan=True):
            raise StageError(f"result {i}: expected the same bits placed and unplaced, got others")
    job.outputs = _outputs(compilation, placed.outputs, job)
    job.ran_on = "simulator"
    profile = placed.profile
    job.cycles, job.device_ns = profile.total_cycles, profile.device_ns
    job.l1_peak_bytes, job.dram_peak_bytes = profile.l1_peak_bytes, profile.dram_peak_bytes
    counts = counters(profile, executable.device.system, executable.cores)
    job.limiter, job.utilisation = counts.limiter, counts.utilisation
    job.dram_bytes, job.noc_bytes = counts.dram_bytes, counts.noc_bytes


def _outputs(compilation: Compilation, results: list[np.ndarray], job: Job) -> list[np.ndarray]:
    """Returns the results in the shapes and types that the module declares."""
    from opscope.harness.record.element_types import numpy_dtype

    by_number = {number: results[i] for i, (number, _, _) in enumerate(compilation.lowering.results)}
    if sorted(by_number) != list(range(len(job.results))):
        raise StageError("some results stay on the host, as in TT-Buda, and are not compared")
    outputs: list[np.ndarray] = []
    for number, desc in enumerate(job.results):
        value: Any = by_number[number]
        outputs.append(value.astype(numpy_dtype(desc.data_type)).reshape(desc.shape))
    return outputs

"""The reference backend: this project's compiler, stage by stage, and its simulated card."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import metadata, util
from typing import TYPE_CHECKING, Any

from opscope.base.digest import digest_of_sources, source_files
from opscope.base.places import HOME
from opscope.harness.backends import simulated
from opscope.harness.backends.base import Backend, Job, Target, Watch, climb_smallest
from opscope.harness.backends.simulated import board_of
from opscope.harness.prepare.paths import moved, moves_of
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage
from opscope.harness.verdict.tails import CARD, TTNN_FORMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opscope.compiler.api import CompileOptions, SystemDesc
    from opscope.harness.backends.base import Apart

DEFAULT_FIDELITY = "HiFi4"
_DECODED = "decoded"
"""Key of a job's state: its binary, and the programs as they were decoded when that was written."""
LOADS = "load_cached"
"""The kernel whose results come from another program, whose ops are observed one by one."""


class Reference(Backend):
    """StableHLO -> TTIR -> TTNN -> flatbuffer -> simulated device."""

    name = "reference"
    lasting = True
    has_levels = True
    takes_apart = True
    cheap_ir = True
    of_this_project = True
    in_op_table = True
    forkable = True
    runs_meshes = True
    stages = (Stage.STABLEHLO_TO_TTIR, Stage.TTIR_TO_TTNN, Stage.TTNN_TO_FLATBUFFER, Stage.RUN)

    def target(self, options: ResultOptions) -> Target:
        """The simulated card of a board. Raises InputError if there is no such board or format."""
        board = board_of(options.arch)
        self.check_mesh(options)
        narrow, wide = _mixed(options.amp_level)
        return Target(
            card_type=f"sim-{board.board}",
            float_format=float_format_of(board, options.data_format) or wide,
            product_format=narrow,
            math_fidelity=options.math_fidelity or DEFAULT_FIDELITY,
            matrix_format="Tf32",
            narrow_dst=not board.has_fp32_dst,
            exact_order=options.exact_order,
            error_bound=simulated.error_bound,
            cuts_result=simulated.cuts_result,
            signed_zeros=True,
            tails=simulated.TAILS if options.exact_order else CARD,
            forms=TTNN_FORMS if options.exact_order else (),
        )

    def check_mesh(self, options: ResultOptions) -> None:
        """Raises InputError for a mesh of more devices than the board has chips."""
        simulated.check_mesh(options.mesh, options.arch)

    def board_for(self, devices: int, board: str) -> str:
        """`board` if it has so many chips, else the smallest that has; `board` where none has."""
        return simulated.board_for(devices, board)

    def fingerprint(self, options: ResultOptions | None = None) -> str:
        """A hash of compiler, simulator and their packages. Imports both, so that no op's time includes it."""
        return _fingerprint()

    def climb(self, stage: Stage, job: Job) -> None:
        """Takes the job through one stage. Raises StageError with the compiler's or the device's own message."""
        with simulated.refusals():
            _STEPS[stage](job, board_of(job.options.arch))
        if stage is Stage.TTNN_TO_FLATBUFFER and job.options.numerics == "ttnn":
            job.target = self._as_ttnn(job)
        if stage is Stage.RUN and job.ran_on == "host":
            job.target = self.target(job.options).on_host()

    def _as_ttnn(self, job: Job) -> Target:
        """The target of an op whose fidelity and width of Dst ttnn chooses."""
        from opscope.compiler.api import matrix_numerics

        fidelity, narrow = matrix_numerics(job.state[_DECODED][1].programs)
        target = self.target(job.options)
        return replace(target, math_fidelity=fidelity, narrow_dst=target.narrow_dst or narrow)

    def take_apart(self, module: bytes, options: ResultOptions, argument_types: tuple[str, ...] = ()) -> Apart:
        """Compiles a whole module and returns each op of its TTNN as its own module. Raises StageError."""
        from opscope.harness.backends.reference_pieces import take_apart

        return take_apart(self, module, options, argument_types)

    def warm_up(self, options: ResultOptions | None = None) -> None:
        """Takes one small op through all stages, so that no op's time includes imports and tables."""
        climb_smallest(self)

    def available(self) -> str | None:
        """Returns None if the compiler's framework is installed."""
        missing = [name for name in ("xdsl", "jaxlib") if util.find_spec(name) is None]
        return f"pip install {' '.join(missing)}" if missing else None

    def remark(self) -> str:
        """Who makes the simulator's passes over arrays, and how large an op may be."""
        from opscope.simulator.api import passes_by

        return f"passes by {passes_by()}; {simulated.LIMIT}"


def _to_ttir(job: Job, board: SystemDesc) -> None:
    from opscope.compiler.api import pipeline, stablehlo_to_ttir

    options = _compile_options(job)
    job.pipeline = pipeline(options, board)
    job.state[Stage.STABLEHLO_TO_TTIR] = stablehlo_to_ttir(job.module, options, board)


def _to_ttnn(job: Job, board: SystemDesc) -> None:
    from opscope.compiler.api import ttir_to_ttnn

    ttir = job.state.pop(Stage.STABLEHLO_TO_TTIR)
    job.state[Stage.TTIR_TO_TTNN] = ttir_to_ttnn(ttir, board, _compile_options(job), keep=False)


def _to_flatbuffer(job: Job, board: SystemDesc) -> None:
    from opscope.compiler.api import decode, describe_io, piece_module, ttnn_to_flatbuffer

    ttnn = job.state.pop(Stage.TTIR_TO_TTNN, None) or piece_module(job.module.decode())
    binary = ttnn_to_flatbuffer(ttnn, board, _compile_options(job))
    decoded = decode(binary)
    chosen = describe_io(decoded)
    job.input_descs = [described(desc) for desc in chosen.inputs]
    job.output_descs = [described(desc) for desc in chosen.outputs]
    job.state[Stage.TTNN_TO_FLATBUFFER] = binary
    job.state[_DECODED] = binary, decoded


def _run(job: Job, board: SystemDesc) -> None:
    from opscope.compiler.api import ran_on
    from opscope.simulator.api import Device

    binary = job.state.pop(Stage.TTNN_TO_FLATBUFFER)
    written, decoded = job.state.pop(_DECODED, (None, None))
    device = Device(board.board, exact_order=job.options.exact_order)
    executable = device.load_decoded(decoded) if decoded and written is binary else device.load(binary)
    simulated.decline_large(executable)
    watched = observer(job.watch, executable.programs.values()) if job.watch is not None else None
    if job.several_devices:
        result = simulated.run_together(job, executable, list, list)
    else:
        result = executable.run(job.inputs, observe=watched)
        job.outputs = result.outputs
    job.ran_on = ran_on(executable.programs.values())
    simulated.count(job, result, executable)


def observer(watch: Watch, programs: Iterable[Any]) -> Callable[[Any], None]:
    """Returns a function that passes values of the running program to `watch`.

    The value of an op comes from the last kernel that carries the op's path and computes what the op does. Kernels that
    only move a value between host and device, or load it, do not count.
    """
    from opscope.compiler.api import MOVES
    from opscope.harness.verdict.intermediates import CompiledOp, candidates

    operations: list[Any] = []
    compiled_ops: list[CompiledOp] = []
    for number, program in enumerate(programs):
        for op in program.operations:
            if op.kernel not in MOVES and op.kernel != LOADS:
                operations.append(op)
                tensors = [program.tensors[tensor] for tensor in op.outputs]
                compiled_ops.append(
                    CompiledOp(number, op.location, [(tensor.shape, tensor.element_type) for tensor in tensors])
                )
    chosen = candidates(compiled_ops, watch.expected)
    paths = {id(operations[number]): path for path, number in chosen.items()}
    watch.begin(frozenset(chosen))

    def observe(step: Any) -> None:
        path = paths.get(id(step.operation))
        if path is not None:
            moves = moves_of(step.operation.location) or ()
            watch.seen(path, lambda: [moved(array, moves) for array in step.results()])

    return observe


_STEPS = {
    Stage.STABLEHLO_TO_TTIR: _to_ttir,
    Stage.TTIR_TO_TTNN: _to_ttnn,
    Stage.TTNN_TO_FLATBUFFER: _to_flatbuffer,
    Stage.RUN: _run,
}


def _mixed(level: int) -> tuple[str | None, str | None]:
    """Formats of products and of all other floats at a level of mixed precision; None stands for the default."""
    if not level:
        return None, None
    from opscope.compiler.api import MIXED_PRECISION

    narrow, wide = MIXED_PRECISION[level]
    return narrow, wide if level > 1 else None


def _compile_options(job: Job) -> CompileOptions:
    from opscope.compiler.api import CompileOptions

    board = board_of(job.options.arch)
    return CompileOptions(
        data_format=float_format_of(board, job.options.data_format),
        math_fidelity=job.options.math_fidelity or ("" if job.options.numerics == "ttnn" else DEFAULT_FIDELITY),
        unsupported_types=job.options.unsupported_types,
        optimization_level=job.options.optimization_level,
        amp_level=job.options.amp_level,
        # Below level 1 no pass reads them, and the pipeline stays short.
        argument_types=job.argument_types if job.options.optimization_level else (),
        dump_dir=str(job.ir_dir) if job.ir_dir else None,
        numerics=job.options.numerics,
    )


def float_format_of(board: SystemDesc, requested: str | None) -> str | None:
    """Returns the board's name for a float format, given in upper or lower case; None for each tensor's own type."""
    if requested is None:
        return None
    format_of_name = {name.lower(): name for name in board.formats if not name.startswith(("Int", "UInt", "Raw"))}
    if requested.lower() not in format_of_name:
        expected = f"a float format of {board.board}"
        raise InputError("--data-format", expected, f"'{requested}'", closest(requested, format_of_name.values()))
    return format_of_name[requested.lower()]


def described(desc: Any) -> TensorDesc:
    """Returns the compiler's choices for one tensor, as a record holds them."""
    return TensorDesc(
        shape=desc.shape,
        data_type=desc.element_type,
        buffer_type=desc.buffer_type,
        layout=f"{desc.layout},{desc.memory_layout},{desc.data_format}",
        grid_shape=desc.grid,
    )


@cache
def _fingerprint() -> str:
    from opscope.compiler import api

    versions = api.fingerprint(), f"numpy={metadata.version('numpy')}"
    return f"reference-{digest_of_sources(source_files(HOME / 'simulator'), *versions, root=HOME, digits=16)}"

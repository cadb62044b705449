"""A simulated card: loads a binary, allocates, runs its kernels in the declared number formats, counts cycles."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opscope.compiler.target.binary import BinaryError, read
from opscope.compiler.target.formats import FORMATS, host_dtype
from opscope.compiler.target.plan import PlacedOp, Plan
from opscope.compiler.target.program import Binary, ControlParams, Operation, Program, TensorDesc, programs_of
from opscope.compiler.target.system_desc import Profile as CoreProfile
from opscope.compiler.target.system_desc import SystemDesc, base_and_mask, holds_rows, load_board
from opscope.simulator.arithmetic import PLAIN, Arithmetic
from opscope.simulator.by_pattern import by_pattern
from opscope.simulator.errors import (
    BadBinary,
    BadInput,
    DeviceError,
    KernelError,
    MeshError,
    UnsupportedFormat,
    UnsupportedKernel,
    WrongBoard,
)
from opscope.simulator.images import from_host, held, is_held, pack, to_host, widened
from opscope.simulator.kernels import KERNELS
from opscope.simulator.kernels.layout import only_places
from opscope.simulator.kernels.matmul import FIDELITIES
from opscope.simulator.kernels.registry import Body, Call, Images
from opscope.simulator.memory import MemoryPlan, plan_memory
from opscope.simulator.mesh import END, Chip, Mesh
from opscope.simulator.observing import Observer, Step
from opscope.simulator.per_core import run_per_core
from opscope.simulator.placed import check_plan, chip_grids, planned_operations, run_placed
from opscope.simulator.plain import plain
from opscope.simulator.profile import OpCost, Profile
from opscope.simulator.scalar import Scalar, applies_to_scalars
from opscope.simulator.timing.closed_form import ClosedForm
from opscope.simulator.timing.protocol import Timing

MOVING = ("move", "control", "host")
"""Units that pass data on unchanged, or compute it elsewhere."""


@dataclass(frozen=True)
class RunResult:
    """Outputs in the program's declared element types, and the cost of the run."""

    outputs: list[np.ndarray]
    profile: Profile
    link_bytes: int = 0
    """What the chip received from others of its mesh."""
    link_ns: float | None = 0.0
    """How long that takes (simulator/links.py), None for a board without links; the profile does not count it."""


class Device:
    """One card. Raises ValueError for an unknown board."""

    def __init__(
        self,
        board: str = "n150",
        *,
        profile: str | None = None,
        exact_order: bool = False,
        stochastic_seed: int | None = None,
        timing: Timing | None = None,
    ) -> None:
        """`exact_order` adds products in the matrix unit's own order; `stochastic_seed` makes the packer round by
        random bits (slower and other numbers; NumPy's bits, not the hardware's). `timing` is the model of time, by
        default a formula for each operation. `profile` names whose figures of grid, L1 and DRAM hold: `ttnn`, which a
        program with a plan is refused for, or `buda`; by default ttnn's, and buda's for what a plan places.
        """
        self.timing: Timing = timing or ClosedForm()
        self.system: SystemDesc = load_board(board)
        self.named_profile, self.profile = profile, self.system.profile(profile or "ttnn")
        random = None if stochastic_seed is None else np.random.default_rng(stochastic_seed)
        self.arithmetic = Arithmetic(self.system.arch, exact_order, random)

    @property
    def card_type(self) -> str:
        """The name of the simulated card, such as `sim-n150`; never that of the real card."""
        return f"sim-{self.system.board}"

    def load(self, binary: bytes) -> Executable:
        """Checks a binary and loads its programs; the first is the entry.

        Raises BadBinary, WrongBoard, UnsupportedKernel, UnsupportedFormat.
        """
        if not isinstance(binary, bytes | bytearray | memoryview):
            raise BadBinary(f"load: expected the bytes of a program, got {type(binary).__name__}; try Path.read_bytes")
        try:
            decoded = read(binary)
        except BinaryError as error:
            raise BadBinary(str(error)) from error
        return self.load_decoded(decoded)

    def load_decoded(self, decoded: Binary) -> Executable:
        """Does what `load` does, for a binary that `compiler.target.binary.read` has read."""
        _check_board(decoded, self.system)
        if decoded.plan.ops and self.named_profile == "ttnn":
            raise WrongBoard(
                f"load: expected a program without a plan for profile ttnn, got a plan of {len(decoded.plan.ops)} ops, "
                "which was made for buda; try --profile buda"
            )
        if not decoded.programs:
            raise BadBinary("load: expected at least one program, got none; try to compile again")
        for program in decoded.programs:
            _check_program(program, self.system)
        _check_bodies(decoded.programs)
        board = load_board(decoded.board)
        check_plan(decoded, board)
        return Executable(decoded.programs, self, decoded.plan, chip_grids(decoded, board))


class Executable:
    """A loaded program and the programs that it calls; it can run any number of times."""

    def __init__(
        self, programs: Sequence[Program], device: Device, plan: Plan | None = None,
        grids: dict[int, tuple[int, int]] | None = None,
    ) -> None:  # fmt: skip
        self.program, self.device = programs[0], device
        self.plan = plan or Plan()
        self.placed = planned_operations(self.plan)
        """Operation of the entry -> its place in the plan."""
        self.grids = grids or {}
        """Chip of the plan -> rows and columns of its cores that are not switched off."""
        self.programs = {program.name: program for program in programs}
        self.kept: dict[str, tuple[bytes, Images]] = {}
        """Program that is computed once -> the digest of its inputs, and its results."""
        self._costs: dict[str, list[OpCost]] = {}
        self.system_of: Callable[[Operation, Program], SystemDesc] = lambda op, program: device.system
        """Operation and its program -> the system description by which it is timed."""
        self._memory: MemoryPlan | None = None
        self._scalars: dict[str, Scalar] = {}
        self._only_placed: dict[str, frozenset[int]] = {}

    @property
    def memory(self) -> MemoryPlan:
        """The memory that its tensors take. Raises OutOfMemory if they do not fit."""
        if self._memory is None:
            self._memory = plan_memory(self.program, self.device.profile, self.programs)
        return self._memory

    @functools.cached_property
    def profile(self) -> Profile:
        """The cost of a run in which every called program runs once; without control flow, the cost of every run."""
        return self.device.timing.cost(self)

    def costs(self, program: Program) -> list[OpCost]:
        """Returns the cost of each operation of a program; that of control flow excludes the programs it calls."""
        if program.name not in self._costs:
            self._costs[program.name] = self.device.timing.operation_costs(self, program)
        return self._costs[program.name]

    def time_on(self, system_of: Callable[[Operation, Program], SystemDesc]) -> None:
        """Times each operation on another system description from now on, such as one with slower DRAM."""
        self.system_of = system_of
        self._costs.clear()
        self.__dict__.pop("profile", None)

    def only_placed(self, program: Program) -> frozenset[int]:
        """Returns the operations, by number, whose result has the image of their operand: moves within one format.

        They are half of what a small operation takes: around each there are four of them or more.
        """
        if program.name not in self._only_placed:
            self._only_placed[program.name] = frozenset(
                number for number, op in enumerate(program.operations) if only_places(op, program)
            )
        return self._only_placed[program.name]

    def scalar(self, name: str) -> Scalar:
        """Returns a body that a kernel applies to whole arrays."""
        if name not in self._scalars:
            self._scalars[name] = Scalar(self.programs[name], self.device.arithmetic)
        return self._scalars[name]

    def run(
        self, inputs: Sequence[np.ndarray], *, per_core: bool = False, observe: Observer | None = None
    ) -> RunResult:
        """Runs the program. Raises OutOfMemory before any data is touched, BadInput, KernelError.

        `per_core` computes each result rectangle by rectangle, as the cores do, which is slower and gives the same
        values. `observe` is called after every operation, in order, also in programs of control flow and in those that
        are computed once, when they are computed. It may change the results.
        """
        return self._on(Chip(), inputs, self.device.profile if per_core else None, observe)

    def run_mesh(self, inputs: Sequence[Sequence[np.ndarray]]) -> list[RunResult]:
        """Runs the program on each chip of a mesh with inputs of its own; returns one result per chip.

        Collectives exchange data between the chips. Raises what `run` raises on the first chip that fails, and
        MeshError if the chips do not reach the same collective. The time of the links stands beside the profile's.
        """
        _ = self.profile  # computed once, before there are threads
        mesh = Mesh(len(inputs))
        results: list[RunResult | None] = [None] * len(inputs)
        failed: list[DeviceError] = []

        def run_chip(chip: int) -> None:
            try:
                results[chip] = self._on(Chip(chip, mesh), inputs[chip])
                mesh.gather(chip, END, None)
            except DeviceError as error:
                failed.append(error)
                mesh.fail()

        threads = [threading.Thread(target=run_chip, args=(chip,), daemon=True) for chip in range(len(inputs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise next((error for error in failed if not isinstance(error, MeshError)), failed[0])
        return [result for result in results if result is not None]

    def _on(
        self, chip: Chip, inputs: Sequence[np.ndarray], cores: CoreProfile | None = None,
        observe: Observer | None = None,
    ) -> RunResult:  # fmt: skip
        profile = self.profile
        program = self.program
        _check_inputs(program, inputs)
        images: Images = []
        for tensor, array in zip(program.inputs, inputs, strict=True):
            image = np.asarray(held(np.asarray(array), program.tensors[tensor])).view()
            image.flags.writeable = False
            images.append(image)
        run = _Run(self, cores, chip, observe)
        with np.errstate(all="ignore"):
            results = run.call(program, images)
            # Results that nobody else has seen are handed over as they are.
            own = observe is None and chip.mesh.chips == 1 and len({id(r) for r in results}) == len(results)
            outputs = [to_host(r, program.tensors[t], own=own) for r, t in zip(results, program.outputs, strict=True)]
        if len(self.programs) > 1:
            profile = self.device.timing.cost(self, run.trips)
        return RunResult(outputs, profile, chip.links.received, chip.links.nanoseconds(self.device.system.ethernet))


class _Run:
    """The state of one run, and how often each called program ran so far."""

    def __init__(
        self, executable: Executable, cores: CoreProfile | None, chip: Chip, observe: Observer | None = None
    ) -> None:
        self.executable, self.cores, self.chip, self.observe = executable, cores, chip, observe
        self.trips: Counter[str] = Counter()

    def call(self, program: Program, images: Images) -> Images:
        """Runs a program and returns the images of its outputs."""
        values = dict(zip(program.inputs, images, strict=True))
        placed = self.executable.placed if program is self.executable.program and self.cores else {}
        if program is not self.executable.program:
            self.trips[program.name] += 1
        arithmetic = self.executable.device.arithmetic
        only_placed = self.executable.only_placed(program) if self.cores is None else frozenset[int]()
        for number, op in enumerate(program.operations):
            if number in only_placed:
                results = [_value(values, t, _named(op)) for t in op.inputs][: len(op.outputs)]
            else:
                results = execute(
                    op, program, values, self.cores, self.bodies(op), placed.get(number), self.chip, arithmetic,
                    halves=self.cores is None,
                )  # fmt: skip
            for tensor, image in zip(op.outputs, results, strict=True):
                values[tensor] = image
            if self.observe is not None:
                for tensor, array in zip(op.outputs, self.observe(Step(op, program, values)) or (), strict=False):
                    values[tensor] = from_host(np.asarray(array), program.tensors[tensor])
            if op.kernel == "deallocate":
                for tensor in op.inputs:
                    values.pop(tensor, None)
        results = [(_value(values, t, "outputs"), program.tensors[t]) for t in program.outputs]
        if program is self.executable.program:
            return [image for image, _ in results]
        return [widened(image) if is_held(image, desc) else image for image, desc in results]

    def bodies(self, op: Operation) -> tuple[Body, ...]:
        """Returns the programs that an operation names, as functions.

        Those of control flow run on the device, one operation at a time.
        """
        names = programs_of(op.params)
        if not isinstance(op.params, ControlParams):
            return tuple(self.executable.scalar(name) for name in names)
        if op.kernel == "load_cached":
            return (self.cached(self.executable.programs[names[0]]),)
        return tuple(self.body(self.executable.programs[name]) for name in names)

    def cached(self, program: Program) -> Body:
        """Returns a program as a function that only runs it if its inputs differ from those of the last time.

        Its costs are counted separately, in the profile's `once`.
        """

        def run(*images: np.ndarray) -> Images:
            digest = hashlib.sha256()
            for image in images:
                digest.update(np.ascontiguousarray(image).view(np.uint8).reshape(-1).data)
            key = digest.digest()
            kept = self.executable.kept.get(program.name)
            if kept is None or kept[0] != key:
                first = _Run(self.executable, self.cores, self.chip, self.observe)
                kept = (
                    key,
                    [np.asarray(image) for image in first.call(program, list(images))],
                )
                for image in kept[1]:
                    image.flags.writeable = False  # a caller must not get them as its own
                self.trips += first.trips
                self.executable.kept[program.name] = kept
            return list(kept[1])

        return run

    def body(self, program: Program) -> Body:
        """Returns a program as a function for kernels."""
        return lambda *images: self.call(program, list(images))


def execute(
    op: Operation,
    program: Program,
    values: dict[int, np.ndarray],
    cores: CoreProfile | None = None,
    bodies: tuple[Body, ...] = (),
    placed: PlacedOp | None = None,
    chip: Chip | None = None,
    arithmetic: Arithmetic = PLAIN,
    *,
    halves: bool = False,
) -> Images:
    """Executes one operation and returns the images of its results; with `halves`, large bfloat16 as their bits.

    They are computed core by core if `cores` is given, and by the cores of the plan if it is `placed`. Raises
    KernelError if they are not what the program declares.
    """
    where = _named(op)
    call = Call(
        op.params,
        op.numerics,
        tuple(program.tensors[t] for t in op.inputs),
        tuple(program.tensors[t] for t in op.outputs),
        bodies,
        replace(chip or Chip(), at=where),
        arithmetic,
    )
    kernel = KERNELS[op.kernel]
    images = [_value(values, t, where) for t in op.inputs]
    on_bits = kernel.picks and placed is None and cores is None and _all_held(images, call)
    halves = halves and placed is None and cores is None
    dst = "Float32" if kernel.unit in MOVING else op.numerics.dst_format
    rounds = kernel.rounds and not (op.numerics.math_approx and kernel.unit == "sfpu")
    packer = functools.partial(pack, dst_format=dst, rounds=rounds, arithmetic=arithmetic, halves=halves)
    try:
        if halves and (result := plain(kernel, images, call, dst)) is not None:
            return [result]
        if halves and (result := by_pattern(kernel, images, call, packer)) is not None:
            return [result]
        if not on_bits:
            images = [widened(i) if is_held(i, desc) else i for i, desc in zip(images, call.inputs, strict=True)]
        if placed is not None:
            result = run_placed(kernel, images, call, placed)
        else:
            result = kernel.function(images, call) if cores is None else run_per_core(kernel, images, call, cores)
    except DeviceError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, ZeroDivisionError, OverflowError) as error:
        raise KernelError(f"{where}: expected operands that go together, got {error}; try to compile again") from error
    results = result if isinstance(result, list) else [result]
    if len(results) != len(op.outputs):
        raise KernelError(f"{where}: expected {len(op.outputs)} results, got {len(results)}; try to compile again")
    packed: Images = []
    for number, (value, desc) in enumerate(zip(results, call.outputs, strict=True)):
        if np.shape(value) != desc.shape:
            raise KernelError(f"{where}: expected a result of shape {desc.shape}, got {np.shape(value)}")
        source = call.inputs[number : number + 1]
        moved = kernel.unit in MOVING and all(d.data_format == desc.data_format for d in source)
        moved |= kernel.unit in ("control", "host")
        if on_bits:
            if moved:
                packed.append(np.asarray(value))
                continue
            value = widened(np.asarray(value))
        packed.append(packer(value, desc, moved=moved))
    return packed


def _named(op: Operation) -> str:
    """An operation as errors name it."""
    return f"{op.kernel} ({op.location})" if op.location else op.kernel


def _all_held(images: Images, call: Call) -> bool:
    """Whether there are floats in a call, and all are bfloat16's bits and stay so."""
    floats = [is_held(i, d) for i, d in zip(images, call.inputs, strict=True) if FORMATS[d.data_format].is_float]
    return any(floats) and all(floats) and all(desc.data_format == "Float16_b" for desc in call.outputs)


def _value(values: dict[int, np.ndarray], tensor: int, where: str) -> np.ndarray:
    if tensor not in values:
        raise KernelError(f"{where}: expected tensor {tensor} to be written and not freed, got none")
    return values[tensor]


def _check_board(binary: Binary, system: SystemDesc) -> None:
    """Checks that a board is the one of a program, or has all rows of cores of the one of a plan. Raises WrongBoard."""
    if binary.board == system.board:
        return
    try:
        (board, wanted), (own, switched_off) = base_and_mask(binary.board), base_and_mask(system.board)
    except ValueError as error:
        raise WrongBoard(f"load: expected a program for {system.board}, got one for {binary.board!r}") from error
    masks = [wanted | mask for mask in binary.harvested or (0,)]
    if board != own or not binary.plan.ops or not all(holds_rows(system.arch, switched_off, mask) for mask in masks):
        raise WrongBoard(
            f"load: expected a program for {system.board}, got one for {binary.board}"
            f"{f' without the rows of {list(masks)}' if any(masks) else ''}; "
            f"try to compile with --arch {system.board}"
        )


def _check_program(program: Program, system: SystemDesc) -> None:
    """Checks that the board can run a program. Raises UnsupportedKernel or UnsupportedFormat."""
    for desc in program.tensors:
        _check_tensor(desc, system)
    for op in program.operations:
        kernel = KERNELS.get(op.kernel)
        if kernel is None:
            raise UnsupportedKernel(f"load: expected a kernel that {system.board} has, got {op.kernel!r}")
        low, high = kernel.arity
        if not low <= len(op.inputs) <= high or not isinstance(op.params, kernel.params):
            raise UnsupportedKernel(
                f"load: expected {op.kernel} of {low} to {high} inputs with {kernel.params.__name__}, "
                f"got {len(op.inputs)} inputs with {type(op.params).__name__}"
            )
        computes = kernel.unit not in MOVING and any(
            FORMATS[program.tensors[t].data_format].is_float for t in (*op.inputs, *op.outputs)
        )
        if computes and op.numerics.dst_format not in system.dst_formats:
            raise UnsupportedFormat(
                f"load: expected a Dst of {', '.join(system.dst_formats)} on {system.board}, "
                f"got {op.numerics.dst_format} for {op.kernel}; try --data-format Float16_b"
            )
        if op.numerics.fidelity not in FIDELITIES:
            raise UnsupportedFormat(
                f"load: expected a fidelity of {', '.join(FIDELITIES)}, got {op.numerics.fidelity!r} for {op.kernel}"
            )
        if not op.outputs and op.kernel != "deallocate":
            raise UnsupportedKernel(f"load: expected {op.kernel} to have results, got none; try to compile again")


def _check_bodies(programs: Sequence[Program]) -> None:
    """Checks that kernels apply only elementwise programs. Raises UnsupportedKernel."""
    by_name = {program.name: program for program in programs}
    for program in programs:
        for op in program.operations:
            if isinstance(op.params, ControlParams):
                continue
            for body in (by_name[name] for name in programs_of(op.params)):
                for step in body.operations:
                    if not applies_to_scalars(step):
                        raise UnsupportedKernel(
                            f"load: expected a body of elementwise kernels for {op.kernel}, got {step.kernel!r}"
                        )


def _check_tensor(desc: TensorDesc, system: SystemDesc) -> None:
    known = FORMATS.get(desc.data_format)
    if known is None or (desc.buffer_type != "system_memory" and desc.data_format not in system.formats):
        raise UnsupportedFormat(
            f"load: expected a format of {', '.join(system.formats)} on {system.board}, got {desc.data_format!r}"
        )
    if known.kind == "block" and desc.layout != "tile":
        raise UnsupportedFormat(f"load: expected layout tile for {desc.data_format}, got {desc.layout}")
    if desc.buffer_type not in ("dram", "l1", "system_memory") or desc.layout not in ("tile", "row_major"):
        raise UnsupportedFormat(f"load: expected dram, l1 or system_memory in tile or row_major, got {desc}")


def _check_inputs(program: Program, inputs: Sequence[np.ndarray]) -> None:
    if not isinstance(inputs, Sequence):
        raise BadInput(f"run: expected a list of arrays, got {type(inputs).__name__}; try run([x, y])")
    if len(inputs) != len(program.inputs):
        raise BadInput(f"run: expected {len(program.inputs)} inputs, got {len(inputs)}")
    for index, (tensor, array) in enumerate(zip(program.inputs, inputs, strict=True)):
        check_array(f"run: expected input {index}", program.tensors[tensor], array)


def check_array(where: str, desc: TensorDesc, array: np.ndarray) -> None:
    """Raises BadInput if an array is not what a program declares for a tensor of the host."""
    dtype = host_dtype(desc.element_type)
    if not hasattr(array, "dtype"):
        raise BadInput(f"{where} to be an array, got {type(array).__name__}; try np.asarray")
    if np.shape(array) != desc.shape or np.asarray(array).dtype != dtype:
        raise BadInput(f"{where} of {dtype}{list(desc.shape)}, got {array.dtype}{list(array.shape)}")

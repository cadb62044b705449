"""A simulated card: loads a binary, allocates, runs its kernels in the declared number formats, counts cycles."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opscope.compiler.target.binary import BinaryError, read
from opscope.compiler.target.plan import Plan
from opscope.compiler.target.program import Binary, ControlParams, Operation, Program
from opscope.compiler.target.system_desc import Profile as CoreProfile
from opscope.compiler.target.system_desc import SystemDesc, load_board
from opscope.simulator.arithmetic import Arithmetic
from opscope.simulator.device_checks import check_board, check_bodies, check_inputs, check_program
from opscope.simulator.errors import (
    BadBinary,
    DeviceError,
    MeshError,
    WrongBoard,
)
from opscope.simulator.images import as_bits, from_host, is_held, to_host, widened
from opscope.simulator.kernels.layout import only_places
from opscope.simulator.kernels.registry import Body, Images
from opscope.simulator.memory import MemoryPlan, plan_memory
from opscope.simulator.mesh import END, Chip, Mesh
from opscope.simulator.observing import Observer, Step
from opscope.simulator.operation_run import PreparedOperation, named, value_of
from opscope.simulator.placed import check_plan, chip_grids, planned_operations
from opscope.simulator.profile import OpCost, Profile
from opscope.simulator.scalar import Scalar
from opscope.simulator.timing.closed_form import ClosedForm
from opscope.simulator.timing.protocol import Timing


@dataclass(frozen=True)
class RunResult:
    """Outputs in the program's declared element types, and the cost of the run."""

    outputs: list[np.ndarray]
    profile: Profile
    link_bytes: int = 0
    """What the chip received from others of its mesh."""
    link_ns: float | None = 0.0
    """How long that takes (simulator/mesh.py), None for a board without links; the profile does not count it."""


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
        """`exact_order` computes in the steps of ttnn's own kernels; `stochastic_seed` makes the packer round by
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
        check_board(decoded, self.system)
        if decoded.plan.ops and self.named_profile == "ttnn":
            raise WrongBoard(
                f"load: expected a program without a plan for profile ttnn, got a plan of {len(decoded.plan.ops)} ops, "
                "which was made for buda; try --profile buda"
            )
        if not decoded.programs:
            raise BadBinary("load: expected at least one program, got none; try to compile again")
        for program in decoded.programs:
            check_program(program, self.system)
        check_bodies(decoded.programs)
        board = load_board(decoded.board)
        check_plan(decoded, board)
        return Executable(decoded.programs, self, decoded.plan, chip_grids(decoded, board))


class _Step(NamedTuple):
    """An operation of a loaded program."""

    operation: Operation
    where: str
    prepared: PreparedOperation | None
    """None: it frees tensors, or its result has the image of its operand."""
    freed: tuple[int, ...]


class Executable:
    """A loaded program and the programs that it calls; it can run any number of times."""

    def __init__(
        self,
        programs: Sequence[Program],
        device: Device,
        plan: Plan | None = None,
        grids: dict[int, tuple[int, int]] | None = None,
    ) -> None:
        self.program, self.device = programs[0], device
        self.plan = plan or Plan()
        self.placed = planned_operations(self.plan)
        """Operation of the entry -> its place in the plan."""
        self.grids = grids or {}
        """Chip of the plan -> rows and columns of its cores that are not switched off."""
        self.programs = {program.name: program for program in programs}
        self.kept: dict[tuple[str, int], tuple[bytes, Images]] = {}
        """Program that is computed once, and the chip -> the digest of its inputs, and its results."""
        self._costs: dict[str, list[OpCost]] = {}
        self.system_of: Callable[[Operation, Program], SystemDesc] = lambda op, program: device.system
        """Operation and its program -> the system description by which it is timed."""
        self._memory: MemoryPlan | None = None
        self._scalars: dict[str, Scalar] = {}
        self._prepared: dict[tuple[str, bool], list[_Step]] = {}

    @property
    def memory(self) -> MemoryPlan:
        """The memory that its tensors take. Raises OutOfMemory if they do not fit."""
        if self._memory is None:
            self._memory = plan_memory(self.program, self.device.profile, self.programs)
        return self._memory

    @property
    def cores(self) -> int:
        """Cores of a chip that it may use: of a plan those of Buda's grid, but for rows that are switched off."""
        rows, columns = max(self.grids.values()) if self.plan.ops else self.device.profile.grid
        return rows * columns

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

    def steps(self, program: Program, *, as_one: bool) -> list[_Step]:
        """Returns a program's operations, prepared; `as_one`: for whole tensors, not core by core.

        Then one whose result has the image of its operand is no work: around a small operation are four and more.
        """
        key = program.name, as_one
        if key not in self._prepared:
            self._prepared[key] = [
                _Step(
                    op,
                    named(op),
                    None
                    if as_one and only_places(op, program)
                    else PreparedOperation(op, program, self.device.arithmetic, halves=as_one),
                    op.inputs if op.kernel == "deallocate" else (),
                )
                for op in program.operations
            ]
        return self._prepared[key]

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
        self,
        chip: Chip,
        inputs: Sequence[np.ndarray],
        cores: CoreProfile | None = None,
        observe: Observer | None = None,
    ) -> RunResult:
        profile = self.profile
        program = self.program
        check_inputs(program, inputs)
        images: Images = []
        for tensor, array in zip(program.inputs, inputs, strict=True):
            image = np.asarray(as_bits(np.asarray(array), program.tensors[tensor])).view()
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
        observe = self.observe
        for number, (op, where, prepared, freed) in enumerate(
            self.executable.steps(program, as_one=self.cores is None)
        ):
            if prepared is not None:
                bodies = self.bodies(op, prepared.programs) if prepared.programs else ()
                results = prepared.run(values, self.cores, bodies, placed.get(number), self.chip)
                values.update(zip(op.outputs, results, strict=True))
            elif not freed:
                values[op.outputs[0]] = value_of(values, op.inputs[0], where)
            if observe is not None:
                for tensor, array in zip(op.outputs, observe(Step(op, program, values)) or (), strict=False):
                    values[tensor] = from_host(np.asarray(array), program.tensors[tensor])
            for tensor in freed:
                value_of(values, tensor, where)
                del values[tensor]
        results = [(value_of(values, t, "outputs"), program.tensors[t]) for t in program.outputs]
        if program is self.executable.program:
            return [image for image, _ in results]
        return [widened(image) if is_held(image, desc) else image for image, desc in results]

    def bodies(self, op: Operation, names: Sequence[str]) -> tuple[Body, ...]:
        """Returns the programs that an operation names, as functions.

        Those of control flow run on the device, one operation at a time.
        """
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
            kept = self.executable.kept.get((program.name, self.chip.chip))
            if kept is None or kept[0] != key:
                first = _Run(self.executable, self.cores, self.chip, self.observe)
                kept = (
                    key,
                    [np.asarray(image) for image in first.call(program, list(images))],
                )
                for image in kept[1]:
                    image.flags.writeable = False  # a caller must not get them as its own
                self.trips += first.trips
                self.executable.kept[program.name, self.chip.chip] = kept
            return list(kept[1])

        return run

    def body(self, program: Program) -> Body:
        """Returns a program as a function for kernels."""
        return lambda *images: self.call(program, list(images))

"""Runs the programs of a plan: the host executes graph after graph, and data waits in queues between them.

Pointers of queues count entries round twice their number, as TT-Buda's do, so that a full queue differs from an empty
one (tt-budabackend: netlist/README.md, "Queue Settings"). `Executable.run` computes the same results in one pass.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.interpret import Allocation, Execution, HostProgramError, steps
from opscope.compiler.target.plan import EpochPlan, QueuePlan
from opscope.compiler.target.program import programs_of
from opscope.compiler.target.rounding import quantise
from opscope.simulator.device import Executable
from opscope.simulator.device_checks import check_array
from opscope.simulator.errors import BadBinary, BadInput
from opscope.simulator.images import from_host, to_host
from opscope.simulator.operation_run import PreparedOperation
from opscope.simulator.profile import OpCost, Profile

SETTINGS = frozenset(
    {
        "prologue",
        "epilogue",
        "zero",
        "rd_ptr_local",
        "rd_ptr_global",
        "wr_ptr_global",
        "rd_ptr_autoinc",
        "global_rdptr_autoinc",
        "global_wrptr_autoinc",
        "read_only",
    }
)
"""Settings of queues that are understood. `prologue` of what the host writes decides where data waits, not what it is;
with an `epilogue`, results of an op add up in a core's L1 and leave it at the end."""
HOST = "HOST"


@dataclass
class _Queue:
    """A queue's entries, as images of its tensor, and its pointers."""

    plan: QueuePlan
    slots: dict[int, np.ndarray] = field(default_factory=dict)
    read: int = 0
    write: int = 0

    @property
    def is_host_written(self) -> bool:
        """Whether the host gives it entries; of a ram that an op updates, the first content."""
        return self.plan.source == HOST or self.plan.result >= 0

    @property
    def written(self) -> int:
        """The tensor that its op makes."""
        return self.plan.result if self.plan.result >= 0 else self.plan.tensor

    @property
    def wrap(self) -> int:
        """Where pointers start again."""
        return 2 * self.plan.entries

    @property
    def waiting(self) -> int:
        """Entries that are written and not yet popped."""
        return (self.write - self.read) % self.wrap

    def push(self, image: np.ndarray) -> None:
        """Writes the next entry."""
        self.slots[self.write % self.plan.entries] = image
        self.write = (self.write + 1) % self.wrap


class ProgramRun:
    """A plan's queues, whose contents and static variables stay from one program to the next."""

    def __init__(self, executable: Executable, *, per_core: bool = False) -> None:
        """Raises BadBinary for a plan without programs, or with a queue of no tensor that a program would need."""
        plan = executable.plan
        if not plan.programs:
            raise BadBinary("plan: expected programs, got none; try Executable.run")
        self.executable, self.per_core = executable, per_core
        self.programs = {program.name: program for program in plan.programs}
        self.epochs: dict[str, EpochPlan] = {epoch.graph: epoch for epoch in plan.epochs}
        self.queues = {queue.name: _Queue(queue) for queue in plan.queues}
        if bad := [name for name, queue in self.queues.items() if queue.plan.entries < 1]:
            raise BadBinary(f"plan: expected queue {bad[0]} to have entries, got {self.queues[bad[0]].plan.entries}")
        self._views = {queue.name: base for queue in plan.queues if (base := _viewed(queue, plan.queues))}
        """A ram that lies where an op writes another one -> the other one: a second view of the same memory."""
        self._statics: dict[str, dict[str, int]] = {name: {} for name in self.programs}
        self._costs: list[OpCost] = []
        self._entries: Counter[str] = Counter()
        """Graph -> inputs that went through it."""
        self.popped: list[np.ndarray] = []
        """What `do` popped, in order."""
        entry = executable.program
        self._maker = {tensor: i for i, op in enumerate(entry.operations) for tensor in op.outputs}
        self._by_tensor = {queue.plan.tensor: queue for queue in self.queues.values() if queue.plan.tensor >= 0}
        self._ops: dict[tuple[int, int], list[int]] = {}
        for op in plan.ops:
            self._ops.setdefault((op.epoch, op.chip), []).extend((*op.steps, op.operation))
        self._sent: dict[int, deque[np.ndarray]] = {tensor: deque() for tensor in self._sent_over_links()}
        """Tensor that goes from one chip's graph to another's without a queue -> entries on their way, oldest first."""

    def push(self, name: str, array: np.ndarray) -> None:
        """Writes the host's next entry of a queue, or the only content of a ram.

        Raises BadInput for an unknown or full queue, or another shape or type.
        """
        queue = self._named(name)
        filled_by = self._views.get(name, "" if queue.is_host_written else queue.plan.source)
        if filled_by:
            raise BadInput(f"push: expected a queue that the host fills, got {name}, which {filled_by} fills")
        if queue.plan.kind == "queue" and queue.waiting == queue.plan.entries:
            raise BadInput(
                f"push: expected {name} to have room, got {queue.waiting} entries; try to run a program first"
            )
        program = self.executable.program
        host, moves = self._moves(queue)
        check_array(f"push: expected {name}", program.tensors[host], array)
        values = {host: np.asarray(from_host(np.asarray(array), program.tensors[host]))}
        for number in moves:
            operation = program.operations[number]
            made = PreparedOperation(operation, program).run(values)
            values = dict(zip(operation.outputs, made, strict=True))
        moved = values[queue.plan.tensor]
        if queue.plan.kind == "ram":
            queue.slots = dict.fromkeys(range(queue.plan.entries), moved)
        else:
            queue.push(moved)

    def pop(self, name: str) -> np.ndarray:
        """Returns the oldest entry of a queue that an op fills, or the content of such a ram, which stays.

        Raises BadInput for an unknown or empty queue.
        """
        queue = self._named(name)
        if queue.plan.source == HOST:
            raise BadInput(f"pop: expected a queue that an op fills, got {name}, which the host fills")
        is_ram = queue.plan.kind == "ram"
        if not (queue.slots if is_ram else queue.waiting):
            raise BadInput(f"pop: expected an entry in {name}, got none; try to run a program first")
        image = queue.slots[min(queue.slots) if is_ram else queue.read % queue.plan.entries]
        if not is_ram:
            queue.read = (queue.read + 1) % queue.wrap
        return to_host(image, self.executable.program.tensors[queue.written])

    def do(self, steps: Iterable[tuple[str, str, np.ndarray | Mapping[str, int] | None]]) -> list[np.ndarray]:
        """Does what a host does: `push` an array to a queue, `run` a program, `pop` an entry of a queue.

        A program may be given its parameters.

        Returns what was popped, in order. Raises BadInput for another action, and what these raise.
        """
        for action, name, value in steps:
            match action:
                case "push" if value is not None and not isinstance(value, Mapping):
                    self.push(name, value)
                case "run" if value is None or isinstance(value, Mapping):
                    self.run(name, value)
                case "pop":
                    self.popped.append(self.pop(name))
                case _:
                    raise BadInput(f"steps: expected push with an array, run or pop, got {action!r} of {name}")
        return self.popped

    def run(self, program: str, parameters: Mapping[str, int] | None = None) -> list[str]:
        """Runs one program and returns the graphs that it executed, in order.

        Raises BadBinary for an unknown program, setting or variable, BadInput where a graph needs an entry that nobody
        wrote or would overwrite one that nobody popped, and what `Executable.run` raises.
        """
        if program not in self.programs:
            raise BadBinary(f"run: expected a program of {', '.join(self.programs)}, got {program!r}")
        executed = []
        try:
            for step in steps(self.programs[program], parameters, self._statics[program]):
                if isinstance(step, Allocation):
                    self._empty(step.queues)
                else:
                    self._execute(step)
                    executed.append(step.graph)
        except HostProgramError as error:
            raise BadBinary(f"plan: {error}") from error
        return executed

    @property
    def profile(self) -> Profile:
        """The cost of everything that was executed: each graph's epoch as often as inputs went through it."""
        once, plan = self.executable.profile, self.executable.plan
        counts = [self._entries[epoch.graph] for epoch in plan.epochs]
        epochs = tuple(replace(cost, inputs=count) for cost, count in zip(once.epochs, counts, strict=True))
        return replace(once, ops=tuple(self._costs), epochs=epochs)

    def _named(self, name: str) -> _Queue:
        if name not in self.queues:
            raise BadInput(f"queues: expected one of {', '.join(self.queues)[:200]}, got {name!r}")
        return self.queues[name]

    def _moves(self, queue: _Queue) -> tuple[int, list[int]]:
        """The input of the program that a queue is, and the operations that bring its content to the device."""
        program, tensor, moves = self.executable.program, queue.plan.tensor, []
        while tensor not in program.inputs:
            number = self._maker.get(tensor, -1)
            if number < 0 or len(program.operations[number].inputs) != 1 or number in self.executable.placed:
                raise BadBinary(
                    f"plan: expected queue {queue.plan.name} to be an input of the program, got another tensor"
                )
            moves.append(number)
            (tensor,) = program.operations[number].inputs
        return tensor, moves[::-1]

    def _sent_over_links(self) -> set[int]:
        """The results of placed operations that another graph reads and that lie in no queue."""
        executable, queued = self.executable, {queue.written for queue in self.queues.values()}
        home = {number: key for key, numbers in self._ops.items() for number in numbers}
        sent: set[int] = set()
        for number, key in home.items():
            left = list(executable.program.operations[number].inputs)
            while left:
                tensor = left.pop()
                maker = self._maker.get(tensor, -1)
                if maker in home and home[maker] != key:
                    sent |= {tensor} - queued - self._by_tensor.keys()
                elif maker >= 0 and maker not in home:
                    left += executable.program.operations[maker].inputs
        return sent

    def _empty(self, names: Sequence[str]) -> None:
        for name in names:
            queue = self._named(name)
            queue.slots, queue.read, queue.write = {}, 0, 0

    def _execute(self, step: Execution) -> None:
        epoch = self.epochs[step.graph]
        self._entries[step.graph] += epoch.input_count
        numbers = self._ops.get((epoch.number, epoch.chip), [])
        for name, settings in step.queue_settings.items():
            if strange := sorted(set(settings) - SETTINGS):
                raise BadBinary(
                    f"plan: expected settings of {name} among {', '.join(sorted(SETTINGS))}, got {strange[0]}"
                )
            if settings.get("epilogue") and self._named(name).plan.kind != "ram":
                raise BadBinary(f"plan: expected a ram for results that add up in L1, got queue {name}")
            if settings.get("zero"):
                queue = self._named(name)
                shape = self.executable.program.tensors[queue.plan.tensor].shape
                queue.slots = dict.fromkeys(range(queue.plan.entries), np.zeros(shape, np.float32))
        made_here = {op.name for op in self.executable.plan.ops if (op.epoch, op.chip) == (epoch.number, epoch.chip)}
        filled = [queue for queue in self.queues.values() if queue.plan.source in made_here]
        for entry in range(epoch.input_count):
            values = _Values(self, step, entry, frozenset(numbers))
            for number in sorted(numbers):
                values.compute(number)
            for tensor in sorted(self._sent):
                if self._maker[tensor] in numbers:
                    self._sent[tensor].append(values.of(tensor))
            for queue in filled:
                settings = step.queue_settings.get(queue.plan.name, {})
                if settings.get("epilogue"):
                    self._add(queue, values.of(queue.written), settings, entry)
                else:
                    self._fill(queue, values.of(queue.written), settings, entry)
        for name, settings in step.queue_settings.items():
            queue = self._named(name)
            if queue.plan.kind == "queue" and queue.plan.source == HOST and "rd_ptr_global" in settings:
                pops = settings.get("global_rdptr_autoinc", 1) * epoch.input_count
                queue.read = (settings["rd_ptr_global"] + pops) % queue.wrap

    def _add(self, queue: _Queue, image: np.ndarray, settings: Mapping[str, int], entry: int) -> None:
        """Adds one entry's result to what a ram holds, in the format of the ram, as the packer does in L1."""
        slot = settings.get("wr_ptr_global", 0) % queue.plan.entries
        if entry or settings.get("prologue"):
            if slot not in queue.slots:
                raise BadInput(f"run: expected a sum in {queue.plan.name} to go on from, got none; try to set its zero")
            total = queue.slots[slot] + image
            image = quantise(total, queue.plan.data_format) if FORMATS[queue.plan.data_format].is_float else total
        queue.slots[slot] = image

    def _fill(self, queue: _Queue, image: np.ndarray, settings: Mapping[str, int], entry: int) -> None:
        """Writes one entry of a queue that an op fills; the pointer of a ram moves by what the program says, or not."""
        if "wr_ptr_global" in settings:
            step = 1 if queue.plan.kind == "queue" else settings.get("global_wrptr_autoinc", 0)
            queue.slots[(settings["wr_ptr_global"] + step * entry) % queue.plan.entries] = image
            if queue.plan.kind == "queue":
                queue.write = (settings["wr_ptr_global"] + entry + 1) % queue.wrap
            return
        if queue.plan.kind == "ram":
            queue.slots = dict.fromkeys(range(queue.plan.entries), image)
            return
        if queue.plan.name not in self._read_by_graphs and queue.waiting == queue.plan.entries:
            raise BadInput(
                f"run: expected {queue.plan.name} to have room, got {queue.waiting} entries that nobody popped; try pop"
            )
        queue.push(image)

    @cached_property
    def _read_by_graphs(self) -> frozenset[str]:
        """The queues that some execution has settings for; others are the host's to pop."""
        lines = (line for program in self.executable.plan.programs for line in program.instructions)
        return frozenset(settings.queue for line in lines for settings in line.settings)

    def entry_of(self, queue: _Queue, settings: Mapping[str, int], entry: int) -> np.ndarray:
        """Returns the image that a graph reads from a queue. Raises BadInput if nobody wrote it."""
        start = settings.get("rd_ptr_local", settings.get("rd_ptr_global", queue.read))
        step = settings.get("rd_ptr_autoinc", 1) or 1
        if queue.plan.kind == "ram":
            start, step = settings.get("rd_ptr_global", start), settings.get("global_rdptr_autoinc", 0)
        step = 0 if settings.get("prologue") else step
        slot = (start + step * entry) % queue.plan.entries
        if queue.plan.name in self._views:
            return self._seen_through(queue, self._named(self._views[queue.plan.name]), slot)
        behind = queue.plan.kind == "queue" and queue.plan.source == HOST
        if slot not in queue.slots or (behind and not self._is_held(queue, start + step * entry)):
            raise BadInput(f"run: expected entry {slot} of {queue.plan.name} to be written, got none; try push")
        return queue.slots[slot]

    @staticmethod
    def _seen_through(view: _Queue, base: _Queue, slot: int) -> np.ndarray:
        """What lies at an entry of a view: so many entries of the other one, below each other along z."""
        count = base.plan.entries // view.plan.entries
        numbers = range(slot * count, (slot + 1) * count)
        if missing := [number for number in numbers if number not in base.slots]:
            raise BadInput(
                f"run: expected entry {missing[0]} of {base.plan.name} to be written before {view.plan.name} reads it, "
                "got none"
            )
        return np.concatenate([base.slots[number] for number in numbers])

    @staticmethod
    def _is_held(queue: _Queue, pointer: int) -> bool:
        """Whether an entry was written and not overwritten since; another program may have popped it before."""
        return 0 < (queue.write - pointer) % queue.wrap <= queue.plan.entries


def _viewed(queue: QueuePlan, others: Sequence[QueuePlan]) -> str:
    """Returns the ram whose memory a ram of the host is another view of; empty if it has its own."""
    return next(
        (
            other.name
            for other in others
            if queue.kind == other.kind == "ram"
            and queue.source == HOST != other.source
            and (queue.chip, queue.location, queue.allocations) == (other.chip, other.location, other.allocations)
            and queue.entries * queue.entry_bytes == other.entries * other.entry_bytes
        ),
        "",
    )


class _Values:
    """The tensors of one entry in one execution of a graph."""

    def __init__(self, run: ProgramRun, step: Execution, entry: int, own: frozenset[int]) -> None:
        self.run, self.step, self.entry, self.own = run, step, entry, own
        self.known: dict[int, np.ndarray] = {}

    def of(self, tensor: int) -> np.ndarray:
        """Returns a tensor: computed here, read from a queue, or moved by the network from one that is."""
        if tensor not in self.known:
            maker = self.run._maker.get(tensor)
            queue = self.run._by_tensor.get(tensor)
            if maker not in self.own and queue is not None and tensor not in self.run.executable.program.outputs:
                settings = self.step.queue_settings.get(queue.plan.name, {})
                self.known[tensor] = self.run.entry_of(queue, settings, self.entry)
            elif maker not in self.own and tensor in self.run._sent:
                if not (sent := self.run._sent[tensor]):
                    raise BadInput(f"run: expected the chip that sends to {self.step.graph} to run before it, got none")
                self.known[tensor] = sent.popleft()
            elif maker is None or (maker in self.run.executable.placed and maker not in self.own):
                raise BadBinary(f"plan: expected a queue for tensor {tensor}, which {self.step.graph} reads, got none")
            else:
                self.compute(maker)
        return self.known[tensor]

    def compute(self, number: int) -> None:
        """Executes one operation of the entry, and what its inputs need."""
        executable = self.run.executable
        program, op = executable.program, executable.program.operations[number]
        if all(tensor in self.known for tensor in op.outputs) and op.outputs:
            return
        values = {tensor: self.of(tensor) for tensor in op.inputs}
        cores = executable.device.profile if self.run.per_core else None
        placed = executable.placed.get(number) if self.run.per_core else None
        bodies = tuple(executable.scalar(name) for name in programs_of(op.params))
        prepared = executable.steps(program, as_one=False)[number].prepared
        assert prepared is not None, "only whole tensors are moved by no operation"
        with np.errstate(all="ignore"):
            made = prepared.run(values, cores, bodies, placed)
        cost = executable.costs(program)[number]
        self.run._costs.append(cost.of_later_input() if self.entry else cost)
        self.known.update(zip(op.outputs, made, strict=True))

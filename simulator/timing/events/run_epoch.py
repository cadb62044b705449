"""One epoch by events: each core's receivers and its three threads, as processes of SimPy.

A receiver fetches a macro block of an operand once its source has it and the core has room for it, which is one macro
block ahead of the one that is unpacked; cores that need the same get it by one multicast. The threads hand micro
blocks on: two fit between unpack and math, and two into the halves of Dst. A packer waits for room in its output
buffers, which is there again when all readers have fetched a macro block. A macro block begins when math is done with
the one before, which holds the operands' buffers until then. Several inputs go through; the time between the last two
results is that of an input.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

import simpy

from opscope.compiler.target.program import Program
from opscope.compiler.target.system_desc import SystemDesc
from opscope.simulator.timing.arch_constants import CONSTANTS
from opscope.simulator.timing.epochs import stall_cycles
from opscope.simulator.timing.events.geometry import Geometry, Router, geometry_of
from opscope.simulator.timing.events.network import Network
from opscope.simulator.timing.events.progress import Progress
from opscope.simulator.timing.events.recording import OpTimes, Recording, Span
from opscope.simulator.timing.events.wiring import Epoch, Operand, Source, parts_of
from opscope.simulator.timing.flops import flops_of
from opscope.simulator.timing.thread_cycles import ThreadCycles, thread_cycles
from opscope.simulator.timing.traffic import READERS, stored_bytes

PROBE = 2
"""Inputs of a first run, which says how many are in an epoch at once."""
DEEPEST = 24
"""Most inputs that are taken to be in an epoch at once."""
PIECES = 16
"""Most pieces of a macro block that threads hand on; they follow each other by tiles, of many tiles several as one."""
BUSY = 0.95
"""Share of its time from which a channel, link or connection counts as busy all the time: pieces leave small gaps."""
MOST_SPANS = 400_000
"""Pieces of work that are kept for the timeline."""
Work = Generator[simpy.Event, None, None]


def _is_channel(busy: object) -> bool:
    return isinstance(busy, tuple) and busy[0] == "dram"


@dataclass
class EpochTimes:
    """What an epoch took."""

    interval: float
    """Cycles from one input's results to the next one's."""
    first: float
    """Cycles until the first input's results."""
    slowest: str
    """The op with the most work and waits."""
    inputs: int
    """How many inputs went through whole."""
    way: str = "noc"
    """What the slowest op waits for: `noc`, `dram` or `ethernet`."""


class EpochRun:
    """The processes of an epoch."""

    def __init__(
        self,
        epoch: Epoch,
        program: Program,
        cycles: Mapping[int, float],
        system: SystemDesc,
        recording: Recording,
        inputs: int = PROBE,
    ) -> None:
        self.epoch, self.program, self.system, self.recording, self.inputs = epoch, program, system, recording, inputs
        self.env = simpy.Environment()
        profile = system.buda
        rows = max((row + 1 for op in epoch.ops for row, _ in op.cores()), default=profile.grid[0])
        self.geometry: Geometry = geometry_of(system, max(rows, profile.grid[0]))
        self.network = Network(system, self.geometry, profile.dram_channels, READERS)
        constants = CONSTANTS[system.arch]
        self.threads = {op.name: thread_cycles(program, op, cycles, constants) for op in epoch.ops}
        self.stalls = {op.name: stall_cycles(op, program, constants) / op.block.t for op in epoch.ops}
        self.places = {op.name: list(op.cores()) for op in epoch.ops}
        self.ready = {source.name: Progress(self.env) for source in epoch.sources}
        self.cores_done: dict[tuple[str, int], int] = {}
        self.fetched: dict[int, Progress] = {}
        self.groups: dict[int, list[list[int]]] = {}
        self.finished = [0.0] * inputs
        self.left = [len(epoch.ops)] * inputs
        self.times: dict[str, OpTimes] = {}

    def run(self) -> EpochTimes | None:
        """Returns what the epoch takes, or None if it was stopped before an input was through."""
        started = time.process_time()
        self._start()
        while self.recording.left > 0 and self.env.peek() != float("inf"):
            self.env.step()
            self.recording.events += 1
        self.recording.seconds += time.process_time() - started
        if any(self.left):
            self.recording.partial = True
            if self.recording.left > 0:
                self.recording.notes.append(f"epoch {self.epoch.plan.number}: ops wait for each other without an end")
        return self._result()

    def room_of(self, source: Source) -> Progress:
        """Returns how many pieces of a source all its readers have fetched."""
        return self.fetched[id(source)]

    def _result(self) -> EpochTimes | None:
        ends = [end for end, left in zip(self.finished, self.left, strict=True) if not left]
        for op in self.epoch.ops:
            self.recording.ops.append(self.times[op.name])
        network = self.network
        self.recording.ethernet_bytes += round(network.moved["ethernet"] / self.inputs)
        if not ends:
            return None
        # The second half: the first results come while buffers still fill.
        first, last = len(ends) // 2 - (len(ends) == 2), len(ends) - 1
        interval = (ends[last] - ends[first]) / (last - first) if last > first else ends[0]
        # In the long run nothing is faster than its busiest channel, link or connection.
        share = max(network.busy.values(), default=0) / self.inputs if len(ends) == self.inputs else 0.0
        interval = max(interval, share)
        busy = {op.name: self.threads[op.name].longest + self.stalls[op.name] * op.block.t for op in self.epoch.ops}
        slowest = max(busy, key=lambda name: busy[name])
        return EpochTimes(interval, ends[0], slowest, len(ends), self._way(slowest, interval))

    def _way(self, name: str, interval: float) -> str:
        """Returns what keeps the epoch from being as fast as an op's work: the channel, link or connection that is
        busy all the time, if there is one; else the way by which the op's operands take longest to come.
        """
        busiest, cycles = max(self.network.busy.items(), key=lambda item: item[1], default=(None, 0))
        if cycles / self.inputs >= BUSY * interval:
            return "ethernet" if busiest == "ethernet" else "dram" if _is_channel(busiest) else "noc"
        waited = self.times[name].waited
        return max(("noc", "dram", "ethernet"), key=lambda way: waited[way])

    def _start(self) -> None:
        self.fetched = {id(source): Progress(self.env) for source in self.epoch.sources}
        waiting: dict[int, dict[int, int]] = {}
        for source in self.epoch.sources:
            if source.queue is not None:
                self.env.process(self._queue(source))
            if not source.readers:
                self.fetched[id(source)].advance(source.blocks * self.inputs)
        got: dict[int, list[Progress]] = {}
        current = {op.name: [Progress(self.env) for _ in self.places[op.name]] for op in self.epoch.ops}
        for name, operands in self.epoch.operands.items():
            for operand in operands:
                got[id(operand)] = [Progress(self.env) for _ in self.places[name]]
                groups = self._groups(operand)
                everyone = sum(len(reader_groups) for reader_groups in map(self._groups, operand.source.readers))
                waiting.setdefault(id(operand.source), {})
                for group in groups:
                    fetch = self._fetched(operand.source, waiting[id(operand.source)], everyone)
                    self.env.process(self._receiver(operand, group, got[id(operand)], current[name], fetch))
        for op in self.epoch.ops:
            rows, cols = op.grid
            times = OpTimes(
                op.name,
                self.program.operations[op.operation].kernel,
                self.epoch.plan.number,
                self.epoch.plan.chip,
                rows * cols,
                inputs=self.inputs,
            )
            threads = self.threads[op.name]
            times.limiter = threads.limiter
            done = (*op.steps, op.operation)
            times.flops = self.inputs * sum(flops_of(self.program.operations[n], self.program) for n in done)
            self.times[op.name] = times
            for index, place in enumerate(self.places[op.name]):
                operands = self.epoch.operands[op.name]
                Core(
                    self,
                    op.name,
                    index,
                    place,
                    threads,
                    [(o, got[id(o)][index]) for o in operands],
                    current[op.name][index],
                    times,
                ).start()

    def _groups(self, operand: Operand) -> list[list[int]]:
        """Returns which cores of the operand's op receive the same, by number."""
        if id(operand) not in self.groups:
            rows, cols = operand.op.grid
            # `cores` counts along the rows of the chip, which are the op's columns if it lies on its side.
            number = {
                (r, c): (c * rows + r if operand.op.transposed else r * cols + c)
                for r in range(rows)
                for c in range(cols)
            }
            lines: dict[int, list[int]] = {}
            for (r, c), index in number.items():
                lines.setdefault(r if operand.lines == "rows" else c if operand.lines == "cols" else index, []).append(
                    index
                )
            self.groups[id(operand)] = list(lines.values())
        return self.groups[id(operand)]

    def _fetched(self, source: Source, counts: dict[int, int], everyone: int) -> Callable[[int], None]:
        """Returns what a receiver calls when it has a macro block."""

        def done(block: int) -> None:
            counts[block] = counts.get(block, 0) + 1
            if counts[block] == everyone:
                del counts[block]
                self.fetched[id(source)].advance()

        return done

    def _queue(self, source: Source) -> Work:
        """A queue in DRAM: its channels read a macro block of each of its parts."""
        queue = source.queue
        assert queue is not None
        # READERS counts what is lost where several read in turn; an entry's bytes count once.
        sharing = sum(other.queue is queue for other in self.epoch.sources)
        for number in range(self.inputs * source.blocks):
            if (wait := self.room_of(source).reach(number + 1 - source.room)) is not None:
                yield wait
            size = queue.entry_bytes / source.blocks / sharing
            end = max((self.network.dram(self.env.now, p.channel, size) for p in queue.allocations), default=0.0)
            if source.far:
                end = max(end, self.network.ethernet(self.env.now, size * len(queue.allocations)))
            yield self.env.timeout(max(0.0, end - self.env.now))
            self.ready[source.name].advance()

    def _port(self, source: Source, index: int) -> Router:
        """Returns from where one of an op's cores gets an operand."""
        if source.op is not None:
            cores = self.places[source.name]
            return self.geometry.core(*cores[index % len(cores)])
        assert source.queue is not None
        places = source.queue.allocations
        channel = places[index % len(places)].channel if places else 0
        return self.geometry.channel(channel, self.network.channels)

    def _receiver(
        self,
        operand: Operand,
        group: list[int],
        got: list[Progress],
        current: list[Progress],
        done: Callable[[int], None],
    ) -> Work:
        """Fetches an operand for cores that need the same."""
        source, op, env = operand.source, operand.op, self.env
        way = "noc" if source.op is not None else "ethernet" if source.far else "dram"
        targets = [self.geometry.core(*self.places[op.name][index]) for index in group]
        origin = self._port(source, group[0])
        size, times, blocks = operand.core_bytes / source.blocks, self.times[op.name], op.block.t * parts_of(op)
        for number in range(self.inputs):
            for piece in range(source.blocks):
                block = operand.block_of(piece)
                for index in group:
                    if (wait := current[index].reach(number * blocks + block)) is not None:
                        yield wait
                if (wait := self.ready[source.name].reach(number * source.blocks + piece + 1)) is not None:
                    yield wait
                end = self.network.send(env.now, origin, targets, size)
                least = env.now + size / self.network.movement.dram_read.stream
                begin = env.now
                yield env.timeout(max(end, least) - begin)
                times.waited[way] += round(env.now - begin)
                times.received_bytes += size * len(group)
                for index in group:
                    got[index].advance()
                done(number * source.blocks + piece)

    def block_done(self, name: str, number: int, place: tuple[int, int]) -> None:
        """Counts a core's macro block; when all cores have it, its readers may fetch it."""
        key = (name, number)
        self.cores_done[key] = self.cores_done.get(key, 0) + 1
        for queue in self.epoch.leaves[name]:
            where = queue.allocations[sum(place) % len(queue.allocations)].channel if queue.allocations else 0
            cores = len(self.places[name])
            self.network.dram(self.env.now, where, stored_bytes(queue) / cores / max(1, self.times_blocks(name)))
        if self.cores_done[key] < len(self.places[name]):
            return
        del self.cores_done[key]
        self.ready[name].advance()
        blocks = self.times_blocks(name)
        if (number + 1) % blocks == 0:
            done = number // blocks
            self.left[done] -= 1
            self.finished[done] = max(self.finished[done], self.env.now)
            self.times[name].end = self.env.now

    def times_blocks(self, name: str) -> int:
        """Returns the macro blocks of an op for one input."""
        return next(source.blocks for source in self.epoch.sources if source.name == name)


class Core:
    """The three threads of a core."""

    def __init__(
        self,
        run: EpochRun,
        name: str,
        index: int,
        place: tuple[int, int],
        threads: ThreadCycles,
        operands: list[tuple[Operand, Progress]],
        current: Progress,
        times: OpTimes,
    ) -> None:
        self.run, self.name, self.index, self.place, self.times = run, name, index, place, times
        self.operands, self.current = operands, current
        self.source = next(source for source in run.epoch.sources if source.name == name)
        op = self.source.op
        assert op is not None
        self.parts = parts_of(op)
        self.t = op.block.t * self.parts
        b = op.block
        tiles = b.mblock_m * b.mblock_n * b.ublock_rt * b.ublock_ct * op.m_k * op.u_kt
        self.pieces = max(1, min(PIECES, tiles) // self.parts)
        share = self.t * self.pieces
        self.unpack, self.math, self.pack = (each / share for each in (threads.unpack, threads.math, threads.pack))
        self.unpacked, self.computed, self.packed = (Progress(run.env) for _ in range(3))

    def start(self) -> None:
        """Starts the threads."""
        for work in (self._unpack(), self._math(), self._pack()):
            self.run.env.process(work)

    def _unpack(self) -> Work:
        env, stall, done = self.run.env, self.run.stalls[self.name], 0
        for number in range(self.run.inputs):
            for block in range(self.t):
                for operand, got in self.operands:
                    need = number * operand.source.blocks + operand.needed(block)
                    if (wait := got.reach(need)) is not None:
                        yield wait
                if block % self.parts == 0:
                    if (wait := self.computed.reach(done)) is not None:
                        yield wait
                    yield env.timeout(max(0.0, stall - self.unpack))
                for _ in range(self.pieces):
                    if (wait := self.computed.reach(done - 1)) is not None:
                        yield wait
                    yield env.timeout(self.unpack)
                    done += 1
                    self.unpacked.advance()
                self._note("unpack", self.unpack, number)
                self.current.advance()

    def _math(self) -> Work:
        env, done = self.run.env, 0
        for number in range(self.run.inputs):
            for _ in range(self.t):
                for _ in range(self.pieces):
                    # Unpacking and computing a micro block overlap but for the first one's start.
                    if (wait := self.unpacked.reach(done + 1)) is not None:
                        yield wait
                    if (wait := self.packed.reach(done - 1)) is not None:
                        yield wait
                    yield env.timeout(self.math)
                    done += 1
                    self.computed.advance()
                self._note("math", self.math, number)

    def _pack(self) -> Work:
        env, done, room, spare = self.run.env, 0, self.run.room_of(self.source), self.source.room
        for number in range(self.run.inputs):
            for block in range(self.t):
                if (wait := room.reach(number * self.t + block + 1 - spare)) is not None:
                    begin = env.now
                    yield wait
                    self.times.waited["room"] += round(env.now - begin)
                for _ in range(self.pieces):
                    if (wait := self.computed.reach(done + 1)) is not None:
                        yield wait
                    yield env.timeout(self.pack)
                    done += 1
                    self.packed.advance()
                self._note("pack", self.pack, number)
                self.run.block_done(self.name, number * self.t + block, self.place)

    def _note(self, thread: str, each: float, number: int) -> None:
        run, cycles = self.run, each * self.pieces
        self.times.busy[thread] += round(cycles)
        if len(run.recording.spans) < MOST_SPANS:
            plan = run.epoch.plan
            begin = max(0.0, run.env.now - cycles)
            run.recording.spans.append(
                Span(plan.number, plan.chip, self.place, thread, self.name, begin, cycles, number)
            )
        elif not run.recording.cut:
            run.recording.cut = True
            run.recording.notes.append(
                f"the timeline has the first {MOST_SPANS:,} pieces of work only; cycles count all"
            )


def simulate(
    epoch: Epoch, program: Program, cycles: Mapping[int, float], system: SystemDesc, recording: Recording
) -> EpochTimes | None:
    """Runs an epoch until it is filled and as many inputs came out again; returns what it takes."""
    probe = Recording(recording.left)
    first_run = EpochRun(epoch, program, cycles, system, probe).run()
    recording.events += probe.events
    recording.seconds += probe.seconds
    if first_run is None or probe.partial:
        probe.events, probe.seconds = 0, 0.0
        recording.take(probe)
        return first_run
    steady = max(2, min(DEEPEST, math.ceil(first_run.first / max(1.0, first_run.interval))))
    return EpochRun(epoch, program, cycles, system, recording, 2 * steady + 2).run() or first_run

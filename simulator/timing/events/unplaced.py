"""One operation that no plan places, by events: each core reads its share in pieces, computes them and writes them.

Reads take a DRAM channel and the links from it, and at least the cycles of the closed form, as the work of the threads
does. Pieces are read while others are computed, unless the closed form adds both up (convolutions, attention); a matrix
product's result is written after that.
"""

from __future__ import annotations

import time
from collections.abc import Generator

import simpy

from opscope.compiler.target.system_desc import Profile, SystemDesc
from opscope.simulator.counters import limiter
from opscope.simulator.profile import OpCost
from opscope.simulator.timing.events.geometry import geometry_of
from opscope.simulator.timing.events.network import Network
from opscope.simulator.timing.events.progress import Progress
from opscope.simulator.timing.events.recording import OpTimes, Recording, Span

PIECES = 8
AHEAD = 2


def simulate_op(
    cost: OpCost, section: int, begin: float, system: SystemDesc, profile: Profile, recording: Recording
) -> float:
    """Runs an operation with the closed form's work on its cores; returns its cycles, its launch included."""
    started = time.process_time()
    env = simpy.Environment()
    network = Network(system, geometry_of(system, profile.grid[0]), profile.dram_channels)
    cores = max(1, cost.cores)
    times = OpTimes(cost.location or cost.kernel, cost.kernel, section, 0, cores)
    dram, near = cost.dram_bytes / cores / PIECES, cost.noc_bytes / PIECES
    least = (cost.transfer_cycles - cost.write_cycles) / PIECES
    overlaps = cost.cycles + 2 < cost.compute_cycles + cost.transfer_cycles + cost.launch_cycles
    math = cost.compute_cycles / PIECES

    def reader(number: int, read: Progress, computed: Progress) -> Generator[simpy.Event, None, None]:
        place = divmod(number, profile.grid[1])
        target = network.geometry.core(*place)
        for piece in range(PIECES):
            if overlaps and (wait := computed.reach(piece - AHEAD)) is not None:
                yield wait
            channel = (number + piece) % profile.dram_channels
            now = env.now
            end = network.dram(now, channel, dram) if dram else now
            if near:
                end = max(
                    end, network.send(now, network.geometry.channel(channel, profile.dram_channels), [target], dram)
                )
                end = max(end, now + least)
            yield env.timeout(end - now)
            times.waited["dram" if dram and network.busy[("dram", channel)] else "noc"] += round(end - now)
            read.advance()

    def compute(number: int, read: Progress, computed: Progress) -> Generator[simpy.Event, None, None]:
        place = divmod(number, profile.grid[1])
        for piece in range(PIECES):
            if (wait := read.reach(piece + 1 if overlaps else PIECES)) is not None:
                yield wait
            yield env.timeout(math)
            times.busy[cost.compute_unit] += round(math)
            span = Span(section, 0, place, cost.compute_unit, times.name, begin + launch + env.now - math, math)
            recording.spans.append(span)
            computed.advance()
        if cost.write_cycles:
            yield env.timeout(cost.write_cycles)

    launch = cost.launch_cycles
    for number in range(cores):
        read, computed = Progress(env), Progress(env)
        env.process(reader(number, read, computed))
        env.process(compute(number, read, computed))
    while recording.left > 0 and env.peek() != float("inf"):
        env.step()
        recording.events += 1
    recording.partial |= env.peek() != float("inf")
    recording.seconds += time.process_time() - started
    times.limiter = limiter(cost, system)
    times.end, times.received_bytes = begin + launch + env.now, float(cost.noc_bytes * cores)
    times.moves(cost)
    recording.ops.append(times)
    return launch + env.now

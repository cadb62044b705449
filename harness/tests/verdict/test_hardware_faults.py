"""A broken card is no broken compiler: hardware faults become wrong results or failed runs, or the fault says why not.

Each fault is injected into the run of one op of a small model on its captured inputs; the verdict is the sweep's.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from opscope.compiler.target.allocation import Buffer, pages_of
from opscope.compiler.target.program import TensorDesc
from opscope.harness.backends.base import Backend
from opscope.harness.backends.buda import Buda
from opscope.harness.backends.reference import Reference
from opscope.harness.engine import model_jobs
from opscope.harness.lanes.ladder import climb
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Status
from opscope.simulator.device import Executable, RunResult
from opscope.simulator.faults.fault import parse
from opscope.simulator.faults.injection import PRODUCTS, Injection
from opscope.simulator.placed import allocate

pytestmark = pytest.mark.slow

KINDS = {"dram-bit": 80, "l1-bit": 50, "dead-core": 30, "stuck-link": 20, "slow-channel": 20}
"""How many faults of each kind in a sweep of 200."""
MODELS = ("mnist_mlp", "tcn")


@dataclass(frozen=True)
class Target:
    """One op on one backend that passes there, and how its binary looks."""

    row: OpRow
    folder: Path
    backend: Backend
    context: RunContext
    executable: Executable
    outputs: list[np.ndarray]
    cycles: int

    def climb(self) -> OpTest:
        return climb(self.row, self.backend, context=self.context, export_dir=self.folder)


@contextlib.contextmanager
def injected(
    text: str = "", planned: bool = False
) -> Iterator[tuple[list[Injection], list[tuple[Executable, RunResult]]]]:
    """Every run of a device below has the fault; of a `planned` op that of its plan, not what its host computes."""
    injections: list[Injection] = []
    runs: list[tuple[Executable, RunResult]] = []
    right = Executable.run

    def run(self, inputs, *, per_core=False, observe=None):
        if text and (self.plan.ops or not planned):
            injections.append(Injection(self, [parse(text)]))
            observe = injections[-1].observe
        result = right(self, inputs, per_core=per_core, observe=observe)
        runs.append((self, result))
        return result

    with mock.patch.object(Executable, "run", run):
        yield injections, runs


def targets(models: tuple[str, ...], run_dir: Path) -> Iterator[Target]:
    header, rows = model_jobs.prepare(Preparation(models))
    folders = {name: Path(folder) for name, folder in zip(header.models, header.export_dirs, strict=True)}
    ways = [(Reference(), 0), (Reference(), 2), (Buda(), 0)]
    for row in rows:
        for backend, level in ways if row.module and row.golden else ():
            options = ResultOptions(arch="n150", optimization_level=level)
            context = RunContext("faults", str(run_dir), backend.name, options)
            with injected() as (_, runs):
                test = climb(row, backend, context=context, export_dir=folders[row.uses[0].model])
            if test.status == Status.SUCCESS:
                executable, result = runs[-1]
                yield Target(
                    row,
                    folders[row.uses[0].model],
                    backend,
                    context,
                    executable,
                    result.outputs,
                    result.profile.total_cycles,
                )


def suits(kind: str, target: Target) -> bool:
    """Whether a program has what a fault of the kind could hit."""
    executable = target.executable
    operations = [op for program in executable.programs.values() for op in program.operations]
    match kind:
        case "l1-bit":
            return bool(executable.plan.ops) or bool(held(target, "l1"))
        case "stuck-link":
            return any(isinstance(op.params, PRODUCTS) for op in operations)
    return True


def held(target: Target, buffer_type: str) -> list[tuple[TensorDesc, Buffer]]:
    """The tensors in one kind of memory, with their buffers."""
    tensors = {program.name: program.tensors for program in target.executable.programs.values()}
    buffers = [(tensors[name][t], buffer) for (name, t), buffer in target.executable.memory.buffers.items()]
    return [(desc, buffer) for desc, buffer in buffers if desc.buffer_type == buffer_type and buffer.size]


def drawn(kind: str, choices: list[Target], draw: random.Random) -> tuple[Target, str]:
    """A target and a fault; three of four are drawn where the program has something: a page, a core, a link."""
    inside = draw.random() < 0.75
    target = draw.choice([target for target in choices if suits(kind, target)] if inside else choices)
    executable, plan = target.executable, target.executable.plan
    profile = executable.device.system.buda if plan.ops else executable.device.profile
    rows, columns = executable.grids[plan.ops[0].chip] if plan.ops else profile.grid
    core = f"{draw.randrange(rows)}-{draw.randrange(columns)}"
    if kind == "dead-core":
        chosen = draw.choice([core for op in plan.ops for core in op.cores()]) if plan.ops else (0, 0)
        return target, f"dead-core@{f'{chosen[0]}-{chosen[1]}' if inside else core}"
    if kind == "stuck-link":
        row, column = (0, 0) if inside else (draw.randrange(rows - 1), draw.randrange(columns - 1))
        return target, f"stuck-link@{row}-{column},{draw.choice(('east', 'south'))}"
    if kind == "slow-channel":
        channel = 0 if inside else draw.randrange(profile.dram_channels)
        return target, f"slow-channel@{channel}=x{draw.choice((2, 4, 16, 64))}"
    bit, in_l1 = draw.randrange(8), kind == "l1-bit"
    reserved = 0 if in_l1 else profile.dram_unreserved_base
    bank = core if in_l1 else draw.randrange(profile.dram_channels)
    address = reserved + draw.randrange(profile.l1_bytes)
    if inside and plan.ops:
        op, queues = draw.choice(plan.ops), [q for q in plan.queues if q.location == "dram" and q.allocations]
        if in_l1:
            chosen = draw.choice(sorted(op.cores()))
            starts = allocate(op, executable.device.system, plan.pipe_reserve)
            ends = [(start, b) for start, b in zip(starts, op.buffers, strict=True) if b.role == "output"]
            start, buffer = draw.choice(ends)
            bank, address = f"{chosen[0]}-{chosen[1]}", start + draw.randrange(buffer.bytes)
        elif queues:
            queue = draw.choice(queues)
            place = draw.choice(queue.allocations)
            bank, address = place.channel, place.address + draw.randrange(queue.entry_bytes)
    elif inside and (there := held(target, "l1" if in_l1 else "dram")):
        desc, buffer = draw.choice(there)
        base = profile.l1_unreserved_base if in_l1 else profile.dram_unreserved_base
        pages, size = pages_of(desc, profile)
        number = draw.randrange(min(pages, profile.dram_channels))
        if in_l1:
            number = draw.choice(np.flatnonzero(buffer.sizes).tolist())
            bank = f"{number // columns}-{number % columns}"
        else:
            bank = number
        address = base + buffer.address + draw.randrange(size)
    return target, f"{kind}@{bank},{address},{bit}"


def outcome(target: Target, text: str) -> tuple[str, str]:
    """`verdict`, or why the fault cannot change it; and a line."""
    with injected(text, bool(target.executable.plan.ops)) as (injections, runs):
        test = target.climb()
    assert test.status in (Status.SUCCESS, Status.WRONG_RESULT, Status.RUN_FAILED), (text, test.status, test.error)
    effect = injections[-1].effects[0]
    if test.status != Status.SUCCESS:
        assert effect.hits, f"{text} became {test.status} without a hit: {test.error}"
        return "verdict", f"{test.status}: {effect.line()}"
    result = runs[-1][1]
    changed = sum(a.tobytes() != b.tobytes() for a, b in zip(target.outputs, result.outputs, strict=True))
    if not effect.hits:
        assert changed == 0, f"{effect.line()}, but a result changed"
        return "hits nothing", effect.line()
    if text.startswith("slow-channel"):
        assert changed == 0
        assert result.profile.total_cycles > target.cycles
        return "time alone", effect.line()
    if changed == 0:
        return "no bit of a result depends on it", effect.line()
    z = f"; z {test.z_max:.3g}" if test.z_max is not None else ""
    return "within the tolerance", f"{effect.line()}{z}, passes"


def sweep(choices: list[Target], counts: dict[str, int], seed: int) -> tuple[Counter[tuple[str, str]], list[str]]:
    draw = random.Random(seed)
    tally: Counter[tuple[str, str]] = Counter()
    lines = []
    for kind, count in counts.items():
        for _ in range(count):
            target, text = drawn(kind, choices, draw)
            what, line = outcome(target, text)
            tally[kind, what] += 1
            lines.append(f"  {what}: {target.backend.name} {target.row.op_name}: {line}")
    return tally, lines


def test_two_hundred_hardware_faults_change_a_verdict_or_say_why_not(tmp_path, capsys):
    choices = list(targets(MODELS, tmp_path))
    tally, lines = sweep(choices, KINDS, seed=11)
    with capsys.disabled():
        print(f"\n{sum(tally.values())} faults in {len(choices)} binaries")
        for (kind, what), count in sorted(tally.items()):
            print(f"{kind:>13} {what:<32} {count}")
        print("\n".join(lines))
    assert sum(tally.values()) == 200
    hit = Counter[str]()
    for (kind, what), count in tally.items():
        hit[kind] += count if what == "verdict" else 0
    assert all(hit[kind] for kind in ("dram-bit", "l1-bit", "dead-core", "stuck-link")), (
        "each kind can change a verdict"
    )
    assert not hit["slow-channel"]

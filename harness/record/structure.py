"""What a compiler made of a program, as data: its ops, fusions, layouts, casts, host fallbacks, launches and cycles.

Read from the graph of its last IR (program_graph.py), or by the patterns that a user's backend gives for its own texts;
cycles and temporary memory are what the backend measured.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from opscope.harness.record import lowered_ir, program_graph
from opscope.harness.record.program_changes import memory_of
from opscope.harness.record.program_graph import HANDLES, LOADS, Op, Program
from opscope.harness.record.records import Structure

CALLS = "calls.json"
"""Beside an IR: the kernels of one execution in their order, each with its cycles."""
COSTS = "costs.json"
"""Beside an IR: `memory` and `costs` as XLA reports them."""
_CASTS = re.compile(r"(?:^|\.)(?:typecast|convert|cast|bitcast-convert)$")
_HOST = re.compile(r"(?:^|\.)(?:host\w*|from_device|to_host|custom-call|cpu_\w+)$")
_LAUNCHED = "stream.cmd.dispatch"
_SILENT = re.compile(
    r"(?:tuple|get-tuple-element|bitcast|constant|parameter|computation|(?:util|arith|hal|builtin|stream|vm|scf|cf)\..*)$"
)
_UNCOUNTED = HANDLES | {"builtin.module"}
_ACTIVATION = re.compile(r"op_type = (\w+)|^\"?(\w+)\"?$")


def structure_of(program: Program, cycles: Mapping[str, int], temp_bytes: int | None = None) -> Structure:
    """The structure of a program, with what was measured of it."""
    each_time = [op for op in program.computing if not op.ahead and op.name not in _UNCOUNTED]
    ops, memory = Counter(op.name for op in each_time), dict[str, Counter[str]]()
    fused: Counter[str] = Counter()
    for op in each_time:
        if where := memory_of(op):
            memory.setdefault(op.name, Counter())[where] += 1
        fused.update(dict(op.holds))
        fused.update(f"{op.name} {name}" for name in _activations(op))
    launches = ops[_LAUNCHED] or sum(
        count for name, count in ops.items() if not _SILENT.match(name) and name not in LOADS
    )
    return Structure(
        ops=dict(sorted(ops.items())),
        ahead=dict(sorted(Counter(op.name for op in program.computing if op.ahead).items())),
        fused=dict(sorted(fused.items())),
        memory={name: dict(sorted(where.items())) for name, where in sorted(memory.items())},
        casts=sum(count for name, count in ops.items() if _CASTS.search(name)),
        on_host=sum(count for name, count in ops.items() if _HOST.search(name)),
        launches=launches,
        temp_bytes=temp_bytes,
        cycles=dict(sorted(cycles.items())),
    )


def _activations(op: Op) -> list[str]:
    """The functions that an op applies beside its own."""
    found = []
    for name, value in op.attributes:
        if "activation" in name:
            found += [one or two for one, two in _ACTIVATION.findall(value) if (one or two) != "none"]
    return found


def of_job(folder: Path, counts: Mapping[str, int]) -> Structure | None:
    """The structure of the program whose IR is in a folder; `counts` are what its backend counts itself.

    None where the compiler has left nothing to count.
    """
    if counts:
        return Structure(ops={**counts}, launches=sum(counts.values()), counted=True)
    last = lowered_ir.last_ir(folder)
    if last is None:
        return None
    program = program_graph.read(lowered_ir.plain(last.read_text(encoding="utf-8", errors="replace")))
    temporary = _numbers(folder / COSTS, "memory").get("temp_size_in_bytes")
    cycles = Counter[str]()
    for kernel, spent in calls_of(folder):
        cycles[kernel] += spent
    return structure_of(program, cycles, temporary) if program.ops else None


def calls_of(folder: Path) -> list[tuple[str, int]]:
    """The kernels that a program has called, with their cycles; none where it did not run on the simulator."""
    try:
        return [(str(kernel), int(cycles)) for kernel, cycles in json.loads((folder / CALLS).read_bytes())]
    except (OSError, ValueError, TypeError):
        return []


def _numbers(file: Path, *keys: str) -> dict[str, int]:
    """The whole numbers of a JSON file, or of an object in it; none if there is no such file."""
    try:
        values = json.loads(file.read_bytes())
        for key in keys:
            values = values[key]
        return {str(name): int(value) for name, value in values.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}

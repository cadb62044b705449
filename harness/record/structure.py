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

from pydantic import Field

from opscope.harness.record import artifacts, lowered_ir, program_graph
from opscope.harness.record.field_types import Int
from opscope.harness.record.optest import backend_label
from opscope.harness.record.program_changes import memory_of
from opscope.harness.record.program_graph import HANDLES, LOADS, Op, Program
from opscope.harness.record.records import OpTest, Record
from opscope.harness.record.stages import Stage

CYCLES = "cycles.json"
"""Beside an IR: kernel -> the cycles of all its calls in one execution."""
FILE = "structure.json"
"""Beside an IR that is neither MLIR nor HLO: op -> how many of it there are, as its backend counts."""
COSTS = "costs.json"
"""Beside an IR: `memory` and `costs` as XLA reports them."""
_LOWERED = (None, Stage.RUN, Stage.COMPARE)
"""Where an op ended that the whole compiler took."""
_CASTS = re.compile(r"(?:^|\.)(?:typecast|convert|cast|bitcast-convert)$")
_HOST = re.compile(r"(?:^|\.)(?:host\w*|from_device|to_host|custom-call|cpu_\w+)$")
_LAUNCHED = "stream.cmd.dispatch"
_SILENT = re.compile(
    r"(?:tuple|get-tuple-element|bitcast|constant|parameter|computation|(?:util|arith|hal|builtin|stream|vm|scf|cf)\..*)$"
)
_ACTIVATION = re.compile(r"op_type = (\w+)|^\"?(\w+)\"?$")


class Structure(Record):
    """What is in a program."""

    ops: dict[str, Int] = Field(default_factory=dict)
    """Op -> how many there are in each execution."""
    ahead: dict[str, Int] = Field(default_factory=dict)
    """The same of what is evaluated once, before the first (const-eval)."""
    fused: dict[str, Int] = Field(default_factory=dict)
    """What is fused into other ops: `ttnn.linear relu`, or `multiply` in a fusion of XLA."""
    memory: dict[str, dict[str, Int]] = Field(default_factory=dict)
    """Op -> memory and layout of its first result (`l1 width_sharded`) -> how many."""
    casts: Int = 0
    on_host: Int = 0
    """Ops that the host computes, and values that go back to it."""
    launches: Int = 0
    """Ops that are started one by one."""
    temp_bytes: Int | None = None
    """Temporary memory, of compilers that say so."""
    cycles: dict[str, Int] = Field(default_factory=dict)
    """Kernel -> cycles of all its calls in one execution, where it ran on the simulator."""
    counted: bool = False
    """Whether a backend has counted the ops itself, since its IR is neither MLIR nor HLO: there is no graph of them."""


def structure_of(program: Program, cycles: Mapping[str, int], temp_bytes: int | None = None) -> Structure:
    """The structure of a program, with what was measured of it."""
    each_time = [op for op in program.computing if not op.ahead and op.name not in HANDLES]
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


def leave(folder: Path, counts: Mapping[str, int]) -> None:
    """Stores what a backend counts itself beside the IR that it is of."""
    if counts:
        (folder / FILE).write_text(json.dumps({**counts}, sort_keys=True), encoding="utf-8")


def left_of(run_dir: Path, test: OpTest) -> tuple[Path, str] | None:
    """The folder of an op's IR and the last one in it (lowered_ir.py), as `--keep-ir` left them.

    None where it left none, or the compiler did not take the whole op.
    """
    folder = run_dir / artifacts.ARTIFACT_DIR / test.op_id / artifacts.ir_folder(backend_label(test.backend))
    last = lowered_ir.last_ir(folder) if test.failed_stage in _LOWERED else None
    return None if last is None else (folder, lowered_ir.plain(last.read_text(encoding="utf-8", errors="replace")))


def read(folder: Path, text: str) -> Structure:
    """The structure of the program whose IR is in a folder; `text` is its last one."""
    if counts := _numbers(folder / FILE):
        return Structure(ops=counts, launches=sum(counts.values()), counted=True)
    temporary = _numbers(folder / COSTS, "memory").get("temp_size_in_bytes")
    return structure_of(program_graph.read(text), _numbers(folder / CYCLES), temporary)


def _numbers(file: Path, *keys: str) -> dict[str, int]:
    """The whole numbers of a JSON file, or of an object in it; none if there is no such file."""
    try:
        values = json.loads(file.read_bytes())
        for key in keys:
            values = values[key]
        return {str(name): int(value) for name, value in values.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}

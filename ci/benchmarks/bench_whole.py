"""How long a whole model takes to compile, at each optimization level.

`python -m ci.benchmarks.bench_whole [MODEL ...]` prints a line per model and level: seconds of the processor and by the
clock from StableHLO to flatbuffer, imports and export apart.
"""

from __future__ import annotations

import time

from ci.benchmarks.bench_compiler import ADD
from ci.lines import print_lines
from opscope.compiler import api
from opscope.harness.prepare.export import export_model
from opscope.models import registry


def row(name: str, level: int) -> tuple[object, ...]:
    """One line of the table."""
    exported, board = export_model(registry.get(name)), api.load_board("n150")
    roles = tuple("input" if spec.role == "input" else "parameter" for spec in exported.arguments)
    options = api.CompileOptions(optimization_level=level, argument_types=roles if level else ())
    api.compile(ADD, board, api.CompileOptions(optimization_level=level))  # imports
    cpu, clock = time.process_time(), time.perf_counter()
    data = api.compile(exported.bytecode, board, options)
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    return name, level, f"{cpu:.2f}", f"{clock:.2f}", len(data)


if __name__ == "__main__":
    print_lines(__doc__, "model | level | CPU s | clock s | bytes", row, ("resnet50", "bert_base"), level=(0, 1, 2))

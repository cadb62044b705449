"""How long a whole model takes to compile, at each optimization level.

`python -m ci.benchmarks.bench_whole [MODEL ...]` prints a line per model and level: seconds of the processor and by the
clock from StableHLO to flatbuffer, imports and export apart.
"""

from __future__ import annotations

import argparse
import time

from ci.benchmarks.bench_compiler import ADD
from opscope.compiler import api
from opscope.harness.prepare.export import export_model
from opscope.models import registry


def row(name: str, level: int) -> str:
    """One line of the table."""
    exported, board = export_model(registry.get(name)), api.load_board("n150")
    roles = tuple("input" if spec.role == "input" else "parameter" for spec in exported.arguments)
    options = api.CompileOptions(optimization_level=level, argument_types=roles if level else ())
    api.compile(ADD, board, api.CompileOptions(optimization_level=level))  # imports
    cpu, clock = time.process_time(), time.perf_counter()
    data = api.compile(exported.bytecode, board, options)
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    return f"| {name} | {level} | {cpu:.2f} | {clock:.2f} | {len(data)} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["resnet50", "bert_base"])
    options = parser.parse_args()
    print("| model | level | CPU s | clock s | bytes |")
    print("|---|---|---|---|---|")
    for name in options.models:
        for level in (0, 1, 2):
            print(row(name, level), flush=True)


if __name__ == "__main__":
    main()

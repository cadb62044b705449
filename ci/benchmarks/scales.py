"""What a cold golden walk pays for the scales of a verdict: models walked with them and without, in turns.

`python -m ci.benchmarks.scales` walks resnet50, and a chain in which every op is a product of its own shape, each time
with an empty cache. Prints the processor seconds of the fastest walk of each kind, and their ratio.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from opscope.harness.prepare.export import export_file, export_model
from opscope.harness.prepare.input_distributions import argument_distributions
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.walk import Limits, WalkTask, walk
from opscope.models import registry

PRODUCTS = 40


def chain(products: int) -> str:
    """A StableHLO module of products only, each of another shape."""
    sizes = [512 + 8 * number for number in range(products + 1)]
    types = [f"tensor<{rows}x{columns}xf32>" for rows, columns in pairwise(sizes)]
    lines, value, last = [], "%x", f"tensor<512x{sizes[0]}xf32>"
    for number, weight in enumerate(types):
        result = f"tensor<512x{sizes[number + 1]}xf32>"
        lines.append(
            f"%{number} = stablehlo.dot_general {value}, %w{number}, contracting_dims = [1] x [0]"
            f" : ({last}, {weight}) -> {result}"
        )
        value, last = f"%{number}", result
    arguments = ", ".join([f"%x: tensor<512x{sizes[0]}xf32>", *(f"%w{n}: {kind}" for n, kind in enumerate(types))])
    return f"func.func @main({arguments}) -> {last} {{\n" + "\n".join(lines) + f"\nreturn {value} : {last} }}"


def seconds(bytecode: bytes, name: str, limits: Limits) -> float:
    """Processor time of one walk over a module."""
    split = split_module(bytecode, name)
    with tempfile.TemporaryDirectory(prefix="opscope-scales-") as scratch:
        folder, cache = Path(scratch) / "export", Path(scratch) / "cache"
        folder.mkdir()
        task = WalkTask(split, argument_distributions(split), 0, folder, "captured:scales", cache, limits)
        began = time.process_time()
        walk(task)
        return time.process_time() - began


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="opscope-scales-") as scratch:
        file = Path(scratch) / "products.mlir"
        file.write_text(chain(PRODUCTS))
        modules = {"products": export_file(file).bytecode, "resnet50": export_model(registry.get("resnet50")).bytecode}
        for name, bytecode in modules.items():
            limits = (Limits(), Limits(measured_bytes=0))
            seconds(bytecode, name, Limits())  # what is loaded at the first walk counts for neither
            pairs = [[seconds(bytecode, name, each) for each in limits] for _ in range(options.rounds)]
            with_scales, plain = (min(column) for column in zip(*pairs, strict=True))
            print(f"{name}: {with_scales:.2f} s with scales, {plain:.2f} s without: {with_scales / plain - 1:.1%} more")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

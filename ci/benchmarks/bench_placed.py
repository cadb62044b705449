"""Whole models planned and run: the placed program against the same graph unplaced, the TTNN route and XLA.

`python -m ci.benchmarks.bench_placed [MODEL ...] [--arch A ...] [--policy P ...]` prints a line per plan.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np

from ci.lines import print_lines
from opscope.compiler import api
from opscope.compiler.api import planned_binaries
from opscope.compiler.buda.configuration import Configuration
from opscope.compiler.depths import Compilation, compile_to
from opscope.compiler.target import binary
from opscope.compiler.target.plan import Plan
from opscope.compiler.target.system_desc import load_board
from opscope.harness.prepare.export import export_model
from opscope.models import registry
from opscope.models.seeding import draw
from opscope.simulator.api import Device

SEED = 0


def pcc(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson correlation over all elements."""
    return float(np.corrcoef(np.ravel(a).astype(np.float64), np.ravel(b).astype(np.float64))[0, 1])


def golden(name: str, arguments: list[np.ndarray]) -> list[np.ndarray]:
    """XLA's results for a model."""
    import jax

    built = registry.get(name).build("float32")
    names = [spec.name for spec in built.arguments]
    forward = jax.jit(lambda *arrays: built.forward(dict(zip(names, arrays, strict=True))))
    return [np.asarray(leaf) for leaf in jax.tree.leaves(forward(*arguments))]


@contextmanager
def sums_in_64_bits() -> Iterator[None]:
    """Has NumPy add the terms of float32 products in float64, whose order cannot be seen in a float32.

    OpenBLAS adds them in an order that depends on the size of the operands, and on the processor, so that a product in
    parts may differ in its last bit from the whole, wherever it is computed.
    """
    product = np.matmul

    def exact(a: np.ndarray, b: np.ndarray, *others: Any, **options: Any) -> Any:
        if a.dtype != np.float32 or b.dtype != np.float32 or others or options:
            return product(a, b, *others, **options)
        return product(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)

    with mock.patch.object(np, "matmul", exact):
        yield


@dataclass(frozen=True)
class Measured:
    """One model planned and run."""

    epochs: int
    fused: int
    """Number of fused ops."""
    placed_bits: bool
    """Whether the planned program's results equal those of the same program without a plan, bit for bit."""
    core_bits: bool
    """Whether they are also equal if it runs core by core, sums in 64 bits."""
    ttnn: tuple[float, ...]
    """PCC of each result against the TTNN route."""
    xla: tuple[float, ...]
    """PCC of each result against XLA."""
    seconds: float
    """Seconds of the run without a plan."""


def measured(name: str, arch: str, policy: str, acc: str) -> Measured:
    """Plans a model, runs it with its plan, without it, and core by core, and compares the results."""
    exported = export_model(registry.get(name))
    arguments = [draw(spec.law, spec.shape, spec.dtype, SEED, i) for i, spec in enumerate(exported.arguments)]
    config = Configuration()
    config.set_configuration_options(balancer_policy=policy, accumulate_df=acc)
    compiled = compile_to(Compilation(exported.bytecode, load_board(arch).board, config, name))
    host, data = planned_binaries(compiled)
    assert compiled.host is not None
    assert compiled.program is not None
    assert compiled.plan is not None
    queues = compiled.host.queues(Device("n150").load(host).run(arguments).outputs)
    inputs = [np.ascontiguousarray(queues[source], np.float32) for source in compiled.program.graph.sources]
    device = Device(compiled.board)
    started = time.monotonic()
    unplaced = device.load(binary.write(replace(binary.read(data), plan=Plan()))).run(inputs).outputs
    seconds = time.monotonic() - started
    executable = device.load(data)
    placed = executable.run(inputs).outputs
    with sums_in_64_bits():
        whole, by_core = executable.run(inputs).outputs, executable.run(inputs, per_core=True).outputs
    ttnn = api.compile(exported.bytecode, load_board("n150"), api.CompileOptions(data_format="Float16_b"))
    route = Device("n150").load(ttnn).run(arguments).outputs
    exact = golden(name, arguments)
    numbers = [i for i, _, _ in compiled.lowering.results]
    return Measured(
        len(compiled.plan.epochs),
        sum(node.spec.fused is not None for node in compiled.plan.graph.ops),
        all(np.array_equal(a, b) for a, b in zip(placed, unplaced, strict=True)),
        all(np.array_equal(a, b) for a, b in zip(by_core, whole, strict=True)),
        tuple(pcc(p, route[i]) for p, i in zip(placed, numbers, strict=True)),
        tuple(pcc(p, exact[i]) for p, i in zip(placed, numbers, strict=True)),
        seconds,
    )


def row(name: str, arch: str, policy: str, acc: str) -> tuple[object, ...]:
    """One line of the table."""
    m = measured(name, arch, policy, acc)
    same = "yes" if m.placed_bits and m.core_bits else "NO"
    against = (" ".join(f"{value:.5f}" for value in values) for values in (m.ttnn, m.xla))
    return name, arch, policy, acc, m.epochs, same, *against, f"{m.seconds:.0f}"


if __name__ == "__main__":
    print_lines(
        __doc__,
        "model | arch | policy | Dst | epochs | placed = unplaced | PCC against TTNN | against XLA | unplaced run s",
        row,
        ("resnet50", "bert_base"),
        arch=("n150",),
        policy=("NLP",),
        acc=("Float16_b",),
    )

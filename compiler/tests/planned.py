"""Small models as Buda graphs, planned and run on the simulator, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from xdsl.dialects.func import FuncOp

from opscope.compiler import api
from opscope.compiler.buda.graph import BudaGraph
from opscope.compiler.buda.plan_to_binary import PlannedProgram
from opscope.compiler.pipelines.buda import legalise
from opscope.compiler.target import binary
from opscope.compiler.target.plan import Plan
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tests import programs
from opscope.compiler.translations.ttir_to_graph.host import host_part
from opscope.compiler.translations.ttir_to_graph.lowering import lowered
from opscope.simulator.api import Device


@dataclass(frozen=True)
class Lowered:
    """A function as a Buda graph, its arguments, what they put into the queues, and XLA's results."""

    graph: BudaGraph
    queues: dict[str, np.ndarray]
    golden: list[np.ndarray]


def lowered_function(
    function: Callable[..., Any], *shapes: tuple[int, ...], seed: int = 0, whole: Sequence[np.ndarray] = ()
) -> Lowered:
    """The function of random arguments of these shapes, after which `whole` follow."""
    rng = np.random.default_rng(seed)
    args = [(rng.standard_normal(shape) / max(1, shape[0]) ** 0.5).astype(np.float32) for shape in shapes]
    args += whole
    ttir = api.stablehlo_to_ttir(jax.jit(function).lower(*args).as_text())
    legalise(ttir)
    low = lowered(ttir, "test")
    entry = next(op for op in ttir.body.block.ops if isinstance(op, FuncOp))
    host, board = host_part(entry, low.contents, low.host_results), load_board("n150")
    data = api.ttnn_to_flatbuffer(api.ttir_to_ttnn(host.module, board), board)
    results = Device("n150").load(data).run(args).outputs
    golden = [np.asarray(r) for r in jax.tree.leaves(programs.jit(function)(*args))]
    return Lowered(low.builder.graph(), host.queues(results), golden)


def run(program: PlannedProgram, queues: dict[str, np.ndarray], *, placed: bool = True, per_core: bool = False) -> Any:
    loaded = program.binary if placed else replace(program.binary, plan=Plan())
    executable = Device(loaded.board).load(binary.write(loaded))
    return executable.run([queues[name] for name in program.graph.sources], per_core=per_core).outputs


def pcc(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(np.ravel(a).astype(np.float64), np.ravel(b).astype(np.float64))[0, 1])


def attention(x, q, k, v, o):
    """Four heads over the positions of `x`, and a projection."""
    positions, width = x.shape[1:]

    def heads(y):
        return y.reshape(1, positions, 4, width // 4).transpose(0, 2, 1, 3)

    scores = jax.nn.softmax(heads(x @ q) @ heads(x @ k).transpose(0, 1, 3, 2) / 8.0)
    return (scores @ heads(x @ v)).transpose(0, 2, 1, 3).reshape(1, positions, width) @ o


def convnet(x, w, b, u, v):
    """Two convolutions, one with a stride, a max-pool, the mean of all pixels, and a classifier."""
    same = ("NHWC", "HWIO", "NHWC")
    y = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=same) + b)
    y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")
    y = jax.nn.relu(jax.lax.conv_general_dilated(y, u, (1, 1), "SAME", dimension_numbers=same))
    return y.mean((1, 2)) @ v


MODELS = {
    "attention": (attention, ((1, 64, 128), *[(128, 128)] * 4)),
    "convnet": (convnet, ((1, 28, 28, 3), (3, 3, 3, 40), (40,), (3, 3, 40, 64), (64, 10))),
    "turned": (lambda x, w: jnp.tanh(x @ w).T, ((70, 100), (100, 130))),
    "layer": (lambda x, w, b: jnp.tanh(x @ w + b), ((70, 100), (100, 130), (130,))),
}


@cache
def model(name: str) -> Lowered:
    """One of the models, lowered once."""
    function, shapes = MODELS[name]
    return lowered_function(function, *shapes)

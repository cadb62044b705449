"""How long compiling takes: chains of up to 20,000 ops at each optimization level, and one op.

`python -m pytest ci/benchmarks/bench_compiler.py` prints the table. A chain repeats a product with a bias, a ReLU, an
exponential between two transposes and a residual sum; four times the ops should take four times as long. The seconds
are processor time, so that other work on the machine does not count.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import pytest

from opscope.compiler import api

pytestmark = pytest.mark.benchmark(timer=time.process_time)
LAYER = """
  %m{i} = stablehlo.dot_general %v{p}, %w, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b{i} = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<64xf32>) -> tensor<64x64xf32>
  %a{i} = stablehlo.add %m{i}, %b{i} : tensor<64x64xf32>
  %z{i} = stablehlo.constant dense<0.0> : tensor<64x64xf32>
  %r{i} = stablehlo.maximum %a{i}, %z{i} : tensor<64x64xf32>
  %t{i} = stablehlo.transpose %r{i}, dims = [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %e{i} = stablehlo.exponential %t{i} : tensor<64x64xf32>
  %u{i} = stablehlo.transpose %e{i}, dims = [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %q{i} = stablehlo.multiply %u{i}, %v{p} : tensor<64x64xf32>
  %v{i} = stablehlo.add %q{i}, %r{i} : tensor<64x64xf32>"""
OPS = LAYER.count("stablehlo.")
ADD = """func.func @main(%x: tensor<128x768xf32>, %y: tensor<128x768xf32>) -> tensor<128x768xf32> {
  %0 = stablehlo.add %x, %y : tensor<128x768xf32>
  return %0 : tensor<128x768xf32>
}"""


@cache
def chain(ops: int) -> str:
    """A module of about `ops` ops."""
    count = ops // OPS
    layers = "".join(LAYER.format(i=i, p=i - 1) for i in range(1, count + 1))
    kind = "tensor<64x64xf32>"
    signature = f"(%v0: {kind}, %w: {kind}, %b: tensor<64xf32>) -> {kind}"
    return f"func.func @main{signature} {{{layers}\n  return %v{count} : {kind}\n}}"


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("ops", [1250, 5000, 20000])
def test_compile_chain(benchmark: Any, ops: int, level: int) -> None:
    source, board = chain(ops), api.load_board("n150")
    options = api.CompileOptions(optimization_level=level, argument_types=("input", "parameter", "parameter"))
    data = benchmark.pedantic(lambda: api.compile(source, board, options), rounds=1)
    assert data


@pytest.mark.parametrize("level", [0, 1, 2])
def test_compile_one_op(benchmark: Any, level: int) -> None:
    board, options = api.load_board("n150"), api.CompileOptions(optimization_level=level)
    assert benchmark.pedantic(lambda: api.compile(ADD, board, options), rounds=20, warmup_rounds=2)

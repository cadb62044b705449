"""How long splitting takes: module text in, ids and single-op modules out.

`python -m pytest ci/benchmarks/bench_split.py` prints the table. For comparison: the splitter of tt-mlir's op-by-op
infrastructure takes 71 s for a chain of 4,000 additions, and its time grows with the square of the length (measured).
"""

from __future__ import annotations

from typing import Any

import pytest

from opscope.harness.prepare.mlir import context
from opscope.harness.prepare.split import split_module


def chain(length: int, distinct: bool) -> str:
    """A chain of `length` additions: all the same op, or each with its own constant if `distinct`."""
    lines = []
    for i in range(1, length + 1):
        term = "%b"
        if distinct:
            lines.append(f"%c{i} = stablehlo.constant dense<{i}.0> : tensor<32x32xf32>")
            term = f"%c{i}"
        lines.append(
            f'%v{i} = stablehlo.add %v{i - 1}, {term} : tensor<32x32xf32> loc("net/layer{i}/add"("net.py":{i}:1))'
        )
    body = "\n".join(lines)
    return (
        "func.func @main(%v0: tensor<32x32xf32>, %b: tensor<32x32xf32>) -> tensor<32x32xf32> {\n"
        f"{body}\nreturn %v{length} : tensor<32x32xf32>\n}}"
    )


@pytest.mark.parametrize("length", [4_000, 16_000, 64_000])
def test_split_chain(benchmark: Any, length: int) -> None:
    context()
    text = chain(length, distinct=False)
    split = benchmark.pedantic(split_module, (text,), rounds=3)
    assert (split.uses, len(split.ops)) == (length, 1)
    if length == 4_000 and benchmark.enabled:
        assert benchmark.stats.stats.min <= 0.5


def test_split_chain_of_distinct_ops(benchmark: Any) -> None:
    context()
    text = chain(4_000, distinct=True)
    split = benchmark.pedantic(split_module, (text,), rounds=2)
    assert len(split.ops) == 4_000

"""What a kernel cannot do as it is asked, it does otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.ir.context import context
from opscope.compiler.passes.ttir_to_ttnn import TtirToTtnn
from opscope.compiler.passes.ttnn_workaround import TtnnWorkaround
from opscope.compiler.target import binary
from opscope.compiler.tests import listing, programs


def test_more_tensors_than_a_concat_takes() -> None:
    count = 130
    names = ", ".join(f"%a{i}" for i in range(count))
    kinds = ", ".join(["tensor<1xf32>"] * count)
    arguments = ", ".join(f"%a{i}: tensor<1xf32>" for i in range(count))
    source = programs.module(
        f"%0 = stablehlo.concatenate {names}, dim = 0 : ({kinds}) -> tensor<{count}xf32>\n"
        f"return %0 : tensor<{count}xf32>",
        f"({arguments}) -> tensor<{count}xf32>",
    )
    (got,) = programs.simulate(source, *(np.float32([i]) for i in range(count)))
    np.testing.assert_array_equal(got, np.arange(count, dtype=np.float32))


@pytest.mark.parametrize(("count", "parts"), [(64, []), (65, [64, 1]), (129, [64, 64, 1])])
def test_a_concat_of_more_than_64_is_one_of_parts(count: int, parts: list[int]) -> None:
    names = [f"a{i}" for i in range(count)]
    arguments = "\n".join(f"{name}: 2x3xbf16" for name in names)
    module = listing.read(f"{arguments}\nc = concat({', '.join(names)}) dim=1 : 2x{3 * count}xbf16\nreturn c")
    TtirToTtnn().apply(context(), module)
    TtnnWorkaround().apply(context(), module)
    module.verify()
    *made, whole = (op for op in module.walk() if op.name == "ttnn.concat")
    assert [len(op.operands) for op in made] == parts
    assert [listing.kind(op.results[0]) for op in made] == [f"2x{3 * part}xbf16 dram bf16" for part in parts]
    assert listing.kind(whole.results[0]) == f"2x{3 * count}xbf16 dram bf16"
    assert list(whole.operands) == [op.results[0] for op in made] or not parts


def test_a_moved_block_float_keeps_its_bits() -> None:
    x = programs.random((64, 32))

    def turned(y):
        return y.T * 2

    source = programs.stablehlo(turned, x)
    data = api.compile(source, programs.BOARD, api.CompileOptions(data_format="Bfp8_b"))
    program = binary.read(data).programs[0]
    formats = {op.kernel: program.tensors[op.outputs[0]].data_format for op in program.operations if op.outputs}
    assert (formats["permute"], formats["multiply"]) == ("Float16_b", "Bfp8_b")
    (got,) = programs.simulate(source, x, data_format="Bfp8_b")
    assert np.abs(got - 2 * x.T).max() <= 2 * 2**-6

"""The table is total, derives all it promises, and grows at run time."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.ops.row import BOOL, FLOAT, TABLE, OpRow, OpTable
from opscope.compiler.tests import programs


def generated_names(module: str) -> set[str]:
    """Op names that jaxlib's generated classes have."""
    import importlib

    generated = importlib.import_module(f"jaxlib.mlir.dialects.{module}")
    return {c.OPERATION_NAME for c in vars(generated).values() if hasattr(c, "OPERATION_NAME")}


UNREAD = {"stablehlo.collective_reduce"}
"""In the specification, and not in jaxlib: a row says so."""


def test_every_stablehlo_op_has_a_row():
    ours = {row.stablehlo for row in api.op_table() if row.stablehlo.startswith("stablehlo.")}
    assert ours == generated_names("_stablehlo_ops_gen") | UNREAD


def test_every_chlo_row_is_an_op_of_chlo():
    ours = {row.stablehlo for row in api.op_table() if row.stablehlo.startswith("chlo.")}
    assert {"chlo.erf", "chlo.erfc", "chlo.top_k", "chlo.square"} <= ours <= generated_names("_chlo_ops_gen")


AT_THE_DOOR = {
    f"stablehlo.{name}"
    for name in (
        "return",
        "tuple",
        "get_tuple_element",
        "after_all",
        "create_token",
        "async_start",
        "async_done",
        "uniform_quantize",
        "uniform_dequantize",
    )
}
"""Ops of which the door leaves nothing: test_front_door.py shows it."""


def test_what_is_not_lowered_says_why_and_what_needs_a_pattern_has_one():
    from opscope.compiler.passes.stablehlo_to_ttir import NAMED, PATTERNS
    from opscope.compiler.passes.ttir_to_ttir_decomposition import PATTERNS as DECOMPOSITIONS

    for row in api.op_table():
        if row.lowering in ("notimpl", "notyet", "never"):
            assert len(row.reason) > 10, row.stablehlo
        if row.lowering == "pattern" and row.stablehlo not in {*AT_THE_DOOR, ""}:
            assert row.stablehlo in PATTERNS
        if row.lowering == "decomposed":
            assert row.ttir in DECOMPOSITIONS
    assert set(DECOMPOSITIONS) <= {row.ttir for row in api.op_table()}
    assert set(NAMED) <= {row.stablehlo for row in api.op_table()}
    assert set(PATTERNS) <= {row.stablehlo for row in api.op_table() if row.lowering == "pattern"}


def test_table_refuses_two_rows_for_one_type_class_and_a_refusal_without_reason():
    table = OpTable()
    table.add(OpRow("stablehlo.add", "add", dtypes=FLOAT))
    table.add(OpRow("stablehlo.add", "logical_or", dtypes=BOOL))
    with pytest.raises(ValueError, match="expected one row per type class"):
        table.add(OpRow("stablehlo.add", "other", dtypes=FLOAT))
    with pytest.raises(ValueError, match="expected a reason"):
        table.add(OpRow("stablehlo.fft", lowering="never"))


def test_an_op_is_added_by_one_row_and_one_kernel():
    """What docs/architecture.md promises: no dialect, pass, schema or dispatch is touched."""
    from opscope.compiler.target.program import EltwiseParams
    from opscope.simulator.kernels.registry import KERNELS, PASS, kernel

    source = programs.module(
        "%0 = chlo.is_neg_inf %a : tensor<4xf32> -> tensor<4xi1>\n return %0 : tensor<4xi1>",
        "(%a: tensor<4xf32>) -> tensor<4xi1>",
    )
    values = np.array([1, -np.inf, np.inf, -2], np.float32)
    before = programs.op_names(api.stablehlo_to_ttir(source))
    assert "ttir.example_is_neg_inf" not in before  # legalised by jaxlib into simpler ops
    api.register(OpRow("chlo.is_neg_inf", "example_is_neg_inf"))

    @kernel("example_is_neg_inf", EltwiseParams, cycles=PASS)
    def example(images, call):
        return np.isneginf(images[0])

    try:
        assert programs.op_names(api.stablehlo_to_ttir(source)) == ["ttir.example_is_neg_inf"]
        np.testing.assert_array_equal(programs.simulate(source, values)[0], np.isneginf(values))
    finally:
        del KERNELS["example_is_neg_inf"]
        # Later tests of this process see the table as it is in the files.
        del TABLE._by_stablehlo["chlo.is_neg_inf"], TABLE._by_ttir["example_is_neg_inf"]
        del TABLE._by_ttnn["example_is_neg_inf"]


@pytest.mark.slow
def test_the_op_table_is_full_before_anything_is_compiled() -> None:
    code = "from opscope.compiler.api import op_table; print(any(row.stablehlo == 'chlo.erf' for row in op_table()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"

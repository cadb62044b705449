"""Prestride and fracture: convolutions that the host or the compiler rearranges compute what XLA's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from click.testing import CliRunner

from opscope.compiler import api
from opscope.compiler.buda.balancer.legalizer import legalize
from opscope.compiler.buda.graph import BudaGraph
from opscope.compiler.buda.plan_to_binary import to_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.commands.plan import plan_command
from opscope.compiler.passes import ttir_conv_fracture
from opscope.compiler.pipelines.buda import lower
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tests.planned import Lowered, lowered_function, pcc, run

Edges = tuple[tuple[int, int], tuple[int, int]]


def convolution(stride: int, edges: Edges, **options: Any) -> Callable[..., Any]:
    dims = ("NHWC", "HWIO", "NHWC")
    return lambda x, w: jax.lax.conv_general_dilated(x, w, (stride, stride), edges, dimension_numbers=dims, **options)


def taps(graph: BudaGraph) -> list[tuple[int, int]]:
    """The kernel of each gather, in taps."""
    patterns = [node.spec.sparse for node in graph.ops if node.spec.sparse is not None]
    return [pattern.windows.kernel for pattern in patterns if pattern.windows is not None]


def device_result(case: Lowered, board: str = "n150", **options: Any) -> np.ndarray:
    program = to_binary(plan(case.graph, budget_of(board)), load_board(board))
    (out,) = run(program, case.queues, **options)
    return out.reshape(case.golden[0].shape)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "edges", "after"),
    [
        ((21, 33), 5, 2, ((0, 1), (2, 0)), [(3, 3)]),
        ((19, 23), 3, 3, ((1, 1), (0, 2)), [(2, 1)]),
        ((9, 9), 2, 2, ((0, 0), (0, 0)), []),  # A block is a tap: nothing is gathered. The last row is never read.
        ((8, 9), 7, 4, ((3, 3), (3, 2)), [(2, 2)]),
        ((16, 16), 3, 2, ((-1, 2), (0, -2)), [(2, 2)]),
    ],
)
def test_a_prestrided_convolution_computes_what_xla_does(
    size: tuple[int, int], kernel: int, stride: int, edges: Edges, after: list[tuple[int, int]]
) -> None:
    case = lowered_function(convolution(stride, edges), (1, *size, 3), (kernel, kernel, 3, 40))
    assert taps(case.graph) == after
    out = device_result(case, placed=False)
    # Float16_b has 8 bits of mantissa and both operands are rounded to it; a misplaced tap would be off by 1 and more.
    scale = np.sqrt(kernel * kernel * 3) * np.abs(case.golden[0]).std()
    np.testing.assert_allclose(out, case.golden[0], atol=scale * 2**-6)
    assert pcc(out, case.golden[0]) > 0.9999


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "options"),
    [
        (3, 3, 1, {}),
        (3, 3, 2, {"rhs_dilation": (2, 2)}),
        (32, 1, 2, {}),  # A quarter of the pixels with four times the tiles of channels: as many products.
    ],
)
def test_what_gains_nothing_or_cannot_be_prestrided_is_left_alone(
    channels: int, kernel: int, stride: int, options: dict[str, Any]
) -> None:
    function = convolution(stride, ((1, 1), (1, 1)), **options)
    source = jax.jit(function).lower(*shapes((1, 16, 16, channels), (kernel, kernel, channels, 32)))
    assert taps(lower(api.stablehlo_to_ttir(source.as_text()), "test")) == [(kernel, kernel)]


def shapes(*dims: tuple[int, ...]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(each, np.float32) for each in dims]


def test_the_option_turns_prestride_off(tmp_path: Any) -> None:
    path = tmp_path / "conv.mlir"
    function = convolution(2, ((3, 3), (3, 3)))
    path.write_text(jax.jit(function).lower(*shapes((1, 16, 16, 3), (7, 7, 3, 32))).as_text())
    outputs = [
        CliRunner().invoke(plan_command, [str(path), "--set", f"enable_conv_prestride={value}", "--op", "matmul_0"])
        for value in ("true", "false")
    ]
    assert [result.exit_code for result in outputs] == [0, 0]
    # K of the product: 4x4 taps of one tile, or 7x7.
    assert [any("m_k 1 u_kt 49" in line for line in result.output.splitlines()) for result in outputs] == [False, True]
    assert not any("warning" in result.output for result in outputs)


# quick: edges that differ
@pytest.mark.parametrize("edges", [pytest.param(((3, 3), (3, 3)), marks=pytest.mark.slow), ((0, 2), (1, 0))])
def test_a_fractured_convolution_computes_what_xla_does(monkeypatch: pytest.MonkeyPatch, edges: Edges) -> None:
    monkeypatch.setattr(ttir_conv_fracture, "MOST_ROWS", 10)
    case = lowered_function(convolution(2, edges), (1, 34, 32, 3), (7, 7, 3, 40))
    height = 4
    assert taps(case.graph) == [(1, 4)] * height
    assert sum(node.spec.type == "add" for node in case.graph.ops) == height - 1
    np.testing.assert_array_equal(device_result(case, per_core=True), device_result(case, placed=False))
    assert pcc(device_result(case), case.golden[0]) > 0.9999


def test_dilated_rows_stay_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ttir_conv_fracture, "MOST_ROWS", 10)
    case = lowered_function(convolution(1, ((2, 2), (2, 2)), rhs_dilation=(2, 3)), (1, 24, 24, 3), (3, 3, 3, 32))
    assert taps(case.graph) == [(1, 3)] * 3
    assert pcc(device_result(case), case.golden[0]) > 0.9999


@pytest.mark.slow
def test_resnet50s_first_convolution() -> None:
    """From the model itself: TT-Buda's published op models, and on the device the sum that XLA computes."""
    from opscope.harness.prepare.export import export_model
    from opscope.models import registry

    graph = lower(api.stablehlo_to_ttir(export_model(registry.get("resnet50")).bytecode), "resnet50")
    for name in ("matmul_0", "matmul_1", "matmul_2", "matmul_3"):
        legal = legalize(graph, name, budget_of("grayskull"))
        assert (len(legal.candidates), len(legal.models)) == (76, 201)
        cycles = {(c.grid.r, c.grid.c, c.stream.t): c.models[0].cycles for c in legal.candidates if c.models}
        assert (cycles[4, 1, 2], cycles[8, 1, 7], cycles[1, 1, 7], cycles[8, 2, 49]) == (86240, 43120, 344176, 23912)
    case = lowered_function(convolution(2, ((3, 3), (3, 3))), (1, 224, 224, 3), (7, 7, 3, 64))
    assert taps(case.graph) == [(1, 4)] * 4
    for board in ("e150", "n150"):
        out = device_result(case, board)
        np.testing.assert_array_equal(out, device_result(case, board, placed=False))
        # Sums of 147 products of numbers of 8 bits, about 4.6 in size, packed with 8 bits five times.
        np.testing.assert_allclose(out, case.golden[0], atol=0.2)
        assert pcc(out, case.golden[0]) > 0.9999

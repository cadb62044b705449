"""Tensors in L1: the device takes them all, computes the same bits, and reads less from DRAM."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.passes.ttnn_optimizer import spreads
from opscope.compiler.target import binary
from opscope.compiler.tests import programs
from opscope.simulator.api import Device


def chain(x, w):
    y = jnp.exp(x @ w * 0.01)
    z = jnp.tanh(y + x.sum())
    return z * y - y.max(1, keepdims=True)


def compiled(level: int, rows: int, board: str = "n150", function=chain):
    x = programs.random((rows, 512))
    w = programs.random((512, 512), 1)
    data = api.compile(
        programs.stablehlo(function, x, w), api.load_board(board), api.CompileOptions(optimization_level=level)
    )
    return binary.read(data).programs[0], Device(board).load(data), [x, w]


def test_a_chain_stays_in_l1_with_the_same_bits_and_less_dram() -> None:
    (_, first, args), (program, second, _) = compiled(1, 1024), compiled(2, 1024)
    plain, better = first.run(args), second.run(args)
    np.testing.assert_array_equal(plain.outputs[0], better.outputs[0])
    spread = {t.memory_layout for t in program.tensors if t.buffer_type == "l1"}
    assert spread == {"block_sharded", "interleaved"}
    made = [(op.kernel, program.tensors[out]) for op in program.operations for out in op.outputs]
    places = {name: (t.buffer_type, t.memory_layout, t.grid) for name, t in made if name not in ("to_layout", "add")}
    everywhere, whole, in_dram = (
        ("l1", "block_sharded", (8, 8)),
        ("l1", "interleaved", (1, 1)),
        ("dram", "interleaved", (1, 1)),
    )
    assert {name: places[name] for name in ("matmul", "exp", "sum", "tanh", "max", "subtract", "to_device")} == {
        "matmul": everywhere,
        "exp": everywhere,
        "sum": whole,
        "tanh": everywhere,
        "max": whole,
        "subtract": in_dram,
        "to_device": in_dram,
    }
    moved = [sum(op.dram_bytes for op in result.profile.ops) for result in (plain, better)]
    assert moved[1] < 0.5 * moved[0]
    assert better.profile.total_cycles < plain.profile.total_cycles
    assert better.profile.l1_peak_bytes > plain.profile.l1_peak_bytes


def test_what_does_not_fit_beside_the_rest_lies_in_dram() -> None:
    """32 MiB a tensor, 89 MiB of L1: the device refuses a program that overflows."""
    program, executable, _ = compiled(2, 16384)
    places = [t.buffer_type for t in program.tensors if t.shape == (16384, 512) and t.buffer_type != "system_memory"]
    assert {"l1", "dram"} == set(places)
    assert executable.memory.l1_peak <= api.load_board("n150").ttnn.l1_usable


@pytest.mark.slow
def test_larger_than_l1_is_never_there() -> None:
    program, *_ = compiled(2, 1 << 16, function=lambda x, w: jnp.exp(jnp.abs(x)))
    assert not any(t.buffer_type == "l1" for t in program.tensors)


def test_arguments_and_results_lie_in_dram() -> None:
    program, *_ = compiled(2, 256, function=lambda x, w: (x + 1, x))
    assert not any(t.buffer_type == "l1" and t.memory_layout != "interleaved" for t in program.tensors)


@pytest.mark.parametrize(
    ("rows", "columns", "height", "block", "width"),
    [
        (64, 1, 64, (8, 1), 1),
        (1, 64, 1, (1, 8), 64),
        (32, 16, 32, (8, 8), 16),
        (98, 2, 49, (8, 2), 2),
        (9, 7, 9, (5, 7), 7),
        (1, 1, 1, (1, 1), 1),
        (0, 3, 1, (1, 3), 3),
    ],
)
def test_the_sharding_on_most_cores_comes_first(
    rows: int, columns: int, height: int, block: tuple[int, int], width: int
) -> None:
    """On 8x8 cores: 98 rows leave 49 cores with two each, 9 rows leave five of eight with two or one."""
    profile = api.load_board("n150").ttnn
    ways = [("height_sharded", (height, 1)), ("block_sharded", block), ("width_sharded", (1, width))]
    assert spreads(rows, columns, profile) == sorted(ways, key=lambda way: -way[1][0] * way[1][1])
    assert spreads(rows, columns, profile, whole_rows=True) == ways[:1]

from __future__ import annotations

import pytest

from opscope.compiler.target.system_desc import load_board
from opscope.simulator.counters import counters, limiter
from opscope.simulator.profile import OpCost, Profile

N150 = load_board("n150")
BYTES_PER_CYCLE = 288 * 0.92
"""n150: 288 GB/s at 1 GHz, of which reads reach 92 % (tt-isa-documentation; tt-metal's GEMM_FLOPS.md)."""


def cost(kernel="add", compute=0, transfer=0, launch=0, dram_bytes=0.0, cores=64, noc_bytes=0):
    total = compute + transfer + launch
    return OpCost(kernel, "", total, compute, transfer, launch, int(dram_bytes), 0, noc_bytes, cores)


@pytest.mark.parametrize(
    ("of", "name"),
    [
        (cost(compute=500, transfer=400, launch=300), "math"),
        (cost(compute=500, transfer=400, launch=3000), "launch"),
        (cost(transfer=1000, dram_bytes=1000 * BYTES_PER_CYCLE), "dram"),
        # Reads overlap in an elementwise op: a transfer that DRAM does not explain is the NoC's.
        (cost(transfer=1000, compute=900, dram_bytes=800 * BYTES_PER_CYCLE), "noc"),
        # They add up in a product: 800 cycles of DRAM and 200 of multicast.
        (cost("matmul", transfer=1000, compute=700, dram_bytes=800 * BYTES_PER_CYCLE), "dram"),
        (cost("matmul", transfer=1000, compute=500, dram_bytes=300 * BYTES_PER_CYCLE), "noc"),
    ],
)
def test_the_unit_with_most_cycles_limits(of, name):
    assert limiter(of, N150) == name


def test_counters_of_a_run_add_up():
    ops = (cost(compute=300, launch=100, cores=32, noc_bytes=5), cost(launch=3000, dram_bytes=70, cores=1, noc_bytes=6))
    counted = counters(Profile(ops, 1.0, 0, 0), N150, 64)
    assert counted.limiter == "launch"
    assert counted.utilisation == pytest.approx(300 * 32 / (3400 * 64))
    assert (counted.dram_bytes, counted.noc_bytes) == (70, 11)


def test_a_run_without_cycles_has_no_limiter():
    counted = counters(Profile((), 1.0, 0, 0), N150, 64)
    assert (counted.limiter, counted.utilisation, counted.dram_bytes) == (None, None, 0)


@pytest.mark.parametrize(
    ("board", "kernels", "error"),
    [
        ("n150", {"add": 1000}, 34.1),
        ("p150", {"add": 1000, "matmul": 3000}, (34.1 + 3 * 9.4) / 4),
        ("n150", {"cholesky": 10}, 64.0),  # of which nobody has published a row
        ("e150", {"add": 1000}, 64.0),  # of whose cards nobody has published a profile
    ],
)
def test_cycles_have_the_error_of_their_kernels_kinds(board, kernels, error):
    ops = tuple(cost(kernel, compute=cycles) for kernel, cycles in kernels.items())
    counted = counters(Profile(ops, 1.0, 0, 0), load_board(board), 64)
    assert counted.cycles_error == pytest.approx(error, abs=0.06)

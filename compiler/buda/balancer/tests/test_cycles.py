"""Cycle estimates against silicon: published figures, and the measurements they were fitted to where present."""

from __future__ import annotations

import csv
import hashlib
import statistics
from pathlib import Path

import pytest

from opscope.compiler.buda.balancer import budget
from opscope.compiler.buda.balancer.cycles import formulas, sparse
from opscope.compiler.buda.balancer.cycles.estimate import unmeasured
from opscope.compiler.buda.balancer.cycles.formulas import Work
from opscope.compiler.buda.balancer.cycles.weights import BY_ARCH, weights
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.graph import FIDELITIES
from opscope.compiler.buda.placer import dram
from opscope.compiler.buda.sparse_pattern import SparseShare
from opscope.compiler.target.formats import number_format

SILICON = Path(__file__).parents[5] / "shared" / "data" / "silicon" / "ops"
needs_silicon = pytest.mark.skipif(not SILICON.exists(), reason=f"no measured silicon figures at {SILICON}")


@pytest.mark.parametrize(
    ("m_k", "u_kt", "measured"),
    [(32, 1, 197027), (16, 2, 126764), (8, 4, 88479), (4, 8, 70939), (2, 16, 59613), (1, 32, 55571)],
)
def test_wormhole_matmul_is_within_a_tenth_of_published_silicon(m_k: int, u_kt: int, measured: int) -> None:
    work = Work(1, 3 * 4, 2, 4, m_k, u_kt, FIDELITIES["LoFi"])
    got = formulas.matmul(work, weights("wormhole_b0", "matmul", frozenset({"df_bfp"})))
    assert got == pytest.approx(measured, rel=0.1)


def test_the_most_special_weights_win() -> None:
    both = frozenset({"approx", "vector_c"})
    assert weights("wormhole_b0", "exp", both) == (10.34437245, 426.86754794)
    assert weights("wormhole_b0", "exp", frozenset({"vector_c"})) == (11.24436033, 906.00525761)
    assert weights("wormhole_b0", "gelu", both) == weights("wormhole_b0", "gelu", frozenset({"vector_c"}))
    assert weights("grayskull", "exp", both) == (31.07656877, 668.07644903)
    assert weights("grayskull", "tanh", both) == weights("grayskull", "nop", both)
    ops = {op: graphs.unary(1, 1, op).node("op") for op in ("tanh", "exp")}
    assert [unmeasured("grayskull", ops[op]) for op in ("tanh", "exp")] == [("tanh",), ()]
    assert not unmeasured("wormhole_b0", ops["tanh"])
    assert not unmeasured("grayskull", graphs.seed_convolution().node("gather"))


def test_every_op_has_weights_that_always_apply() -> None:
    for arch, sets in BY_ARCH.items():
        for op in sets:
            assert weights(arch, op, frozenset())


@pytest.mark.parametrize(
    ("table", "digest"),
    [
        (BY_ARCH["grayskull"], "f8e2155f9bdff094"),
        (BY_ARCH["wormhole_b0"], "e1168a827572ef0e"),
        (sparse._TABLE, "75978b7d2cdaf06f"),
        (sparse.FIDELITY_WEIGHT, "d5a5bdde53c53ce4"),
        (dram.WORKERS, "09e4b95b4e9f037f"),
        (dram.DRAM_TILES, "15c87ce0c0565a9f"),
        (dram.SIZE, "bc98bde15d112c63"),
    ],
    ids=["grayskull", "wormhole_b0", "sparse", "fidelity", "workers", "ports", "size"],
)
def test_a_transcribed_table_changes_only_on_purpose(table: object, digest: str) -> None:
    """Checksums of figures copied from TT-Buda's and tt-umd's files, which no formula here could prove wrong."""
    assert hashlib.sha256(repr(table).encode()).hexdigest()[:16] == digest


def test_half_of_dst_holds_eight_tiles_or_four() -> None:
    assert [budget.dst_tiles(name) for name in ("Float16_b", "Float16", "Float32", "Int32")] == [8, 8, 4, 4]
    assert {
        "grayskull": pytest.approx(10.5 * 2**30 / 1e9), "wormhole_b0": 20.4, "blackhole": 20.4,
    } == budget.DRAM_BYTES_PER_CLOCK  # fmt: skip
    assert budget.DRAM_SUBCHANNELS == {"grayskull": 1, "wormhole_b0": 3, "blackhole": 3}


def test_more_phases_and_more_steps_cost_more() -> None:
    for arch, formula in (("grayskull", formulas.matmul_grayskull), ("wormhole_b0", formulas.matmul)):
        constants = weights(arch, "matmul", frozenset())
        by_phases = [formula(Work(1, 4, 2, 2, 1, 8, n), constants) for n in (1, 2, 3, 4)]
        assert by_phases == sorted(set(by_phases))
        by_steps = [formula(Work(1, 4, 2, 2, n, 8 // n, 4), constants) for n in (1, 2, 4, 8)]
        assert by_steps == sorted(set(by_steps))


def test_the_older_sparse_formula_by_hand() -> None:
    """Eight tiles in blocks of 1x2, 2x2 blocks: products 2304, reloads 640, packing 400, decoding 448."""
    work = Work(1, 4, 1, 2, 1, 1, 2)
    assert sparse.by_stages(work, 2, 8, weights("grayskull", "matmul_sparse", frozenset())) == 2304 + 640 + 400 + 448


def rows(arch: str, name: str) -> list[dict[str, str]]:
    with (SILICON / arch / f"{name}.csv").open(encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def integers(row: dict[str, str], *names: str) -> list[int]:
    return [int(row[name]) for name in names]


def matmul_ratios(arch: str, name: str, conditions: set[str]) -> list[float]:
    ratios = []
    formula = formulas.matmul_grayskull if arch == "grayskull" else formulas.matmul
    for row in rows(arch, name):
        t, m, n, u_rt, u_ct, m_k, u_kt, runtime = integers(
            row, "t", "mblock_m", "mblock_n", "ublock_rt", "ublock_ct", "m_k", "u_kt", "runtime"
        )
        work = Work(t, m * n, u_rt, u_ct, m_k, u_kt, FIDELITIES[row["math_fidelity"]])
        ratios.append(formula(work, weights(arch, "matmul", frozenset(conditions))) / runtime)
    return ratios


@needs_silicon
@pytest.mark.parametrize(
    ("arch", "name", "conditions", "low", "high"),
    [
        ("grayskull", "matmul-op-performance", {"df_bfp"}, 0.3, 1.2),
        ("wormhole_b0", "matmul-fp16-op-performance", set(), 0.85, 1.16),
        ("wormhole_b0", "matmul-bfp8-op-performance", {"df_bfp"}, 0.7, 1.45),
        ("wormhole_b0", "matmul-l1-acc-fp16-op-performance", {"l1_acc_en"}, 0.7, 1.1),
        ("wormhole_b0", "matmul-l1-acc-bfp8-op-performance", {"l1_acc_en", "df_bfp"}, 0.35, 1.25),
    ],
)
def test_matmul_estimates_against_silicon(arch: str, name: str, conditions: set[str], low: float, high: float) -> None:
    ratios = matmul_ratios(arch, name, conditions)
    assert len(ratios) > 40
    assert low < min(ratios) <= max(ratios) < high
    assert 0.9 < statistics.median(ratios) < 1.1


@needs_silicon
def test_sparse_estimates_against_silicon() -> None:
    ratios = []
    for row in rows("wormhole_b0", "matmul-sparse-op-performance"):
        t, m, n, u_rt, u_ct, m_k, u_kt = integers(
            row, "output_t", "output_mb_r", "output_mb_c", "output_ub_r", "output_ub_c", "mblock_k", "ublock_kt"
        )
        strips, blocks, tiles, runtime = integers(row, "nz_strips", "nz_ublocks", "nz_tiles", "runtime")
        work = Work(t, m * n, u_rt, u_ct, m_k, u_kt, FIDELITIES[row["math_fidelity"]])
        share = SparseShare(tiles, blocks, strips, 0, 0)
        got = sparse.estimate("wormhole_b0", row["math_fidelity"], row["output_df"], work, n, share, tiles)
        ratios.append(got / runtime)
    assert len(ratios) == 615
    assert 0.7 < min(ratios) < max(ratios) < 1.8
    assert 1.0 < statistics.median(ratios) < 1.2


UNARY = ["exp", "gelu", "log", "sigmoid", "sqrt", "reciprocal", "power", "nop"]


@needs_silicon
@pytest.mark.parametrize("arch", ["grayskull", "wormhole_b0"])
@pytest.mark.parametrize("op", [*UNARY, "add", "subtract", "multiply"])
def test_elementwise_estimates_against_silicon(arch: str, op: str) -> None:
    """A run measures 128 inputs; its figure is compared per input."""
    name = {("wormhole_b0", "nop"): "nop-fp16"}.get((arch, op), op)
    ratios = []
    for row in rows(arch, f"{name}-op-performance"):
        if "runtime" in row:
            names, inputs, form = ("t", "mblock_m", "mblock_n", "ublock_rt", "ublock_ct", "runtime"), 1, "input0"
        else:
            names = ("output_t", "output_mb_r", "output_mb_c", "output_ub_r", "output_ub_c", "total-runtime")
            inputs = int(row["last-input-idx-recorded"]) - int(row["first-input-idx-recorded"]) + 1
            form = "output_df"
        if row.get("Vector-Mode", "rc") != "rc":
            continue
        t, m, n, u_rt, u_ct, runtime = integers(row, *names)
        fmt = number_format(row[form] if form in row else row["input0_df"])
        wide = {16: 2, 32: 4}.get(fmt.bits, 1) if op in ("add", "subtract", "multiply") else 1
        got = formulas.elementwise(Work(t, m * n, u_rt, u_ct), weights(arch, op, frozenset()), wide)
        ratios.append(got / (runtime / inputs))
    assert len(ratios) > 30
    assert min(ratios) > 0.6, (min(ratios), statistics.median(ratios), max(ratios))
    assert max(ratios) < 1.5, (min(ratios), statistics.median(ratios), max(ratios))
    assert 0.85 < statistics.median(ratios) < 1.15

"""Cycle estimates against silicon: published figures, and the measurements they were fitted to where present."""

from __future__ import annotations

import csv
import hashlib
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from opscope.compiler.buda.balancer import budget
from opscope.compiler.buda.balancer.cycles import formulas, sparse
from opscope.compiler.buda.balancer.cycles.estimate import conditions_of, estimate, theoretical, unmeasured
from opscope.compiler.buda.balancer.cycles.formulas import Work
from opscope.compiler.buda.balancer.cycles.weights import BY_ARCH, weights
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Cut, Grid, StreamFactor, UBlock
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.graph import FIDELITIES, OpSpec
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
        (sparse.FIDELITY_WEIGHT, "2fdeaf1ffde53c1f"),
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
        "grayskull": pytest.approx(10.5 * 2**30 / 1e9),
        "wormhole_b0": 20.4,
        "blackhole": 20.4,
    } == budget.DRAM_BYTES_PER_CLOCK
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


def test_the_dense_formulas_by_hand() -> None:
    """Two macro blocks of 3 blocks of 2x4 tiles; 3 steps of 5 tiles in 2 phases: 9 steps, 360 products, 48 spills."""
    work = Work(2, 3, 2, 4, 3, 5, 2)
    assert work.tiles == 24
    plain = Work(2, 3, 2, 4)
    assert (plain.m_k, plain.u_kt, plain.phases) == (1, 1, 1)
    assert formulas.elementwise(work, (10.0, 1.0)) == 2 * (30 + 24)
    assert formulas.elementwise(work, (10.0, 1.0), 4) == 2 * (30 + 24 * 4)
    assert formulas.reduce_z(work, (10.0, 1.0, 100.0), 3) == 2 * 3 * (30 + 24 + 100)
    assert formulas.reduce_z(work, (10.0, 1.0, 100.0), 2) == 2 * 2 * (30 + 24 + 100)
    assert formulas.reduce_z(work, (10.0, 1.0, 100.0), 1) == 2 * (30 + 24)
    assert formulas.matmul_grayskull(work, (1e4, 1e3, 1.0)) == 2 * (2 * 10**4 + 9 * 10**3 + 360 * 2)
    assert formulas.matmul(work, (1.0, 1e3, 1e5, 1e6)) == 2 * (360 * 2 + 48 * 10**3 + 9 * 10**5 + 90 * 5 * 10**6)
    assert formulas.matmul(Work(1, 1, 1, 1), (1e9, 0.0, 0.0, 1e9)) == formulas.MOST == 2**30


def test_the_older_sparse_formula_reloads_for_each_step_after_the_first() -> None:
    """Constants: tile, reload, configure, wait, pack wait, pack, block, block with tiles, decoding of a tile."""
    constants = (1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8)
    work, nz_tiles, mblock_n = Work(2, 6, 1, 2, 3, 1, 2), 8, 2
    nz_ublocks, ublocks, each = 8 // (2 * 2), 2 * 3 * 3, 100 + 20
    reloads = (ublocks * 1000 + nz_ublocks * each) * 2 + 3 * 2 * each * 2
    packs = 10**4 * (ublocks - nz_ublocks) * 2 + 10**5 * 2 * 2 * 12
    decode = 8 * 10**8 * 4 + ublocks * 10**6 + nz_ublocks * 10**7
    got = sparse.by_stages(work, mblock_n, nz_tiles, constants)
    assert got == min(2**30, 8 * 2 * 2 * 2 + reloads + packs + decode)
    small = tuple(each / 1e6 for each in constants)
    assert sparse.by_stages(work, mblock_n, nz_tiles, small) == int((64 + reloads + packs + decode) / 1e6)
    once = Work(2, 6, 1, 2, 1, 1, 2)
    ublocks = 2 * 1 * 3
    expected = 64 + (ublocks * 1000 + 2 * each) * 2 + 10**4 * 4 * 2 + 10**5 * 48 + decode - 12 * 10**6
    assert sparse.by_stages(once, mblock_n, nz_tiles, small) == int(expected / 1e6)


SHARE = SparseShare(nz_tiles=10, nz_ublocks=6, nz_strips=3, unique_tiles=0, encoding_bytes=0)


@pytest.mark.parametrize(
    ("shape", "u_kt", "bits", "math", "reload", "pack"),
    [
        ((1, 1), 1, 16, 335, 142, 150),
        ((1, 1), 3, 16, 335, 142, 150),
        ((1, 1), 4, 16, 100, 140, 123),
        ((1, 1), 7, 16, 100, 140, 123),
        ((1, 1), 8, 16, 55, 140, 120),
        ((1, 3), 1, 8, 125, 110, 100),
        ((3, 1), 4, 8, 55, 110, 90),
        ((1, 8), 8, 8, 26, 45, 35),
        ((7, 1), 1, 16, 55, 45, 40),
        ((8, 1), 1, 16, 55, 45, 35),
    ],
)
def test_the_newer_sparse_formula_by_hand(
    shape: tuple[int, int], u_kt: int, bits: int, math: int, reload: int, pack: int
) -> None:
    """Decoding: 3 strips x 2 blocks of 80, 6 blocks with tiles of 80, 3 strips of 100."""
    work = Work(2, 4, *shape, 1, u_kt, 2)
    decode, products = 6 * 80 + 6 * 80 + 3 * 100, 10 * 2 * shape[1] * math
    packed = 2 * work.tiles * pack
    assert sparse.by_table(work, 2, SHARE, "HiFi2", bits) == decode + products + packed
    assert sparse.by_table(work, 2, SHARE, "HiFi4", bits) == decode + int(products * 1.7) + packed
    steps = Work(2, 4, *shape, 2, u_kt, 2)
    assert (
        sparse.by_table(steps, 2, SHARE, "HiFi2", bits)
        == decode + products + packed + 12 * shape[0] * shape[1] * reload
    )


@pytest.mark.parametrize(
    ("arch", "fidelity", "data_format", "tabled"),
    [
        ("wormhole_b0", "HiFi2", "Float16_b", True),
        ("wormhole_b0", "LoFi", "Float16_b", False),
        ("wormhole_b0", "LoFi", "Bfp8_b", True),
        ("wormhole_b0", "HiFi2", "Bfp8_b", False),
        ("wormhole_b0", "HiFi2", "Float32", False),
        ("wormhole_b0", "LoFi", "Bfp4_b", False),
        ("grayskull", "HiFi2", "Float16_b", False),
        ("blackhole", "HiFi2", "Float16_b", False),
    ],
)
def test_wormhole_has_a_table_for_two_formats(arch: str, fidelity: str, data_format: str, tabled: bool) -> None:
    work = Work(2, 4, 1, 1, 2, 1, FIDELITIES[fidelity])
    by_table = sparse.by_table(work, 2, SHARE, fidelity, number_format(data_format).bits) if tabled else 0
    by_stages = sparse.by_stages(work, 2, 12, weights(arch, "matmul_sparse", frozenset()))
    assert by_table != by_stages
    rows = sparse.SparseRows(2, SHARE, 12)
    assert sparse.estimate(arch, fidelity, data_format, work, rows) == (by_table if tabled else by_stages)


CORE, UNCUT, BLOCK = Grid(1, 1), StreamFactor(), BlockShape(2, 3, 1, UBlock(2, 4))
"""Two macro blocks of 3 blocks of 2x4 tiles."""
STEPS = (BufferModel.whole(BlockShape(2, 5, 1, UBlock(6, 4)), 2, "Float16_b"),) * 2
"""Five steps of six tiles each."""


@pytest.mark.parametrize(
    ("op", "fmt", "cycles"),
    [
        ("add", "Float16_b", 3 * 293.96263856 + 24 * 50.43405251 * 2),
        ("add", "Float32", 3 * 293.96263856 + 24 * 50.43405251 * 4),
        ("add", "Bfp8_b", 3 * 293.96263856 + 24 * 50.43405251),
        ("add", "Int32", 3 * 293.96263856 + 24 * 50.43405251),
        ("multiply", "Float16", 3 * 261.21061127 + 24 * 54.83754362 * 2),
        ("maximum", "Float32", 3 * 30.74320292 + 24 * 260.32786291),
        ("sqrt", "Float32", 3 * 195 + 24 * 159),
    ],
)
def test_the_cost_per_tile_of_a_binary_op_grows_with_the_width_of_floats(op: str, fmt: str, cycles: float) -> None:
    node = graphs.unary(8, 8, op, fmt).node("op")
    assert estimate("grayskull", Cut(node, CORE, UNCUT, BLOCK), ()) == int(2 * cycles)


def test_each_op_has_its_formula() -> None:
    """Of 15 steps of blocks, 15 * 6 * 8 products in two phases, and four times 24 spilled tiles."""
    dense = graphs.matmul(8, 8, 8, math_fidelity="HiFi2").node("mm")
    products, steps, phases = 15 * 6 * 8, 15, 2
    wanted = 2 * (4 * 1321 + steps * 56 + products * 36 * phases)
    assert estimate("grayskull", Cut(dense, CORE, UNCUT, BLOCK), STEPS) == wanted
    wormhole = (15.51611247, 47.70099138, 93.19695147, 3.33289517)
    counts = (products * phases, 4 * 24, steps, steps * 6 * 2 * (1 + 4))
    for arch in ("wormhole_b0", "blackhole"):
        got = estimate(arch, Cut(dense, CORE, UNCUT, BLOCK), STEPS)
        assert got == pytest.approx(2 * sum(a * b for a, b in zip(wormhole, counts, strict=True)), abs=1)
    depthwise = replace(dense, op=OpSpec("depthwise", "HiFi2"))
    assert estimate("grayskull", Cut(depthwise, CORE, UNCUT, BLOCK), STEPS) == 2 * products * phases * 79
    deep = replace(dense, op=OpSpec("reduce", reduce_dim="z"))
    assert estimate("grayskull", Cut(deep, CORE, UNCUT, BLOCK), ()) == 2 * 24 * 287
    assert estimate("grayskull", Cut(deep, CORE, UNCUT, BLOCK), (), 3) == 2 * 3 * (24 * 287 + 268)
    flat = replace(dense, op=OpSpec("reduce", reduce_dim="r"))
    assert estimate("grayskull", Cut(flat, CORE, UNCUT, BLOCK), ()) == 2 * (3 * 76 + 24 * 59)
    odd = replace(dense, op=OpSpec("exp", reduce_dim="z"))
    assert estimate("grayskull", Cut(odd, CORE, UNCUT, BLOCK), ()) == 2 * 24 * 2666


def test_a_sparse_product_counts_the_tiles_of_a_row_of_cores() -> None:
    """8 tiles over two rows of cores."""
    gather, block = graphs.one_tap_convolution().node("gather"), BlockShape(1, 4, 2, UBlock(1, 2))
    steps = (STEPS[0], BufferModel.whole(BlockShape(1, 4, 2, UBlock(4, 2)), 2, "Float16_b"))
    work = Work(1, 8, 1, 2, 4, 4, FIDELITIES["HiFi2"])
    wanted = sparse.by_stages(work, 2, 4, weights("grayskull", "matmul_sparse", frozenset()))
    assert estimate("grayskull", Cut(gather, Grid(2, 1), UNCUT, block), steps) == wanted
    share = gather.spec.pattern.share(2, 1, False, 1, 4)
    wanted = sparse.by_table(work, 2, share, "HiFi2", 16)
    assert estimate("wormhole_b0", Cut(gather, Grid(2, 1), UNCUT, block), steps) == wanted
    assert estimate("wormhole_b0", Cut(gather, Grid(2, 1), StreamFactor("C", 2, 2), block), steps) == wanted
    by_rows = sparse.by_table(work, 2, gather.spec.pattern.share(2, 2, False, 1, 4), "HiFi2", 16)
    assert estimate("wormhole_b0", Cut(gather, Grid(2, 1), StreamFactor("R", 2, 1), block), steps) == by_rows != wanted


def test_a_product_at_full_rate_takes_a_quarter_of_a_tile_a_row() -> None:
    """2 * 24 output tiles, five steps of six tiles each, two phases; 32 or 16 cycles for a product of tiles."""
    dense = graphs.matmul(8, 8, 8, math_fidelity="HiFi2").node("mm")
    rates = {"grayskull": 32, "wormhole_b0": 16, "blackhole": 16}
    for arch, rate in rates.items():
        assert theoretical(arch, dense, BLOCK, STEPS) == 2 * 24 * 5 * 6 * 2 * rate
    assert theoretical("grayskull", replace(dense, op=OpSpec("exp")), BLOCK, STEPS) == 0


@pytest.mark.parametrize(
    ("spec", "fmt", "expected"),
    [
        (OpSpec("exp"), "Float32", ""),
        (OpSpec("exp", approximate=True, vector="r"), "Float16_b", "approx vector_r"),
        (OpSpec("exp", vector="c", l1_acc=True), "Bfp4_b", "vector_c l1_acc_en df_bfp"),
        (OpSpec("reduce", reduce_dim="c"), "Int8", "dim_c df_int8"),
        (OpSpec("reduce", reduce_dim="r"), "Int32", "df_int32"),
    ],
)
def test_conditions_of_weights(spec: OpSpec, fmt: str, expected: str) -> None:
    node = replace(graphs.unary(1, 1).node("op"), op=spec, data_format=fmt)
    assert conditions_of(node) == frozenset(expected.split())


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
        got = sparse.estimate(
            "wormhole_b0", row["math_fidelity"], row["output_df"], work, sparse.SparseRows(n, share, tiles)
        )
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

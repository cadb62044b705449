"""What the simulator models of each board, from which source, how far that is from cards, and where it differs.

The one table of measured errors: docs/measurements.yaml has the same figures with date and command, and tests hold the
two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opscope.base import passes
from opscope.compiler.target.system_desc import Profile, SystemDesc
from opscope.simulator.real_kernels import APART, SAME
from opscope.simulator.timing.card_rates import dram_rates

if TYPE_CHECKING:
    from opscope.wire import device_show as wire

GRAYSKULL, WORMHOLE, BLACKHOLE = "grayskull", "wormhole_b0", "blackhole"
ALL = (GRAYSKULL, WORMHOLE, BLACKHOLE)
ON_CARDS = (WORMHOLE, BLACKHOLE)
"""Archs of which profiles of models are published."""


@dataclass(frozen=True)
class Part:
    """Something that is modelled."""

    what: str
    how: str
    source: str
    archs: tuple[str, ...] = ALL


@dataclass(frozen=True)
class MeasuredError:
    """How far the simulator is from a card, in percent."""

    what: str
    archs: tuple[str, ...]
    statistic: str
    """`median`, `p95` or `mean` of absolute errors; `one` figure with its sign."""
    percent: float
    rows: int
    against: str
    boards: tuple[str, ...] = ()
    """Boards that the cards were; empty for every board of the archs."""


@dataclass(frozen=True)
class Difference:
    """A known difference from silicon."""

    what: str
    archs: tuple[str, ...] = ALL


ISA = "tt-isa-documentation"
OP_MODEL = "tt-budabackend, perf_lib/op_model"
BUDA = "tt-buda, pybuda/csrc/balancer"
EPOCHS = "performance checks of tt-budabackend's netlists"
GEMM = "tt-metal, tech_reports/GEMM_FLOPS"
PROFILES = "profiles of four runs of models (tt-perf-report)"
MOVEMENT = "tt-metal, tests/tt_metal/data_movement/documentation/perf_plots"

BOARD_SOURCES = {
    GRAYSKULL: "tt-buda's device descriptors and op model, tt-metal, the e150's data sheet (DRAM)",
    WORMHOLE: f"{ISA}, tt-mlir's system descriptors, tt-buda's device descriptors, {GEMM}",
    BLACKHOLE: f"{ISA}, {GEMM}, tt-metal's Saturating_DRAM_bandwidth; profile buda: tt-buda",
}
"""Where a board's own figures are from; its file in compiler/target/boards says so line by line."""

BORROWED = {(BLACKHOLE, "buda"): "sizes of L1 are Wormhole's in tt-buda"}
"""Arch and profile -> which of its figures are another chip's."""

PARTS = (
    Part("number formats", "every bit of unpacking, rounding and packing", f"{ISA}: FloatBitPatterns, Packers"),
    Part(
        "matrix unit",
        "fidelity phases; with --exact-order its order of addition and its rounding",
        f"{ISA}: MVMUL, ELWMUL; ttsim",
    ),
    Part(
        "vector unit",
        "exact functions, and the published approximations; with --exact-order the steps of ttnn's own kernels",
        f"{ISA}: SFPU instructions; tt-llk; tt-metal, tt_metal/hw/ckernels",
    ),
    Part("L1 and DRAM", "allocation with all banks in step, regions and alignment of the board", f"{ISA}: L1; tt-mlir"),
    Part("cycles of a block on a core", "unpack, math and pack, by fitted constants", OP_MODEL, (WORMHOLE,)),
    Part(
        "cycles of a block on a core",
        "by fitted constants; functions, reductions and sparse products without a published row take Wormhole's",
        OP_MODEL,
        (GRAYSKULL,),
    ),
    Part("cycles of a block on a core", "Wormhole's constants: nobody published Blackhole's", OP_MODEL, (BLACKHOLE,)),
    Part("how TT-Buda's planner places ops", "its formulas, with its own constants", BUDA, (GRAYSKULL, WORMHOLE)),
    Part(
        "how TT-Buda's planner places ops",
        "its formulas with Wormhole's constants of cycles, L1 and DRAM, borrowed: it has no others",
        BUDA,
        (BLACKHOLE,),
    ),
    Part("an epoch of a plan", "a pipeline of its ops; --timed simulates buffers, NoC links and channels", EPOCHS),
    Part(
        "an op that no plan places",
        "dealt to cores as tt-metal does; readers and writers that wait for each page, DRAM that all cores share, "
        "words, lines and segments that are moved, and 3 us from one program to the next",
        f"tt-metal's program factories, {PROFILES}, {GEMM}",
    ),
    Part(
        "a convolution that no plan places",
        "windows, product and weights one after another, each core's part of the image in L1",
        PROFILES,
    ),
    Part(
        "a matrix product that no plan places", "cut as tt-metal cuts it; feeding, computing and writing overlap", GEMM
    ),
    Part("a core's transfers", "packets, rates and queues, fitted", MOVEMENT, (WORMHOLE, BLACKHOLE)),
    Part("a core's transfers", "Wormhole's figures: Grayskull's are not published", MOVEMENT, (GRAYSKULL,)),
    Part("NoC with --timed", "two tori, a link serves one transfer at a time", f"{ISA}: NoC/README.md"),
    Part(
        "Ethernet",
        "one link of each pair of neighbours, with a measured rate and time of a hop; collectives go "
        "round rings, which is assumed",
        "tt-metal pull requests 9966, 20903, 35395",
        (WORMHOLE,),
    ),
    Part(
        "Ethernet",
        "one link of each pair of neighbours, with a measured rate and time of a hop; collectives go "
        "round rings, which is assumed",
        "tt-metal pull request 24022",
        (BLACKHOLE,),
    ),
)

OPS, LEFT_OUT = "cycles of ops, rows not fitted to", "cycles of ops, whole files left out of the fit"
ALONG_ROWS = "sums along rows, the worst kind, of which eight others were fitted to"
PLACED, EVENTS = "cycles of a placed epoch", "cycles of a placed epoch with --timed"
PRODUCTS, TUNED = "time of out-of-box matrix products", "time of tuned matrix products"
TRANSFERS, WITH_LOOPBACK = "cycles of a core's transfers", "multicasts that reach their sender too, none fitted to"
RECORDS = "record cycles, a kernel's rows of one run left out"
"""On all cores, split by the simulator; these rows, whose shapes are alike, are left out of the fit together."""
KEPT_BACK = "record cycles, rows that were kept back"
"""As many as are here, which nobody had seen when the rules and their figures were found."""
BY_KIND = {
    "add": (34.1, 5),
    "concat": (2.4, 3),
    "conv2d": (4.5, 10),
    "embedding": (0.8, 2),
    "matmul": (9.4, 21),
    "multiply": (6.2, 3),
    "permute": (11.0, 5),
    "relu": (6.0, 3),
    "reshape": (1.1, 2),
    "slice_static": (5.1, 4),
    "to_layout": (3.0, 7),
    "to_memory_config": (4.8, 11),
    "typecast": (7.7, 2),
}
"""Kernel -> median error in percent of the cycles of its records, with the simulator's own split of the work, and rows;
kernels with fewer than two rows have none."""
OF_OTHER_KINDS = 64.0
"""The 95th percentile over all rows that were kept back: of a kind with fewer rows nobody knows more."""
AS_WORMHOLE = f"{EPOCHS}, which expect Wormhole's cycles"

ERRORS = (
    MeasuredError(OPS, (GRAYSKULL,), "median", 0.44, 659, OP_MODEL),
    MeasuredError(OPS, (GRAYSKULL,), "p95", 7.0, 659, OP_MODEL),
    MeasuredError(OPS, (WORMHOLE,), "median", 0.67, 1673, OP_MODEL),
    MeasuredError(OPS, (WORMHOLE,), "p95", 9.2, 1673, OP_MODEL),
    MeasuredError(f"{OPS}: {ALONG_ROWS}", (WORMHOLE,), "median", 7.2, 8, OP_MODEL),
    MeasuredError(f"{OPS}: {ALONG_ROWS}", (WORMHOLE,), "p95", 11.7, 8, OP_MODEL),
    MeasuredError(LEFT_OUT, (GRAYSKULL,), "median", 23, 1327, OP_MODEL),
    MeasuredError(LEFT_OUT, (GRAYSKULL,), "p95", 326, 1327, OP_MODEL),
    MeasuredError(LEFT_OUT, (WORMHOLE,), "median", 18, 3369, OP_MODEL),
    MeasuredError(LEFT_OUT, (WORMHOLE,), "p95", 92, 3369, OP_MODEL),
    MeasuredError(KEPT_BACK, ON_CARDS, "median", 8.2, 83, PROFILES),
    MeasuredError(KEPT_BACK, ON_CARDS, "p95", OF_OTHER_KINDS, 83, PROFILES),
    MeasuredError(RECORDS, ON_CARDS, "median", 6.7, 82, PROFILES),
    MeasuredError(RECORDS, ON_CARDS, "p95", 33.6, 82, PROFILES),
    *(MeasuredError(f"{RECORDS}: {kind}", ON_CARDS, "median", *of, PROFILES) for kind, of in BY_KIND.items()),
    MeasuredError(f"{PLACED}: encoder_grid", (GRAYSKULL,), "one", -6.6, 1, EPOCHS),
    MeasuredError(f"{PLACED}: encoder_grid", (WORMHOLE,), "one", -0.5, 1, EPOCHS),
    MeasuredError(f"{PLACED}: encoder_grid", (BLACKHOLE,), "one", -0.5, 1, AS_WORMHOLE),
    MeasuredError(f"{PLACED}: bert_tiny", (GRAYSKULL,), "one", 8.4, 1, EPOCHS),
    MeasuredError(f"{PLACED}: bert_base", (GRAYSKULL,), "one", 5.9, 1, EPOCHS),
    MeasuredError(f"{EVENTS}: encoder_grid", (GRAYSKULL,), "one", -6.6, 1, EPOCHS),
    MeasuredError(f"{EVENTS}: encoder_grid", (WORMHOLE,), "one", -0.5, 1, EPOCHS),
    MeasuredError(f"{EVENTS}: encoder_grid", (BLACKHOLE,), "one", -0.5, 1, AS_WORMHOLE),
    MeasuredError(f"{EVENTS}: bert_tiny", (GRAYSKULL,), "one", 6.8, 1, EPOCHS),
    MeasuredError(f"{EVENTS}: bert_base", (GRAYSKULL,), "one", 9.2, 1, EPOCHS),
    MeasuredError(PRODUCTS, (WORMHOLE,), "median", 6.6, 19, GEMM, ("n150",)),
    MeasuredError(PRODUCTS, (WORMHOLE,), "p95", 18.5, 19, GEMM, ("n150",)),
    MeasuredError(TUNED, (WORMHOLE,), "median", 4.2, 40, GEMM, ("n150",)),
    MeasuredError(TUNED, (WORMHOLE,), "p95", 12.1, 40, GEMM, ("n150",)),
    MeasuredError(PRODUCTS, (BLACKHOLE,), "median", 3.6, 19, GEMM, ("p150",)),
    MeasuredError(PRODUCTS, (BLACKHOLE,), "p95", 7.2, 19, GEMM, ("p150",)),
    MeasuredError(TUNED, (BLACKHOLE,), "median", 5.0, 78, GEMM, ("p150",)),
    MeasuredError(TUNED, (BLACKHOLE,), "p95", 13.5, 78, GEMM, ("p150",)),
    MeasuredError(TRANSFERS, (WORMHOLE,), "mean", 1.5, 240, MOVEMENT),
    MeasuredError(f"{TRANSFERS}: DRAM reads", (WORMHOLE,), "mean", 2.5, 30, MOVEMENT),
    MeasuredError(f"{TRANSFERS}: DRAM writes", (WORMHOLE,), "mean", 2.0, 30, MOVEMENT),
    MeasuredError(TRANSFERS, (BLACKHOLE,), "mean", 2.3, 221, MOVEMENT),
    MeasuredError(f"{TRANSFERS}: multicasts", (WORMHOLE,), "mean", 1.4, 120, MOVEMENT),
    MeasuredError(f"{TRANSFERS}: multicasts", (BLACKHOLE,), "mean", 2.5, 165, MOVEMENT),
    MeasuredError(f"{TRANSFERS}: {WITH_LOOPBACK}", (BLACKHOLE,), "mean", 4.3, 330, MOVEMENT),
    MeasuredError(f"{TRANSFERS}: DRAM reads", (BLACKHOLE,), "mean", 2.2, 14, MOVEMENT),
    MeasuredError(f"{TRANSFERS}: DRAM writes", (BLACKHOLE,), "mean", 3.5, 14, MOVEMENT),
)

DIFFERENCES = (
    Difference("loading programs, the host's bus and filling a pipeline with the first inputs cost nothing"),
    Difference("without --timed, links between chips and contention on the NoC cost nothing"),
    Difference(
        "with --timed, operands are followed by macro blocks and not tiles, an op with several readers never "
        "waits for room, and chips of a plan are simulated one by one"
    ),
    Difference(
        "products are added in the matrix unit's order with --exact-order alone; otherwise whole matrices at a time, "
        "at most 2^-8 of the sum of the largest product of each eight apart"
    ),
    Difference("random bits of stochastic rounding are NumPy's"),
    Difference("functions without a published row cost the sum of those with one, or a pass like abs"),
    Difference("a core's transfers and products that no plan places take Wormhole's figures", (GRAYSKULL,)),
    Difference("L1 below the first usable address is Wormhole's: tt-metal publishes none", (GRAYSKULL,)),
    Difference("zeros and NaN are stored as on Wormhole", (GRAYSKULL,)),
    Difference("tanh, abs, sine, reductions and sparse products take Wormhole's constants", (GRAYSKULL,)),
    Difference("bits of NaN beside 0x7f800001 are those of the operands", (WORMHOLE,)),
    Difference(
        "products cut by hand in DRAM are cut automatically; 16384 cubed in bf16 takes a card 0.6 of the time",
        (WORMHOLE,),
    ),
    Difference("a core unpacks twice Wormhole's bytes per cycle: an assumption", (BLACKHOLE,)),
    Difference(
        "cycles of a core are Wormhole's; the profile `buda` has TT-Buda's own sizes, copied from Wormhole",
        (BLACKHOLE,),
    ),
)


def record_error(kernel: str, arch: str) -> float:
    """Returns how far the cycles of a kernel's records may be from a card's, in percent.

    Where nobody has published rows of the kind, or profiles of the arch's cards, that is `OF_OTHER_KINDS`.
    """
    return BY_KIND[kernel][0] if arch in ON_CARDS and kernel in BY_KIND else OF_OTHER_KINDS


def modelled(system: SystemDesc) -> wire.Board:
    """Returns what is modelled of a board, as `opscope device show --json` prints it."""
    from opscope.wire import device_show as wire

    arch = system.arch
    own = system.board.partition("-harvested-")[0]
    errors = [error for error in ERRORS if arch in error.archs and (not error.boards or own in error.boards)]

    def profile(of: Profile) -> wire.Profile:
        return wire.Profile(
            grid=of.grid,
            l1_bytes=of.l1_bytes,
            l1_usable=of.l1_usable,
            dram_channels=of.dram_channels,
            dram_channel_bytes=of.dram_channel_bytes,
            borrowed=BORROWED.get((arch, of.name), ""),
        )

    read, written = (round(rate * system.clock_ghz, 1) for rate in dram_rates(system))
    return wire.Board(
        board=system.board,
        arch=arch,
        chips=system.chips,
        clock_ghz=system.clock_ghz,
        harvested_rows=system.harvested_rows,
        formats=system.formats,
        dst_formats=system.dst_formats,
        cycles_per_tile_matmul=system.cycles_per_tile_matmul,
        noc_bytes_per_clock=system.noc_bytes_per_clock,
        dram_gb_per_s=system.dram_gb_per_s,
        dram_efficiency=system.dram_efficiency,
        dram_interleaved_gb_per_s=(read, written),
        ethernet=system.ethernet,
        profiles=wire.Profiles(ttnn=profile(system.ttnn), buda=profile(system.buda)),
        source=BOARD_SOURCES[arch],
        passes_by=passes.state,
        modelled=tuple(
            wire.Part(what=part.what, how=part.how, source=part.source) for part in PARTS if arch in part.archs
        ),
        errors=tuple(
            wire.MeasuredError(what=e.what, statistic=e.statistic, percent=e.percent, rows=e.rows, against=e.against)
            for e in errors
        ),
        differences=tuple(difference.what for difference in DIFFERENCES if arch in difference.archs),
        bits=wire.Bits(same=SAME, apart=APART) if arch in ON_CARDS else None,
    )

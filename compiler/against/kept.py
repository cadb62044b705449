"""Differences from tt-mlir's texts that stay, each with its reason. The generated page docs/tt_mlir.md prints them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from opscope.compiler.against.one_op import Difference


@dataclass(frozen=True)
class Kept:
    """Differences that fit these globs, and why they stay."""

    dialect: str
    kind: str
    op: str
    what: str
    ours: str
    theirs: str
    reason: str
    upstream: str = ""
    """The test of upstream's test/ttmlir/Conversion/StableHLOToTTIR that expects our form, where there is one."""

    def covers(self, difference: Difference) -> bool:
        """Whether the difference is one of these."""
        pairs = (
            (difference.dialect, self.dialect),
            (difference.kind, self.kind),
            (difference.op, self.op),
            (difference.what, self.what),
            (difference.ours, self.ours),
            (difference.theirs, self.theirs),
        )
        return all(fnmatchcase(value, pattern) for value, pattern in pairs)


def _ops(dialect: str, reason: str, *ops: str, ours: str = "*", theirs: str = "*", upstream: str = "") -> list[Kept]:
    return [Kept(dialect, "ops", op, "*", ours, theirs, reason, upstream) for op in ops]


def _attribute(
    dialect: str, kind: str, op: str, what: str, reason: str, ours: str = "*", theirs: str = "*", upstream: str = ""
) -> Kept:
    return Kept(dialect, kind, op, what, ours, theirs, reason, upstream)


_CHLO = (
    "PJRT hands chlo ops over as composites of StableHLO, which run here as the op of that name, for which there is a "
    "kernel, or as their formula, in which the build merges equal ops and swaps the operands of ttnn.lt and ttnn.le"
)
_ROWS = "the build has ops of its own for rows by index, which upstream's list lacks: read, never emitted"
_SORTS = "the build sorts floats only, integers in two halves; the kernel here compares integers"
_BITS = "TTIR has no such op: the build counts bit by bit, here a kernel does"
_SUMS = "the build sums integers as floats, exact below 2^24; the kernel here adds integers"
_PATCH = "a change of this build"
_WIDER = "none of upstream's tests has it; here it runs as this compiler's own form"
_SPREAD = _WIDER + "; the build spreads a convolution's image first"
_CONTROL = "control flow as ops of this build that upstream's list lacks: read, never emitted"
_I1 = "StableHLO's sums of booleans are or, their products and; arithmetic on 0 and 1 gives 2 for 1 + 1"
_WORDS = "64-bit integers are two words on the device"

TTIR = (
    *_ops(
        "ttir",
        "the build leaves an iota that nothing reads",
        "chlo.top_k",
        ours="",
        theirs="ttir.arange, ttir.reshape",
        upstream="data_movement/sort_op",
    ),
    *_ops("ttir", _SORTS, "chlo.top_k", upstream="data_movement/sort_op"),
    *_ops("ttir", "the build finds a product's high half in its formula and has an op of its own for it", "chlo.mulhi"),
    *_ops(
        "ttir",
        _ROWS,
        "stablehlo.gather",
        ours="*ttir.embedding, ttir.matmul*",
        theirs="*ttir.rows_*",
        upstream="gather/gather_multi_partial_flatten",
    ),
    *_ops(
        "ttir",
        _ROWS,
        "stablehlo.gather",
        ours="*ttir.embedding*",
        theirs="*ttir.rows_*",
        upstream="gather/gather_to_embedding",
    ),
    *_ops("ttir", _ROWS, "stablehlo.gather", theirs="*ttir.rows_*", upstream="gather/gather_to_gather_dim"),
    *_ops(
        "ttir",
        _ROWS,
        "stablehlo.scatter",
        ours="*embedding_backward",
        theirs="*ttir.rows_*",
        upstream="scatter_op_to_embedding_bw",
    ),
    *_ops("ttir", _ROWS, "stablehlo.scatter", theirs="*ttir.rows_*", upstream="scatter_op"),
    *_ops(
        "ttir",
        _ROWS,
        "stablehlo.dynamic_update_slice",
        ours="*ttir.update_cache",
        theirs="*ttir.rows_*",
        upstream="kv_cache_fusing",
    ),
    *_ops("ttir", _ROWS, "stablehlo.dynamic_update_slice", theirs="*ttir.rows_scatter*"),
    *_ops("ttir", _BITS, "stablehlo.popcnt", "stablehlo.count_leading_zeros"),
    *_ops(
        "ttir",
        "`ttir.round` of this build is not in upstream's list; here the op says which way ties go",
        "stablehlo.round_nearest_even",
    ),
    *_ops(
        "ttir",
        "StableHLO clamps the start; ours clamps it inside the slice",
        "stablehlo.dynamic_slice",
        theirs="*clamp_scalar*",
        upstream="slice_dynamic_op",
    ),
    *_ops("ttir", _CONTROL, "stablehlo.while", "stablehlo.case"),
    *_ops("ttir", _WIDER + "; the build composes it", "stablehlo.pad"),
    *_ops(
        "ttir",
        "the build selects between 1 and 0; here the conversion of a boolean is a typecast like any other",
        "stablehlo.convert",
        ours="ttir.typecast",
        theirs="*ttir.where",
    ),
    *_ops(
        "ttir",
        _PATCH + ", an average times the window's size",
        "stablehlo.reduce_window",
        ours="ttir.constant, ttir.multiply",
        upstream="avgpool2d_op",
    ),
    *_ops("ttir", _SUMS, "stablehlo.reduce_window", ours="", theirs="ttir.typecast", upstream="cumsum_op"),
    _attribute("ttir", "type", "ttir.cumsum", "*", _SUMS, upstream="cumsum_op"),
    *(
        _attribute(
            "ttir", kind, "ttir.full", what, "the build makes the edges' value in the result's shape, as a float"
        )
        for kind, what in (("attribute value", "shape"), ("attribute type", "fill_value"), ("type", "*"))
    ),
    *_ops(
        "ttir",
        "`ttir.cumulative` of this build is not in upstream's list; here a running maximum is a pool",
        "stablehlo.reduce_window",
        theirs="ttir.cumulative",
    ),
    *_ops(
        "ttir",
        _PATCH + ": it gathers what goes with the keys",
        "stablehlo.sort",
        ours="*ttir.embedding",
        theirs="ttir.gather",
        upstream="data_movement/sort_op",
    ),
    *_ops(
        "ttir",
        _SORTS,
        "stablehlo.sort",
        upstream="data_movement/sort_op",
    ),
    *_ops("ttir", _PATCH, "stablehlo.rng_bit_generator", upstream="rand/rng_bit_generator"),
    *_ops(
        "ttir",
        "the build negates unsigned integers by a subtraction; `ttir.neg` wraps as the specification asks",
        "stablehlo.negate",
        upstream="unary/negate_op",
    ),
    *_ops(
        "ttir",
        _I1,
        "stablehlo.add",
        "stablehlo.multiply",
        "stablehlo.maximum",
        "stablehlo.minimum",
        ours="ttir.logical_*",
    ),
    *_ops(
        "ttir",
        "the formula is the specification's; constants that broadcast are not spread here",
        "stablehlo.batch_norm_grad",
        upstream="batch_norm_grad_op",
    ),
    *_ops(
        "ttir",
        "the build's running values are optional",
        "stablehlo.batch_norm_training",
        upstream="batch_norm_training_op",
    ),
    *_ops("ttir", _WORDS, "stablehlo.bitcast_convert"),
    *_ops(
        "ttir",
        "the build prints permutations and reshapes that move nothing",
        "stablehlo.convolution",
        ours="",
        upstream="conv2d_op",
    ),
    *_ops("ttir", _SPREAD, "stablehlo.convolution", theirs="*ttir.scatter"),
    _attribute("ttir", "attribute value", "ttir.permute", "permutation", _SPREAD),
    _attribute("ttir", "type", "ttir.permute", "*", _SPREAD),
    _attribute(
        "ttir",
        "attribute missing",
        "ttir.avg_pool2d",
        "divisor_override",
        _PATCH + ", an average times the window's size",
        upstream="avgpool2d_op",
    ),
    _attribute("ttir", "attribute missing", "ttir.sort", "ttir.boolean_sort_keys", "a note for a pass of this build"),
    _attribute(
        "ttir",
        "attribute missing",
        "ttir.batch_norm_training",
        "operandSegmentSizes",
        "the build's running values are optional",
        upstream="batch_norm_training_op",
    ),
    _attribute(
        "ttir",
        "type",
        "ttir.sort",
        "*",
        "the build sorts floats only; the kernel here compares integers",
        upstream="data_movement/sort_op",
    ),
    *(
        _attribute(
            "ttir",
            kind,
            "ttir.reshape",
            what,
            _PATCH + ": it gathers what goes with the keys",
            upstream="data_movement/sort_op",
        )
        for kind, what in (("attribute value", "shape"), ("type", "*"))
    ),
    _attribute(
        "ttir",
        "type",
        "ttir.typecast",
        "*",
        _ROWS + ", with indices as numbers that a matmul weighs",
        upstream="gather/gather_multi_partial_flatten",
    ),
    *(
        _attribute(
            "ttir",
            "type",
            f"ttir.{op}",
            "*",
            "the formula of batch_norm_grad; constants that broadcast are not spread here",
            upstream="batch_norm_grad_op",
        )
        for op in ("add", "div", "sqrt")
    ),
)

_ELEMENTS = (
    "formats: the build holds i1 as bf16 and i8 to i64 as si32, computes f64 and some f16 in f32; this compiler's "
    "formats follow the board's table"
)
_HELD_AS = (
    *(("u8", there) for there in ("bf16", "si32", "f32", "u32")),
    *(("f16", "f32"), ("si32", "f32"), ("si32", "bf16"), ("si32", "u16"), ("u32", "si32"), ("u32", "f32")),
)
"""Elements in memory, here and there. That f32 is narrowed to bf16 is none of these."""
_SIMULATOR = (
    "each op here states how its kernel computes, which the binary takes from there; the build states it for products, "
    "sums, maxima and minima"
)
_EDGES = (
    "the build cuts edges below zero first and pads rows, by a float; the kernel here does both, tiles and any type"
)
_FUSED = "the build's elementwise ops carry what runs before and after them; here those are ops of their own"
_PREPARED_CONV = "the build flattens images to rows and plans the kernel in the op; here images keep their dims"
_SORTED = "a comparator is a program here, which says direction and ties"

TTNN = (
    *_ops("ttnn", _CHLO, "chlo.*"),
    *_ops("ttnn", _I1, "stablehlo.*", ours="*ttnn.logical_*"),
    *_ops("ttnn", _I1 + "; reductions of booleans have kernels here", "stablehlo.reduce", ours="ttnn.reduce_*"),
    *_ops("ttnn", _ELEMENTS, "stablehlo.*", ours="", theirs="ttnn.typecast"),
    *_ops("ttnn", _ELEMENTS, "stablehlo.*", ours="", theirs="*ttnn.bitcast_convert"),
    *_ops("ttnn", _ROWS, "stablehlo.*", theirs="*ttnn.rows_*"),
    *_ops(
        "ttnn",
        "a tensor of NaN is a constant here, since no two NaN are equal",
        "stablehlo.*",
        ours="ttnn.constant",
        theirs="ttnn.full",
    ),
    *_ops(
        "ttnn", "upstream has ttnn.lt and ttnn.le; the build swaps the operands", "stablehlo.compare", ours="ttnn.l?"
    ),
    *_ops(
        "ttnn",
        "a maximum with zero becomes a relu at every level of the build, from level 1 on here",
        "stablehlo.maximum",
        theirs="ttnn.relu",
    ),
    *_ops(
        "ttnn",
        "level 0 leaves what computes nothing here; tt-xla asks for StableHLO's simplification",
        "stablehlo.add",
        "stablehlo.subtract",
        "stablehlo.convert",
        "stablehlo.select",
        "stablehlo.transpose",
        "stablehlo.iota",
        "stablehlo.get_dimension_size",
    ),
    *_ops("ttnn", _CONTROL, "stablehlo.while", "stablehlo.case"),
    *_ops("ttnn", _PREPARED_CONV, "stablehlo.convolution", "stablehlo.reduce_window"),
    *_ops("ttnn", _WORDS, "stablehlo.bitcast_convert", "stablehlo.rng_bit_generator"),
    *_ops("ttnn", "the build sums products of vectors instead of a matmul", "stablehlo.dot_general"),
    *_ops("ttnn", _SORTED + ", also of integers", "stablehlo.sort"),
    *_ops(
        "ttnn", "`ttnn.bitwise_right_shift` of this build is not in upstream's list", "stablehlo.shift_right_arithmetic"
    ),
    *_ops("ttnn", _BITS, "stablehlo.popcnt", "stablehlo.count_leading_zeros"),
    *_ops("ttnn", "TTNN has no such op: the build composes it, here a kernel rounds", "stablehlo.round_nearest_*"),
    *_ops(
        "ttnn",
        "one kernel here, several ops of the build",
        "stablehlo.pad",
        "stablehlo.reverse",
        "stablehlo.composite",
        "stablehlo.dynamic_slice",
        "stablehlo.dynamic_update_slice",
        "stablehlo.clamp",
        "stablehlo.gather",
    ),
    *_ops("ttnn", "the build multiplies slices or uses ttnn.prod over one dim", "stablehlo.reduce"),
    *_ops("ttnn", "the build negates unsigned integers by a subtraction", "stablehlo.negate"),
    *_ops("ttnn", "normalisation runs as its formula here", "stablehlo.batch_norm_*"),
    _attribute("ttnn", "attribute added", "ttnn.*", "compute_config", _SIMULATOR),
    _attribute("ttnn", "attribute *", "ttnn.*", "compute_config", _SIMULATOR),
    _attribute("ttnn", "attribute missing", "ttnn.*", "*activations", _FUSED),
    _attribute(
        "ttnn",
        "attribute missing",
        "ttnn.matmul",
        "matmul_program_config",
        "the build plans a matmul's blocks in the op, here the binary's kernel does",
    ),
    _attribute("ttnn", "attribute *", "ttnn.*conv?d", "*", _PREPARED_CONV),
    _attribute("ttnn", "attribute *", "ttnn.*_pool2d", "*", _PREPARED_CONV),
    _attribute("ttnn", "attribute added", "ttnn.arange", "arange_dimension", "the kernel counts along any dim"),
    _attribute("ttnn", "attribute *", "ttnn.sort", "*", _SORTED),
    _attribute("ttnn", "attribute *", "ttnn.prod", "dim_arg", "the kernel reduces any dims; tt-mlir's one, or all"),
    _attribute("ttnn", "attribute *", "ttnn.rng_bit_generator", "*", "an op of this build's own, here another one"),
    _attribute("ttnn", "attribute missing", "ttnn.pad", "use_multicore", "kernels use all cores that they can"),
    _attribute("ttnn", "attribute missing", "ttnn.pad", "value", _EDGES),
    _attribute("ttnn", "attribute value", "ttnn.pad", "padding", _EDGES),
    _attribute("ttnn", "layout", "ttnn.pad", "*", _EDGES, theirs="* rows *"),
    *(
        _attribute(
            "ttnn",
            "attribute value",
            "ttnn.matmul",
            name,
            "the build moves a vector by a reshape; here the matmul does",
        )
        for name in ("transpose_a", "transpose_b")
    ),
    _attribute("ttnn", "attribute added", "ttnn.pad", "interior", "the kernel pads between elements too"),
    _attribute(
        "ttnn",
        "attribute *",
        "ttnn.full",
        "*",
        "the build keeps one element of a constant that broadcasts, and whole numbers as floats; here constants "
        "have the shape and type that the program gives them",
    ),
    _attribute(
        "ttnn", "attribute value", "ttnn.reshape", "shape", "the build keeps one element of a constant that broadcasts"
    ),
    _attribute(
        "ttnn", "attribute value", "ttnn.permute", "permutation", "two ops of one module stand in another order"
    ),
    _attribute("ttnn", "attribute value", "ttnn.topk", "dim", "the last dim, counted from the end here"),
    _attribute("ttnn", "attribute value", "ttnn.sum", "keep_dim", "two ops of one module stand in another order"),
    _attribute("ttnn", "layout", "ttnn.concat", "*", "the build joins tensors row by row", theirs="* rows *"),
    *(
        _attribute(
            "ttnn",
            "layout",
            f"ttnn.{op}",
            "*",
            "the build computes it in bf16, though the program asks for f32: a narrowing that its records name",
            ours="f32 *",
            theirs="bf16 rows *",
        )
        for op in ("max_pool2d", "conv3d")
    ),
    *(
        _attribute("ttnn", "layout", "ttnn.*", "*", _ELEMENTS, ours=f"{here} tiles *", theirs=f"{there} tiles *")
        for here, there in _HELD_AS
    ),
)

KEPT = (*TTIR, *TTNN)
"""The first row that covers a difference gives its reason."""


def kept_as(difference: Difference) -> Kept | None:
    """Returns the row that says why a difference is kept; None where none covers it."""
    return next((kept for kept in KEPT if kept.covers(difference)), None)


def reason_for(difference: Difference) -> str:
    """Returns why a difference is kept; empty where no row covers it."""
    kept = kept_as(difference)
    return kept.reason if kept is not None else ""


def upstream_of(difference: Difference) -> str:
    """Returns the test of upstream's that expects our form; empty where no row names one."""
    kept = kept_as(difference)
    return kept.upstream if kept is not None else ""

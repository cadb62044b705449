"""Families of ops: one word per op name, the same in `--ops`, records (`op_kind`), `opscope ops` and dashboards."""

from __future__ import annotations

from collections.abc import Iterable

_FAMILIES: dict[str, str] = {
    "eltwise": "abs add and atan2 cbrt ceil clamp compare complex convert cosine count_leading_zeros "
    "divide exponential exponential_minus_one floor imag is_finite log log_plus_one logistic maximum minimum multiply "
    "negate not or popcnt power real reduce_precision remainder round_nearest_afz round_nearest_even rsqrt "
    "shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh uniform_quantize "
    "uniform_dequantize xor",
    "data_movement": "bitcast_convert broadcast broadcast_in_dim concatenate dynamic_broadcast_in_dim "
    "dynamic_gather dynamic_pad dynamic_reshape dynamic_slice dynamic_update_slice gather "
    "get_dimension_size get_tuple_element optimization_barrier set_dimension_size pad "
    "real_dynamic_slice reshape reverse select slice sort torch_index_select transpose tuple",
    "creation": "constant create_token dynamic_iota iota",
    "matmul": "dot dot_general einsum unary_einsum",
    "conv": "convolution dynamic_conv",
    "reduce": "reduce",
    "pool": "reduce_window",
    "scatter": "scatter select_and_scatter",
    "norm": "batch_norm_grad batch_norm_inference batch_norm_training",
    "linalg": "cholesky fft triangular_solve",
    "random": "rng rng_bit_generator",
    "control": "case composite if map return while",
    "collective": "after_all async_done async_start all_gather all_reduce all_to_all collective_broadcast "
    "collective_permute collective_reduce cross-replica-sum infeed outfeed partition_id recv reduce_scatter "
    "replica_id send",
    "custom": "custom_call",
}
"""Family -> StableHLO op names, without the dialect."""

ELTWISE = "eltwise"
"""Family of ops that compute each element of their result from those at its place."""
WHOLE_MODEL = "whole_model"
"""Family of a model that runs as one program."""
PIECE = "piece"
"""Family of several ops of a model that run as one program."""
OTHER = "other"
"""Family of an op of another dialect."""
WINDOW, LAYER, PATTERN, PREFIX = "window", "layer", "pattern", "prefix"
"""How the name of a piece begins: `window:add` ends in an add, `layer:layer3` is that scope of the model,
`pattern:softmax` what compilers fuse by that name, `prefix:17` the first 17 ops of a module."""

_CHLO_FAMILIES: dict[str, str] = {
    "data_movement": "broadcast_select constant_like top_k",
    "matmul": "ragged_dot",
    "creation": "dynamic_reshape",
}
"""Family -> chlo op names; every other chlo op is elementwise."""

_FAMILY_OF = {f"stablehlo.{name}": family for family, names in _FAMILIES.items() for name in names.split()}
_FAMILY_OF |= {f"chlo.{name}": family for family, names in _CHLO_FAMILIES.items() for name in names.split()}
NAMES = frozenset(name.partition(".")[2] for name in _FAMILY_OF)
"""Names of ops without the dialect."""
_FAMILY_OF["model"] = WHOLE_MODEL
MODULUS = "complex.abs"
"""`abs` of complex numbers by MLIR's name, a root of a sum of squares: IEEE 754 leaves its last bit open."""
_FAMILY_OF[MODULUS] = ELTWISE
_FAMILY_OF |= dict.fromkeys((WINDOW, LAYER, PATTERN, PREFIX), PIECE)

DATA_MOVEMENT = frozenset({"data_movement", "creation"})
"""Families that compute nothing: their results are exact if the storage format is."""
PRODUCTS = frozenset({"matmul", "conv"})
"""Families that only sum products."""
TO_THE_LAST_BIT = frozenset(
    f"stablehlo.{name}"
    for name in (
        "add",
        "ceil",
        "floor",
        "maximum",
        "minimum",
        "multiply",
        "round_nearest_afz",
        "round_nearest_even",
        "subtract",
    )
)
"""Elementwise ops that every host computes in one instruction of IEEE 754, or chooses by: of real numbers in float32
and float64 there is one right answer, up to denormals. Not divide, sqrt and remainder, of which GPUs have fast modes
that are one unit off, nor what is complex: three multiplications make an honest product."""
COMPUTING = frozenset(_FAMILIES) - DATA_MOVEMENT
"""All other families of StableHLO."""
FAMILIES = (*_FAMILIES, WHOLE_MODEL, PIECE, OTHER)
"""Every family."""


STANDS_FOR = {
    **{
        f"stablehlo.custom_call:mhlo.{name}": f"chlo.{name}"
        for name in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh", "tan")
    },
    **{
        f"stablehlo.custom_call:tt.{name}": "stablehlo.optimization_barrier"
        for name in ("mark_argument", "sharding_constraint")
    },
}
"""Custom call, by its full name -> the op that it is another word for: XLA's own passes write chlo's ops so, and tt-xla
marks a value that it hands on."""


def stands_for(op_name: str) -> str:
    """The op whose meaning an op has: that of a custom call which is another word for it, else its own."""
    return STANDS_FOR.get(op_name, op_name)


def judged_as(op_name: str, operands: Iterable[str]) -> str:
    """The op whose error model an op on operands of some element types has."""
    name = stands_for(op_name)
    return MODULUS if name == "stablehlo.abs" and any(kind.startswith("complex") for kind in operands) else name


def op_family(op_name: str) -> str:
    """The family of an op, from its full name (`stablehlo.add` -> `eltwise`); text after a colon counts only where a
    custom call stands for an op."""
    base = stands_for(op_name).partition(":")[0]
    return _FAMILY_OF.get(base) or (ELTWISE if base.startswith("chlo.") else OTHER)

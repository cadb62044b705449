"""Families of ops: one word per op name, for the ladder table and for the tolerance table."""

from __future__ import annotations

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
    "control": "case composite if map while",
    "collective": "after_all async_done async_start all_gather all_reduce all_to_all collective_broadcast "
    "collective_permute cross-replica-sum infeed outfeed partition_id recv reduce_scatter replica_id send",
    "custom": "custom_call",
}
"""Family -> StableHLO op names, without the dialect."""

_CHLO_FAMILIES: dict[str, str] = {
    "data_movement": "broadcast_select constant_like top_k",
    "matmul": "ragged_dot",
    "creation": "dynamic_reshape",
}
"""Family -> chlo op names; every other chlo op is elementwise."""

_KINDS = {f"stablehlo.{name}": family for family, names in _FAMILIES.items() for name in names.split()}
_KINDS |= {f"chlo.{name}": family for family, names in _CHLO_FAMILIES.items() for name in names.split()}

# A model as one program (harness/prepare/whole_row.py).
_KINDS["model"] = "whole_model"

DATA_MOVEMENT = frozenset({"data_movement", "creation"})
"""Kinds that compute nothing: their results are exact wherever the storage format is."""
PRODUCT_KINDS = frozenset({"matmul", "conv"})
"""Kinds that sum up products, and nothing else."""
PRODUCTS_IN_A_ROW = "products_in_a_row"
"""Parameter of a whole model: the most products of which each reads what came of the one before."""
COMPUTING = frozenset(_FAMILIES) - DATA_MOVEMENT
"""All other kinds of known ops."""


def op_kind(op_name: str) -> str:
    """Family of an op (`stablehlo.add` -> `eltwise`); `other` for a dialect that is not ours to know."""
    base = op_name.partition(":")[0]
    if base in _KINDS:
        return _KINDS[base]
    return "eltwise" if base.startswith("chlo.") else "other"

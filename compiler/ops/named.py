"""Rows of tt-mlir's named ops that have no kernel here: `ttir-to-ttir-decomposition` writes them in ops that have one.

`stablehlo-to-ttir{named=true}` emits them, and text that was written for tt-mlir has them.
"""

from __future__ import annotations

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import BOOL as FLAG
from opscope.compiler.ops.codec import EDGES, F32, I32, I32_OR_ONE, I32LIST, I32S, I64, I64S, RAW, S32, TEXT, U32, Codec
from opscope.compiler.ops.row import FLOAT, NUMBER, PLAIN, Group, OpRow, register_all
from opscope.compiler.target.program import GatherParams, ReduceParams


def _named(
    name: str,
    group: Group,
    meaning: str,
    arity: int | None = 1,
    dtypes: frozenset[str] = FLOAT,
    ttnn: str = "",
    **attrs: Codec,
) -> OpRow:
    """A row; an attribute whose name ends in `_or_none` is optional."""
    return OpRow(
        "",
        name,
        group=group,
        ttnn=ttnn,
        arity=arity,
        dtypes=dtypes,
        shape_rule=shapes.unchecked,
        attrs={
            f"{key.removesuffix('_or_none')}{'?' * key.endswith('_or_none')}": codec for key, codec in attrs.items()
        },
        lowering="decomposed",
        reason=meaning,
    )


ACTIVATIONS = {
    "exp2": "2 to the power of x",
    "frac": "x - trunc(x)",
    "trunc": "rounded towards zero",
    "mish": "x tanh(log(1 + exp(x)))",
    "relu6": "clamped to 0 and 6",
    "selu": "scaled exponential below 0, scaled identity above",
    "softsign": "x / (1 + |x|)",
    "hardsigmoid": "x / 6 + 1/2 clamped to 0 and 1",
    "square": "x x",
    "signbit": "whether the sign is negative",
}
"""Elementwise op of one operand -> what it is written as."""

# Two that have kernels; a decomposition writes what these cannot take.
register_all(
    OpRow(
        "",
        "argmax",
        group="reduce",
        dtypes=NUMBER,
        shape_rule=shapes.unchecked,
        attrs={"dim_arg?": I32LIST, "keep_dim": FLAG},
        params=lambda a, op: ReduceParams(
            tuple(d % len(shapes.shape_of(op.operands[0])) for d in a["dim_arg"]), a["keep_dim"]
        ),
        lowering="device",
    ),
    OpRow(
        "",
        "embedding",
        group="data_movement",
        arity=2,
        dtypes=NUMBER,
        shape_rule=shapes.unchecked,
        params=lambda a, op: GatherParams(),
        lowering="device",
    ),
)
register_all(
    *(_named(name, "eltwise", meaning) for name, meaning in ACTIVATIONS.items()),
    _named("leaky_relu", "eltwise", "x, or `parameter` x below 0", parameter=F32),
    _named("clamp_scalar", "eltwise", "clamp_tensor with bounds as constants", dtypes=NUMBER, min=RAW, max=RAW),
    _named("gelu_bw", "eltwise", "the derivative of gelu times the gradient", arity=2, approximate_or_none=TEXT),
    _named(
        "dropout",
        "random",
        "the identity: no program here trains with it",
        prob=F32,
        scale=F32,
        seed=U32,
        use_per_device_seed_or_none=FLAG,
    ),
    # contractions
    _named(
        "dot_general",
        "matmul",
        "permutations and reshapes around a matmul",
        arity=2,
        dtypes=NUMBER,
        batch_dims_lhs=I64S,
        batch_dims_rhs=I64S,
        contract_dims_lhs=I64S,
        contract_dims_rhs=I64S,
    ),
    # movements
    _named("get_dimension_size", "creation", "full: shapes are static", dtypes=PLAIN, dimension=I32),
    _named("zeros", "creation", "full", arity=0, dtypes=PLAIN, shape=I32S),
    _named("ones", "creation", "full", arity=0, dtypes=PLAIN, shape=I32S),
    _named("empty", "creation", "full of zeros", arity=0, dtypes=PLAIN),
    _named(
        "rand",
        "random",
        "Philox bits scaled to low and high",
        arity=0,
        size=I32LIST,
        low=F32,
        high=F32,
        seed=U32,
        dtype_or_none=RAW,
    ),
    _named("transpose", "data_movement", "permute", dtypes=PLAIN, dim0=S32, dim1=S32),
    _named("squeeze", "data_movement", "reshape", dtypes=PLAIN, dim=S32),
    _named("unsqueeze", "data_movement", "reshape", dtypes=PLAIN, dim=S32),
    _named("repeat", "data_movement", "concat of copies, or broadcast", dtypes=PLAIN, repeat_dimensions=I64S),
    _named("repeat_interleave", "data_movement", "a new dim, folded in", dtypes=PLAIN, repeats=U32, dim=S32),
    _named("index", "data_movement", "slice_static", dtypes=PLAIN, dim=I32, begin=I32, end=I32, step=I32),
    _named(
        "index_select",
        "data_movement",
        "slices of one dim, joined",
        dtypes=PLAIN,
        dim=S32,
        begin=S32,
        length=S32,
        stride_or_none=S32,
    ),
    _named("slice_dynamic", "data_movement", "a gather of one slice", arity=None, dtypes=PLAIN, step_or_none=I32LIST),
    _named("embedding_backward", "data_movement", "a scatter that adds rows to zeros", arity=3, ttnn="embedding_bw"),
    _named("concatenate_heads", "data_movement", "permute, reshape", dtypes=PLAIN),
    _named(
        "upsample2d",
        "data_movement",
        "repeat_interleave of both dims",
        scale_factor=RAW,
        mode_or_none=TEXT,
        ttnn="upsample",
    ),
    # windows
    _named("global_avg_pool2d", "pool", "mean over both dims"),
    _named(
        "conv1d",
        "conv",
        "conv2d of height 1",
        arity=None,
        stride=I32_OR_ONE,
        padding=I32S,
        dilation=I32_OR_ONE,
        groups=I32,
        batch_dim_or_none=I64,
        channel_dim_or_none=I64,
        length_dim_or_none=I64,
    ),
    _named(
        "conv_transpose2d",
        "conv",
        "conv2d of the dilated image with the turned kernel",
        arity=None,
        stride=I32S,
        padding=EDGES,
        output_padding=I32S,
        dilation=I32S,
        groups=I32,
        batch_dim_or_none=I64,
        channel_dim_or_none=I64,
        height_dim_or_none=I64,
        width_dim_or_none=I64,
    ),
    # norms
    _named("batch_norm_inference", "norm", "the specification's formula", arity=5, epsilon=F32, dimension=I32),
    _named(
        "batch_norm_training",
        "norm",
        "the specification's formula, running values by momentum",
        arity=5,
        epsilon=F32,
        dimension=I32,
        momentum=F32,
    ),
    _named(
        "group_norm",
        "norm",
        "mean and variance of each group of channels",
        arity=None,
        num_groups=I64,
        epsilon=F32,
        channel_dim_or_none=I64,
    ),
)

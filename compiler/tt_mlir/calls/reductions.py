"""Reductions over whole dims."""

from __future__ import annotations

from opscope.compiler.target.program import ReduceParams
from opscope.compiler.tt_mlir.calls.call import Emit, emits


@emits("sum", "mean", "max", "min", "prod")
def reduce(emit: Emit) -> None:
    """Over the dims that are named, else all."""
    rank, dim_arg = len(emit.desc(emit.inputs[0]).shape), emit.attributes.get("dim_arg")
    dims = (dim_arg,) if isinstance(dim_arg, int) else tuple(range(rank)) if dim_arg is None else dim_arg
    params = ReduceParams(tuple(sorted(dim % rank for dim in dims)) if rank else (), emit.attributes["keep_dim"])
    emit.call(emit.name.removeprefix("ttnn."), emit.inputs, emit.results, params, emit.numerics())


@emits("argmax")
def argmax(emit: Emit) -> None:
    """The place of the first largest element along a dim."""
    rank, dim = len(emit.desc(emit.inputs[0]).shape), emit.attributes.get("dim")
    emit.only(dim is not None, "expected a dim, got none: places in the whole tensor")
    params = ReduceParams((dim % rank,), emit.attributes["keep_dim"])
    emit.call("argmax", emit.inputs, emit.results, params, emit.numerics())

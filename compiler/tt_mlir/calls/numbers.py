"""Ops that bound numbers, or look at their bits."""

from __future__ import annotations

from opscope.compiler.target.program import EltwiseParams, RandomParams
from opscope.compiler.tt_mlir.calls.call import Emit, emits


@emits("clamp_scalar")
def clamp_scalar(emit: Emit) -> None:
    """Between two numbers."""
    bounds = float(emit.attributes["min"]), float(emit.attributes["max"])
    emit.call("clamp_scalar", emit.inputs, emit.results, EltwiseParams(bounds), emit.numerics())


@emits("leaky_relu")
def leaky_relu(emit: Emit) -> None:
    """Times a number where negative."""
    slope = (float(emit.attributes["parameter"]),)
    emit.call("leaky_relu", emit.inputs, emit.results, EltwiseParams(slope), emit.numerics())


@emits("pow_scalar")
def pow_scalar(emit: Emit) -> None:
    """To the power of a number."""
    exponent = (float(emit.attributes["rhs"]),)
    emit.call("pow_scalar", emit.inputs, emit.results, EltwiseParams(exponent), emit.numerics())


@emits("clamp_tensor")
def clamp_tensor(emit: Emit) -> None:
    """Between two tensors."""
    emit.call("clamp_tensor", emit.inputs, emit.results, EltwiseParams(), emit.numerics())


@emits("bitcast_convert")
def bitcast_convert(emit: Emit) -> None:
    """The same bits as another type."""
    emit.call("bitcast_convert", emit.inputs, emit.results, EltwiseParams())


@emits("reduce_precision")
def reduce_precision(emit: Emit) -> None:
    """Rounded to fewer bits, and held as before, of the build of libtt."""
    bits = float(emit.attributes["exponent_bits"]), float(emit.attributes["mantissa_bits"])
    emit.call("reduce_precision", emit.inputs, emit.results, EltwiseParams(bits), emit.numerics())


@emits("rng_bit_generator")
def rng_bit_generator(emit: Emit) -> None:
    """The next state, as words of 32 bits, and as many random words, of the build of libtt."""
    algorithm = "PHILOX" if emit.attributes["philox"] else "THREE_FRY"
    emit.call("rng_bit_generator", emit.inputs, emit.results, RandomParams(algorithm, wide=False))

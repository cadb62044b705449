"""Elementwise ops: one kernel each, with functions of operands and of the result that tt-metal fuses with them."""

from __future__ import annotations

from dataclasses import replace

from opscope.compiler.target.program import EltwiseParams
from opscope.compiler.tt_mlir.calls.call import FUNCTIONS, Emit, emits

OTHER_NAMES = {"round": "round_even"}
"""tt-metal's name -> ours, where they differ; its round takes halves to even."""
BINARY = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "remainder",
    "pow_tensor",
    "atan2",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "mulhi",
    "logical_left_shift",
    "logical_right_shift",
    "bitwise_right_shift",
)


@emits(*FUNCTIONS, "bitwise_not", *OTHER_NAMES)
def unary(emit: Emit) -> None:
    """One operand."""
    name = emit.name.removeprefix("ttnn.")
    emit.call(OTHER_NAMES.get(name, name), emit.inputs, emit.results, EltwiseParams(), emit.numerics())


@emits(*BINARY)
def binary(emit: Emit) -> None:
    """Two operands, each of which may pass functions before; the result may pass some after it, still in Dst."""
    kernel, (left, right), (result,) = emit.name.removeprefix("ttnn."), emit.inputs, emit.results
    before = [emit.attributes.get(f"input_tensor_{side}_activations", ()) for side in "ab"]
    after, numerics = emit.attributes.get("activations", ()), emit.numerics()
    operands = [emit.chain(tensor, names) for tensor, names in zip((left, right), before, strict=True)]
    made = result
    if after:
        desc = emit.desc(result)
        made = emit.tensor(replace(desc, data_format=numerics.dst_format) if desc.layout == "tile" else desc)
    emit.call(kernel, operands, [made], EltwiseParams(), numerics)
    if after:
        emit.chain(made, after, result)


@emits("where")
def where(emit: Emit) -> None:
    """Condition and two values, whose bits stay: of float16 too, beside a condition of bfloat16."""
    numerics, data_format = emit.numerics(), emit.desc(emit.results[0]).data_format
    if data_format == "Float16" and all(emit.desc(t).data_format == data_format for t in emit.inputs[1:]):
        numerics = replace(numerics, dst_format=data_format)
    emit.call("where", emit.inputs, emit.results, EltwiseParams(), numerics)


@emits("typecast")
def typecast(emit: Emit) -> None:
    """The element type of the result."""
    emit.call("typecast", emit.inputs, emit.results, EltwiseParams(), emit.numerics())


@emits("mish")
def mish(emit: Emit) -> None:
    """x tanh(log(1 + exp(x))), in Dst until the end."""
    (x,), (result,) = emit.inputs, emit.results
    numerics, desc = emit.numerics(), emit.desc(x)
    value = x
    for kernel in ("exp", "log1p", "tanh"):
        made = emit.tensor(replace(desc, data_format=numerics.dst_format) if desc.layout == "tile" else desc)
        emit.call(kernel, [value], [made], EltwiseParams(), numerics)
        value = made
    emit.call("multiply", [x, value], [result], EltwiseParams(), numerics)

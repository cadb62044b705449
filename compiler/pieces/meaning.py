"""The meaning of a ttnn op in StableHLO: the op whose tolerance applies, and, if one module can express the op, a
module that another compiler can compute."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from opscope.compiler.ops.row import TABLE, OpRow
from opscope.compiler.target.program import (
    BroadcastParams,
    ConcatParams,
    FullParams,
    MatmulParams,
    Operation,
    PermuteParams,
    ReduceParams,
    ReshapeParams,
    ReverseParams,
    SliceParams,
    TensorDesc,
)

OF_GROUP = {
    "matmul": "stablehlo.dot_general",
    "conv": "stablehlo.convolution",
    "reduce": "stablehlo.reduce",
    "pool": "stablehlo.reduce_window",
    "creation": "stablehlo.constant",
    "data_movement": "stablehlo.reshape",
}
"""Group -> StableHLO op that computes as its ops do."""

OF_KERNEL = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), "stablehlo.compare"),
    **{
        name: f"stablehlo.{name}"
        for name in (
            "reduce_precision",
            "cholesky",
            "triangular_solve",
            "rng_bit_generator",
            "scatter",
            "select_and_scatter",
            "sort",
            "if",
            "case",
            "while",
        )
    },
    "clamp_tensor": "stablehlo.clamp",
    "topk": "chlo.top_k",
    "typecast": "stablehlo.convert",
}
"""Kernel -> StableHLO op, where the group does not decide it."""

BODIES = {
    "sum": "add",
    "mean": "add",
    "sum_pool2d": "add",
    "avg_pool2d": "add",
    "max": "maximum",
    "max_pool2d": "maximum",
    "min": "minimum",
    "min_pool2d": "minimum",
    "prod": "multiply",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
}
"""Kernel of a reduction -> the op of its body."""


def tolerance_op(row: OpRow) -> tuple[str, dict[str, str]]:
    """Returns the StableHLO op whose tolerance applies to a ttnn op ("" if none does), and a reduction's body."""
    kernel = row.kernel_name
    name = OF_KERNEL.get(kernel) or (row.stablehlo if row.lowering == "row" else "") or OF_GROUP.get(row.group, "")
    return name, {"body": f"stablehlo.{BODIES[kernel]}"} if kernel in BODIES else {}


def module(operation: Operation, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> str:
    """Returns StableHLO text of an operation on its operands, with broadcasts written out; empty if there is none."""
    if len(outputs) != 1:
        return ""
    (out,) = outputs
    tensors = operation.inputs
    lines = WRITERS.get(operation.kernel, _by_row)(operation, inputs, out)
    if not lines:
        return ""
    first = {tensor: number for number, tensor in reversed(list(enumerate(tensors)))}
    arguments = ", ".join(f"%a{n}: {_type(inputs[n])}" for n in sorted(first.values()))
    *before, last = [lines] if isinstance(lines, str) else lines
    body = "\n  ".join([*before, f"%0 = {last}", f"return %0 : {_type(out)}"])
    # An operand that is read twice is one argument.
    body = re.sub(r"%a(\d+)\b", lambda match: f"%a{first[tensors[int(match[1])]]}", body)
    return f"func.func @main({arguments}) -> {_type(out)} {{\n  {body}\n}}"


Writer = Callable[[Operation, Sequence[TensorDesc], TensorDesc], "str | list[str]"]
"""Returns the text that computes the result; lines before the last one define values that it reads."""


def _type(desc: TensorDesc) -> str:
    return f"tensor<{'x'.join(map(str, (*desc.shape, desc.element_type)))}>"


def _generic(name: str, attributes: str, inputs: Sequence[TensorDesc], out: TensorDesc, prefix: str = "a") -> str:
    operands = ", ".join(f"%{prefix}{n}" for n in range(len(inputs)))
    types = ", ".join(map(_type, inputs))
    dictionary = f" {{{attributes}}}" if attributes else ""
    return f'"{name}"({operands}){dictionary} : ({types}) -> {_type(out)}'


def _array(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def _spread(inputs: Sequence[TensorDesc], shape: tuple[int, ...]) -> list[str]:
    """Returns lines that broadcast the operands to the shape of the result, as `%b0`, `%b1`, ..."""
    lines = []
    for number, desc in enumerate(inputs):
        dims = _array(range(len(shape) - len(desc.shape), len(shape)))
        wide = _type(replace(desc, shape=shape))
        lines.append(
            f'%b{number} = "stablehlo.broadcast_in_dim"(%a{number}) {{broadcast_dimensions = {dims}}} '
            f": ({_type(desc)}) -> {wide}"
        )
    return lines


def _elementwise(name: str, inputs: Sequence[TensorDesc], out: TensorDesc, attributes: str = "") -> list[str]:
    wide = [replace(desc, shape=out.shape) for desc in inputs]
    return [*_spread(inputs, out.shape), _generic(name, attributes, wide, out, "b")]


def _by_row(op: Operation, inputs: Sequence[TensorDesc], out: TensorDesc) -> list[str]:
    """An op of a row of its own: its StableHLO op means the same."""
    row = TABLE.ttnn(op.kernel)
    if row is None or row.lowering != "row" or row.attrs or getattr(op.params, "scalars", ()):
        return []
    values = inputs[1:] if row.stablehlo == "stablehlo.select" else inputs
    return _elementwise(row.stablehlo, inputs, out) if len({desc.element_type for desc in values}) == 1 else []


def _compare(op: Operation, inputs: Sequence[TensorDesc], out: TensorDesc) -> list[str]:
    direction = f"comparison_direction = #stablehlo<comparison_direction {op.kernel.upper()}>"
    return _elementwise("stablehlo.compare", inputs, out, direction) if out.element_type == "i1" else []


STARTS = {"sum": (0.0, 0), "mean": (0.0, 0), "prod": (1.0, 1), "max": (-math.inf, None), "min": (math.inf, None)}
"""Kernel of a reduction -> its initial value, for floats and for integers."""


def _reduce(op: Operation, inputs: Sequence[TensorDesc], out: TensorDesc) -> list[str]:
    params, (operand,) = op.params, inputs[:1]
    floats = operand.element_type.startswith(("f", "bf"))
    start = STARTS[op.kernel][0 if floats else 1]
    if not isinstance(params, ReduceParams) or len(inputs) != 1 or start is None or operand.element_type == "i1":
        return []
    if operand.element_type != out.element_type:
        return []
    kept = replace(operand, shape=tuple(n for d, n in enumerate(operand.shape) if d not in params.dims))
    scalar = replace(operand, shape=())
    words = {math.inf: "0x7F800000", -math.inf: "0xFF800000"}
    literal = words.get(start, repr(start))
    if operand.element_type != "f32" and start in words:
        return []
    dims = ", ".join(map(str, params.dims))
    lines = [
        f'%s = "stablehlo.constant"() {{value = dense<{literal}> : {_type(scalar)}}} : () -> {_type(scalar)}',
        f"%r = stablehlo.reduce(%a0 init: %s) applies stablehlo.{BODIES[op.kernel]} across dimensions = [{dims}] "
        f": ({_type(operand)}, {_type(scalar)}) -> {_type(kept)}",
    ]
    last = f"stablehlo.reshape %r : ({_type(kept)}) -> {_type(out)}"
    if op.kernel != "mean":
        return [*lines, last]
    count = math.prod(operand.shape) // max(math.prod(kept.shape), 1)
    lines += [
        f"%m = {last}",
        f'%n = "stablehlo.constant"() {{value = dense<{float(count)!r}> : {_type(out)}}} : () -> {_type(out)}',
    ]
    return [*lines, f"stablehlo.divide %m, %n : {_type(out)}"] if floats else []


def _full(op: Operation, inputs: Sequence[TensorDesc], out: TensorDesc) -> str:
    assert isinstance(op.params, FullParams)
    bits = int.from_bytes(op.params.value, "little")
    truth = "true" if bits else "false"
    literal = truth if out.element_type == "i1" else f"0x{bits:0{2 * len(op.params.value)}X}"
    return f'"stablehlo.constant"() {{value = dense<{literal}> : {_type(out)}}} : () -> {_type(out)}'


def _permute(op: Operation, inputs: Sequence[TensorDesc], out: TensorDesc) -> str:
    assert isinstance(op.params, PermuteParams)
    return _generic("stablehlo.transpose", f"permutation = {_array(op.params.permutation)}", inputs, out)


def _reshape(op: Operation, inputs: Sequence[TensorDesc], out: TensorDesc) -> str:
    assert isinstance(op.params, ReshapeParams)
    return _generic("stablehlo.reshape", "", inputs, out)


def _broadcast(op: Operation, inputs: Sequence[TensorDesc], out: TensorDesc) -> str:
    assert isinstance(op.params, BroadcastParams)
    dims = range(len(out.shape) - len(inputs[0].shape), len(out.shape))
    return _generic("stablehlo.broadcast_in_dim", f"broadcast_dimensions = {_array(list(dims))}", inputs, out)


def _slice(op: Operation, inputs: Sequence[TensorDesc], out: TensorDesc) -> str:
    params = op.params
    assert isinstance(params, SliceParams)
    starts, limits, steps = (_array(part) for part in (params.begins, params.ends, params.steps))
    return _generic(
        "stablehlo.slice", f"start_indices = {starts}, limit_indices = {limits}, strides = {steps}", inputs, out
    )


def _concat(op: Operation, inputs: Sequence[TensorDesc], out: TensorDesc) -> str:
    assert isinstance(op.params, ConcatParams)
    return _generic("stablehlo.concatenate", f"dimension = {op.params.dim} : i64", inputs, out)


def _reverse(op: Operation, inputs: Sequence[TensorDesc], out: TensorDesc) -> str:
    assert isinstance(op.params, ReverseParams)
    return _generic("stablehlo.reverse", f"dimensions = {_array(op.params.dims)}", inputs, out)


def _matmul(op: Operation, inputs: Sequence[TensorDesc], out: TensorDesc) -> str:
    """Leading dims that are equal are batches; others, and what is fused into the product, are left alone."""
    params, (a, b) = op.params, (desc.shape for desc in inputs[:2])
    if not isinstance(params, MatmulParams) or params != MatmulParams(params.transpose_a, params.transpose_b):
        return ""
    if len(inputs) != 2 or len(a) != len(b) or a[:-2] != b[:-2]:
        return ""
    batch = ", ".join(map(str, range(len(a) - 2)))
    left, right = len(a) - (2 if params.transpose_a else 1), len(b) - (1 if params.transpose_b else 2)
    numbers = (
        f"#stablehlo.dot<lhs_batching_dimensions = [{batch}], rhs_batching_dimensions = [{batch}], "
        f"lhs_contracting_dimensions = [{left}], rhs_contracting_dimensions = [{right}]>"
    )
    return _generic("stablehlo.dot_general", f"dot_dimension_numbers = {numbers}", inputs, out)


WRITERS: dict[str, Writer] = {
    "full": _full,
    "permute": _permute,
    "reshape": _reshape,
    "broadcast": _broadcast,
    "slice_static": _slice,
    "concat": _concat,
    "reverse": _reverse,
    "matmul": _matmul,
    **dict.fromkeys(STARTS, _reduce),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _compare),
}

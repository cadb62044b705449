"""StableHLO's own reference interpreter, which jaxlib ships: evaluates a module, op by op, as the specification says.

It computes each element by itself and ends the whole process at an op that it does not know: small tensors only, and
never in a process that must live.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from opscope.harness.prepare.mlir.door import context, load
from opscope.harness.prepare.mlir.traversal import main_of, ops_in
from opscope.harness.prepare.mlir.values import dense_array

_LEGALISE = (
    "builtin.module(func.func(stablehlo-legalize-composite-to-call,chlo-legalize-to-stablehlo,"
    "stablehlo-legalize-deprecated-ops{fail-on-unused=false}))"
)


_UNKNOWN = (
    "batch_norm_grad batch_norm_inference batch_norm_training cholesky cross-replica-sum custom_call einsum fft "
    "real_dynamic_slice rng rng_bit_generator set_dimension_size torch_index_select unary_einsum "
    "uniform_dequantize uniform_quantize"
)
NOT_INTERPRETED = frozenset(f"stablehlo.{name}" for name in _UNKNOWN.split())
"""Ops at which the interpreter ends the process."""


class InterpreterError(Exception):
    """The interpreter cannot take a module; the text is the reason."""


@functools.cache
def _registered() -> None:
    stablehlo.register_stablehlo_passes()


def legalised(module: bytes) -> ir.Module:
    """The module with chlo ops and composites written in StableHLO. Raises InterpreterError if that fails."""
    _registered()
    loaded = load(module)
    notes: list[str] = []
    handler: Any = context().attach_diagnostic_handler(lambda d: bool(notes.append(d.message)) or True)
    try:
        with context():
            PassManager.parse(_LEGALISE).run(loaded.operation)
    except ir.MLIRError as error:
        raise InterpreterError("\n".join(notes) or str(error)) from error
    finally:
        handler.detach()
    _with_own_operands(loaded)
    return loaded


def _with_own_operands(module: ir.Module) -> None:
    """Gives each scatter operands of its own: the interpreter writes the results of one that is named twice into one
    tensor, and gives the last for both."""
    for op in ops_in(module, "stablehlo.scatter"):
        seen: list[ir.Value] = []
        for number in range(len(op.results)):
            operand = op.operands[number]
            if operand in seen:
                with context(), op.location, ir.InsertionPoint(op):
                    op.operands[number] = stablehlo.ReshapeOp(operand.type, operand).result
            seen.append(operand)


def refusal(module: ir.Module) -> str:
    """Why the interpreter cannot evaluate a module; empty if no reason is known beforehand."""
    for op in ops_in(module):
        if op.name in NOT_INTERPRETED:
            return f"the interpreter has no {op.name}"
        if complex_ := next((v.type for v in (*op.operands, *op.results) if "complex<" in str(v.type)), None):
            return f"{op.name} of {complex_}: jaxlib hands complex numbers neither to the interpreter nor back"
    return ""


def evaluate(module: ir.Module, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of `@main`. Raises InterpreterError if an input or a result is of a type that has no literal."""
    kinds = ir.FunctionType(ir.TypeAttr(main_of(module).attributes["function_type"]).value).inputs
    with context(), ir.Location.unknown():
        values = [_attribute(array, kind) for array, kind in zip(inputs, kinds, strict=True)]
        results = stablehlo.eval_module(module, values)
    arrays = [dense_array(result) for result in results]
    if any(array is None for array in arrays):
        raise InterpreterError(f"a result of a type that cannot be read back: {results[0].type}")
    return [np.array(array) for array in arrays if array is not None]


def _attribute(array: np.ndarray, kind: Any) -> Any:
    """The literal of an array; from its bytes, as the bindings take no bf16, f8 or complex arrays."""
    element = kind.element_type
    if array.size == 0:
        return ir.Attribute.parse(f"dense<> : {kind}")
    if array.dtype == np.bool_:
        words = "true" if array.all() else "false" if not array.any() else str(array.tolist()).lower()
        return ir.Attribute.parse(f"dense<{words}> : {kind}")
    if array.dtype.name in ("int2", "int4", "uint2", "uint4"):
        return ir.Attribute.parse(f"dense<{array.astype(np.int64).tolist()}> : {kind}")
    if str(element).startswith(("f6E", "f4E")):
        raise InterpreterError(f"an input of {element}: no literal of it can be made")
    return ir.Attribute.parse(f'dense<"0x{np.ascontiguousarray(array).tobytes().hex().upper()}"> : {kind}')


def work(module: ir.Module) -> int:
    """About how many elements the interpreter touches one by one; the body of a loop counts once."""
    total = 0
    for op in ops_in(module):
        steps = [_size(value.type) for value in (*op.operands, *op.results)]
        total += sum(steps) + (_size(op.results[0].type) * _terms(op) if len(op.results) else 0)
    return total


def _size(kind: Any) -> int:
    return math.prod(kind.shape) if isinstance(kind, ir.RankedTensorType) and kind.has_static_shape else 0


def _terms(op: ir.Operation) -> int:
    """How many terms an element of the first result of `op` is made of, where these are more than its operands."""
    if op.name == "stablehlo.dot_general":
        numbers: Any = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
        left: Any = op.operands[0].type
        return math.prod(left.shape[axis] for axis in numbers.lhs_contracting_dimensions)
    if op.name == "stablehlo.convolution":
        numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        kernel: Any = op.operands[1].type
        return _size(kernel) // max(1, kernel.shape[numbers.kernel_output_feature_dimension])
    if "window_dimensions" in op.attributes:
        return math.prod(ir.DenseI64ArrayAttr(op.attributes["window_dimensions"]))
    return 0

"""Rewrites by jaxlib's own passes before conversion: quantised types, dynamic shapes, chlo ops without a row.

Each pass runs only if the module has something for it.
"""

from __future__ import annotations

import re
from typing import Any

import jaxlib.mlir.ir as mlir
import numpy as np
from jaxlib.mlir import passmanager
from jaxlib.mlir.dialects import stablehlo

from opscope.base.mesh.shardings import option_that_splits, sharding_in
from opscope.base.quantised.dequantised import as_integers, dequantise, ops_of
from opscope.base.stablehlo.bounded_shapes import BOUNDED, at_bounds
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir.integer_arithmetic import drop_casts, integer_arithmetic
from opscope.compiler.ops.row import TABLE

STAGE = "stablehlo-to-ttir"
CHLO = "func.func(chlo-legalize-to-stablehlo),canonicalize"
STATIC = "func.func(stablehlo-canonicalize-dynamism),stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism)"
"""Ops whose sizes are constants become static ones, and so do the shapes that follow from them."""
DYNAMIC = re.compile(r"stablehlo\.(dynamic_(?!slice|update_slice)|real_dynamic_slice)")


def legalised(module: mlir.Module, quantised: bool = False) -> mlir.Module:
    """Rewrites `module`, in place if that is possible, and returns it; `quantised` types stay if that is asked.

    Raises StageFailure if a pass refuses it.
    """
    _refuse_shardings(module)
    names, types = _names_and_types(module.operation)
    if not quantised and any("!quant" in word for word in types):
        _without_quantised(module)
        names, types = _names_and_types(module.operation)
    if quantised and "tensor.empty" in names:
        _as_empty_calls(module)
    if "arith.constant" in names:
        _constants(module)
        names, types = _names_and_types(module.operation)
    if any(name.startswith("chlo.") and not TABLE.stablehlo(name) for name in names):
        _scans_forward(module)
        _ragged_dots(module)
        _run(module, CHLO, "chlo")
        names, types = _names_and_types(module.operation)
    if "stablehlo.set_dimension_size" in names:
        _without_full_sizes(module)
    if any("?" in word for word in types) or any(DYNAMIC.match(name) for name in names):
        if any(BOUNDED.search(word) for word in types):
            module = _at_its_bounds(module)
        _run(module, STATIC, "dynamic shape", "never")
        _static_slices(module)
    return module


def _refuse_shardings(module: mlir.Module) -> None:
    """Refuses a module that is for several devices: what one of them computes is another program."""
    sharded = sharding_in(module.operation)
    if sharded is not None:
        op, sharding = sharded
        message = (
            f"expected a program for one device, or each device's own with explicit collectives, got {sharding[:160]}; "
            f"try {option_that_splits(module.operation)} (opscope compile, pytest --op-by-op)"
        )
        raise StageFailure(STAGE, op, message, kind="notimpl", diagnostic=sharding)


def _constants(module: mlir.Module) -> None:
    """Turns `arith.constant`, which torch-mlir leaves in places, into `stablehlo.constant`.

    An f64 constant that is only read as f32 becomes an f32 one at once.
    """
    constants: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == "arith.constant" and isinstance(op.results[0].type, mlir.RankedTensorType):
            constants.append(op)
        return mlir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in constants:
        value = op.attributes["value"]
        with mlir.InsertionPoint(op), op.location:
            for use in list(op.results[0].uses):
                reader = use.owner
                kind = mlir.RankedTensorType(op.results[0].type).element_type
                if reader.name == "stablehlo.convert" and isinstance(kind, mlir.F64Type) and _is_f32(reader.results[0]):
                    numbers: Any = np.array(mlir.DenseFPElementsAttr(value)).astype(np.float32)
                    reader.results[0].replace_all_uses_with(stablehlo.constant(mlir.DenseElementsAttr.get(numbers)))
                    reader.erase()
            if list(op.results[0].uses):
                op.results[0].replace_all_uses_with(stablehlo.constant(value))
        op.erase()


def _as_empty_calls(module: mlir.Module) -> None:
    """Turns `tensor.empty` into a call of the op of ttir that leaves its elements open, too."""
    empty: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == "tensor.empty":
            empty.append(op)
        return mlir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in empty:
        with mlir.InsertionPoint(op), op.location:
            name: dict[str, mlir.Attribute] = {"call_target_name": mlir.StringAttr.get("tt.empty")}
            call = mlir.Operation.create("stablehlo.custom_call", results=[op.results[0].type], attributes=name)
        op.results[0].replace_all_uses_with(call.results[0])
        op.erase()


def _is_f32(value: Any) -> bool:
    return isinstance(mlir.RankedTensorType(value.type).element_type, mlir.F32Type)


def _names_and_types(op: Any) -> tuple[set[str], set[str]]:
    """Returns the names of all ops, and all types as text, those of signatures included."""
    names: set[str] = set()
    types: dict[Any, str] = {}

    def visit(inner: Any) -> Any:
        names.add(inner.name)
        kinds = [result.type for result in inner.results]
        kinds += [arg.type for region in inner.regions for block in region.blocks for arg in block.arguments]
        for kind in kinds:
            if kind not in types:
                types[kind] = str(kind)
        return mlir.WalkResult.ADVANCE

    op.walk(visit)
    return names, set(types.values())


def _scans_forward(module: mlir.Module) -> None:
    """Turns a scan from the end into one over reversed tensors, because jaxlib's pass ignores `is_reverse`."""
    scans: list[Any] = []

    def visit(op: Any) -> Any:
        if (
            op.name == "chlo.scan"
            and "is_reverse" in op.attributes
            and mlir.BoolAttr(op.attributes["is_reverse"]).value
        ):
            scans.append(op)
        return mlir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in scans:
        dim = mlir.IntegerAttr(op.attributes["dimension"]).value
        inputs, outputs = (
            mlir.DenseI32ArrayAttr(op.attributes[name])[0] for name in ("operandSegmentSizes", "resultSegmentSizes")
        )
        with mlir.InsertionPoint(op), op.location:
            for index in range(inputs):
                op.operands[index] = stablehlo.reverse(op.operands[index], [dim])
        op.attributes["is_reverse"] = mlir.BoolAttr.get(False)
        for result in list(op.results)[:outputs]:
            with mlir.InsertionPoint.after(op), op.location:
                turned = stablehlo.reverse(result, [dim])
            result.replace_all_uses_except(turned, turned.owner.operation)


def _ragged_dots(module: mlir.Module) -> None:
    """Expands products of ragged groups. The pass compares rows with the groups' ends in 64 bits of its own, which the
    device lacks: sizes of 32 bits need no more, since no tensor has as many rows."""
    for op in [op for op in ops_of(module.operation) if op.name == "chlo.ragged_dot"]:
        kinds = [value.type for value in op.operands]
        if str(mlir.RankedTensorType(kinds[2]).element_type) != "i32":
            continue
        with op.location:
            alone = mlir.Module.create()
            with mlir.InsertionPoint(alone.body):
                signature = mlir.FunctionType.get(kinds, [op.results[0].type])
                attributes = {"sym_name": mlir.StringAttr.get("main"), "function_type": mlir.TypeAttr.get(signature)}
                block = (
                    mlir.Operation.create("func.func", attributes=attributes, regions=1)
                    .regions[0]
                    .blocks.append(*kinds)
                )
            clone = op.clone(mlir.InsertionPoint(block))
            for number, argument in enumerate(block.arguments):
                clone.operands[number] = argument
            mlir.Operation.create("func.return", operands=[clone.results[0]], ip=mlir.InsertionPoint(block))
        _run(alone, CHLO, "chlo")
        *expanded, end = [view.operation for view in block.operations]
        values: dict[Any, Any] = dict(zip(block.arguments, op.operands, strict=True))
        for inner in expanded:
            _in_32_bits(inner)
            copy = inner.clone(mlir.InsertionPoint(op))
            for number, value in enumerate(inner.operands):
                copy.operands[number] = values[value]
            values |= zip(inner.results, copy.results, strict=True)
        op.results[0].replace_all_uses_with(values[end.operands[0]])
        op.erase()


def _in_32_bits(op: Any) -> None:
    """Gives an op results of 32 bits in place of 64."""
    for result in op.results:
        kind = mlir.RankedTensorType(result.type)
        if str(kind.element_type) != "i64":
            continue
        if op.name == "stablehlo.constant":
            numbers: Any = np.array(mlir.DenseIntElementsAttr(op.attributes["value"])).astype(np.int32)
            op.attributes["value"] = mlir.DenseElementsAttr.get(numbers)
        result.set_type(mlir.RankedTensorType.get(kind.shape, mlir.IntegerType.get_signless(32)))


def _static_slices(module: mlir.Module) -> None:
    """Turns slices with computed starts and known sizes into dynamic slices."""
    slices: list[Any] = []

    def visit(op: Any) -> Any:
        if (
            op.name == "stablehlo.real_dynamic_slice"
            and "?" not in str(op.results[0].type)
            and _is_ones(op.operands[3])
        ):
            slices.append(op)
        return mlir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in slices:
        shape = mlir.RankedTensorType(op.results[0].type).shape
        element = mlir.RankedTensorType(op.operands[1].type).element_type
        with mlir.InsertionPoint(op), op.location:
            starts = []
            for dim in range(len(shape)):
                start = stablehlo.slice(op.operands[1], [dim], [dim + 1], [1])
                starts.append(stablehlo.reshape(mlir.RankedTensorType.get([], element), start))
            dynamic_slice = stablehlo.dynamic_slice(op.operands[0], starts, shape)
        op.results[0].replace_all_uses_with(dynamic_slice)
        op.erase()


def _without_full_sizes(module: mlir.Module) -> None:
    """Drops ops that set a dim to the size that it already has; TensorFlow does this to all dims of top_k."""
    ops: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == "stablehlo.set_dimension_size" and op.operands[0].type == op.results[0].type:
            dim = mlir.IntegerAttr(op.attributes["dimension"]).value
            full = mlir.RankedTensorType(op.operands[0].type).shape[dim]
            if _is_all(op.operands[1], full):
                ops.append(op)
        return mlir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in ops:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()
    for op in ops_of(module.operation):
        if op.name == "stablehlo.set_dimension_size":
            _refuse_size(op)


def _refuse_size(op: Any) -> None:
    """Refuses a size that is set at run time, before a bound could be taken for it."""
    dim = mlir.IntegerAttr(op.attributes["dimension"]).value
    message = (
        f"expected sizes that are known when a program is compiled, got an op that gives dim {dim} of "
        f"{op.operands[0].type} a size at run time; buffers are placed when a program is compiled"
    )
    raise StageFailure(STAGE, op.name, message, kind="never")


def _is_ones(value: Any) -> bool:
    return _is_all(value, 1)


def _is_all(value: Any, number: int) -> bool:
    """Whether a value is a constant whose elements all equal that number."""
    owner = value.owner
    if getattr(owner, "name", "") != "stablehlo.constant":
        return False
    dense = mlir.DenseIntElementsAttr(owner.attributes["value"])
    return all(element == number for element in dense)


def _without_quantised(module: mlir.Module) -> None:
    """Turns quantised tensors into tensors of their integers, and arithmetic on them into that of integers."""
    try:
        dequantise(module)
        integer_arithmetic(module)
        as_integers(module)
        drop_casts(module)
    except mlir.MLIRError as error:
        raise StageFailure(STAGE, "quantised types", _refusal(error), kind="notimpl", diagnostic=str(error)) from error


def _at_its_bounds(module: mlir.Module) -> mlir.Module:
    """Sets every bounded size to its bound, because buffers are placed when a program is compiled."""
    source = str(module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True))
    try:
        return mlir.Module.parse(at_bounds(source))
    except mlir.MLIRError as error:
        raise StageFailure(
            STAGE,
            "dynamic shape",
            "expected ops that are valid at the bounds of their shapes, got one that is not",
            kind="never",
            diagnostic=str(error),
        ) from error


def _run(module: mlir.Module, passes: str, construct: str, kind: str = "notimpl") -> None:
    try:
        passmanager.PassManager.parse(f"builtin.module({passes})").run(module.operation)
    except mlir.MLIRError as error:
        raise StageFailure(STAGE, construct, _refusal(error), kind=kind, diagnostic=str(error)) from error


def _refusal(error: mlir.MLIRError) -> str:
    """The first error that a pass reported, in one line."""
    lines = [line.strip() for line in str(error).splitlines()]
    errors = [line for line in lines if line.startswith("error:")]
    return (errors or lines or ["refused"])[0].removeprefix("error:").strip()[:300]

"""What is certainly valid is what xDSL's verifier accepts, and all classes of ops here are understood."""

from __future__ import annotations

import hashlib
import inspect

import pytest
from xdsl import traits
from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr, SymbolNameConstraint, TensorType, f32
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.dialects.test import TestOp as AnyOp
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import AnyAttr, BaseAttr, EqIntConstraint, OpDef, RangeLengthConstraint, RangeOf, operations

from opscope.compiler.dialects import stablehlo, ttir, ttnn
from opscope.compiler.ir.context import context
from opscope.compiler.pipelines import quick_check
from opscope.compiler.pipelines.quick_check import certainly_valid, check_of

READ = (
    Operation.verify,
    Block.verify,
    Region.verify,
    OpDef.verify,
    operations.verify_variadic_size,
    operations.verify_variadic_same_size,
    operations.irdl_op_verify_regions,
    operations.irdl_op_verify_arg_list,
    operations.get_accessors_from_op_def,
    AnyAttr.verify,
    BaseAttr.verify,
    RangeOf.verify,
    RangeLengthConstraint.verify,
    EqIntConstraint.verify,
    SymbolNameConstraint.verify,
    traits.OpTrait.verify,
    traits.IsolatedFromAbove.verify,
    traits.NoTerminator.verify,
    traits.ReturnLike.verify,
    traits.SymbolOpInterface,
    traits.OptionalSymbolOpInterface,
    traits.SymbolTable.verify,
    FuncOp.__init__,
)
"""The parts of xDSL of which `quick_check.py` says what they do, and those whose shape it relies on."""


def test_xdsl_verifies_as_it_did_when_the_quick_check_was_written() -> None:
    text = "".join(map(inspect.getsource, READ))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "2d883948b91657ae", (
        "xDSL's verifiers are others: read READ, and see that quick_check.py says no wherever they would raise"
    )


def test_every_class_of_the_dialects_is_understood() -> None:
    classes = [*stablehlo.CLASSES.values(), *ttir.CLASSES.values(), *ttnn.CLASSES.values(), ModuleOp, FuncOp]
    assert len(classes) > 400
    for cls in (*classes, ttnn.GetDeviceOp):
        assert check_of(cls) is not None, cls
        assert quick_check._understood(cls.get_irdl_definition()) is not None, cls
    assert quick_check._understood(CallOp.get_irdl_definition()) is None, "it asks for a name without nested ones"
    assert not certainly_valid(context().get_op("no.such_op").create()), "xDSL verifies what is not registered"


def tensors(count: int) -> list:
    return AnyOp.create(result_types=[TensorType(f32, [2])] * count).results


def exp(**changes: object) -> Operation:
    whole = {"operands": tensors(1), "result_types": [TensorType(f32, [2])], **changes}
    return ttir.CLASSES["exp"].create(**whole)


@pytest.mark.parametrize(
    ("op", "valid"),
    [
        (exp(), True),
        (exp(attributes={"note": IntAttr(1)}), True),
        (exp(operands=tensors(2)), False),
        (exp(operands=AnyOp.create(result_types=[f32]).results), False),
        (exp(result_types=[f32]), False),
        (exp(result_types=[TensorType(f32, [3])]), False),
        (exp(properties={"note": IntAttr(1)}), False),
        (exp(regions=[Region()]), False),
        (exp(successors=[Block()]), False),
        (ttir.CLASSES["sum"].create(operands=tensors(1), result_types=[TensorType(f32, [])]), False),
        (ttnn.GetDeviceOp.create(result_types=[ttnn.DeviceType()]), True),
        (ttnn.GetDeviceOp.create(result_types=[ttnn.DeviceType()] * 2), False),
        (ttnn.GetDeviceOp.create(result_types=[f32]), False),
        (ttnn.GetDeviceOp.create(result_types=[ttnn.DeviceType()], properties={"mesh_shape": IntAttr(1)}), False),
        (ModuleOp([]), True),
        (ModuleOp([], sym_name=StringAttr("name")), True),
        (ModuleOp(Region([Block(), Block()])), False),
        (ModuleOp([FuncOp("f", ((), ()), Region()), FuncOp("g", ((), ()), Region())]), True),
        (ModuleOp([FuncOp("f", ((), ()), Region()), FuncOp("f", ((), ()), Region())]), False),
        (ModuleOp([exp()]), False),
        (FuncOp("f", ((f32,), ()), Region(Block())), False),
        (FuncOp("f", ((), ()), Region(Block([exp(operands=[], result_types=[])]))), True),
        (FuncOp("f", ((), ()), Region(Block([exp()]))), False),
        (FuncOp.create(regions=[Region()], properties={"sym_name": StringAttr("f")}), False),
    ],
)
def test_only_ops_that_xdsl_accepts_are_certainly_valid(op: Operation, valid: bool) -> None:
    assert certainly_valid(op) is valid
    try:
        op.verify(verify_nested_ops=False)
    except Exception:  # noqa: BLE001 - xDSL raises several kinds
        assert not valid
    else:
        assert valid, "none of these is so rare that it should be left to xDSL"


def test_only_a_terminator_ends_a_function() -> None:
    values = tensors(1)
    first, second = exp(operands=values), exp(operands=values)
    FuncOp("f", ((), ()), Region(Block([first, second])))
    assert certainly_valid(first)
    assert not certainly_valid(second)
    ModuleOp([loose := exp(operands=values)])
    assert certainly_valid(loose), "a module has no terminator"


def test_a_value_that_was_erased_is_noticed() -> None:
    values = tensors(1)
    op = exp(operands=values)
    assert certainly_valid(op)
    values[0].erase(safe_erase=False)
    assert not certainly_valid(op)

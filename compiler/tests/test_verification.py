"""What a pass changes is verified, however little, and after a pass that changes nothing nothing is."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from xdsl.dialects.builtin import FunctionType, IntAttr, ModuleOp, StringAttr, TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from opscope.compiler import api
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.ir.functions import functions
from opscope.compiler.pipelines import pipeline, verification
from opscope.compiler.pipelines.verification import Verification

TEXT = """func.func @main(%x: tensor<32xf32>) -> tensor<32xf32> {
  %0 = stablehlo.exponential %x : tensor<32xf32>
  return %0 : tensor<32xf32>
}"""


def module() -> ModuleOp:
    return api.stablehlo_to_ttir(TEXT)


class Idle(ModulePass):
    name = "idle"

    def apply(self, ctx, op: ModuleOp) -> None:
        return


class Spoils(ModulePass):
    """Gives an op a property that it does not have, in place."""

    name = "spoils"

    def apply(self, ctx, op: ModuleOp) -> None:
        exp = next(each for each in op.walk() if each.name == "ttir.exp")
        exp.properties["no_such_property"] = IntAttr(1)


def test_what_a_pass_spoils_is_noticed_after_passes_that_do_nothing() -> None:
    with pytest.raises(VerifyException, match="no_such_property") as error:
        pipeline.run((Idle(), Idle(), Spoils(), Idle()), module())
    assert "pass spoils failed" in "".join(error.value.__notes__)


@pytest.fixture
def looked_at(monkeypatch) -> list[str]:
    """Names of ops as they are verified."""
    names: list[str] = []
    real = verification.certainly_valid
    monkeypatch.setattr(verification, "certainly_valid", lambda op: names.append(op.name) or real(op))
    return names


def test_a_module_is_verified_once_and_then_what_changed(looked_at: list[str]) -> None:
    whole = module()
    del looked_at[:]
    verify = Verification()
    verify(whole)
    assert sorted(set(looked_at)) == ["builtin.module", "func.func", "func.return", "ttir.exp"]
    del looked_at[:]
    verify(whole)
    assert looked_at == []
    exp = next(op for op in whole.walk() if op.name == "ttir.exp")
    exp.attributes["note"] = IntAttr(1)
    verify(whole)
    assert looked_at == ["ttir.exp", "func.return"], "with what uses it"
    del looked_at[:]
    function = exp.parent_op()
    assert function is not None
    function.attributes["note"] = IntAttr(1)
    verify(whole)
    assert sorted(set(looked_at)) == ["builtin.module", "func.func", "func.return", "ttir.exp"]


def test_holders_are_verified_where_an_op_reads_a_value_from_elsewhere(looked_at: list[str]) -> None:
    whole = module()
    whole.body.block.add_op(other := functions(module())[0].clone())
    other.sym_name = StringAttr("other")
    verify = Verification()
    verify(whole)
    del looked_at[:]
    exp = next(op for op in whole.walk() if op.name == "ttir.exp")
    exp.operands[0] = other.body.block.args[0]
    with pytest.raises(VerifyException, match="defined out of its IsolatedFromAbove parent"):
        verify(whole)
    assert looked_at == ["ttir.exp", "func.return", "func.func"], "the first that may be wrong ends it"


def forget_properties(op: Operation) -> None:
    op.properties.clear()


def other_result_type(op: Operation) -> None:
    for result in op.results:
        Rewriter.replace_value_with_new_type(result, TensorType(f32, [7]))


def other_operand(op: Operation) -> None:
    if op.operands:
        op.operands[0] = op.operands[-1]


def twice(op: Operation) -> None:
    if isinstance(op.parent, Block):
        op.parent.insert_op_after(op.clone(), op)


def last(op: Operation) -> None:
    if isinstance(op.parent, Block):
        block = op.parent
        op.detach()
        block.add_op(op)


def gone(op: Operation) -> None:
    if isinstance(op.parent, Block) and not any(result.uses for result in op.results):
        op.detach()


def from_elsewhere(op: Operation) -> None:
    """Reads a value of the module's first function."""
    root = op
    while (holder := root.parent_op()) is not None:
        root = holder
    if op.operands and isinstance(root, ModuleOp):
        op.operands[-1] = functions(root)[0].body.block.args[0]


def elsewhere(op: Operation) -> None:
    """Moves to the begin of the module's last function."""
    root = op
    while (holder := root.parent_op()) is not None:
        root = holder
    if isinstance(op.parent, Block) and isinstance(root, ModuleOp) and not isinstance(op, FuncOp):
        block = functions(root)[-1].body.block
        op.detach()
        block.insert_ops_before([op], block.first_op) if block.first_op is not None else block.add_op(op)


def other_name(op: Operation) -> None:
    for key in ("sym_name", "callee"):
        if key in op.properties:
            op.properties[key] = StringAttr("main")


def other_signature(op: Operation) -> None:
    if isinstance(op, FuncOp):
        op.function_type = FunctionType.from_lists([], list(op.function_type.outputs))


def lost(op: Operation) -> None:
    """Says that it is in no block."""
    op.parent = None


def emptied(op: Operation) -> None:
    for region in op.regions:
        for inner in reversed(list(region.block.ops)):
            inner.detach()


def another_region(op: Operation) -> None:
    op.add_region(Region(Block()))


def no_number(op: Operation) -> None:
    for key in op.properties:
        op.properties[key] = IntAttr(1)


def refused(verify: Callable[[], None]) -> str:
    try:
        verify()
    except Exception as error:  # noqa: BLE001 - xDSL raises several kinds
        return type(error).__name__
    return ""


CHANGES = (
    forget_properties,
    other_result_type,
    other_operand,
    twice,
    last,
    gone,
    from_elsewhere,
    elsewhere,
    other_name,
    other_signature,
    lost,
    emptied,
    another_region,
    no_number,
)
BODIES = """func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %x, %x : tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>, %p: tensor<i1>, %z: tensor<f32>)
    -> (tensor<2x4xf32>, tensor<f32>) {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
      : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = "stablehlo.if"(%p) ({
    %2 = func.call @twice(%z) : (tensor<f32>) -> tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }, {
    stablehlo.return %z : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  return %0, %1 : tensor<2x4xf32>, tensor<f32>
}"""


@pytest.mark.slow
@pytest.mark.parametrize("level", ["ttir", "ttnn"])
def test_what_changed_is_refused_where_the_whole_module_is(level: str) -> None:
    start = api.stablehlo_to_ttir(BODIES)
    if level == "ttnn":
        start = api.ttir_to_ttnn(start, api.load_board("n150"))
    answers = []
    places = range(len(list(start.walk())))
    for place, change in product(places if level == "ttir" else places[::3], CHANGES):
        changed = start.clone()
        verify = Verification()
        verify(changed)
        change(list(changed.walk())[place])
        expected = refused(changed.verify)
        assert refused(lambda changed=changed, verify=verify: verify(changed)) == expected, (place, change)
        answers.append(expected)
    assert 0.2 < sum(map(bool, answers)) / len(answers) < 0.9, "changes of both kinds"


def test_a_module_handed_over_is_verified_again_only_where_it_changed(looked_at: list[str]) -> None:
    board = api.load_board("n150")
    kept = api.ttir_to_ttnn(module(), board)
    original, spoilt = module(), module()
    next(op for op in spoilt.walk() if op.name == "ttir.exp").properties["no_such_property"] = IntAttr(1)
    del looked_at[:]
    made = api.ttir_to_ttnn(original, board, keep=False)
    assert made is original
    assert str(made) == str(kept)
    assert "ttir.exp" not in looked_at
    assert "ttnn.exp" in looked_at
    with pytest.raises(api.StageFailure, match="no_such_property"):
        api.ttir_to_ttnn(spoilt, board, keep=False)


def test_device_ops_of_the_same_types_are_verified_once_and_others_each_time(monkeypatch) -> None:
    board, looked_at = api.load_board("n150"), []
    api.ttir_to_ttnn(module(), board)
    real = RowOp.verify_
    monkeypatch.setattr(RowOp, "verify_", lambda op: (looked_at.append(op.name), real(op)))
    made = api.ttir_to_ttnn(module(), board)
    made.verify()
    assert not [name for name in looked_at if name.startswith("ttnn.")]
    exp = next(op for op in made.walk() if op.name == "ttnn.exp")
    exp.properties["no_such_property"] = IntAttr(1)
    with pytest.raises(VerifyException, match="no_such_property"):
        made.verify()
    del exp.properties["no_such_property"]
    made.verify()
    Rewriter.replace_value_with_new_type(exp.results[0], TensorType(f32, [32]))
    for _ in range(2):
        with pytest.raises(VerifyException, match="expected tensors with a ttnn layout"):
            made.verify()

"""The table of wrong lowerings is as large and as varied as it says, and a row that does not fit is refused."""

from __future__ import annotations

import pytest

from ci.wrong_lowerings.__main__ import found_again
from ci.wrong_lowerings.table import Replacement, WrongLowering, wrong_lowerings
from opscope.harness.record.records import OpRow, TensorDesc, Use

SUBTRACT = """module {
  %0 = "ttnn.subtract"(%a, %b) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
}
"""


def row(*replace: Replacement) -> WrongLowering:
    """A wrong lowering of a subtraction."""
    types = ("5xf32", "5xf32")
    return WrongLowering("swapped operands", "", "0" * 16, "stablehlo.subtract", types, types[:1], "", replace)


def test_there_are_twenty_over_twelve_kinds_of_ops_and_of_faults() -> None:
    rows = wrong_lowerings()
    assert len(rows) == len({one.op_id for one in rows}) == 20
    assert len({one.op for one in rows}) >= 12
    assert len({one.kind for one in rows}) >= 12


def test_every_row_says_how_to_find_its_op_again() -> None:
    for one in wrong_lowerings():
        assert all((one.change, one.inputs, one.outputs, one.replace)), one.op_id
        assert one.location.startswith("jit("), one.op_id
        assert all(part.before != part.after for part in one.replace), one.op_id


def test_a_row_changes_the_text_that_it_names_and_nothing_else() -> None:
    wrong = row(Replacement('"(%a, %b)', '"(%b, %a)')).applied(SUBTRACT)
    assert wrong == SUBTRACT.replace("%a, %b", "%b, %a")


def test_a_row_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected 'ttnn\.add' 1 times, got 0"):
        row(Replacement("ttnn.add", "ttnn.subtract")).applied(SUBTRACT)
    with pytest.raises(ValueError, match=r"expected 'tensor<5xf32>' 2 times, got 3"):
        row(Replacement("tensor<5xf32>", "tensor<6xf32>", 2)).applied(SUBTRACT)


def op(op_id: str, shape: tuple[int, ...], location: str) -> OpRow:
    """A subtraction of two tensors."""
    desc = TensorDesc(shape=shape, data_type="f32")
    use = Use(model="toy", path="main/0", location=location)
    return OpRow(
        op_id=op_id, op_name="stablehlo.subtract", module=None, inputs=(desc, desc), outputs=(desc,), uses=(use,)
    )


def test_an_op_is_found_again_by_its_id_or_else_by_what_it_is() -> None:
    wrong = WrongLowering(
        "swapped operands", "", "a" * 16, "stablehlo.subtract", ("5x40xf32",) * 2, ("5x40xf32",), "jit(toy)/sub", ()
    )
    by_id = op("a" * 16, (2,), "elsewhere")
    same = op("b" * 16, (5, 40), "jit(toy)/sub (toy.py:3)")
    others = [op("c" * 16, (5, 41), "jit(toy)/sub (toy.py:3)"), op("d" * 16, (5, 40), "jit(toy)/other (toy.py:3)")]
    assert found_again(wrong, [*others, same, by_id]) is by_id
    assert found_again(wrong, [*others, same]) is same
    assert found_again(wrong, others) is None

"""Where values are held in fewer bits than the module asked for is said, and nowhere else."""

from __future__ import annotations

from opscope.compiler.tt_mlir.tests.emitted import NO_FUNCTIONS, Text, one_op, program


def _through(middle: str, op: str = "ttnn.exp", outer: str = "f32", before: tuple[str, str] = ("f32", "f32")) -> str:
    """An op that computes in `middle` on values of `outer`."""
    text = Text()
    wide, narrow = text.kind((4, 4), outer), text.kind((4, 4), middle)
    text.function(
        [
            f'%0 = "ttnn.typecast"(%arg0) : ({wide}) -> {narrow}',
            f'%1 = "ttnn.reshape"(%0) <{{shape = [4 : i32, 4 : i32]}}> : ({narrow}) -> {narrow}',
            f'%2 = "{op}"(%1) : ({narrow}) -> {narrow}',
            f'%3 = "ttnn.typecast"(%2) : ({narrow}) -> {wide}',
        ],
        [wide],
        [wide],
        "%3",
        before=before,
    )
    return text.written()


def test_the_op_that_computes_on_narrowed_values_is_named() -> None:
    made = program(_through("bf16"))
    assert made.narrowed == ("f32 -> bf16 at ttnn.exp",)
    assert made.float_format == "Float16_b"


def test_a_wider_path_narrows_nothing() -> None:
    made = program(_through("f32", outer="bf16", before=("bf16", "bf16")))
    assert (made.narrowed, made.float_format) == ((), None)


def test_integers_through_floats_are_named_unless_they_fit() -> None:
    assert program(_through("f32", "ttnn.neg", "si32", ("i32", "i32"))).narrowed == ("si32 -> f32 at ttnn.neg",)
    assert program(_through("f32", "ttnn.neg", "si32", ("i8", "i8"))).narrowed == ()
    made = program(_through("bf16", "ttnn.neg", "si32", ("i16", "i16")))
    assert made.narrowed == ("si32 -> bf16 at ttnn.neg",)


def test_a_conversion_that_the_module_asks_for_is_none() -> None:
    made = program(one_op("ttnn.typecast", "", [((4, 4), "f32")], ((4, 4), "bf16"), ["f32", "bf16"]))
    assert (made.narrowed, made.float_format) == ((), None)
    made = program(one_op("ttnn.typecast", "", [((4, 4), "f32")], ((4, 4), "bf16"), ["f32", "f32"]))
    assert made.narrowed == ("f32 -> bf16 at ttnn.typecast",)


def test_truth_values_fit_every_format() -> None:
    text = Text()
    wide, narrow = text.kind((4, 4), "f32"), text.kind((4, 4), "bf16")
    text.function(
        [
            f'%0 = "ttnn.gt"(%arg0, %arg0) <{{{NO_FUNCTIONS}}}> : ({wide}, {wide}) -> {wide}',
            f'%1 = "ttnn.typecast"(%0) : ({wide}) -> {narrow}',
            f'%2 = "ttnn.where"(%1, %arg0, %arg0) : ({narrow}, {wide}, {wide}) -> {wide}',
        ],
        [wide],
        [wide],
        "%2",
        before=("f32", "f32"),
    )
    assert program(text.written()).narrowed == ()


def test_an_op_whose_result_is_narrower_is_named_itself() -> None:
    made = program(one_op("ttnn.multiply", NO_FUNCTIONS, [((4, 4), "f32")] * 2, ((4, 4), "bf16"), ["f32"] * 3))
    assert made.narrowed == ("f32 -> bf16 at ttnn.multiply",)


def test_arguments_with_fewer_bits_than_before_are_named() -> None:
    made = program(one_op("ttnn.neg", "", [((4, 4), "f32")], ((4, 4), "f32"), ["f64", "f64"]))
    assert made.narrowed == ("f64 -> f32 at argument 0",)


def test_operands_that_say_where_are_no_values() -> None:
    text = Text()
    table, index, rows = text.kind((4, 4), "bf16"), text.kind((2, 1), "si32"), text.kind((2, 4), "bf16")
    words = "column = false, fill_out_of_bounds = false, sizes = array<i64: 4>, windows = array<i64: 1>"
    text.function(
        [f'%0 = "ttnn.rows_gather"(%arg0, %arg1) <{{{words}}}> : ({table}, {index}) -> {rows}'],
        [table, index],
        [rows],
        "%0",
        before=("i1", "i32", "i1"),
    )
    assert program(text.written()).narrowed == ()

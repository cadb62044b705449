"""Text of tt-mlir's executables is read, kept and printed back as it stands."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, NameLoc, StringAttr

from opscope.compiler.errors import CompilerInputError
from opscope.compiler.tt_mlir import locations
from opscope.compiler.tt_mlir.attributes import attribute, escaped, type_of, unescaped, written
from opscope.compiler.tt_mlir.brackets import parts
from opscope.compiler.tt_mlir.locations import location, place_of
from opscope.compiler.tt_mlir.module import name_of
from opscope.compiler.tt_mlir.printer import to_text
from opscope.compiler.tt_mlir.reader import is_tt_mlir, read_tt_mlir
from opscope.compiler.tt_mlir.tests.emitted import NO_FUNCTIONS, Text, one_op

ADD = one_op("ttnn.add", NO_FUNCTIONS, [((2, 3), "f32"), ((2, 3), "f32")], ((2, 3), "f32"), ["f64", "f64", "f64"])


def _with_everything() -> str:
    text = Text()
    x, flat, many = text.kind((2, 3), "f32"), text.kind((6,), "f32"), text.kind((2, 3), "ui16")
    text.function(
        [
            '%0 = "ttnn.get_device"() <{mesh_offset = #ttnn<mesh_offset 0x0>, mesh_shape = #ttnn<mesh_shape 1x1>}> '
            ": () -> !ttnn.device",
            '%1 = "ttnn.full"(%0) <{fill_value = 0x7FC00000 : f32, shape = #ttnn.shape<2x3>}> : (!ttnn.device) -> ' + x,
            f'%2 = "ttnn.reshape"(%1) <{{shape = [6 : i32]}}> {{seen}} : ({x}) -> {flat}',
        ],
        [],
        [flat],
        "%2",
        name="constants",
    )
    text.function(
        [
            f"%0 = ttcore.load_cached(@constants, []) : () -> {flat}",
            f'%values, %indices = "ttnn.sort"(%arg0) <{{stable = false, dim = -1 : si32}}> : ({x}) -> ({x}, {many})',
            f'%values_0, %indices_1 = "ttnn.sort"(%values) <{{dim = 1 : si32, words = ["a\\22b", @f]}}> : ({x}) -> '
            f"({x}, {many})",
            f'%1:2 = "ttnn.split"(%values_0) <{{sizes = array<i64: 1, -2>, no = array<i32>}}> : ({x}) -> ({x}, {flat})',
            f'"ttnn.deallocate"(%1#0) <{{force = false}}> : ({x}) -> ()',
        ],
        [x],
        [flat, flat],
        "%0, %1#1",
    )
    return text.written()


@pytest.mark.parametrize("text", [ADD, _with_everything()], ids=["add", "everything"])
def test_a_module_is_printed_as_it_was_read(text: str) -> None:
    assert to_text(read_tt_mlir(text)) == text


def test_ops_keep_names_attributes_and_locations() -> None:
    module = read_tt_mlir(_with_everything())
    constants, main = module.functions
    assert [name_of(op) for op in main.body.block.ops][:2] == ["ttcore.load_cached", "ttnn.sort"]
    full = list(constants.body.block.ops)[1]
    assert written(full.properties["shape"]) == "#ttnn.shape<2x3>"
    where = full.location
    assert isinstance(where, NameLoc)
    assert where.desc.data == "net/op"
    assert isinstance(where.location, FileLineColLoc)
    assert where.location.line.data == 3


def test_a_location_is_its_outermost_name_and_innermost_call() -> None:
    known = {"#a": FileLineColLoc(StringAttr("a.py"), IntAttr(3), IntAttr(7))}
    for text, want in (
        ('"net/op"("net/layer"(#a))', "net/op (a.py:3)"),
        ('"f"(callsite("g"(#a) at "b.py":9:1))', "f (a.py:3)"),
        ('fused[#a, "b.py":9:1]', "a.py:3"),
        ('"b.py":9:1 to :5', "b.py:9"),
        ('"op"', "op"),
        ("unknown", ""),
    ):
        place = location(text, known.__getitem__)
        assert place_of(place) == want
        assert locations.written(place, {id(value): name for name, value in known.items()}) == text


def test_what_is_ours_is_not_taken_for_tt_mlirs() -> None:
    assert is_tt_mlir(ADD)
    assert not is_tt_mlir('builtin.module {\n  "ttnn.add"() : () -> ()\n}')


@pytest.mark.parametrize(
    "words",
    [
        "true",
        "7 : i32",
        "-7 : si32",
        "7 : ui64",
        "5.000000e-01 : f32",
        "0x7FC00000 : f32",
        "0xFF80 : bf16",
        "0xCE6E0000 : f32",
        '"a\\22\\0A"',
        "[1 : i32, false]",
        "array<i64: 3, -1>",
        "array<i32>",
        "@main",
        "#ttnn.shape<>",
        "tensor<2x3xsi32>",
        "!ttnn.device",
        '#ttnn.conv2d_config<a = true, b = "x, y">',
        "dense<[1, 2]> : tensor<2xsi32>",
        "tensor<f32>",
    ],
)
def test_attributes_are_written_as_they_were(words: str) -> None:
    assert written(attribute(words)) == words


def test_strings_are_bytes() -> None:
    assert unescaped("a\\C3\\A9\\\\") == "aé\\"
    assert escaped("aé\\") == '"a\\C3\\A9\\\\"'


def test_commas_in_brackets_and_strings_part_nothing() -> None:
    assert parts('a<(d0, d1) -> (d0)>, "b, >", [c, d]') == ["a<(d0, d1) -> (d0)>", '"b, >"', "[c, d]"]


def test_equal_types_are_one_object() -> None:
    assert type_of("tensor<2xf32, #ttnn.x>") is type_of("tensor<2xf32, #ttnn.x>")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('%2 = "ttnn.add"(%0, %1)', '%2 = "ttnn.add"(%0, %9)', "expected a value that an op before makes, got %9"),
        ('%2 = "ttnn.add"(', '%2, %3 = "ttnn.add"(', "expected 1 results of ttnn.add, got 2"),
        ("#ttnn_layout = ", "#ttnn_other = ", "expected an alias that the text defines, got #ttnn_layout"),
        ("#loc1 = loc(unknown)", "", "expected a location that the text defines, got #loc1"),
        ("      } loc(#loc2)\n    }", "    }", "expected a module that ends with its bracket"),
        ('%2 = "ttnn.add"', "%2 = ttnn.add", "expected an op of tt-mlir"),
        ("func.func @main", "llvm.func @main", "expected a module or a function"),
    ],
)
def test_other_text_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    assert old in ADD
    with pytest.raises(CompilerInputError, match=r"^net\.mlir:\d+: ") as caught:
        read_tt_mlir(ADD.replace(old, new, 1), "net.mlir")
    assert message in str(caught.value)


def test_operands_of_another_type_are_refused() -> None:
    text = one_op("ttnn.exp", "", [((2, 3), "f32")], ((2, 3), "f32"))
    line = next(line for line in text.splitlines() if "ttnn.exp" in line)
    wrong = line.replace("(tensor<2x3xf32", "(tensor<3x2xf32", 1)
    with pytest.raises(CompilerInputError, match=r"expected operands of ttnn.exp of the types that it names"):
        read_tt_mlir(text.replace(line, wrong))

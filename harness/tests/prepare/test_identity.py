from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

import pytest

from opscope.base.tests.captured import captured
from opscope.harness.prepare.identity import VERSION
from opscope.harness.prepare.mlir import load, to_bytecode
from opscope.harness.prepare.mlir.door import ir
from opscope.harness.prepare.split import split_module
from opscope.harness.tests import frozen_ids
from opscope.harness.tests.split_cases import RUNNABLE, SHARDED

PAIRS = frozen_ids.pairs()


def id_of(body: str, arguments: str = "%x: tensor<4xf32>, %y: tensor<4xf32>", last: int = -1) -> str:
    """Id of the last op of a function whose body is `body`."""
    text = f"func.func @main({arguments}) {{\n{body}\nreturn\n}}"
    return [node for node in split_module(text).program.nodes if node.kind != "constant"][last].op_id


def test_frozen_ids_stay_as_they_are() -> None:
    assert len(PAIRS) == 200
    assert VERSION == "opscope-op-1", "a new algorithm needs new frozen pairs: see frozen_ids.py"
    wrong = [op_id for op_id, module in PAIRS.items() if op_id not in split_module(module).ops]
    assert not wrong


def test_frozen_ops_differ_from_each_other_in_more_than_locations() -> None:
    texts = [str(load(module)) for module in PAIRS.values()]
    assert len({re.sub(r"@\w+", "@", text) for text in texts}) == len(texts)


# This process has a seed of its own, so that one other shows it.
@pytest.mark.parametrize("seed", ["0", pytest.param("4711", marks=pytest.mark.slow)])
def test_ids_are_equal_in_other_processes_whatever_the_hash_seed(seed: str) -> None:
    code = (
        "import json; from opscope.harness.tests import frozen_ids;"
        "from opscope.harness.prepare.split import split_module;"
        "print(json.dumps([list(split_module(m).ops) for m in frozen_ids.pairs().values()]))"
    )
    run = captured([sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, check=True)
    assert json.loads(run.stdout) == [list(split_module(module).ops) for module in PAIRS.values()]


def test_symbol_names_do_not_matter() -> None:
    renamed = 0
    for op_id, bytecode in PAIRS.items():
        module = load(bytecode)
        for i, function in enumerate(list(module.body.operations)):
            name = function.attributes["sym_name"].value
            if name != "main":
                ir.SymbolTable.replace_all_symbol_uses(name, f"zz{i}", module.operation)
                function.attributes["sym_name"] = ir.StringAttr.get(f"zz{i}", module.context)
                renamed += 1
        assert op_id in split_module(to_bytecode(module)).ops
    assert renamed >= 5


def test_locations_do_not_matter() -> None:
    assert id_of('%0 = stablehlo.add %x, %y : tensor<4xf32> loc("a"("f.py":1:2))') == id_of(
        '%0 = stablehlo.add %x, %y : tensor<4xf32> loc("b")'
    )


CONV = """%0 = stablehlo.convolution(%x, %y) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {WINDOW}
  {batch_group_count = 1 : i64, feature_group_count = 1 : i64 MORE} :
  (tensor<1x6x6x2xf32>, tensor<3x3x2x4xf32>) -> tensor<1x4x4x4xf32>"""
CONV_ARGUMENTS = "%x: tensor<1x6x6x2xf32>, %y: tensor<3x3x2x4xf32>"
COMPARE = "%0 = stablehlo.compare LT, %x, %y KIND : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>"
REDUCE = """%i = stablehlo.constant dense<START> : tensor<f32>
  %0 = "stablehlo.reduce"(%x, %i) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %r = stablehlo.BODY : tensor<f32>
      stablehlo.return %r : tensor<f32>
  }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>"""


def reduce_op(start: str, body: str) -> str:
    return REDUCE.replace("START", start).replace("BODY", body)


def conv(window: str, more: str = "") -> str:
    return CONV.replace("WINDOW", window).replace("MORE", more)


@pytest.mark.parametrize(
    ("one", "other", "arguments"),
    [
        (conv(""), conv("stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1]"), CONV_ARGUMENTS),
        (conv(""), conv("reverse = [false, false]"), CONV_ARGUMENTS),
        (
            conv(""),
            conv("", ", precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]"),
            None,
        ),
        (COMPARE.replace("KIND", ""), COMPARE.replace("KIND", ", FLOAT"), None),
        (
            "%0 = stablehlo.exponential %x : tensor<4xf32>",
            "%0 = stablehlo.exponential %x {result_accuracy = #stablehlo.result_accuracy<mode = "
            "#stablehlo.result_accuracy_mode<DEFAULT>>} : tensor<4xf32>",
            None,
        ),
        (
            "%0 = stablehlo.negate %x : tensor<4xf32>",
            '%0 = stablehlo.negate %x {mhlo.frontend_attributes = {a = "b"}} : tensor<4xf32>',
            None,
        ),
        (
            "%0 = stablehlo.custom_call @F(%x) : (tensor<4xf32>) -> tensor<4xf32>",
            '%0 = stablehlo.custom_call @F(%x) {api_version = 1 : i32, backend_config = "", has_side_effect = false}'
            " : (tensor<4xf32>) -> tensor<4xf32>",
            None,
        ),
        (reduce_op("0.0", "add %a, %b"), reduce_op("0x00000000", "add %a, %b"), None),
        (
            "%c = stablehlo.constant dense<2.0> : tensor<4xf32>\n%0 = stablehlo.add %x, %c : tensor<4xf32>",
            "%c = stablehlo.constant dense<2.0> : tensor<f32>\n"
            "%d = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<2x2xf32>\n"
            "%e = stablehlo.reshape %d : (tensor<2x2xf32>) -> tensor<4xf32>\n%0 = stablehlo.add %x, %e : tensor<4xf32>",
            None,
        ),
        (
            "%c = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>\n"
            "%0 = stablehlo.add %x, %c : tensor<4xf32>",
            "%0 = stablehlo.add %x, %y : tensor<4xf32>",
            None,
        ),
    ],
)
def test_the_same_op_spelled_differently_has_one_id(one: str, other: str, arguments: str | None) -> None:
    keywords: dict[str, Any] = {"arguments": arguments or (CONV_ARGUMENTS if "convolution" in one else ARGUMENTS)}
    assert id_of(one, **keywords) == id_of(other, **keywords)


ARGUMENTS = "%x: tensor<4xf32>, %y: tensor<4xf32>"


def maximum(literal: str) -> str:
    return f"%c = stablehlo.constant dense<{literal}> : tensor<4xf32>\n%0 = stablehlo.maximum %x, %c : tensor<4xf32>"


def test_the_default_of_a_comparison_follows_its_operands() -> None:
    for element, kind in (("f32", "FLOAT"), ("i32", "SIGNED"), ("ui8", "UNSIGNED"), ("i1", "UNSIGNED")):
        plain, spelled = (COMPARE.replace("KIND", text).replace("4xf32", f"4x{element}") for text in ("", f", {kind}"))
        arguments = f"%x: tensor<4x{element}>, %y: tensor<4x{element}>"
        assert id_of(plain, arguments) == id_of(spelled, arguments), element


DIFFERENT = {
    "maximum with 0, 1, -0, infinity": [maximum("0.0"), maximum("1.0"), maximum("-0.0"), maximum("0x7F800000")],
    "operand order of a constant": [
        "%c = stablehlo.constant dense<1.0> : tensor<4xf32>\n%0 = stablehlo.subtract %x, %c : tensor<4xf32>",
        "%c = stablehlo.constant dense<1.0> : tensor<4xf32>\n%0 = stablehlo.subtract %c, %x : tensor<4xf32>",
    ],
    "one value twice or two values": [
        "%0 = stablehlo.multiply %x, %x : tensor<4xf32>",
        "%0 = stablehlo.multiply %x, %y : tensor<4xf32>",
    ],
    "start values and regions": [
        reduce_op("0.0", "add %a, %b"),
        reduce_op("1.0", "add %a, %b"),
        reduce_op("0.0", "maximum %a, %b"),
        reduce_op("0.0", "subtract %a, %b"),
        reduce_op("0.0", "subtract %b, %a"),
    ],
    "sharding": [
        "%0 = stablehlo.negate %x : tensor<4xf32>",
        '%0 = stablehlo.negate %x {mhlo.sharding = "{replicated}"} : tensor<4xf32>',
    ],
    "comparison": [
        COMPARE.replace("KIND", ""),
        COMPARE.replace("KIND", ", TOTALORDER"),
        COMPARE.replace("KIND", "").replace("LT", "LE"),
    ],
    "custom call target and config": [
        "%0 = stablehlo.custom_call @F(%x) : (tensor<4xf32>) -> tensor<4xf32>",
        "%0 = stablehlo.custom_call @G(%x) : (tensor<4xf32>) -> tensor<4xf32>",
        '%0 = stablehlo.custom_call @F(%x) {backend_config = "k"} : (tensor<4xf32>) -> tensor<4xf32>',
    ],
    "slices": [
        "%0 = stablehlo.slice %x [0:4:2] : (tensor<4xf32>) -> tensor<2xf32>",
        "%0 = stablehlo.slice %x [1:4:2] : (tensor<4xf32>) -> tensor<2xf32>",
        "%0 = stablehlo.slice %x [0:2:1] : (tensor<4xf32>) -> tensor<2xf32>",
    ],
}


@pytest.mark.parametrize("bodies", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_ops_that_mean_different_things_have_different_ids(bodies: list[str]) -> None:
    ids = [id_of(body) for body in bodies]
    assert len(set(ids)) == len(ids)


def test_strides_and_types_enter_the_id() -> None:
    strided = conv("stride = [2, 2], pad = [[2, 2], [2, 2]]")
    ids = {id_of(text, CONV_ARGUMENTS) for text in (strided, conv(""), conv("reverse = [true, false]"))}
    ids |= {
        id_of(f"%0 = stablehlo.add %x, %x : tensor<{t}>", f"%x: tensor<{t}>")
        for t in ("4xf32", "4xbf16", "2x2xf32", "4xi32", "4xui32", "4xi1")
    }
    assert len(ids) == 9
    shapes = split_module(
        """func.func @main(%x: tensor<6xf32>) -> (tensor<2x3xf32>, tensor<3x2xf32>) {
             %0 = stablehlo.reshape %x : (tensor<6xf32>) -> tensor<2x3xf32>
             %1 = stablehlo.reshape %x : (tensor<6xf32>) -> tensor<3x2xf32>
             return %0, %1 : tensor<2x3xf32>, tensor<3x2xf32>
           }"""
    )
    assert len(shapes.ops) == 2


def test_names_of_meshes_and_numbers_of_channels_do_not_matter_but_what_they_stand_for_does() -> None:
    ids = list(split_module(SHARDED).ops)
    assert list(split_module(SHARDED.replace("@devices", "@m").replace("handle = 1", "handle = 7")).ops) == ids
    other = list(split_module(SHARDED.replace('"x"=2', '"x"=4').replace("handle = 1", "handle = 0")).ops)
    assert [a == b for a, b in zip(ids, other, strict=True)] == [False, False, False]


def test_a_changed_function_changes_the_id_of_what_calls_it() -> None:
    text = RUNNABLE["composite_with_version_and_nested_decomposition"]
    first, second = (set(split_module(t).ops) for t in (text, text.replace("stablehlo.add", "stablehlo.multiply")))
    assert first.isdisjoint(second)
    attribute = set(split_module(text.replace("1.0e-5", "1.0e-6")).ops)
    assert attribute.isdisjoint(first)
    loop = RUNNABLE["while_captures_inside_nested_if_and_calls"]
    ids = [
        next(n.op_id for n in split_module(t).program.nodes if n.name == "stablehlo.while")
        for t in (loop, loop.replace("stablehlo.sine", "stablehlo.cosine"))
    ]
    assert ids[0] != ids[1]

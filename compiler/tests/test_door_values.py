"""What only orders ops, what stands elsewhere in the file, and what lies too deep."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.base.stablehlo.nesting import MOST_NESTED
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir import door, text

LOOP = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %t = stablehlo.create_token : !stablehlo.token
  %z = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %b:2 = stablehlo.optimization_barrier %t, %x : !stablehlo.token, tensor<4xf32>
  %r:3 = stablehlo.while(%i = %z, %k = %b#0, %v = %b#1) : tensor<i32>, !stablehlo.token, tensor<4xf32>
    cond { %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %c : tensor<i1> }
    do { %j = stablehlo.add %i, %one : tensor<i32>
         %w, %l = func.call @twice(%v, %k) : (tensor<4xf32>, !stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
         stablehlo.return %j, %l, %w : tensor<i32>, !stablehlo.token, tensor<4xf32> }
  %a = stablehlo.tuple %r#1, %r#2 : tuple<!stablehlo.token, tensor<4xf32>>
  %e = stablehlo.get_tuple_element %a[1] : (tuple<!stablehlo.token, tensor<4xf32>>) -> tensor<4xf32>
  return %e : tensor<4xf32>
}
func.func private @twice(%v: tensor<4xf32>, %t: !stablehlo.token) -> (tensor<4xf32>, !stablehlo.token) {
  %w = stablehlo.add %v, %v : tensor<4xf32>
  return %w, %t : tensor<4xf32>, !stablehlo.token
}"""


def test_tokens_are_dropped_from_whatever_carries_them():
    module = door.read(LOOP)
    module.verify()
    words = text.to_text(module)
    assert "token" not in words
    loop = next(op for op in module.walk() if op.name == "stablehlo.while")
    assert [len(block.args) for region in loop.regions for block in region.blocks] == [2, 2]
    assert len(loop.results) == 2
    end = next(op for op in reversed(list(module.walk())) if op.name == "func.return")
    assert list(end.operands) == [loop.results[1]]


RESOURCE = """module {{
func.func @main() -> tensor<{kind}> {{
  %c = stablehlo.constant dense_resource<w> : tensor<{kind}>
  return %c : tensor<{kind}>
}}
}}
{{-# dialect_resources: {{ builtin: {{ w: "0x04000000{data}" }} }} #-}}"""


@pytest.mark.parametrize(("kind", "dtype"), [("2x3xf32", "f4"), ("6xi64", "i8"), ("3x2xbf16", "u2"), ("6xi1", "?")])
def test_constants_that_stand_at_the_end_of_the_file_have_their_bits(kind, dtype):
    data = np.arange(6).astype(dtype).tobytes()
    [constant] = [
        op for op in door.read(RESOURCE.format(kind=kind, data=data.hex())).walk() if op.name == "stablehlo.constant"
    ]
    assert constant.properties.get("value", constant.attributes.get("value")).data.data == data


def test_a_constant_whose_bytes_are_of_another_number_is_refused():
    with pytest.raises(StageFailure, match="expected the values of tensor<4xf32> in the module's resources, got 4 by"):
        door.read(RESOURCE.format(kind="4xf32", data="00000000"))


def nested(depth: int) -> str:
    """Branches in one another."""
    inner = "stablehlo.return %x : tensor<4xf32>"
    for level in range(depth):
        end = "stablehlo.return" if level < depth - 1 else "return"
        inner = (
            f'%r{level} = "stablehlo.if"(%p) ({{ {inner} }}, {{ stablehlo.return %x : tensor<4xf32> }})'
            f" : (tensor<i1>) -> tensor<4xf32>\n{end} %r{level} : tensor<4xf32>"
        )
    return f"func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {{ {inner} }}"


def test_regions_are_read_to_the_stated_depth():
    assert sum(op.name == "stablehlo.if" for op in door.read(nested(MOST_NESTED)).walk()) == MOST_NESTED
    with pytest.raises(StageFailure, match=f"nested at most {MOST_NESTED} deep, got {MOST_NESTED + 1}; try"):
        door.read(nested(MOST_NESTED + 1))

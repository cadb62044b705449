"""Modules that are for several devices never pass as a program of one, whoever wrote the sharding and wherever."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from opscope.compiler.api import load_board, stablehlo_to_ttir
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir import door
from opscope.harness.prepare.golden import GoldenError, compile_module
from opscope.harness.prepare.split import split_module
from opscope.harness.record.errors import InputError

SHAPES = ((8, 16), (10, 6), (7, 3), (64, 32))
"""Even, uneven and prime sizes for axes of 2 and 4 devices."""
MESHES = ('["x"=2, "y"=4]', '["x"=8]', '["x"=1, "y"=2]')
SPLITS = ("rows", "contracted", "both")


def dims(split: str, mesh: str, side: int) -> str:
    """The dims of a sharding of the left (0) or right (1) operand of a dot: K is the left's last, the right's first."""
    *_, last = axes = [part.split('"')[1] for part in mesh.split(",")]
    contracted = [f'{{"{last}"}}', "{}"] if side else ["{}", f'{{"{last}"}}']
    rows = ["{}", f'{{"{last}"}}'] if side else [f'{{"{last}"}}', "{}"]
    both = [f'{{"{last}"}}', "{?}"] if side else ["{}", f'{{"{", ".join(axes)}"}}'.replace(", ", '", "')]
    return ", ".join({"rows": rows, "contracted": contracted, "both": both}[split])


def gspmd(split: str) -> str:
    tiles = {"rows": "2,1]<=[2]", "contracted": "1,2]<=[2]", "both": "2,2]<=[4]"}[split]
    return f'mhlo.sharding = "{{devices=[{tiles}}}"'


def on_arguments(shape: tuple[int, int], mesh: str, split: str, spelling: str) -> str:
    """A dot whose arguments are sharded, in Shardy's or GSPMD's words."""
    n, k = shape
    marks = [f"sdy.sharding = #sdy.sharding<@m, [{dims(split, mesh, side)}]>" for side in (0, 1)]
    marks = marks if spelling == "sdy" else [gspmd(split)] * 2
    return f"""sdy.mesh @m = <{mesh}>
    func.func @main(%a: tensor<{n}x{k}xf32> {{{marks[0]}}}, %b: tensor<{k}x5xf32> {{{marks[1]}}})
        -> tensor<{n}x5xf32> {{
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<{n}x{k}xf32>, tensor<{k}x5xf32>) -> tensor<{n}x5xf32>
      return %0 : tensor<{n}x5xf32>
    }}"""


def on_a_value(shape: tuple[int, int], mesh: str, split: str, spelling: str) -> str:
    """A sharding in the middle, inside a loop of a called function: nested as models have it."""
    n, k = shape
    t = f"tensor<{n}x{k}xf32>"
    sharding = f"#sdy.sharding<@m, [{dims(split, mesh, 0)}]>"
    escaped = sharding.replace('"', "\\22")
    escaped = escaped.removeprefix("#sdy.sharding")
    per_value = f"#sdy.sharding_per_value<[<@m, [{dims(split, mesh, 0)}]>]>"
    to_shard = '{mhlo.sharding = "{manual}"}'
    middle = {
        "op": f"%v = stablehlo.tanh %c {{sdy.sharding = {per_value}}} : {t}",
        "constraint": f"%v = sdy.sharding_constraint %c <@m, [{dims(split, mesh, 0)}]> : {t}",
        "call": f"%v = stablehlo.custom_call @Sharding(%c) {{{gspmd(split)}}} : ({t}) -> {t}",
        "to_shard": f"%v = stablehlo.custom_call @SPMDFullToShardShape(%c) {to_shard} : ({t}) -> {t}",
        "frontend": f"%v = stablehlo.custom_call @xla.sdy.FuncResultSharding(%c) {{mhlo.frontend_attributes = "
        f'{{xla.sdy.sharding = "#sdy.sharding_per_value<[{escaped}]>"}}}} : ({t}) -> {t}',
    }[spelling]
    return f"""sdy.mesh @m = <{mesh}>
    func.func private @f(%x: {t}) -> {t} {{
      %i = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.while(%n = %i, %c = %x) : tensor<i32>, {t}
        cond {{
          %three = stablehlo.constant dense<3> : tensor<i32>
          %p = stablehlo.compare LT, %n, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }} do {{
          %one = stablehlo.constant dense<1> : tensor<i32>
          %n1 = stablehlo.add %n, %one : tensor<i32>
          {middle}
          stablehlo.return %n1, %v : tensor<i32>, {t}
        }}
      return %r#1 : {t}
    }}
    func.func @main(%a: {t}) -> {t} {{
      %0 = func.call @f(%a) : ({t}) -> {t}
      return %0 : {t}
    }}"""


def manual(shape: tuple[int, int], mesh: str, split: str, spelling: str) -> str:
    """What `jax.shard_map` writes; the body keeps the shape, so that nothing but the op itself tells."""
    n, k = shape
    t = f"tensor<{n}x{k}xf32>"
    last = mesh.split(",")[-1].split('"')[1]
    return f"""sdy.mesh @m = <{mesh}>
    func.func @main(%a: {t}) -> {t} {{
      %0 = sdy.manual_computation(%a) in_shardings=[<@m, [{{}}, {{}}]>] out_shardings=[<@m, [{{}}, {{}}]>]
        manual_axes={{"{last}"}} (%x: {t}) {{
          %1 = stablehlo.negate %x : {t}
          sdy.return %1 : {t}
      }} : ({t}) -> {t}
      return %0 : {t}
    }}"""


def modules() -> Iterator[str]:
    """All kinds in every mesh, shape and split, in a seeded order."""
    everything = [
        make(shape, mesh, split, spelling)
        for shape, mesh, split in itertools.product(SHAPES, MESHES, SPLITS)
        for make, spelling in (
            (on_arguments, "sdy"),
            (on_arguments, "gspmd"),
            (on_a_value, "op"),
            (on_a_value, "constraint"),
            (on_a_value, "call"),
            (on_a_value, "to_shard"),
            (on_a_value, "frontend"),
            (manual, ""),
        )
    ]
    random.Random(17).shuffle(everything)
    yield from everything


def test_200_sharded_modules_pass_neither_the_compiler_nor_the_splitter() -> None:
    count = 0
    for text in itertools.islice(modules(), 200):
        with pytest.raises(StageFailure, match="expected a program for one device") as refused:
            door.read(text)
        assert refused.value.kind == "notimpl"
        with pytest.raises(InputError, match="expected a program for one device"):
            split_module(text)
        count += 1
    assert count == 200


def test_the_first_stage_names_what_is_sharded() -> None:
    text = on_arguments((8, 16), MESHES[0], "contracted", "sdy")
    with pytest.raises(StageFailure, match=r'^stablehlo-to-ttir: @main: .*sdy.sharding = .*\[\{\}, \{"y"\}\]'):
        stablehlo_to_ttir(text, system_desc=load_board("n150"))


@pytest.mark.parametrize(
    "mark",
    [
        "sdy.sharding = #sdy.sharding<@m, [{}, {?}]>",
        'mhlo.sharding = "{replicated}"',
        'mhlo.sharding = "{devices=[1,1]<=[1]}"',
        'jax.result_info = "x"',
    ],
)
def test_what_splits_nothing_is_one_devices_program(mark: str) -> None:
    text = on_arguments((8, 16), MESHES[0], "rows", "sdy").replace(
        'sdy.sharding = #sdy.sharding<@m, [{"y"}, {}]>', mark
    )
    text = text.replace('sdy.sharding = #sdy.sharding<@m, [{}, {"y"}]>', "jax.buffer_donor = true")
    door.read(text)
    assert len(split_module(text).ops) == 1


def test_a_mesh_of_one_device_splits_nothing() -> None:
    text = on_arguments((8, 16), '["x"=1, "y"=1]', "both", "sdy")
    assert len(split_module(text).ops) == 1
    assert door.read(text)


@pytest.mark.parametrize(
    ("attributes", "several"),
    [
        ("replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>", True),
        ("replica_groups = dense<0> : tensor<1x1xi64>", False),
        ("replica_groups = dense<[[0, 1, 2], [3, -1, -1]]> : tensor<2x3xi64>", True),
    ],
)
def test_one_devices_value_is_no_golden_of_a_collective(attributes: str, several: bool) -> None:
    text = f"""func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = "stablehlo.all_reduce"(%a) ({{
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %s = stablehlo.add %x, %y : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }}) {{{attributes}}} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}"""
    if several:
        with pytest.raises(GoldenError, match="got one that several compute together"):
            compile_module(text)
    else:
        compile_module(text)


def test_a_permutation_between_devices_has_no_golden_of_one() -> None:
    text = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.collective_permute"(%a) {source_target_pairs = dense<PAIRS> : tensor<1x2xi64>}
        : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    compile_module(text.replace("PAIRS", "[[0, 0]]"))
    with pytest.raises(GoldenError, match="got one that several compute together"):
        compile_module(text.replace("PAIRS", "[[0, 1]]"))

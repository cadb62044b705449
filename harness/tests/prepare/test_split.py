from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.prepare import split as splitting
from opscope.harness.prepare.golden import GoldenError, compile_module
from opscope.harness.prepare.mlir import load
from opscope.harness.prepare.mlir.values import DTYPES
from opscope.harness.prepare.program import Node, Program, SplitModule
from opscope.harness.prepare.split import split_module
from opscope.harness.record.errors import InputError
from opscope.harness.tests import frozen_ids
from opscope.harness.tests.split_cases import CUSTOM_CALLS, RUNNABLE, SHAPED, SHARDED, SORT_THAT_CAPTURES, UNSPLITTABLE

ALL = {
    **RUNNABLE,
    "sort_that_captures": SORT_THAT_CAPTURES,
    "shaped": SHAPED,
    "sharded": SHARDED,
    "custom_calls": CUSTOM_CALLS,
    "unsplittable": UNSPLITTABLE,
}


def seeded(split: SplitModule) -> list[np.ndarray]:
    """One seeded array per argument of the whole module; integers small, so that loops end."""
    rng = np.random.default_rng(7)
    arrays = []
    for number in split.program.arguments:
        desc = split.values[number]
        dtype = np.dtype(DTYPES[desc.data_type])
        if dtype.kind in "iub":
            array = rng.integers(0, 4, desc.shape)
        elif dtype.kind == "c":
            array = rng.standard_normal(desc.shape) + 1j * rng.standard_normal(desc.shape)
        else:
            array = rng.standard_normal(desc.shape)
        arrays.append(np.asarray(array).astype(dtype))
    return arrays


class Evaluator:
    """Runs a split program op by op; loops either as the whole op or through their bodies."""

    def __init__(self, split: SplitModule, through_bodies: bool) -> None:
        self.split, self.through_bodies = split, through_bodies
        self.compiled: dict[str, Callable[..., list[np.ndarray]]] = {}

    def run(self, program: Program, inputs: Sequence[Any], outer: Mapping[int, Any]) -> list[Any]:
        env = {n: outer[n] for n in program.captures} | dict(zip(program.arguments, inputs, strict=True))
        for node in program.nodes:
            if node.kind == "constant":
                env[node.results[0]] = node.value
            elif node.bodies and self.through_bodies:
                env.update(zip(node.results, self.loop(node, env), strict=True))
            else:
                if node.op_id not in self.compiled:
                    self.compiled[node.op_id] = compile_module(self.split.ops[node.op_id].bytecode)
                results = self.compiled[node.op_id]([np.asarray(env[n]) for n in node.inputs])
                env.update(zip(node.outputs, results, strict=True))
        return [env[n] for n in program.results]

    def loop(self, node: Node, env: Mapping[int, Any]) -> list[Any]:
        if node.name == "stablehlo.while":
            cond, body = node.bodies
            state = [env[n] for n in node.operands]
            while self.run(cond, state, env)[0]:
                state = self.run(body, state, env)
            return state
        index = int(env[node.operands[0]])
        if node.name == "stablehlo.if":
            index = 0 if index else 1
        elif not 0 <= index < len(node.bodies):
            index = -1
        return self.run(node.bodies[index], [], env)


@pytest.mark.parametrize(
    ("name", "through_bodies"),
    [(name, False) for name in RUNNABLE] + [(name, True) for name in RUNNABLE if "while" in name or "case" in name],
)
def test_running_the_split_ops_gives_what_xla_gives_for_the_module(name: str, through_bodies: bool) -> None:
    text = RUNNABLE[name]
    split = split_module(text)
    inputs = seeded(split)
    if "@forward" in text:  # XLA wants the entry to be called @main
        text = text.replace("@main", "@inner").replace("@forward", "@main")
    wanted = compile_module(text)(inputs)
    got = Evaluator(split, through_bodies).run(split.program, inputs, {})
    assert len(got) == len(wanted)
    for ours, xla in zip(got, wanted, strict=True):
        assert ours.dtype == xla.dtype
        wide = np.complex128 if xla.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(np.asarray(ours).astype(wide), xla.astype(wide), rtol=1e-6)


def count(block: Any, functions: dict[str, Any], depth: int = 0) -> int:
    """Ops of a block, by a recursion of its own: loops and callees included, other regions not."""
    total = 0
    for view in block.operations:
        op = view.operation
        total += 1
        if op.name in ("stablehlo.while", "stablehlo.if", "stablehlo.case"):
            total += sum(count(region.blocks[0], functions, depth) for region in op.regions)
        if op.name == "func.call":
            callee = functions[op.attributes["callee"].value]
            if len(callee.regions[0].blocks) and depth < 1 + (op.attributes["callee"].value != "endless"):
                total += count(callee.regions[0].blocks[0], functions, depth + 1)
    return total


@pytest.mark.parametrize("name", ALL)
def test_no_op_is_lost(name: str) -> None:
    split = split_module(ALL[name])
    module = load(ALL[name])
    functions: dict[str, Any] = {op.attributes["sym_name"].value: op for op in module.body.operations}
    entry = functions["forward"] if "forward" in functions else functions["main"]
    assert split.module_ops == count(entry.regions[0].blocks[0], functions)
    assert split.module_ops == split.uses + split.unsplittable_uses + split.structural
    nodes = [node for node in split.program.walk() if node.kind != "constant"]
    assert len(nodes) == split.uses + split.unsplittable_uses
    paths = [use.path for op in split.ops.values() for use in op.uses]
    assert sorted(paths) == sorted(node.path for node in nodes)
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("name", ALL)
def test_splitting_a_single_op_module_gives_that_op_again(name: str) -> None:
    for op in split_module(ALL[name]).ops.values():
        if not op.unsplittable:
            again = split_module(op.bytecode)
            assert op.op_id in again.ops
            assert again.ops[op.op_id].inputs == op.inputs
            assert again.ops[op.op_id].outputs == op.outputs == tuple(again.values[n] for n in again.program.results)


# quick: one case in 15, which have 50 kinds of ops among them; the slow one has all
@pytest.mark.parametrize("step", [15, pytest.param(1, marks=pytest.mark.slow)])
def test_no_op_of_the_conformance_cases_is_lost(step: int) -> None:
    archive = Path(__file__).parents[4] / "shared" / "data" / "stablehlo_cases.zip"
    if not archive.exists():
        pytest.skip(f"the conformance cases are not beside the repository ({archive.name})")
    kinds: set[str] = set()
    with zipfile.ZipFile(archive) as pack:
        names = sorted(name for name in pack.namelist() if name.endswith(".mlir"))
        for name in [*names[::step], "1201.mlir"]:
            split = split_module(pack.read(name))
            assert split.module_ops == split.uses + split.structural, name
            for op in split.ops.values():
                kinds.add(op.op_name)
                again = split_module(op.bytecode).ops
                assert op.op_id in again, (name, op.op_name)
    assert len(kinds) >= 50


def test_unsplittable_ops_are_rows_with_a_reason() -> None:
    split = split_module(UNSPLITTABLE)
    reasons = {op.op_name: op.unsplittable for op in split.ops.values() if op.unsplittable}
    assert reasons["stablehlo.create_token"] == "it computes no tensor"
    assert "tuple" in reasons["stablehlo.get_tuple_element"]
    assert "dynamic shape" in reasons["stablehlo.negate"]
    calls = [op.unsplittable for op in split.ops.values() if op.op_name == "func.call"]
    assert calls == ["@outside has no body of one block", "@endless calls itself"]
    printed = next(op for op in split.ops.values() if op.op_name == "stablehlo.custom_call:Print")
    assert not printed.unsplittable
    assert [desc.shape for desc in printed.inputs] == [(4,)]
    assert [desc.shape for desc in printed.outputs] == [(4,)]


def ops_of(text: str) -> dict[str, Any]:
    return {op.op_name: op for op in split_module(text).ops.values()}


def test_composite_symbols_do_not_matter_and_decompositions_come_along() -> None:
    split = split_module(RUNNABLE["composite_with_version_and_nested_decomposition"])
    (op,) = split.ops.values()
    assert len(op.uses) == 2
    names = {str(f.attributes["sym_name"].value) for f in load(op.bytecode).body.operations}
    assert names == {"main", "impl_1", "deep_1"}
    assert op.op_params["version"] == "2 : i32"


REDUCTIONS = """
func.func @main(%a: tensor<4x8xf32>, %i: tensor<4x8xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %sum = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %max = stablehlo.reduce(%a init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %first:2 = stablehlo.reduce(%a init: %low), (%i init: %none) across dimensions = [1]
    : (tensor<4x8xf32>, tensor<4x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
    reducer(%l: tensor<f32>, %r: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {
      %c = stablehlo.compare GE, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %v = stablehlo.select %c, %l, %r : tensor<i1>, tensor<f32>
      %k = stablehlo.select %c, %m, %n : tensor<i1>, tensor<i32>
      stablehlo.return %v, %k : tensor<f32>, tensor<i32>
    }
  return %sum, %max, %first#0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}"""


def test_the_record_names_what_a_reduction_combines_with() -> None:
    bodies = [op.op_params["body"] for op in split_module(REDUCTIONS).ops.values()]
    assert bodies == ["stablehlo.add", "stablehlo.maximum", "stablehlo.compare, stablehlo.select, stablehlo.select"]


def test_custom_calls_are_named_by_their_target() -> None:
    ops = ops_of(CUSTOM_CALLS)
    assert set(ops) == {"stablehlo.custom_call:Alpha", "stablehlo.custom_call:Beta"}
    assert b"inner" in ops["stablehlo.custom_call:Alpha"].bytecode


def test_own_constants_stay_inside_and_others_become_arguments() -> None:
    split = split_module(RUNNABLE["constants_of_every_kind"])
    program, arguments = split.program, set(split.program.arguments)
    dense = next(n for n in program.nodes if n.kind == "constant" and n.value is not None and n.value.shape == (2,))
    by_name = {node.path: node for node in program.nodes}
    add, multiply = by_name["main/10"], by_name["main/11"]
    assert add.inputs == (program.arguments[0], dense.results[0])
    assert multiply.inputs == (program.arguments[0],)
    assert set(multiply.operands) - arguments, "the splat came through a broadcast and a reshape"
    broadcast = by_name["main/2"]
    assert broadcast.name == "stablehlo.broadcast_in_dim"
    assert broadcast.inputs == broadcast.operands, "an op of nothing but constants keeps its first as argument"
    only_constants = by_name["main/17"]
    assert only_constants.inputs == only_constants.operands[:1]


def test_constant_values_are_exact() -> None:
    values = [n.value for n in split_module(RUNNABLE["constants_of_every_kind"]).program.nodes if n.kind == "constant"]
    by_type: dict[str, list[np.ndarray]] = {}
    for value in values:
        assert value is not None
        assert not value.flags.writeable
        by_type.setdefault(value.dtype.name, []).append(value)
    np.testing.assert_array_equal(by_type["float32"][0], [1.5, -2.25])
    assert np.signbit(by_type["float32"][-1])
    assert by_type["bfloat16"][0].view(np.uint16).tolist() == [0x3F00, 0x7FC0]
    np.testing.assert_array_equal(by_type["complex64"][0], [1 - 2j, 1 - 2j])
    np.testing.assert_array_equal(by_type["complex64"][1], [1 - 2j, 0.5 + 3j])
    np.testing.assert_array_equal(by_type["int4"][0], np.array([3, -4], ml_dtypes.int4))
    assert by_type["bool"][0].all()


def test_a_mesh_comes_along_with_the_op_that_names_it() -> None:
    ops = ops_of(SHARDED)
    assert "sdy.mesh @devices" in str(load(ops["stablehlo.negate"].bytecode))
    assert "sdy.mesh" not in str(load(ops["stablehlo.all_reduce"].bytecode))


def test_names_of_ops_in_a_loop_of_a_called_function_follow_the_call() -> None:
    text = """
      func.func @main(%n: tensor<i32>) -> tensor<i32> {
        %0 = func.call @f(%n) : (tensor<i32>) -> tensor<i32> loc("net/layer2"("net.py":9:1))
        return %0 : tensor<i32>
      }
      func.func private @f(%n: tensor<i32>) -> tensor<i32> {
        %0 = stablehlo.while(%i = %n) : tensor<i32> cond {
          %p = stablehlo.compare NE, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1> loc("cond/ne")
          stablehlo.return %p : tensor<i1>
        } do {
          stablehlo.return %i : tensor<i32>
        } loc("while")
        return %0 : tensor<i32>
      }"""
    ops = ops_of(text)
    assert [use.location for use in ops["stablehlo.while"].uses] == ["net/layer2/while (net.py:9)"]
    assert [use.location for use in ops["stablehlo.compare"].uses] == ["net/layer2/cond/ne (net.py:9)"]


def test_shape_operands_stay_inside() -> None:
    ops = ops_of(SHAPED)
    assert [desc.shape for desc in ops["stablehlo.dynamic_reshape"].inputs] == [(6,)]
    assert ops["stablehlo.dynamic_iota"].inputs == ()


def test_captures_of_a_comparator_become_arguments_and_splats_stay_inside() -> None:
    split = split_module(SORT_THAT_CAPTURES)
    (sort,) = (node for node in split.program.nodes if node.kind == "op")
    assert sort.operands == split.program.arguments[:1]
    assert sort.inputs == split.program.arguments
    printed = str(load(split.ops[sort.op_id].bytecode))
    assert "constant dense<2.000000e+00>" in printed
    assert "subtract %arg2, %arg1" in printed


def test_bodies_are_programs_with_captures() -> None:
    split = split_module(RUNNABLE["while_captures_inside_nested_if_and_calls"])
    loop = next(node for node in split.program.nodes if node.name == "stablehlo.while")
    cond, body = loop.bodies
    x, y, n = split.program.arguments
    assert cond.captures == (n,)
    assert y in body.captures
    assert set(loop.inputs) == {x, y, n}, "what the nested if captures is an argument of the loop's module"
    branch = next(node for node in body.nodes if node.name == "stablehlo.if").bodies[0]
    assert {node.path for node in branch.nodes} == {"main/3.body/3.true/0", "main/3.body/3.true/1"}
    sine = next(op for op in split.ops.values() if op.op_name == "stablehlo.sine")
    assert [use.path for use in sine.uses] == ["main/3.body/3.false/0@step/0"]


def test_a_value_that_a_body_only_hands_on_is_a_capture() -> None:
    split = split_module(RUNNABLE["case_with_captures"])
    case = next(node for node in split.program.nodes if node.bodies)
    index, x = split.program.arguments
    assert [body.captures for body in case.bodies] == [(x,), (x,)]
    assert case.bodies[0].nodes == ()
    assert case.inputs == (index, x)


def test_a_converted_splat_is_an_argument_unless_the_type_stays() -> None:
    text = """
      func.func @main(%x: tensor<4xi32>, %y: tensor<4xf32>) -> (tensor<4xi32>, tensor<4xf32>) {
        %c = stablehlo.constant dense<1.5> : tensor<4xf32>
        %i = stablehlo.convert %c : (tensor<4xf32>) -> tensor<4xi32>
        %f = stablehlo.convert %c : tensor<4xf32>
        %0 = stablehlo.add %x, %i : tensor<4xi32>
        %1 = stablehlo.add %y, %f : tensor<4xf32>
        return %0, %1 : tensor<4xi32>, tensor<4xf32>
      }"""
    nodes = {node.path: node for node in split_module(text).program.nodes}
    assert nodes["main/3"].inputs == nodes["main/3"].operands
    assert nodes["main/4"].inputs == nodes["main/4"].operands[:1]


def test_each_use_has_its_location_and_model() -> None:
    text = """
      func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
        %0 = stablehlo.negate %x : tensor<3xf32> loc("net/layer1/neg"("net.py":7:3))
        %1 = func.call @f(%0) : (tensor<3xf32>) -> tensor<3xf32> loc("net/layer2"("net.py":9:1))
        return %1 : tensor<3xf32>
      }
      func.func private @f(%x: tensor<3xf32>) -> tensor<3xf32> {
        %0 = stablehlo.negate %x : tensor<3xf32> loc("neg")
        return %0 : tensor<3xf32>
      }"""
    (op,) = split_module(text, "net").ops.values()
    assert [(u.model, u.path, u.location, u.framework_op) for u in op.uses] == [
        ("net", "main/0", "net/layer1/neg (net.py:7)", "neg"),
        ("net", "main/1@f/0", "net/layer2/neg (net.py:9)", "neg"),
    ]
    printed = load(op.bytecode).operation.get_asm(enable_debug_info=True)
    assert "net/layer1/neg" in printed
    assert "net.py" in printed


@each(
    ("text", "expected", "got"),
    [
        ("module {}", "a function @main, or one public function", "no function"),
        ("func.func @f() { return }\nfunc.func @g() { return }", "a function @main", "@f, @g"),
        ("func.func private @main(tensor<1xf32>)", "a function with a body", "a declaration"),
    ],
)
def test_a_module_without_an_entry_is_refused(text: str, expected: str, got: str) -> None:
    with pytest.raises(InputError) as error:
        split_module(text)
    assert expected in str(error.value)
    assert got in str(error.value)


@pytest.mark.slow
def test_xla_compiles_every_frozen_single_op_module() -> None:
    refused = set()
    for op_id, module in frozen_ids.pairs().items():
        try:
            compile_module(module)
        except GoldenError:
            refused.add(split_module(module).ops[op_id].op_name)
    assert refused == {"stablehlo.custom_call:Alpha", "stablehlo.custom_call:Beta"}, "targets that exist nowhere"


def test_calls_nested_without_end_are_refused_in_one_line() -> None:
    functions = [
        f"func.func private @f{i}(%x: tensor<f32>) -> tensor<f32> {{\n"
        f"%0 = func.call @f{i + 1}(%x) : (tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32>\n}}"
        for i in range(3000)
    ]
    last = "func.func private @f3000(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    text = "\n".join([*functions, last]).replace("private @f0", "public @main")
    with pytest.raises(InputError, match="nested a few hundred deep at most, got deeper ones"):
        split_module(text)


def chain(length: int) -> str:
    """A module of `length` additions, one after another, each with its location."""
    lines = [
        f'%v{i} = stablehlo.add %v{i - 1}, %b : tensor<32x32xf32> loc("op{i}"("chain.py":{i}:1))'
        for i in range(1, length + 1)
    ]
    return (
        "func.func @main(%v0: tensor<32x32xf32>, %b: tensor<32x32xf32>) -> tensor<32x32xf32> {\n"
        + "\n".join(lines)
        + f"\nreturn %v{length} : tensor<32x32xf32>\n}}"
    )


def test_calls_of_calls_are_counted_before_they_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "COUNTED_AT", 1000)
    call = "call @f{} : (tensor<f32>) -> tensor<f32>"
    functions = "\n".join(
        f"func.func private @f{n}(%a: tensor<f32>) -> tensor<f32> {{ %0 = {call.format(f'{n - 1}(%a)')}"
        f" %1 = {call.format(f'{n - 1}(%0)')} return %1 : tensor<f32> }}"
        for n in range(1, 41)
    )
    text = f"""{functions}
      func.func private @f0(%a: tensor<f32>) -> tensor<f32> {{ return %a : tensor<f32> }}
      func.func @main(%a: tensor<f32>) -> tensor<f32> {{
        %0 = {call.format("40(%a)")}
        return %0 : tensor<f32> }}"""
    line = "^nest: expected at most 2,000,000 ops, got 4,398,046,511,103 with all calls expanded"
    with pytest.raises(InputError, match=line):
        split_module(text, "nest")


@each(
    ("resources", "got"),
    [("", "no values in the file"), ('{-# dialect_resources: { builtin: { w: "0x040000000000803F" } } #-}', "4 bytes")],
)
def test_a_resource_that_is_missing_or_of_another_size_is_refused(resources: str, got: str) -> None:
    text = f"""func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = stablehlo.constant dense_resource<w> : tensor<4xf32>
      %1 = stablehlo.add %a, %0 : tensor<4xf32>
      return %1 : tensor<4xf32> }}
    {resources}"""
    line = (
        rf"net: dense_resource<w\w*>: expected the values of tensor<4xf32>, got {got}; try exporting with all weights"
    )
    with pytest.raises(InputError, match=line):
        split_module(text, "net")


def test_tuples_that_are_only_taken_apart_are_other_names() -> None:
    split = split_module("""func.func @main(%x: tensor<4xf32>, %y: tensor<2xi32>) -> (tensor<2xi32>, tensor<4xf32>) {
      %0 = stablehlo.negate %x : tensor<4xf32>
      %1 = stablehlo.tuple %0, %y : tuple<tensor<4xf32>, tensor<2xi32>>
      %2 = stablehlo.tuple %1, %x : tuple<tuple<tensor<4xf32>, tensor<2xi32>>, tensor<4xf32>>
      %3 = stablehlo.get_tuple_element %2[0]
        : (tuple<tuple<tensor<4xf32>, tensor<2xi32>>, tensor<4xf32>>) -> tuple<tensor<4xf32>, tensor<2xi32>>
      %4 = stablehlo.get_tuple_element %3[0] : (tuple<tensor<4xf32>, tensor<2xi32>>) -> tensor<4xf32>
      %5 = stablehlo.get_tuple_element %3[1] : (tuple<tensor<4xf32>, tensor<2xi32>>) -> tensor<2xi32>
      %6 = stablehlo.abs %4 : tensor<4xf32>
      return %5, %6 : tensor<2xi32>, tensor<4xf32>
    }""")
    negate, absolute = split.program.nodes
    assert absolute.inputs == negate.outputs
    assert split.program.results == (split.program.arguments[1], *absolute.outputs)
    assert (split.module_ops, split.structural, split.uses, split.unsplittable_uses) == (8, 6, 2, 0)

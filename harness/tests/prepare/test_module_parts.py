"""Small parts of preparing a model, each by itself: what is read of modules and files, and how refusals are worded."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opscope.base import clocks
from opscope.base.children.ending import Cause, ChildEnded, Ending
from opscope.base.tests.each import each
from opscope.harness.prepare import disk_space, exporting, file_models, operand_sizes, whole_manifest, zoo
from opscope.harness.prepare.allowance import Allowance, BudgetSpent, ModelRefused
from opscope.harness.prepare.identity import is_default
from opscope.harness.prepare.mlir import context, door, load, open_shapes, to_bytecode
from opscope.harness.prepare.mlir.locations import Place
from opscope.harness.prepare.mlir.single_op import CannotBuildError, build_module, literal, symbols_in
from opscope.harness.prepare.mlir.tagged import tagged
from opscope.harness.prepare.mlir.variant import Form, _inferred, read, region_kinds
from opscope.harness.prepare.onnx_suite.onnx_cases import Choice
from opscope.harness.prepare.program import SingleOp
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.walk import Limits
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import ManifestHeader, OpRow, TensorDesc, Use
from opscope.models.frontends import own_results
from opscope.models.frontends.base import Source


def tensor(*shape: int, kind: str = "f32") -> TensorDesc:
    return TensorDesc(shape=shape, data_type=kind)


# --- reading modules


def test_a_module_of_another_context_is_refused_by_its_name() -> None:
    other = door.ir.Context()
    other.allow_unregistered_dialects = True
    foreign = door.ir.Module.parse('"foo.bar"() : () -> ()', other)
    for where, named in (("", "module"), ("net", "net")):
        with pytest.raises(InputError, match=f"^{named}: expected StableHLO as text"):
            load(foreign, where)


@each(
    ("source", "line"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x01", "got bytes that begin 89 50 4e 47 0d 0a 1a 0a; try another file"),
        ("x" * 40, f"got a text that is no MLIR ('{'x' * 30}'); try another file"),
        (
            "func.func @main(%x: tensor<4x!bar.a<3>>) {\n return }",
            "net:1:35: expected StableHLO as text, MLIR bytecode or portable artifact, got the unknown dialect `bar`; "
            "try exporting the model to StableHLO",
        ),
        (
            "module {\n  baz.one foo.bar\n}",
            "net:2:3: expected StableHLO as text, MLIR bytecode or portable artifact, "
            "got the unknown dialect `baz`; try exporting the model to StableHLO",
        ),
    ],
)
def test_a_text_that_is_no_module_is_refused_in_full(source: bytes | str, line: str) -> None:
    with pytest.raises(InputError) as caught:
        load(source, "net")
    assert str(caught.value).endswith(line)


@each(
    ("message", "text", "line"),
    [
        (
            "error: bad thing\nmore",
            None,
            "net: {}, got truncated or damaged bytecode (bad thing); try writing the file",
        ),
        ('error: "-":3:7: bad thing  \nmore', "module", "net:3:7: expected valid StableHLO, got bad thing"),
        ("Unable to parse it\nbad thing\nmore", "module", "net: expected valid StableHLO, got bad thing"),
        ('error: "-":2:3: unregistered dialect', "module {\n  foo.bar }", "net:2:3: {}, got the unknown dialect `foo`"),
        (
            'error: "-":2:9: unregistered dialect',
            'module {\n  "foo.bar" }',
            "net:2:9: {}, got the unknown dialect `foo`",
        ),
        ("Dialect `a.b' not found", None, "net: {}, got the unknown dialect `a.b`; try exporting the model"),
        ("dialect 'vhlo' is unknown", None, "net: {}, got the unknown dialect `vhlo`; try exporting the model"),
    ],
)
def test_mlir_errors_become_one_line(message: str, text: str | None, line: str) -> None:
    expected = "expected StableHLO as text, MLIR bytecode or portable artifact"
    assert str(door._refused(message, "net", text)).startswith(line.format(expected))


@each(
    ("notes", "error", "reason"),
    [
        ([], "x error: too small\nmore", "too small"),
        ([], "plain\nmore", "plain"),
        (["first\nmore", "b"], "x", "first"),
        (['loc("shape_assertion"): at least 2. Using the following polymorphic shapes'], "x", "at least 2."),
        (["y" * 300], "x", "y" * 200),
    ],
)
def test_why_sizes_do_not_fit_is_one_line(notes: list[str], error: str, reason: str) -> None:
    assert open_shapes._reason(notes, Exception(error)) == reason


def test_a_place_inside_a_call() -> None:
    call = Place("net/layer", "net.py", 9)
    for inner, place in (
        (Place("neg", "f.py", 3), "net/layer/neg (f.py:3)"),
        (Place("neg"), "net/layer/neg (net.py:9)"),
        (Place("", "f.py", 3), "net/layer (f.py:3)"),
        (Place(), "net/layer (net.py:9)"),
    ):
        assert str(inner.inside(call)) == place
    assert (str(Place("neg").inside(Place("", "net.py", 9))), str(Place("neg").inside(Place()))) == (
        "neg (net.py:9)",
        "neg",
    )
    assert [Place(name).framework_op for name in ("a/b:", "a", "")] == ["b", "a", ""]


# --- one op


@each(
    ("array", "text"),
    [
        (np.float32([1, 1.5]), '"0x0000803F0000C03F"'),
        (np.array([True, False]), "[true, false]"),
        (np.array(True), "true"),
        (np.float32(1), "0x3F800000"),
        (np.broadcast_to(np.float64(1), (3,)), "0x3FF0000000000000"),
        (np.array([1], ml_dtypes.bfloat16), "0x3F80"),
        (np.array([1], ml_dtypes.float8_e4m3fn), "0x38"),
        (np.complex64(1 - 2j), "(0x3F800000, 0xC0000000)"),
        (np.int8(-3), "-3"),
        (np.array([3], ml_dtypes.int4), "3"),
        (np.zeros((1, 1), np.float32), "0x00000000"),
        (np.uint64(2**64 - 1), str(2**64 - 1)),
    ],
)
def test_the_literal_of_a_constant(array: np.ndarray, text: str) -> None:
    assert literal(np.asarray(array)) == text


CALLING = """func.func private @main_0(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = func.call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.negate %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @top(%x: tensor<4xf32>, %t: !stablehlo.token) -> tensor<4xf32> {
    %0 = stablehlo.composite "own.twice" %x {decomposition = @main_0} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.after_all %t : !stablehlo.token
    return %0 : tensor<4xf32>
  }"""


def test_referenced_functions_come_along_under_new_names() -> None:
    module = load(CALLING)
    functions: dict[str, Any] = {op.attributes["sym_name"].value: op.operation for op in module.body.operations}
    first, token = list(functions["top"].regions[0].blocks[0].operations)[:2]
    assert (symbols_in(first.operation), symbols_in(functions["main_0"])) == (["main_0"], ["main"])
    x = functions["top"].regions[0].blocks[0].arguments[0]

    def built(view: Any, symbol: Any = functions.get) -> Any:
        return build_module(view.operation, lambda value: 0 if value == x else None, [(0, x.type)], {}, [], symbol)

    with context():
        alone = built(first)
        names = [(str(op.attributes["sym_name"]), "sym_visibility" in op.attributes) for op in alone.body.operations]
        assert names == [('"main"', False), ('"main_0"', True), ('"main_1"', True)]
        assert "call @main_1" in str(alone)
        with pytest.raises(CannotBuildError, match=r"^it refers to @main, which the module does not have$"):
            built(first, {"main_0": functions["main_0"]}.get)
        with pytest.raises(CannotBuildError, match=r"^it computes no tensor$"):
            built(token)


def test_kinds_of_values_that_regions_return() -> None:
    sort = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.reduce_window"(%a, %s) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        BODY }) {window_dimensions = array<i64: 1>} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }""".replace("%0 =", "%s = stablehlo.constant dense<0.0> : tensor<f32>\n%0 =", 1)
    for body, kinds in (
        ("stablehlo.return %y : tensor<f32>", ("argument",)),
        ("%z = stablehlo.maximum %x, %y : tensor<f32>\nstablehlo.return %z : tensor<f32>", ("stablehlo.maximum",)),
    ):
        assert region_kinds(to_bytecode(load(sort.replace("BODY", body)))) == kinds
    assert read(to_bytecode(load(sort.replace("BODY", "stablehlo.return %y : tensor<f32>")))).region_ops == 0


def test_types_that_the_verifier_infers() -> None:
    form = Form("x", ((2,),), ("f32",), ((2,),), ("f32",), (), (0,))
    two = Form("x", ((2,),), ("f32",), ((2,), (3,)), ("f32", "i1"), (), (0,))
    types = "inferred type(s) 'tensor<4x5xbf16>, tensor<complex<f32>>' are incompatible with"
    assert _inferred(types, form) is None
    inferred = _inferred(types, two)
    assert inferred is not None
    assert (inferred.results, inferred.result_types) == (((4, 5), ()), ("bf16", "complex<f32>"))
    shape = _inferred("inferred shape '[4, 15]' is", form)
    assert shape is not None
    assert (shape.results, shape.result_types) == (((4, 15),), ("f32",))
    assert _inferred("inferred shape '[4, 15]' is", two) is None
    assert _inferred("something else", form) is None
    assert (form.elements, two.elements) == (4, 7)


@each(
    ("op", "attribute", "token", "element", "default"),
    [
        ("stablehlo.compare", "compare_type", "ComparisonTypeAttr<UNSIGNED>", "ui8", True),
        ("stablehlo.compare", "compare_type", "ComparisonTypeAttr<UNSIGNED>", "i1", True),
        ("stablehlo.compare", "compare_type", "ComparisonTypeAttr<SIGNED>", "i8", True),
        ("stablehlo.compare", "compare_type", "ComparisonTypeAttr<SIGNED>", "i1", False),
        ("stablehlo.compare", "compare_type", "ComparisonTypeAttr<FLOAT>", "bf16", True),
        ("stablehlo.compare", "compare_type", "ComparisonTypeAttr<FLOAT>", "i8", False),
        ("stablehlo.compare", "compare_type", "ComparisonTypeAttr<NOTYPE>", "f32", True),
        ("stablehlo.compare", "compare_type", "ComparisonTypeAttr<TOTALORDER>", "f32", False),
        ("stablehlo.sort", "is_stable", "b0", "f32", True),
        ("stablehlo.sort", "is_stable", "b1", "f32", False),
        ("stablehlo.add", "is_stable", "b0", "f32", False),
        ("stablehlo.sort", "dimension", "-1:i64", "f32", True),
        ("stablehlo.add", "channel_handle", "ChannelHandle<0;0>", "f32", True),
        ("stablehlo.sort", "dimension", "-1:i64x", "f32", False),
    ],
)
def test_attributes_with_the_specifications_default(
    op: str, attribute: str, token: str, element: str, default: bool
) -> None:
    assert is_default(op, attribute, token, element) is default


# --- sums


@each(
    ("name", "body", "sums"),
    [
        ("dot_general", None, True),
        ("convolution", None, True),
        ("reduce", "stablehlo.add", True),
        ("reduce", "stablehlo.maximum", False),
        ("reduce", None, False),
        ("scatter", "stablehlo.add", True),
        ("select_and_scatter", "stablehlo.compare; stablehlo.add", True),
        ("select_and_scatter", None, False),
        ("select_and_scatter", "stablehlo.add; stablehlo.maximum", False),
        ("add", "stablehlo.add", False),
    ],
)
def test_which_ops_sum_terms(name: str, body: str | None, sums: bool) -> None:
    assert operand_sizes.sums_terms(f"stablehlo.{name}", body) is sums


def test_operands_are_squared_in_their_type_and_stay_finite() -> None:
    def squared(values: Any, kind: Any) -> Any:
        return operand_sizes.squares(np.array(values, kind))

    squares = squared([2, -3, 1e30, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(squares, np.float32([4, 9, 1e36, 1e36, 0]))
    np.testing.assert_array_equal(squared([2, 1e18], np.float64), [4, 1e36])
    np.testing.assert_array_equal(squared([3 + 4j], np.complex64), np.complex64([25]))
    assert squared([2], ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16
    assert squared([300], np.float16) == np.inf, "float16 ends at 65504"
    x, i = np.float32([2]), np.int32([2])
    assert [each.tolist() for each in operand_sizes.squared("stablehlo.scatter", [x, i, x])] == [[4], [2], [4]]
    assert [each.tolist() for each in operand_sizes.squared("stablehlo.select_and_scatter", [x, x, x])] == [
        [2],
        [4],
        [4],
    ]
    kinds = {
        np.float32: True,
        np.complex64: True,
        ml_dtypes.bfloat16: True,
        np.int32: False,
        np.bool_: False,
        ml_dtypes.int4: False,
    }
    assert {kind: operand_sizes.is_float(np.zeros(1, kind)) for kind in kinds} == kinds
    roots = operand_sizes.root_sizes(
        "stablehlo.reduce", lambda inputs: [inputs[0].sum(keepdims=True)], [np.float32([3, 4])]
    )
    assert [(root.tolist(), root.dtype) for root in roots] == [([5.0], np.float32)]
    [root] = operand_sizes.root_sizes("stablehlo.reduce", lambda inputs: [np.complex64([3 + 4j])], [])
    np.testing.assert_allclose(root, np.sqrt(5))


def test_room_for_the_terms_of_a_sum() -> None:
    def room(name: str, limit: int) -> int:
        op = SingleOp(
            "0", f"stablehlo.{name}", b"", (tensor(8, 4), tensor()), (tensor(8),), {"body": "stablehlo.add"}, ()
        )
        return disk_space._term_bytes(op, Limits(measured_bytes=limit))

    assert [room("reduce", limit) for limit in (131, 132)] == [0, 16]
    assert room("add", 132) == 0


# --- paths of a whole model


def test_each_place_of_a_call_has_its_own_copy_with_paths() -> None:
    text = """func.func @main(%n: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
        %1 = func.call @f(%0) : (tensor<4xf32>) -> tensor<4xf32>
        %2 = stablehlo.composite "own.twice" %1 {decomposition = @g} : (tensor<4xf32>) -> tensor<4xf32>
        %3 = "stablehlo.case"(%n) ({ %a = func.call @f(%2) : (tensor<4xf32>) -> tensor<4xf32>
          stablehlo.return %a : tensor<4xf32> }, { stablehlo.return %x : tensor<4xf32> })
          : (tensor<i32>) -> tensor<4xf32>
        %4 = stablehlo.while(%i = %3) : tensor<4xf32> cond {
          %p = stablehlo.constant dense<false> : tensor<i1>
          stablehlo.return %p : tensor<i1> } do { stablehlo.return %i : tensor<4xf32> }
        %5 = func.call @endless(%4) : (tensor<4xf32>) -> tensor<4xf32>
        return %5 : tensor<4xf32>
      }
      func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = stablehlo.negate %x : tensor<4xf32>
        return %0 : tensor<4xf32>
      }
      func.func private @g(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = stablehlo.abs %x : tensor<4xf32>
        %1 = func.call @f(%0) : (tensor<4xf32>) -> tensor<4xf32>
        %2 = stablehlo.tanh %1 : tensor<4xf32>
        return %2 : tensor<4xf32>
      }
      func.func private @endless(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = func.call @endless(%x) : (tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }"""
    module = load(tagged(to_bytecode(load(text))))
    names: list[tuple[str, str]] = []

    def note(op: Any) -> Any:
        if isinstance(op.location, door.ir.NameLoc):
            names.append((op.name.partition(".")[2], op.location.name_str))
        return door.ir.WalkResult.ADVANCE

    module.operation.walk(note)
    paths: dict[str, list[str]] = {}
    for kind, name in names:
        paths.setdefault(kind, []).append(name)
    assert sorted(paths["negate"]) == ["main/0@f/0", "main/1@f/0", "main/3.branch0/0@f/0", "part of main/2"]
    assert (paths["abs"], paths["tanh"]) == (["part of main/2"], ["main/2"])
    assert (paths["case"], paths["while"], paths["composite"]) == (["main/3"], ["main/4"], ["main/2"])
    assert paths["constant"] == ["main/4.cond/0"]
    assert sorted(paths["call"]) == [
        "main/0",
        "main/1",
        "main/3.branch0/0",
        "main/5",
        "main/5@endless/0",
        "part of main/2",
    ]
    called = [str(op.attributes["callee"]) for op in _ops(module) if op.name == "func.call"]
    assert {name for name in called if called.count(name) > 1} == {"@endless"}, "each call has a copy of its own"
    # The splitter counts the same places.
    uses = {use.path for op in split_module(text).ops.values() for use in op.uses}
    assert uses >= {"main/0@f/0", "main/1@f/0", "main/2", "main/3", "main/3.branch0/0@f/0", "main/4"}
    # An entry by another name is found if it is the only public one.
    other = text.replace("@main", "@forward").split("func.func private @endless")[0].replace("@endless", "@f")
    assert "main/0@f/0" in load(tagged(to_bytecode(load(other)))).operation.get_asm(enable_debug_info=True)


def _ops(module: Any) -> list[Any]:
    ops: list[Any] = []

    def note(op: Any) -> Any:
        ops.append(op)
        return door.ir.WalkResult.ADVANCE

    module.operation.walk(note)
    return ops


# --- files


def test_models_of_export_folders_are_rows_of_their_own(tmp_path: Path) -> None:
    row = OpRow(
        op_id="0" * 16, op_name="model", module=None, inputs=(), outputs=(), uses=(Use(model="m", path="main"),)
    )
    (tmp_path / "whole").mkdir()
    (tmp_path / "none").mkdir()
    (tmp_path / "whole" / "whole.json").write_text(row.model_dump_json())
    folders = (str(tmp_path / "whole"), str(tmp_path / "none"))
    header = ManifestHeader(models=("m", "n"), export_dirs=folders, module_ops={"m": 7, "n": 8}, structural={"m": 3})
    manifest, rows = whole_manifest.of_models(header)
    assert rows == [row]
    assert (manifest.models, manifest.module_ops, manifest.structural) == (("m", "n"), {"m": 1}, {"m": 0})


def test_a_file_and_its_model_in_one_word(tmp_path: Path) -> None:
    for name in ("net.mlir", "net.txt", "odd:name.mlir"):
        (tmp_path / name).write_text("")
    path = tmp_path / "net.mlir"
    assert file_models.file_and_model(f"{path}:fn") == (path, "fn")
    for word in (
        str(path),
        f"{path}:",
        f"{tmp_path}/net.txt:fn",
        f"{tmp_path}/none.mlir:fn",
        f"{tmp_path}/odd:name.mlir",
    ):
        assert file_models.file_and_model(f"{tmp_path}/{word}") is None, word


@each(
    ("text", "several"),
    [
        ("func.func @a()\nfunc.func @b()", True),
        ("func.func @a()\nfunc.func private @b()", False),
        ("func.func public @a()\nfunc.func public @b()", True),
        ("module {\n}\nmodule {\n}", True),
        ("module {\n}", False),
        ("", False),
        ("func.func @a()\nmodule {\n}", False),
    ],
)
def test_a_look_at_a_text_says_whether_it_may_hold_several_models(text: str, several: bool) -> None:
    assert file_models._may_have_several(text.encode()) is several


def test_a_sample_of_cases_is_drawn_in_their_order() -> None:
    every = [f"test_{letter}" for letter in "abcdefgh"] + ["other"]
    assert Choice().names(every) == every
    assert Choice("test_*").names(every) == every[:-1]
    assert [len(Choice("test_*", sample).names(every)) for sample in (0, 1, 7, 8, 9)] == [8, 1, 7, 8, 8]
    drawn = Choice("test_*", 3, 1).names(every)
    assert drawn == sorted(drawn) == Choice("test_*", 3, 1).names(every)
    assert len({tuple(Choice("test_*", 3, seed).names(every)) for seed in range(9)}) > 1


def test_the_table_of_sizes_is_a_line_a_model(tmp_path: Path) -> None:
    path = tmp_path / "sizes.json"
    assert zoo.table(path) == {}
    sizes = {"b": zoo.Sizes(3, 2, 1), "a": zoo.Sizes(6, 5, 4)}
    zoo.write(sizes, path)
    assert zoo.table(path) == sizes
    lines = [
        "{",
        '  "a": {"parameters": 6, "ops": 5, "unique_ops": 4},',
        '  "b": {"parameters": 3, "ops": 2, "unique_ops": 1}',
        "}",
    ]
    assert path.read_text().splitlines() == lines
    (tmp_path / "a.py").write_text('"""First\n  line.\n\nSecond."""')
    (tmp_path / "b.py").write_text("x = 1")
    assert [zoo.about(tmp_path / name) for name in ("a.py", "b.py")] == ["First line.", ""]


# --- an exporter


class Exporter:
    """An exporter's process that says some events and ends."""

    def __init__(self, ending: Ending, *events: dict[str, Any]) -> None:
        self.ending, self.events, self.log = ending, events, SimpleNamespace(last_line=lambda: "last", tail=str)

    def __call__(self, function: str, task: dict[str, Any], **more: Any) -> Any:
        self.task, self.more = task, more
        for event in self.events:
            more["on_message"](event)
        return self


DONE, FELL = Ending(Cause.RETURNED, ""), Ending(Cause.SIGNAL, "", 11)
BUILD = {"event": "stage", "stage": "export"}
EXPORT = exporting.Export("jax", Source("m", "m.py", "float32"), ())


@pytest.mark.parametrize(
    ("events", "ending", "error", "message"),
    [
        (
            [{"event": "refused", "where": "m", "expected": "a", "got": "b", "hint": ""}],
            DONE,
            ModelRefused,
            "m: expected a, got b",
        ),
        ([{"event": "failed", "stage": "export", "error": "e", "traceback": "t"}], DONE, exporting.ExportFailed, "e"),
        ([BUILD], FELL, exporting.ExportFailed, "signal SIGSEGV at export: last"),
        ([], FELL, exporting.ExportFailed, "signal SIGSEGV at build: last"),
        ([BUILD], DONE, None, ""),
        ([{"event": "exported"}], FELL, None, ""),
    ],
)
def test_how_an_exporter_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, events: list[Any], ending: Ending, error: Any, message: str
) -> None:
    monkeypatch.setattr(exporting, "call", exporter := Exporter(ending, *events))
    if error is None:
        exporting.run_exporter(EXPORT, tmp_path, Allowance(90), None)
    else:
        with pytest.raises(error) as caught:
            exporting.run_exporter(EXPORT, tmp_path, Allowance(90), None)
        assert str(caught.value) == message
    assert "own" not in exporter.task
    assert len(EXPORT.request_key()) == 20
    assert 89 < exporter.more["seconds"] <= 90
    if error is exporting.ExportFailed and ending is FELL:
        assert (caught.value.stage, caught.value.trace) == (message.split(" at ")[1].split(":")[0], "1000")
        with pytest.raises(BudgetSpent, match=caught.value.stage):
            exporting.run_exporter(EXPORT, tmp_path, Allowance(90, until=0.0), None)


def test_a_models_own_framework_has_a_third_of_the_time_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now, noted = [100.0], list[Any]()
    monkeypatch.setattr(clocks, "awake", lambda: now[0])
    monkeypatch.setattr(own_results, "note", lambda *values: noted.append(values))
    monkeypatch.setattr(exporting, "call", exporter := Exporter(DONE, {"event": "exported"}))
    own = exporting.Own(seed=3, cap=100)
    allowance = Allowance(90)
    exporting.run_exporter(EXPORT, tmp_path, allowance, own)
    assert (exporter.task["own"], noted) == ({"seed": 3, "cap": 100}, [])
    now[0] += 29
    exporter.more["watch"]()
    now[0] += 2
    with pytest.raises(ChildEnded, match="took its share of the time"):
        exporter.more["watch"]()
    monkeypatch.setattr(exporting, "call", Exporter(FELL, {"event": "exported"}))
    exporting.run_exporter(EXPORT, tmp_path, allowance, own)
    assert noted == [(tmp_path, 3, "signal SIGSEGV at its own framework: last", True)]
    monkeypatch.setattr(exporting, "call", early := Exporter(FELL))
    with pytest.raises(exporting.ExportFailed):
        exporting.run_exporter(EXPORT, tmp_path, allowance, own)
    early.more["watch"]()
    assert json.dumps(early.task["own"])

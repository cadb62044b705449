"""`--shape`: sizes for open dimensions, by name, number and argument; what they decide, and each way of refusing."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.harness.prepare import mlir
from opscope.harness.prepare.export import export_file
from opscope.harness.prepare.preparation import Preparation, tasks
from opscope.harness.prepare.split import split_module
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import ResultOptions, record_fields
from opscope.harness.settings.settings import resolve
from opscope.models.frontends import open_shapes
from opscope.models.frontends.base import Refused

NET = """func.func @{name}(%x: tensor<?x16xf32>, %t: !stablehlo.token, %w: tensor<16x8xf32>) -> tensor<?x8xf32> {{
  %0 = func.call @part(%x) : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
    : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
  %2 = stablehlo.abs %w : tensor<16x8xf32>
  return %1 : tensor<?x8xf32>
}}
func.func private @part(%x: tensor<?x16xf32>) -> tensor<?x16xf32> {{
  %0 = stablehlo.tanh %x : tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}}"""
"""`jax.export` of `tanh(x @ w)` with x of (batch, 8) and w of (8, n): the shapes' names, and one condition."""
NAMED = """func.func public @main(%x: tensor<?x8xf32>, %w: tensor<8x?xf32>) -> tensor<?x?xf32> {
  %b = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
  %n = stablehlo.get_dimension_size %w, dim = 1 : (tensor<8x?xf32>) -> tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %fits = stablehlo.compare GE, %b, %two, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%fits, %b) {api_version = 2 : i32, has_side_effect = true,
    error_message = "Expected 'batch' to be at least 2, but found {0}. Using the following polymorphic shapes ..."}
    : (tensor<i1>, tensor<i32>) -> ()
  %r = call @inner(%b, %n, %x, %w) : (tensor<i32>, tensor<i32>, tensor<?x8xf32>, tensor<8x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
func.func private @inner(%b: tensor<i32> {jax.global_constant = "batch"}, %n: tensor<i32> {jax.global_constant = "n"},
    %x: tensor<?x8xf32>, %w: tensor<8x?xf32>) -> tensor<?x?xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<?x8xf32>, tensor<8x?xf32>) -> tensor<?x?xf32>
  %1 = stablehlo.tanh %0 : tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}"""


def file_of(folder: Path, text: str) -> Path:
    (path := folder / "net.mlir").write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (NET.format(name="main"), "arg0=4x16"),
        (NET.format(name="forward"), "0=4"),
        (NAMED, "batch=4,n=8"),
        (NAMED, "arg0=4x8,n=8"),
        (NAMED, "arg1=8,0=4"),
    ],
)
def test_sizes_by_argument_number_and_name_give_every_op_its_shape(tmp_path: Path, text: str, shape: str) -> None:
    exported = export_file(file_of(tmp_path, text), shape=shape)
    ops = {op.op_name: op for op in split_module(exported.bytecode, "net").ops.values()}
    assert ops["stablehlo.dot_general"].outputs[0].shape == (4, 8)
    assert not any(op.unsplittable for op in ops.values())
    assert ops["stablehlo.tanh"].uses[0].location.startswith("net.mlir:")


@pytest.mark.parametrize(
    ("text", "shape", "line"),
    [
        (
            NAMED,
            "bathc=4",
            r"expected an argument or an open dimension \(arg0: \[batch, 8\], arg1: \[8, n\]\), "
            r"got 'bathc'; try --shape batch=1 --shape n=1",
        ),
        (NAMED, "batch=4", r"expected sizes for all open dimensions, got arg1: \[8, n\]; try --shape n=1"),
        (NAMED, "arg0=4x9", r"--shape arg0=4x9: expected sizes of \[batch, 8\], got \[4, 9\]"),
        (NAMED, "arg0=4x8x1", r"expected sizes of \[batch, 8\], got \[4, 8, 1\]"),
        (NAMED, "batch=4x4,n=1", r"expected one size for the dimension 'batch', got 2"),
        (NAMED, "arg0=4,batch=5", r"--shape batch=5: expected one size for 'batch', got 4 and 5"),
        (
            NAMED,
            "arg0=1,n=8",
            r"expected sizes that fit the model's ops, got Expected 'batch' to be at least 2, but "
            r"found 1.$",
        ),
        (NET.format(name="main"), "arg2=16x9", r"expected sizes of \[16, 8\], got \[16, 9\]"),
        (
            NET.format(name="forward") + NET.format(name="b").replace("@part", "@main").partition("}\n")[2],
            "0=4",
            r"expected no other function @main beside the entry, got @main; try naming the entry @main",
        ),
    ],
)
def test_wrong_names_and_sizes_are_one_line(tmp_path: Path, text: str, shape: str, line: str) -> None:
    with pytest.raises(InputError, match=line) as caught:
        export_file(file_of(tmp_path, text), shape=shape)
    assert "\n" not in str(caught.value)


def test_an_open_dimension_without_a_size_says_how_to_give_one() -> None:
    ops = {op.op_name: op.unsplittable for op in split_module(NET.format(name="main")).ops.values()}
    assert ops["stablehlo.tanh"].endswith("tensor<?x16xf32> has a dynamic shape in dim 0; try --shape arg0=1x16")
    assert not ops["stablehlo.abs"]
    named = split_module(mlir.parse(NAMED))
    assert any(op.unsplittable.endswith("; try --shape batch=1 --shape n=1") for op in named.ops.values())


def test_a_size_is_part_of_the_key_of_an_export(tmp_path: Path) -> None:
    path = str(file_of(tmp_path, NAMED))

    def folder(word: str, shape: str | None) -> str:
        return tasks(Preparation((word,), shape=shape, cache_dir=str(tmp_path / "cache")))[0].folder

    assert len({folder(path, shape) for shape in (None, "batch=4,n=8", "batch=5,n=8")}) == 3
    (tmp_path / "graph.pb").write_bytes(b"")
    [task] = tasks(Preparation((str(tmp_path / "graph.pb"),), shape="x=4", cache_dir=str(tmp_path)))
    assert task.export is not None
    assert task.export.source.sizes == "x=4"
    (tmp_path / "net.py").write_text("model = 3")
    for word, line in (("resnet50", "the model resnet50"), (str(tmp_path / "net.py"), "try example inputs of that")):
        with pytest.raises(InputError, match=rf"--shape: expected a model file that leaves sizes open, got .*{line}"):
            folder(word, "batch=4")


def test_the_option_is_read_from_everywhere_and_records_have_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.opscope]\nshape = ["n=8", "arg0=4x16"]\n')
    text = "arg0=4x16,n=8"
    assert resolve({"shape": ["n=8", "arg0=4x16"]}, tmp_path / "none", {})["shape"] == text
    assert resolve({}, tmp_path / "none", {"OPSCOPE_SHAPE": " n=8, arg0=4x16"})["shape"] == text
    assert resolve({}, tmp_path, {})["shape"] == text
    options = ResultOptions(shape={"n": 8, "arg0": (4, 16)})
    assert options.recorded()["shape"] == text
    assert record_fields()["shape"] == (str, "")
    assert options.flags(ResultOptions()) == ["--shape", text]


@pytest.mark.parametrize("word", ["4", "n=", "n=0", "n=-1", "=4", "n=4x", "a b=4", "n=99999999999"])
def test_an_invalid_size_is_refused_in_one_line(tmp_path: Path, word: str) -> None:
    with pytest.raises(
        InputError, match=r"--shape: expected NAME=SIZE with sizes above 0, got .*; try batch=4 or arg0"
    ):
        resolve({"shape": word}, tmp_path, {})


def test_one_name_has_one_size(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--shape: expected one size for 'n', got 4 and 5"):
        resolve({"shape": "n=4,n=5"}, tmp_path, {})


def test_a_name_stands_for_the_same_size_in_every_argument() -> None:
    graph = {"ids": ["batch", 7], "mask": ["batch", "?"], "table": [3]}
    assert open_shapes.bound(graph, "ids=2x7,mask=2x5", "net") == {"ids": (2, 7), "mask": (2, 5), "table": (3,)}
    assert open_shapes.bound(graph, "ids=2", "net")["mask"] == (2, "?")
    assert open_shapes.fixed(graph, "batch=2", "net") == {"ids": (2, 7)}
    assert open_shapes.hint(graph) == "--shape batch=1 --shape mask=1x1"
    with pytest.raises(Refused, match="--shape mask=3x5: expected one size for 'batch', got 2 and 3"):
        open_shapes.bound(graph, "ids=2,mask=3x5", "net")


SIZES = {
    "several constants": """
      %a = stablehlo.constant dense<[3]> : tensor<1xi32>
      %b = stablehlo.constant dense<[8]> : tensor<1xi32>
      %s = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>""",
    "arithmetic": """
      %a = stablehlo.constant dense<[1, 4]> : tensor<2xi32>
      %b = stablehlo.constant dense<[3, 2]> : tensor<2xi32>
      %s = stablehlo.multiply %a, %b : tensor<2xi32>""",
    "an argument's size": """
      %d = stablehlo.get_dimension_size %x, dim = 0 : (tensor<4x6xf32>) -> tensor<i32>
      %m = stablehlo.constant dense<1> : tensor<i32>
      %e = stablehlo.subtract %d, %m : tensor<i32>
      %a = stablehlo.reshape %e : (tensor<i32>) -> tensor<1xi32>
      %b = stablehlo.constant dense<[8]> : tensor<1xi32>
      %s = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>""",
    "a type of another width": """
      %a = stablehlo.constant dense<[3, 8]> : tensor<2xi64>
      %s = stablehlo.convert %a : (tensor<2xi64>) -> tensor<2xi32>""",
}
FOLDED = """func.func @main(%x: tensor<4x6xf32>) -> tensor<?x?xf32> {{{sizes}
  %y = stablehlo.dynamic_reshape %x, %s : (tensor<4x6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %z = stablehlo.negate %y : tensor<?x?xf32>
  return %z : tensor<?x?xf32>
}}"""


@pytest.mark.parametrize("sizes", SIZES)
def test_sizes_that_follow_from_constants_are_folded_before_the_split(tmp_path: Path, sizes: str) -> None:
    (tmp_path / "net.mlir").write_text(FOLDED.format(sizes=SIZES[sizes]))
    split = split_module(export_file(tmp_path / "net.mlir").bytecode, "net")
    assert [(op.op_name, op.outputs[0].shape) for op in split.ops.values()] == [
        ("stablehlo.reshape", (3, 8)),
        ("stablehlo.negate", (3, 8)),
    ]


def test_sizes_that_are_data_stay_open(tmp_path: Path) -> None:
    text = FOLDED.format(sizes="").replace("%x: tensor<4x6xf32>)", "%x: tensor<4x6xf32>, %s: tensor<2xi32>)")
    (tmp_path / "net.mlir").write_text(text)
    split = split_module(export_file(tmp_path / "net.mlir").bytecode, "net")
    assert "has a dynamic shape" in next(iter(split.ops.values())).unsplittable

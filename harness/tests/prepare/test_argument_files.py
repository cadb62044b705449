"""Values that come from files: which argument each is for, what is refused, and what the export folder holds then."""

from __future__ import annotations

import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from opscope.base.digest import file_digest
from opscope.base.tests.each import each
from opscope.harness.prepare.argument_files import FileValue, files, label, shapes, values
from opscope.harness.prepare.input_distributions import argument_distributions
from opscope.harness.prepare.mlir import load, to_bytecode
from opscope.harness.prepare.program import Node, Program
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.whole_row import products_in_a_row
from opscope.harness.record.element_types import load as load_array
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import TensorDesc
from opscope.models.arguments import ArgSpec
from opscope.models.frontends.base import ExportResult

DESCS = (TensorDesc(shape=(2, 3), data_type="f32"), TensorDesc(shape=(2,), data_type="bf16"))
A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1.5, -2], ml_dtypes.bfloat16)


def exported(*names: str, **fields) -> ExportResult:
    return ExportResult(b"", tuple(ArgSpec(name, (), "float32", "") for name in names), "jax", **fields)


def brought(folder: Path, **arrays) -> dict[str, str]:
    np.savez(folder / "in.npz", **arrays)
    return {"--inputs": str(folder / "in.npz")}


def held(folder: Path, value: FileValue, index: int) -> np.ndarray:
    path = folder / value.file
    assert value.digest == file_digest(path)
    return load_array(path, DESCS[index].shape, DESCS[index].data_type)


def test_each_array_is_the_value_of_the_argument_of_its_name(tmp_path: Path) -> None:
    # NumPy cannot name bfloat16 in a file: it comes back as two bytes each.
    got = values(exported("x", "y"), DESCS, tmp_path, brought(tmp_path, y=B, x=A))
    assert {index: value.file for index, value in got.items()} == {0: "values/argument0.npy", 1: "values/argument1.npy"}
    np.testing.assert_array_equal(held(tmp_path, got[0], 0), A)
    np.testing.assert_array_equal(held(tmp_path, got[1], 1), B)
    # Other programs write its bits as integers.
    got = values(exported("x", "y"), DESCS, tmp_path, brought(tmp_path, y=B.view(np.uint16)))
    np.testing.assert_array_equal(held(tmp_path, got[1], 1), B)
    assert list(values(exported("x", "y"), DESCS, tmp_path, brought(tmp_path, x=A))) == [0]
    assert list(values(exported(), DESCS, tmp_path, brought(tmp_path, arg1=B))) == [1]
    assert list(values(exported("x", "y", bound=("n",)), DESCS, tmp_path, brought(tmp_path, n=A, x=A))) == [0]


def test_the_models_own_file_is_there_and_the_users_replaces_it(tmp_path: Path) -> None:
    np.save(tmp_path / "own.npy", A)
    own = exported("x", "y", files={"x": str(tmp_path / "own.npy")})
    got = values(own, DESCS, tmp_path, {})
    assert list(got) == [0]
    np.testing.assert_array_equal(held(tmp_path, got[0], 0), A)
    got = values(own, DESCS, tmp_path, brought(tmp_path, x=A + 1))
    np.testing.assert_array_equal(held(tmp_path, got[0], 0), A + 1)
    np.testing.assert_array_equal(np.load(tmp_path / "own.npy"), A)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"z": A}, r"in.npz: expected names of the model's arguments \(x, y\), got 'z'"),
        ({"yy": A}, "got 'yy'; try y"),
        ({"x": A.T}, r"in.npz: x: expected \(2, 3\) of float32, got \(3, 2\) of float32"),
        ({"x": A.astype(np.float64)}, r"x: expected \(2, 3\) of float32, got \(2, 3\) of float64"),
        ({"y": B.astype(np.float32)}, r"y: expected \(2,\) of bfloat16, got \(2,\) of float32"),
        ({"x": A.view(np.uint32)}, r"x: expected \(2, 3\) of float32, got \(2, 3\) of uint32"),
        ({"y": B.view(np.int16)}, r"y: expected \(2,\) of bfloat16, got \(2,\) of int16"),
        ({"x": A.view("V2")}, r"x: expected \(2, 3\) of float32, got \(2, 6\) of void16"),
    ],
)
def test_a_value_that_fits_no_argument_is_refused_in_one_line(tmp_path: Path, arrays: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        values(exported("x", "y"), DESCS, tmp_path, brought(tmp_path, **arrays))


@pytest.mark.parametrize(("count", "listed"), [(6, "a0, a1, a2, a3, a4, a5"), (8, "a0, a1, a2, a3, a4, a5 and 2 more")])
def test_six_names_are_listed(tmp_path: Path, count: int, listed: str) -> None:
    names = [f"a{number}" for number in range(count)]
    with pytest.raises(InputError, match=rf"arguments \({listed}\)"):
        values(exported(*names), DESCS[:1] * count, tmp_path, brought(tmp_path, zz=A))


def test_shapes_are_read_from_headers_of_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, version in (("one", (1, 0)), ("two", (2, 0))):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, A, version)
    assert shapes(path) == (("one", (2, 3)), ("two", (2, 3)))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("text", b"\x93NUMPX\x01\x00")
    with pytest.raises(InputError, match=r"--inputs: expected an .npz file of arrays, got .* \(text is not an array\)"):
        shapes(path)


def test_files_of_options_are_there_and_of_their_kind(tmp_path: Path) -> None:
    for name in ("in.npz", "w.safetensors"):
        (tmp_path / name).write_bytes(b"")
    inputs, weights = str(tmp_path / "in.npz"), str(tmp_path / "w.safetensors")
    assert files(inputs, weights) == {"--weights": weights, "--inputs": inputs}
    assert files("captured", None) == {}
    for choice in (("captured", inputs), ("captured", str(tmp_path / "no.safetensors")), (f"{inputs}.npz", None)):
        with pytest.raises(InputError, match=r"^--(weights|inputs): expected a \.(safetensors|npz) file, got '"):
            files(*choice)


def test_the_label_names_options_and_what_their_files_hold(tmp_path: Path) -> None:
    file = brought(tmp_path, x=A)["--inputs"]
    digest = file_digest(Path(file))[:12]
    assert label({"--weights": file, "--inputs": file}) == f"+inputs@{digest}+weights@{digest}"
    assert label({}) == ""


def op(name: str, operands: tuple[int, ...], result: int, *bodies: Program) -> Node:
    return Node("op", f"stablehlo.{name}", "main", operands, (result,), bodies=bodies)


def test_products_in_a_row_are_those_that_read_each_other() -> None:
    dot, conv, add = "dot_general", "convolution", "add"
    row = Program("main", (0, 1), (op(dot, (0, 1), 2), op(add, (2, 1), 3), op(conv, (3, 1), 4)), (4,))
    assert products_in_a_row(row) == 2
    assert products_in_a_row(Program("main", (0, 1), (op(dot, (0, 1), 2), op(dot, (0, 1), 3)), (2, 3))) == 1
    assert products_in_a_row(Program("main", (0, 1), (op(add, (0, 1), 2),), (2,))) == 0
    assert products_in_a_row(Program("main", (), (), ())) == 0
    loop = Program("main", (0, 1), (op(dot, (0, 1), 2), op("while", (2,), 3, Program("cond", (), (), ()), row)), (3,))
    assert products_in_a_row(loop) == 3


LOOKUP = """func.func @main(%p: tensor<4xi1>, %x: tensor<4xf32>) -> tensor<4xf32> {{
  %nan = stablehlo.constant dense<{value}> : tensor<f32>
  %side = stablehlo.broadcast_in_dim %nan, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %0 = stablehlo.select %p, {sides} : tensor<4xi1>, tensor<4xf32>
  return %0 : tensor<4xf32>
}}"""


@each(
    ("value", "sides", "distribution"),
    [
        ("0x7FC00000", "%side, %x", "bool:0"),
        ("0x7FC00000", "%x, %side", "bool:1"),
        ("1.0", "%x, %side", "bool:0.5"),
        ("0x7FC00000", "%x, %x", "bool:0.5"),
    ],
)
def test_a_lookup_that_fills_with_nan_finds_its_row(value: str, sides: str, distribution: str) -> None:
    split = split_module(to_bytecode(load(LOOKUP.format(value=value, sides=sides), "lookup")), "lookup")
    assert argument_distributions(split)[0] == distribution

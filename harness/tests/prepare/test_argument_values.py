"""Values from files: what replaces the seed, what the record says of it, and each way of refusing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.base.digest import file_digest
from opscope.harness.engine import model_jobs
from opscope.harness.prepare import argument_files
from opscope.harness.prepare.inputs import row_golden, row_inputs
from opscope.harness.prepare.preparation import Preparation, tasks
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow

MODULE = """
func.func @main(%w: tensor<3xf32>, %x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.multiply %w, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}"""
W, X = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "net.mlir").write_text(MODULE)
    np.savez(tmp_path / "x.npz", arg1=X)
    return tmp_path


def prepared(place: Path, **options: str) -> tuple[OpRow, Path]:
    header, [row] = model_jobs.prepare(
        Preparation((str(place / "net.mlir"),), cache_dir=str(place / "cache"), **options)
    )
    return row, Path(header.export_dirs[0])


def test_values_from_files_replace_the_seed_and_the_record_says_so(place: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy", reason="pip install -e '.[weights]'")
    numpy.save_file({"arg0": W}, place / "w.safetensors")
    files = {"inputs": str(place / "x.npz"), "weights": str(place / "w.safetensors")}
    row, folder = prepared(place, **files)
    assert [v.tolist() for v in row_inputs(row, folder)] == [W.tolist(), X.tolist()]
    assert row_golden(row, folder)[0].tolist() == [10, 40, 90]
    digests = [file_digest(Path(files[k]))[:12] for k in ("inputs", "weights")]
    assert f"+inputs@{digests[0]}+weights@{digests[1]}:0:main/0" in row.provenance
    # A file of another name is the same; another value is not.
    (place / "x.npz").rename(place / "y.npz")
    assert prepared(place, **files | {"inputs": str(place / "y.npz")})[1] == folder
    numpy.save_file({"arg0": W + 1}, place / "w.safetensors")
    other, elsewhere = prepared(place, **files | {"inputs": str(place / "y.npz")})
    assert (elsewhere != folder, other.provenance != row.provenance) == (True, True)


def test_arguments_without_a_file_are_seeded(place: Path) -> None:
    row, folder = prepared(place, inputs=str(place / "x.npz"))
    assert [s.kind for s in row.sources] == ["seeded", "captured"]
    assert row_inputs(row, folder)[1].tolist() == X.tolist()


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        ({"weight": W}, r"names of the model's arguments \(arg0, arg1\), got 'weight'"),
        ({"arg1": W[:2]}, r"x.npz: arg1: expected \(3,\) of float32, got \(2,\) of float32"),
        ({"arg1": W.astype(np.float64)}, r"arg1: expected \(3,\) of float32, got \(3,\) of float64"),
        ({"arg1": np.array([object()] * 3)}, r"--inputs: expected an .npz file of arrays"),
    ],
)
def test_wrong_values_are_one_line(place: Path, arrays: dict[str, np.ndarray], line: str) -> None:
    np.savez(place / "x.npz", **arrays)
    with pytest.raises(InputError, match=line):
        prepared(place, inputs=str(place / "x.npz"))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"inputs": "gone.npz"}, r"--inputs: expected a .npz file, got 'gone.npz'"),
        ({"inputs": "zeros"}, r"--inputs: expected captured, random, classes or an .npz file, got 'zeros'"),
        ({"weights": "net.mlir"}, r"--weights: expected a .safetensors file"),
    ],
)
def test_wrong_files_are_one_line(place: Path, options: dict[str, str], line: str) -> None:
    with pytest.raises(InputError, match=line):
        prepared(place, **options)


def test_one_file_is_for_one_model(place: Path) -> None:
    (place / "other.mlir").write_text(MODULE)
    words = (str(place / "net.mlir"), str(place / "other.mlir"))
    with pytest.raises(InputError, match=r"--inputs: expected one model with a file of values, got 2 models"):
        tasks(Preparation(words, inputs=str(place / "x.npz"), cache_dir=str(place)))


def test_shapes_are_read_from_headers(place: Path) -> None:
    np.savez(place / "two.npz", a=np.zeros((2, 3)), b=np.float32(1))
    assert argument_files.shapes(place / "two.npz") == (("a", (2, 3)), ("b", ()))
    (place / "bad.npz").write_bytes(b"PK nothing")
    with pytest.raises(InputError, match=r"--inputs: expected an .npz file of arrays"):
        argument_files.shapes(place / "bad.npz")

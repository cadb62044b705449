"""Element types: their sizes, and arrays of them as files that nothing else is taken for."""

from __future__ import annotations

import io
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.record.element_types import NUMPY_NAMES, byte_size, load, numpy_dtype, save, size_text


@each(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (2**20 - 1024, "1023 KiB"),
        (2**20, "1 MiB"),
        (3 * 2**19, "1.5 MiB"),
        (2**30 - 2**20, "1023 MiB"),
        (2**30, "1 GiB"),
        (5 * 2**40, "5120 GiB"),
        (16_428_000_000, "15.3 GiB"),
    ],
)
def test_sizes_as_text(size: int, text: str) -> None:
    assert size_text(size) == text


def test_bytes_of_arrays() -> None:
    for name, size in (("f32", 24), ("bf16", 12), ("i1", 6), ("i4", 6), ("complex<f64>", 96), ("tf32", 24), ("!x", 0)):
        assert byte_size((2, 3), name) == size
    assert byte_size((), "f64") == 8
    assert byte_size((4, 0), "f64") == 0


def test_every_name_is_a_type_of_its_width() -> None:
    assert {name: numpy_dtype(name).name for name in NUMPY_NAMES} == NUMPY_NAMES
    with pytest.raises(ValueError, match=r"^element type: expected one of f32, bf16, .*complex<f64>.*, got 'f7'$"):
        numpy_dtype("f7")


@pytest.mark.parametrize(
    ("array", "name", "stored"),
    [
        (np.float32([[1, np.nan], [np.inf, -2]]), "f32", np.float32),
        (np.array([1.5, -2], ml_dtypes.bfloat16), "bf16", np.uint16),
        (np.array([1, -2], ml_dtypes.int4), "i4", np.uint8),
        (np.array(3 - 1j, np.complex64), "complex<f32>", np.complex64),
        (np.zeros((0, 3), bool), "i1", bool),
        (np.arange(6.0).reshape(2, 3).T, "f64", np.float64),
    ],
)
def test_saved_arrays_are_loaded_equal(tmp_path: Path, array: np.ndarray, name: str, stored: type) -> None:
    file = tmp_path / "a.npy"
    save(file, array)
    assert np.load(file).dtype == stored
    assert np.load(file).flags.c_contiguous
    loaded = load(file, array.shape, name)
    assert (loaded.dtype, loaded.shape) == (array.dtype, array.shape)
    assert loaded.tobytes() == array.tobytes()
    assert loaded.flags.owndata or loaded.base.flags.owndata
    assert loaded.flags.writeable


def test_other_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.npy"
    save(file, np.zeros((2, 3), np.float32))
    for shape, name, said in (
        ((3, 2), "f32", "expected (3, 2) of f32, got (2, 3) of float32"),
        ((2, 3), "f64", "expected (2, 3) of f64, got (2, 3) of float32"),
    ):
        with pytest.raises(ValueError, match="try preparing again") as caught:
            load(file, shape, name)
        assert str(caught.value) == f"{file}: {said}; try preparing again"
    archive = io.BytesIO()
    np.savez(archive, x=np.zeros(2))
    for content, said in ((b"no array", "got "), (archive.getvalue(), "got an archive; try preparing again")):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="expected an array that opscope stored") as caught:
            load(file, (2,), "f64")
        assert said in str(caught.value)
    for header, said in (
        (b"(", "EOF in multi-line statement"),
        (b"  x\n y", "unindent does not match"),
        (b"[" + b"1, " * 200 + b"]", "Header"),
    ):
        file.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        with pytest.raises(ValueError, match="expected an array that opscope stored") as caught:
            load(file, (2,), "f64")
        got = str(caught.value).removeprefix(f"{file}: expected an array that opscope stored, got ")
        assert said in got
    assert got.endswith(" 1,…; try preparing again"), "long ones are cut, with an ellipsis"

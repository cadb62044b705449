"""The files of one op that commands read and write: its module, inputs and results, in their own folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.backends.base import Job, StageError
from opscope.harness.backends.commands.description import OF_A_RESULT, OF_AN_INPUT, filled, placeholders
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.record.records import TensorDesc

_SUFFIX = {"text": "mlir", "bytecode": "mlirbc", "portable": "mlirbc"}


class OpFiles:
    """One op's folder, which is removed once nobody has its files, or with the process."""

    def __init__(self, job: Job, form: str) -> None:
        """Writes the module. Raises StageError if it cannot be written in that form."""
        self.op_id = job.op_id
        self._temporary = TemporaryFolder("op")
        self.folder = Path(self._temporary.name)
        self.module = self.folder / f"op.{_SUFFIX[form]}"
        self.module.write_bytes(_module(job.module, form))
        self.previous = self.module
        """The output of the previous stage."""

    def words(self, command: Sequence[str], job: Job, output: Path, yaml_folder: Path) -> list[str]:
        """Returns a command's words, placeholders filled in. Raises StageError for an unset environment variable."""
        values = {
            "module": str(self.module),
            "input": str(self.previous),
            "output": str(output),
            "work_dir": str(self.folder),
            "here": str(yaml_folder),
            "python": sys.executable,
            "arch": job.options.arch,
            "data_format": job.options.data_format or "",
            "math_fidelity": job.options.math_fidelity or "",
            "inputs_npz": str(self.folder / "inputs.npz"),
            "outputs_npz": str(self.folder / "outputs.npz"),
        }
        filled_words = []
        for word in command:
            names = set(placeholders(word))
            for name in names:
                if name.startswith("env:"):
                    if name[4:] not in os.environ:
                        raise StageError(f"the environment has no {name[4:]}, which the stage's command names")
                    values[name] = os.environ[name[4:]]
            if names & OF_AN_INPUT:
                rows = [self._of_an_input(index, _desc(array)) for index, array in enumerate(job.inputs)]
            elif names & OF_A_RESULT:
                rows = [self._of_a_result(index, desc) for index, desc in enumerate(job.results)]
            else:
                rows = [{}]
            filled_words += [filled(word, {**values, **row}) for row in rows]
        return filled_words

    def write_inputs(self, job: Job, command: Sequence[str]) -> None:
        """Writes the inputs in the forms that the command uses."""
        placeholders_used = {name for word in command for name in placeholders(word)}
        if "inputs_npz" in placeholders_used:
            np.savez(self.folder / "inputs.npz", *map(_plain, job.inputs))
        for index, array in enumerate(job.inputs):
            row = self._of_an_input(index, _desc(array))
            if "input_npy" in placeholders_used:
                np.save(row["input_npy"], _plain(array), allow_pickle=False)
            if "input_bin" in placeholders_used:
                np.ascontiguousarray(array).tofile(row["input_bin"])

    def results(self, job: Job, command: Sequence[str]) -> list[np.ndarray]:
        """Returns the results that the command wrote.

        Raises ValueError if one is missing or has another size. The message continues "left with exit code 0 and".
        """
        placeholders_used = {name for word in command for name in placeholders(word)}
        if "outputs_npz" in placeholders_used:
            path = self.folder / "outputs.npz"
            _must_exist(path)
            with np.load(path, allow_pickle=False) as stored:
                arrays = [stored[name] for name in stored.files]
            if len(arrays) != len(job.results):
                raise ValueError(f"wrote {len(arrays)} results into {path.name}, where {len(job.results)} are declared")
            return [_as_declared(array, desc, path) for array, desc in zip(arrays, job.results, strict=True)]
        read_arrays = []
        for index, desc in enumerate(job.results):
            row = self._of_a_result(index, desc)
            path = Path(row["output_npy" if "output_npy" in placeholders_used else "output_bin"])
            _must_exist(path)
            dtype = numpy_dtype(desc.data_type)
            array = np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.fromfile(path, np.uint8)
            if path.suffix == ".bin":
                if array.nbytes != dtype.itemsize * int(np.prod(desc.shape)):
                    raise ValueError(f"wrote {array.nbytes} bytes into {path.name}, where {_word(desc)} is declared")
                array = array.view(dtype).reshape(desc.shape)
            read_arrays.append(_as_declared(array, desc, path))
        return read_arrays

    def _of_an_input(self, index: int, desc: TensorDesc) -> dict[str, str]:
        base = self.folder / f"input_{index}"
        return {"input_npy": f"{base}.npy", "input_bin": f"{base}.bin", "input_shape": _word(desc)}

    def _of_a_result(self, index: int, desc: TensorDesc) -> dict[str, str]:
        base = self.folder / f"output_{index}"
        return {"output_npy": f"{base}.npy", "output_bin": f"{base}.bin", "output_shape": _word(desc)}


def _module(module: bytes, form: str) -> bytes:
    """Returns the op's module in the form that the first tool reads."""
    from opscope.harness.prepare import mlir

    if form == "bytecode":
        return module
    loaded = mlir.load(module)
    if form == "text":
        return str(loaded.operation.get_asm(enable_debug_info=False)).encode()
    return mlir.portable(loaded)


def _desc(array: np.ndarray) -> TensorDesc:
    return TensorDesc(shape=array.shape, data_type=_mlir_name(array.dtype))


def _mlir_name(dtype: np.dtype) -> str:
    from opscope.harness.record.element_types import NUMPY_NAMES

    return next(name for name, numpy_name in NUMPY_NAMES.items() if numpy_name == dtype.name)


def _word(desc: TensorDesc) -> str:
    """`2x3xf32`; a scalar is `f32`."""
    return "x".join([*map(str, desc.shape), desc.data_type])


def _plain(array: np.ndarray) -> np.ndarray:
    """Returns the array as NumPy can store it: types that it lacks become unsigned integers with their bits."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.isbuiltin != 1 else array


def _must_exist(path: Path) -> None:
    if not path.is_file():
        raise ValueError(f"wrote no {path.name}")


def _as_declared(array: np.ndarray, desc: TensorDesc, path: Path) -> np.ndarray:
    """Returns the array in the declared type, reading its bits or reshaping it if only extents of 1 differ.

    An array that differs in more is returned unchanged, and the comparison reports it.
    """
    dtype = numpy_dtype(desc.data_type)
    if array.dtype != dtype and array.dtype.itemsize == dtype.itemsize and array.dtype.kind in "uiV":
        array = np.ascontiguousarray(array).view(dtype)
    return (
        array.reshape(desc.shape)
        if array.shape != desc.shape
        and array.size == int(np.prod(desc.shape))
        and ([n for n in array.shape if n != 1] == [n for n in desc.shape if n != 1])
        else array
    )

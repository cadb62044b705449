"""Device images: what is in the file, what is printed, and that a run from it gives the same bits."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load as safetensors_load
from safetensors.numpy import save as safetensors_save

from opscope.simulator.api import WrongBoard
from opscope.simulator.host import safetensors_file
from opscope.simulator.host.compiled_module import CompiledModule
from opscope.simulator.host.errors import ImageError
from opscope.simulator.host.tests.images import compiled, values, written
from opscope.simulator.host.tt_device_image import TTDeviceImage
from opscope.simulator.host.write_image import write_image


@pytest.fixture(scope="module")
def module() -> CompiledModule:
    return compiled(harvested_rows=[1, 11])


@pytest.fixture(scope="module")
def path(module: CompiledModule, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("image") / "tt0.tti", module)


def test_info_is_printed_as_tt_buda_prints_it(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines of seed 000: mask 2050 and 8 of 10 rows where rows 1 and 11 are switched off."""
    TTDeviceImage.load_from_disk(path).info()
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:6]] == [
        "Image Info...",
        "- Version Info",
        "    - pybuda_version",
        "    - pybuda_commit",
        "    - buda_backend_commit",
        "- Device Name",
    ]
    assert lines[5:] == [
        "- Device Name: tt0",
        "Device Info...",
        "- arch: BackendDevice.Grayskull",
        "- chip_ids: [0]",
        "- backend device type: BackendType.Silicon",
        "- grid size: [8, 12]",
        "- harvested rows: 2050",
        "Compilation Graph State...",
        "- training: False",
        "- modules: ['dense']",
        "- ordered input shapes: [[32, 64]]",
        "- ordered targets shapes: []",
    ]


def test_an_image_runs_to_the_bits_of_its_module(module: CompiledModule, path: Path) -> None:
    image, arrays = TTDeviceImage.load_from_disk(path), values()
    (expected,) = module.load().run(arrays)
    for inputs in ([arrays["x"]], {"x": arrays["x"]}):
        (result,) = image.run(inputs)
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(image.run([arrays["x"]], per_core=True)[0], expected)
    np.testing.assert_allclose(expected, np.tanh(arrays["x"] @ arrays["w"] + arrays["b"]), atol=0.01)
    assert image.get_input_shapes() == [[32, 64]]


def test_the_file_holds_what_tt_budas_does(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        tensors = archive.read("tensors/parameters.safetensors")
    assert names[:2] == ["MANIFEST", "device.json"]
    build = "backend_build_binaries/"
    for name in (
        "dense.yaml",
        "compile_and_runtime_config.json",
        f"{build}program.ttnn",
        f"{build}host.ttnn",
        f"{build}device_desc.yaml",
        f"{build}cluster_desc.yaml",
        f"{build}hlks/matmul_0.yaml",
        f"{build}epoch_programs/graph_fwd_0_0/op_0/tensix_thread0.yaml",
        f"{build}epoch_programs/temporal_epoch_0/overlay/pipegen.yaml",
        "module_files/dense.mlirbc",
        "module_files/dense.py",
    ):
        assert name in names
    stored = safetensors_load(tensors)
    assert sorted(stored) == ["b", "w"]
    np.testing.assert_array_equal(stored["w"], values()["w"])


def test_the_same_module_gives_the_same_bytes(module: CompiledModule, path: Path, tmp_path: Path) -> None:
    assert written(tmp_path / "again.tti", module).read_bytes() == path.read_bytes()


def test_tensors_are_what_the_safetensors_package_writes() -> None:
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "empty": np.zeros((0, 4), np.int64),
        "s": np.float16(2),
    }
    for name, (_, array) in safetensors_file.decode(
        "x", safetensors_save({k: np.asarray(v) for k, v in arrays.items()})
    ).items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.dtype == arrays[name].dtype
    made = safetensors_file.encode(
        {"a": ("f32", arrays["a"]), "empty": ("i64", arrays["empty"]), "s": ("f16", arrays["s"])}
    )
    for name, array in safetensors_load(b"".join(made)).items():
        np.testing.assert_array_equal(array, arrays[name])


@pytest.mark.parametrize(
    ("rows", "data", "message"),
    [
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(5), "expected [0-9]+ bytes, got"),
        (
            {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
            bytes(3),
            "expected 4 bytes from 0, got 0 to 4",
        ),
        (
            {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}},
            bytes(8),
            "expected 4 bytes from 0, got 4 to 8",
        ),
        (
            {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
            bytes(4),
            "expected dtype, shape and data_off",
        ),
        ({"a": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}}, bytes(8), "expected dtype, shape and data_off"),
        (
            {"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]}},
            b"",
            "expected 73786976294838206464 byt",
        ),
        ({"a": 3}, b"", "expected dtype, shape and data_offsets, got 3"),
        ([], b"", "expected a header of names, got list"),
    ],
)
def test_tensors_that_do_not_fill_their_file_are_refused(rows: object, data: bytes, message: str) -> None:
    head = json.dumps(rows).encode()
    with pytest.raises(ImageError, match=message):
        safetensors_file.decode("x", len(head).to_bytes(8, "little") + head + data)


def test_a_board_without_the_rows_is_refused(path: Path) -> None:
    assert TTDeviceImage.load_from_disk(path, "e150-harvested-2").device.harvested == (2050,)
    with pytest.raises(WrongBoard, match="expected a program for e150-harvested-4"):
        TTDeviceImage.load_from_disk(path, "e150-harvested-4")
    with pytest.raises(WrongBoard, match="expected a program for n150"):
        TTDeviceImage.load_from_disk(path, "n150")
    with pytest.raises(ImageError, match="expected a board or an arch, got 'n15'"):
        TTDeviceImage.load_from_disk(path, "n15")


def test_an_image_may_have_several_modules(module: CompiledModule, tmp_path: Path) -> None:
    """Passes of training: each has its own entries, and shares the values of arguments with the same name."""
    path, arrays = tmp_path / "x.tti", values()
    later = replace(module, kind="backward")
    write_image(path, [module, later], arrays, device_name="tt7", training=True, runtime={"per_core": False})
    image = TTDeviceImage.load_from_disk(path)
    assert [made.kind for made in image.modules] == ["forward", "backward"]
    assert (image.device.name, image.device.training, sorted(image.parameters)) == ("tt7", True, ["b", "w"])
    assert image.configuration["runtime"] == {"per_core": False}
    assert image.configuration["compiler"]["backward"]["harvested_rows"] == [1, 11]
    assert "backend_build_binaries/program_backward.ttnn" in image.entries
    np.testing.assert_array_equal(image.loaded[1].run(arrays)[0], image.loaded[0].run(arrays)[0])
    with pytest.raises(ImageError, match="expected modules of different kinds, got forward, forward"):
        write_image(path, [module, module], arrays)
    with pytest.raises(ImageError, match="expected modules for one device, got 2"):
        write_image(path, [module, replace(compiled("n150"), kind="backward")], arrays)


def test_what_cannot_be_written_is_one_typed_error(module: CompiledModule, tmp_path: Path) -> None:
    path = tmp_path / "x.tti"
    with pytest.raises(ImageError, match="expected a value of this parameter, got none"):
        write_image(path, [module], {})
    with pytest.raises(ImageError, match="tensor_format: expected safetensors, got 'pkl': a pickle runs code"):
        write_image(path, [module], values(), tensor_format="pkl")
    with pytest.raises(ImageError, match="expected at least one compiled module"):
        write_image(path, [], {})
    with pytest.raises(ImageError, match=r"expected a name inside the image, got 'module_files/\.\./x'"):
        write_image(path, [module], values(), sources={"../x": ""})
    with pytest.raises(ImageError, match=r"expected \[64, 32\], got \[1\]"):
        write_image(path, [module], values() | {"w": np.zeros(1)})
    assert not list(tmp_path.iterdir())


def test_what_is_no_input_is_one_typed_error(path: Path) -> None:
    image = TTDeviceImage.load_from_disk(path)
    with pytest.raises(ImageError, match=r"inputs: expected 1 \(x\), got 0"):
        image.run([])
    with pytest.raises(ImageError, match="inputs: expected x, got 'w'"):
        image.run({"w": values()["w"]})
    with pytest.raises(ImageError, match="expected a value of x, got none"):
        image.run({})

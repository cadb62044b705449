"""Programs of TT-Buda run as they are printed, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
NEEDS = {
    "jax": ("jax",),
    "torch": ("torch", "torchax"),
    "keras": ("keras",),
    "subclassed": ("keras",),
    "subclassed_tensorflow": ("keras", "tensorflow"),
    "tensorflow": ("tensorflow",),
    "graphdef": ("tensorflow",),
    "onnx": ("onnx", "torch_mlir"),
    "tflite": ("tensorflow", "tf2onnx", "torch_mlir"),
}
INFO = """\
- Device Name: tt0
Device Info...
- arch: BackendDevice.{arch}
- chip_ids: [0]
- backend device type: BackendType.Silicon
- grid size: {grid}
- harvested rows: {rows}
Compilation Graph State...
- training: False
- modules: ['bert_encoder']
- ordered input shapes: [[1, 128, 128], [1, 1, 128]]
- ordered targets shapes: []
"""


def run(folder: Path, program: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    path = program if program.endswith(".txt") else str(PROGRAMS / program)
    command = [sys.executable, "-W", "ignore", "-m", "opscope.pybuda", path, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr[-2000:]
    return done


def needs(*packages: str) -> None:
    lacking = [package for package in packages if find_spec(package) is None]
    if lacking:
        pytest.skip(f"{lacking[0]} is not installed")


def test_a_wrong_call_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    program = tmp_path / "program.txt"
    program.write_text("import pybuda\nfrom pybuda import op\npybuda.run_inference()\n")
    done = run(tmp_path, str(program), code=2)
    assert done.stderr == "pybuda: run: expected a module on a device, got none; try place_module\n"


def test_a_program_loads_no_plugin_of_jax(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_plugin.py").write_text("def initialize():\n    print('a plugin was loaded')\n")
    about = tmp_path / "a_plugin-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: a-plugin\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[jax_plugins]\na_plugin = a_plugin\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    program = tmp_path / "program.txt"
    program.write_text("import pybuda\nimport jax\nprint(jax.devices()[0].platform)\n")
    assert run(tmp_path, str(program)).stdout == "cpu\n"


def test_a_program_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    gone = run(tmp_path, "nothing.py", code=2)
    assert gone.stderr.endswith("nothing.py: expected a Python program, got no such file\n")


def test_the_matmul_of_the_tutorial(tmp_path: Path) -> None:
    needs("torch")
    assert run(tmp_path, "buda_matmul.py").stdout == "near\n"


def test_the_encoder_of_the_tutorial(tmp_path: Path) -> None:
    needs("torch", "torchax", "transformers")
    assert "correlation 0.99" in run(tmp_path, "bert_encoder.py").stdout


def test_the_devices_of_the_tutorial(tmp_path: Path) -> None:
    descriptor = tmp_path / "cluster.yaml"
    ids = ", ".join(f"{chip}: Wormhole_B0" for chip in range(4))
    descriptor.write_text(f"arch: {{{ids}}}\n")
    done = run(tmp_path, "several_chips.py", str(descriptor))
    assert done.stdout.splitlines() == ["[0, 1, 2, 3]", "[0, 1, 2]", "[0, 2, 3]"]


@pytest.mark.parametrize(
    ("arch", "harvested", "grid", "rows"),
    [("Grayskull", "", "[10, 12]", "0"), ("Grayskull", "harvested", "[8, 12]", "2050"), ("Wormhole_B0", "", "", "")],
)
def test_the_images_of_the_tutorials(tmp_path: Path, arch: str, harvested: str, grid: str, rows: str) -> None:
    needs("torch")
    run(tmp_path, "compile_image.py", arch, harvested)
    printed = run(tmp_path, "run_image.py").stdout
    assert "- Version Info:\n" in printed
    if grid:
        assert INFO.format(arch=arch, grid=grid, rows=rows) in printed


@pytest.mark.parametrize("framework", NEEDS)
def test_a_module_of_each_framework(tmp_path: Path, framework: str) -> None:
    needs(*NEEDS[framework])
    assert "largest difference" in run(tmp_path, "frameworks.py", framework).stdout


def test_a_pytorch_module_is_trained_as_pytorch_trains_it(tmp_path: Path) -> None:
    needs("torch", "torchax")
    assert "largest difference" in run(tmp_path, "torch_training.py").stdout

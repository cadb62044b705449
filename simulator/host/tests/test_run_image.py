"""`opscope image` and `opscope run-image`: another process, without the compiler, gives the same bits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from opscope.base.tests.captured import captured
from opscope.simulator.host.compiled_module import CompiledModule
from opscope.simulator.host.image_command import image
from opscope.simulator.host.run_image import run_image
from opscope.simulator.host.tests.images import TEXT, compiled, values, written

FORBIDDEN = (
    "jax",
    "jaxlib",
    "xdsl",
    "torch",
    "torchax",
    "tensorflow",
    "keras",
    "onnx",
    "flax",
    "equinox",
    "opscope.compiler.api",
    "opscope.compiler.depths",
    "opscope.compiler.passes",
    "opscope.compiler.pipelines",
    "opscope.compiler.translations",
    "opscope.compiler.ir",
    "opscope.compiler.buda",
    "opscope.models",
)
"""What a process that runs an image must not have loaded."""
RUNNER = """
import sys
from opscope.harness.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print("\\n".join(sorted(sys.modules)))
sys.exit(code)
"""


@pytest.fixture(scope="module")
def module() -> CompiledModule:
    return compiled("n150")


@pytest.fixture(scope="module")
def path(module: CompiledModule, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("image") / "tt0.tti", module)


def invoke(command: object, *words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(command, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_another_process_without_the_compiler_gives_the_same_bits(
    module: CompiledModule, path: Path, tmp_path: Path
) -> None:
    arrays = values()
    np.savez(tmp_path / "in.npz", x=arrays["x"])
    words = ["run-image", path, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz"]
    done = captured([sys.executable, "-P", "-c", RUNNER, *map(str, words)], timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert "opscope.simulator.device" in loaded
    assert not [
        name for name in loaded if name.startswith(tuple(f"{room}." for room in FORBIDDEN)) or name in FORBIDDEN
    ]
    with np.load(tmp_path / "out.npz") as results:
        np.testing.assert_array_equal(results["y"], module.load().run(arrays)[0])


def test_the_commands_write_and_run_a_file(module: CompiledModule, path: Path, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    (tmp_path / "dense.mlir").write_bytes(TEXT)
    arrays = values()
    save_file({"arg0": arrays["w"], "arg1": arrays["b"]}, tmp_path / "w.safetensors")
    made = tmp_path / "dense.tti"
    words = (tmp_path / "dense.mlir", "-o", made, "--arch", "n150", "--weights", tmp_path / "w.safetensors")
    assert invoke(image, *words) == (0, f"{made}: {made.stat().st_size} bytes\n")
    np.savez(tmp_path / "in.npz", arrays["x"])
    code, said = invoke(run_image, made, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "o.npz", "--json")
    assert code == 0
    assert json.loads(said)["results"] == {"output_0": [32, 32]}
    with np.load(tmp_path / "o.npz") as results:
        np.testing.assert_array_equal(results["output_0"], module.load().run(arrays)[0])
    assert "- ordered input shapes: [[32, 64]]" in invoke(run_image, made, "--info")[1]


def test_an_image_says_that_its_host_needs_jaxlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """64-bit integers are the host's, and XLA's there."""
    text = """func.func @main(%x: tensor<32x32xf32>, %i: tensor<3xi64>) -> (tensor<32x32xf32>, tensor<3xi64>) {
  %0 = stablehlo.tanh %x : tensor<32x32xf32>
  %1 = stablehlo.multiply %i, %i : tensor<3xi64>
  return %0, %1 : tensor<32x32xf32>, tensor<3xi64>
}"""
    (tmp_path / "wide.mlir").write_text(text)
    made = tmp_path / "wide.tti"
    assert invoke(image, tmp_path / "wide.mlir", "-o", made)[0] == 0
    assert json.loads(invoke(run_image, made, "--info", "--json")[1])["needs"] == ["jaxlib"]
    numbers = np.array([-3, 1 << 31, 5])
    np.savez(tmp_path / "in.npz", arg0=np.zeros((32, 32), np.float32), arg1=numbers)
    words = (made, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert invoke(run_image, *words)[0] == 0
    with np.load(tmp_path / "out.npz") as results:
        np.testing.assert_array_equal(results["output_1"], numbers**2)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, said = invoke(run_image, *words)
    assert code == 2
    assert "expected jaxlib for the ops of its host, got none; try pip install jaxlib" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("image", "nothing.mlir", "-o", "x.tti"),
            "nothing.mlir: expected a readable StableHLO file, got: no such file",
        ),
        (("image", "no_such_model", "-o", "x.tti"), "MODEL: expected the name of a model"),
        (
            ("image", "{mlir}", "-o", "x.tti", "--chips", "a"),
            "--chips: expected different numbers such as 0,1, got 'a'",
        ),
        (("image", "{mlir}", "-o", "x.tti", "--chips", "1,1"), "--chips: expected different numbers"),
        (("image", "{mlir}", "-o", "x.tti", "--harvested", "64"), "harvested_rows: expected rows 1-5 and 7-11"),
        (("image", "{mlir}", "-o", "x.tti", "--arch", "n15"), "arch: expected a board or an arch, got 'n15'"),
        (("image", "{mlir}", "-o", "x.tti", "--set", "speed=1"), "option: expected one of TT-Buda's"),
        (("image", "{mlir}", "-o", "x.tti", "--weights", "{mlir}"), "expected the header of a safetensors file"),
        (("image", "{mlir}", "-o", "{mlir}/x/x.tti"), "expected a place to write"),
        (("image", "{mlir}", "-o", "."), ".: expected a place to write, got: is a directory"),
        (("run-image", "{mlir}"), "expected a device image, a zip, got: File is not a zip file"),
        (("run-image", "/dev/zero"), "expected a device image, got: no regular file"),
        (("run-image", "{tti}"), "--inputs: expected an .npz with x, got none"),
        (("run-image", "{tti}", "--inputs", "{mlir}"), "--inputs"),
        (("run-image", "{tti}", "--inputs", "{npz}"), "expected x, got z"),
        (("run-image", "{tti}", "--info", "--board", "e150"), "expected a program for e150, got one for n150"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], message: str, path: Path, tmp_path: Path) -> None:
    files = {"mlir": tmp_path / "dense.mlir", "tti": path, "npz": tmp_path / "z.npz"}
    files["mlir"].write_bytes(TEXT)
    np.savez(files["npz"], z=np.zeros(3))
    verb, *rest = (
        word.format(**files).replace("x.tti", str(tmp_path / "x.tti")) if word == "x.tti" else word.format(**files)
        for word in words
    )
    code, said = invoke({"image": image, "run-image": run_image}[verb], *rest)
    assert code == 2
    assert message in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "x.tti").exists()

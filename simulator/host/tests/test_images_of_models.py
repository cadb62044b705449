"""Whole models as images: compiled and run here, loaded and run in another process with nothing shared but the file."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.captured import captured
from opscope.compiler.api import Compilation, Configuration, compile_to, planned_module
from opscope.harness.prepare.export import export_model
from opscope.models import registry
from opscope.models.arguments import ArgSpec
from opscope.models.seeding import draw
from opscope.simulator.host.compiled_module import CompiledModule
from opscope.simulator.host.tt_device_image import TTDeviceImage
from opscope.simulator.host.write_image import write_image

pytestmark = pytest.mark.slow

LOAD_SECONDS = 1.0
"""What loading the image of ResNet-50 may take, in processor time."""


def exported(name: str) -> tuple[bytes, Sequence[ArgSpec]]:
    """StableHLO and arguments of a registered model, or of `conv`: dense, depthwise and grouped ones."""
    if name != "conv":
        result = export_model(registry.get(name))
        return result.bytecode, result.arguments
    import jax
    from jax import lax

    specs = (
        ArgSpec("k1", (3, 3, 3, 16), "float32", "normal:0.2"),
        ArgSpec("k2", (3, 3, 1, 16), "float32", "normal:0.3"),
        ArgSpec("k3", (3, 3, 4, 32), "float32", "normal:0.2"),
        ArgSpec("w", (32, 10), "float32", "normal:0.2"),
        ArgSpec("x", (1, 32, 32, 3), "float32", "normal:1", "input"),
    )

    def net(k1: jax.Array, k2: jax.Array, k3: jax.Array, w: jax.Array, x: jax.Array) -> jax.Array:
        for kernel in (k1, k2, k3):
            groups, order = x.shape[-1] // kernel.shape[2], ("NHWC", "HWIO", "NHWC")
            x = lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=order, feature_group_count=groups)
            x = jax.nn.relu(x)
        return x.mean((1, 2)) @ w

    described = [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in specs]
    return str(jax.jit(net).lower(*described).compiler_ir("stablehlo")).encode(), specs


@pytest.mark.parametrize(
    ("name", "board"),
    [("mnist_mlp", "e150"), ("conv", "e150"), ("tcn", "n150"), ("resnet50", "n150")],
)
def test_another_process_gives_equal_bits(name: str, board: str, tmp_path: Path) -> None:
    bytecode, specs = exported(name)
    values = {spec.name: draw(spec.law, spec.shape, spec.dtype, 0, number) for number, spec in enumerate(specs)}
    planned = planned_module(compile_to(Compilation(bytecode, board, Configuration(), name)))
    module = CompiledModule.of(planned, [(spec.name, spec.role) for spec in specs])
    path = tmp_path / f"{name}.tti"
    write_image(path, [module], values)
    expected = module.load().run(values)
    np.savez(tmp_path / "in.npz", **{value.name: values[value.name] for value in module.inputs})
    words = ["run-image", path, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz"]
    done = captured([sys.executable, "-P", "-m", "opscope.harness.cli.main", *map(str, words)], timeout=900)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as results:
        for value, array in zip(module.results, expected, strict=True):
            got = results[value.name]
            np.testing.assert_array_equal(got.view(ml_dtypes.bfloat16) if got.dtype.kind == "V" else got, array)
    seconds, clock = time.process_time(), time.monotonic()
    TTDeviceImage.load_from_disk(path)
    seconds, clock = time.process_time() - seconds, time.monotonic() - clock
    print(f"{name} on {board}: {path.stat().st_size} bytes load in {seconds:.2f} s of the processor, {clock:.2f} s")
    assert seconds < LOAD_SECONDS

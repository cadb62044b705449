"""Small models as device images, for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from opscope.compiler.api import Compilation, Configuration, compile_to, planned_module
from opscope.simulator.host.compiled_module import CompiledModule
from opscope.simulator.host.write_image import write_image

TEXT = b"""func.func @main(%w: tensor<64x32xf32>, %b: tensor<32xf32>, %x: tensor<32x64xf32>) -> tensor<32x32xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<32x64xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<32xf32>) -> tensor<32x32xf32>
  %2 = stablehlo.add %0, %1 : tensor<32x32xf32>
  %3 = stablehlo.tanh %2 : tensor<32x32xf32>
  return %3 : tensor<32x32xf32>
}"""
ARGUMENTS = [("w", "parameter"), ("b", "parameter"), ("x", "input")]


def compiled(board: str = "e150", chip_ids: tuple[int, ...] = (0,), **options: object) -> CompiledModule:
    """A dense layer, compiled for a board."""
    configuration = Configuration()
    configuration.set_configuration_options(**options)
    planned = planned_module(compile_to(Compilation(TEXT, board, configuration, "dense", chip_ids=chip_ids)))
    return CompiledModule.of(planned, ARGUMENTS, results=["y"])


def values() -> dict[str, np.ndarray]:
    """Its parameters, and an input."""
    random = np.random.default_rng(3)
    shapes = {"w": (64, 32), "b": (32,), "x": (32, 64)}
    return {name: 0.1 * random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def written(path: Path, module: CompiledModule) -> Path:
    """The image of a dense layer."""
    write_image(path, [module], values(), sources={"dense.py": "raise SystemExit('never imported')\n"})
    return path

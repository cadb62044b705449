"""A device's three passes, compiled before any microbatch is there: for `compile_for`, and for an image of training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opscope.simulator.host.training.image_training import roles
from opscope.simulator.host.training.part import part_of
from opscope.simulator.host.write_image import write_image

if TYPE_CHECKING:
    from opscope.simulator.host.training.part import Trainee
    from opscope.simulator.host.training.training_device import TrainingDevice


def compiled_training(
    device: Trainee, inputs: Sequence[np.ndarray], targets: Sequence[np.ndarray], input_gradients: bool = False
) -> TrainingDevice:
    """Compiles forward, backward and optimizer of a device with a loss module, for inputs and targets like these.

    `input_gradients`: the backward pass also makes those of the inputs, for a device before. Raises PyBudaError.
    """
    if device.optimizer is None:
        device.refuse("an optimizer", "none; try TTDevice(..., optimizer=pybuda.optimizers.SGD(...))")
    if device.loss_module is None:
        device.refuse("a loss module", "none; try place_loss_module")
    if not targets:
        device.refuse("targets, for the loss module", "none; try sample_targets, or the targets of compile_for")
    part = part_of(device, [*inputs, *targets], len(targets), True, input_gradients)
    for kind in part.passes:
        part.compile_pass(kind)
    return part


def write_training_image(
    path: Path,
    device: Trainee,
    devtype: str,
    inputs: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    microbatch: int = 1,
) -> None:
    """Writes an image of a device's three passes, with its weights and states.

    `devtype` is the name of the device's BackendType; each run is given `microbatch` inputs like these.
    Raises PyBudaError, ImageError, OSError.
    """
    part = compiled_training(device, inputs, targets)
    name, modules = "_".join(module.name for module in device.active), []
    for kind, one in part.passes.items():
        named = roles([spec.name for spec in one.built.arguments], len(inputs))
        modules.append(device.programs[kind].for_image(name, kind, named, list(one.results)))
    write_image(
        path,
        modules,
        part.values,
        device_name=device.name,
        devtype=devtype,
        training=True,
        microbatch=microbatch,
        sources={name: text for one in device.active for name, text in one.sources().items()},
    )

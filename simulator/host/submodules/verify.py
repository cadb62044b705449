"""`pybuda.verify.verify_module`: runs a module on a card of its own, and compares it stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope.simulator.host.correlation import check_correlation
from opscope.simulator.host.devices.tt_device import TTDevice
from opscope.simulator.host.errors import NotThereYet, PyBudaError
from opscope.simulator.host.modules.module import Module
from opscope.simulator.host.modules.py_torch_module import PyTorchModule
from opscope.simulator.host.run import pybuda_reset, run_inference
from opscope.simulator.host.settings.verify_config import TestKind, VerifyConfig
from opscope.simulator.host.tensor import to_torch


def verify_module(
    module: Module,
    input_shapes: Sequence[Sequence[int]],
    verify_cfg: VerifyConfig | None = None,
    params_centered_on_zero: bool = False,
    inputs_centered_on_zero: bool = False,
    scale_params: float = 1.0,
    inputs: Sequence[Any] | None = None,
    input_params: Sequence[Any] = (),
    device: TTDevice | None = None,
    uniform_inputs: bool = False,
) -> None:
    """Runs a module on `inputs`, or on seeded ones of `input_shapes`, and compares outputs with the reference's.

    The reference is the framework: PyTorch for its modules, XLA in float32 for others. Compared are the card's outputs,
    and with `verify_all` also what XLA computes of the traced module. Inputs are uniform from 0 to 1, or from -0.5 if
    they are centered; arguments about parameters have no effect, as they keep their values. Raises PyBudaError, and
    NotThereYet for a `test_kind` of training.
    """
    config = verify_cfg or VerifyConfig()
    if not isinstance(config, VerifyConfig) or not isinstance(module, Module):
        raise PyBudaError(
            f"verify_module: expected a module and a VerifyConfig, got {module!r} and {verify_cfg!r}"[:300]
        )
    if config.test_kind is not TestKind.INFERENCE:
        raise NotThereYet("verify_module: expected TestKind.INFERENCE, got training; try run_training and its losses")
    generator = np.random.default_rng(0)
    low = -0.5 if inputs_centered_on_zero else 0.0
    values: list[Any] = [(generator.random(tuple(shape), dtype=np.float32) + np.float32(low)) for shape in input_shapes]
    if inputs is not None:
        values = list(inputs)
    elif isinstance(module, PyTorchModule):
        values = [to_torch(value) for value in values]
    if device is None:
        device = TTDevice(
            f"tt_{module.get_name()}",
            num_chips=config.num_chips,
            chip_ids=config.chip_ids,
            arch=config.arch,
            devtype=config.devtype,
            fp32_fallback=config.fp32_fallback,
        )
    device.place_module(module)
    try:
        least = config.pcc if config.pcc is not None else 0.99
        wanted = module.compute(values)
        if config.enabled and config.verify_all:
            for number, (got, reference) in enumerate(zip(Module.compute(module, values), wanted, strict=True)):
                check_correlation(f"output {number} of the traced module", got, reference, least, "the framework")
        outputs = run_inference(inputs=[tuple(values)], _sequential=config.sequential).get()
        if config.enabled and config.verify_last:
            for number, (got, reference) in enumerate(zip(outputs, wanted, strict=True)):
                check_correlation(f"output {number} of the card", got, reference, least, "the framework")
    finally:
        if not config.skip_shutdown:
            pybuda_reset()

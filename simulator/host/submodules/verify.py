"""`pybuda.verify`: runs modules on devices of their own, and compares what comes out with their frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope.compiler.api import CompileDepth
from opscope.simulator.host.correlation import check_correlation
from opscope.simulator.host.devices.cpu_device import CPUDevice
from opscope.simulator.host.devices.device import Device
from opscope.simulator.host.devices.tt_device import TTDevice
from opscope.simulator.host.errors import NotThereYet, PyBudaError
from opscope.simulator.host.microbatch import joined, one_by_one
from opscope.simulator.host.modules.module import Module
from opscope.simulator.host.modules.py_torch_module import PyTorchModule
from opscope.simulator.host.run import pybuda_reset, run_inference
from opscope.simulator.host.settings.enumerations import BackendType, DeviceMode
from opscope.simulator.host.settings.options import compile_depth
from opscope.simulator.host.settings.verify_config import TestKind, VerifyConfig
from opscope.simulator.host.tensor import array_of, to_torch


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
    they are centered; arguments about parameters have no effect, as they keep their values. Where `compile_depth` or
    `verify_cfg` say so, it is only compiled. Raises PyBudaError, and NotThereYet for a `test_kind` of training.
    """
    config = _checked("verify_module", [module], verify_cfg)
    values = list(inputs) if inputs is not None else _drawn(module, input_shapes, inputs_centered_on_zero)
    device = device if device is not None else _card(f"tt_{module.get_name()}", config)
    device.place_module(module)
    _verify([device], values, config)


def verify_module_pipeline(
    modules: Sequence[Module],
    input_shapes: Sequence[Sequence[int]],
    verify_cfg: VerifyConfig,
    input_params: Sequence[Any] = (),
    device_types: Sequence[str] = ("TTDevice",),
    params_centered_on_zero: bool = False,
    scale_params: float = 1.0,
    inputs: Sequence[Any] | None = None,
    loss_module: Module | None = None,
    uniform_inputs: bool = False,
    inputs_centered_on_zero: bool = False,
) -> list[Device]:
    """Runs modules in a row and compares outputs with the reference's, as `verify_module` does; returns the devices.

    Each of `device_types` (`TTDevice`, `CPUDevice`, or `-` for the device before) takes one module, the last one also
    those that are left. `inputs` has one tuple. Raises PyBudaError, and NotThereYet for a `test_kind` of training.
    """
    config = _checked("verify_module_pipeline", modules, verify_cfg)
    kinds = list(device_types)
    devices: list[Device] = []
    for number, module in enumerate(modules):
        kind = kinds[number] if number < len(kinds) else "-"
        if kind == "TTDevice":
            devices.append(_card(f"tt{number}", config))
        elif kind == "CPUDevice":
            devices.append(CPUDevice(f"cpu{number}"))
        elif kind != "-" or not devices:
            raise PyBudaError(
                f"verify_module_pipeline: device_types: expected TTDevice, CPUDevice, or - behind one, got {kind!r}"
            )
        devices[-1].place_module(module)
    given = inputs[0] if inputs else None
    values = list(given) if given is not None else _drawn(modules[0], input_shapes, inputs_centered_on_zero)
    _verify(devices, values, config)
    return devices


def _checked(where: str, modules: Sequence[Module], verify_cfg: VerifyConfig | None) -> VerifyConfig:
    """Returns the configuration of a verification. Raises PyBudaError, NotThereYet."""
    config = verify_cfg or VerifyConfig()
    if not isinstance(config, VerifyConfig) or not modules or not all(isinstance(one, Module) for one in modules):
        raise PyBudaError(f"{where}: expected a module and a VerifyConfig, got {modules!r} and {verify_cfg!r}"[:300])
    if config.test_kind is not TestKind.INFERENCE:
        raise NotThereYet(f"{where}: expected TestKind.INFERENCE, got training; try run_training and its losses")
    return config


def _card(name: str, config: VerifyConfig) -> TTDevice:
    return TTDevice(
        name,
        num_chips=config.num_chips,
        chip_ids=config.chip_ids,
        arch=config.arch,
        devtype=config.devtype,
        device_mode=config.devmode,
        fp32_fallback=config.fp32_fallback,
    )


def _drawn(module: Module, shapes: Sequence[Sequence[int]], centered: bool) -> list[Any]:
    """Returns seeded inputs: tensors of PyTorch for its modules."""
    generator = np.random.default_rng(0)
    low = np.float32(-0.5 if centered else 0.0)
    values = [generator.random(tuple(shape), dtype=np.float32) + low for shape in shapes]
    return [to_torch(value) for value in values] if isinstance(module, PyTorchModule) else list(values)


def _verify(devices: Sequence[Device], values: Sequence[Any], config: VerifyConfig) -> None:
    """Runs one microbatch through devices that are there, and compares; ends their use. Raises PyBudaError."""
    compiles_only = (
        compile_depth() is not CompileDepth.FULL
        or config.devtype is BackendType.NoBackend
        or config.devmode is DeviceMode.CompileOnly
    )
    try:
        least = config.pcc if config.pcc is not None else 0.99
        wanted = list(values)
        for device in devices:
            device.settle_microbatch(values, devices[0].microbatch)
            if compiles_only:
                device.compile_modules(device.first_of([array_of(value) for value in wanted]))
                if device is devices[-1]:
                    return
            passed, wanted = wanted, device.reference(wanted, device.microbatch)
            if config.enabled and config.verify_all and isinstance(device, TTDevice):
                _compare_traced(device, passed, wanted, least)
        outputs = run_inference(inputs=[tuple(values)], _sequential=config.sequential).get()
        if config.enabled and config.verify_last:
            for number, (got, reference) in enumerate(zip(outputs, wanted, strict=True)):
                check_correlation(f"output {number} of the card", got, reference, least, "the framework")
    finally:
        if not config.skip_shutdown:
            pybuda_reset()


def _compare_traced(device: TTDevice, inputs: Sequence[Any], wanted: Sequence[Any], least: float) -> None:
    """Compares what XLA computes of the traced modules of a device with their framework. Raises PyBudaError."""
    each = one_by_one(device.name, inputs, device.microbatch)
    for module in device.active:
        each = [Module.compute(module, one) for one in each]
    for number, (got, reference) in enumerate(zip(joined(each), wanted, strict=True)):
        check_correlation(f"output {number} of the traced module", got, reference, least, "the framework")

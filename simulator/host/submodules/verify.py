"""`pybuda.verify`: runs modules on devices of their own, and compares what comes out with their frameworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opscope.simulator.host.correlation import check_correlation
from opscope.simulator.host.devices.cpu_device import CPUDevice
from opscope.simulator.host.devices.device import Device
from opscope.simulator.host.devices.tt_device import TTDevice
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.microbatch import joined, one_by_one
from opscope.simulator.host.modules.module import Module
from opscope.simulator.host.modules.py_torch_module import PyTorchModule
from opscope.simulator.host.run import run_inference, shutdown
from opscope.simulator.host.settings.verify_config import VerifyConfig
from opscope.simulator.host.submodules.full_precision import verified
from opscope.simulator.host.submodules.verify_training import compiles_only, optimizer_of, torch_optimizer_of, train
from opscope.simulator.host.tensor import array_of, to_torch

ABOVE_ZERO = np.float32(1e-5)
"""What keeps drawn numbers above 0."""


def verify_module(
    module: Module,
    input_shapes: Sequence[Sequence[int]],
    verify_cfg: VerifyConfig | None = None,
    input_params: Sequence[Any] = (),
    device_type: str = "TTDevice",
    params_centered_on_zero: bool = False,
    scale_params: float = 1.0,
    inputs: Sequence[Any] | None = None,
    loss_module: Module | None = None,
    uniform_inputs: bool = False,
    inputs_centered_on_zero: bool = False,
) -> list[Device]:
    """Runs a module on `inputs`, or on seeded ones of `input_shapes`, and compares outputs with the reference's.

    The reference is the framework: PyTorch for its modules, XLA in float32 for others. Compared are the card's outputs,
    and with `verify_all` also what XLA computes of the traced module. `inputs` has a tuple for each microbatch. Seeded
    ones are drawn as TT-Buda draws them: positive, near 0.5, or near 0 if they are centered; or uniform from 0 to 1, or
    -0.5 to 0.5; in the type that `data_format` of their entry in `input_params` names. So are parameters that have no
    value, divided by `scale_params`. Where `compile_depth` or `verify_cfg` say so, it is only compiled. With a
    `test_kind` of training it is trained, by the optimizer of `verify_cfg`, and gradients and weights are compared.
    Returns the device. Raises PyBudaError.
    """
    return verify_module_pipeline(
        [module],
        input_shapes,
        verify_cfg,
        input_params,
        [device_type],
        params_centered_on_zero,
        scale_params,
        inputs,
        loss_module,
        uniform_inputs,
        inputs_centered_on_zero,
    )


def verify_module_pipeline(
    modules: Sequence[Module],
    input_shapes: Sequence[Sequence[int]],
    verify_cfg: VerifyConfig | None = None,
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
    those that are left; the last one is trained with `loss_module`, or the L1 loss of its outputs. Where a CPUDevice is
    trained, PyTorch trains it. Raises PyBudaError.
    """
    config = _checked("verify", modules, verify_cfg)
    kinds = list(device_types)
    devices: list[Device] = []
    for number, module in enumerate(modules):
        kind = kinds[number] if number < len(kinds) else "-"
        if kind == "TTDevice":
            devices.append(_card(f"tt{number}", config))
        elif kind == "CPUDevice":
            devices.append(_cpu(f"cpu{number}", config))
        elif kind != "-" or not devices:
            raise PyBudaError(f"verify: device_types: expected TTDevice, CPUDevice, or - behind one, got {kind!r}")
        devices[-1].place_module(module)
    _give_values(modules, params_centered_on_zero, scale_params, uniform_inputs)
    given = [list(row) if isinstance(row, tuple | list) else [row] for row in inputs or ()]
    rows = given or _drawn(config, modules[0], input_shapes, inputs_centered_on_zero, uniform_inputs, input_params)
    _verify(devices, rows, config, loss_module)
    return devices


def _checked(where: str, modules: Sequence[Module], verify_cfg: VerifyConfig | None) -> VerifyConfig:
    """Returns the configuration of a verification. Raises PyBudaError."""
    config = verify_cfg or VerifyConfig()
    if not isinstance(config, VerifyConfig) or not modules or not all(isinstance(one, Module) for one in modules):
        raise PyBudaError(f"{where}: expected a module and a VerifyConfig, got {modules!r} and {verify_cfg!r}"[:300])
    return config


def _card(name: str, config: VerifyConfig) -> TTDevice:
    optimizer = optimizer_of(config) if config.kind.is_training() else None
    return TTDevice(
        name,
        num_chips=config.num_chips,
        chip_ids=config.chip_ids,
        arch=config.arch,
        devtype=config.devtype,
        device_mode=config.devmode,
        fp32_fallback=config.fp32_fallback,
        optimizer=optimizer,
        scheduler=config.scheduler["type"](optimizer) if optimizer is not None and config.scheduler else None,
    )


def _cpu(name: str, config: VerifyConfig) -> CPUDevice:
    optimizer_f = torch_optimizer_of(config) if config.kind.is_training() else None
    if optimizer_f is None or not config.scheduler:
        return CPUDevice(name, optimizer_f)
    scheduler = config.scheduler["type"](optimizer_of(config))
    return CPUDevice(name, optimizer_f, scheduler.get_pytorch_scheduler)


def _floats(generator: np.random.Generator, shape: Sequence[int], centered: bool, uniform: bool) -> np.ndarray:
    """Returns numbers near 0.5, or near 0 if they are centered; or uniform ones, from 0 to 1 or -0.5 to 0.5."""
    if uniform:
        return generator.random(tuple(shape), dtype=np.float32) - np.float32(0.5 * centered)
    return generator.normal(0.0 if centered else 0.5, 0.1, tuple(shape)).astype(np.float32)


def _give_values(modules: Sequence[Module], centered: bool, scale: float, uniform: bool) -> None:
    """Draws a value for each parameter that has none. Raises PyBudaError."""
    if scale <= 0:
        raise PyBudaError(f"verify: scale_params: expected a number above 0, got {scale!r}")
    generator = np.random.default_rng(2)
    for parameter in (each for module in modules for each in module.get_parameters()):
        if not parameter.has_value():
            values = _floats(generator, parameter.shape, centered, uniform)
            parameter.set_value((values if uniform or centered else np.abs(values) + ABOVE_ZERO) / np.float32(scale))


def _drawn(
    config: VerifyConfig,
    module: Module,
    shapes: Sequence[Sequence[int]],
    centered: bool,
    uniform: bool,
    parameters: Sequence[Any],
) -> list[list[Any]]:
    """Returns seeded inputs for all that is run: tensors of PyTorch for its modules."""
    generator = np.random.default_rng(0)

    def one(number: int, shape: Sequence[int]) -> np.ndarray:
        entry = parameters[number] if number < len(parameters) else None
        asked = entry.get("data_format") if isinstance(entry, Mapping) else None
        named = getattr(asked, "name", None) or str(asked).rpartition(".")[2]  # TensorFlow's types have names
        kind = np.dtype(named) if asked is not None else np.dtype(np.float32)
        if kind.kind in "iu":
            return generator.integers(0, min(25000, np.iinfo(kind.name).max), tuple(shape), dtype=kind)
        values = _floats(generator, shape, centered, uniform)
        return (values if uniform else np.abs(values) + ABOVE_ZERO).astype(kind)

    count = config.total_number_of_inputs() if config.kind.is_training() else 1
    rows = [[one(number, shape) for number, shape in enumerate(shapes)] for _ in range(count)]
    return [[to_torch(v) if isinstance(module, PyTorchModule) else v for v in row] for row in rows]


def _verify(devices: Sequence[Device], rows: Sequence[Any], config: VerifyConfig, loss: Module | None) -> None:
    """Runs or trains devices that are there, and compares; ends their use. Raises PyBudaError."""
    try:
        if config.kind.is_training():
            train([device for device in devices if isinstance(device, TTDevice | CPUDevice)], rows, loss, config)
        else:
            _infer(devices, rows, config)
    finally:
        if not config.skip_shutdown:
            shutdown()


def _infer(devices: Sequence[Device], rows: Sequence[Sequence[Any]], config: VerifyConfig) -> None:
    """Runs microbatches through devices, and compares. Raises PyBudaError."""
    references = [_referred(devices, values, config) for values in rows[: 1 if compiles_only(config) else None]]
    if compiles_only(config):
        return
    results = run_inference(inputs=[tuple(values) for values in rows], _sequential=config.sequential)
    made = [results.get() for _ in references]
    if config.enabled and config.verify_last:
        verified(
            devices,
            config,
            lambda limits: _compare(made, references, limits),
            lambda: _compare([_through(devices, values) for values in rows], references, config),
        )


def _through(devices: Sequence[Device], values: Sequence[Any]) -> Sequence[Any]:
    """Returns what the devices, one after the other, make of a microbatch."""
    for device in devices:
        values = device.run_inputs(values)
    return values


def _compare(made: Sequence[Sequence[Any]], wanted: Sequence[Sequence[Any]], config: VerifyConfig) -> None:
    """Raises PyBudaError where outputs of a microbatch are not the references."""
    for outputs, references in zip(made, wanted, strict=True):
        for number, (got, reference) in enumerate(zip(outputs, references, strict=True)):
            check_correlation(f"output {number} of the card", got, reference, config, "the framework")


def _referred(devices: Sequence[Device], values: Sequence[Any], config: VerifyConfig) -> list[Any]:
    """Returns what the devices are to make of a microbatch, for which they are only compiled where that is asked for.

    Raises PyBudaError.
    """
    wanted = list(values)
    for device in devices:
        device.settle_microbatch(values, devices[0].microbatch)
        if compiles_only(config):
            device.compile_modules(device.first_of([array_of(value) for value in wanted]))
            if device is devices[-1]:
                break
        passed, wanted = wanted, device.reference(wanted, device.microbatch)
        if config.enabled and config.verify_all and isinstance(device, TTDevice):
            _compare_traced(device, passed, wanted, config)
    return wanted


def _compare_traced(device: TTDevice, inputs: Sequence[Any], wanted: Sequence[Any], config: VerifyConfig) -> None:
    """Compares what XLA computes of the traced modules of a device with their framework. Raises PyBudaError."""
    each = one_by_one(device.name, inputs, device.microbatch)
    for module in device.active:
        each = [Module.compute(module, one) for one in each]
    for number, (got, reference) in enumerate(zip(joined(each), wanted, strict=True)):
        check_correlation(f"output {number} of the traced module", got, reference, config, "the framework")

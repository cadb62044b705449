"""The functions that run a pipeline: all at once, or step by step."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Any

from opscope.simulator.host import session as sessions
from opscope.simulator.host.argument_checks import count, listed, one_of
from opscope.simulator.host.devices.cpu_device import CPUDevice
from opscope.simulator.host.devices.device import Device
from opscope.simulator.host.devices.tt_device import TTDevice
from opscope.simulator.host.errors import DeviceDied, NotThereYet, PyBudaError, again
from opscope.simulator.host.modules.image_module import ImageModule
from opscope.simulator.host.modules.module import Module
from opscope.simulator.host.modules.py_buda_module import PyBudaModule
from opscope.simulator.host.old_spellings import old_spellings
from opscope.simulator.host.pipeline import Pipeline
from opscope.simulator.host.settings.enumerations import DeviceMode
from opscope.simulator.host.settings.options import global_compiler_config, option, reset_options
from opscope.simulator.host.settings.verify_config import VerifyConfig
from opscope.simulator.host.tensor import Tensor


@old_spellings(num_inputs="input_count", sequential="_sequential")
def run_inference(
    module: Module | None = None,
    inputs: list[Any] = [],
    input_count: int = 1,
    output_queue: Any = None,
    _sequential: bool = False,
    _perf_trace: bool = False,
    _verify_cfg: VerifyConfig | None = None,
) -> Any:
    """Runs inference and returns the queue of outputs, each a list of tensors.

    `module` is placed on the first device, in place of all other modules, or on a card of its own if there is no
    device. `inputs` are pushed, and all of them run; each is a tensor, a tuple or a dictionary. It returns as soon as
    the pipeline runs, and runs `input_count` inputs (0: until shutdown), also those that are pushed later; with
    `_sequential` it runs those that are there and returns then. As long as devices and modules stay, outputs go into
    the queue that the first call has returned, unless `output_queue` is another. Raises PyBudaError.
    """
    count("run_inference: input_count", input_count, 0)
    pushed = listed("run_inference: inputs", inputs, "inputs")
    if pushed and input_count not in (0, 1, len(pushed)):
        raise PyBudaError(f"run_inference: expected input_count {len(pushed)}, as there are inputs, got {input_count}")
    if module is not None:
        _placed(module)
    devices = sessions.session().devices
    pipeline = _current(devices, output_queue, _verify_cfg)
    for one in pushed:
        pipeline.devices[0].push_to_inputs(*(one if isinstance(one, tuple) else (one,)))
    if _perf_trace:
        _traced(pipeline)
    pipeline.forward(len(pushed) if pushed and input_count else input_count, _sequential)
    return pipeline.outputs


@old_spellings(num_inputs="input_count", sequential="_sequential")
def run_generative_inference(
    module: Module | None = None,
    inputs: list[Any] = [],
    input_count: int = 1,
    output_queue: Any = None,
    _sequential: bool = False,
    _perf_trace: bool = False,
    _verify_cfg: VerifyConfig | None = None,
) -> Any:
    """Does what `run_inference` does; no module here has past caches. Raises PyBudaError, NotThereYet."""
    _no_past_caches("run_generative_inference")
    return run_inference(module, inputs, input_count, output_queue, _sequential, _perf_trace, _verify_cfg)


def run_generate(
    input_count: int = 1,
    write_index: int = -1,
    tokens_per_iter: int = -1,
    token_id: int = -1,
    _sequential: bool = False,
) -> None:
    """Runs `input_count` inputs through the initialized pipeline, as `run_forward` does.

    The other arguments say where TT-Buda writes past keys and values, which stay on its card; here a program passes
    them on itself. Raises PyBudaError, and NotThereYet where outputs are to stay on the card (`loopback_outputs`).
    """
    _no_past_caches("run_generate")
    run_forward(input_count, _sequential)


def _no_past_caches(where: str) -> None:
    if global_compiler_config().keeps_outputs:
        raise NotThereYet(
            f"{where}: expected a program that passes past keys and values on, got loopback_outputs or "
            "enable_link_past_cache_ios, by which they stay on the card"
        )


def set_device_pipeline(devs: Sequence[Device]) -> None:
    """Sets the order of the devices that form the pipeline; those that are left out rest. Raises PyBudaError."""
    ordered = listed("set_device_pipeline: devs", devs, "devices")
    for device in ordered:
        if device not in sessions.session().devices:
            raise PyBudaError(f"set_device_pipeline: expected devices of this program, got {device!r}"[:300])
    sessions.set_devices(ordered)


def get_devices() -> list[Device]:
    """Returns the devices, in the order of the pipeline; after a shutdown those that it has ended."""
    return list(sessions.session().devices or sessions.session().closed)


def get_tenstorrent_device() -> TTDevice | None:
    """Returns the first device of cards; None if there is none."""
    return next((device for device in sessions.session().devices if isinstance(device, TTDevice)), None)


def _placed(module: Module) -> None:
    if not isinstance(module, Module):
        raise PyBudaError(f"run_inference: expected a pybuda module, got {type(module).__name__}")
    if module.get_device() is not None:
        return
    devices = sessions.session().devices
    for device in devices:
        if device.modules:
            sessions.stop()
            device.remove_modules()
    if devices:
        devices[0].place_module(module)
    else:
        TTDevice(f"tt_{module.get_name()}", module=module)


def _current(devices: list[Device], output_queue: Any, verify: VerifyConfig | None) -> Pipeline:
    """Returns a pipeline of the devices, in place of the one that runs, whose queue it takes over if it is as good.

    Raises DeviceDied if a process has ended in that run, and nobody was told.
    """
    session = sessions.session()
    before = session.pipeline
    forwarded: list[Any] = []
    if before is not None:
        before.stop()
        if isinstance(died := before.failure, DeviceDied) and not died.reported:
            raise again(died)
    if isinstance(before, Pipeline) and before.failure is None and before.is_of(devices):
        forwarded = before.forwarded
        output_queue = before.outputs if output_queue is None else output_queue
    session.pipeline = Pipeline(devices, output_queue, forwarded, verify)
    return session.pipeline


def _traced(pipeline: Pipeline) -> None:
    for device in pipeline.devices:
        if isinstance(device, TTDevice):
            device.trace = True


def run_module(module: Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Runs a module on a card of its own and returns its outputs as they went in: arrays or PyTorch tensors."""
    before = module.get_device()
    used = [device.name for device in sessions.session().devices if device.modules and device is not before]
    if used:
        raise PyBudaError(f"run: expected no other module on a device, got one on {used[0]}; try shutdown()")
    try:
        outputs = run_inference(module, [tuple(args)], _sequential=True).get()
    finally:
        device = module.get_device()
        if before is None and device is not None:
            sessions.stop()
            device.remove_modules()
            device.shutdown_device()
            sessions.remove_device(device)
    return tuple(tensor.value() for tensor in outputs)


def initialize_pipeline(
    training: bool,
    output_queue: Any = None,
    checkpoint_queue: Any = None,
    sample_inputs: Any = (),
    sample_targets: tuple[Any, ...] = (),
    microbatch_count: int = 1,
    d2d_fwd_queues: list[Any] = [],
    d2d_bwd_queues: list[Any] = [],
    _sequential: bool = False,
    _verify_cfg: VerifyConfig | None = None,
    _device_mode: DeviceMode = DeviceMode.CompileAndRun,
) -> Any:
    """Compiles the devices for inputs like `sample_inputs`, or the first that was pushed; returns the output queue.

    `run_forward` then runs. What goes from one device to the next is also put into `d2d_fwd_queues`, in order. For
    training it returns the queue of checkpoints, `output_queue` gets the losses, and what goes back from device to
    device is put into `d2d_bwd_queues`; any number of microbatches may wait between forward and backward, whatever
    `microbatch_count` says. Raises PyBudaError.
    """
    session = sessions.session()
    one_of("initialize_pipeline: _device_mode", _device_mode, DeviceMode)
    if training:
        return _initialized_training(
            checkpoint_queue, output_queue, sample_inputs, sample_targets, d2d_fwd_queues, d2d_bwd_queues
        )
    if session.pipeline is not None:
        session.pipeline.stop()
    session.pipeline = Pipeline(session.devices, output_queue, d2d_fwd_queues, _verify_cfg)
    first = session.pipeline.devices[0]
    if isinstance(sample_inputs, dict):
        sample: Any = first.modules[0].ordered(sample_inputs)
    else:
        sample = listed("initialize_pipeline: sample_inputs", sample_inputs, "tensors") or first.inputs.first()
    if sample is None:
        raise PyBudaError("initialize_pipeline: expected sample_inputs or an input that was pushed, got neither")
    if _device_mode is not DeviceMode.CompileAndRun:
        for device in session.pipeline.devices:
            if isinstance(device, TTDevice):
                device.device_mode = _device_mode
    session.pipeline.compile(sample)
    return session.pipeline.outputs


def _initialized_training(
    checkpoints: Any, losses: Any, inputs: Any, targets: Any, forwarded: list[Any], returned: list[Any]
) -> Any:
    from opscope.simulator.host.train import begin

    pipeline = begin(checkpoint_queue=checkpoints, loss_queue=losses, d2d_fwd_queues=forwarded, d2d_bwd_queues=returned)
    if isinstance(inputs, dict):
        inputs = pipeline.devices[0].modules[0].ordered(inputs)
    sample = listed("initialize_pipeline: sample_inputs", inputs, "tensors") or pipeline.devices[0].inputs.first()
    wanted = listed("initialize_pipeline: sample_targets", targets, "tensors") or pipeline.devices[-1].targets.first()
    if sample is None or wanted is None:
        what = "sample_inputs" if sample is None else "sample_targets"
        raise PyBudaError(f"initialize_pipeline: expected {what}, or some that were pushed, got neither")
    pipeline.compile(sample, wanted)
    return pipeline.outputs


def run_forward(input_count: int = 1, _sequential: bool = False) -> None:
    """Runs `input_count` inputs through the initialized pipeline. Raises PyBudaError."""
    pipeline = sessions.session().pipeline
    if pipeline is None:
        raise PyBudaError("run_forward: expected a pipeline, got none; try initialize_pipeline")
    pipeline.forward(input_count, _sequential)


def get_parameter_checkpoint(
    device: CPUDevice | TTDevice | None = None, _sequential: bool = False
) -> list[dict[str, Any]]:
    """Returns the value of each parameter by name, for the device or for each one. Raises PyBudaError."""
    one_of("get_parameter_checkpoint: device", device, Device)
    return [_parameters(one) for one in ([device] if device is not None else sessions.session().devices)]


def _parameters(device: Device) -> dict[str, Any]:
    if isinstance(device, TTDevice):
        return device.get_parameter_checkpoint()
    return {p.get_name(): Tensor(p.value()) for module in device.modules for p in module.get_parameters()}


def update_device_parameters(
    device: CPUDevice | TTDevice | None = None,
    parameters: list[dict[str, Any]] = [],
    _sequential: bool = False,
) -> None:
    """Replaces parameters of a device, or of each device by its entry in `parameters`. Raises PyBudaError."""
    one_of("update_device_parameters: device", device, Device)
    devices = [device] if device is not None else list(sessions.session().devices)
    parameters = listed("update_device_parameters: parameters", parameters, "dictionaries, one per device")
    if len(parameters) != len(devices):
        raise PyBudaError(
            f"update_device_parameters: expected {len(devices)} dictionaries, one per device, got {len(parameters)}"
        )
    for one, values in zip(devices, parameters, strict=True):
        if not isinstance(one, TTDevice | CPUDevice):
            one.refuse("a TTDevice or CPUDevice", type(one).__name__)
        if not isinstance(values, dict):
            one.refuse("a dictionary of parameters by name", f"{values!r}"[:200])
        one.update_parameters(values)


def sync() -> None:
    """Waits until what was asked for has run. Raises what the run raised."""
    sessions.wait()


def shutdown() -> None:
    """Ends the run and every device; a push to one of them then is an error."""
    sessions.close()


def pybuda_reset() -> None:
    """Does what `shutdown` does, and forgets every device and option."""
    shutdown()
    sessions.session().closed = []
    reset_options()


def is_silicon(devtype: Any) -> bool:
    """Whether a kind of device is a real card: no, as TT-Buda answers too."""
    return False


def reset_state() -> None:
    """Forgets what `torch.compile` has left on cards: nothing, as a PyTorchModule is what runs there."""


def error_raised() -> bool:
    """Whether the run has ended with an error."""
    pipeline = sessions.session().pipeline
    return pipeline is not None and pipeline.error is not None


def get_intermediates_queue() -> queue.Queue[Any]:
    """Returns the queue of the first op that `insert_tapout_queue_for_op` named, else of `op_intermediates_to_save`.

    The latter has a list for each run of a device, in the order of the graph. Raises PyBudaError if no op was named.
    """
    modules = [module for device in sessions.session().devices for module in device.modules]
    for module in modules:
        if isinstance(module, PyBudaModule) and module.tapouts:
            return next(iter(module.tapouts.values()))
    of_an_image = any(isinstance(module, ImageModule) and module.saved for module in modules)
    if of_an_image or option("op_intermediates_to_save", ()):
        return sessions.session().intermediates
    raise PyBudaError(
        "get_intermediates_queue: expected an op to save, got none; try op_intermediates_to_save or "
        "insert_tapout_queue_for_op"
    )

"""The functions that train a pipeline: all at once, or step by step."""

from __future__ import annotations

from typing import Any

from opscope.simulator.host import session as sessions
from opscope.simulator.host.argument_checks import count, one_of
from opscope.simulator.host.devices.cpu_device import CPUDevice
from opscope.simulator.host.devices.device import Device
from opscope.simulator.host.devices.tt_device import TTDevice
from opscope.simulator.host.settings.verify_config import VerifyConfig
from opscope.simulator.host.training.training_pipeline import TrainingPipeline


def run_training(
    epochs: int = 1,
    steps: int = 1,
    accumulation_steps: int = 1,
    microbatch_count: int = 1,
    checkpoint_queue: Any = None,
    loss_queue: Any = None,
    checkpoint_interval: int = 0,
    _sequential: bool = False,
    _perf_trace: bool = False,
    _verify_cfg: VerifyConfig | None = None,
) -> Any:
    """Trains the devices on what was pushed, and returns the queue of checkpoints, the last of them the final weights.

    Each of `epochs` has `steps`; a step runs `microbatch_count` microbatches forward and then backward,
    `accumulation_steps` times, and then the optimizer; an epoch ends with the schedule. Inputs and targets for all of
    it have to be there. It returns when it is done; with `_sequential` no device has a process. A checkpoint has a
    dictionary of parameters for each device, and there is one every `checkpoint_interval` steps, if that is not 0. The
    queue of losses gets an entry per microbatch. `_perf_trace` and `_verify_cfg` are ignored. Raises PyBudaError.
    """
    counts = {
        "epochs": epochs,
        "steps": steps,
        "accumulation_steps": accumulation_steps,
        "microbatch_count": microbatch_count,
    }
    for what, value in counts.items():
        count(f"run_training: {what}", value, 1)
    count("run_training: checkpoint_interval", checkpoint_interval, 0)
    pipeline = begin(checkpoint_queue=checkpoint_queue, loss_queue=loss_queue)
    done = 0
    for _ in range(epochs):
        for _ in range(steps):
            for accumulated in range(accumulation_steps):
                pipeline.forward(microbatch_count, _sequential)
                pipeline.backward(microbatch_count, zero_grad=accumulated == 0)
            done += 1
            pipeline.step(checkpoint=bool(checkpoint_interval) and done % checkpoint_interval == 0)
        pipeline.schedule()
    pipeline.put_checkpoint()
    return pipeline.checkpoints


def begin(**queues: Any) -> TrainingPipeline:
    """Returns a pipeline that trains the devices, in place of the one that runs. Raises PyBudaError."""
    session = sessions.session()
    pipeline = TrainingPipeline(session.devices, **queues)
    if session.pipeline is not None:
        session.pipeline.stop()
    session.pipeline = pipeline
    return pipeline


def run_backward(input_count: int = 1, zero_grad: bool = False, _sequential: bool = False) -> None:
    """Runs the oldest microbatches that ran forward backward; `zero_grad` begins their sum anew. Raises PyBudaError."""
    count("run_backward: input_count", input_count, 1)
    sessions.training("run_backward").backward(input_count, zero_grad)


def run_optimizer(checkpoint: bool = False, _sequential: bool = False) -> None:
    """Runs the optimizer of each device; with `checkpoint` the new weights go into the queue of checkpoints.

    Raises PyBudaError if a microbatch has run forward and not backward.
    """
    sessions.training("run_optimizer").step(checkpoint)


def run_schedulers(_sequential: bool = False) -> None:
    """Sets the next learning rate of each device that has a schedule. Raises PyBudaError."""
    sessions.training("run_schedulers").schedule()


def get_loss_queue() -> Any:
    """Returns the queue of losses: an entry per microbatch that ran forward. Raises PyBudaError."""
    return sessions.training("get_loss_queue").losses


def get_parameter_gradients(
    device: CPUDevice | TTDevice | None = None, _sequential: bool = False
) -> list[dict[str, Any]]:
    """Returns the gradients so far by the parameters' names, for the device or for each one. Raises PyBudaError."""
    pipeline = sessions.training("get_parameter_gradients")
    one_of("get_parameter_gradients: device", device, Device)
    devices = pipeline.devices if device is None else [device]
    for one in devices:
        if not isinstance(one, TTDevice | CPUDevice):
            one.refuse("a TTDevice or CPUDevice", type(one).__name__)
    return [one.get_parameter_gradients() for one in devices]

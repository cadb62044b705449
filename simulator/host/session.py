"""What a program has made so far: its devices, and the run that is going on."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.simulator.host.errors import PyBudaError, again
from opscope.simulator.host.tensor import Tensor

if TYPE_CHECKING:
    from opscope.simulator.host.devices.device import Device
    from opscope.simulator.host.pipeline import Pipeline
    from opscope.simulator.host.training.training_pipeline import TrainingPipeline


class Session:
    """One per process."""

    def __init__(self) -> None:
        self.devices: list[Device] = []
        self.closed: list[Device] = []
        """The devices that the last shutdown has ended, until there are new ones."""
        self.pipeline: Pipeline | TrainingPipeline | None = None
        self.intermediates: queue.Queue[Any] = queue.Queue()
        """Of each run of a device, the results of ops that `op_intermediates_to_save` names."""


_SESSION = Session()


def session() -> Session:
    """Returns the session."""
    return _SESSION


def without_saved(results: Sequence[np.ndarray], saved: int) -> list[np.ndarray]:
    """Returns the results of a program, and puts the last `saved` of them into the queue of intermediates."""
    own = len(results) - saved
    if saved:
        _SESSION.intermediates.put([Tensor(value) for value in results[own:]])
    return list(results[:own])


def add_device(device: Device) -> None:
    """Adds a device at the end of the pipeline."""
    stop()
    _SESSION.devices.append(device)
    _SESSION.closed = []


def set_devices(devices: list[Device]) -> None:
    """Sets the devices of the pipeline, in order."""
    stop()
    _SESSION.devices = devices


def stop() -> None:
    """Ends the run; devices and modules stay."""
    if _SESSION.pipeline is not None:
        _SESSION.pipeline.stop()
        _SESSION.pipeline = None


def remove_device(device: Device) -> None:
    """Removes a device that could not be made."""
    _SESSION.devices = [other for other in _SESSION.devices if other is not device]


def training(where: str) -> TrainingPipeline:
    """Returns the pipeline that is trained. Raises PyBudaError, in the name of `where`, if there is none."""
    from opscope.simulator.host.training.training_pipeline import TrainingPipeline

    if not isinstance(_SESSION.pipeline, TrainingPipeline):
        raise PyBudaError(f"{where}: expected training, got none; try initialize_pipeline(training=True)")
    return _SESSION.pipeline


def is_running() -> bool:
    """Whether a run takes inputs."""
    return _SESSION.pipeline is not None and _SESSION.pipeline.is_running()


def check_run() -> None:
    """Raises what the run has failed with, until `wait` has raised it or another run has begun."""
    if _SESSION.pipeline is not None and _SESSION.pipeline.failure is not None:
        raise again(_SESSION.pipeline.failure)


def takes_inputs() -> bool:
    """Whether a run takes inputs. Raises what it has failed with."""
    check_run()
    return is_running()


def wait() -> None:
    """Waits until what was asked for has run. Raises what the run raised."""
    if _SESSION.pipeline is not None:
        _SESSION.pipeline.wait()


def close() -> Any:
    """Stops the run and ends every device."""
    if _SESSION.pipeline is not None:
        _SESSION.pipeline.stop()
    for device in _SESSION.devices:
        device.shutdown_device()
    _SESSION.closed = _SESSION.devices or _SESSION.closed
    _SESSION.devices, _SESSION.pipeline, _SESSION.intermediates = [], None, queue.Queue()

"""A row of devices that are trained: microbatches forward, then backward, then the optimizer of each device."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from opscope.simulator.host.argument_checks import count, queue_of, queues
from opscope.simulator.host.devices.cpu_device import CPUDevice
from opscope.simulator.host.devices.device import Device
from opscope.simulator.host.devices.tt_device import TTDevice
from opscope.simulator.host.errors import NoMeaningHere, PyBudaError
from opscope.simulator.host.fitting import of_type
from opscope.simulator.host.microbatch import joined_shape, one_by_one
from opscope.simulator.host.tensor import Tensor, array_of
from opscope.simulator.host.training.cpu_part import CpuPart
from opscope.simulator.host.training.image_training import ImageTraining
from opscope.simulator.host.training.part import part_of, sample_of
from opscope.simulator.host.training.passes import Described
from opscope.simulator.host.training.steps import TrainingPart


class TrainingPipeline:
    """The devices that have modules, in order; the last one computes the loss.

    When a function returns, its work is done. Passes are computed in the devices' processes, but for `sequential` ones;
    weights, gradients and states are kept here, so that they outlive a process.
    """

    error = failure = None
    """What a run in threads of its own ended with: nothing, as there is none."""

    def __init__(
        self,
        devices: Sequence[Device],
        checkpoint_queue: Any = None,
        loss_queue: Any = None,
        d2d_fwd_queues: Sequence[Any] = (),
        d2d_bwd_queues: Sequence[Any] = (),
    ) -> None:
        """Raises PyBudaError if no device has a module, or the last one has no loss module."""
        self.devices = [_trainable(device) for device in devices if device.modules]
        if not self.devices:
            raise PyBudaError("training: expected a module on a device, got none; try place_module")
        last = self.devices[-1]
        if last.loss_module is None and (isinstance(last, CPUDevice) or last.training_image is None):
            last.refuse("a loss module", "none; try place_loss_module")
        self.checkpoints: Any = queue_of("training: checkpoint_queue", checkpoint_queue)
        self.losses: Any = queue_of("training: loss_queue", loss_queue)
        self.checkpoints = queue.Queue() if self.checkpoints is None else self.checkpoints
        self.losses = queue.Queue() if self.losses is None else self.losses
        self.forwarded = queues("training: d2d_fwd_queues", d2d_fwd_queues)
        self.returned = queues("training: d2d_bwd_queues", d2d_bwd_queues)
        self.parts: list[TrainingPart] = []
        self.input_gradients: list[Mapping[int, np.ndarray]] | None = None
        """Of each microbatch that ran backward, the gradients of the first device's inputs by number: once this is a
        list, before it is compiled. Nothing is trained by them."""

    @property
    def outputs(self) -> Any:
        """What `initialize_pipeline` returns for training: the queue of checkpoints."""
        return self.checkpoints

    # --- compiling

    def compile(self, inputs: Sequence[Any], targets: Sequence[Any]) -> None:
        """Makes the three passes of each device, for inputs and targets like these. Raises PyBudaError."""
        if self.parts:
            return
        values = [sample_of(value) for value in inputs]
        first, last = self.devices[0], self.devices[-1]
        first.forget_first()
        first.settle_microbatch(inputs)
        for device in self.devices:
            loss = device is last
            samples = [*values, *(sample_of(value) for value in targets)] if loss else values
            if isinstance(device, TTDevice):
                samples = one_by_one(device.name, samples, first.microbatch)[0]
            part = self._part(device, samples, len(targets) if loss else 0)
            if isinstance(device, TTDevice):
                part.microbatch = first.microbatch
            if not loss:
                values = [np.zeros(shape, dtype) for shape, dtype in _whole_outputs(part)]
            self.parts.append(part)
            device.training = part

    def _part(self, device: TTDevice | CPUDevice, samples: Sequence[np.ndarray], targets: int) -> TrainingPart:
        loss = device is self.devices[-1]
        behind = device is not self.devices[0] or self.input_gradients is not None
        if isinstance(device, CPUDevice):
            return CpuPart(device, samples, targets, loss, behind, device.optimizer_f, device.scheduler_f)
        image = device.training_image
        if image is not None:
            return ImageTraining(device.name, image, device)
        return part_of(device, samples, targets, loss, behind)

    # --- the three passes

    def forward(self, input_count: int, sequential: bool) -> None:
        """Runs microbatches forward; their losses go into the queue of losses. Raises PyBudaError, DeviceDied.

        Passes run in the devices' own processes from here on, or with `sequential` in this one.
        """
        count("training: input_count", input_count, 1)
        first, last = self.devices[0], self.devices[-1]
        for queued, what, push in (
            (first.inputs, "inputs", "push_to_inputs"),
            (last.targets, "targets", "push_to_target_inputs"),
        ):
            if len(queued) < input_count:
                raise PyBudaError(f"training: expected {input_count} {what}, got {len(queued)}; try {push}")
        for device in self.devices:
            if sequential:
                device.end_process()
            else:
                device.start_process()
        for _ in range(input_count):
            inputs, targets = first.inputs.take(lambda: True), last.targets.take(lambda: True)
            assert inputs is not None
            assert targets is not None
            self.compile(inputs, targets)
            values = [array_of(value) for value in inputs]
            with self._for_all_or_none():
                for number, part in enumerate(self.parts):
                    if number == len(self.parts) - 1:
                        values += _targets(targets, part)
                    values = part.forward(_fitting(self.devices[number], values, part))
                    if number < min(len(self.forwarded), len(self.parts) - 1):
                        self.forwarded[number].put([Tensor(value) for value in values])
            self.losses.put(Tensor(values[0]) if len(values) == 1 else [Tensor(value) for value in values])

    def backward(self, input_count: int, zero_grad: bool) -> None:
        """Runs the oldest microbatches backward. Raises PyBudaError if fewer wait, DeviceDied; then all wait still."""
        if not self.parts or self.parts[0].waiting < input_count:
            waiting = self.parts[0].waiting if self.parts else 0
            raise PyBudaError(
                f"training: expected {input_count} microbatches that ran forward, got {waiting}; try run_forward"
            )
        with self._for_all_or_none():
            for number in range(input_count):
                self._microbatch_backward(zero_grad and number == 0)

    def _microbatch_backward(self, zero_grad: bool) -> None:
        incoming: list[np.ndarray] | None = None
        for number in reversed(range(len(self.parts))):
            back = self.parts[number].backward(incoming, zero_grad)
            if number:
                incoming = self._incoming(number, back)
                if number - 1 < len(self.returned):
                    self.returned[number - 1].put([Tensor(value) for value in incoming])
            elif self.input_gradients is not None:
                self.input_gradients.append(back)

    @contextmanager
    def _for_all_or_none(self) -> Iterator[None]:
        """What fails on one device has happened on none: else its microbatches would go with others of the next one."""
        before = [part.kept() for part in self.parts]
        try:
            yield
        except BaseException:
            for part, kept in zip(self.parts, before, strict=True):
                part.restore(kept)
            raise

    def _incoming(self, number: int, back: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """The gradients of the outputs of the device before; zero where an output is no float."""
        outputs = _whole_outputs(self.parts[number - 1])
        return [back.get(i, np.zeros(shape, dtype)) for i, (shape, dtype) in enumerate(outputs)]

    def step(self, checkpoint: bool = False) -> None:
        """Runs the optimizer of each device; modules have the new weights afterwards. Raises PyBudaError."""
        if not self.parts:
            raise PyBudaError("training: expected microbatches that ran backward, got none; try run_forward")
        try:
            with self._for_all_or_none():
                for part in self.parts:
                    part.step()
        except PyBudaError:
            raise
        except RuntimeError as error:
            raise PyBudaError(str(error)) from None
        for device, part in zip(self.devices, self.parts, strict=True):
            if isinstance(device, TTDevice) and (device.optimizer is not None or device.training_image is not None):
                trained = set(part.trained)
                device.update_parameters({name: v for name, v in part.checkpoint().items() if name in trained})
        if checkpoint:
            self.put_checkpoint()

    def put_checkpoint(self) -> None:
        """Puts the parameters of each device into the queue of checkpoints, as a list of dictionaries."""
        self.checkpoints.put([{name: Tensor(v) for name, v in part.checkpoint().items()} for part in self.parts])

    def schedule(self) -> None:
        """Sets the next learning rate of each device that has a schedule."""
        for device, part in zip(self.devices, self.parts or [None] * len(self.devices), strict=True):
            if isinstance(part, CpuPart):
                part.schedule()
            elif isinstance(device, TTDevice) and device.scheduler is not None:
                device.scheduler.step()

    # --- what any pipeline has

    def is_running(self) -> bool:
        """Whether something runs in the background: never."""
        return False

    def wait(self) -> None:
        """Returns at once."""

    def stop(self) -> None:
        """Forgets what waits between the passes."""
        for device in self.devices:
            device.training = None
        self.parts = []


def _trainable(device: Device) -> TTDevice | CPUDevice:
    if not isinstance(device, TTDevice | CPUDevice):
        raise NoMeaningHere(f"{device.name}: expected a TTDevice or CPUDevice to train, got {type(device).__name__}")
    return device


def _whole_outputs(part: TrainingPart) -> list[Described]:
    """Returns shape and element type of each output of a device, for all inputs of a microbatch."""
    return [(joined_shape(shape, part.microbatch), dtype) for shape, dtype in part.outputs]


def _targets(targets: Sequence[Any], part: TrainingPart) -> list[np.ndarray]:
    """Returns targets as arrays: numbers of classes are floats where the sample of targets has floats."""
    pairs = zip(map(array_of, targets), part.inputs[-len(targets) :], strict=False)
    return [
        array.astype(spec.dtype) if array.dtype.kind in "iu" and spec.dtype == "float32" else array
        for array, spec in pairs
    ]


def _fitting(device: Device, values: Sequence[np.ndarray], part: TrainingPart) -> list[np.ndarray]:
    specs = part.inputs
    if len(specs) != len(values):
        device.refuse(f"{len(specs)} inputs and targets", f"{len(values)}")
    for number, (spec, value) in enumerate(
        zip(specs, one_by_one(device.name, values, part.microbatch)[0], strict=True)
    ):
        if value.shape != spec.shape:
            device.refuse(f"shape {list(spec.shape)} of input or target {number}", f"{list(value.shape)}")
    pairs = enumerate(zip(specs, values, strict=True))
    return [of_type(f"{device.name}: input or target {i}", value, spec.dtype) for i, (spec, value) in pairs]

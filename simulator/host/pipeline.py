"""A row of devices, each of which takes the outputs of the one before, and their runs."""

from __future__ import annotations

import os
import queue
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from opscope.simulator.host.argument_checks import count as count_of
from opscope.simulator.host.argument_checks import one_of, queue_of, queues
from opscope.simulator.host.correlation import check_correlation
from opscope.simulator.host.devices.device import Device
from opscope.simulator.host.errors import PyBudaError, again
from opscope.simulator.host.processes.stages import End, Item, Stages
from opscope.simulator.host.settings import environment
from opscope.simulator.host.settings.verify_config import VerifyConfig
from opscope.simulator.host.tensor import Tensor, array_of, is_torch, to_torch

TIMEOUT_SCALE = "OPSCOPE_TIMEOUT_SCALE"
"""Variable by which the timeouts of `get` are multiplied: a simulated card takes longer than a real one."""


class SlowerThanSilicon(UserWarning):
    """A timeout has passed that a card would have met."""


class OutputQueue(queue.Queue[Any]):
    """Outputs in the order of the inputs; each entry is a list of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: Callable[[], BaseException | None] = lambda: None
        """What the run ended with, if with an error."""
        self.running: Callable[[], bool] = lambda: False
        """Whether a run may still add something."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Returns the oldest outputs. Raises what the run raised, PyBudaError if nothing runs, queue.Empty.

        A `timeout` is multiplied by `OPSCOPE_TIMEOUT_SCALE`; the first that passes while something runs says so.
        """
        if not block:
            return super().get(block=False)
        timeout = None if timeout is None else timeout * timeout_scale()
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            running = self.running()  # before the look: what a run adds last is there when it has ended
            try:
                return super().get(block=False)
            except queue.Empty:
                if (error := self.failed()) is not None:
                    raise again(error) from error
                if not running and timeout is None:
                    raise PyBudaError("outputs: expected a run that makes them, got none; try run_inference") from None
                if end is not None and time.monotonic() >= end:
                    if running:
                        _say_once(timeout or 0)
                    raise
            time.sleep(0.005)


def timeout_scale() -> float:
    """Returns what timeouts are multiplied by. Raises PyBudaError for a variable that is no number above 0."""
    text = os.environ.get(TIMEOUT_SCALE) or "1"
    try:
        scale = float(text)
    except ValueError:
        scale = 0
    if not 0 < scale < 1e9:
        raise PyBudaError(f"{TIMEOUT_SCALE}: expected a number above 0, got {text!r}; try 1000")
    return scale


_said = False


def _say_once(seconds: float) -> None:
    global _said
    if not _said:
        _said = True
        warnings.warn(
            f"get: a simulated card has no output after {seconds:g} s; {TIMEOUT_SCALE}=1000 makes timeouts longer",
            SlowerThanSilicon,
            stacklevel=4,
        )


class Pipeline:
    """The devices that have modules, in order."""

    def __init__(
        self,
        devices: Sequence[Device],
        output_queue: Any = None,
        d2d_fwd_queues: Sequence[Any] = (),
        verify: VerifyConfig | None = None,
    ) -> None:
        """Raises PyBudaError if no device has a module, or for what is no queue."""
        self.devices = [device for device in devices if device.modules]
        if not self.devices:
            raise PyBudaError("run: expected a module on a device, got none; try place_module")
        self._modules = [module for device in self.devices for module in device.active]
        self.outputs: Any = OutputQueue() if queue_of("run: output_queue", output_queue) is None else output_queue
        self.forwarded = queues("run: d2d_fwd_queues", d2d_fwd_queues)
        self.verify: VerifyConfig = one_of("run: _verify_cfg", verify, VerifyConfig) or VerifyConfig()
        self.error: BaseException | None = None
        """What a run has ended with, once every output before it is in the queue."""
        self._stages: Stages | None = None
        self._stop = threading.Event()
        self._taken = self._done = 0
        """Inputs that a run has taken, and that have come out."""
        if isinstance(self.outputs, OutputQueue):
            self.outputs.failed, self.outputs.running = lambda: self.error, self.is_running

    def is_of(self, devices: Sequence[Device]) -> bool:
        """Whether these devices have the modules that it was made for."""
        return self._modules == [module for device in devices for module in device.active]

    @property
    def failure(self) -> BaseException | None:
        """What a run has failed with, as soon as that is known."""
        return self.error or (self._stages.failure if self._stages is not None else None)

    def compile(self, sample: Sequence[Any]) -> None:
        """Compiles the devices for microbatches like this one. Raises PyBudaError."""
        first, *others = self.devices
        first.forget_first()
        first.settle_microbatch(sample)
        for device in others:
            device.settle_microbatch((), first.microbatch)
        first.compile_modules(first.first_of([array_of(value) for value in sample]))

    def forward(self, input_count: int, sequential: bool) -> None:
        """Runs `input_count` inputs (0: until it is stopped). Raises PyBudaError.

        `sequential` runs what has been pushed, in this process, and returns when it is done. Otherwise each device runs
        in a process of its own, all at the same time, and they wait for inputs that have not come yet.
        """
        count_of("run: input_count", input_count, 0)
        sequential = sequential or environment.sequential()
        self.wait()
        self.stop()  # a run without end gives way
        if sequential:
            for device in self.devices:
                device.end_process()
            count = input_count or len(self.devices[0].inputs)
            if len(self.devices[0].inputs) < count or not count:
                have = len(self.devices[0].inputs)
                raise PyBudaError(f"run: expected {max(1, count)} inputs, got {have}; try push_to_inputs")
            for _ in range(count):
                inputs = self.devices[0].inputs.take(lambda: True)
                assert inputs is not None
                self.outputs.put(self.through(inputs))
            return
        first = self.devices[0].inputs.first()
        if first is not None:  # what the compiler refuses is the caller's to see
            self.compile(first)
        for device in self.devices:
            device.start_process()
        self._stop.clear()
        self._taken = self._done = 0
        self._stages = Stages(self.devices, self.forwarded, lambda: self._take(input_count), self._give, self._finish)
        self._stages.start()

    def _take(self, count: int) -> Item | End:
        """Returns the next input of a run of `count` inputs, or the end."""
        if count and self._taken == count:
            return End()
        inputs = self.devices[0].inputs.take(self._takes_no_more, self._begin)
        if inputs is None:
            return End()
        self.compile(inputs)
        return Item(inputs, inputs)

    def _takes_no_more(self) -> bool:
        self.devices[0].check_process()
        return self._stop.is_set() or self.failure is not None

    def _begin(self) -> None:
        self._taken += 1

    def _give(self, item: Item) -> None:
        self.outputs.put(self._out(item.inputs, item.values))
        self._done += 1

    def _finish(self, error: BaseException | None) -> None:
        self.error = error

    def through(self, inputs: Sequence[Any]) -> list[Tensor]:
        """Runs one microbatch through all devices, one after the other. Raises PyBudaError."""
        self.compile(inputs)
        values: list[Any] = list(inputs)
        for number, device in enumerate(self.devices):
            values = device.run_inputs(values)
            if number < min(len(self.forwarded), len(self.devices) - 1):
                self.forwarded[number].put(list(values))
        return self._out(inputs, values)

    def _out(self, inputs: Sequence[Any], values: Sequence[Any]) -> list[Tensor]:
        """Returns the outputs of an input from what the last device made, once they are verified."""
        if self.verify.compares:
            self._verified(inputs, values)
        as_torch = any(is_torch(value) for value in inputs)
        return [Tensor(to_torch(value) if as_torch else value) for value in values]

    def _verified(self, inputs: Sequence[Any], values: Sequence[Any]) -> None:
        wanted: list[Any] = list(inputs)
        for device in self.devices:
            wanted = device.reference(wanted, device.microbatch)
        for number, (got, reference) in enumerate(zip(values, wanted, strict=True)):
            check_correlation(f"output {number}", got, reference, self.verify)

    def is_running(self) -> bool:
        """Whether a run may still make outputs."""
        return self._stages is not None and self._stages.is_running()

    def wait(self) -> None:
        """Waits until what was asked for has run, unless that is without end. Raises what the run raised, once."""
        while self.is_running() and not self._idle():
            time.sleep(0.005)
        if self.error is not None:
            error = self.error
            self.stop()
            self.error = None
            raise again(error) from error

    def _idle(self) -> bool:
        """Whether everything that was pushed has come out."""
        return self._taken == self._done and not len(self.devices[0].inputs) and self.failure is None

    def stop(self) -> None:
        """Ends a run once what its devices have begun has come out. Their processes wait for another run."""
        self._stop.set()
        if self._stages is not None:
            self._stages.join()
        self._stages = None

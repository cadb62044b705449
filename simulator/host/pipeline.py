"""A row of devices, each of which takes the outputs of the one before, and the thread that runs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope.simulator.host.devices.device import Device
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.output_queue import OutputQueue
from opscope.simulator.host.settings.verify_config import VerifyConfig
from opscope.simulator.host.tensor import Tensor, array_of, is_torch, to_torch


class Pipeline:
    """The devices that have modules, in order."""

    def __init__(
        self,
        devices: Sequence[Device],
        output_queue: Any = None,
        d2d_fwd_queues: Sequence[Any] = (),
        verify: VerifyConfig | None = None,
    ) -> None:
        """Raises PyBudaError if no device has a module."""
        self.devices = [device for device in devices if device.modules]
        if not self.devices:
            raise PyBudaError("run: expected a module on a device, got none; try place_module")
        self.outputs: Any = OutputQueue() if output_queue is None else output_queue
        self.forwarded, self.verify = list(d2d_fwd_queues), verify
        self.error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._busy = False
        if isinstance(self.outputs, OutputQueue):
            self.outputs.failed, self.outputs.running = lambda: self.error, self.is_running

    def compile(self, sample: Sequence[Any]) -> None:
        """Compiles the devices for inputs like these. Raises PyBudaError."""
        self.devices[0].compile_modules([array_of(value) for value in sample])

    def forward(self, input_count: int, sequential: bool) -> None:
        """Runs `input_count` inputs (0: until it is stopped). Raises PyBudaError.

        `sequential` runs what has been pushed and returns when it is done; otherwise a thread does so, and waits for
        inputs that have not come yet.
        """
        self.wait()
        self.stop()  # a run without end gives way
        if sequential:
            count = input_count or len(self.devices[0].inputs)
            if len(self.devices[0].inputs) < count or not count:
                have = len(self.devices[0].inputs)
                raise PyBudaError(f"run: expected {max(1, count)} inputs, got {have}; try push_to_inputs")
            self._loop(count, lambda: True)
            return
        first = self.devices[0].inputs.first()
        if first is not None:  # what the compiler refuses is the caller's to see
            self.compile(first)
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(input_count,), daemon=True, name="pybuda pipeline")
        self._thread.start()

    def _run(self, count: int) -> None:
        try:
            self._loop(count, self._stop.is_set)
        except BaseException as error:  # noqa: BLE001 - whoever reads the outputs gets it
            self.error = error

    def _loop(self, count: int, stopped: Any) -> None:
        done = 0
        while not count or done < count:
            given = self.devices[0].inputs.take(stopped, self._begin)
            if given is None:
                return
            self.outputs.put(self.through(given))
            done += 1
            self._busy = False

    def _begin(self) -> None:
        self._busy = True

    def through(self, inputs: Sequence[Any]) -> list[Tensor]:
        """Runs one input through all devices. Raises PyBudaError."""
        values: list[Any] = list(inputs)
        for number, device in enumerate(self.devices):
            values = device.run_inputs(values)
            if number < min(len(self.forwarded), len(self.devices) - 1):
                self.forwarded[number].put(list(values))
        if self.verify is not None and self.verify.enabled and self.verify.pcc is not None:
            self._verified(inputs, values, self.verify.pcc)
        as_torch = any(is_torch(value) for value in inputs)
        return [Tensor(to_torch(value) if as_torch else value) for value in values]

    def _verified(self, inputs: Sequence[Any], values: Sequence[Any], least: float) -> None:
        wanted: list[Any] = list(inputs)
        for module in (module for device in self.devices for module in device.modules):
            wanted = module.compute(wanted)
        for number, (a, b) in enumerate(zip(values, wanted, strict=True)):
            one, other = (np.ravel(array_of(value)).astype(np.float64) for value in (a, b))
            if one.size < 2 or np.array_equal(one, other):
                continue
            got = float(np.corrcoef(one, other)[0, 1])
            if not got >= least:
                raise PyBudaError(f"verify: expected output {number} to correlate with XLA's by {least}, got {got:.6f}")

    def is_running(self) -> bool:
        """Whether its thread may still make outputs."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Waits until what was asked for has run, unless that is without end. Raises what the run raised."""
        while self.is_running() and not self._idle():
            time.sleep(0.005)
        if self.error is not None:
            error, self.error = self.error, None
            raise PyBudaError(str(error)) from error

    def _idle(self) -> bool:
        """Whether the thread has run everything that was pushed."""
        return not self._busy and not len(self.devices[0].inputs)

    def stop(self) -> None:
        """Ends the thread once it has finished the input that it is at."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None

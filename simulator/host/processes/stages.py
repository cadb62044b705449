"""Devices that work at the same time: one thread for each, which hands inputs to its process and results on.

A queue between two devices holds `LINK_CAPACITY` entries at most: a device that is ahead waits. Where one ends with an
error, those before it stop and those behind it finish what they have got, in order; then the error comes out.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from opscope.simulator.host.devices.device import Device

LINK_CAPACITY = 4
"""Entries that wait between two devices at most."""

_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Item:
    """One input of the pipeline on its way."""

    inputs: Sequence[Any]
    """What was pushed."""
    values: Sequence[Any]
    """What the last device that it has passed has made of it."""


@dataclass(frozen=True)
class End:
    """What comes after the last input."""

    error: BaseException | None = None


class Stages:
    """The threads of one run."""

    def __init__(
        self,
        devices: Sequence[Device],
        forwarded: Sequence[Any],
        take: Callable[[], Item | End],
        give: Callable[[Item], None],
        finish: Callable[[BaseException | None], None],
    ) -> None:
        """`take` returns the next input, `give` gets each result in order, and `finish` what the run has ended with.

        What device k makes is also put into `forwarded[k]`, if there is one.
        """
        self._devices, self._forwarded = devices, forwarded
        self._take, self._give, self._finish = take, give, finish
        self._links: list[queue.Queue[Item | End]] = [queue.Queue(LINK_CAPACITY) for _ in devices[1:]]
        self._failed = -1
        """The number of the last device that has failed; those before it work for nobody."""
        self.failure: BaseException | None = None
        """What the first device that failed has failed with, at once."""
        self._threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True, name=f"pybuda {device.name}")
            for number, device in enumerate(devices)
        ]

    def start(self) -> None:
        """Starts the threads."""
        for thread in self._threads:
            thread.start()

    def is_running(self) -> bool:
        """Whether a result may still come."""
        return self._threads[-1].is_alive()

    def join(self) -> None:
        """Waits until every thread has ended."""
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        try:
            while isinstance(item := self._next(number), Item):
                values = self._devices[number].run_inputs(item.values)
                if number < min(len(self._forwarded), len(self._links)):
                    self._forwarded[number].put(list(values))
                self._hand_on(number, Item(item.inputs, values))
            end = item
        except BaseException as error:  # noqa: BLE001 - whoever reads the outputs gets it
            self.failure = self.failure or error
            self._failed = max(self._failed, number)
            end = End(error)
        if number < len(self._links):
            self._hand_on(number, end)
        else:
            self._finish(self.failure or end.error)

    def _next(self, number: int) -> Item | End:
        if number == 0:
            return self._take()
        while True:
            try:
                return self._links[number - 1].get(timeout=_POLL_SECONDS)
            except queue.Empty:
                self._devices[number].check_process()

    def _hand_on(self, number: int, item: Item | End) -> None:
        """Gives an entry to the next device, or out; drops it where that device has failed."""
        if number == len(self._links):
            assert isinstance(item, Item)
            self._give(item)
            return
        while self._failed <= number:
            try:
                self._links[number].put(item, timeout=_POLL_SECONDS)
                return
            except queue.Full:
                continue

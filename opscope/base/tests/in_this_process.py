"""What a command does in a child, done in this process: a child of a worker of pytest, which has imported everything
and splits each page that it writes, takes a tenth of a second, and one that has children of its own some seconds. For
tests of what is done there, not of how it may end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from opscope.base import damage
from opscope.base.children.call import Outcome
from opscope.base.children.child import CappedLog
from opscope.base.children.ending import Cause, Ending
from opscope.base.children.frames import RAISED, RETURNED, Message
from opscope.base.children.inside import Parent, last_message
from opscope.base.children.process import Local


class Here(Parent):
    """The parent of what runs in this process: messages are what JSON leaves of them, either has said its own lines."""

    def __init__(self, task: Message, on_message: Callable[[Message], None] | None) -> None:
        self._task, self._on_message, self._said = task, on_message, damage._register

    def task(self) -> Message:
        return as_sent(self._task)

    def send(self, message: Message) -> None:
        if self._on_message is not None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(damage, "_register", self._said)
                self._on_message(as_sent(message))


def as_sent(message: Message) -> Message:
    """What arrives of a message."""
    received: Message = json.loads(json.dumps(message))
    return received


@contextmanager
def in_this_process(*modules: ModuleType) -> Iterator[None]:
    """Replaces the `call` of modules that give it a function to call in a child."""

    def call(
        function: str | Local, task: Message, on_message: Callable[[Message], None] | None = None, **limits: object
    ) -> Outcome:
        called = function if isinstance(function, str) else function.function
        parent = Here(task, on_message)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(damage, "_register", damage._Register())
            last = as_sent(last_message(parent, called))
        if RETURNED in last:
            return Outcome(Ending(Cause.RETURNED, "returned"), CappedLog(None), last[RETURNED])
        text, traceback = last[RAISED]
        return Outcome(Ending(Cause.RAISED, text, 1, traceback), CappedLog(None))

    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setattr(module, "call", call)
        yield

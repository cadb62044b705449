"""What a command does in a fork, done in this process: a fork of a worker of pytest, which has imported everything and
splits each page that it writes, takes a tenth of a second. For tests of what is done there, not of how it may end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from opscope.base.children.call import Outcome
from opscope.base.children.child import CappedLog
from opscope.base.children.ending import Cause, Ending
from opscope.base.children.process import Local


@contextmanager
def in_this_process(*modules: ModuleType) -> Iterator[None]:
    """Replaces the `call` of modules that give it a function to call in a fork."""

    def call(local: Local, task: object, **limits: object) -> Outcome:
        local.function(None)
        return Outcome(Ending(Cause.RETURNED, "returned"), CappedLog(None))

    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setattr(module, "call", call)
        yield

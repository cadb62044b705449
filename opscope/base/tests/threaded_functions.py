"""A module that starts a thread when it is imported, as some packages do: no process that has it may be forked."""

from __future__ import annotations

import threading

from opscope.base.children.inside import Parent
from opscope.base.tests import child_functions

threading.Thread(target=threading.Event().wait, daemon=True).start()


def kind(parent: Parent) -> str:
    """Whether this process is a fork of the server or an interpreter of its own."""
    return child_functions.kind(parent)

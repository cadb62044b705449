"""Calls of Python in a program: of a function in the process that exported it, which any other process crashes at."""

from __future__ import annotations

import re

_TARGETS = re.compile(rb"python_[cg]pu_callback|tf\.call_tf_function")
"""What the targets of such custom calls are called, among the strings of a module's bytecode or text."""


def why_not_run(module: bytes) -> str:
    """Why a module is neither compiled nor run: it calls Python. Empty if it does not."""
    return "calls a Python function of the process that exported it" if _TARGETS.search(module) else ""

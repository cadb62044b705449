"""Calls of Python in a program: of a function in the process that exported it, which any other process crashes at."""

from __future__ import annotations

import re

_TARGETS = re.compile(rb"python\w*callback|tf\.call_tf_function|tf\.(?:Eager)?PyFunc")
"""What JAX, jax2tf and TensorFlow call the targets of such custom calls, among the strings of a module."""


def why_not_run(module: bytes) -> str:
    """Why a module, or one with such a target, is neither compiled nor run: it calls Python. Empty if it does not."""
    return "calls a Python function of the process that exported it" if _TARGETS.search(module) else ""

"""Names that a program gives to its ops, in the locations of a module: `jit(f)/buda.op=matmul/dot_general`."""

from __future__ import annotations

import re

from xdsl.ir import Operation

from opscope.compiler.dialects.locations import name_of

_NAME = re.compile(r"(?:^|/)buda\.op=([^/]+)")


def op_name(op: Operation) -> str:
    """Returns the name that the program gives to an op; of names within names, the inner one; '' if there is none."""
    names = _NAME.findall(name_of(op))
    return names[-1] if names else ""

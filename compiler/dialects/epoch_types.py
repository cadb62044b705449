"""The attribute that marks ops of a training step as forward, backward or optimizer (set by `ttir-epoch-types`)."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import NameLoc, StringAttr
from xdsl.ir import Operation

EPOCH_TYPE = "buda.epoch_type"
"""The attribute that marks an op."""
EPOCH_TYPES = ("forward", "backward", "optimizer")
"""The epoch types, in the order in which they run."""
_BACKWARD = re.compile(r"(^|/)transpose\(")


def epoch_type(op: Operation) -> str:
    """Returns the mark of an op; `forward` if it has none."""
    mark = op.attributes.get(EPOCH_TYPE)
    return mark.data if isinstance(mark, StringAttr) else EPOCH_TYPES[0]


def is_backward(op: Operation) -> bool:
    """Whether the op's location shows that differentiation created it."""
    return isinstance(op.location, NameLoc) and _BACKWARD.search(op.location.desc.data) is not None

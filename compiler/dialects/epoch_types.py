"""The mark of a training step's ops: forward pass, backward pass or optimizer (`ttir-epoch-types` puts it on)."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import NameLoc, StringAttr
from xdsl.ir import Operation

EPOCH_TYPE = "buda.epoch_type"
"""The attribute that marks an op."""
EPOCH_TYPES = ("forward", "backward", "optimizer")
"""In the order in which they run."""
_BACKWARD = re.compile(r"(^|/)transpose\(")


def epoch_type(op: Operation) -> str:
    """What the op is marked as; `forward` where it is not marked."""
    mark = op.attributes.get(EPOCH_TYPE)
    return mark.data if isinstance(mark, StringAttr) else EPOCH_TYPES[0]


def is_backward(op: Operation) -> bool:
    """Whether the op's location says that differentiation made it."""
    return isinstance(op.location, NameLoc) and _BACKWARD.search(op.location.desc.data) is not None

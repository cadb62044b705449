"""Attributes of TTIR ops as Python values."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr
from xdsl.ir import Attribute


def ints(attr: Attribute) -> tuple[int, ...]:
    """Returns the integers of an attribute, of a single number too."""
    if isinstance(attr, DenseArrayBase):
        return tuple(int(v) for v in attr.get_values())
    if isinstance(attr, IntegerAttr):
        return (attr.value.data,)
    assert isinstance(attr, ArrayAttr)
    return tuple(int(v.value.data) for v in attr)

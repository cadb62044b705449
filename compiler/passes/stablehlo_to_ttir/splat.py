"""The one value of a dense attribute whose elements all have the same bits."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr


def splat_value(attr: Any) -> float | int | None:
    """Returns the single value of a dense attribute; None if it has no elements or they differ."""
    if not isinstance(attr, DenseIntOrFPElementsAttr):
        return None
    data, element = attr.data.data, attr.get_element_type()
    size = element.compile_time_size
    if not data or data != data[:size] * (len(data) // size):
        return None
    number: Any = element.unpack(data[:size], 1)[0]
    return number

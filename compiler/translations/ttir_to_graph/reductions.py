"""Lowers sums, maxima and means: along whole groups of dims at once, along part of a group once it lies in columns."""

from __future__ import annotations

from collections.abc import Set

from opscope.compiler.translations.ttir_to_graph.layout import Layout
from opscope.compiler.translations.ttir_to_graph.movements import exact
from opscope.compiler.translations.ttir_to_graph.moves import permuted_by_steps
from opscope.compiler.translations.ttir_to_graph.state import State
from opscope.compiler.translations.ttir_to_graph.values import DeviceValue


def reduced(lowering: State, value: DeviceValue, dims: Set[int], kind: str) -> DeviceValue:
    """Returns the value with `dims` reduced to one element each by `kind`: sum, max or mean."""
    for group in "rcz":
        value = _whole_group(lowering, value, dims, kind, group)
    layout = value.layout
    left = [d for d in range(len(layout.dims)) if d in dims and layout.dims[d] > 1]
    if not left:
        return value
    # What is left shares its group with dims that stay: it becomes the columns, all else rows.
    order = [*(d for d in range(len(layout.dims)) if d not in left), *left]
    turned = Layout(tuple(layout.dims[d] for d in order), 0, len(order) - len(left))
    operand = exact(lowering, permuted_by_steps(lowering, value.operand, layout, order, turned), turned)
    sizes = (*turned.sizes[:2], 1)
    operand = lowering.node("reduce", [operand], sizes, reduce_dim="c", reduce_type=kind)
    kept = tuple(1 if d in left else n for d, n in enumerate(layout.dims))
    return DeviceValue(operand, Layout(kept, 0, len(kept)))


def _whole_group(lowering: State, value: DeviceValue, dims: Set[int], kind: str, group: str) -> DeviceValue:
    """Reduces a group all of whose dims are to be reduced; returns the value itself for any other."""
    layout = value.layout
    own = [d for d, n in enumerate(layout.dims) if layout.group(d) == group and n > 1]
    if not own or any(d not in dims for d in own):
        return value
    sizes = [1 if name == group else n for name, n in zip("zrc", layout.sizes, strict=True)]
    operand = exact(lowering, value.operand, layout)
    operand = lowering.node("reduce", [operand], (sizes[0], sizes[1], sizes[2]), reduce_dim=group, reduce_type=kind)
    return DeviceValue(operand, layout.like(tuple(1 if d in own else n for d, n in enumerate(layout.dims))))

"""Brings values to the device in the layout that an op reads: host values as sources, others by TMs and pickers."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from opscope.compiler.buda.graph_builder import Operand
from opscope.compiler.errors import StageFailure
from opscope.compiler.translations.ttir_to_graph.contents import Content
from opscope.compiler.translations.ttir_to_graph.layout import Dims, Layout, broadcast, regrouped
from opscope.compiler.translations.ttir_to_graph.moves import regrouped_by_steps
from opscope.compiler.translations.ttir_to_graph.state import State
from opscope.compiler.translations.ttir_to_graph.values import DeviceValue, Value

STAGE = "ttir-to-graph"


def dims_of(value: SSAValue) -> Dims:
    """Returns the dims of a tensor value."""
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape())


def on_device(lowering: State, value: Value, layout: Layout) -> Operand:
    """Returns the value as an operand of that layout. Raises StageFailure if no TM leads to it."""
    if isinstance(value, DeviceValue):
        return relaid(lowering, value, layout)
    if not value.source and layout.dims:  # One number, for every element.
        ones = (1,) * len(layout.dims)
        value = replace(value, dims=layout.dims, source=ones)
    source = layout.like(value.source) if value.dims == layout.dims else None
    tms = broadcast(source, layout) if source is not None else None
    full = value.origin
    if source is None or tms is None:
        source, tms, full = layout, (), value.full
    if prod(dims_of(full)) != prod(source.sizes):
        raise StageFailure(STAGE, "layout", f"no TM repeats {dims_of(full)} to {layout.dims}", kind="notimpl")
    key = (value.name, source.dims, source.sizes)
    if key not in lowering.sources:
        name = value.name if value.name not in lowering.builder.nodes else lowering.fresh(value.name)
        lowering.sources[key] = lowering.builder.source(name, value.kind, source.tiles, elements=source.sizes)
        lowering.contents[name] = Content(name, full, source.sizes, value.inverted)
    return Operand(lowering.sources[key].producer, tms)


def relaid(lowering: State, value: DeviceValue, layout: Layout) -> Operand:
    """Returns the value's elements, in the same order, in the groups of another layout."""
    tms = regrouped(value.layout.sizes, layout.sizes)
    if tms is None:
        return regrouped_by_steps(lowering, value.operand, value.layout.sizes, layout.sizes)
    return Operand(value.operand.producer, (*value.operand.tms, *tms))

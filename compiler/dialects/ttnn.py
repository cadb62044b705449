"""The ttnn dialect: device ops on tensors whose encoding describes their place and layout, in tt-mlir's words."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition, opt_prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from opscope.compiler.dialects import ttnn_layout as layout
from opscope.compiler.dialects.from_row import RowOp, device_op_class
from opscope.compiler.ops.codec import RAW
from opscope.compiler.ops.row import TABLE, OpRow
from opscope.compiler.ops.shapes import shape_of


@irdl_attr_definition
class DeviceType(ParametrizedAttribute, TypeAttribute):
    """Handle of the open device: `!ttnn.device`."""

    name = "ttnn.device"


@irdl_op_definition
class GetDeviceOp(IRDLOperation):
    """`ttnn.get_device` returns the device that the program runs on; it is the first op of every function."""

    name = "ttnn.get_device"
    mesh_shape = opt_prop_def(layout.MeshShapeAttr)
    mesh_offset = opt_prop_def(layout.MeshOffsetAttr)
    device = result_def(DeviceType)


class TtnnOp(RowOp):
    """Base of ttnn ops from rows.

    Every tensor has a layout that fits its shape. Kernels use tiles on the device, host ops rows on the host.
    """

    def verify_(self) -> None:
        """Checks shapes, then layouts. Raises VerifyException naming the op."""
        if type(self) not in _REMEMBERED:
            self._verify()
            return
        parts = _made_of(self)
        key = (*map(id, parts), *self.properties, None, *self.attributes)
        if key in _valid:
            return
        self._verify()
        if len(_valid) >= _MOST:
            _valid.clear()
        _valid[key] = parts

    def _verify(self) -> None:
        super().verify_()
        for value in [*self.operands, *self.results]:
            if isinstance(value.type, DeviceType):
                continue
            encoding = layout.layout_of(value)
            if encoding is None:
                raise VerifyException(f"{self.name}: expected tensors with a ttnn layout, got {value.type}")
            shape = shape_of(value)
            if encoding.layout == "tile" and encoding.spread != "interleaved":
                fitting = layout.sharded_layout(shape, encoding.data_type, encoding.spread, encoding.grid.pair)
            elif encoding.layout == "tile":
                fitting = layout.tile_layout(shape, encoding.data_type, encoding.buffer_type)
            else:
                fitting = layout.host_layout(shape, encoding.memref.element_type)
            if encoding != fitting:
                raise VerifyException(f"{self.name}: expected layout {fitting} for its shape, got {encoding}")
            place = (encoding.layout, encoding.buffer_type == "system_memory")
            if self.ROW.group == "host" and place != ("row_major", True):
                raise VerifyException(f"{self.name}: expected rows on the host, got {encoding}")
            if self.ROW.group not in ("layout", "host") and place != ("tile", False):
                raise VerifyException(f"{self.name}: expected tiles on the device, got {encoding}")


CLASSES: dict[str, type[RowOp]] = {}
"""Name without prefix -> class; grows with `register`."""


_REMEMBERED: set[type[RowOp]] = set()
"""Classes of which an op is not looked at again if another of the same types and attributes was valid."""
_MOST = 8_192
_valid: dict[tuple[Any, ...], tuple[Any, ...]] = {}
"""What ops were made of that have been verified, by identity -> the same objects, so that their identity stays theirs.

Types with layouts are made once for each shape, so that moves between host and device, most ops of a module that was
split, are verified once for each shape and not once for each module.
"""


def _made_of(op: RowOp) -> tuple[Any, ...]:
    """All that a verifier of an op of the device looks at, except for names of attributes."""
    operands = op._operands  # a view of them is made at each look
    return (
        type(op),
        *[value.type for value in operands],
        None,
        *[value.type for value in op.results],
        None,
        *op.properties.values(),
        None,
        *op.attributes.values(),
    )


def _add(row: OpRow) -> None:
    if row.ttir and row.lowering in ("row", "device") and row.ttnn_name not in CLASSES:
        cls = CLASSES[row.ttnn_name] = device_op_class("ttnn", row.ttnn_name, row, TtnnOp)
        # Not the elements of a constant, which need not outlive their module.
        if row.group == "layout" or RAW not in row.attrs.values():
            _REMEMBERED.add(cls)


TABLE.listen(_add)


def dialect() -> Dialect:
    """The xDSL dialect `ttnn`."""
    return Dialect("ttnn", [GetDeviceOp, *CLASSES.values()], [DeviceType, *layout.ATTRIBUTES])

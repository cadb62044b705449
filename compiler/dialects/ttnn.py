"""The ttnn dialect: device ops on tensors whose encoding describes their place and layout, in tt-mlir's words."""

from __future__ import annotations

from xdsl.ir import Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition, opt_prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from opscope.compiler.dialects import ttnn_layout as layout
from opscope.compiler.dialects.from_row import RowOp, device_op_class
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
    device = result_def(DeviceType)


class TtnnOp(RowOp):
    """Base of ttnn ops from rows.

    Every tensor has a layout that fits its shape. Kernels use tiles on the device, host ops rows on the host.
    """

    def verify_(self) -> None:
        """Checks shapes, then layouts. Raises VerifyException naming the op."""
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


def _add(row: OpRow) -> None:
    if row.ttir and row.lowering in ("row", "device") and row.ttnn_name not in CLASSES:
        CLASSES[row.ttnn_name] = device_op_class("ttnn", row.ttnn_name, row, TtnnOp)


TABLE.listen(_add)


def dialect() -> Dialect:
    """The xDSL dialect `ttnn`."""
    return Dialect("ttnn", [GetDeviceOp, *CLASSES.values()], [DeviceType, *layout.ATTRIBUTES])

"""Pass `ttir-to-ttnn`: gives every value a place and a format, and turns every ttir op into its ttnn op.

Inputs arrive as row-major host tensors, are tiled and move to the device's DRAM. Kernels read and write tiles there.
Results move back and become row-major again. Ops without readers are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, UnregisteredOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.dialects import ttnn
from opscope.compiler.dialects import ttnn_layout as layout
from opscope.compiler.dialects.from_row import for_ttnn
from opscope.compiler.dialects.load_cached import LoadCachedOp
from opscope.compiler.dialects.ttir_conv_weights import prepares_weights
from opscope.compiler.dialects.unlowered import why_not
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.ir.functions import CONST_EVAL, FALLBACK, KIND, PROGRAM, SCALAR, function, functions, kind_of
from opscope.compiler.ops.element_text import element_text
from opscope.compiler.ops.read_only import computed_in
from opscope.compiler.ops.row import TABLE, OpRow
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.options import WAY_OUT
from opscope.compiler.target.formats import ELEMENT_TYPES, NumberFormat, element_type, number_format
from opscope.compiler.target.system_desc import SystemDesc, load_board

STAGE = "ttir-to-ttnn"
NOT_COMPUTING = frozenset({"data_movement", "creation", "layout"})
"""Families whose kernels only move bits and need no Dst."""
ON_HOST = frozenset({"ttir.narrow_index", "ttir.split_words"})
"""Ops by which the host converts 64-bit arguments before they become tiles."""
HOST_OP = "ttir.host_op"
_TILE = layout.LayoutAttr.of("tile")
_DEVICE = ttnn.DeviceType()
_ONE_CHIP = {"mesh_offset": layout.MeshOffsetAttr.of(0, 0), "mesh_shape": layout.MeshShapeAttr.of(1, 1)}
_ROW_MAJOR = layout.LayoutAttr.of("row_major")
_DRAM = layout.MemoryConfigAttr(layout.BufferTypeAttr.of("dram"), layout.TensorMemoryLayoutAttr.of("interleaved"))


@dataclass(frozen=True)
class TtirToTtnn(ModulePass):
    """Sets data formats and layouts, adds moves between host and device; refuses what the board lacks."""

    name = "ttir-to-ttnn"
    board: str = "n150"
    data_format: str | None = None
    """Format in which floats are held and computed; None: the default of each element type."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites every function. Raises StageFailure if the device has no format for a tensor."""
        formats = _Formats(board(self.board), forced_format(self.data_format))
        for func in functions(op):
            new = _Function(func, formats, FALLBACK in op.attributes).convert()
            op.body.block.insert_op_before(new, func)
            func.detach()
            func.erase()


def board(name: str) -> SystemDesc:
    """Returns the board of a pass option. Raises CompilerInputError for an unknown one."""
    try:
        return load_board(name)
    except ValueError as error:
        raise CompilerInputError(str(error)) from error


def forced_format(name: str | None) -> NumberFormat | None:
    """Returns the float format of option `data-format`. Raises CompilerInputError for one that cannot hold tensors."""
    if name is None:
        return None
    try:
        data_format = number_format(name)
    except ValueError as error:
        raise CompilerInputError(str(error)) from error
    if not (data_format.is_float and data_format.on_device and data_format.ttcore):
        raise CompilerInputError(
            f"data format: expected a float format that tensors can have, got {name!r}; try Float16_b, Bfp8_b, Float32"
        )
    return data_format


@dataclass(frozen=True)
class _Formats:
    """Chooses the number formats of tensors on this board."""

    system: SystemDesc
    forced: NumberFormat | None

    def of(self, element: str, user: str, register: bool = False) -> NumberFormat:
        """Returns the format of MLIR element type `element`; with `register`, in the widest Dst of the board.

        Raises StageFailure (never) if the device has none.
        """
        try:
            row = element_type(element)
        except ValueError as error:
            raise StageFailure(STAGE, user, str(error), kind="notimpl") from error
        if row.data_format is None:
            message = f"expected an element type that the device has, got {element}: {row.why_not}{WAY_OUT}"
            raise StageFailure(STAGE, user, message, kind="never")
        data_format = number_format(row.data_format)
        if register and data_format.is_float and self.system.has_fp32_dst:
            data_format = number_format("Float32")
        elif self.forced is not None and data_format.is_float:
            data_format = self.forced
        if data_format.name not in self.system.formats:
            way_out = "; try --data-format Float16_b" if data_format.is_float else ""
            message = f"expected a format that {self.system.arch} has, got {data_format.name} for {element}{way_out}"
            raise StageFailure(STAGE, user, message, kind="never")
        return data_format

    def check_read_only(self, op: Operation) -> None:
        """Raises StageFailure (never) if an op computes in a type that weights alone have."""
        if (row := computed_in(op)) is not None:
            message = f"expected weights of {row.name} that are moved or converted, got an op: {row.why_not}{WAY_OUT}"
            raise StageFailure(STAGE, op.name, message, kind="never")

    def holds(self, value: SSAValue) -> bool:
        """Whether the device has a format for the elements of a value."""
        row = ELEMENT_TYPES.get(element_text(cast(TensorType, value.type).element_type))
        if row is None or row.data_format is None:
            return False
        data_format = number_format(row.data_format)
        forced = self.forced is not None and data_format.is_float
        return forced or data_format.name in self.system.formats

    def check_dst(self, element: str, user: str) -> None:
        """Raises StageFailure (never) if the board's Dst cannot hold a datum of type `element`, as computing needs.

        A datum that is only moved goes from L1 to L1 and may be wider.
        """
        data_format = self.of(element, user)
        wide = "Float32" if data_format.is_float else "Int32"
        if data_format.bits > 16 and wide not in self.system.dst_formats:
            limit = f"a datum of at most 16 bits in Dst of {self.system.arch}"
            way_out = "; try --data-format Float16_b" if data_format.is_float else ""
            raise StageFailure(
                STAGE, user, f"expected {limit}, got {data_format.name} for {element}{way_out}", kind="never"
            )


@lru_cache(maxsize=4096)
def _shape_type(kind: TensorType, encoding: layout.TTNNLayoutAttr) -> TensorType:
    return TensorType(kind.element_type, kind.get_shape(), encoding)


def _laid_out(kind: TensorType, encoding: layout.TTNNLayoutAttr) -> TensorType:
    """Returns the type with a layout: one object for all that are equal.

    The hash of an attribute takes longer than all else here, so that types are looked up by identity first.
    """
    made = _LAID_OUT.get((id(kind), id(encoding)))
    if made is None:
        if len(_LAID_OUT) >= 4096:
            _LAID_OUT.clear()
        made = _LAID_OUT[id(kind), id(encoding)] = kind, encoding, _shape_type(kind, encoding)
    return made[2]


_LAID_OUT: dict[tuple[int, int], tuple[TensorType, layout.TTNNLayoutAttr, TensorType]] = {}
"""Identities of type and layout -> both of them, so that they stay theirs, and the type with the layout."""


class _Function:
    """Converts one function to ttnn."""

    def __init__(self, func: FuncOp, formats: _Formats, fallback: bool = False) -> None:
        self.func, self.formats, self.kind = func, formats, kind_of(func)
        self.fallback = fallback
        self.hosted: dict[SSAValue, SSAValue] = {}
        self.prepared: set[Operation] = set()
        """Permutations of weights that the host does."""
        self.old = func.body.blocks[0]
        self.block = Block()
        self.device: SSAValue | None = None

    def convert(self) -> FuncOp:
        """Returns the new function. A called one gets and returns device tensors, one of scalars registers."""
        _drop_dead(self.old)
        if self.kind in (PROGRAM, SCALAR, CONST_EVAL):
            return self.callee()
        for arg in self.old.args:
            self.block.insert_arg(self.host(arg), len(self.block.args))
        get_device = ttnn.GetDeviceOp.create(result_types=[_DEVICE], properties=dict(_ONE_CHIP))
        self.block.add_op(get_device)
        self.device = get_device.device
        values: dict[SSAValue, SSAValue] = {}
        for arg, new in zip(self.old.args, self.block.args, strict=True):
            self.enter(arg, new, values)
        results: list[SSAValue] = []
        for op in self.old.ops:
            if isinstance(op, ReturnOp):
                results = [self.on_host(v, values) for v in op.operands]
            elif op.name == HOST_OP:
                self.host_op(op, values)
            elif op.name == "ttir.join_words":
                values[op.results[0]] = values[op.operands[0]]
            elif op.name not in ON_HOST and op not in self.prepared:
                values.update(zip(op.results, self.kernel(op, [values[v] for v in op.operands]), strict=True))
        return function(self.func.sym_name.data, results, self.block, self.func.sym_visibility)

    def enter(self, value: SSAValue, host: SSAValue, values: dict[SSAValue, SSAValue]) -> None:
        """Records where a host value is on the host and, if a kernel reads it, on the device."""
        self.hosted[value] = host
        readers = list(dict.fromkeys(use.operation for use in value.uses))
        for op in readers:
            if op.name in ON_HOST:
                values[op.results[0]] = self.halved(op, host)
        if all(prepares_weights(op) for op in readers):
            for op in readers:
                values[op.results[0]] = self.weights(op, host)
            self.prepared.update(readers)
        others = [op for op in readers if op.name not in (*ON_HOST, HOST_OP) and op not in self.prepared]
        stays = self.fallback and not self.formats.holds(value) and all(isinstance(op, ReturnOp) for op in others)
        # A value that no kernel reads stays on the host.
        values[value] = self.upload(value, host) if others and not stays else host

    def on_host(self, value: SSAValue, values: dict[SSAValue, SSAValue]) -> SSAValue:
        """Returns a value on the host, downloaded if it is not there yet."""
        return self.hosted[value] if values[value] is self.hosted.get(value) else self.download(value, values[value])

    def host_op(self, op: Operation, values: dict[SSAValue, SSAValue]) -> None:
        """Converts a host op: brings its operands to the host; its results stay there until a kernel reads them."""
        operands = [self.hosted[v] if v in self.hosted else self.download(v, values[v]) for v in op.operands]
        new_op = ttnn.CLASSES["host_op"].create(
            operands=operands,
            result_types=[self.host(r) for r in op.results],
            properties=dict(op.properties),
            location=op.location,
        )
        self.block.add_op(new_op)
        for old, new in zip(op.results, new_op.results, strict=True):
            self.enter(old, new, values)

    def callee(self) -> FuncOp:
        """Returns a called function, without moves between host and device."""
        values: dict[SSAValue, SSAValue] = {}
        for arg in self.old.args:
            values[arg] = self.block.insert_arg(self.tiled(arg), len(self.block.args))
        results: list[SSAValue] = []
        for op in self.old.ops:
            if isinstance(op, ReturnOp):
                results = [values[v] for v in op.operands]
            else:
                values.update(zip(op.results, self.kernel(op, [values[v] for v in op.operands]), strict=True))
        new = function(self.func.sym_name.data, results, self.block, "private")
        new.attributes[KIND] = self.func.attributes[KIND]
        return new

    def host(self, value: SSAValue) -> TensorType:
        """Returns the value's row-major type on the host."""
        kind = cast(TensorType, value.type)
        owner = value.owner.name if isinstance(value.owner, Operation) else ""
        readers = {use.operation.name for use in value.uses}
        if not self.fallback and owner != "ttir.join_words" and not (readers and readers <= ON_HOST):
            self.formats.of(element_text(kind.element_type), _user(value))
        return _laid_out(kind, layout.host_layout(shape_of(value), kind.element_type))

    def tiled(self, value: SSAValue, buffer_type: str = "dram") -> TensorType:
        """Returns the value's type in tiles of its device format."""
        kind = cast(TensorType, value.type)
        data_format = self.formats.of(element_text(kind.element_type), _user(value), self.kind == SCALAR)
        return _laid_out(kind, layout.tile_layout(shape_of(value), data_format.ttcore, buffer_type))

    def add(self, name: str, operands: list[SSAValue], result: TensorType, source: Any, **properties: Any) -> SSAValue:
        """Appends a ttnn op with the location of `source`."""
        op = ttnn.CLASSES[name].create(
            operands=operands, result_types=[result], properties=properties, location=source.location
        )
        self.block.add_op(op)
        return op.results[0]

    def upload(self, value: SSAValue, host: SSAValue) -> SSAValue:
        """Turns host rows into host tiles and moves these to DRAM."""
        reader = next(iter(value.uses)).operation
        tiles = self.add("to_layout", [host], self.tiled(value, "system_memory"), reader, layout=_TILE)
        assert self.device is not None
        return self.add("to_device", [tiles, self.device], self.tiled(value), reader, memory_config=_DRAM)

    def halved(self, op: Operation, host: SSAValue) -> SSAValue:
        """Moves a 64-bit argument to the device: the host converts an index to 32 bits, other values to two words."""
        (value,) = op.results
        if op.name == "ttir.split_words":
            host = self.add("split_words", [host], self.host(value), op)
        return self.upload(value, host)

    def weights(self, op: Operation, host: SSAValue) -> SSAValue:
        """Moves a convolution's weights to the device, permuted by the host before they are tiled."""
        (value,) = op.results
        name = f"prepare_conv{3 if len(shape_of(value)) == 5 else 2}d_weights"
        permuted = self.add(name, [host], self.host(value), op, permutation=op.properties["permutation"])
        return self.upload(value, permuted)

    def download(self, value: SSAValue, new: SSAValue) -> SSAValue:
        """Moves DRAM tiles to host tiles and host rows. An argument that is returned unchanged never left the host."""
        encoding = layout.layout_of(new)
        if encoding is not None and encoding.buffer_type == "system_memory":
            return new
        source = value.owner if isinstance(value.owner, Operation) else self.func
        if isinstance(source, Operation) and source.name == "ttir.join_words":
            words = self.download(source.operands[0], new)
            return self.add("join_words", [words], self.host(value), source)
        tiles = self.add("from_device", [new], self.tiled(value, "system_memory"), source)
        return self.add("to_layout", [tiles], self.host(value), source, layout=_ROW_MAJOR)

    def kernel(self, op: Operation, operands: list[SSAValue]) -> list[SSAValue]:
        """Adds the ttnn op of a ttir op's row, and returns its results."""
        self.formats.check_read_only(op)
        if isinstance(op, LoadCachedOp):
            new_op = LoadCachedOp.create(
                operands=operands,
                result_types=[self.tiled(r) for r in op.results],
                properties=dict(op.properties),
                location=op.location,
            )
            self.block.add_op(new_op)
            return list(new_op.results)
        row = TABLE.ttir(op.name.removeprefix("ttir.")) if op.name.startswith("ttir.") else None
        if row is None:
            name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
            if (known := why_not(op)) is not None:
                raise StageFailure(STAGE, name, known[1], kind=known[0])
            message = f"expected an op of ttir that this compiler has, got {name}; try stablehlo-to-ttir before"
            raise StageFailure(STAGE, name, message, kind="notimpl")
        results = [self.tiled(r) for r in op.results]
        for value in _in_dst(op, row):
            self.formats.check_dst(element_text(cast(TensorType, value.type).element_type), op.name)
        new_op = ttnn.CLASSES[row.ttnn_name].create(
            operands=operands, result_types=results, properties=for_ttnn(row, op), location=op.location
        )
        self.block.add_op(new_op)
        return list(new_op.results)


def _in_dst(op: Operation, row: OpRow) -> Sequence[SSAValue]:
    """Returns the tensors whose elements pass the Dst register; for a scatter that joins values, its results."""
    if row.group == "control":
        return ()
    if row.group not in NOT_COMPUTING:
        return (*op.operands, *op.results)
    combine = op.properties.get("combine")
    return op.results if isinstance(combine, StringAttr) and combine.data != "update" else ()


def _user(value: SSAValue) -> str:
    """Returns the op to name in errors about a value: the one that makes it, else the first that reads it."""
    if isinstance(value.owner, Operation):
        return value.owner.name
    return next((use.operation.name for use in value.uses), "func.func")


def _drop_dead(block: Block) -> None:
    for op in reversed(list(block.ops)):
        if not isinstance(op, ReturnOp) and not any(r.uses for r in op.results):
            op.detach()
            op.erase()

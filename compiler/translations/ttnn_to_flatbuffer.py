"""Translation `ttnn-to-flatbuffer`: turns a ttnn module into the program that a device loads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue

from opscope.compiler.dialects import ttnn_layout as layout
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.locations import location
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir.functions import functions
from opscope.compiler.ops.element_text import element_text
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.target.formats import host_format, number_format
from opscope.compiler.target.product_blocks import step_of
from opscope.compiler.target.program import Binary, HostParams, MatmulParams, Numerics, Params, Program, TensorDesc
from opscope.compiler.target.program import Operation as Call
from opscope.compiler.target.system_desc import SystemDesc

STAGE = "ttnn-to-flatbuffer"
COMPILER = "opscope"


def to_binary(module: ModuleOp, system_desc: SystemDesc, version: str = "") -> Binary:
    """Returns all functions of the module as programs; the first is the entry. Raises StageFailure for any other op."""
    programs = tuple(_Program(f, system_desc).build() for f in functions(module))
    if not programs:
        raise StageFailure(STAGE, "builtin.module", "expected a function, got none")
    return Binary(system_desc.board, system_desc.arch, programs, f"{COMPILER} {version}".strip())


def describe(value: SSAValue) -> TensorDesc:
    """Describes a ttnn value as the flatbuffer does. Raises StageFailure if it has no layout."""
    encoding = layout.layout_of(value)
    if encoding is None:
        raise StageFailure(STAGE, "tensor", f"expected a tensor with a ttnn layout, got {value.type}")
    kind: Any = value.type
    element = element_text(kind.element_type)
    spread = encoding.memory_layout
    return TensorDesc(
        shape=shape_of(value),
        element_type=element,
        data_format=number_format(encoding.data_type).name if encoding.layout == "tile" else _host_format(element),
        layout=encoding.layout,
        buffer_type=encoding.buffer_type,
        memory_layout=spread.word.data if isinstance(spread, layout.TensorMemoryLayoutAttr) else "interleaved",
        grid=encoding.grid.pair,
    )


def _described(value: SSAValue) -> TensorDesc:
    """The description of a value: one object for all of one type, most of which are made once for each shape."""
    made = _DESCRIBED.get(id(value.type))
    if made is None:
        if len(_DESCRIBED) >= 4096:
            _DESCRIBED.clear()
        made = _DESCRIBED[id(value.type)] = value.type, describe(value)
    return made[1]


_DESCRIBED: dict[int, tuple[Attribute, TensorDesc]] = {}
"""Identity of a type -> the type, so that it stays its own, and the description of its values."""


def _host_format(element: str) -> str:
    try:
        return host_format(element).name
    except ValueError as error:
        raise StageFailure(STAGE, "tensor", str(error), kind="notimpl") from error


class _Program:
    """Collects one function's tensors and operations, numbered in order of appearance."""

    def __init__(self, func: FuncOp, system: SystemDesc) -> None:
        self.func, self.system = func, system
        self.block = func.body.blocks[0]
        self.ids: dict[int, int] = {}
        """Identities of values, which the function keeps, and their numbers."""
        self.tensors: list[TensorDesc] = []

    def tensor(self, value: SSAValue) -> int:
        """Returns the value's id; enters new values in the table."""
        number = self.ids.get(id(value))
        if number is None:
            number = self.ids[id(value)] = len(self.tensors)
            self.tensors.append(_described(value))
        return number

    def build(self) -> Program:
        """Returns the program."""
        inputs = tuple(self.tensor(arg) for arg in self.block.args)
        operations: list[Call] = []
        outputs: tuple[int, ...] = ()
        for op in self.block.ops:
            if isinstance(op, ReturnOp):
                outputs = tuple(self.tensor(v) for v in op.operands)
            elif isinstance(op, RowOp):
                operations.append(self.call(op))
            elif op.name != "ttnn.get_device":
                raise StageFailure(STAGE, op.name, "expected a ttnn op with a row in compiler/ops, got another")
        return Program(self.func.sym_name.data, tuple(self.tensors), inputs, outputs, tuple(operations))

    def call(self, op: RowOp) -> Call:
        """Returns one kernel call."""
        operands = tuple(self.tensor(v) for v in op.operands if layout.layout_of(v) is not None)
        results, params, numerics = tuple(self.tensor(v) for v in op.results), _params(op), _numerics(op)
        if numerics.k_block:
            numerics = replace(numerics, k_block=self.step(params, operands, results[0], numerics))
        return Call(op.ROW.kernel_name, operands, results, params, numerics, location(op))

    def step(self, params: Params, operands: tuple[int, ...], result: int, numerics: Numerics) -> int:
        """Returns the tiles of the inner dim of a block of a product; 0, all of them, for another op."""
        if not isinstance(params, MatmulParams):
            return 0
        left, right, out = (self.tensors[number] for number in (*operands[:2], result))
        return step_of(params, left, right, out, numerics, self.system.ttnn)


def _params(op: RowOp) -> Params:
    """Returns the op's parameters; a host op's module becomes bytecode, which needs jaxlib."""
    params = op.ROW.params(op.read(), op)
    if not isinstance(params, HostParams):
        return params
    from opscope.compiler.ir.door import bytecode

    return HostParams(bytecode(params.module.decode()))


def _numerics(op: RowOp) -> Numerics:
    config = op.properties.get("compute_config")
    if not isinstance(config, layout.ComputeConfigAttr):
        return Numerics()
    dst = "Float32"
    if config.fp32_dest_acc_en.data != "true":
        encodings = [layout.layout_of(v) for v in [*op.operands, *op.results]]
        formats = [number_format(x.data_type) for x in encodings if x is not None]
        exponents = {data_format.register_exponent_bits for data_format in formats if data_format.is_float}
        dst = "Float16" if 5 in exponents and 8 not in exponents else "Float16_b"
    block, between = (1, dst) if config.packer_l1_acc.data == "true" else (0, "Float32")
    fidelity, approximate = layout.FIDELITIES[config.math_fidelity.data], config.math_approx_mode.data == "true"
    return Numerics(fidelity, dst, block, between, approximate)

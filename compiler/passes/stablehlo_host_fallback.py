"""Pass `stablehlo-host-fallback`: ops whose element types the device lacks become host ops.

Neighbours are grouped: ops between which no value passes through the device become one `ttir.host_op`, which holds them
as a StableHLO module of its own. All other ops stay as they are and run on the device.

A type that no part of the device can hold decides at once. A 64-bit integer does not: most are only indices, and
`ttir-narrow-indices` makes them 32 bits. So the function is lowered on trial, numbered op by op. An op that still has
64 bits afterwards goes to the host, and the trial is repeated with the rest.

Inside host ops some ops are written so that XLA computes what the specification asks for. Without this, XLA's CPU
orders complex numbers by their real parts alone, keeps a NaN where `reduce_precision` leaves no mantissa bit, makes
denormals of double precision zero, and takes an i1 for eight bits where bits are converted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float64Type,
    IntAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from opscope.base.xla import ieee_denormals
from opscope.compiler.dialects import ttir
from opscope.compiler.dialects.stablehlo import CLASSES, spec_attr
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.ir.context import context
from opscope.compiler.ir.functions import FALLBACK, SOURCE, functions
from opscope.compiler.ir.text import to_text
from opscope.compiler.ops.custom_calls import find
from opscope.compiler.ops.read_only import computed_in
from opscope.compiler.ops.row import TABLE
from opscope.compiler.passes.stablehlo_to_ttir import StablehloToTtir
from opscope.compiler.passes.stablehlo_to_ttir.custom_call import target_of
from opscope.compiler.passes.stablehlo_to_ttir.regions import captured
from opscope.compiler.passes.ttir_narrow_indices import TtirNarrowIndices
from opscope.compiler.target.formats import ELEMENT_TYPES
from opscope.compiler.target.system_desc import DEFAULT_BOARD, load_board

Outline = Callable[[FuncOp, Iterable[int]], None]
BETWEEN = frozenset({"ttir.host_op", "ttir.narrow_index", "ttir.split_words", "ttir.join_words"})
"""Ops of the host, whose values may have 64 bits."""
PATIENCE = 8
"""Trials that look for the fewest ops; after these, all remaining ops go to the host at once."""


def choose(module: ModuleOp, func: FuncOp, outline: Outline, formats: frozenset[str]) -> set[int]:
    """Returns the numbers (places in the function's block) of the ops that the host must compute; changes nothing.

    `formats` are those of the board.
    """
    (*ops, _) = func.body.blocks[0].ops
    chosen = {number for number, op in enumerate(ops) if _needs_host(op, formats)}
    wide = {number for number, op in enumerate(ops) if not is_collective(op) and any(_is_wide(v) for v in _values(op))}
    trials = 0
    while wide - chosen and (left := _left_on_trial(module, chosen, outline) & wide - chosen):
        # Ops that only read the first of them may be narrowed once those have gone.
        chosen |= _first(ops, left) if trials < PATIENCE else left
        trials += 1
    return chosen | _sources_only(func.body.blocks[0], chosen)


def _first(ops: list[Operation], numbers: set[int]) -> set[int]:
    """Returns those of `numbers` whose ops read no other op of them."""
    members = {ops[number] for number in numbers}
    return {n for n in numbers if not any(v.owner in members for v in (*ops[n].operands, *captured(ops[n].regions)))}


def _values(op: Operation) -> list[SSAValue]:
    """Returns all values that an op and its regions use."""
    inner = [value for part in op.walk() for value in (*part.operands, *part.results)]
    return inner + [
        arg for part in op.walk() for region in part.regions for block in region.blocks for arg in block.args
    ]


def _element(value: SSAValue) -> Any:
    return value.type.element_type if isinstance(value.type, TensorType) else None


def _is_wide(value: SSAValue) -> bool:
    element = _element(value)
    return isinstance(element, IntegerType) and element.width.data == 64


def is_collective(op: Operation) -> bool:
    """Whether an op needs other chips. One chip's host op cannot reach them, so the op is refused for its types."""
    rows = TABLE.stablehlo(op.name)
    return bool(rows) and rows[0].group == "collective"


def _needs_host(op: Operation, formats: frozenset[str]) -> bool:
    """Whether an op has a type that no format of the board represents, or calls code that only the host has."""
    if is_collective(op):
        return False
    if op.name == "stablehlo.custom_call" and (row := find(target_of(op))) is not None and row.way == "host":
        return True
    elements = {_element(v) for v in _values(op)}
    if op.name == "stablehlo.bitcast_convert" and i1 in elements and elements != {i1}:
        return True  # the device holds an i1 in a byte
    if computed_in(op) is not None:
        return True
    for value in _values(op):
        row = ELEMENT_TYPES.get(str(_element(value)))
        if row is not None and row.data_format not in formats and not _is_wide(value):
            return True
    return False


def _left_on_trial(module: ModuleOp, chosen: set[int], outline: Outline) -> set[int]:
    """Returns the numbers of the ops that still have 64 bits after lowering, or that were refused."""
    trial = module.clone()
    (func, *_) = functions(trial)
    for number, op in enumerate(func.body.blocks[0].ops):
        for part in op.walk():
            part.attributes[SOURCE] = IntAttr(number)
    outline(func, chosen)
    try:
        StablehloToTtir().apply(context(), trial)
    except StageFailure as refused:
        return set() if refused.source is None else {refused.source}
    TtirNarrowIndices().apply(context(), trial)
    left: set[int] = set()
    for op in trial.walk():
        number = op.attributes.get(SOURCE)
        if isinstance(number, IntAttr) and op.name not in BETWEEN and any(_is_wide(v) for v in _touched(op)):
            left.add(number.data)
    return left


def _touched(op: Operation) -> list[SSAValue]:
    return [*op.operands, *op.results]


def _sources_only(block: Block, chosen: set[int]) -> set[int]:
    """Returns ops without operands that only chosen ops read, so that the host makes these values itself."""
    (*ops, _) = block.ops
    numbers = {op: number for number, op in enumerate(ops)}
    readers: dict[Operation, set[int | None]] = {}
    for op in block.ops:
        for value in (*op.operands, *captured(op.regions)):
            if isinstance(value.owner, Operation):
                reader = None if isinstance(op, ReturnOp) else numbers[op]
                readers.setdefault(value.owner, set()).add(reader)
    return {numbers[op] for op in ops if not op.operands and not op.regions and op in readers and readers[op] <= chosen}


def _append(op: Operation, block: Block) -> list[SSAValue]:
    """Adds `op` to `block`, rewritten where needed, and returns its results there."""
    speller = _SPELLERS.get(op.name)
    results = speller(op, block) if speller else None
    if results is None:
        block.add_op(op)
        return list(op.results)
    return results


def _is_double(value: SSAValue) -> bool:
    """Whether a value is of double precision, real or complex."""
    element = value.type.element_type if isinstance(value.type, TensorType) else None
    return isinstance(element.element_type if isinstance(element, ComplexType) else element, Float64Type)


def _keeping_denormals(block: Block) -> Sequence[SSAValue]:
    """Begins `block` with the call after which XLA keeps denormals, and returns its arguments as that hands them on."""
    if not block.args:
        return ()
    call = CLASSES["stablehlo.custom_call"].create(
        operands=list(block.args),
        result_types=[argument.type for argument in block.args],
        attributes={
            "call_target_name": StringAttr(ieee_denormals.TARGET),
            "api_version": IntegerAttr(ieee_denormals.TYPED_IN_STABLEHLO, i32),
            "has_side_effect": BoolAttr.from_bool(True),
            "output_operand_aliases": ArrayAttr(
                spec_attr(alias, {}) for alias in ieee_denormals.aliases(len(block.args))
            ),
        },
    )
    block.add_op(call)
    return call.results


def _make(block: Block, name: str, operands: list[SSAValue], result: Any, **attributes: Any) -> SSAValue:
    new_op = CLASSES[f"stablehlo.{name}"].create(operands=operands, result_types=[result], attributes=attributes)
    block.add_op(new_op)
    return new_op.results[0]


def _compare(block: Block, direction: str, a: SSAValue, b: SSAValue) -> SSAValue:
    kind: Any = a.type
    word = spec_attr(f"#stablehlo<comparison_direction {direction}>", {"value": direction})
    return _make(block, "compare", [a, b], TensorType(i1, kind.get_shape()), comparison_direction=word)


def _choose(op: Operation, block: Block) -> list[SSAValue] | None:
    """Returns the greater or lesser of two complex numbers, compared by real part, then by imaginary part."""
    a, b = op.operands
    kind: Any = a.type
    if not isinstance(kind.element_type, ComplexType):
        return None
    strict = "GT" if op.name.endswith("maximum") else "LT"
    part = TensorType(kind.element_type.element_type, kind.get_shape())
    (ra, ia), (rb, ib) = ([_make(block, name, [v], part) for name in ("real", "imag")] for v in (a, b))
    mask = TensorType(i1, kind.get_shape())
    tie = _make(block, "and", [_compare(block, "EQ", ra, rb), _compare(block, strict, ia, ib)], mask)
    first = _make(block, "or", [_compare(block, strict, ra, rb), tie], mask)
    return [_make(block, "select", [first, a, b], kind)]


def _nan_without_mantissa(op: Operation, block: Block) -> list[SSAValue] | None:
    """Returns infinity for NaN if the format has no mantissa bit to tell them apart."""
    (x,) = op.operands
    bits: Any = op.attributes["mantissa_bits"]
    if bits.value.data:
        return None
    kind: Any = x.type
    block.add_op(op)
    value = DenseIntOrFPElementsAttr.from_list(kind, [float("inf")] * math.prod(kind.get_shape()))
    infinity = _make(block, "constant", [], kind, value=value)
    return [_make(block, "select", [_compare(block, "NE", x, x), infinity, op.results[0]], kind)]


def _single_bits(op: Operation, block: Block) -> list[SSAValue] | None:
    """Returns the bits of a number as i1, the lowest first, or the number of such bits."""
    (x,), kind, result = op.operands, op.operands[0].type, op.results[0].type
    assert isinstance(kind, TensorType)
    assert isinstance(result, TensorType)
    if (kind.element_type == i1) == (result.element_type == i1):
        return None
    spread, packed = (kind, result) if kind.element_type == i1 else (result, kind)
    shape = spread.get_shape()
    *outer, count = shape
    word = IntegerType(count, Signedness.UNSIGNED)
    words, each = TensorType(word, outer), TensorType(word, shape)
    places = _make(block, "iota", [], each, iota_dimension=IntegerAttr(len(outer), i64))
    if packed is kind:
        number = _make(block, "bitcast_convert", [x], words)
        dims = DenseArrayBase.from_list(i64, list(range(len(outer))))
        number = _make(block, "broadcast_in_dim", [number], each, broadcast_dimensions=dims)
        bits = _make(block, "shift_right_logical", [number, places], each)
        one = _make(block, "constant", [], each, value=DenseIntOrFPElementsAttr.from_list(each, [1]))
        zero = _make(block, "constant", [], each, value=DenseIntOrFPElementsAttr.from_list(each, [0]))
        return [_compare(block, "NE", _make(block, "and", [bits, one], each), zero)]
    bits = _make(block, "shift_left", [_make(block, "convert", [x], each), places], each)
    scalar = TensorType(word, [])
    start = _make(block, "constant", [], scalar, value=DenseIntOrFPElementsAttr.from_list(scalar, [0]))
    join = Block(arg_types=[scalar, scalar])
    joined = _make(join, "or", list(join.args), scalar)
    join.add_op(CLASSES["stablehlo.return"].create(operands=[joined]))
    reduce = CLASSES["stablehlo.reduce"].create(
        operands=[bits, start],
        result_types=[words],
        attributes={"dimensions": DenseArrayBase.from_list(i64, [len(outer)])},
        regions=[Region(join)],
    )
    block.add_op(reduce)
    return [_make(block, "bitcast_convert", [reduce.results[0]], packed)]


_SPELLERS: dict[str, Callable[[Operation, Block], list[SSAValue] | None]] = {
    "stablehlo.bitcast_convert": _single_bits,
    "stablehlo.maximum": _choose,
    "stablehlo.minimum": _choose,
    "stablehlo.reduce_precision": _nan_without_mantissa,
}


@dataclass(frozen=True)
class StablehloHostFallback(ModulePass):
    """With `--unsupported-types=fallback`: moves ops to the host whose [types the device
    lacks](#types-that-the-device-lacks)."""

    name = "stablehlo-host-fallback"
    board: str = DEFAULT_BOARD["wormhole_b0"]
    """Whose formats count: 8-bit floats are held by some boards."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites the entry function, and marks the module as one whose interface may have any host type."""
        op.attributes[FALLBACK] = UnitAttr()
        try:
            formats = frozenset(load_board(self.board).formats)
        except ValueError as error:
            raise CompilerInputError(str(error)) from error
        for func in functions(op):
            _check(func)
            chosen = choose(op, func, outline, formats)
            if chosen:
                outline(func, chosen)


def _check(func: FuncOp) -> None:
    """Raises CompilerInputError if an op calls a function, because a host op cannot hold functions."""
    called = next((op.name for op in func.walk() if op.name in ("func.call", "stablehlo.composite")), None)
    if called is not None:
        raise CompilerInputError(
            f"stablehlo-host-fallback: expected a module without calls, got {called} in @{func.sym_name.data}; "
            "try legalize-stablehlo-composite-to-ttir,inline before it"
        )


def outline(func: FuncOp, chosen: Iterable[int]) -> None:
    """Turns the ops with these numbers (places in the function's block) into host ops."""
    block = func.body.blocks[0]
    (*ops, _) = block.ops
    host = {ops[number] for number in chosen}
    levels = _levels(ops, host)
    for op in ops:
        op.detach()
    end = block.last_op
    assert end is not None
    for level in sorted(set(levels.values())):
        group = [op for op in ops if op in host and levels[op] == level]
        if group and (made := _host_op(group)) is not None:
            block.insert_op_before(made, end)
        for op in group:
            op.erase(safe_erase=False)
        block.insert_ops_before([op for op in ops if op not in host and levels[op] == level], end)


def _reads(op: Operation) -> list[SSAValue]:
    """Returns the operands of an op and what its regions read from outside, each once."""
    return list(dict.fromkeys([*op.operands, *captured(op.regions)]))


def _levels(ops: list[Operation], host: set[Operation]) -> dict[Operation, int]:
    """Returns how often the longest path to each op goes from device to host; a host op counts its own step."""
    levels: dict[Operation, int] = {}
    for op in ops:
        before = [value.owner for value in _reads(op) if isinstance(value.owner, Operation)]
        if op in host:
            levels[op] = max((levels[b] + (b not in host) for b in before), default=1)
            levels[op] = max(levels[op], 1)
        else:
            levels[op] = max((levels[b] for b in before), default=0)
    return levels


def _host_op(group: list[Operation]) -> Operation | None:
    """Returns one host op in place of a group; None if no other op reads the group's results."""
    inside = {result for op in group for result in op.results}
    read = dict.fromkeys(value for op in group for value in _reads(op) if value not in inside)
    constants = [v.owner for v in read if isinstance(v.owner, Operation) and v.owner.name == "stablehlo.constant"]
    inputs = [value for value in read if value.owner not in constants]
    members = set(group)
    outputs = [v for op in group for v in op.results if any(_top(use.operation) not in members for use in v.uses)]
    if not outputs:
        return None
    body = Block(arg_types=[value.type for value in inputs])
    doubles = any(_is_double(value) for op in group for value in (*op.operands, *op.results))
    arguments = _keeping_denormals(body) if doubles else body.args
    values: dict[SSAValue, SSAValue] = dict(zip(inputs, arguments, strict=True))
    for op in [*constants, *group]:
        copy = op.clone(values)
        for inner in copy.walk():
            inner.attributes.pop(SOURCE, None)
        values.update(zip(op.results, _append(copy, body), strict=True))
    body.add_op(ReturnOp(*(values[v] for v in outputs)))
    types = ([value.type for value in inputs], [value.type for value in outputs])
    module = ModuleOp([FuncOp("main", types, Region(body))])
    host_op = ttir.CLASSES["host_op"].create(
        operands=inputs,
        result_types=[value.type for value in outputs],
        properties={"module": StringAttr(to_text(module))},
        location=_owner(outputs).location,
    )
    for old, new in zip(outputs, host_op.results, strict=True):
        old.replace_uses_with_if(new, lambda use: _top(use.operation) not in members)
    return host_op


def _owner(outputs: Sequence[SSAValue]) -> Operation:
    """Returns the op whose location a host op takes: the one that makes its output, the last if there are several."""
    owner = outputs[-1].owner
    assert isinstance(owner, Operation)
    return owner


def _top(op: Operation) -> Operation:
    """Returns the op of the function's own block that is or contains `op`. A detached op counts as outermost."""
    while (parent := op.parent_op()) is not None and not isinstance(parent, FuncOp):
        op = parent
    return op

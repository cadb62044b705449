"""Pass `stablehlo-host-fallback`: ops whose element types the device lacks become host ops.

Neighbours are grouped: ops between which no value passes through the device become one `ttir.host_op`, which holds them
as a StableHLO module of its own. All other ops stay as they are and run on the device. `choice.py` chooses the ops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.dialects import ttir
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir.functions import FALLBACK, SOURCE, functions
from opscope.compiler.ir.text import to_text
from opscope.compiler.passes.stablehlo_host_fallback import spelling
from opscope.compiler.passes.stablehlo_host_fallback.choice import choose
from opscope.compiler.passes.stablehlo_to_ttir.regions import captured
from opscope.compiler.target.system_desc import DEFAULT_BOARD, load_board


@dataclass(frozen=True)
class StablehloHostFallback(ModulePass):
    """Moves ops whose types the device lacks to the host."""

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
    doubles = any(spelling.is_double(value) for op in group for value in (*op.operands, *op.results))
    arguments = spelling.keeping_denormals(body) if doubles else body.args
    values: dict[SSAValue, SSAValue] = dict(zip(inputs, arguments, strict=True))
    for op in [*constants, *group]:
        copy = op.clone(values)
        for inner in copy.walk():
            inner.attributes.pop(SOURCE, None)
        values.update(zip(op.results, spelling.append(copy, body), strict=True))
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

"""Pass `inline`: a called function's ops in place of the call. StableHLO comes inlined by the door, ttir may not."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from compiler.errors import CompilerInputError
from compiler.ir.functions import functions, kind_of


@dataclass(frozen=True)
class Inline(ModulePass):
    """Inlines every `func.call`, and drops functions that were only called so."""

    name = "inline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place. Raises CompilerInputError for a function that is not there, or calls itself."""
        by_name = {func.sym_name.data: func for func in functions(op)}
        called: set[str] = set()
        for func in by_name.values():
            while calls := [one for one in func.walk() if isinstance(one, CallOp)]:
                for call in calls:
                    called.add(_inlined(call, func, by_name))
        for name in called:
            func = by_name[name]
            if not kind_of(func) and func.sym_visibility is not None and func.sym_visibility.data == "private":
                func.detach()
                func.erase()


def _inlined(call: CallOp, caller: FuncOp, by_name: dict[str, FuncOp]) -> str:
    """Puts the callee's ops in place of one call; the callee's name."""
    name = call.callee.root_reference.data
    callee = by_name.get(name)
    if callee is None or callee is caller:
        got = "itself" if callee is caller else f"@{name}"
        raise CompilerInputError(f"@{caller.sym_name.data}: expected calls of other functions of the module, got {got}")
    block = callee.body.blocks[0]
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, call.operands, strict=True))
    parent = call.parent
    assert parent is not None
    for op in block.ops:
        if isinstance(op, ReturnOp):
            for old, new in zip(call.results, op.operands, strict=True):
                old.replace_all_uses_with(values[new])
        else:
            parent.insert_op_before(op.clone(values), call)
    call.detach()
    call.erase()
    return name

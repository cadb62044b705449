"""Pass `inline`: replaces calls by the ops of the called function, in StableHLO and in ttir."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir.functions import functions, kind_of

LARGEST = 1_000_000
"""Most ops of one function with everything that it calls: a few lines of text can call for 2^100."""
DECOMPOSITION = "decomposition"
"""Attribute of a composite that names the function with its meaning."""


@dataclass(frozen=True)
class Inline(ModulePass):
    """Inlines calls, of StableHLO and of ttir, and drops private functions that are no longer referenced."""

    name = "inline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place. Raises CompilerInputError if a function does not exist or calls itself."""
        drop(op, inline_calls(op, lambda name: True))


def inline_calls(module: ModuleOp, chosen: Callable[[str], bool]) -> set[str]:
    """Replaces calls of chosen functions by their bodies; returns their names. Raises CompilerInputError."""
    by_name = {func.sym_name.data: func for func in functions(module)}
    ops = {name: list(func.walk()) for name, func in by_name.items()}
    calls_of = {
        name: [op for op in inside if type(op) is CallOp and chosen(callee_of(op))] for name, inside in ops.items()
    }
    called: set[str] = set()
    sizes: dict[str, int] = {}
    for name in _callees_first(by_name, calls_of):
        calls = calls_of[name]
        size = len(ops[name]) + sum(sizes[callee_of(call)] for call in calls)
        if size > LARGEST:
            raise CompilerInputError(f"@{name}: expected at most {LARGEST:,} ops with all that it calls, got {size:,}")
        sizes[name] = size
        for call in calls:
            _replace(call, by_name[callee_of(call)])
            called.add(callee_of(call))
    return called


def drop(module: ModuleOp, names: Iterable[str]) -> None:
    """Drops those of the functions that are private and no longer referenced."""
    candidates = set(names)
    while gone := [func for func in functions(module) if _is_spare(func, candidates) and not _named(module, func)]:
        for func in gone:
            candidates.update(callee_of(call) for call in _calls(func))
            func.detach()
            func.erase()


def callee_of(call: CallOp) -> str:
    """Returns the name of the called function."""
    return call.callee.root_reference.data


def _calls(func: FuncOp) -> list[CallOp]:
    return [op for op in func.walk() if isinstance(op, CallOp)]


def _callees_first(by_name: Container[str], calls_of: dict[str, list[CallOp]]) -> list[str]:
    """Returns all functions' names, each after those that it calls. Raises CompilerInputError if that is impossible."""
    order: list[str] = []
    done: set[str] = set()
    for start in calls_of:
        # No recursion: a chain of calls may be longer than Python's stack.
        callees_of: dict[str, list[str]] = {}
        pending = [start]
        while pending:
            name = pending[-1]
            if name in done:
                pending.pop()
                continue
            if name not in callees_of:
                callees_of[name] = [callee_of(call) for call in calls_of[name]]
                _check(name, callees_of, by_name)
                pending += [callee for callee in callees_of[name] if callee not in done]
                continue
            pending.pop()
            del callees_of[name]
            done.add(name)
            order.append(name)
    return order


def _check(name: str, callees_of: dict[str, list[str]], by_name: Container[str]) -> None:
    """Raises CompilerInputError if a called function does not exist or is itself being followed (recursion)."""
    for callee in callees_of[name]:
        got = "itself" if callee == name else f"@{callee}, which calls it" if callee in callees_of else f"@{callee}"
        if callee in callees_of or callee not in by_name:
            raise CompilerInputError(f"@{name}: expected calls of other functions of the module, got {got}")


def _replace(call: CallOp, callee: FuncOp) -> None:
    """Replaces one call by the callee's ops."""
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


def _is_spare(func: FuncOp, candidates: set[str]) -> bool:
    private = func.sym_visibility is not None and func.sym_visibility.data == "private"
    return private and func.sym_name.data in candidates and not kind_of(func)


def _named(module: ModuleOp, func: FuncOp) -> bool:
    """Whether a call or a composite refers to the function."""
    name = func.sym_name.data
    for op in module.walk():
        if isinstance(op, CallOp) and callee_of(op) == name:
            return True
        meaning = op.attributes.get(DECOMPOSITION)
        if isinstance(meaning, SymbolRefAttr) and meaning.root_reference.data == name:
            return True
    return False

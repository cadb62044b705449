"""Says of an op that it is certainly valid, in a tenth of the time that xDSL's verifier takes.

xDSL reads an op's definition anew each time it verifies: which operands are variadic, which options, constraints and
traits there are. Here this is read once for each class, and what accepts everything is left out. The answer is yes only
if xDSL's verifier would accept the op; whoever gets a no asks that verifier, which decides and words the error. What
is not understood of a definition is xDSL's to verify, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolNameConstraint
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.irdl import (
    AnyAttr,
    BaseAttr,
    EqIntConstraint,
    OpDef,
    OptAttributeDef,
    OptPropertyDef,
    RangeLengthConstraint,
    RangeOf,
    RegionDef,
    ResultDef,
    VarOperandDef,
    VarRegionDef,
    VarResultDef,
)
from xdsl.irdl.operations import SingleBlockRegionDef
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    NoTerminator,
    OptionalSymbolOpInterface,
    OpTrait,
    ReturnLike,
    SymbolOpInterface,
    SymbolTable,
)

Check = Callable[[Operation], bool]
"""Returns False, or raises, for an op that may not be valid."""


def certainly_valid(op: Operation) -> bool:
    """Whether `op.verify(verify_nested_ops=False)` would surely accept the op; False where only that can say."""
    check = _CHECKS.get(type(op))
    if check is None:
        check = _CHECKS[type(op)] = check_of(type(op)) or _never
    try:
        return check(op)
    except Exception:  # noqa: BLE001  whatever it is, xDSL's verifier will say it
        return False


_CHECKS: dict[type[Operation], Check] = {}
_VALUES = frozenset({OpResult, BlockArgument})
"""Classes of values that exist; that of an erased value is another."""


def _never(op: Operation) -> bool:
    return False


def check_of(cls: type[Operation]) -> Check | None:
    """The check for ops of a class; None if its verifier is not one that xDSL has made of a definition."""
    parts = _parts_of_verifier(cls)
    if parts is None:
        return None
    definition, own = parts
    traits = definition.traits.traits
    ends_block = _ends_block(cls)
    checks = (_understood(definition) or _by_xdsl(definition), *_trait_checks(traits))

    def check(op: Operation) -> bool:
        for value in op._operands:  # a view of them is made at each look
            if type(value) not in _VALUES:
                return False
        if op._successors or definition.traits.traits is not traits:
            return False
        block = op.parent
        if block is not None and block.last_op is op and not ends_block and not _may_end(block):
            return False
        for each in checks:
            if not each(op):
                return False
        if own is not None:
            own(op)
        return True

    return check


def _parts_of_verifier(cls: type[Operation]) -> tuple[OpDef, Callable[[Any], None] | None] | None:
    """The definition that a class verifies its ops against, and its own verifier after that."""
    if not inspect.isfunction(cls.verify_) or cls.verify_.__module__ != OpDef.__module__:
        return None
    parts = dict(inspect.getclosurevars(cls.verify_).nonlocals)
    definition = parts.pop("op_def", None)
    own = parts.pop("custom_verify", None)
    return None if parts or not isinstance(definition, OpDef) else (definition, own)


@cache
def _ends_block(cls: type[Operation]) -> bool:
    return cls.has_trait(IsTerminator, value_if_unregistered=False)


def _may_end(block: Block) -> bool:
    """Whether an op that is no terminator may end a block."""
    if block.parent is None:
        return True
    holder = block.parent.parent
    return _one_block(block.parent) and (holder is None or type(holder) is ModuleOp or holder.has_trait(NoTerminator))


def _one_block(region: Region) -> bool:
    return region.first_block is not None and region.first_block is region.last_block


def _understood(definition: OpDef) -> Check | None:
    """The check of a definition without traits; None if there is something in it that only xDSL's verifier knows."""
    operands = _values_check([each for _, each in definition.operands])
    results = _values_check([each for _, each in definition.results])
    regions = _regions_check([each for _, each in definition.regions])
    if operands is None or results is None or regions is None or definition.options or definition.successors:
        return None
    properties = _entries_check(definition.properties, OptPropertyDef)
    attributes = _entries_check(definition.attributes, OptAttributeDef)
    if properties is None or attributes is None:
        return None
    known = definition.properties.keys()

    def check(op: Operation) -> bool:
        for name in op.properties:
            if name not in known:
                return False
        return (
            operands(op._operands)
            and results(op.results)
            and regions(op.regions)
            and properties(op.properties)
            and attributes(op.attributes)
        )

    return check


def _values_check(parts: Sequence[Any]) -> Callable[[tuple[SSAValue, ...]], bool] | None:
    """The check of all operands, or results, of an op."""
    if not parts:
        return lambda values: not values
    constraint = parts[0].constr
    count = None
    if type(parts[0]) is ResultDef and type(constraint) is RangeLengthConstraint:
        constraint, length = constraint.constraint, constraint.length
        count = length.value if type(length) is EqIntConstraint else None
        if count != 1:
            return None
    elif type(parts[0]) not in (VarOperandDef, VarResultDef):
        return None
    if len(parts) > 1 or type(constraint) is not RangeOf:
        return None
    base = _base(constraint.constr)
    if base is None:
        return None

    def check(values: tuple[SSAValue, ...]) -> bool:
        if count is not None and len(values) != count:
            return False
        if base is not Attribute:
            for value in values:
                if not isinstance(value.type, base):
                    return False
        return True

    return check


def _base(constraint: object) -> type[Attribute] | None:
    """The class whose objects, and no others, a constraint accepts."""
    if type(constraint) is AnyAttr:
        return Attribute
    if type(constraint) is SymbolNameConstraint:
        return StringAttr
    return cast(Any, constraint).attr if type(constraint) is BaseAttr else None


def _regions_check(parts: Sequence[Any]) -> Callable[[tuple[Region, ...]], bool] | None:
    if not parts:
        return lambda regions: not regions
    entry, kind = parts[0].entry_args, type(parts[0])
    if len(parts) > 1 or type(entry) is not RangeOf or type(entry.constr) is not AnyAttr:
        return None
    if kind is SingleBlockRegionDef:
        return lambda regions: len(regions) == 1 and _one_block(regions[0])
    if kind is RegionDef:
        return lambda regions: len(regions) == 1
    return (lambda regions: True) if kind is VarRegionDef else None


def _entries_check(parts: Mapping[str, Any], optional: type) -> Callable[[Mapping[str, Attribute]], bool] | None:
    """The check of properties, or attributes, that a definition names."""
    required = tuple(name for name, each in parts.items() if not isinstance(each, optional))
    bases = {name: _base(each.constr) for name, each in parts.items()}
    asked = tuple((name, base) for name, base in bases.items() if base is not Attribute)
    if any(bases[name] is None for name in required):
        return None

    def check(entries: Mapping[str, Attribute]) -> bool:
        for name in required:
            if name not in entries:
                return False
        for name, base in asked:
            if name in entries and (base is None or not isinstance(entries[name], base)):
                return False
        return True

    return check


def _trait_checks(traits: Iterable[OpTrait]) -> Iterator[Check]:
    """What traits ask for: most ask for nothing, and some can be answered faster than xDSL does."""
    for trait in traits:
        if type(trait) in _QUICK:
            yield _QUICK[type(trait)]
        elif type(trait).verify is not OpTrait.verify:
            yield _by_xdsl(trait)


def _by_xdsl(verifier: OpDef | OpTrait) -> Check:
    def check(op: Operation) -> bool:
        verifier.verify(op)
        return True

    return check


def _isolated(holder: Operation) -> bool:
    """Whether what the ops inside an op read is defined inside it, and all are where they say that they are."""
    regions, children = list(holder.regions), list[Operation]()
    inside: set[int] = set()
    for region in regions:  # grows
        for block in region.blocks:
            if block.parent is not region or region.parent is None:
                return False
            inside.add(id(block))
            op = block.first_op
            while op is not None:
                if op.parent is not block:
                    return False
                children.append(op)
                if op.regions and not _is_isolated(type(op)):
                    if any(each.parent is not op for each in op.regions):
                        return False
                    regions.extend(op.regions)
                op = op.next_op
    for op in children:
        for value in op._operands:
            owner = value.owner
            if id(owner if isinstance(owner, Block) else owner.parent) not in inside:
                return False
    return True


@cache
def _is_isolated(cls: type[Operation]) -> bool:
    return cls.has_trait(IsolatedFromAbove, value_if_unregistered=False)


def _distinct_symbols(holder: Operation) -> bool:
    """Whether the names of functions, and other symbols, in an op of one block differ."""
    (region,) = holder.regions
    if not _one_block(region):
        return False
    names = [op.get_attr_or_prop("sym_name") for op in region.block.ops]
    names = [name.data for name in names if isinstance(name, StringAttr)]
    return len(set(names)) == len(names)


def _maybe_symbol(op: Operation) -> bool:
    name = op.get_attr_or_prop("sym_name")
    return name is None or isinstance(name, StringAttr)


_QUICK: dict[type[OpTrait], Check] = {
    IsolatedFromAbove: _isolated,
    NoTerminator: lambda op: all(region.first_block is region.last_block for region in op.regions),
    OptionalSymbolOpInterface: _maybe_symbol,
    ReturnLike: lambda op: not op.results and _ends_block(type(op)),
    SymbolOpInterface: lambda op: isinstance(op.get_attr_or_prop("sym_name"), StringAttr),
    SymbolTable: _distinct_symbols,
}
"""Traits of xDSL, and a check that says no wherever theirs would raise."""

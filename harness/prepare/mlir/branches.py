"""Functions whose blocks branch forward (`cf.br`, `cf.cond_br`) as one block with `stablehlo.if`.

jaxlib ships no pass that lifts `cf` to structured control flow. Chains of blocks become one block; a branch becomes an
`if` up to the block where its sides meet, the nearest that every way from it passes. Loops, and blocks that several
sides share, are refused by name: a loop would have to be told from its conditions, a shared block to be copied.
"""

from __future__ import annotations

from typing import Any, Never

from jaxlib.mlir import ir

from opscope.harness.prepare.mlir.door import Module, context
from opscope.harness.prepare.mlir.file_models import FUNCTION
from opscope.harness.record.errors import InputError

BRANCH, CONDITIONAL, RETURN = "cf.br", "cf.cond_br", "func.return"
HINT = "exporting its control flow as stablehlo.if, case and while"


def structured(module: Module, where: str) -> Module:
    """The module, in place, with one block in every function. Raises InputError for what cannot be structured."""
    branching = [op.operation for op in module.body.operations if op.operation.name == FUNCTION]
    branching = [op for op in branching if len(op.regions[0].blocks) > 1]
    for op in branching:
        with context(), op.location:
            try:
                _Function(op, where).rewrite()
            except RecursionError:
                raise InputError(where, "branches nested a few hundred deep at most", "deeper ones", HINT) from None
    if branching and not module.operation.verify():
        raise InputError(where, "branches that can be structured", "ops that are not valid afterwards", HINT)
    return module


class _Function:
    """One function with several blocks, each known by its number; after the last block is the exit."""

    def __init__(self, op: Any, where: str) -> None:
        self.op, self.name = op, op.attributes["sym_name"].value
        self.where = f"{where}: @{self.name}"
        self.blocks = list(op.regions[0].blocks)
        number = {block: index for index, block in enumerate(self.blocks)}
        self.exit = len(self.blocks)
        self.ends = [list(block.operations)[-1].operation for block in self.blocks]
        self.next = [[number[block] for block in end.successors] or [self.exit] for end in self.ends]
        self.meeting: dict[int, int] = {self.exit: self.exit}
        """Block -> the next block that every way from it to the exit passes, after those that it leads to."""
        self.moved: set[int] = set()

    def rewrite(self) -> None:
        """Moves all ops into a new function of one block, which takes the place of this one."""
        self._find_meetings()
        kinds = [self._plain(value) for value in self.blocks[0].arguments]
        results = self.op.attributes["function_type"].value.results
        attributes = {name: self.op.attributes[name] for name in self.op.attributes}
        attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, results))
        new = ir.Operation.create(FUNCTION, attributes=attributes, regions=1, ip=ir.InsertionPoint(self.op))
        block = new.regions[0].blocks.append(*kinds, arg_locs=[value.location for value in self.blocks[0].arguments])
        values = self._line(0, list(block.arguments), self.exit, block)
        ir.Operation.create(RETURN, operands=values, ip=ir.InsertionPoint(block))
        self.op.erase()

    def _find_meetings(self) -> None:
        """Visits each block after those that it leads to. Raises InputError for a loop."""
        place = {self.exit: 0}
        open_blocks, stack = set[int](), [0]
        while stack:
            block = stack[-1]
            if block in place:
                stack.pop()
                continue
            todo = [after for after in self.next[block] if after not in place]
            if todo:
                if self.ends[block].name not in (BRANCH, CONDITIONAL):
                    self._refuse(f"blocks that end in {BRANCH}, {CONDITIONAL} or {RETURN}", self.ends[block].name)
                open_blocks.add(block)
                if open_blocks.intersection(todo):
                    self._refuse("branches that lead forward", f"a loop by {self._branches()}")
                stack += todo
                continue
            met, *others = self.next[block]
            for other in others:
                while met != other:
                    if place[met] > place[other]:
                        met = self.meeting[met]
                    else:
                        other = self.meeting[other]
            self.meeting[block], place[block] = met, len(place)
            open_blocks.discard(block)

    def _branches(self) -> str:
        return ", ".join(dict.fromkeys(end.name for end in self.ends if end.name != RETURN))

    def _refuse(self, expected: str, got: str) -> Never:
        raise InputError(self.where, expected, got, HINT)

    def _plain(self, argument: Any) -> Any:
        """The type of an argument: an `i1` that only decides branches becomes the tensor that an `if` takes."""
        if str(argument.type) != "i1" or "private" in str(self.op.attributes.get("sym_visibility", "")):
            return argument.type
        uses = [(use.owner.name, use.operand_number) for use in argument.uses]
        return ir.RankedTensorType.get([], argument.type) if set(uses) <= {(CONDITIONAL, 0)} else argument.type

    def _line(self, number: int, values: list[Any], stop: int, into: Any) -> list[Any]:
        """Moves the ops of all blocks from `number`, which gets `values`, to before `stop`; returns what that gets."""
        while number != stop:
            if number in self.moved:
                sides = f"a block that several sides share (by {self._branches()})"
                self._refuse("branches whose sides have blocks of their own", sides)
            self.moved.add(number)
            for argument, value in zip(self.blocks[number].arguments, values, strict=True):
                argument.replace_all_uses_with(value)
            *ops, end = list(self.blocks[number].operations)
            for op in ops:
                into.append(op)
            end = end.operation
            if end.name == CONDITIONAL:
                number, values = self._if(end, number, into)
            else:
                number, values = self.next[number][0], list(end.operands)
                end.erase()
        return values

    def _if(self, end: Any, number: int, into: Any) -> tuple[int, list[Any]]:
        """Writes a branch as `stablehlo.if`; returns the block where its sides meet, and what that gets."""
        meeting = self.meeting[number]
        if meeting == self.exit:
            kinds = list(self.op.attributes["function_type"].value.results)
        else:
            kinds = [argument.type for argument in self.blocks[meeting].arguments]
        if scalar := next((kind for kind in kinds if not str(kind).startswith(("tensor<", "!stablehlo.token"))), None):
            self._refuse("tensors as arguments of blocks", str(scalar))
        _, first, _ = ir.DenseI32ArrayAttr(end.attributes["operandSegmentSizes"])
        condition, *values = list(end.operands)
        location = end.location
        predicate = self._predicate(condition, into)
        end.erase()
        if not isinstance(condition.owner, ir.Block) and not list(condition.uses):
            condition.owner.erase()  # the scalar that nothing reads any more
        chosen = ir.Operation.create(
            "stablehlo.if", results=kinds, operands=[predicate], regions=2, ip=ir.InsertionPoint(into), loc=location
        )
        yes, no = self.next[number]
        for region, side, values_of_side in zip(
            chosen.regions, (yes, no), (values[:first], values[first:]), strict=True
        ):
            body = region.blocks.append()
            results = self._line(side, values_of_side, meeting, body)
            ir.Operation.create("stablehlo.return", operands=results, ip=ir.InsertionPoint(body), loc=location)
        return meeting, list(chosen.results)

    def _predicate(self, condition: Any, into: Any) -> Any:
        """The tensor that a condition was read from. Raises InputError for a scalar that was computed."""
        if isinstance(condition.type, ir.RankedTensorType):
            return condition
        source: Any = condition.owner
        name = getattr(source, "name", "an argument")
        if name == "tensor.extract" and len(source.operands) == 1:
            return source.operands[0]
        if name == "arith.constant":
            kind = ir.RankedTensorType.get([], condition.type)
            value = ir.DenseElementsAttr.get_splat(kind, source.attributes["value"])
            constant = ir.Operation.create(
                "stablehlo.constant", results=[kind], attributes={"value": value}, ip=ir.InsertionPoint(into)
            )
            return constant.results[0]
        return self._refuse("conditions that are read from a tensor<i1> (tensor.extract)", f"one from {name}")

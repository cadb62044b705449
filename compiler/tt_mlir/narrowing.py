"""Where a program holds values in fewer bits than the module that it was made of asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opscope.base.number_formats import FORMATS, SIGNIFICAND_BITS
from opscope.compiler.target.program import Operation, Program
from opscope.compiler.tt_mlir.original_types import Originals

_MOVES = frozenset(
    {
        "to_layout",
        "to_device",
        "from_device",
        "to_memory_config",
        "reshape",
        "view",
        "permute",
        "slice_static",
        "concat",
        "pad",
        "broadcast",
        "gather",
        "embedding",
        "prepare_conv2d_weights",
        "prepare_conv3d_weights",
        "repeat",
        "reverse",
        "rows_gather",
        "slice_dynamic",
    }
)
"""Kernels that hand values on, so that what is narrow stays so and nothing is computed yet."""
_MAKES = frozenset({"deallocate", "load_cached", "full", "constant", "arange"})
"""Kernels that compute nothing, and have no operand or only free it."""
_TRUTHS = frozenset(
    {
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
        "isfinite",
        "signbit",
    }
)
"""Kernels whose results are 0 or 1, which every format holds."""
_PLACES: dict[str, tuple[int, ...]] = {
    "where": (0,),
    "rows_gather": (1,),
    "rows_scatter": (1,),
    "gather": (1,),
    "scatter": (1,),
    "embedding": (0,),
    "slice_dynamic": (1, 2),
    "case": (0,),
}
"""Kernel -> its operands that say where or which, so that no result holds their values."""


@dataclass(frozen=True)
class Step:
    """A call within its program."""

    call: Operation
    program: Program

    @property
    def computes_floats(self) -> bool:
        """Whether an operand or a result is of floats."""
        return any(
            FORMATS[self.program.tensors[t].data_format].is_float for t in (*self.call.inputs, *self.call.outputs)
        )

    @property
    def moves(self) -> bool:
        """Whether it hands values on, or makes them of attributes."""
        return self.call.kernel in _MOVES or self.call.kernel in _MAKES


@dataclass(frozen=True)
class Narrowing:
    """Values that lost bits."""

    before: str
    """Number format that they were in."""
    after: str
    at: str
    """The op that computes with them."""

    @property
    def words(self) -> str:
        """As a record says it."""
        before, after = (FORMATS[name].ttcore or name for name in (self.before, self.after))
        return f"{before} -> {after} at {self.at}"


def _significand(name: str) -> int:
    fmt = FORMATS[name]
    return fmt.mantissa_bits + (fmt.kind == "float") if fmt.is_float else fmt.bits


def _asked(after: str, before: str, types: frozenset[str]) -> bool:
    """Whether the module's own types hold no more than a format does, or integers that it holds exactly."""
    if not types:
        return False
    target = _significand(after)
    floats = [SIGNIFICAND_BITS[kind] for kind in types if kind in SIGNIFICAND_BITS]
    if FORMATS[before].is_float:
        return bool(floats) and min(floats) <= target
    whole = max((int("".join(filter(str.isdigit, kind))) for kind in types if kind not in SIGNIFICAND_BITS), default=0)
    return whole <= target or (bool(floats) and min(floats) <= target)


def narrowed(programs: Sequence[tuple[Program, Sequence[str], frozenset[int]]], own: Originals) -> list[Narrowing]:
    """Where values lose bits that the module's types have: programs, the op of each call, inputs that are booleans."""
    narrowings: list[Narrowing] = []
    for program, names, truths_in in programs:
        truths = {program.inputs[number] for number in truths_in if number < len(program.inputs)}
        narrow: dict[int, tuple[str, str, str]] = {}
        """Tensor -> format before and after, and the op that narrowed it."""
        for call, name in zip(program.operations, names, strict=True):
            if call.kernel == "deallocate":
                continue
            if call.kernel in _TRUTHS or (call.kernel in (*_MOVES, "typecast") and truths.issuperset(call.inputs[:1])):
                truths.update(call.outputs)
                continue
            lost = [narrow[t] for t in call.inputs if t in narrow]
            if lost and call.kernel not in _MOVES:
                narrowings += [Narrowing(before, after, name or at) for before, after, at in lost]
                lost = []
            for result in call.outputs:
                if lost:
                    narrow[result] = lost[0]
                elif (before := _loses(call, result, program, truths)) is not None:
                    after = program.tensors[result].data_format
                    if not _asked(after, before, own.all):
                        narrow[result] = before, after, name
                        if call.kernel not in _MOVES and call.kernel != "typecast":
                            narrowings.append(Narrowing(before, after, name))
                            narrow.pop(result)
        narrowings += [Narrowing(*narrow[t]) for t in program.outputs if t in narrow]
    return list(dict.fromkeys(narrowings))


def _loses(call: Operation, result: int, program: Program, truths: set[int]) -> str | None:
    """The format of an operand whose values a result cannot hold."""
    target = program.tensors[result]
    if not FORMATS[target.data_format].is_float:
        return None  # a rounding to whole numbers, or an index
    places = _PLACES.get(call.kernel, ())
    values = [
        program.tensors[t].data_format
        for number, t in enumerate(call.inputs)
        if t not in truths and number not in places
    ]
    wider = [name for name in values if _significand(name) > _significand(target.data_format)]
    return max(wider, key=_significand, default=None)


def narrowest(narrowings: Sequence[Narrowing]) -> str | None:
    """The format of the fewest bits among floats that were narrowed."""
    floats = [row.after for row in narrowings if FORMATS[row.after].is_float]
    return min(floats, key=_significand, default=None)

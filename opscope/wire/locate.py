"""`opscope locate --json`."""

from __future__ import annotations

from opscope.wire.answer import Answer


class Located(Answer):
    """The first op of a module after which its values are wrong."""

    op_name: str
    path: str
    """Its place in the program."""
    location: str
    """Where it stands in the model's source."""
    candidates: tuple[str, ...]
    """The places of all ops that it may be: several where cuts between them end in other ways."""
    number: int
    """Its place among these ops, from 1."""
    ops: int
    """How many ops there are: in the program, or in the body that it is in."""
    inside: str
    """The op in whose body it is; empty for an op of the program itself."""
    compiles: int
    """Modules that were compiled to find it."""
    at_most: int
    """The most that this may take."""
    tried: int
    """All modules that were compiled."""
    level: int
    """The lowest optimization level at which the smallest piece fails so."""
    complete: bool
    """Whether the budget sufficed; else several ops may be meant, and a smaller piece may fail."""
    accumulated: str
    """Status of the program up to it."""
    accumulated_error: str
    isolated: str
    """Status of the op by itself, on values that are right."""
    isolated_error: str
    smallest: str
    """Status of the smallest piece."""
    smallest_error: str
    interaction: bool
    """Whether the op by itself is right."""
    right_when_returned: bool
    """Whether the module is right where what the op reads is returned as well."""
    changed: str
    """By how much the module's own results are others then; empty for the same bits."""
    holds: tuple[str, ...]
    """The ops of the smallest piece."""
    folder: str
    """The repro folder of the smallest piece."""
    module: str
    """Its StableHLO."""


PRINTS = Located

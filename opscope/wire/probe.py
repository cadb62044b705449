"""`opscope probe --json`."""

from __future__ import annotations

from opscope.wire.answer import Answer
from opscope.wire.reduce import Form


class Finding(Answer):
    """One thing that was varied."""

    name: str
    points: tuple[tuple[str, str], ...]
    """Values, each with `fails`, `passes` or how else it ended."""
    rule: str
    """The rule by which the op fails; empty if this has no influence."""
    own: str
    """The value of the failing op."""
    changes_values: bool
    """Whether the op's values become others when it is varied: a dimension, a type."""


class Probed(Answer):
    """The rule behind a failure."""

    op: Form
    rules: tuple[str, ...]
    blame: str
    """Whether the op's values or its shape are to blame; empty if values have no part in it."""
    tried: int
    """Variants that were run."""
    complete: bool
    """Whether all was tried; else the budget ended it."""
    findings: tuple[Finding, ...]


PRINTS = Probed

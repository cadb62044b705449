"""What there is to say of a comparison, a ranking, a run, an op or a cause: plain data that each medium renders.

    Words     a sentence, or a line such as a command, perhaps with a link
    Listed    texts below a heading, each after a figure or a name
    Table     columns and rows
    Causes    causes of failure or of a change below a heading, each with its ops
    Drawn     lines of styled pieces, for a terminal alone

A terminal renders them in in_terminal.py, report.html in reports/pages/assets/document.html.j2, messages, comments and
issues in as_markdown.py, an assistant reads `Cause.brief`. None of these groups, counts or ranks anything.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from opscope.base.document.groups import Group, by_cause, parts_within


class Words(NamedTuple):
    """A sentence."""

    text: str
    style: str = ""
    """`strong`, `note`, `hint`, or a tone: `good`, `bad`, `known`, `idle`, `apart`."""
    link: str = ""
    whole: bool = False
    """Whether it is never broken into lines: a command, a path."""
    level: int = 0
    """So deep it is below what stands above it."""


class Drawn(NamedTuple):
    """Lines of pieces, each a text and its style (rich's), below a heading."""

    title: str
    lines: Sequence[Sequence[tuple[str, str]]]


@dataclass(frozen=True)
class Listed:
    """Texts below a heading, each after a figure or a name, which may be empty."""

    title: str
    """With an empty one the rows belong to what stands above them."""
    rows: Sequence[tuple[str, str]]
    tone: str = ""
    count: int | None = None
    """How many things the rows are about, where the heading says it."""
    level: int = 0
    left_out: int = 0
    """Rows that are not here."""

    @property
    def heading(self) -> str:
        """The title with its number."""
        return self.title if self.count is None else f"{self.title} ({self.count})"


NAMES = 3
"""So many names of a list are shown."""


class Column(NamedTuple):
    """A column of a table."""

    head: str
    kind: str = ""
    """`right`: numbers. `code`: ids. `names`: lists of names, of which NAMES are shown. `long`: texts that may be cut.
    `bar`: shares, 0 to 1. `op`: an `Op`. `outcomes`: `Outcome`s. `lines`: texts below each other."""
    fillable: bool = False
    """Left out if no row has something there."""
    spare: bool = False
    """The first to be left out where there is little room."""


@dataclass(frozen=True)
class Table:
    """Rows below headings."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    left_out: int = 0
    """Rows that are not here."""
    see: str = ""
    """Who has them."""
    note: str = ""
    """What its rows mean."""

    @property
    def filled(self) -> Table:
        """The table without its empty columns."""
        kept = [
            n
            for n, column in enumerate(self.columns)
            if not column.fillable or any(row[n] not in ("", None) for row in self.rows)
        ]
        rows = [[row[n] for n in kept] for row in self.rows]
        return replace(self, columns=[self.columns[n] for n in kept], rows=rows)


class Op(NamedTuple):
    """An op below its cause."""

    op_id: str
    op_name: str
    types: str
    uses: int
    where: str
    """Its uses and models as words."""
    error: str
    turn: str = ""
    """How it ended before and now, where these differ."""
    note: str = ""
    repro: str = ""
    """Empty where nobody would run it again."""
    models: Sequence[str] = ()
    script: str = ""
    """What runs it from its repro folder."""

    @property
    def title(self) -> str:
        """Name, id and types, on one line."""
        return " ".join(filter(None, (self.op_name, f"[{self.op_id}]", self.types)))


class Outcome(NamedTuple):
    """How an op or a model ended, in a cell."""

    status: str
    on: str = ""
    text: str = ""

    def __str__(self) -> str:
        """It as words."""
        return " ".join(filter(None, (self.on, self.status, self.text)))


@dataclass(frozen=True)
class Cause:
    """A cause with its ops, in the order in which they are listed."""

    cause: str
    """Its id; empty for ops without an error."""
    what: str
    """What happened to all of its ops: `success -> run_failed at run`; empty where one op has a line of its own."""
    error: str
    stage: str
    owner: str
    known: str
    """The limitation that names it."""
    note: str
    """What people wrote of it."""
    acknowledged: bool = False
    """Whether that note acknowledges it."""
    label: str = ""
    tone: str = ""
    flaky: bool = False
    ops: Sequence[Op] = ()
    count: int = 1
    """All of its ops, also those that are not in `ops`."""
    uses: int = 0
    models: Sequence[str] = ()
    names: str = ""
    """`stablehlo.add (3), stablehlo.abs`: its ops, the most frequent first."""

    @property
    def about(self) -> list[str]:
        """Whether it comes and goes, whose it is, and which limitation names it."""
        named = (f"{word} {text}" for word, text in (("owner", self.owner), ("known:", self.known)) if text)
        return [*["flaky"] * self.flaky, *named]

    @property
    def heading(self) -> str:
        """What is the same for all its ops, after its id and, where there are several, their numbers; may be empty."""
        if not self.what:
            return ""
        text = "; ".join([self.what, *self.about]) + (f": {self.error}" if self.error else "")
        return Group((), self.count, self.uses).with_counts(text, self.cause)

    def said(self, op: Op, *, whole: bool = True) -> str:
        """What happened to one of its ops, beyond what the heading says; `whole`: also its own words for the error."""
        parts = [op.where, op.turn if not self.what or op.turn != self.ops[0].turn else ""]
        parts += [*(() if self.what else self.about), "" if op.note in self.what else op.note]
        own = op.error if not self.what or (whole and op.error != self.error) else ""
        return "; ".join(filter(None, parts)) + (f": {own}" if own else "")

    def brief(self) -> dict[str, Any]:
        """The cause in a few words, for who reads many: `opscope diff --cause ID` has the rest."""
        first = self.ops[0]
        told = {
            "cause": self.cause,
            "label": self.label,
            "ops": self.count,
            "names": self.names,
            "models": list(self.models[:3]),
            "models_left_out": max(0, len(self.models) - 3),
            "stage": self.stage,
            "error": self.error or first.error or first.note,
            "owner": self.owner,
            "known": self.known,
            "flaky": self.flaky,
            "note": self.note,
            "op_id": first.op_id,
            "repro": first.repro,
        }
        return {name: value for name, value in told.items() if value}


@dataclass(frozen=True)
class Causes:
    """Causes below a heading, the one with the most uses first."""

    title: str
    causes: Sequence[Cause] = ()
    tone: str = ""
    remarks: Sequence[str] = ()
    """What its numbers contain: `2 acknowledged`."""
    left_out: int = 0
    """Ops of causes that are not here."""
    see: str = "--limit, --json"
    """Who has them."""

    @property
    def heading(self) -> str:
        """The title with its numbers: `PERSISTING (3, 2 of them expected failures)`."""
        count = sum(cause.count for cause in self.causes) + self.left_out
        return f"{self.title} ({', '.join([str(count), *self.remarks])})"


Node = Words | Drawn | Listed | Table | Causes
Row = TypeVar("Row")


def grouped(
    rows: Iterable[Row],
    key: Callable[[Row], Hashable],
    cause_of: Callable[[Row], Cause],
    op_of: Callable[[Row], Op],
    most: int = sys.maxsize,
) -> list[Cause]:
    """The causes of some ops, those that a note acknowledges last.

    `key` is equal for ops of one cause, and `cause_of` says of its first op what they have in common. Of more than
    `most` ops the last are only counted.
    """
    groups = by_cause([(row, op_of(row)) for row in rows], lambda pair: key(pair[0]), lambda pair: pair[1].uses)
    groups = sorted(groups, key=lambda group: cause_of(group.first[0]).acknowledged)
    return [_cause(group, cause_of(group.first[0])) for group in parts_within(groups, most)]


def causes_within(
    rows: Iterable[Row],
    key: Callable[[Row], Hashable],
    cause_of: Callable[[Row], Cause],
    op_of: Callable[[Row], Op],
    most: int,
    about: Causes,
) -> Causes:
    """`about` with the causes of some ops by `grouped`, and how many ops are of causes that have no room."""
    rows = list(rows)
    causes = grouped(rows, key, cause_of, op_of, most)
    return replace(about, causes=causes, left_out=len(rows) - sum(cause.count for cause in causes))


def _cause(group: Group[tuple[Any, Op]], common: Cause) -> Cause:
    ops = tuple(op for _, op in group.failures)
    names = Counter(op.op_name for op in ops).most_common()
    return replace(
        common,
        ops=ops,
        count=group.ops,
        uses=group.uses,
        models=sorted({model for op in ops for model in op.models}),
        names=", ".join(f"{name} ({count})" if count > 1 else name for name, count in names),
    )

"""The coverage table: which ops are lowered for which type classes, how, or why not.

It is computed from the op table, so it always agrees with the compiler. `opscope ops` prints it, and docs/ops.md is
generated from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from typing import Any

from opscope.base.op_families import op_family
from opscope.base.plugins import plugins
from opscope.compiler.ops import families as _families  # noqa: F401  (fills the table)
from opscope.compiler.ops.custom_calls import TARGETS
from opscope.compiler.ops.refused_by_builds import BUILD, REFUSALS, refusals
from opscope.compiler.ops.row import TABLE, Lowering, OpRow

TYPE_CLASSES = ("float", "int", "bool", "complex", "quant")
KINDS: dict[Lowering, str] = {
    "row": "lowered by its row, one op to one op",
    "pattern": "lowered by a pattern, or removed before the device",
    "device": "an op of ttir that only patterns emit",
    "decomposed": "an op of tt-mlir's ttir that is written in others before ttnn",
    "notimpl": "not lowered: this compiler lacks it",
    "notyet": "not lowered: the target lacks it",
    "never": "not lowered: the hardware cannot do it",
}
"""Kind -> its meaning."""
CLASS_OF = {"f": "float", "b": "float", "i": "int", "u": "int", "c": "complex", "!": "quant"}
"""First letter of an element type -> its class; i1 is a bool."""
LIMITS = "opscope.limits"
"""Entry points that list expected failures: ops of the table that some type or board refuses."""
LIMIT_HEAD = ("ops", "types", "fails at", "kind", "reason")
HEAD = ("op", "types", "ttir", "ttnn", "kernel", "kind", "reason")


@dataclass(frozen=True)
class Coverage:
    """One op in the type classes that share a row. If it is not lowered, the names of later stages are empty."""

    op: str
    """Full name; `ttir.<name>` where StableHLO has no such op."""
    lowered: bool
    kind: Lowering
    reason: str
    family: str
    """The op's family as in records; for an op that only the device has, its group."""
    dtypes: tuple[str, ...]
    """Type classes of the first operand."""
    ttir: str
    """Also empty for a pattern, whose reason describes how the op is lowered."""
    ttnn: str
    kernel: str
    limits: tuple[str, ...] = ()
    """Expected failures of the op in one of these type classes: types, kind and reason of each."""
    elsewhere: tuple[str, ...] = ()
    """Builds of tt-mlir that refuse the op, and why."""

    def cells(self) -> tuple[str, ...]:
        """The texts below `HEAD`."""
        types = "any" if self.dtypes == TYPE_CLASSES else ", ".join(self.dtypes)
        return self.op, types, self.ttir, self.ttnn, self.kernel, self.kind, self.reason


def coverage(names: Iterable[str] = (), families: Iterable[str] = (), kinds: Iterable[str] = ()) -> list[Coverage]:
    """Returns the rows that pass every given filter, by family and name. A name may be a glob, without its dialect."""
    names, families, kinds = tuple(names), set(families), set(kinds)
    rows = [
        entry
        for entry in map(_entry, TABLE)
        if (not names or any(fnmatch(entry.op, n) or fnmatch(entry.op.partition(".")[2], n) for n in names))
        and (not families or entry.family in families)
        and (not kinds or entry.kind in kinds)
    ]
    return sorted(rows, key=lambda entry: (entry.family, entry.op, entry.dtypes))


def _entry(row: OpRow) -> Coverage:
    has_op = row.lowered and bool(row.ttir)
    return Coverage(
        op=row.stablehlo or (f"ttir.{row.ttir}" if row.ttir else f"ttnn.{row.ttnn}"),
        lowered=row.lowered,
        kind=row.lowering,
        reason=row.reason,
        family=op_family(row.stablehlo) if row.stablehlo else row.group,
        dtypes=tuple(c for c in TYPE_CLASSES if c in row.dtypes),
        ttir=f"ttir.{row.ttir}" if has_op else "",
        ttnn=f"ttnn.{row.ttnn_name}" if has_op and row.lowering != "decomposed" else "",
        kernel=row.kernel_name if has_op and row.lowering != "decomposed" else "",
        limits=tuple(
            f"{', '.join(limit.types) or 'any type'} ({limit.condition}): {limit.kind}: {limit.reason}"
            for limit in known_limits()
            if row.lowered and limit.covers(row.stablehlo) and _types_in_classes(limit.types, row.dtypes)
        ),
        elsewhere=tuple(map(str, refusals(row.stablehlo))),
    )


@cache
def known_limits() -> tuple[Any, ...]:
    """Expected failures beside the table: each has `covers(op)`, `types`, `condition`, `stage`, `kind`, `reason`."""
    return tuple(limit for point in plugins(LIMITS) for limit in point.load()())


def _types_in_classes(types: Iterable[str], classes: Iterable[str]) -> bool:
    """Whether one of the element types is of one of the classes; no types stand for any type."""
    classes_of_types = {"bool" if each == "i1" else CLASS_OF.get(each[:1], "") for each in types}
    return not classes_of_types or not classes_of_types.isdisjoint(classes)


def summary(table: Iterable[Coverage]) -> str:
    """Returns one line: how many ops of StableHLO and chlo are in `table`, and how many of them are lowered."""
    lowered: dict[str, bool] = {}
    for entry in table:
        if not entry.op.startswith(("ttir.", "ttnn.")):
            lowered[entry.op] = lowered.get(entry.op, False) or entry.lowered
    return f"{sum(lowered.values())} of {len(lowered)} ops of StableHLO and chlo are lowered"


def closing_lines(table: list[Coverage]) -> list[str]:
    """What follows the table in a terminal: the summary, and the known failures of its ops."""
    ops = {entry.op for entry in table if entry.lowered}
    named = [limit for limit in known_limits() if any(map(limit.covers, ops))]
    rest = [f"{c[2]} {c[1]}: {c[3]}: {c[4]} ({c[0]})" for c in _limit_rows(named)]
    refused = dict.fromkeys(f"{entry.op}: {words}" for entry in table for words in entry.elsewhere)
    return [
        summary(table),
        *(["", "known to fail all the same:", *rest] if rest else []),
        *(["", "refused by builds of tt-mlir:", *refused] if refused else []),
    ]


def _limit_rows(limits: Iterable[Any]) -> list[tuple[str, ...]]:
    """The texts below `LIMIT_HEAD`."""
    return [(x.condition, ", ".join(x.types) or "any", x.stage, x.kind, x.reason) for x in limits]


def to_markdown(table: list[Coverage]) -> str:
    """Returns the page docs/ops.md: the meaning of its words, counts, and a table per family."""
    counts = Counter(entry.kind for entry in table)
    parts = [
        "# What the compiler covers",
        "",
        "`make ops` writes this page from the op table in `compiler/ops/`; `opscope ops` prints the table, filtered or",
        f"as JSON. {summary(table)}.",
        "",
        "Types are classes of the first operand's element type. A class that no line of an op names is refused:",
        "complex numbers as `never`, others as `notimpl`; with `--unsupported-types=fallback` the host computes ops",
        "whose types the device lacks. [compiler.md](compiler.md#numbers) explains which formats hold a class, and",
        "what a board refuses. A chlo op without a line is first rewritten in StableHLO.",
        "",
        *_table(("kind", "lines", "meaning"), [(f"`{k}`", str(counts[k]), words) for k, words in KINDS.items()]),
    ]
    for family in dict.fromkeys(entry.family for entry in table):
        lines = [(*map(_code, e.cells()[:-1]), e.reason) for e in table if e.family == family]
        parts += ["", f"## {family}", "", *_table(HEAD, lines)]
    calls = [(f"`{row.pattern}`", row.way.replace("_", " "), row.reason) for row in TARGETS]
    parts += ["", "## Targets of custom_call", "", *_table(("target", "way", "reason"), calls)]
    parts += [
        "",
        "## Known to fail all the same",
        "",
        "These types, boards and formats refuse ops from the tables above: the expected failures of a run",
        "([triage.md](triage.md#expected-failures)).",
        "",
        *_table(LIMIT_HEAD, _limit_rows(known_limits())),
    ]
    parts += [
        "",
        "## Refused by builds of tt-mlir",
        "",
        f"{BUILD} is a third party's build of a patched tt-mlir: ask tt-mlir's own before you report one of these.",
        "`opscope ops --against-backend tt` tries them again; [tt_mlir.md](tt_mlir.md) has all that differs.",
        "",
        *_table(
            ("op", "form", "what it says", "unique ops"),
            [(f"`{r.op}`", r.form, f"{'the process ends: ' * r.crashes}{r.reason}", str(r.cases)) for r in REFUSALS],
        ),
    ]
    return "\n".join(parts) + "\n"


def _code(cell: str) -> str:
    return f"`{cell}`" if "." in cell or "_" in cell else cell


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    return ["|" + "|".join(f" {c} " if c else " " for c in row) + "|" for row in (head, ("---",) * len(head), *rows)]

"""The generated page docs/tt_mlir.md: a comparison as tables."""

from __future__ import annotations

from collections.abc import Iterable

from opscope.compiler.against.comparison import Comparison, Group, Stops
from opscope.compiler.ops.refused_by_builds import BUILD

_MOST_OPS = 6
"""Names of ops in a cell; more of them are counted."""


def to_markdown(comparison: Comparison, backend: str) -> str:
    """Returns the page: what is compared, counts, where each stops, and every difference with its reason."""
    parts = [
        "# The reference compiler beside tt-mlir",
        "",
        f"`make tt-mlir-page` writes this page with `opscope ops --against-backend {backend}`: it compiles each op of",
        "eight models and `suite:ops`, and 300 that a seed draws (`ci/drawn_ops.py`), as PJRT hands it over, with both",
        f"compilers and compares what they print. It was written with {BUILD}, a third party's build of a patched",
        "tt-mlir, for board n150 at optimization level 0.",
        "Where that build and upstream's own tests disagree, upstream is right here, and the difference is kept.",
        "",
        "TTIR is compared in tt-mlir's own forms: what `opscope opt --stablehlo-to-ttir-pipeline` writes, with",
        "StableHLO's simplification, for which tt-xla asks. TTNN is compared as each runs it, without the ops that",
        "only place tensors.",
        "",
        "## Counts",
        "",
        f"{comparison.ops} unique ops were compared. *Upstream* names the StableHLOToTTIR test that",
        "expects our form; *or upstream's* counts such ops too.",
        "",
        *_table(
            ("dialect", "both print it", "same ops", "or upstream's", "same ops, attributes, types and layouts"),
            [(a.dialect, str(a.both), str(a.names), str(a.upstream), str(a.all)) for a in comparison.agreements],
        ),
        "",
        "## Where each stops",
        "",
        "An empty cell means that the compiler gets through to the flatbuffer.",
        "",
        *_table(("op", "unique ops", "here", "there", "example"), [_stop(stop) for stop in comparison.stops]),
    ]
    for dialect in ("ttir", "ttnn"):
        groups = [group for group in comparison.groups if group.difference.dialect == dialect]
        parts += ["", f"## Differences in {dialect.upper()}", ""]
        parts += _differences(groups) if groups else ["None."]
    return "\n".join(parts) + "\n"


def _differences(groups: list[Group]) -> list[str]:
    """One table for each reason, those that concern most ops first."""
    lines: list[str] = []
    for reason in dict.fromkeys(group.reason for group in groups):
        same = [group for group in groups if group.reason == reason]
        lines += [*([""] if lines else []), f"**{_sentence(reason)}**", ""]
        tests = ("upstream",) if any(group.upstream for group in same) else ()
        head = ("op", "what", "here", "there", *tests, "unique ops", "example")
        lines += _table(head, [_difference(group, named=bool(tests)) for group in same])
    return lines


def _sentence(reason: str) -> str:
    if not reason:
        return "Without a reason: ours to mend."
    return f"{reason[:1].upper()}{reason[1:]}."


def _stop(stop: Stops) -> tuple[str, ...]:
    return f"`{stop.name}`", str(stop.count), _plain(stop.here), _plain(stop.there), f"`{stop.example}`"


def _difference(group: Group, *, named: bool) -> tuple[str, ...]:
    each = group.difference
    names = [each.op] if each.kind == "ops" else list(group.ops)
    rest = len(names) - _MOST_OPS
    op = ", ".join(f"`{name}`" for name in names[:_MOST_OPS]) + (f" and {rest} more" if rest > 0 else "")
    what = f"{each.kind} `{each.what}`" if each.what else each.kind
    test = (f"`{group.upstream}`" if group.upstream else "",) if named else ()
    return op, what, _plain(each.ours), _plain(each.theirs), *test, str(group.count), f"`{group.example}`"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return ["|" + "|".join(f" {c} " if c else " " for c in row) + "|" for row in (head, ("---",) * len(head), *rows)]

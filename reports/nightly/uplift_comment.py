"""What a new build changes as markdown of at most 60 lines, for a pull request: made of the data of the gate alone.

Texts of models, ops and errors are escaped, so that they act as no markup, mention or command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opscope.base.document.as_markdown import LONGEST, code, escaped, fenced, rendered
from opscope.base.document.nodes import Column, Listed, Op, Table, Words
from opscope.base.visible_text import counted, cut, percent_change
from opscope.reports.compare.changed_programs import listed_counts
from opscope.reports.compare.lowered_differently import Group
from opscope.reports.nightly.uplift import DRAM_PEAK, L1_PEAK, WRONG_IN_BOTH

if TYPE_CHECKING:
    from opscope.reports.compare.diff import Row
    from opscope.reports.nightly.uplift import Model, Uplift
    from opscope.reports.nightly.uplift_leads import Lead

MARK = "<!-- opscope gate -->"
"""The first line of a comment, by which it is found again."""
MOST_LINES = 60
MOST_CHANGES, MOST_OTHERS = 10, 3
LINES_OF_MODULE = 12
MOST_NAMES, MOST_COUNTS = 3, 6
MOST_OF_NAME = 60
WITHIN = "within the error model"


def text(uplift: Uplift) -> str:
    """The comment: with fewer modules, and lists but that of failures are shorter, where it would have more than 60
    lines."""
    sizes = [*((MOST_OTHERS, modules) for modules in range(MOST_OTHERS, 1, -1))]
    sizes += [(most, modules) for modules in (1, 0) for most in range(MOST_OTHERS, -1, -1)]
    comments = (_text(uplift, *size) for size in sizes)
    return next((comment for comment in comments if comment.count("\n") <= MOST_LINES), _text(uplift, *sizes[-1]))


def _text(uplift: Uplift, most: int, modules: int) -> str:
    failing = [_failing(row, uplift.owners.get(row.op_id, "")) for row in uplift.news]
    right = [f"{row.op_name} {', '.join(row.models)}: {row.error_a}" for row in uplift.fixed]
    numbers = [f"{each.name}: {each.numbers}: {each.reason}" for each in _renumbered(uplift)]
    wrong = [f"{each.name}: {each.reason}" for each in _computed(uplift) if each.numbers == WRONG_IN_BOTH]
    parts = [
        f"{MARK}\n### {title(uplift)}",
        rendered(
            Words(_about(uplift)),
            _list("❌ fails now", failing, MOST_OTHERS),
            _list("🔴 costs more", uplift.worse[len(uplift.news) :], MOST_OTHERS),
            _changes(uplift),
        ),
        rendered(
            _list("other changes of single ops", list(map(_change, _of_ops_alone(uplift))), most),
            _list("✅ right now", right, most),
        ),
        _details("smallest modules and commits", _leads(uplift, 2 + most, modules)),
        _details(f"models ({len(uplift.differing)})", rendered(_model_table(uplift.differing, 3 * most + 1))),
        rendered(
            _list("numbers changed", numbers, most),
            _list("still wrong", wrong, most),
            _list("no price", uplift.not_priced, most),
            _list("not compared", uplift.skipped, most),
            Words(_foot(uplift)),
        ),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def title(uplift: Uplift) -> str:
    """The verdict in one line. Names of builds are code, in which `tt@0.1.2` is neither a mention nor an address."""
    priced = [model for model in uplift.models if model.cycles is not None]
    slower = sum(model.cycles[1] > model.cycles[0] for model in priced if model.cycles)
    faster = sum(model.cycles[1] < model.cycles[0] for model in priced if model.cycles)
    larger = sum(any(now > before for before, now in _memory(model).values()) for model in uplift.models)
    numbers = Counter(each.numbers for each in _renumbered(uplift))
    kinds = [f"{number} {WITHIN if kind == 'within' else kind}" for kind, number in numbers.most_common()]
    words = [
        f"{counted(len(uplift.news), 'new failure')}" if uplift.news else "nothing fails anew",
        *([f"{counted(slower, 'model')} slower"] if slower else []),
        *([f"{faster} faster"] if faster else []),
        *([f"{larger} with more memory"] if larger else []),
        f"numbers changed: {', '.join(kinds)}" if kinds else "numbers unchanged",
        *([f"{len(uplift.fixed)} right now"] if uplift.fixed else []),
    ]
    mark = "🔴" if uplift.worse else "🟢"
    return f"{mark} {code(uplift.old.name)} → {code(uplift.new.name)}: {escaped(', '.join(words))}"


def _about(uplift: Uplift) -> str:
    errors = [each.cycles_error for each in _computed(uplift) if each.cycles_error is not None]
    options = " ".join(f"{name}={value}" for name, value in sorted(uplift.options.items()) if value is not None)
    models, alone = uplift.models, uplift.compared - sum(model.equal is not None for model in uplift.models)
    words = [
        uplift.board,
        options,
        f"{_different(models)} of {counted(len(models), 'model')} lower differently" if models else "",
        f"{_different(uplift.ops)} of {counted(alone, 'single op')} lower differently" if alone > 0 else "",
        f"cycles simulated, {max(errors):.1f} % error at most" if errors else "",
        f"{sum(uplift.seconds.values()):.0f} s",
    ]
    return " · ".join(filter(None, words))


def _different(models: Sequence[Model]) -> int:
    return sum(model.equal is False for model in models)


def _changes(uplift: Uplift) -> Table:
    every = [
        (group, _together(group, uplift) if group.cycles is None else None)
        for group in uplift.changes or uplift.op_changes
    ]
    every.sort(key=lambda each: (each[1][0] if each[1] else each[0].cycles or 0) <= 0)  # worse first
    simulated = any(each.cycles is not None for each in _computed(uplift))
    rows = [
        (
            f"{_mark(together[0] if together else group.cycles)} {group.what}",
            _names(group),
            _counts(group),
            _price(group, together) or ("not known" if simulated else ""),
            Op(group.smallest_id, cut(_smallest_of(group, uplift), MOST_OF_NAME), "", 0, "", "")
            if group.smallest
            else "",
            uplift.owners.get(group.what, ""),
        )
        for group, together in every[:MOST_CHANGES]
    ]
    heads = (f"change ({len(every)})", "models", "counts", "cycles", "smallest")
    columns = [*map(Column, heads), Column("owner", fillable=True)]
    return Table(columns, rows, left_out=len(every) - len(rows))


def _smallest_of(group: Group, uplift: Uplift) -> str:
    """What is left of the smallest op that shows a change, as it is where it was not made smaller."""
    lead = uplift.leads.get(group.what)
    return (lead.after if lead is not None else "") or group.smallest


def _of_ops_alone(uplift: Uplift) -> list[Group]:
    """What differs in the programs of single ops and of no model, what costs most first."""
    of_models = {group.alike for group in uplift.changes}
    alone = [group for group in uplift.op_changes if group.alike not in of_models] if uplift.changes else []
    return sorted(alone, key=lambda group: -(group.cycles or 0))


def _change(group: Group) -> str:
    """A change in a line: of the op in which it costs or saves most."""
    more = f"; and {counted(len(group.ops) - 1, 'other op')}" if len(group.ops) > 1 else ""
    return f"{_mark(group.cycles)} {cut(group.what, MOST_OF_NAME)}: {group.places[0].text}{more}"


def _failing(row: Row, team: str) -> str:
    return f"{f'{team}: ' if team else ''}{row.op_name} {', '.join(row.models)}: {row.error_b}"


def _mark(cycles: int | None) -> str:
    return "⚪" if not cycles else "🔴" if cycles > 0 else "🟢"


def _names(group: Group) -> str:
    names = [cut(place.name, MOST_OF_NAME) for place in group.places]
    return ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


def _counts(group: Group) -> str:
    """Of one place its counts, of several what there is more or less in all of them."""
    if len(group.places) == 1:
        [place] = group.places
        return listed_counts(place.counts, place.layouts).replace(" -> ", "→")
    totals: dict[str, int] = {}
    for place in group.places:
        for name, (old, new) in (*place.counts.items(), *place.layouts.items()):
            totals[name] = totals.get(name, 0) + new - old
    words = [f"{name} {total:+d}" for name, total in totals.items() if total]
    more = f", and {len(words) - MOST_COUNTS} more" if len(words) > MOST_COUNTS else ""
    return ", ".join(words[:MOST_COUNTS]) + more


def _price(group: Group, together: tuple[int, int] | None) -> str:
    if together is not None:
        rest, others = together
        return f"{rest:+,} with {counted(others, 'other')}" if others else f"{rest:+,}"
    priced = [place for place in group.places if place.cycles is not None]
    if not priced or group.cycles is None:
        return ""
    if not any(now - before for before, now in (place.cycles for place in priced if place.cycles is not None)):
        return "0"
    pairs = [place.cycles for place in priced if place.cycles is not None and place.cycles[0]]
    shares = [percent_change(*pair) for pair in sorted(pairs, key=lambda pair: pair[1] / pair[0])]
    share = f" ({shares[0]}{f' … {shares[-1]}' if len(shares) > 1 else ''})" if shares else ""
    by = " of its kernels" if any(place.priced_by == "kernels" for place in priced) else ""
    return f"{group.cycles:+,}{share}{by}"


def _together(group: Group, uplift: Uplift) -> tuple[int, int] | None:
    """What the changes cost together that have no price of their own in the models of one that has none, and how many
    others they are; None where the models have no cycles."""
    cycles = {model.name: model.cycles[1] - model.cycles[0] for model in uplift.models if model.cycles is not None}
    names = cycles.keys() & {place.name for place in group.places}
    changes = [[place for place in other.places if place.name in names] for other in uplift.changes]
    others = sum(any(place.cycles is None for place in places) for places in changes) - 1
    known = (place.cycles for places in changes for place in places if place.cycles is not None)
    rest = sum(cycles[name] for name in names) - sum(now - before for before, now in known)
    return (rest, others) if names else None


def _leads(uplift: Uplift, most: int, modules: int) -> str:
    """What is worse, with the commands that look into it, and the modules of those that were made small enough."""
    leads = [*uplift.leads.values()]
    commits = ["" if uplift.between else lead.bisect for lead in leads[:most]]  # of releases all have one line
    rows = [
        (cut(lead.what, MOST_OF_NAME), _smallest(lead), lead.reduce, commit)
        for lead, commit in zip(leads, commits, strict=False)
    ]
    columns = [Column("of"), *(Column(head, "code", fillable=True) for head in ("smallest", "smaller", "commit"))]
    short = [lead for lead in leads[:most] if lead.module and _is_short(lead.module)]
    parts = [rows and f"Since: {_since(uplift)}", rendered(Table(columns, rows, left_out=len(leads) - len(rows)))]
    return "\n\n".join([*filter(None, parts), *(fenced(lead.module, "mlir") for lead in short[:modules])])


def _since(uplift: Uplift) -> str:
    """The commits of the builds, or their names and why there are no commits."""
    if uplift.commits:
        return code(uplift.commits)
    found, between = len(uplift.between or ()), ""
    if uplift.between is not None:
        lines = dict.fromkeys(lead.bisect for lead in uplift.leads.values() if lead.bisect)
        between = f", {counted(found, 'release') if found else 'no release'} between"
        between += f" ({', '.join(map(code, [*lines][:MOST_OTHERS]))})" if found and lines else ""
    unknown = f"neither build names its commit ({code('--commits OLD..NEW')} does)"
    return f"{code(f'{uplift.old.name}..{uplift.new.name}')}{between}; {unknown}"


def _smallest(lead: Lead) -> str:
    if lead.elements is None:
        return lead.why and f"not made smaller: {lead.why}"
    before, after = lead.elements
    return f"{lead.after}: {after:,} of {before:,} elements{'' if lead.complete else ', not the end'}"


def _is_short(module: str) -> bool:
    lines = module.splitlines()
    return len(lines) <= LINES_OF_MODULE and max(map(len, lines)) <= LONGEST


def _model_table(models: Sequence[Model], most: int) -> Table:
    def of(pair: tuple[int, int] | None) -> str:
        return "" if pair is None else f"{pair[0]:,} → {pair[1]:,}"

    rows = [
        (
            model.name,
            of(model.cycles) + (f" ({percent_change(*model.cycles)})" if model.cycles and model.cycles[0] else ""),
            of(model.launches),
            ", ".join(f"{name} {of(pair)}" for name, pair in _memory(model).items()),
            " → ".join("" if value is None else f"{value:.6f}" for value in model.pcc) if any(model.pcc) else "",
            model.numbers,
        )
        for model in models[:most]
    ]
    columns = [*map(Column, ("model", "cycles", "launches", "memory", "PCC", "numbers"))]
    return Table(columns, rows, left_out=len(models) - len(rows))


def _memory(model: Model) -> dict[str, tuple[int, int]]:
    """What a model needs of memory, where it changed or where there is temporary memory."""
    pairs = {"temporary": model.temp_bytes, "DRAM": model.totals.get(DRAM_PEAK)}
    pairs["L1"] = model.totals.get(L1_PEAK) if model.equal else None  # what it says of a loss, as the gate's verdict
    return {name: pair for name, pair in pairs.items() if pair is not None}


def _details(head: str, content: str) -> str:
    return f"<details><summary>{head}</summary>\n\n{content}\n\n</details>" if content else ""


def _list(head: str, lines: Sequence[str], most: int) -> Listed:
    return Listed(head, [("", line) for line in lines[:most]], count=len(lines), left_out=max(0, len(lines) - most))


def _renumbered(uplift: Uplift) -> list[Model]:
    """Models and ops whose numbers are others than before."""
    return [one for one in _computed(uplift) if one.numbers not in ("", "equal bits", WRONG_IN_BOTH)]


def _computed(uplift: Uplift) -> tuple[Model, ...]:
    return *uplift.models, *uplift.ops


def _foot(uplift: Uplift) -> str:
    folded = f"{counted(uplift.folded, 'program')} with another text and the same graph" if uplift.folded else ""
    return " · ".join(
        filter(None, (folded, uplift.commits and f"commits {uplift.commits}", uplift.new.compiler[:LONGEST]))
    )

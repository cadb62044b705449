"""What the compiler made of whole models otherwise than before, by the structures that two runs have stored.

    llama_prefill: cycles 1,447,229 -> 1,641,281 (+13.41 %); ttnn.mean 0 -> 9, ttnn.rms_norm 9 -> 0

Every run of whole models has them, and so has every night. What differs between the programs themselves, place by
place, is known where a run has kept its IR (lowered_differently.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from opscope.base.visible_text import percent_change
from opscope.harness.record.records import Structure
from opscope.reports.compare.outcomes import RunView

MOST_NAMES = 6
"""Counts in a line."""
_AHEAD, _FUSED = "ahead ", "fused "
Counts = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class ChangedProgram:
    """A model of which the compiler made another program than before."""

    model: str
    op_id: str
    counts: Counts
    """Op -> how many of it there were and are, those whose number changed most first; of what is evaluated once, before
    the first execution, `ahead OP`; of what is fused, `fused OP`."""
    layouts: Counts
    """`ttnn.rms_norm l1 width_sharded` -> how many such results, where the number of the op is as before."""
    costs: Counts
    """`cycles` of one execution and `temporary bytes`, where they changed."""

    @property
    def price(self) -> str:
        """What the model costs more or less; empty where that is not known or as before."""
        return ", ".join(_priced(self.costs))

    @property
    def what(self) -> str:
        """What there is more or less of in its program."""
        return listed_counts(self.counts, self.layouts)

    @property
    def text(self) -> str:
        """In one line."""
        return f"{self.model}: {'; '.join(filter(None, (self.price, self.what)))}"


def changed_programs(a: RunView, b: RunView) -> tuple[ChangedProgram, ...]:
    """The models of both runs whose programs have other counts, layouts or costs now; what costs more first."""
    found = []
    models: dict[str, list[str]] = {}
    for model, program in b.programs.items():
        models.setdefault(program.op_id, []).append(model)
    for op_id, names in models.items():
        old, new = a.programs.get(names[0]), b.programs[names[0]]
        if old is None or old.op_id != op_id or old.structure is None or new.structure is None:
            continue
        before, now = old.structure, new.structure
        counts, layouts = changed_counts(before, now), changed_layouts(before, now)
        costs = {"cycles": (old.cycles, new.cycles), "temporary bytes": (before.temp_bytes, now.temp_bytes)}
        known = {name: (x, y) for name, (x, y) in costs.items() if x is not None and y is not None and x != y}
        if counts or layouts or known:
            found.append(ChangedProgram(", ".join(names), op_id, counts, layouts, known))
    return tuple(sorted(found, key=lambda program: (-_dearer(program), program.model)))


def changed_counts(old: Structure, new: Structure) -> Counts:
    """Ops of which there are more or fewer: in each execution, then ahead of the first, then fused into others."""
    parts = ("", old.ops, new.ops), (_AHEAD, old.ahead, new.ahead), (_FUSED, old.fused, new.fused)
    return {f"{prefix}{name}": pair for prefix, *both in parts for name, pair in _different(*both).items()}


def changed_layouts(old: Structure, new: Structure) -> Counts:
    """The layouts of ops of which there are as many as before."""
    same = [name for name, number in new.ops.items() if old.ops.get(name) == number]
    before, now = (
        {f"{name} {place}": number for name in same for place, number in of.memory.get(name, {}).items()}
        for of in (old, new)
    )
    return _different(before, now)


def changed_totals(old: Structure, new: Structure) -> Counts:
    """What all ops have more or less of: casts, const-eval, ops of the host, results in each memory and layout."""
    return _different(_totals(old), _totals(new))


def _totals(structure: Structure) -> dict[str, int]:
    totals = Counter(
        {"casts": structure.casts, "on host": structure.on_host, "const-eval": sum(structure.ahead.values())}
    )
    for places in structure.memory.values():
        totals.update(places)
    return dict(totals)


def is_counted_each_time(name: str) -> bool:
    """Whether a name of `counts` is an op of each execution, whole: neither ahead of it nor fused into another."""
    return "." in name and not name.startswith((_AHEAD, _FUSED)) and not name.startswith("fusion")


def op_of(name: str) -> str:
    """The op of a name of `counts` or `layouts`."""
    name = name.removeprefix(_AHEAD).removeprefix(_FUSED)
    return name if name.startswith("fusion") else name.partition(" ")[0]


def _different(before: Mapping[str, int], now: Mapping[str, int]) -> Counts:
    pairs = {name: (before.get(name, 0), now.get(name, 0)) for name in sorted({*before, *now})}
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    return dict(sorted(changed.items(), key=lambda item: -abs(item[1][1] - item[1][0])))


def _dearer(program: ChangedProgram) -> float:
    """By what share of its cycles a model costs more now."""
    before, now = program.costs.get("cycles", (0, 0))
    return now / before - 1 if before else 0.0


def listed_counts(*of: Counts) -> str:
    """Those that changed most, `ttnn.mean 0 -> 9`, of each."""
    return "; ".join(filter(None, map(_listed, of)))


def _listed(counts: Counts) -> str:
    words = [f"{name} {before} -> {now}" for name, (before, now) in counts.items()]
    more = [f"and {len(words) - MOST_NAMES} more"] if len(words) > MOST_NAMES else []
    return ", ".join([*words[:MOST_NAMES], *more])


def _priced(costs: Counts) -> Iterator[str]:
    for name, (before, now) in costs.items():
        share = f" ({percent_change(before, now)})" if before else ""
        yield f"{name} {before:,} -> {now:,}{share}"

"""What happened to an op from one run or night to the next: its label, by which limits, and what a label counts as.

One table, which Python asks by functions and SQL by placeholders (`{label e t}`, `{NEWS}`, `{DROP}`:
reports/database/endings.py), so that `diff`, a night's summary, a gate, the dashboards and stored questions agree.
"""

from __future__ import annotations

from enum import StrEnum

from opscope.base.statuses import FAILED, NOT_RUN, OWN_STEPS, RIGHT, STAGES, STATUSES, SUPPORT, Word


class Label(StrEnum):
    """What happened to an op, the most urgent first; LABELS says what each means."""

    NEW = "NEW"
    REASON_CHANGED = "REASON-CHANGED"
    PCC_DROP = "PCC-DROP"
    VARYING = "VARYING"
    BATCH_DEPENDENT = "BATCH-DEPENDENT"
    SLOWER = "SLOWER"
    PERSISTING = "PERSISTING"
    FIXED = "FIXED"
    VANISHED = "VANISHED"
    NEVER_RUN = "NEVER-RUN"
    FIRST = "FIRST"
    ADDED = "ADDED"
    SAME = "SAME"


LABELS: dict[str, Word] = {
    Label.NEW: Word("bad", "#E53935", "Goes wrong now, and did not before or was not attempted."),
    Label.REASON_CHANGED: Word("bad", "#FB8C00", "Goes wrong as before, for another reason."),
    Label.PCC_DROP: Word("bad", "#8E24AA", "Right in both, but further from its golden."),
    Label.VARYING: Word(
        "known", "#00838F", "Right now, but its bits differ from run to run, which was not seen before."
    ),
    Label.BATCH_DEPENDENT: Word(
        "known", "#6D4C41", "Right now, but rows of its batch have other bits alone, which was not seen before."
    ),
    Label.SLOWER: Word(
        "known", "#3949AB", "Right in both, but takes more device cycles, or longer to run or to compile."
    ),
    Label.PERSISTING: Word("known", "#B0BEC5", "Goes wrong as before."),
    Label.FIXED: Word("good", "#2E7D32", "Went wrong before, and is right now."),
    Label.VANISHED: Word("idle", "#78909C", "Was in a model that both have, and is not in it any more."),
    Label.NEVER_RUN: Word("idle", "#CFD8DC", "Not attempted in the later one, or without a verdict there."),
    Label.FIRST: Word("idle", "#B0BEC5", "Goes wrong in a night or a model that has none before it."),
    Label.ADDED: Word("good", "#2E7D32", "Attempted for the first time, and right."),
    Label.SAME: Word("good", "#2E7D32", "Right in both."),
}

# --- what a label counts as

NEWS = frozenset({Label.NEW, Label.REASON_CHANGED, Label.PCC_DROP})
"""Labels that fail a gate, unless something quiets the op (`change_of`)."""
NOW_BAD = frozenset({Label.NEW, Label.REASON_CHANGED, Label.PERSISTING, Label.FIRST})
"""Labels of ops that go wrong now."""
ANEW = NEWS & NOW_BAD
"""Labels of ops that go wrong now and did not before, or did so for another reason."""
QUIET = frozenset({Label.SAME, Label.ADDED})
"""Labels that are counted and not listed."""

ACKNOWLEDGED = "acknowledged"
"""In place of a label that fails a gate, where a note acknowledges the cause (opscope note)."""
KNOWN_OR_FLAKY = "known or flaky"
"""In place of a label that fails a gate, where a limitation names the failure or repeated attempts disagreed; and in
place of FIXED for an op whose attempts disagreed: what comes and goes by itself is neither new nor fixed."""
CHANGES = tuple(
    change
    for label in Label
    for change in (*((KNOWN_OR_FLAKY, ACKNOWLEDGED) if label is Label.PERSISTING else ()), str(label))
)
"""What `change_of` returns, the most urgent first."""


def change_of(label: str, *, known: bool, flaky: bool, acknowledged: bool) -> str:
    """What a label counts as: itself, ACKNOWLEDGED or KNOWN_OR_FLAKY. One of NEWS fails a gate."""
    if label in NEWS and acknowledged:
        return ACKNOWLEDGED
    if (label in NEWS and (known or flaky)) or (label == Label.FIXED and flaky):
        return KNOWN_OR_FLAKY
    return label


# --- of a night in one series

COMPLETE, PARTIAL, BROKEN = "complete", "partial", "broken"
"""A night in one series: nothing is missing; a model, a shard or the end of a run is; the backend failed every op with
one text, so that it may not work at all: no later night is compared with such a one."""

# --- which label

RIGHT_NOW, FAILING, IDLE = "right", "failing", "idle"


def side_of(status: str | None) -> str:
    """What an op's ending says where two are compared; IDLE: not there, not attempted, or without a verdict."""
    return RIGHT_NOW if status in RIGHT else FAILING if status in FAILED else IDLE


TURNS: dict[tuple[str, str], Label | None] = {
    (IDLE, FAILING): Label.NEW,
    (RIGHT_NOW, FAILING): Label.NEW,
    (FAILING, FAILING): None,
    (FAILING, RIGHT_NOW): Label.FIXED,
    (IDLE, RIGHT_NOW): Label.ADDED,
    (RIGHT_NOW, RIGHT_NOW): None,
    **dict.fromkeys(((before, IDLE) for before in (RIGHT_NOW, FAILING, IDLE)), Label.NEVER_RUN),
}
"""An op's side before and now -> its label. None: of failures PERSISTING where all of REASON are the same, else
REASON-CHANGED; of right results PCC-DROP or SLOWER by the limits below, else SAME. Of right results that do not repeat,
in place of SAME, SLOWER and ADDED: what UNREPEATED says."""
UNREPEATED = {"varying": Label.VARYING, "batch_dependent": Label.BATCH_DEPENDENT}
"""Stability of a right op -> its label, where it had another stability before."""
REASON = ("failed_stage", "error_signature", "crash_kind")
"""Two failures of one status are the same if these fields of their records are."""

DROP = 1e-3
"""A fall of the PCC by this much is a drop."""
MORE_ULP = 1.05
"""An op is less exact if its largest error in units in the last place, above one, is so many times what it was."""
TENFOLD, LEAST_DROP = 10.0, 1e-5
"""A tenfold distance from 1 is a drop too, if it grew by at least this much."""
MORE_CYCLES = 1.05
"""Growth of an op's cycles that counts: the cycle model has no noise, but a changed tiling shifts them a little. What
lies inside the error of the op's kernel kind counts for nothing either."""
MORE_TIME, LEAST_NS = 1.25, 50_000
"""Growth of a measured time that counts, where it is also more than the spreads of both runs together: two processes
differ by more than the runs of one."""


def is_farther(before: float, now: float) -> bool:
    """Whether the largest error of a sweep over all inputs, in units in the last place, grew so that it counts."""
    return now > max(1.0, MORE_ULP * before)


def is_drop(before: float, now: float) -> bool:
    """Whether a PCC with the golden fell so far that it counts."""
    drop = before - now
    return drop >= DROP or (drop >= LEAST_DROP and 1 - now >= TENFOLD * (1 - before))


def label_colours() -> dict[str, str]:
    """Every word that a dashboard may show in a chart -> its colour; stages by name, and as the views number them."""
    words = {**STATUSES, **LABELS, **SUPPORT}
    stages = {
        f"{number} {stage}": colour
        for stage, (step, colour) in STAGES.items()
        if stage != NOT_RUN
        for number in (OWN_STEPS if step is None else [step])
    }
    plain = {stage: colour for stage, (_, colour) in STAGES.items()}
    colours = {str(word): about.colour for word, about in words.items()}
    return colours | {KNOWN_OR_FLAKY: SUPPORT["known gap"].colour} | stages | plain

"""What views and stored questions say of a row of op tests in words: in which format it ran, and what happened to it
since another night. The rules are those of opscope/base/statuses.py and labels.py, written as SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable

from opscope.base import labels
from opscope.base.labels import Label
from opscope.base.statuses import FAILED, NOT_ATTEMPTED, NOT_RUN, OWN_STEPS, RIGHT, STAGES

DEFAULT = "default"
"""The number format of what was asked for without one: that of the module's own types, or the backend's own."""
UNKNOWN = "unknown"
"""The number format of what never ran."""
USUAL = ("float32", "captured", "0")
"""The words of a series' key that its name leaves out: the defaults of dtype, inputs and seed."""


def in_list(words: Iterable[str]) -> str:
    """Words as SQL has them after IN."""
    quoted = ", ".join(f"'{word}'" for word in sorted(words))
    return f"({quoted})"


def format_of(table: str) -> str:
    """The number format of a row of `table`, by name where it is the default or nobody knows it."""
    never = f"{table}.status = 'not_run' OR {table}.status = 'skipped'"
    named = f"WHEN {table}.data_format <> '' THEN {table}.data_format"
    return f"CASE {named} WHEN {never} THEN '{UNKNOWN}' ELSE '{DEFAULT}' END"


def card_of(table: str) -> str:
    """The board of a row of op tests by the card that it names (`optest.board_of`); empty where that is none."""
    card, arch = f"{table}.card_type", f"{table}.arch"
    return f"CASE WHEN SUBSTR({card}, 1, 4) = 'sim-' OR REPLACE({card}, {arch}, '') <> {card} THEN {arch} ELSE '' END"


def platform_of(table: str, board: str) -> str:
    """What a series is called (`series_names.series_name`): its backend, `board`, and what of its key is unusual."""
    words = f"' ' || SUBSTR({table}.series, LENGTH({table}.backend) + LENGTH({table}.arch) + 3) || ' '"
    for usual in USUAL:
        words = f"REPLACE({words}, ' {usual} ', ' ')"
    for digit in range(10):  # series_names.py: what begins with one is the seed
        words = f"REPLACE({words}, ' {digit}', ' seed={digit}')"
    return f"RTRIM({table}.backend || CASE {board} WHEN '' THEN '' ELSE ' ' || {board} END || {words})"


def board_of(table: str) -> str:
    """The board of a row of `night_series`: empty where its backend has none; as asked for where nothing was tried."""
    return f"COALESCE({table}.board, {table}.arch)"


def label_of(old: str, new: str) -> str:
    """The label of a row of `new`, which is there, since one of `old`, which may be absent: `labels.TURNS` in SQL.

    An op is SLOWER by its device cycles alone; measured and compile times need a history.
    """
    was, now = (f"{table}.status" for table in (old, new))
    sides = {
        labels.FAILING: f"IN {in_list(FAILED)}",
        labels.RIGHT_NOW: f"IN {in_list(RIGHT)}",
    }
    same = " AND ".join(f"COALESCE({old}.{name}, '') = COALESCE({new}.{name}, '')" for name in labels.REASON)
    apart = f"{old}.pcc - {new}.pcc"
    tenfold = f"{apart} >= {labels.LEAST_DROP:.9f} AND 1 - {new}.pcc >= {labels.TENFOLD} * (1 - {old}.pcc)"
    farther = f"{new}.largest_ulp > 1 AND {new}.largest_ulp > {labels.MORE_ULP} * {old}.largest_ulp"
    grown = f"{new}.cycles > {labels.MORE_CYCLES} * {old}.cycles"
    beyond = f"{new}.cycles > (1 + COALESCE({new}.cycles_error, 0) / 100) * {old}.cycles"
    shaky = f"{new}.stability IN {in_list(labels.UNREPEATED)} AND COALESCE({old}.stability, '') <> {new}.stability"
    named = " ".join(f"WHEN '{stability}' THEN '{label}'" for stability, label in labels.UNREPEATED.items())
    unrepeated = f"WHEN {shaky} THEN CASE {new}.stability {named} END"
    open_turns = {
        labels.FAILING: f"CASE WHEN {was} = {now} AND {same} THEN '{Label.PERSISTING}' "
        f"ELSE '{Label.REASON_CHANGED}' END",
        labels.RIGHT_NOW: f"CASE WHEN {apart} >= {labels.DROP} OR ({tenfold}) OR ({farther}) THEN '{Label.PCC_DROP}' "
        f"{unrepeated} WHEN {old}.cycles > 0 AND {grown} AND {beyond} THEN '{Label.SLOWER}' ELSE '{Label.SAME}' END",
    }
    whens = []
    for (before, after), label in labels.TURNS.items():
        where = [f"{table} {sides[side]}" for table, side in ((was, before), (now, after)) if side in sides]
        then = open_turns[after] if label is None else f"'{label}'"
        if label is Label.ADDED:
            then = f"CASE {unrepeated} ELSE {then} END"
        # Those with a side that is neither right nor failing come last, where nothing else fits any more.
        whens.append((before not in sides, after not in sides, f"WHEN {' AND '.join(where) or '1 = 1'} THEN {then}"))
    return f"CASE {' '.join(when for _, _, when in sorted(whens, key=lambda each: each[:2]))} END"


def change_of(label: str, known: str, flaky: str, acknowledged: str) -> str:
    """What a label counts as: `labels.change_of` in SQL. `known`, `flaky` and `acknowledged` are conditions."""
    news = f"{label} IN {in_list(labels.NEWS)}"
    return (
        f"CASE WHEN {news} AND {acknowledged} THEN '{labels.ACKNOWLEDGED}' "
        f"WHEN {flaky} AND {label} = '{Label.FIXED}' OR {news} AND ({known} OR {flaky}) THEN '{labels.KNOWN_OR_FLAKY}' "
        f"ELSE {label} END"
    )


def place_of(change: str) -> str:
    """The place of a change in the order of urgency, 1 first."""
    places = " ".join(f"WHEN '{each}' THEN {at}" for at, each in enumerate(labels.CHANGES, 1))
    return f"CASE {change} {places} END"


def numbered_stage(table: str) -> str:
    """The last stage that a row of `table` passed behind its number, which sorts charts: those of STAGES, and the
    others by their place in the ladder of their night, which is looked up for them alone."""
    stage = f"{table}.stage_reached"
    numbers = {name: step for name, (step, _) in STAGES.items() if step is not None and name != NOT_RUN}
    known = " ".join(f"WHEN '{name}' THEN '{step} {name}'" for name, step in numbers.items())
    *steps, last = OWN_STEPS
    own = " ".join(f"WHEN {depth} THEN '{step} '" for depth, step in enumerate(steps, 2))
    place = f"l.night_id = {table}.night_id AND l.series = {table}.series AND l.stage = {stage}"
    depth = f"(SELECT l.depth FROM night_stages l WHERE {place})"
    return f"CASE {stage} {known} ELSE CASE {depth} {own} ELSE '{last} ' END || {stage} END"


def models_have(night: str, op: str) -> str:
    """Whether a model that ran in the night of the row `night` of `night_series` has the op of `op`."""
    models = f"m.night_id = {night}.night_id AND m.series = {night}.series AND m.outcome = 'ran'"
    ops = "night_models m JOIN module_ops u ON u.module_id = m.module_id"
    return f"EXISTS (SELECT 1 FROM {ops} WHERE {models} AND u.op_id = {op}.op_id)"


_FILLED = {
    "board": board_of,
    "card": card_of,
    "platform": platform_of,
    "format": format_of,
    "label": label_of,
    "place": place_of,
    "numbered": numbered_stage,
    "has": models_have,
}
_LISTS = {
    "RIGHT": RIGHT,
    "FAILED": FAILED,
    "NOT_ATTEMPTED": NOT_ATTEMPTED,
    "NEWS": labels.NEWS,
    "NOW_BAD": labels.NOW_BAD,
    "ANEW": labels.ANEW,
    "QUIET": labels.QUIET,
}
_PLACE = re.compile(rf"\{{({'|'.join(_FILLED)}) ([\w. ]+)\}}")
_CHANGE = re.compile(r"\{change ([^{},]+), ([^{},]+), ([^{},]+), ([^{}]+)\}")
_LIST = re.compile(r"\{([A-Z_]+)\}")


def with_endings(text: str) -> str:
    """The SQL of a view or a stored question, with its placeholders filled in: `{board TABLE}`, `{card TABLE}`,
    `{platform TABLE BOARD}`, `{format TABLE}`, `{label OLD NEW}`, `{change LABEL, KNOWN, FLAKY, ACKNOWLEDGED}`,
    `{place CHANGE}`, `{numbered TABLE}`, `{has NIGHT OP}`, and lists of statuses and labels by
    name, as in `status IN {RIGHT}`."""
    text = _CHANGE.sub(lambda place: change_of(*place.groups()), text)
    text = _PLACE.sub(lambda place: _FILLED[place[1]](*place[2].split()), text)
    return _LIST.sub(lambda place: in_list(_LISTS[place[1]]), text)

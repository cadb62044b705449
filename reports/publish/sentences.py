"""Stores what nights come to (reports/compare/first_sentence.py), so that SQL need not make the sentence again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa

from opscope.base.labels import Label
from opscope.reports.compare import first_sentence as sentences
from opscope.reports.compare.first_sentence import SeriesFacts, date_of, first_sentence, head, of_night
from opscope.reports.database.newest import begun, newest_day
from opscope.reports.database.owners import Rule, stored_rules
from opscope.reports.database.rows import Row
from opscope.reports.database.schema import NIGHTS
from opscope.reports.database.schema_nights import NIGHT_SENTENCES, NIGHT_SERIES

ALL = ""
"""In place of a series: all of them together."""


def write_sentences(connection: sa.Connection, night_id: str) -> None:
    """Makes the rows of `night_sentences` of a night anew, and those for all series of the nights of its date."""
    night = connection.execute(_NIGHT, {"night": night_id}).mappings().one_or_none()
    if night is None:
        return
    rules = stored_rules(connection)
    rows = connection.execute(_SAME_DAY, {"of_kind": night["kind"], "day": date_of(night["label"])}).all()
    newest = {row.series: row for row in rows}
    facts = {(row.night_id, row.series): of_night(connection, row.night_id, row.series) for row in newest.values()}
    of_day = head((row.name, row.label, row.zone) for row in newest.values()) if facts else ""
    is_newest = newest_day(connection) == date_of(night["label"])
    others = sentences.not_tonight(connection, facts.values()) if is_newest else []
    together = _row(of_day, [*facts.values(), *others], rules) if facts else None
    written: list[Row] = []
    for row in rows:
        if row.night_id == night_id:
            of_series = facts.get((night_id, row.series)) or of_night(connection, night_id, row.series)
            sentence = _row(head([(row.name, row.label, row.zone)]), [of_series], rules)
            written.append({"night_id": night_id, "series": row.series, **sentence})
    if together is not None:
        written += [{"night_id": day, "series": ALL, **together} for day in {row.night_id for row in rows}]
    connection.execute(_FORGET, {"night": night_id, "nights": sorted({row.night_id for row in rows})})
    if written:
        connection.execute(_WRITE, written)


_DAY = sa.bindparam("day", type_=sa.Text())
_NIGHT = sa.select(NIGHTS).where(NIGHTS.c.night_id == sa.bindparam("night"))
_SAME_DAY = (
    sa.select(NIGHT_SERIES.c.series, NIGHTS.c.night_id, NIGHTS.c.name, NIGHTS.c.label, NIGHTS.c.zone)
    .join(NIGHTS, NIGHTS.c.night_id == NIGHT_SERIES.c.night_id)
    .where(NIGHTS.c.kind == sa.bindparam("of_kind"), sa.func.substr(NIGHTS.c.label, 1, sa.func.length(_DAY)) == _DAY)
    .order_by(NIGHTS.c.started, NIGHTS.c.night_id)
)
_FORGET = sa.delete(NIGHT_SENTENCES).where(
    (NIGHT_SENTENCES.c.night_id == sa.bindparam("night"))
    | (NIGHT_SENTENCES.c.night_id.in_(sa.bindparam("nights", expanding=True)) & (NIGHT_SENTENCES.c.series == ALL))
)
_WRITE = sa.insert(NIGHT_SENTENCES)


def renew_tonight(connection: sa.Connection) -> None:
    """Makes the sentence of tonight anew: it names series as stopped or awaited, of which an earlier night may arrive
    late."""
    of_day = sa.select(NIGHTS.c.night_id).where(
        NIGHTS.c.kind == "night", NIGHTS.c.label.startswith(newest_day(connection), autoescape=True)
    )
    if night_id := connection.scalar(of_day.order_by(NIGHTS.c.started.desc()).limit(1)):
        write_sentences(connection, night_id)


def renew_newest(connection: sa.Connection) -> None:
    """Makes the sentences of the newest night of each series anew, after a change of the owners that they name."""
    newest = sa.select(NIGHT_SERIES.c.series, sa.func.max(NIGHT_SERIES.c.started).label("started"))
    last = newest.where(begun(NIGHT_SERIES.c.night_id)).group_by(NIGHT_SERIES.c.series).subquery()
    nights = sa.select(NIGHT_SERIES.c.night_id).join(
        last, (last.c.series == NIGHT_SERIES.c.series) & (last.c.started == NIGHT_SERIES.c.started)
    )
    for night_id in connection.scalars(nights.distinct()).all():
        write_sentences(connection, night_id)


def _row(beginning: str, facts: Sequence[SeriesFacts], rules: Sequence[Rule]) -> Row:
    new = [change for each in facts for change in each.news if change.label == Label.NEW]
    names = Counter({change.op_id: change.op_name for change in new}.values())
    most_in = min(names, key=lambda name: (-names[name], name), default="")
    changes = [change for each in facts for change in each.changes]
    sentence = first_sentence(beginning, facts, rules)
    return {
        "verdict": sentences.verdict(facts),
        "new_failures": len({change.op_id for change in new}),
        "causes": len({change.cause or change.op_name for change in new}),
        "fixed_ops": len({change.op_id for change in changes if change.change == Label.FIXED}),
        "slower_ops": len({change.op_id for change in changes if change.label == Label.SLOWER}),
        "most_in": most_in,
        "sentence": sentence.headline,
        "about": sentence.about,
        "chips": ", ".join(sentence.chips),
    }

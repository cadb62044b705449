"""Every door tells the same numbers of a night, and they are those of its journals.

Nights of two compilers of a user's own and of two boards, with new, fixed, flaky, partial, missing, stopped and
acknowledged, a model that was added, one that was renamed, a compiler that ends before `run`, and a run of one op that
was pasted from a page.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from opscope.base.labels import NEWS
from opscope.base.night_grid.commit_pages import page_of_range
from opscope.base.night_grid.grid import FAILS, read
from opscope.harness.record.selection import DESELECTED
from opscope.reports.agents.tools import Results
from opscope.reports.commands.compare import diff, readiness, unblock
from opscope.reports.commands.note import note
from opscope.reports.compare.first_sentence import first_sentence
from opscope.reports.compare.night_views import night_view, nights_named
from opscope.reports.compare.outcomes import from_folder
from opscope.reports.compare.owned import Owned
from opscope.reports.database.ask import ask
from opscope.reports.database.database import open_database
from opscope.reports.demo import replay
from opscope.reports.exports import frames
from opscope.reports.nightly import markdown
from opscope.reports.nightly.config import POLICY
from opscope.reports.nightly.delivery import Delivered
from opscope.reports.nightly.findings import read_night_of
from opscope.reports.nightly.gate import SweepComparison, _gate_of, compared_with
from opscope.reports.nightly.night import _short
from opscope.reports.nightly.sweeps import Sweep
from opscope.reports.nightly.verdict import verdict_of
from opscope.reports.pages.night_page import render_night
from opscope.reports.publish.publish import publish
from opscope.reports.tests import recomputed
from opscope.reports.tests.night_runs import fresh, record, shard_run
from opscope.reports.tests.nights import START, Op, night, op_id

A, B, C = {"net_a": 1}, {"net_a": 1, "net_b": 2}, {"net_c": 1}
ABC = ("net_a", "net_b", "net_c")
OPS = {"exponential": Op(uses=A), "tanh": Op(uses=B), "add": Op(uses=C), "subtract": Op(uses=B), "abs": Op(uses=C)}
LOWERED = {name: replace(op, status="passed") for name, op in OPS.items()}
EXP = Op("compile_failed", A, error="kernel exp is not registered")
TANH = Op("compile_failed", B, error="kernel tanh is not registered (op %12, 0xdeadbeef)")
WRONG = Op("wrong_result", B, error="2 of 4 values are wrong: 1.5 instead of 1 at (0, 1)")
COSINE = Op("compile_failed", {"net_c": 2}, error="cannot legalize cosine")


def arrivals(folder: Path, url: str) -> Callable[..., None]:
    """Publishes nights of one run, `hour` hours after the usual time of their day."""
    numbers = itertools.count(1)

    def arrives(day: int, backend: str, ops: Mapping[str, Op], models: tuple[str, ...] = ABC, **more: Any) -> None:
        arch, shard, shards = more.get("arch", "n150"), more.get("shard", 0), more.get("shards", 0)
        started = START + timedelta(days=day, hours=more.get("hour", 0))
        name = more.get("name", f"{backend}-{arch}")
        expected = record(
            day, name=name, models=models, backends=(backend,), archs=(arch,), shards=shards, started=started
        )
        card = f"sim-{arch}" if backend == "reference" else "host"
        run = shard_run(folder, expected, next(numbers), ops, shard, backend=backend, arch=arch, card_type=card)
        publish(run, url)

    return arrives


def acknowledge(url: str, *causes: str) -> None:
    until = str(date.today() + timedelta(days=400))
    for cause in causes:
        words = [cause, "we know", "--until", until, "--by", "ann", "--db", url]
        CliRunner().invoke(note, words, catch_exceptions=False)


def published(folder: Path, url: str) -> None:
    """The nights, one after another, and the cause of `subtract` acknowledged."""
    arrives = arrivals(folder, url)
    arrives(1, "mycc", OPS | {"exponential": EXP})
    arrives(1, "lowcc", LOWERED)
    arrives(2, "mycc", OPS | {"tanh": TANH})  # one fixed, one new
    arrives(2, "lowcc", LOWERED | {"cosine": COSINE})
    arrives(3, "lowcc", LOWERED | {"cosine": COSINE, "abs": Op("compile_failed", C, error="cannot legalize abs")})
    half = {name: OPS[name] for name in ("exponential", "add")} | {
        "tanh": replace(TANH, error="kernel tanh is not registered (op %99, 0xcafe)")
    }
    arrives(4, "mycc", half, shard=1, shards=2)  # `subtract`, which is wrong by now, is in the other half
    renamed = {
        name: replace(op, uses={"net_e" if model == "net_a" else model: n for model, n in op.uses.items()})
        for name, op in OPS.items()
    }
    added = {"fft": Op("compile_failed", {"net_d": 1}, error="no FFT")}
    later = (
        renamed
        | added
        | {
            "subtract": replace(WRONG, uses={"net_e": 1, "net_b": 2}),
            "abs": Op("run_failed", C, error="lost the connection", more={"flaky": True}),
            "add": Op("crashed", C, error="killed by SIGSEGV at run", more={"crash_kind": "SIGSEGV"}),
        }
    )
    arrives(5, "mycc", later, ("net_e", "net_b", "net_c", "net_d"))
    arrives(
        5, "reference", OPS | {"sort": Op("run_failed", C, error="too large", more={"expected": "notyet: too large"})}
    )
    arrives(6, "reference", OPS | {"exponential": EXP}, arch="p150")
    ((cause,),) = ask(url, f"SELECT cluster FROM night_diff WHERE label = 'NEW' AND op_id = '{op_id('subtract')}'").rows
    acknowledge(url, str(cause))
    arrives(6, "mycc", later | {"log": replace(EXP, uses=C)}, ("net_e", "net_b", "net_c", "net_d"))
    # The line of a page, pasted after the compiler was mended: an answer of its own, and no night says another thing.
    pasted = {name: replace(op, status="skipped", more={"error_message": DESELECTED}) for name, op in later.items()} | {
        "subtract": OPS["subtract"]
    }
    publish(night(folder, 90, pasted, backend="mycc", card_type="host"), url)


MARKUP = "<b>cc<b>\N{GRINNING FACE}|`x`"


def published_oddly(folder: Path, url: str) -> None:
    """A backend whose name is markup, one that is renamed, two nights on one day, one that is of a clock set back and
    arrives after both, one under another name an hour later, and one of which all is acknowledged."""
    arrives = arrivals(folder, url)
    twice = ("tanh", "subtract")
    many = OPS | {name: replace(TANH, error=f"{name}: <i>no</i> | `room` for 3 tiles") for name in twice}
    for day, backend in itertools.product((1, 2), ("mycc", MARKUP, "reference")):
        arrives(day, backend, OPS | {"tanh": TANH} if (day, backend) == (2, "mycc") else OPS)
    arrives(3, "reference", OPS | {"exponential": EXP})
    arrives(3, "reference", OPS | {"tanh": TANH}, hour=6)
    arrives(2, "reference", OPS | {"add": replace(EXP, uses=C)}, hour=12)
    for backend in ("newcc", MARKUP):
        arrives(3, backend, OPS | {"tanh": TANH})
    for backend in ("newcc", MARKUP, "reference"):
        arrives(4, backend, many)
    acknowledge(
        url,
        *(
            str(cause)
            for (cause,) in ask(
                url, "SELECT DISTINCT cluster FROM night_grid WHERE new_ops > 0 AND error_message LIKE '%room%'"
            ).rows
        ),
    )
    for backend in ("newcc", MARKUP, "reference"):
        arrives(5, backend, many)
    arrives(
        6,
        "newcc",
        {
            name: replace(op, status="run_failed", error=f"lost {name}", more={"flaky": True})
            for name, op in OPS.items()
        },
    )
    arrives(6, "reference", OPS, name="first")
    arrives(6, "reference", OPS | {"exponential": EXP}, name="second", hour=1)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, pd.DataFrame, Path]:
    folder = tmp_path_factory.mktemp("nights")
    url = fresh(folder / "db.sqlite")
    published(folder / "runs", url)
    return url, recomputed.op_tests(folder / "runs"), folder


def call(command: Any, *words: str) -> Any:
    done = CliRunner().invoke(command, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def told(ops: Mapping[str, int]) -> dict[str, int]:
    return {what: count for what, count in ops.items() if count}


def by_journals(of: pd.DataFrame) -> dict[str, int]:
    """What each door has to say of a night in one series, given what happened to its ops."""
    loud = of[~of.quiet]
    return told(
        {
            "right": int(of.right.sum()),
            "bad": int(of.bad.sum()),
            "new": int((loud.what == "new").sum()),
            "another reason": int((loud.what == "another reason").sum()),
            "less exact": int((loud.what == "less exact").sum()),
            "fixed": int(((of.what == "fixed") & ~of.flaky).sum()),
            "still failing": int((of.what == "still failing").sum()),
            "first": int((of.what == "first").sum()),
        }
    )


LABELS = {
    "NEW": "new",
    "REASON-CHANGED": "another reason",
    "PCC-DROP": "less exact",
    "FIXED": "fixed",
    "PERSISTING": "still failing",
    "FIRST": "first",
}


def by_rows(rows: Any) -> dict[str, int]:
    """The same of (label, what it counts as) of each op."""
    counted: dict[str, int] = {}
    for label, change in rows:
        if (what := LABELS.get(label if label in ("PERSISTING", "FIRST") else change)) is not None:
            counted[what] = counted.get(what, 0) + 1
    return counted


KINDS = "new failure|failing for another reason|less exact|still failing|failing as expected|failing in a new model|"
KINDS += "failing|acknowledged|flaky|fixed"
SAID = re.compile(rf"\b(\d+) ({KINDS})s?\b(?:, (\d+) cause)?")


def by_sentence(lines: str) -> dict[str, tuple[int, int | None]]:
    """The same of a headline and its chips: kind -> ops, and causes where they are told."""
    return {kind: (int(ops), int(causes) if causes else None) for ops, kind, causes in SAID.findall(lines)}


def as_told(wanted: Mapping[str, tuple[int, int]], lines: str) -> tuple[Any, Any]:
    """What a headline and its chips have to tell, and do; causes where they are told of ops that fail."""
    got = by_sentence(lines)
    counted = {kind: got.get(kind, (0, None))[1] is not None and kind != "less exact" for kind in wanted}
    return (
        {kind: (ops, causes if counted[kind] else None) for kind, (ops, causes) in wanted.items()},
        {kind: (ops, causes if counted.get(kind, True) else None) for kind, (ops, causes) in got.items()},
    )


def row_of_message(summary: str) -> list[tuple[int, ...]]:
    """(right, attempted, worse, fixed) of each row of the series in the message of a night."""
    lines = summary[summary.index("| series |") :].partition("\n\n")[0].splitlines()
    heads = lines[0].split(" | ")
    rows = [dict(zip(heads, line.split(" | "), strict=True)) for line in lines[2:]]
    return [
        (*map(int, re.findall(r"\d+", row["ops right"])[:2]), int(row["worse"] or 0), int(row["fixed"] or 0))
        for row in rows
    ]


def grid_of(url: str, now: datetime, until: datetime | None = None) -> Any:
    """The rows of `/night/`; of report.html, which looks at no night after `until`."""

    def answers(query: str, values: Mapping[str, Any]) -> Any:
        return ask(url, re.sub(r":(\w+)", lambda name: f"'{values[name[1]]}'", query)).rows

    return read(answers, now, page_of_range, until=until, most=10_000)


def by_cells(grid: Any) -> dict[str, list[tuple[int, int]]]:
    """Cause -> ops that fail for it on the last date, and of them those that do so anew, in each series."""
    cells = {
        row.cluster: sorted(
            (cell.ops, int((re.search(r"(\d+) anew", cell.label) or [0, 0])[1]))
            for stripe in row.stripes
            for cell in stripe.cells[-1:]
            if cell.state in FAILS
        )
        for row in grid.causes
    }
    return {cause: of for cause, of in cells.items() if of}


def by_causes(of_series: Iterable[pd.DataFrame]) -> dict[str, list[tuple[int, int]]]:
    """The same by what happened to the ops of each series."""
    causes: dict[str, list[tuple[int, int]]] = {}
    for of in of_series:
        for cause, ops in of[of.bad].groupby("cause"):
            anew = ~ops.quiet & ops.what.isin(["new", "another reason"])
            causes.setdefault(str(cause), []).append((len(ops), int(anew.sum())))
    return {cause: sorted(each) for cause, each in causes.items()}


Place = tuple[str, str]
"""A night and one of its series, by its name in `recomputed`."""


def told_otherwise(url: str, tests: pd.DataFrame, folder: Path) -> tuple[list[str], int]:
    """Where a door says another thing of a night than its journals, and how much was compared."""
    acknowledged = frozenset(str(cause) for (cause,) in ask(url, "SELECT cause FROM notes").rows)
    series_of = dict(ask(url, "SELECT night_id || ' ' || backend, series FROM night_series").rows)
    wrong, compared = [], 0
    places = list(
        tests.sort_values("started")[["night", "series"]].drop_duplicates().itertuples(index=False, name=None)
    )
    happened: dict[Place, pd.DataFrame] = {
        place: recomputed.changes(tests, *place, acknowledged).assign(date=date_of(tests, place[0])) for place in places
    }
    nights = recomputed.nights_of_series(tests)
    of_place = dict(tuple(tests.groupby(["night", "series"])))
    for place in places:
        night_id, series = place
        of = of_place[place]
        named = series_of[f"{night_id} {series.split()[0]}"]
        doors = doors_of(url, night_id, named, of, happened[place], folder)
        doors |= doors_of_page(url, tests, place, happened, nights)
        doors |= doors_of_gate(url, tests, place, happened[place], folder)
        compared += len(doors)
        wrong += [
            f"{night_id} {series}, {door}: {want} by the journals, {got} told"
            for door, (want, got) in doors.items()
            if want != got
        ]
    return wrong, compared


def date_of(tests: pd.DataFrame, night_id: str) -> str:
    return str(tests[tests.night == night_id].date.iloc[0])


def doors_of(
    url: str, night_id: str, series: str, of: pd.DataFrame, happened: pd.DataFrame, folder: Path
) -> dict[str, tuple[Any, Any]]:
    """Door -> what it has to say of a night's one series, and what it says; `happened`: what did to its ops."""
    expected, sentence = by_journals(happened), recomputed.told(happened)
    right, bad = expected.get("right", 0), expected.get("bad", 0)
    changed = {name: count for name, count in expected.items() if name not in ("right", "bad")}
    worse = sum(expected.get(name, 0) for name in ("new", "another reason", "less exact"))
    place = f"night_id = '{night_id}' AND series = '{series}'"
    compared = call(diff, night_id, "--db", url)
    brief = Results(url).what_changed(after=night_id)["answer"]
    (plan,) = call(unblock, night_id, "--db", url)["series"]
    with open_database(url) as connection:
        page = render_night(connection, [night_id], folder / "runs", folder / "x.html", Owned())
        results = read_night_of(connection, night_id)
    verdict = verdict_of(results, Delivered(url), POLICY)
    tile = re.search(r"<span>failing</span><strong>([\d,]+)</strong>", page)
    failing = of[of.bad].explode("models").groupby("models").op.nunique()
    models = {model: int(failing.get(model, 0)) for model in frozenset().union(*of[of.bad | of.right].models)}
    said = first_sentence("a night", [result.facts for result in results])
    short = _short(said, verdict, "")
    frame = frames.diff(night_id, url=url)
    doors: dict[str, tuple[Any, Any]] = {
        "SQL: night_diff": (changed, by_rows(ask(url, f"SELECT label, change FROM night_diff WHERE {place}").rows)),
        "SQL: night_ops": (
            (right, bad),
            tuple(map(int, ask(url, f"SELECT SUM(attempted - bad), SUM(bad) FROM night_ops WHERE {place}").rows[0])),
        ),
        "SQL: model_readiness": (
            models,
            dict(ask(url, f"SELECT model, bad_ops FROM model_readiness WHERE outcome = 'ran' AND {place}").rows),
        ),
        "SQL: night_sentences": as_told(
            sentence, "\n".join(ask(url, f"SELECT sentence, chips FROM night_sentences WHERE {place}").rows[0])
        ),
        "assistants": (
            expected.get("new", 0),
            sum(
                cause["ops"]
                for cause in brief["causes"]
                if cause["label"] == "NEW" and not {"known", "flaky", "note"} & cause.keys()
            ),
        ),
        "assistants: sentence": as_told(sentence, brief["sentence"]),
        "opscope diff: sentence": as_told(sentence, compared["sentence"]),
        "opscope unblock": (bad, sum(fix["ops"] for fix in plan["fixes"])),
        "opscope.frames: diff": (worse, int(frame.news.sum())),
        "opscope.frames: night_failures": (
            bad,
            len(frames.view("night_failures", url, night_id=night_id, series=series)),
        ),
        "report.html": (int((happened.bad & ~happened.quiet).sum()), int(tile[1].replace(",", "")) if tile else 0),
        "gate of the night": (worse > 0, any(problem.kind == "regression" for problem in verdict.problems)),
        "message": (
            [(right, right + bad, worse, expected.get("fixed", 0))],
            row_of_message(markdown.text(markdown.Page(said, results, verdict))),
        ),
        "chat": as_told(sentence, "\n".join(short.splitlines()[: str(said).count("\n") + 1])),
        "chat: regression": (worse, sum(map(int, re.findall(r"^regression: (\d+) op", short, re.MULTILINE)))),
    }
    model = max(models, key=lambda name: (models[name], name))
    (ready,) = call(readiness, model, "--run", night_id, "--db", url)["series"]
    doors["opscope readiness"] = models[model], len(ready["missing"])
    for each in compared["series"]:  # none on the first night of a series
        doors["opscope diff"] = changed, by_rows(map(label_and_change, each["rows"]))
    return doors


def doors_of_page(
    url: str,
    tests: pd.DataFrame,
    place: Place,
    happened: Mapping[Place, pd.DataFrame],
    nights: Mapping[str, recomputed.Nights],
) -> dict[str, tuple[Any, Any]]:
    """The rows of `/night/` as they were when a night was the newest: the ops of each cause, and since when."""
    night_id, _ = place
    started = tests[tests.night == night_id].started.iloc[0]
    now = started.astimezone(UTC)
    grid = grid_of(url, now, until=now)
    before = tests[(tests.started <= started) & (tests.date == date_of(tests, night_id))]
    last = before.sort_values("started").drop_duplicates("series", keep="last")
    lasts = [(str(row.night), str(row.series)) for row in last.itertuples()]
    since = {row.cluster: {each for one in row.since for each in ENDS.findall(one.title)} for row in grid.causes}
    want_since: dict[str, set[tuple[str, str]]] = {}
    for each in lasts:
        of = happened[each]
        for cause in of[of.bad].cause.unique():
            without, first = recomputed.began(nights[each[1]], started, cause)
            want_since.setdefault(cause, set()).update([(without, first)] if without else [])
    return {
        "/night/": (by_causes(happened[each] for each in lasts), by_cells(grid)),
        "/night/: since": (
            want_since,
            {cause: since[cause] & want for cause, want in want_since.items() if cause in since},
        ),
    }


NAMES = {
    "mycc n150 ": ["mycc"],
    "lowcc n150 ": ["lowcc"],
    "reference n150 ": ["reference n150"],
    "reference p150 ": ["reference p150"],
}
ENDS = re.compile(r"right on (\S+), failing since (\S+)")


def doors_of_gate(
    url: str, tests: pd.DataFrame, place: Place, happened: pd.DataFrame, folder: Path
) -> dict[str, tuple[Any, Any]]:
    """A gate that ran what a night did, with the complete night before it; none where a night has several runs."""
    night_id, series = place
    of = tests[(tests.series == series) & (tests.started < tests[tests.night == night_id].started.iloc[0])]
    now = tests[(tests.night == night_id) & (tests.series == series)]
    if not len(of) or not of.sort_values("started").complete.iloc[-1] or now.run.nunique() > 1:
        return {}
    with open_database(url) as connection:
        before = night_view(connection, str(of.sort_values("started").night.iloc[-1]), now.key.iloc[0])
    sweep = Sweep(series.split()[0], series.split()[1], "", 0, 1)
    compared = compared_with(before, from_folder(folder / "runs" / now.run.iloc[0]), ())
    gate = _gate_of([SweepComparison(sweep, folder, before, compared, True, "")], before.run_id, folder, folder)
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (worse|fixed)", gate.title)}
    expected = by_journals(happened)
    worse = sum(expected.get(name, 0) for name in ("new", "another reason", "less exact"))
    return {"opscope gate": (told({"worse": worse, "fixed": expected.get("fixed", 0)}), counts)}


def label_and_change(row: Mapping[str, Any]) -> tuple[str, str]:
    """The same of a row of `opscope diff --json` as SQL's."""
    if not row["news"] and row["label"] in NEWS:
        return row["label"], ""
    return row["label"], "known or flaky" if row["label"] == "FIXED" and row["flaky"] else row["label"]


@pytest.mark.slow
def test_every_door_says_what_the_journals_say_of_each_night(nights: tuple[str, pd.DataFrame, Path]) -> None:
    wrong, compared = told_otherwise(*nights)
    assert wrong == [], "\n".join(wrong)
    assert compared >= 80


@pytest.mark.slow
def test_every_door_says_what_the_journals_say_of_odd_nights(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    published_oddly(tmp_path / "runs", url)
    wrong, compared = told_otherwise(url, recomputed.op_tests(tmp_path / "runs"), tmp_path)
    assert wrong == [], "\n".join(wrong)
    assert compared >= 300
    headline, about, chips = call(diff, "--db", url)["sentence"].splitlines()
    assert headline == "1 new failure, 1 cause: start with exponential (1 model)", "the later night of the date counts"
    assert about.startswith(f"2026-11-07, {MARKUP}, newcc, reference n150, since ")
    awaited = f"1 of 4 series stopped: mycc, 1 of 4 series awaited: {MARKUP}"
    assert chips == f"{awaited}, 2 acknowledged: subtract, tanh, 5 flaky"


@pytest.mark.slow
def test_every_door_says_what_the_journals_say_of_each_night_of_the_demo(tmp_path: Path) -> None:
    """Thirty dates of four series, with models that arrive, nights that lack some, steps and what comes and goes."""
    url = fresh(tmp_path / "db.sqlite")
    for each in replay.nights(datetime.now(UTC).replace(hour=2, minute=0, second=0, microsecond=0), 0):
        for run_dir in replay.write_night(tmp_path / "runs", each):
            publish(run_dir, url)
    wrong, compared = told_otherwise(url, recomputed.op_tests(tmp_path / "runs"), tmp_path)
    assert wrong == [], "\n".join(wrong)
    assert compared >= 2300


def test_what_is_said_of_tonight_is_what_the_journals_say(nights: tuple[str, pd.DataFrame, Path]) -> None:
    url, tests, _ = nights
    acknowledged = frozenset(str(cause) for (cause,) in ask(url, "SELECT cause FROM notes").rows)
    tonight = tests[tests.date == tests.date.max()]
    changes = pd.concat(
        recomputed.changes(tests, night_id, series, acknowledged).reset_index()
        for night_id, series in tonight[["night", "series"]].drop_duplicates().itertuples(index=False)
    )
    loud = changes[~changes.quiet]
    new = loud[loud.what == "new"]
    ((sentence, chips, count, causes, fixed),) = ask(
        url, "SELECT sentence, chips, new_failures, causes, fixed_ops FROM dashboard_verdict WHERE one_series = 0"
    ).rows
    assert (count, causes) == (new.op.nunique(), new.cause.nunique())
    assert fixed == changes[(changes.what == "fixed") & ~changes.flaky].op.nunique()
    assert sentence.startswith(
        f"{count} new failure{'s' * (count != 1)}, {causes} cause{'s' * (causes != 1)}: start with "
    )
    assert f"{changes[changes.cause.isin(acknowledged)].op.nunique()} acknowledged: subtract" in chips
    for said in (call(diff, "--db", url)["sentence"], Results(url).what_changed()["answer"]["sentence"]):
        assert said.splitlines()[0] == sentence
    with open_database(url) as connection:
        page = render_night(
            connection, nights_named(connection, tests.date.max()), Path("runs"), Path("x.html"), Owned()
        )
    failing = changes[changes.bad & ~changes.quiet].op.nunique()
    assert f"<span>failing</span><strong>{failing}</strong>" in page, "an op that fails in two series is one"
    now = datetime.fromisoformat(tests.date.max()).replace(hour=9, tzinfo=UTC)
    grid = grid_of(url, now)
    last = {
        name.cluster: max(
            cell.ops for stripe in name.stripes for cell in stripe.cells[-1:] if cell.state in FAILS or not cell.ops
        )
        for name in grid.causes
    }
    by_cause = changes[changes.bad].groupby(["cause", "series"]).op.nunique().groupby("cause").max()
    assert {cause: ops for cause, ops in last.items() if ops} == by_cause.to_dict()


def test_since_when_and_stored_questions_are_what_the_journals_say(nights: tuple[str, pd.DataFrame, Path]) -> None:
    url, tests, _ = nights
    for series, of in tests.groupby("series"):
        key = of.key.iloc[0]
        newest = of[of.started == of.started.max()]
        for op in newest[newest.bad].op:
            since = [each for each in Results(url).look_up(op)["answer"]["since"] if each["on"] in NAMES[str(series)]]
            assert [each["night"][:10] for each in since] == [recomputed.wrong_since(tests, str(series), op)], (
                series,
                op,
            )
        complete = of[of.complete]
        bad = complete[(complete.started == complete.started.max()) & complete.bad]
        day = complete.date.max()
        for question, columns, want in (
            ("failing_ops", "cause, op_id", set(zip(bad.cause, bad.op, strict=True))),
            ("top_errors", "cluster, ops", set(bad.groupby("cause").op.nunique().items())),
        ):
            answer = [row for row in ask(url, question).records() if row["series"] == key]
            assert {tuple(row[name] for name in columns.split(", ")) for row in answer} == want, (question, series)
            assert {row["day"] for row in answer} <= {day}


def test_a_pasted_line_changes_no_night(nights: tuple[str, pd.DataFrame, Path]) -> None:
    url, *_ = nights
    assert ask(url, "SELECT kind FROM nights WHERE night_id = 'night90'").rows == (("selection",),)
    rows = ask(
        url,
        f"SELECT status FROM night_ops WHERE op_id = '{op_id('subtract')}' AND backend = 'mycc' AND kind = 'night' "
        "ORDER BY started DESC",
    ).rows
    assert rows[0] == ("wrong_result",)

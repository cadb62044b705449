"""Night by cause from a database and from one run, against what was published."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from opscope.base.night_grid.commit_pages import page_of_commit, page_of_range
from opscope.base.night_grid.grid import FAILING, KNOWN, NEW, NO_NIGHT, RIGHT, Grid, read
from opscope.harness.record.origin import SOURCE
from opscope.harness.record.store import load_run
from opscope.reports.compare.first_sentence import first_sentence, not_tonight, of_night
from opscope.reports.compare.op_history import cause as details_of_cause
from opscope.reports.compare.owned import Owned
from opscope.reports.database.ask import ask
from opscope.reports.database.database import SETTINGS, open_database
from opscope.reports.database.owners import Rule, store_owners
from opscope.reports.database.schema import NIGHTS
from opscope.reports.pages import night_causes
from opscope.reports.pages.html import render
from opscope.reports.pages.night_page import render_night
from opscope.reports.pages.sections import sections
from opscope.reports.publish.counting import open_counted
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh, publish_night, record, shard_run
from opscope.reports.tests.nights import START, Op

LOG = "artifacts/x/e txt"
RIGHT_OPS = {"add": Op(uses={"a": 2, "b": 1}), "exp": Op(uses={"b": 1})}
BROKEN = RIGHT_OPS | {"add": Op("compile_failed", {"a": 2, "b": 1}, error="no <add>", more={"artifact": LOG})}
WORSE = BROKEN | {
    "sort": Op("compile_failed", {"b": 3}, error="no sort"),
    "known": Op("compile_failed", {"c": 1}, error="known", more={"expected": "notyet: known"}),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """n150 fails from the second night on; the third is weeks later, when p150 begins, and one more cause is new."""
    folder = tmp_path_factory.mktemp("causes")
    url = fresh(folder / "db.sqlite")
    with open_database(url) as connection:
        store_owners(connection, [Rule("maths", op="stablehlo.add"), Rule("others")])
    publish_night(url, folder / "1", 1, RIGHT_OPS)
    publish_night(url, folder / "2", 2, BROKEN)
    night = record(20, models=("a", "b", "c"), archs=("n150", "p150"))
    publish(shard_run(folder / "3", night, 20, WORSE), url)
    run_dir = shard_run(folder / "4", night, 21, RIGHT_OPS | {"sort": Op(uses={"c": 1})}, arch="p150")
    publish(run_dir, url)
    return url


def grid(url: str, **more: Any) -> Grid:
    with open_database(url) as connection:

        def rows(query: str, values: Mapping[str, Any]) -> Any:
            return connection.execute(sa.text(query), values).all()

        return read(rows, more.pop("now", START.replace(day=21)), page_of_range, **more)


def states(one: Grid) -> dict[str, dict[str, list[str]]]:
    """Op -> series -> the states of its last cells."""
    return {
        cause.names: {stripe.name: [cell.state for cell in stripe.cells[-2:]] for stripe in cause.stripes}
        for cause in one.causes
    }


def test_the_rows_of_a_database(url: str) -> None:
    one = grid(url)
    assert states(one) == {
        "sort": {"n150": [NO_NIGHT, NEW]},
        "add": {"n150": [NO_NIGHT, FAILING]},
        "known": {"n150": [NO_NIGHT, KNOWN]},
    }
    sort, add, known = one.causes
    assert [(cause.detail.models, cause.detail.alone) for cause in (sort, add)] == [
        (("b",), ()),
        (("a", "b"), ("a",)),
    ]
    assert (known.detail.alone, known.detail.expected, add.detail.expected) == (("c",), True, False)
    assert (sort.detail.owner, add.detail.owner) == ("others", "maths")
    assert (add.detail.log, add.detail.uses, add.detail.message) == (f"night20/{LOG}", 3, "no <add>")
    assert add.detail.repro
    # The last night without it is older than the dates that are shown.
    assert [since.text for cause in (sort, add) for since in cause.since] == [
        "11-21, 02020202..20202020",
        "11-03, 01010101..02020202",
    ]
    assert (one.label, one.demo) == ("2026-11-21 02:00 UTC", False)
    assert "1 new failure" in one.sentence


GITHUB, GITLAB = "https://github.com/ada/models", "https://gitlab.com/ada/compiler"
UNKNOWN, SCRIPT = "https://git.example.org/x", "javascript://github.com/%0aalert(1)"
OF_COMPILER = {"compilers": {"reference": {"revision": "c" * 40, "url": GITLAB}}}


@pytest.mark.parametrize("page", [UNKNOWN, SCRIPT, "https://[github.com", "github.com/ada/models", ""])
def test_only_addresses_of_known_servers_have_a_page(page: str) -> None:
    assert page_of_range(GITHUB, "a", "b") == f"{GITHUB}/compare/a...b"
    assert page_of_range(page, "a", "b") == page_of_commit(page, "a") == ""


@pytest.mark.parametrize(
    ("sources", "link"),
    [
        # quick: the three below, and test_commit_range.py, which has the words of each
        pytest.param(({}, {}), "", id="no remote", marks=pytest.mark.slow),
        pytest.param(({"url": GITHUB}, {"url": GITHUB}), f"{GITHUB}/compare/010101010101...020202020202", id="GitHub"),
        pytest.param(
            ({}, {"url": GITHUB}),
            f"{GITHUB}/compare/010101010101...020202020202",
            id="known of one night",
            marks=pytest.mark.slow,
        ),
        pytest.param(({"url": GITHUB}, {"url": GITLAB}), "", id="the repository has moved"),
        pytest.param(
            ({"url": GITHUB}, {"url": GITHUB, **OF_COMPILER}),
            "",
            id="the second is of the compiler's own repository",
            marks=pytest.mark.slow,
        ),
        # quick: test_only_addresses_of_known_servers_have_a_page, and "damaged" below
        pytest.param(({"url": UNKNOWN},) * 2, "", id="an unknown server", marks=pytest.mark.slow),
        pytest.param(({"url": SCRIPT},) * 2, "", id="no address", marks=pytest.mark.slow),
        pytest.param(({"url": "https://[github.com"}, {"url": 7, "compilers": 7}), "", id="damaged"),
    ],
)
def test_since_leads_to_the_commits(tmp_path: Path, sources: tuple[dict[str, Any], ...], link: str) -> None:
    url, run_dirs = fresh(tmp_path / "db.sqlite"), []
    for number, (ops, source) in enumerate(zip((RIGHT_OPS, BROKEN), sources, strict=True), 1):
        origin = {"options": {"dtype": "float32", "seed": 0, SOURCE: source}}
        run_dirs.append(shard_run(tmp_path / "runs", record(number), number, ops, origin=origin))
        publish(run_dirs[-1], url)
    (cause,) = grid(url, now=START.replace(day=3)).causes
    assert [since.url for since in cause.since] == [link]
    assert cause.since[0].text.startswith("11-03, 01010101..")
    # The report of the night has the same row, that of its run compares with the night before.
    with open_database(url) as connection:
        of_night = render_night(connection, [record(2).night_id], tmp_path, tmp_path / "x.html", Owned())
    for text in (of_night, render(load_run(run_dirs[1]), url)):
        (facts,) = re.findall(r'<p class="ng-facts">.*?</p>', text, re.DOTALL)
        assert ("/compare/0101" in facts, "href" in facts) == (bool(link), bool(link))


def test_of_one_team_and_days_later(url: str) -> None:
    assert list(states(grid(url, owner="maths"))) == ["add"]
    assert states(grid(url, now=START.replace(day=23)))["add"] == {"n150": [NO_NIGHT] * 2}


def test_an_earlier_night_knows_nothing_of_later_ones(url: str, tmp_path: Path) -> None:
    with open_database(url) as connection:
        nights = connection.execute(sa.select(NIGHTS).order_by(NIGHTS.c.started)).mappings().all()
        of = [night_causes.of_night(connection, each, tmp_path, tmp_path / "x.html", Owned()) for each in nights]
    assert [one.dates[-1] for one in of] == ["2026-11-02", "2026-11-03", "2026-11-21"]
    assert [[cause.names for cause in one.causes] for one in of] == [[], ["add"], ["sort", "add", "known"]]


def test_the_rows_of_one_run(url: str, tmp_path: Path) -> None:
    """A column of its own; what is new in it, where there is a run before it."""
    run_dir = shard_run(tmp_path, record(22), 22, WORSE)
    alone, compared = (sections(load_run(run_dir), database, Owned())["night"] for database in (None, url))
    assert states(alone) == {"add": {"n150": [FAILING]}, "sort": {"n150": [FAILING]}, "known": {"n150": [KNOWN]}}
    assert all(not cause.since for cause in alone.causes)
    assert {cause.names: cause.detail.alone for cause in alone.causes} == {"add": ("a",), "sort": (), "known": ("c",)}
    assert {since.text for cause in compared.causes for since in cause.since} == {"before 2026-11-21"}
    own = sections(load_run(run_dir), None, Owned([Rule("maths", op="stablehlo.add"), Rule("others")], "maths"))
    assert [(cause.names, cause.detail.owner) for cause in own["night"].causes] == [("add", "maths")]
    text = render(load_run(run_dir))
    assert text.index('class="ng"') < text.index('class="tiles"')
    assert 'href="artifacts/x/e%20txt"' in text
    assert "<b>add</b> no &lt;add&gt;" in text


@pytest.mark.parametrize("kind", ["never", "notyet"])
def test_what_a_limitation_names_is_known_and_not_fixed(tmp_path: Path, kind: str) -> None:
    """Broken, then named by a limitation and broken as before: on the page of nights, of the run, and by `show`."""
    url = fresh(tmp_path / "db.sqlite")
    named = Op("compile_failed", {"a": 2, "b": 1}, error="no <add>", more={"expected": f"{kind}: no add"})
    for number, op in enumerate((RIGHT_OPS["add"], BROKEN["add"], named), 1):
        run_dir = shard_run(tmp_path / "runs", record(number), number, RIGHT_OPS | {"add": op})
        publish(run_dir, url)
    of_run = sections(load_run(run_dir), url, Owned())["night"]
    (cause,) = grid(url, now=START.replace(day=4)).causes
    assert [(cell.state, cell.text) for cell in cause.stripes[0].cells[-3:]] == [
        (RIGHT, "✓"),
        (NEW, "1"),
        (KNOWN, "(1)"),
    ]
    assert states(of_run) == {"add": {"n150": [KNOWN]}}
    for each in (cause, of_run.causes[0]):
        # No fix of a compiler makes a model whole that has an op which fails for good.
        assert (each.fixed, each.detail.expected, each.detail.alone) == (
            "",
            True,
            () if kind == "never" else ("a", "b"),
        )
        assert each.since
    with open_database(url) as connection:
        shown = details_of_cause(connection, cause.cluster, [], None)
        offered = connection.execute(sa.text("SELECT night_id FROM night_clusters")).all()
    assert ([len(lane["failing"]) for lane in shown["lanes"]], shown["before"]) == ([1], [])
    assert len(offered) == (1 if kind == "never" else 2)
    # A database of the rules before is counted anew by the next that writes to it.
    with open_database(url) as connection:
        connection.execute(sa.text("DELETE FROM night_fixes WHERE position < 0"))
        connection.execute(sa.update(SETTINGS).where(SETTINGS.c.name == "counted_by").values(value="2"))
    with open_counted(url):
        pass
    assert [cell.state for cell in grid(url, now=START.replace(day=4)).causes[0].stripes[0].cells[-2:]] == [NEW, KNOWN]


def test_a_series_that_is_awaited_comes_before_one_that_has_stopped(tmp_path: Path) -> None:
    """What fails in it fails still, as the headline says; of one that has stopped nobody knows, however many models."""
    url = fresh(tmp_path / "db.sqlite")
    sort = {"sort": Op("compile_failed", {"a": 1}, error="no sort")}
    for number, arch, ops in (
        (1, "e150", {"fft": Op("compile_failed", {"a": 9, "b": 9}, error="no fft")}),
        (3, "p150", RIGHT_OPS),
        (4, "p150", RIGHT_OPS | sort),
        (5, "n150", RIGHT_OPS),
    ):
        publish(shard_run(tmp_path / "runs", record(number, archs=(arch,), name=arch), number, ops, arch=arch), url)
    of = "SELECT arch FROM night_series s JOIN night_dates d USING (night_id, series) WHERE newest = 1 AND"
    assert ask(url, f"{of} stopped = 1").rows == (("e150",),)
    assert ask(url, f"{of} tonight = 0 AND stopped = 0").rows == (("p150",),)
    with open_database(url) as connection:
        newest = connection.execute(sa.select(NIGHTS).order_by(NIGHTS.c.started.desc())).mappings().first()
        assert newest is not None
        of_report = night_causes.of_night(connection, newest, tmp_path, tmp_path / "x.html", Owned())
    for rows in (grid(url, now=START.replace(day=6)), of_report):
        assert [cause.names for cause in rows.causes] == ["sort", "fft"]
        assert [[bool(since.last) for since in cause.since] for cause in rows.causes] == [[False], [True]]
    assert grid(url, now=START.replace(day=6)).sentence.startswith("1 of 3 series stopped: ")
    assert says_still_failing(url) == "sort"


def says_still_failing(url: str) -> str:
    """The op that the headline begins with, where what has stopped is left out of it."""
    with open_database(url) as connection:
        (night_id,) = connection.execute(sa.text("SELECT night_id FROM night_dates WHERE tonight = 1")).one()
        (series,) = connection.execute(sa.text("SELECT series FROM night_dates WHERE tonight = 1")).one()
        facts = [of_night(connection, night_id, series)]
        facts += [each for each in not_tonight(connection, facts) if not each.stopped]
    return re.findall(r"start with (\S+)", first_sentence("", facts).headline)[0]


def test_without_a_night_there_are_no_rows(tmp_path: Path) -> None:
    assert grid(fresh(tmp_path / "db.sqlite")) == Grid()

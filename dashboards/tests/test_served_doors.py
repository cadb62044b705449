"""The page of the night as it is served, against what pandas makes of the journals, for nights of every kind."""

from __future__ import annotations

import html
import re
import urllib.request
from collections.abc import Iterator

import pytest

from opscope.dashboards.tests.conftest import served
from opscope.dashboards.tests.installation import Installation
from opscope.reports.database.ask import ask
from opscope.reports.tests import recomputed
from opscope.reports.tests.test_doors_agree import published

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]

CAUSE = re.compile(r'<article class="ng-cause"[^>]*data-cause="(\w+)">(.*?)</article>', re.DOTALL)
STRIPE = re.compile(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', re.DOTALL)
CELL = re.compile(r'aria-label="[^",]+, (\d{4}-\d\d-\d\d): (\d+) ops? fails?')


@pytest.fixture(scope="module")
def installation(pytestconfig: pytest.Config) -> Iterator[Installation]:
    with served(pytestconfig, published) as one:
        yield one


def test_each_cell_and_the_sentence_are_what_the_journals_say(installation: Installation) -> None:
    with urllib.request.urlopen(f"{installation.up('--anonymous')}/night/") as answer:
        page = html.unescape(answer.read().decode())
    tests = recomputed.op_tests(installation.folder / "runs")
    bad = tests[tests.bad].groupby(["cause", "date", "series"]).op.nunique()
    expected = {(cause, date): sorted(of.tolist()) for (cause, date), of in bad.groupby(level=["cause", "date"])}
    got: dict[tuple[str, str], list[int]] = {}
    for cause, row in CAUSE.findall(page):
        for _, cells in STRIPE.findall(row):
            for date, ops in CELL.findall(cells):
                got[cause, date] = sorted([*got.get((cause, date), []), int(ops)])
    assert got == expected
    ((sentence,),) = ask(
        f"sqlite:///{installation.database}", "SELECT sentence FROM dashboard_verdict WHERE one_series = 0"
    ).rows
    assert f"<h1>{sentence}</h1>" in page

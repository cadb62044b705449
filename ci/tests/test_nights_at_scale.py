"""A database of many nights, made by copying two: it says of each night what publishing would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
OPSCOPE = Path(sys.executable).parent / "opscope"

pytestmark = pytest.mark.slow


def test_four_nights_of_5000_op_tests(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/nights.sqlite"

    def output(*words: str) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=os.environ, text=True, stdout=subprocess.PIPE, check=True)
        return done.stdout

    def rows(query: str) -> list[dict]:
        return json.loads(output(str(OPSCOPE), "sql", query, "--db", url, "--json"))

    fill = [sys.executable, str(ROOT / "ci" / "nights_at_scale.py"), url, "--nights", "4", "--op-tests", "5000"]
    assert output(*fill) == output(*fill) == "20,000 op tests of 4 nights\n"
    nights = rows("SELECT night_id, previous_night, started FROM night_series ORDER BY started DESC")
    assert [row["previous_night"] for row in nights] == [row["night_id"] for row in nights[1:]] + [""]
    wrong = rows(
        "SELECT t.night_id FROM (SELECT night_id, COUNT(*) AS ops FROM op_tests GROUP BY night_id) t "
        "JOIN (SELECT night_id, SUM(ops) AS ops FROM night_statuses GROUP BY night_id) c ON c.night_id = t.night_id "
        "WHERE c.ops <> t.ops"
    )
    assert wrong == []
    counted = {
        row["label"]: row["n"]
        for row in rows(
            f"SELECT label, COUNT(*) AS n FROM night_diff WHERE night_id = '{nights[0]['night_id']}' GROUP BY label"
        )
    }
    for pair in ((nights[1], nights[0]), (nights[3], nights[2])):
        names = [row["night_id"] for row in pair]
        counts = json.loads(output(str(OPSCOPE), "diff", *names, "--db", url, "--json"))["series"][0]["counts"]
        assert {label: counts.get(label) for label in counted} == counted
    assert counted["FIXED"]
    assert counted["PERSISTING"]

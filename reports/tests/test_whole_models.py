"""Models as one program in the database: one row each, also of runs that ran them before their ops."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from opscope.harness.record.records import WHOLE_MODEL, Jump
from opscope.harness.record.stages import Stage, Status
from opscope.harness.record.store import WHOLE_FILE, load_run
from opscope.reports.commands.report import report
from opscope.reports.database.database import open_database
from opscope.reports.database.rows import series_text
from opscope.reports.database.whole_models import WHOLE_MODELS
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh, record, shard_run
from opscope.reports.tests.nights import Op
from opscope.reports.tests.sample_run import make_run


def test_a_model_is_a_row_with_where_its_error_jumps(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    jump = Jump(
        path="main/7",
        op_id="0" * 16,
        op_name="stablehlo.tanh",
        location="net (a.py:3)",
        pcc=0.8,
        error=0.6,
        pcc_before=0.999,
        error_before=0.01,
    )
    (_, dot, *_) = load_run(run_dir).tests
    whole = dot.model_copy(update={"op_name": WHOLE_MODEL, "op_id": "f" * 16, "jump": jump, "intermediates": 9})
    (run_dir / WHOLE_FILE).write_text(f"{whole.model_dump_json()}\n{{torn")
    url = fresh(tmp_path / "db.sqlite")
    publish(run_dir, url)
    publish(run_dir, url)
    with open_database(url) as connection:
        row = connection.execute(sa.select(WHOLE_MODELS)).mappings().one()
    assert (row["model"], row["backend"], row["status"], row["stage_reached"]) == (
        "demo",
        "reference",
        "success",
        "compare",
    )
    assert (row["pcc"], row["relative_l2"], row["intermediates"], row["cycles"]) == (0.9991, 0.01, 9, 120_000)
    assert (row["jump_path"], row["jump_op_name"], row["jump_location"]) == ("main/7", "stablehlo.tanh", "net (a.py:3)")
    assert (row["jump_pcc_before"], row["jump_pcc"], row["jump_confirmed"]) == (0.999, 0.8, True)


def _page(*words: str) -> list[list[str]]:
    """The table of models as one program on the page, as the texts of its cells."""
    done = CliRunner().invoke(report, [*words, "-o", "page.html"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    _, result, section = Path("page.html").read_text().partition("Models as one program")
    rows = re.findall(r"<tr><td[^>]*>(.*?)</tr>", section.partition("</table>")[0], re.DOTALL)
    return (
        [[" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in re.split("<td[^>]*>", row)] for row in rows]
        if result
        else []
    )


def test_a_night_shows_its_models_as_one_program_with_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = fresh(tmp_path / "db.sqlite")
    (_, dot, *_) = load_run(make_run(tmp_path / "of")).tests
    whole = dot.model_copy(update={"op_name": WHOLE_MODEL, "op_id": "f" * 16, "backend": "reference"})
    broken = whole.model_copy(
        update={
            "status": Status.RUN_FAILED,
            "success": False,
            "failed_stage": Stage.RUN,
            "error_message": "no <b>kernel</b>",
            "error_signature": "abc",
            "pcc": None,
            "results": (),
        }
    )
    idle = whole.model_copy(update={"status": Status.SKIPPED, "pcc": None, "results": ()})
    night = record(1, shards=2)
    ops = {"add": Op(uses={"a": 1, "b": 1})}
    models_of_shards = ({"a": whole, "b": idle}, {"a": idle, "b": broken})  # each shard one model
    for shard, models in enumerate(models_of_shards, 1):
        run_dir = shard_run(tmp_path, night, shard, ops, shard)
        with (run_dir / WHOLE_FILE).open("w") as lines:
            for name, one in models.items():
                test = one.model_copy(update={"models": (name,), "model_name": name})
                lines.write(f"{test.model_dump_json()}\n")
        publish(run_dir, url)
    Path("owners.yaml").write_text("owners: [{team: kernels, stage: run, model: b}, {team: rest}]")
    owners = ("--owners", "owners.yaml")
    good, bad = _page("--db", url, *owners)
    assert good[0].split() == ["a", "reference"]
    assert ("success" in good[1], "0.9991000" in good[2], "0.01" in good[3], "owner" in good[1]) == (
        True,
        True,
        True,
        False,
    )
    assert bad[0].split() == ["b", "reference"]
    assert bad[1].endswith("run failed no &lt;b&gt;kernel&lt;/b&gt;; owner kernels")
    for page in (("--db", url), (str(run_dir), "--db", url)):
        assert [row[1:2] for row in _page(*page, *owners, "--owner", "kernels")] == [bad[1:2]]
        assert _page(*page, *owners, "--owner", "rest") == []


def test_runs_of_different_workflows_are_not_compared() -> None:
    plain, split, full = ({}, {"workflow": "split"}, {"workflow": "full"})
    assert series_text("reference", "n150", plain) == series_text("reference", "n150", split)
    assert series_text("reference", "n150", full) != series_text("reference", "n150", split)
    at_level = {name: {**plain, "optimization_level": name} for name in (0, 2)}
    assert series_text("reference", "n150", at_level[0]) == series_text("reference", "n150", plain)
    assert series_text("reference", "n150", at_level[2]) != series_text("reference", "n150", plain)


def test_a_series_names_a_file_by_its_name_and_digest_wherever_it_lies() -> None:
    one, same, other = (
        series_text("tt", "n150", {"seed": 0, "system_desc": value})
        for value in (
            "/here/mine.ttsys@0123456789abcdef",
            "/there/mine.ttsys@0123456789abcdef",
            "/here/mine.ttsys@fedcba9876543210",
        )
    )
    assert one == same == "tt n150 0 system_desc=mine.ttsys@0123456789abcdef"
    assert one != other

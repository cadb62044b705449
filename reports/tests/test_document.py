"""One document of a comparison and of a ranking, by each of its renderers: the same causes with the same numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from opscope.base.document import as_markdown
from opscope.base.document.in_terminal import FEW, show
from opscope.base.document.nodes import NAMES, Cause, Causes, Column, Listed, Node, Op, Outcome, Table
from opscope.base.page import Page
from opscope.reports.commands.compare import readiness
from opscope.reports.compare import to_fix
from opscope.reports.compare.changed_causes import document, sections_of
from opscope.reports.compare.diff import compare
from opscope.reports.compare.outcomes import from_folder
from opscope.reports.compare.readiness import views_of
from opscope.reports.compare.unblock import plan
from opscope.reports.pages.html import PAGE, write_report
from opscope.reports.publish.publish import publish
from opscope.reports.tests import nights
from opscope.reports.tests.night_runs import fresh

OPS = ("exp", "log", "add", "tanh", "sine")
EARLY = {name: nights.Op(uses={"a": 2}) for name in OPS}
LATE = {name: nights.Op("compile_failed", uses={"a": 2}, error="expected <4> tiles, got 5 | of `them`") for name in OPS}


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_each_medium_has_the_same_causes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = fresh(tmp_path / "db.sqlite")
    publish(nights.night(tmp_path, 1, EARLY), url)
    late = nights.night(tmp_path, 2, LATE)
    diff = compare(from_folder(tmp_path / "night01"), from_folder(late))
    [new] = sections_of(diff)
    [cause] = new.causes
    assert (new.heading, cause.count, cause.uses, cause.models) == ("NEW (5)", 5, 10, ["a"])
    brief = cause.brief()
    assert (brief["ops"], brief["cause"], brief["error"]) == (5, cause.cause, cause.error)

    show(document(diff, 30), Page())
    terminal = " ".join(capsys.readouterr().out.split())
    assert f"NEW (5) cause {cause.cause[:8]}, 5 ops, 10 uses: success -> compile_failed at" in terminal
    assert f"and {5 - FEW} more: --cause {cause.cause[:8]}" in terminal
    page = words(write_report(late, url).read_text(encoding="utf-8").partition('id="data"')[0])
    assert f"NEW (5) cause what happened ops models uses NEW cause {cause.cause[:8]} {cause.what.split(' ')[0]}" in page
    assert "5 ops : " in page
    assert "expected &lt;4&gt; tiles, got 5 | of `them`" in page


def test_ops_of_which_the_same_is_said_are_one_whatever_their_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those without an error too: five that a later run does not have, and two that vanished from a model."""
    url = fresh(tmp_path / "db.sqlite")
    kept = {"dot": nights.Op(uses={"b": 1})}
    gone = {name: nights.Op(uses={"b": 1}) for name in ("max", "min")}
    publish(nights.night(tmp_path, 1, LATE | gone | kept), url)
    publish(nights.night(tmp_path, 2, EARLY | kept), url)
    last = nights.night(tmp_path, 3, kept)
    folders = [from_folder(tmp_path / f"night0{number}") for number in (1, 2, 3)]
    fixed, vanished = sections_of(compare(*folders[:2]))
    [never] = sections_of(compare(*folders[1:]))
    said = "success -> absent; its models are not in the later run"
    for section, heading, cause in (
        (fixed, "FIXED (5)", f"cause {fixed.causes[0].cause[:8]}, 5 ops, 10 uses: compile_failed -> success"),
        (vanished, "VANISHED (2)", "2 ops, 2 uses: success -> absent"),
        (never, "NEVER-RUN (5)", f"5 ops, 10 uses: {said}"),
    ):
        assert len(section.causes) == 1
        show([section], Page())
        assert f"{heading} {cause}" in " ".join(capsys.readouterr().out.split())
    show([never], Page())
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line]
    assert lines.count("2 uses in a") == FEW
    assert lines[-1] == f"and {5 - FEW} more; see --json"
    assert said.replace("->", "→") in words(write_report(last, url).read_text(encoding="utf-8"))
    assert of_page(never).count(said.replace("->", "→")) == 1


def test_a_ranking_is_one_table_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranked = plan(views_of(from_folder(nights.night(tmp_path, 1, LATE))))
    table = to_fix.ranking(ranked, 30)
    heads = [column.head for column in table.filled.columns]
    assert "owner" not in heads, "nobody owns anything here"
    show([table], Page())
    lines = capsys.readouterr().out.splitlines()
    assert all(head in " ".join(lines) for head in heads)
    text = as_markdown.rendered(table)
    assert text.splitlines()[:3] == [f"**{table.title}**", "", f"| {' | '.join(heads)} |"]
    [row] = table.rows
    assert f"`{row[0]}`" in text
    assert r"got 5 \| of \`them\`" in text


def test_names_are_cut_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table([Column("names", "names"), Column("none", fillable=True)], [([*"abcde"], "")], "Title", 7, "--json")
    show([table], Page())
    printed = " ".join(capsys.readouterr().out.split())
    assert ", ".join("abcde"[:NAMES]) + " …" in printed
    assert "and 7 more; see --json" in printed
    assert "none" not in printed
    assert (
        as_markdown.rendered(table)
        == "**Title**\n\n| names |\n| --- |\n| `a`, `b`, `c` … |\n\nand 7 more; see `--json`"
    )


def test_what_readiness_has_no_room_for_is_counted(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    errors = ("no kernel", "no layout", "out of memory", "not a tile", "no such type")
    late = {op: nights.Op("compile_failed", uses={"a": 2}, error=error) for op, error in zip(OPS, errors, strict=True)}
    publish(nights.night(tmp_path, 1, late), url)
    lines = CliRunner().invoke(readiness, ["a", "--db", url, "--limit", "2"]).output.splitlines()
    assert lines[1] == "5 unique ops = 0 right + 5 missing + 0 not attempted"
    assert "Ops that are not right (5)" in lines
    assert "  and 3 more; see --limit, --json" in lines


OP = Op("0" * 16, "stablehlo.add", "(4xf32)", 3, "from net.py:7", "no <kernel>", script="repro/run.sh")
ENDED = [Outcome("run_failed", "xla", "at run: no <kernel>"), Outcome("success", "mine")]
COLUMNS = [Column("op", "op"), Column("outcomes", "outcomes"), Column("more", "lines")]
TABLE = Table(COLUMNS, [(OP, ENDED, ["a", "b"])], "T")
LISTED = Listed("Slow", [("9 ms", "add"), ("10 ms", "exp")], count=7, left_out=5)


def of_page(node: Node) -> str:
    environment = Environment(loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined)
    source = '{% from "document.html.j2" import document %}{{ document([node], 9, 9) }}'
    return words(environment.from_string(source).render(node=node))


def test_ops_and_how_they_ended_are_cells_of_every_medium(capsys: pytest.CaptureFixture[str]) -> None:
    show([TABLE], Page())
    printed = " ".join(capsys.readouterr().out.split())
    assert f"stablehlo.add [{OP.op_id}] (4xf32) xla run_failed at run: no <kernel>; mine success a; b" in printed
    row = as_markdown.rendered(TABLE).splitlines()[-1].split(" | ")
    ended = "xla run_failed at run: no &lt;kernel&gt;<br>mine success"
    assert row == [f"| `stablehlo.add` `{OP.op_id}`", ended, "a<br>b |"]
    said = f"stablehlo.add {OP.op_id} (4xf32) xla run failed at run: no &lt;kernel&gt; mine success a b"
    assert said in of_page(TABLE)


@pytest.mark.parametrize("brief", [False, True])
def test_what_a_list_of_causes_leaves_out_is_counted(capsys: pytest.CaptureFixture[str], *, brief: bool) -> None:
    cause = Cause("c" * 12, "run_failed at run", "no kernel", "run", "", "", "", ops=(OP,), count=3, uses=9)
    show([Causes("Failing ops", [cause] * 4, "bad", ["4 causes"], 5, "the report")], Page(), 2, brief=brief)
    lines = capsys.readouterr().out.split("\n")
    assert lines[1] == "Failing ops (17, 4 causes)"
    assert lines.count("  cause cccccccc, 3 ops, 9 uses: run_failed at run: no kernel") == 2
    assert f"  and {'2 more causes, of 11 ops' if brief else '15 more'}; see the report" in lines
    assert ("      repro/run.sh" in lines) is not brief


def test_of_many_models_of_a_cause_some_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    many = Cause("", "gone", "", "", "", "", "", ops=(OP,) * 4, count=4, models=[*"abcde"], names="stablehlo.add (4)")
    show([Causes("NEVER-RUN", [many])], Page())
    assert "    stablehlo.add (4) in a, b, c and 2 more\n" in capsys.readouterr().out


@pytest.mark.parametrize("brief", [False, True])
def test_a_list_has_its_number_and_in_brief_one_line(capsys: pytest.CaptureFixture[str], *, brief: bool) -> None:
    show([LISTED], Page(), brief=brief)
    rows = "\nSlow (7)\n   9 ms  add\n  10 ms  exp\n  and 5 more\n"
    assert capsys.readouterr().out == ("Slow (7), such as 9 ms add\n" if brief else rows)
    assert of_page(LISTED) == "Slow (7) 9 ms add 10 ms exp and 5 more"
    assert as_markdown.rendered(LISTED) == "**Slow (7)**\n- 9 ms add\n- 10 ms exp\n- and 5 more"

"""The summary is markdown whose words are the records': read back by a real parser, nothing of theirs is markup."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from opscope.base.document import as_markdown
from opscope.base.document.nodes import Column, Table
from opscope.base.visible_text import one_line
from opscope.reports.compare.diff import compare
from opscope.reports.nightly import markdown
from opscope.reports.nightly.findings import SeriesResult
from opscope.reports.nightly.night import NightResult
from opscope.reports.nightly.verdict import Verdict
from opscope.reports.tests.nightly.nights_here import config_of, delivered
from opscope.reports.tests.nights import Op
from opscope.reports.tests.test_diff_rows import op, run

NASTY = (
    "<script>alert(1)</script>",
    "'; DROP TABLE runs; --",
    "a | b || c",
    "`code` ``more``",
    "*bold* _it_ ~~gone~~ [x](javascript:alert(1)) ![i](http://x/y.png)",
    "&lt;b&gt; @team #12 $x$ https://evil.example",
    "line\nbreak\r\x1b[31mred\x07",
    "# heading",
    "- item",
    "1. item",
    "> quote",
    "<!-- opscope gate --> <details open>",
    "a\\\\| &commat;team &#64;team",
    "gnp\u202e.exe \u200b@team",
)


def rendered(text: str) -> str:
    return MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(text)


def test_what_a_night_had_not_is_none(tmp_path: Path) -> None:
    """An option that only one of two nights has."""
    config, ops = config_of(tmp_path), {"add": Op(uses={"a": 1})}
    options: dict[str, object] = {"dtype": "float32", "seed": 0}
    for number, more in enumerate(({}, {"limitations": "ci/lim.yaml"}, {}), 1):
        result = delivered(config, tmp_path, number, ops, origin={"options": {**options, **more}})
        if number > 1:
            sides = ("none", "ci/lim.yaml") if more else ("ci/lim.yaml", "none")
            assert f"option limitations: {' → '.join(sides)}" in result.summary


@pytest.mark.parametrize("words", NASTY)
def test_a_text_of_somebody_else_reads_as_it_was_and_does_nothing(words: str) -> None:
    page = rendered(as_markdown.rendered(Table([Column("as text"), Column("as code", "code")], [(words, words)])))
    cells = re.findall(r"<td>(.*?)</td>", page, re.DOTALL)
    assert len(cells) == 2
    assert not re.search(r"<(?!/?code\b)", "".join(cells))
    plain = one_line(" ".join(words.split()))
    assert html.unescape(cells[0]).replace("\u200b", "") == plain
    assert html.unescape(re.sub(r"</?code>", "", cells[1])) == plain


def test_a_text_refers_to_nothing_and_commands_nothing() -> None:
    """What GitHub and GitLab look for once the markdown is read, or in its source."""
    words = '/close @team o/r#12 #12 GH-12 !12 %12 %m ~bug ~"bug" $12 &12 :tada: www.a.example http://a.example'
    text = as_markdown.escaped(words)
    assert html.unescape(rendered(text)).replace("\u200b", "") == f"<p>{words}</p>\n"
    assert not re.search(r"(@|#|!|%|\$|&amp;|GH-)\w|://|:\w+:|www\.|^/", text.replace("&#8203;", " "))
    assert not re.search(r'~["\w]', text)
    assert text.isprintable(), "what is printed is what is posted"
    assert as_markdown.escaped("-3.38 %") == "-3.38 %", "a number stays as it is"


def test_fixed_ops_of_one_name_are_one() -> None:
    ops = [op(f"a{n}", op_name="stablehlo.a", uses_of={f"m{n}": 1}) for n in range(5)] + [op("b", uses_of={"m4": 1})]
    before = [replace(each, status="crashed", cause=each.op_id) for each in ops]
    now = run(*ops)
    result = SeriesResult("s", "complete", "", "night", now, compare(run(*before), now), {"ran": 5, "asked": 5})
    page = markdown.text(markdown.Page("night", [result], Verdict((), True), ranked=False))
    assert "**FIXED (6)**: `stablehlo.a` (5 ops in m0, m1, m2 …), `stablehlo.b` (m4)\n" in page


def test_names_and_errors_of_a_night_are_text(tmp_path: Path) -> None:
    model = "<img src=x onerror=alert(1)>'; DROP TABLE runs;-- | `x`"
    result: NightResult | None = None
    for number, status in enumerate(("success", "compile_failed"), 1):
        op = Op(status, {model: 1}, error="<script>steal()</script> | @everyone")
        result = delivered(config_of(tmp_path, models=[model]), tmp_path, number, {"add": op}, models=(model,))
    assert result is not None
    assert result.verdict.fails
    page = rendered(result.summary)
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;steal()&lt;/script&gt;" in page
    assert "&lt;img src=x onerror=alert(1)&gt;'; DROP TABLE runs;--" in page
    assert "@everyone" not in result.summary

"""Tables of the commands that compare runs: whole words at every width, and the width that COLUMNS says."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from opscope.base.page import BETWEEN, EDGES, Page, column_widths
from opscope.base.tests.unhurried import UNHURRIED
from opscope.harness.record.stages import Stage
from opscope.reports.commands.compare import diff, readiness, unblock
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.nights import Op, night

FAILING = "opscope: expected a kernel for stablehlo.convolution with feature groups, got none; try another layout"
words = st.text(alphabet="abc", min_size=1, max_size=12)
texts = st.lists(words, max_size=6).map(" ".join)


@UNHURRIED
@given(
    st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(texts, min_size=n, max_size=n), min_size=1, max_size=4)),
    st.integers(10, 120),
)
def test_columns_fit_and_hold_their_longest_word(cells: list[list[str]], room: int) -> None:
    widths = column_widths(cells, room)
    columns = list(zip(*cells, strict=True))
    least = [max([len(word) for text in column for word in text.split()] or [0]) for column in columns]
    around = EDGES + BETWEEN * (len(columns) - 1)
    if widths is None:
        assert sum(least) + around > room
        return
    assert sum(widths) + around <= room
    assert all(width >= longest for width, longest in zip(widths, least, strict=True))
    natural = [max(map(len, column)) for column in columns]
    assert widths == natural or sum(widths) + around == room, "no room is given away"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("runs")
    url = fresh(folder / "db.sqlite")
    stage = Stage.STABLEHLO_TO_TTIR
    bad = Op("compile_failed", failed=stage, error=FAILING, uses={"resnet50": 3, "segformer_b0": 2})
    publish(night(folder, 1, {"add": Op(uses={"resnet50": 2}), "convolution": Op(uses={"resnet50": 3})}), url)
    publish(night(folder, 2, {"add": Op(uses={"resnet50": 2}), "convolution": bad, "dot_general": bad}), url)
    return url


@pytest.mark.crossed
@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("command", [(unblock,), (unblock, "--by", "op"), (diff,), (readiness, "resnet50")])
def test_no_word_is_broken_at_any_width(
    url: str, width: int, command: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every word that stands in the widest table stands in the narrower ones too."""

    def said(columns: int) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        result = CliRunner().invoke(command[0], [*map(str, command[1:]), "--db", url])  # type: ignore[arg-type]
        assert result.exit_code == 0, result.output
        return result.output

    narrow = said(width)
    # A list leaves out the headings of cells that are empty.
    assert set(re.findall(r"[\w.-]+", said(500))) - {"known", "owner"} <= set(re.findall(r"[\w.-]+", narrow))
    if command[0] is unblock:
        assert "stablehlo-to-ttir" in narrow
        assert max(map(len, narrow.splitlines()[1:])) <= width


def test_without_columns_a_pipe_gets_a_wide_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert Page().console.width == 160
    monkeypatch.setenv("COLUMNS", "100")
    assert Page().console.width == 100


def test_a_table_that_does_not_fit_is_a_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = [("op", ""), ("ops", "right"), ("error", "")]
    rows = [("stablehlo.convolution", 3, ""), ("add", 1, "no kernel at all for it")]
    expected = {}
    for width in ("40", "27"):
        monkeypatch.setenv("COLUMNS", width)
        Page().table(columns, rows)
        expected[width] = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip(" ─")]
    assert expected["40"] == [
        "op                      ops   error",
        "stablehlo.convolution     3",
        "add                       1   no",
        "kernel",
        "at all",
        "for it",
    ]
    assert expected["27"] == [
        "op   stablehlo.convolution",
        "ops  3",
        "op     add",
        "ops    1",
        "error  no kernel at all for",
        "it",
    ]


def test_no_color_means_none(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that may have colours gets none where the environment has NO_COLOR."""
    colour = re.compile(r"\x1b\[(?:\d+;)*3\d")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colour.search(CliRunner().invoke(diff, ["--db", url]).output)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour.search(CliRunner().invoke(diff, ["--db", url]).output)


def test_plain_mode_draws_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A screen reader gets a line for each row, with the headings in it, and neither lines nor bars."""
    monkeypatch.setenv("COLUMNS", "120")
    drawn = CliRunner().invoke(unblock, ["--db", url]).output
    assert "─" in drawn
    monkeypatch.setenv("OPSCOPE_PLAIN", "1")
    plain = CliRunner().invoke(unblock, ["--db", url]).output
    assert not re.search("[─█]", plain)
    assert re.search(r"^cause \w+; models 2; alone 2; uses 10; ops 2;", plain, re.MULTILINE), plain

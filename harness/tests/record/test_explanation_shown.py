"""A small explanation, drawn and written out: every place, length, colour and figure worked out by hand."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from opscope.base import stored
from opscope.base.damage import Damaged
from opscope.base.tests.each import each
from opscope.harness.record import explanation as record
from opscope.harness.record.explanation import (
    Explanation,
    HeatMap,
    Histogram,
    OperandElement,
    ResultExplanation,
    Term,
    WorstElement,
)
from opscope.harness.record.explanation_picture import picture, result_picture
from opscope.harness.record.explanation_text import level, lines, percent, text
from opscope.harness.record.stages import Status
from opscope.harness.tests.run_folder import NAMES, record_of

HEAT = HeatMap(cells=((0.5, 0.0), (0.25, 1.0)), what="share of wrong elements", cell="tile (32x32)", batch_rows=1)
SPREAD = Histogram(edges=(0.0, 1.0, 2.0, 4.0, 8.0), low=(0, 1, 0, 0, 0), high=(0, 0, 0, 4, 0))
TERM = Term(
    elements=(OperandElement(operand=0, index=(3, 17), value="1.5"), OperandElement(operand=1, index=(), value="-2")),
    value="-3",
)
WORST = WorstElement(index=(3, 4), place="tile (0, 0, 0)", expected="1", got="7", z=48.0, terms=(TERM,), terms_note="!")
FULL = ResultExplanation(
    number=1,
    shape=(64, 64),
    data_type="f32",
    reason="too large",
    wrong=3,
    count=4096,
    z_limit=2.5,
    worst=(WORST,),
    heat=HEAT,
    histogram=SPREAD,
    hypothesis="a guess",
    file="result-1.npy",
    note="no more",
)
BARE = ResultExplanation(number=0, shape=(4,), data_type="i32", reason="another shape")


def drawn(svg: str, kind: str, *names: str) -> list[tuple[str, ...]]:
    """The named attributes of all elements of a kind, with their text at the end."""
    elements = ElementTree.fromstring(svg).iter(f"{{http://www.w3.org/2000/svg}}{kind}")
    return [(*(each.attrib[name] for name in names), each.text or "") for each in elements]


def test_cells_lie_in_a_grid_with_a_gap_between_batch_entries() -> None:
    svg = result_picture(FULL.model_copy(update={"histogram": None}))
    soft = "var(--soft, #57606a)"
    assert drawn(svg, "text", "x", "y", "fill", "text-anchor") == [
        ("0", "14", soft, "start", "share of wrong elements, per tile (32x32); darkest: 100.0%")
    ]
    # Half of the largest is half-way between (255, 214, 102) and (207, 19, 34), a quarter a quarter of the way.
    assert drawn(svg, "rect", "x", "y", "width", "height", "fill") == [
        ("0", "22", "21", "21", "#e77444", ""),
        ("22", "22", "21", "21", "#8884", ""),
        ("0", "48", "21", "21", "#f3a555", ""),
        ("22", "48", "21", "21", "#cf1322", ""),
    ]
    assert drawn(svg, "title") == [
        ("row 0, column 0: 50.00%",),
        ("row 0, column 1: 0.00%",),
        ("row 1, column 0: 25.00%",),
        ("row 1, column 1: 100.00%",),
    ]
    assert 'viewBox="0 0 640 82" width="640" height="82"' in svg  # 22 + 22 + 4 + 22 + 2, and half a line


@each(("columns", "side"), [(25, "21"), (40, "13"), (51, "9"), (80, "6"), (200, "5")])
def test_cells_of_a_wide_map_are_smaller(columns: int, side: str) -> None:
    heat = HeatMap(cells=((2.5,) * columns,), what="root mean square of z", cell="face (16x16)", batch_rows=1)
    svg = result_picture(BARE.model_copy(update={"heat": heat}))
    assert {row[:2] for row in drawn(svg, "rect", "width", "height")} == {(side, side)}
    assert drawn(svg, "title")[-1] == (f"row 0, column {columns - 1}: 2.5",)
    assert drawn(svg, "text")[0] == ("root mean square of z, per face (16x16); darkest: 2.5",)


def test_a_map_without_cells_has_no_darkest_one() -> None:
    empty = BARE.model_copy(update={"heat": HEAT.model_copy(update={"cells": ()})})
    assert drawn(result_picture(empty), "text")[0][0].endswith("darkest: 0.0%")
    assert 'height="34"' in result_picture(empty)
    shown = text(Explanation(op_id="", op_name="", backend="", results=(empty,)))
    assert shown.endswith("share of wrong elements, @ up to 0.0%\n")


def test_bars_grow_from_the_middle_to_both_sides() -> None:
    svg = result_picture(FULL.model_copy(update={"heat": None}))
    low, high, soft = "#4269d0", "#cf1322", "var(--soft, #57606a)"
    assert drawn(svg, "rect", "x", "y", "width", "height", "fill") == [
        ("215.0", "40", "45.0", "13", low, ""),
        ("380.0", "72", "180.0", "13", high, ""),
    ]
    assert drawn(svg, "text", "x", "y", "fill", "text-anchor") == [
        ("0", "14", soft, "start", "elements by |z|, error over scale (at most 2.5 is right)"),
        ("260", "32", low, "end", "too small"),
        ("380", "32", high, "start", "too large"),
        ("211", "51", soft, "end", "1"),
        ("320", "51", soft, "middle", "1 to 2"),
        ("320", "67", soft, "middle", "2 to 4"),
        ("564", "83", soft, "start", "4"),
        ("320", "83", soft, "middle", "4 to 8"),
    ]
    assert 'viewBox="0 0 640 102"' in svg
    crowd = Histogram(edges=(0.0, 1.0), low=(1_000_000, 0), high=(0, 1))
    widths = drawn(result_picture(BARE.model_copy(update={"histogram": crowd})), "rect", "x", "width")
    assert widths == [("80.0", "180.0", ""), ("380.0", "1.5", "")]  # one element can be seen


def test_results_stand_one_below_the_other() -> None:
    assert result_picture(BARE) == ""
    empty = Histogram(edges=(0.0, 1.0), low=(0, 0), high=(0, 0))
    assert result_picture(BARE.model_copy(update={"histogram": empty})) == ""
    explanation = Explanation(op_id="1" * 16, op_name="stablehlo.add", backend="test", results=(FULL, BARE, FULL))
    svg = picture(explanation)
    places = [row[0] for row in drawn(svg, "g", "transform")]
    assert places == [f"translate(0 {y})" for y in (0, 0, 82, 204, 0, 82)]
    assert 'viewBox="0 0 640 408"' in svg
    assert 'viewBox="0 0 640 20"' in picture(explanation.model_copy(update={"results": (BARE,)}))


def test_the_text_has_all_that_is_known() -> None:
    explanation = Explanation(
        op_id="1" * 16, op_name="stablehlo.add", backend="test", results=(FULL, BARE), note="it took 10 s"
    )
    assert text(explanation).splitlines() == [
        "result 1: too large",
        "hypothesis: a guess",
        "3 of 4,096 elements beyond 2.5 of their scale (0.0732 %)",
        "worst elements",
        "  [3, 4]: expected 1, got 7, z 48; tile (0, 0, 0)",
        "    in0[3, 17] 1.5 x in1[] -2 = -3",
        "    !",
        "where: each character is one tile (32x32); share of wrong elements, @ up to 100.0%",
        "  +.",
        "",
        "  :@",
        "errors over their scale (|z|, at most 2.5): elements too small | too large",
        f"  {'######':>24} 1       1 to 2       0",
        f"  {'':>24} 0       2 to 4       0",
        f"  {'':>24} 0       4 to 8       4 {'#' * 24}",
        "the device's result: result-1.npy",
        "no more",
        "result 0: another shape",
        "it took 10 s",
    ]


def test_unknown_values_are_not_printed() -> None:
    worst = WORST.model_copy(update={"z": None, "place": "", "terms": (), "terms_note": ""})
    spread = Histogram(edges=(0.0, 1.0), low=(12, 0), high=(1, 0))
    exact = BARE.model_copy(update={"wrong": 4, "count": 4, "worst": (worst,) * 12, "histogram": spread})
    shown = text(Explanation(op_id="1" * 16, op_name="stablehlo.add", backend="test", results=(exact,))).splitlines()
    assert shown == [
        "result 0: another shape",
        "4 of 4 elements unequal (100 %)",
        "worst elements",
        *["  [3, 4]: expected 1, got 7"] * 8,
        "errors over their scale (|z|): elements too small | too large",
        f"  {'#' * 24} 12       0 to 1        1 ##",
    ]
    none = BARE.model_copy(update={"count": 4, "histogram": Histogram(edges=(0.0, 1.0), low=(0, 0), high=(0, 0))})
    assert text(Explanation(op_id="", op_name="", backend="", results=(none,))) == "result 0: another shape\n"


@each(
    ("part", "whole", "said"),
    [
        (0, 7, "0 %"),
        (7, 7, "100 %"),
        (1, 3, "33.3 %"),
        (1, 10_000, "0.01 %"),
        (1, 15_000, "0.007 %"),
        (999, 1000, "99.9 %"),
        (9995, 10_000, "99.95 %"),
        (999_999, 1_000_000, "99.99 %"),
    ],
)
def test_a_share_is_all_or_nothing_only_if_it_is(part: int, whole: int, said: str) -> None:
    assert percent(part, whole) == said


def test_shades_are_fourths_of_the_largest_and_neighbours_of_one_shade_one_piece() -> None:
    assert [level(value, 4.0) for value in (0.0, 1e-9, 1.0, 1.1, 2.0, 2.1, 3.0, 3.1, 4.0)] == [
        0,
        1,
        1,
        2,
        2,
        3,
        3,
        4,
        4,
    ]
    heat = HeatMap(cells=((0.0, 0.0, 4.0, 4.0, 1.0),), what="root mean square of z", cell="row", batch_rows=1)
    shown = lines(Explanation(op_id="", op_name="", backend="", results=(BARE.model_copy(update={"heat": heat}),)))
    assert list(shown)[1:] == [
        [("where: ", "bold"), ("each character is one row; root mean square of z, @ up to 4", "")],
        [("  ", ""), ("..", "dim"), ("@@", "bold red"), (":", "yellow")],
    ]


def test_a_map_without_a_largest_cell_is_damage(tmp_path: Path) -> None:
    known = Explanation(op_id="1" * 16, op_name="stablehlo.add", backend="test", results=(FULL,))
    for cell, value in (("0.25", known), ("1e999", None), ("NaN", None)):
        text_of_it = known.model_dump_json().replace("0.25", cell)
        (tmp_path / "compare.json").write_bytes(stored.sealed(text_of_it, record.JSON))
        if value is not None:
            assert record.read(tmp_path, "") == value
        else:
            with pytest.raises(Damaged, match="1 unexpected values"):
                record.read(tmp_path, "")


def test_only_a_comparison_leads_to_an_explanation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = Explanation(op_id="1" * 16, op_name="stablehlo.add", backend="test", results=(BARE, FULL))
    folder = tmp_path / "artifacts" / "1" / "compare-null"
    folder.mkdir(parents=True)
    (folder / record.JSON).write_bytes(stored.sealed(known.model_dump_json(), record.JSON))
    for artifact, expected in (
        ("artifacts/1/compare-null/compare.txt", known),
        ("artifacts/1/compare-xla/compare.txt", None),
        ("artifacts/1/compare-null/other.txt", None),
        ("artifacts/1/other/compare.txt", None),
        (None, None),
    ):
        test = record_of(tmp_path, next(iter(NAMES)), Status.WRONG_RESULT, artifact=artifact)
        assert record.of(tmp_path, test) == record.shown(tmp_path, test) == expected
    assert (known.hypothesis, known.model_copy(update={"results": (BARE,)}).hypothesis) == ("a guess", "")
    test = record_of(tmp_path, next(iter(NAMES)), Status.WRONG_RESULT, artifact="artifacts/1/compare-null/compare.txt")
    (folder / record.JSON).unlink()
    (folder / record.JSON).symlink_to(tmp_path / "elsewhere")
    assert record.shown(tmp_path, test) is None
    said = capsys.readouterr().err
    assert said == f"opscope: {folder}/compare.json: damaged (a path that leads out of its folder, or by a link)\n"

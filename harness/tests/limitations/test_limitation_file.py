"""Files of expected failures: what is read, which lines a row has, and what is refused in one line."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from opscope.base.op_families import COMPUTING
from opscope.harness.limitations.limitation_file import OWN, all_rows, check, parse, project_rows, read
from opscope.harness.limitations.limitations import Limitation
from opscope.harness.record.errors import InputError
from opscope.harness.record.stages import Stage

GOOD = """\
# head
limitations:
- op: [stablehlo.fft, "chlo.*"]
  op_ids: [aaaa000000000001]
  backend: tools/mine.py
  arch: n150
  stage: run
  kind: notyet
  reason: "no transform: see there"
  signature: 0123456789ab
  params: {fft_type: "*RFFT*"}
  link: https://example.org/1
  since: 2026-01-02
  expires: "2026-12-31"

# between
-
  op: stablehlo.add
  backend: null
  stage: compile
  kind: notimpl
  reason: x
"""


def test_fields_and_lines(tmp_path: Path) -> None:
    file = parse(GOOD.replace("backend: null", "backend: 'null'"), tmp_path / "l.yaml")
    first, second = file.rows
    assert first == Limitation(
        ("stablehlo.fft", "chlo.*"),
        "mine",
        Stage.RUN,
        "notyet",
        "no transform: see there",
        signature="0123456789ab",
        op_ids=("aaaa000000000001",),
        params={"fft_type": "*RFFT*"},
        arch="n150",
        link="https://example.org/1",
        since=date(2026, 1, 2),
        expires=date(2026, 12, 31),
    )
    assert second.op == ("stablehlo.add",)
    assert [(placed.start, placed.end) for placed in file.placed] == [(2, 14), (16, 22)]
    assert first.where == f"{tmp_path}/l.yaml:3"


ROW = "limitations:\n- {op: a, backend: xla, stage: run, kind: never, reason: r%s}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limitations: [\n", ": expected YAML, got "),
        ("rows: []\n", "expected one list named `limitations`, got rows"),
        ("- a\n", "got list"),
        ("limitations:\n- a\n", ":2: expected a mapping of fields, got str"),
        (ROW % ", resaon: x", ":2: expected a field of a limitation, got 'resaon'; try reason"),
        (ROW % ", expires: soon", ":2 expires: expected a date, got 'soon'"),
        (ROW % ", params: [1]", ":2 params: expected a mapping of attributes to patterns, got list"),
        (ROW % ", message: [1]", ":2 message: expected a text"),
        ("limitations:\n- {op: a, backend: xla, stage: run, kind: never}\n", "got no reason"),
        (ROW.replace("xla", "xal") % "", ":2 backend: expected a backend or its file, got 'xal'; try xla"),
        (ROW.replace("run", "a stage") % "", ":2 stage: expected a stage, got 'a stage'"),
        (ROW.replace("run", "commpile") % "", ":2 stage: expected a stage of a backend, got 'commpile'; try compile"),
        (ROW.replace("xla", "ttmlir").replace("run", "ttir-to-tnn") % "", "got 'ttir-to-tnn'; try ttir-to-ttnn"),
        (ROW % ", strict: maybe", ":2 strict: expected true or false, got 'maybe'"),
        (ROW.replace("never", "someday") % "", ":2 kind: expected one of notimpl, notyet, never, got 'someday'"),
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "l.yaml").write_text(text)
    with pytest.raises(InputError) as refused:
        read(tmp_path / "l.yaml")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        all_rows(tmp_path / "l.yaml")
    for text in ("", "limitations:\n", "limitations: []\n"):
        assert parse(text, tmp_path).rows == ()


def test_the_projects_own_rows() -> None:
    assert project_rows() == read(OWN).rows
    for row in project_rows():
        check(row)
        assert row.since is not None
        assert row.families in (frozenset(), COMPUTING)


def test_a_stage_of_ones_own_is_looked_for_in_the_backends_source(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    text = ROW.replace("xla", str(mine)).replace("run", "link") % ""
    assert parse(text, tmp_path).rows[0].stage == "link", "nobody knows the file"
    mine.write_text("stages = (Stage('link'),)")
    assert parse(text, tmp_path).rows[0].backend == "mine"
    mine.write_text("stages = (Stage('re-link'),)")
    with pytest.raises(InputError, match="expected a stage of a backend, got 'link'"):
        parse(text, tmp_path)


def test_the_users_rows_come_first(tmp_path: Path) -> None:
    (tmp_path / "l.yaml").write_text(ROW % "")
    assert all_rows(tmp_path / "l.yaml")[0].op == ("a",)
    assert all_rows(None) == project_rows()

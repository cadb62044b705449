"""The coverage table against the StableHLO dialect itself, against the compiler's verdicts, and its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from jaxlib.mlir.dialects import _stablehlo_ops_gen as dialect

from opscope.base.op_families import op_family
from opscope.compiler.commands.ops import ops
from opscope.compiler.ops.coverage import KINDS, coverage, summary, to_markdown
from opscope.compiler.ops.row import TABLE, OpRow

PAGE = Path(__file__).parents[2] / "docs" / "ops.md"
FIELDS = ["op", "lowered", "kind", "reason", "family", "dtypes", "ttir", "ttnn", "kernel", "limits", "elsewhere"]


def call(*args: str):
    return CliRunner().invoke(ops, args)


def objects(*args: str) -> list[dict]:
    return json.loads(call("--json", *args).output)


def test_every_op_that_the_dialect_defines_has_a_line():
    defined = {cls.OPERATION_NAME for cls in vars(dialect).values() if hasattr(cls, "OPERATION_NAME")}
    assert len(defined) > 100
    assert defined <= {entry.op for entry in coverage()}


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == to_markdown(coverage()), "expected the current table; try `make ops`"


def test_json_has_one_object_per_op_and_types_with_stated_fields():
    table = objects()
    assert all(list(entry) == FIELDS for entry in table)
    assert len({(entry["op"], tuple(entry["dtypes"])) for entry in table}) == len(table) == len(list(TABLE))
    assert all(entry["kind"] in KINDS for entry in table)
    assert all(entry["lowered"] == (entry["kind"] not in ("notimpl", "notyet", "never")) for entry in table)
    assert all(entry["reason"] for entry in table if entry["kind"] not in ("row", "device"))
    assert not any(entry["kernel"] for entry in table if not entry["lowered"])


def test_a_line_says_what_becomes_of_an_op():
    (entry,) = objects("divide")
    assert entry == {
        "op": "stablehlo.divide",
        "lowered": True,
        "kind": "row",
        "reason": "",
        "family": "eltwise",
        "dtypes": ["float", "int"],
        "ttir": "ttir.div",
        "ttnn": "ttnn.divide",
        "kernel": "divide",
        "limits": entry["limits"],
        "elsewhere": [],
    }
    assert entry["limits"][0].startswith("f64 (any op): never: no 64-bit float")


def test_filters_hold_together():
    assert {e["op"] for e in objects("stablehlo.not")} == {"stablehlo.not"}
    assert {e["op"] for e in objects("*_pool2d", "cholesky", "--kind", "device")} >= {
        "ttir.cholesky",
        "ttir.max_pool2d",
    }
    refused = objects("--family", "collective", "--kind", "notimpl", "--kind", "never")
    assert refused
    assert all(e["family"] == "collective" and not e["lowered"] for e in refused)


def test_text_is_aligned_and_ends_with_counts():
    output = call("stablehlo.not", "sort").output.partition("\n\nknown to fail")[0]
    lines = [line for line in output.splitlines() if line.strip(" ─")]
    assert lines[0].split() == ["op", "types", "ttir", "ttnn", "kernel", "kind", "reason"]
    start = lines[0].index("kind")
    assert {line[start:].split()[0] for line in lines[1:-1] if line[1] != " "} <= {"row", "pattern", "device"}
    assert lines[-1] == "2 of 2 ops of StableHLO and chlo are lowered"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["nonsense"], "expected an op or a glob, got 'nonsense'"),
        (["--json", "--markdown"], "got --json and --markdown"),
        (["--family", "elt"], "eltwise"),
        (["--kind", "no"], "notimpl"),
    ],
)
def test_bad_arguments_exit_with_2(args, expected):
    result = call(*args)
    assert result.exit_code == 2
    assert expected in result.output


def test_a_row_that_is_added_shows(monkeypatch):
    row = OpRow("chlo.new_op", "new_op", group="random")
    monkeypatch.setattr("opscope.compiler.ops.coverage.TABLE", [*TABLE, row])
    (entry,) = coverage(["new_op"])
    assert (entry.ttnn, entry.kernel, entry.family) == ("ttnn.new_op", "new_op", "eltwise")
    assert to_markdown(coverage()) != PAGE.read_text(encoding="utf-8")
    assert summary([entry]) == "1 of 1 ops of StableHLO and chlo are lowered"


def test_ops_have_the_family_that_their_records_have():
    of_stablehlo = [entry for entry in coverage() if not entry.op.startswith(("ttir.", "ttnn."))]
    assert len(of_stablehlo) > 100
    assert [entry.op for entry in of_stablehlo if entry.family != op_family(entry.op)] == []
    assert "other" not in {entry.family for entry in of_stablehlo}

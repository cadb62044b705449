"""Exports: each format against a reader that is not ours, every op in it, one bad value losing nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pandas as pd
import pytest
from click.testing import CliRunner

from opscope.harness.record.records import TensorDesc
from opscope.harness.record.store import load_run
from opscope.reports.commands.ask import export as command
from opscope.reports.database.rows import is_failure
from opscope.reports.exports import frames
from opscope.reports.exports.export_optest import tensors
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.nights import Op, night, op_id
from opscope.reports.tests.sample_run import NASTY, OPS, make_run

COLLECT_DATA = os.environ.get("OPSCOPE_COLLECT_DATA", "")
"""Folder `.github/actions/collect_data/src` of a checkout of tenstorrent/tt-github-actions, if there is one."""

JOB = 86083933790


def export(*words: str) -> str:
    return CliRunner().invoke(command, words, catch_exceptions=False).output


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("export") / "run")


@pytest.fixture(scope="module")
def optest(run_dir: Path) -> Path:
    return Path(export(str(run_dir), "--format", "optest-json", "--job-id", str(JOB), "-o", str(run_dir)).strip())


def records(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """(name, record) of each op test, found as the contract says."""
    properties = json.loads(path.read_text(encoding="utf-8"))["tests"][0]["user_properties"]
    assert all(isinstance(entry, dict) and len(entry) == 1 for entry in properties)
    entries = [(key, value) for entry in properties for key, value in entry.items()]
    return [(key.removeprefix("OpTest model for: "), value) for key, value in entries if key.startswith("OpTest model")]


def test_the_file_is_found_by_its_name(optest: Path) -> None:
    assert optest.name == f"op_by_op_report_{JOB}.json"
    assert int(re.split(r"[_-]", optest.stem)[-1]) == JOB
    assert not optest.name.startswith("report_perf_")


def test_every_op_is_a_record_of_texts(optest: Path, run_dir: Path) -> None:
    tests = {test.op_id: test for test in load_run(run_dir).tests}
    op_records = records(optest)
    assert len(op_records) == len(tests) == len(OPS)
    for name, record in op_records:
        assert all(isinstance(value, str) for value in record.values()), name
        test = tests[record["op_id"]]
        assert name == f"{test.op_name}[{test.op_id}]"
        assert record["success"] == str(test.right)
        assert record["skipped"] == (
            "True" if test.status in ("golden_in_doubt", "stopped", "skipped", "not_run") else "False"
        )
        assert datetime.fromisoformat(record["test_start_ts"]) == test.test_start_ts
        assert record["test_end_ts"].endswith("+00:00")
        assert (record["error_message"] == "None") == test.right
        # Python itself reads the tensors back from their text.
        back = eval(record["inputs"], {"TensorDesc": TensorDesc})
        assert back == [desc.model_copy(update={"buffer_type": desc.buffer_type}) for desc in test.inputs]
    report = json.loads(optest.read_text())
    properties = {key: value for entry in report["tests"][0]["user_properties"] for key, value in entry.items()}
    assert properties["successful_operations"] == "4"
    assert properties["failed_operations"] == "7"


def test_each_model_keeps_its_ops_and_unsplittable_ones_are_there(tmp_path: Path) -> None:
    ops = {"add": Op(uses={"a": 2, "b": 1}), "lost": Op("unsplittable", uses={"b": 1}, error="no body")}
    op_records = records(
        Path(
            export(
                str(night(tmp_path, 1, ops)), "--format", "optest-json", "--job-id", "7", "-o", str(tmp_path / "out")
            ).strip()
        )
    )
    assert Counter((record["model_name"], record["op_id"]) for _, record in op_records) == Counter(
        [("a", op_id("add")), ("b", op_id("add")), ("b", op_id("lost"))]
    )
    assert [record["error_message"] for _, record in op_records if record["op_id"] == op_id("lost")] == ["no body"]


@pytest.mark.parametrize(
    ("data_type", "line"),
    [
        ("f32", "f32"),
        ("!quant.uniform<i8:f32, 0.1:(3)>", "unknown"),
        ("it's", "unknown"),
        ('say "x"', "unknown"),
        ("complex<f32>", "complex<f32>"),
        ("\ud800", "?"),
    ],
)
def test_a_value_that_its_pattern_cuts_is_replaced_alone(data_type: str, line: str) -> None:
    bad = TensorDesc.model_construct(
        shape=(1, -1), data_type=data_type, buffer_type=None, layout="tile", grid_shape=(8, 8)
    )
    good = TensorDesc(shape=(), data_type="bf16")
    text = tensors([bad, good])
    parts = re.findall(r"TensorDesc\(([^)]*)\)", text)
    assert parts == [
        f"shape=[1, -1], data_type='{line}', buffer_type=None, layout='tile', grid_shape=[8, 8]",
        "shape=[], data_type='bf16', buffer_type=None, layout=None, grid_shape=None",
    ]


@pytest.mark.skipif(not COLLECT_DATA, reason="OPSCOPE_COLLECT_DATA names no checkout of collect_data")
def test_the_real_reader_takes_every_op(optest: Path, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(COLLECT_DATA)
    from parsers.tt_xla_op_by_op_parser import TTXlaOpByOpParser  # type: ignore[import-not-found]

    sys.modules.pop("parsers", None)
    parsed = TTXlaOpByOpParser().parse(str(optest), project="tt-xla", github_job_id=JOB)
    got = {test.test_case_name: test for test in getattr(parsed, "tests", parsed)}
    tests = load_run(run_dir).tests
    assert len(got) == len(tests)
    for test in tests:
        read = got[f"{test.op_name}[{test.op_id}]"]
        assert (read.success, read.op_name, read.op_kind) == (test.right, test.op_name, test.op_kind)
        assert read.skipped == (test.status in ("golden_in_doubt", "stopped", "skipped", "not_run"))
        assert [tuple(tensor.shape) for tensor in read.inputs] == [tensor.shape for tensor in test.inputs]
        assert [tensor.data_type for tensor in read.outputs] == [tensor.data_type for tensor in test.outputs]
        assert [tuple(tensor.grid_shape) for tensor in read.outputs] == [tensor.grid_shape for tensor in test.outputs]
        assert read.test_start_ts == test.test_start_ts


def test_junit_counts_as_pytest_does(run_dir: Path, tmp_path: Path) -> None:
    path = Path(export(str(run_dir), "--format", "junit", "--job-id", "5", "-o", str(tmp_path)).strip())
    assert path.name == "opscope_builder_report_5.xml"
    root = Xml.parse(path).getroot()
    suite = root[0]
    tests = load_run(run_dir).tests
    failing = sum(is_failure(test) for test in tests)
    assert (root.tag, suite.get("name"), suite.get("tests")) == ("testsuites", "pytest", str(len(tests)))
    errors, failures = suite.findall("testcase/error"), suite.findall("testcase/failure")
    assert (
        (suite.get("errors"), suite.get("failures"))
        == ("1", str(failing - 1))
        == (
            str(len(errors)),
            str(len(failures)),
        )
    )
    assert suite.get("skipped") == "4" == str(len(suite.findall("testcase/skipped")))
    assert [element.get("type") for element in suite.findall("testcase/skipped")].count("pytest.xfail") == 1
    card = {element.get("name"): element.get("value") for element in suite.iterfind("properties/property")}
    assert card["card"] == "sim-n150"
    stages = Counter()
    for case, test in zip(suite.findall("testcase"), tests, strict=True):
        values = {element.get("name"): element.get("value") or "" for element in case.find("properties") or []}
        assert values["backend"] == "reference"
        assert eval(values["input_shapes"]) == [tensor.shape for tensor in test.inputs]
        assert eval(values["input_dtypes"]) == [tensor.data_type for tensor in test.inputs]
        assert (values["op_name"], values["op_id"]) == (test.op_name, test.op_id)
        stages[values.get("failure_stage", "")] += 1
    assert stages == {"success": 4, "golden": 1, "compile": 3, "runtime": 2, "": 4}
    message = errors[0].get("message") or ""
    assert message.startswith("no golden: stablehlo.rng")
    assert NASTY.replace("\0", "\\0") in message


def test_csv_is_the_frame_from_folder_and_database(run_dir: Path, tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    publish(run_dir, url)
    text = export(str(run_dir), "--format", "csv", "-o", "-")
    again = export("20261120-120000-demo", "--format", "csv", "-o", "-", "--db", url)
    rows = {row["op_id"]: row for row in csv.DictReader(io.StringIO(text))}
    assert rows == {row["op_id"]: row for row in csv.DictReader(io.StringIO(again))}
    frame = frames.op_tests(url).set_index("op_id", drop=False)
    assert list(next(iter(rows.values()))) == list(frame.columns)
    for key, row in rows.items():
        assert (row["status"], int(row["uses"])) == (frame.loc[key, "status"], frame.loc[key, "uses"])
        assert json.loads(row["models"]) == frame.loc[key, "models"]


def test_builder_xml_needs_the_job_that_its_reader_looks_for(run_dir: Path, tmp_path: Path) -> None:
    path = Path(export(str(run_dir), "--format", "builder-xml", "--job-id", "5", "-o", str(tmp_path)).strip())
    assert path.name == "opscope_builder_report_5.xml"
    for case in Xml.parse(path).getroot()[0].findall("testcase"):
        names = {element.get("name") for element in case.iterfind("properties/property")}
        assert {"backend", "op_name", "input_shapes", "input_dtypes", "start_timestamp"} <= names
    done = CliRunner().invoke(command, [str(run_dir), "--format", "builder-xml"])
    assert "--job-id: expected the number of the CI job" in str(done.exception)


def as_the_reader_takes_it(case: Xml.Element) -> tuple[bool, bool, str | None, str | None]:
    """(success, skipped, status, message) by the rules of collect_data's reader of builder tests."""
    values = {element.get("name"): element.get("value") for element in case.iterfind("properties/property")}
    result = {outcome: case.find(outcome) for outcome in ("skipped", "failure", "error")}
    skipped, failed = result["skipped"] is not None, result["failure"] is not None or result["error"] is not None
    stages = {"compile": "compile_failed", "golden": "wrong_result", "runtime": "run_failed", "success": "success"}
    line = next((element.get("message") for element in result.values() if element is not None), None)
    message = values.get("error_message", line)
    if (stage := values.get("failure_stage")) is not None:
        return not failed, skipped, stages[stage], message
    return not failed, skipped, None if skipped else "run_failed" if failed else "success", message


KNOWN = {"expected": "notyet: no such kernel"}
OUTCOMES = {
    "right": Op(),
    "gap": Op("compile_failed", error="expected a kernel, got none", more=KNOWN),
    "surprise": Op(more={"expected": "unexpected pass: notimpl: since fixed"}),
    "wrong": Op("wrong_result", error="relative L2"),
    "known wrong": Op("wrong_result", error="relative L2", more=KNOWN),
    "unknown": Op("no_golden", error="XLA refuses it"),
    "known unknown": Op("no_golden", error="XLA refuses it", more=KNOWN),
    "aside": Op("skipped"),
}
NOT_JUDGED = "no golden: XLA refuses it"


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (
            ("builder-xml", "--job-id", "5"),
            {
                "right": (True, False, "success", None),
                "gap": (
                    False,
                    False,
                    "compile_failed",
                    "expected failure (notyet: no such kernel): expected a kernel, got none",
                ),
                "surprise": (True, False, "success", None),
                "wrong": (False, False, "wrong_result", "relative L2"),
                "known wrong": (False, False, "wrong_result", "expected failure (notyet: no such kernel): relative L2"),
                "unknown": (True, True, None, NOT_JUDGED),
                "known unknown": (True, True, None, f"expected failure (notyet: no such kernel): {NOT_JUDGED}"),
                "aside": (True, True, None, "skipped"),
            },
        ),
        (
            ("junit",),
            {
                "right": (True, False, "success", None),
                "gap": (True, True, "compile_failed", "expected a kernel, got none"),
                "surprise": (
                    False,
                    False,
                    "success",
                    "passed, though a limitation says unexpected pass: notimpl: since fixed",
                ),
                "wrong": (False, False, "wrong_result", "relative L2"),
                "known wrong": (True, True, "wrong_result", "relative L2"),
                # Red, as in the run, but by the reader's word for what ended without a verdict.
                "unknown": (False, False, "run_failed", NOT_JUDGED),
                "known unknown": (True, True, None, NOT_JUDGED),
                "aside": (True, True, None, "skipped"),
            },
        ),
    ],
)
def test_the_reader_of_builder_tests_gets_each_op_as_it_ended(
    tmp_path: Path, words: tuple[str, ...], read: dict[str, tuple[bool, bool, str | None, str | None]]
) -> None:
    text = export(str(night(tmp_path, 1, OUTCOMES)), "--format", *words, "-o", "-")
    suite = Xml.fromstring(text.encode())[0]
    cases = {(case.get("name") or "").split("[")[1].rstrip("]"): case for case in suite.findall("testcase")}
    assert {name: as_the_reader_takes_it(cases[op_id(name)]) for name in OUTCOMES} == read
    wrong = {name for name, (_, _, status, _) in read.items() if status == "wrong_result"}
    assert wrong == {"wrong", "known wrong"}


def test_parquet_is_the_frame(run_dir: Path, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="pip install 'opscope[parquet]'")
    url = fresh(tmp_path / "db.sqlite")
    publish(run_dir, url)
    path = Path(export(str(run_dir), "--format", "parquet", "-o", str(tmp_path)).strip())
    table = pq.read_table(path)
    frame = frames.op_tests(url).set_index("op_id", drop=False)
    assert table.column_names == list(frame.columns)
    for row in table.to_pylist():
        expected_row = frame.loc[row["op_id"]]
        for name in ("status", "uses", "models", "pcc", "cycles", "started", "flaky"):
            expected = expected_row[name]
            assert row[name] == expected or (row[name] is None and pd.isna(expected)), name
    meaning = {b"meaning": b"smallest correlation with the golden over the op's results"}
    assert table.schema.field("pcc").metadata == meaning
    assert table.schema.metadata[b"run_id"] == b"20261120-120000-demo"


def test_the_database_exports_what_the_folder_does(run_dir: Path, tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    publish(run_dir, url)
    both = [
        export(name, "--format", kind, "--job-id", "7", "-o", "-", "--db", url)
        for kind in ("optest-json", "junit")
        for name in (str(run_dir), "20261120-120000-demo")
    ]
    assert sorted(both[0].replace("\\\\0", "\\u0000").splitlines()) == sorted(
        both[1].replace("\\\\0", "\\u0000").splitlines()
    )
    assert len(both[2].splitlines()) == len(both[3].splitlines())


def test_bad_input_is_one_line(run_dir: Path, tmp_path: Path) -> None:
    def line(*words: str) -> str:
        return str(CliRunner().invoke(command, [str(run_dir), *words]).exception)

    assert line("--format", "optest-json").startswith("--job-id: expected the number of the CI job that made the run")
    (tmp_path / "file").write_text("")
    assert "expected a writable place" in line("--format", "csv", "-o", str(tmp_path / "file" / "x"))

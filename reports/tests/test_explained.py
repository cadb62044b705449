"""A run on a backend that makes eight kinds of wrong numbers: what its folder, pages and repro folders say of each."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from opscope.harness.page import summary
from opscope.harness.record import explanation
from opscope.harness.record.records import OpTest
from opscope.harness.run import finish_run
from opscope.harness.run.api import run_op_by_op
from opscope.harness.tests.faulty_backends.spoiled_numbers import HYPOTHESES, MODULE, PATH
from opscope.harness.triage import after_run
from opscope.reports.pages.html import write_report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, OpTest]]:
    folder = tmp_path_factory.mktemp("explained")
    tests = run_op_by_op(MODULE, backend=PATH, run_dir=folder / "run", name="net", cache_dir=folder / "cache", reruns=0)
    return folder / "run", {test.op_name: test for test in tests}


def test_each_is_named_in_its_record(ran: tuple[Path, dict[str, OpTest]]) -> None:
    _, tests = ran
    for name, said in HYPOTHESES.items():
        assert tests[name].status == "wrong_result", name
        assert tests[name].hypothesis.startswith(said), (name, tests[name].hypothesis)
        assert bool(tests[name].hypothesis) == bool(said), tests[name].hypothesis


def test_its_folder_has_all_that_it_takes(ran: tuple[Path, dict[str, OpTest]]) -> None:
    run_dir, tests = ran
    test = tests["stablehlo.dot_general"]
    known = explanation.of(run_dir, test)
    assert known is not None
    (result,) = known.results
    golden = np.load(after_run.place(run_dir, test) / "golden" / "0.npy")
    got = np.load(after_run.place(run_dir, test) / "result-0.npy")
    assert not got[32:64, 64:96].any()
    assert np.array_equal(got[:32], golden[:32])
    worst = result.worst[0]
    assert float(worst.expected) == pytest.approx(float(golden[worst.index]), rel=1e-5)
    inputs = [np.load(after_run.place(run_dir, test) / "inputs" / f"{n}.npy") for n in (0, 1)]
    for term in worst.terms:
        for element in term.elements:
            assert float(element.value) == pytest.approx(float(inputs[element.operand][element.index]), rel=1e-5)
    assert worst.terms_note == "the largest 4 of 128 terms"
    readme = (after_run.place(run_dir, test) / "README.md").read_text()
    assert test.hypothesis in readme
    assert "![where the result is wrong](compare.svg)" in readme


def test_pages_show_it(ran: tuple[Path, dict[str, OpTest]]) -> None:
    run_dir, tests = ran
    console = Console(width=160, record=True, file=io.StringIO())
    summary.show(finish_run.stored_page(run_dir, None), console)
    text = console.export_text()
    assert text.count("where: each character is one") == summary.EXPLAINED
    page = write_report(run_dir).read_text(encoding="utf-8")
    for test in tests.values():
        if test.hypothesis:
            assert test.hypothesis in text
            assert test.hypothesis.replace("'", "&#39;") in page
    assert page.count("<svg xmlns") == len(HYPOTHESES)


def test_a_kept_verdict_brings_it_along(ran: tuple[Path, dict[str, OpTest]], tmp_path: Path) -> None:
    run_dir, tests = ran
    options = {"cache_dir": run_dir.parent / "cache", "reruns": 0}
    again = run_op_by_op(MODULE, backend=PATH, run_dir=tmp_path / "again", name="net", **options)
    kept = next(test for test in again if test.op_name == "stablehlo.dot_general")
    assert kept.cached_from
    first, second = (explanation.of(*pair) for pair in ((run_dir, tests[kept.op_name]), (tmp_path / "again", kept)))
    assert first == second
    assert second is not None
    folder = explanation.folder_of(kept)
    assert folder is not None
    assert (tmp_path / "again" / folder / str(second.results[0].file)).is_file()

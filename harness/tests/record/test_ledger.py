"""The ledger adds up, and falls short when an op is lost."""

from __future__ import annotations

from opscope.harness.record.ledger import by_backend, ledger, line
from opscope.harness.record.optest import RunContext, build_test, now, unrun_test
from opscope.harness.record.records import ManifestHeader
from opscope.harness.record.stages import Status
from opscope.harness.tests.ops import add_row

CONTEXT = RunContext("r1", "run")


def parts(tmp_path):
    rows = [add_row(tmp_path, "a", uses=3), add_row(tmp_path, "b", uses=1)]
    rows.append(add_row(tmp_path, "c", uses=2).model_copy(update={"module": None, "unsplittable": "a token"}))
    header = ManifestHeader(models=("toy",), export_dirs=("x",), module_ops={"toy": 11}, structural={"toy": 5})
    tests = [build_test(row, CONTEXT, status=Status.SUCCESS, started=now()) for row in rows[:2]]
    return header, rows, tests


def test_the_counts_add_up(tmp_path):
    counts = ledger(*parts(tmp_path))
    assert counts.adds_up
    assert line({"null": counts}) == (
        "2 unique ops = 2 success; toy: 11 ops = 4 uses of unique ops + 2 unsplittable + 5 structural"
    )


def test_each_status_is_counted_once(tmp_path):
    header, rows, tests = parts(tmp_path)
    tests += [tests[0].model_copy(update={"attempt": 2, "status": Status.CRASHED})]
    counts = ledger(header, rows, tests)
    assert counts.adds_up
    assert counts.by_status == {Status.SUCCESS: 1, Status.CRASHED: 1}
    skipped = unrun_test(rows[1], CONTEXT, Status.SKIPPED, "deselected")
    assert skipped.skipped
    assert ledger(header, rows, [tests[0], skipped]).adds_up


def test_a_lost_record_a_lost_row_and_a_foreign_record_show(tmp_path):
    header, rows, tests = parts(tmp_path)
    lost = ledger(header, rows, tests[:1])
    assert not lost.adds_up
    assert "2 unique ops ≠ 1 success" in line({"null": lost})
    assert not ledger(header, rows[1:], tests[1:]).adds_up
    assert not ledger(header, rows, [*tests, tests[0].model_copy(update={"op_id": "other"})]).adds_up


def test_the_record_of_an_unsplittable_op_is_counted_apart(tmp_path):
    header, rows, tests = parts(tmp_path)
    tests.append(build_test(rows[2], CONTEXT, status=Status.COMPILE_FAILED, started=now(), error="a token"))
    counts = ledger(header, rows, tests)
    assert counts.adds_up
    assert (counts.unique, counts.unsplittable) == (2, 1)


def test_each_backend_has_a_line_and_each_model_one_for_all(tmp_path):
    header, rows, tests = parts(tmp_path)
    header = header.model_copy(update={"module_ops": {"toy": 11, "empty": 0, "lost": 3}})
    books = by_backend(header, rows, [*tests, tests[0].model_copy(update={"backend": "old"})], ["reference", "xla"])
    assert line(books).split("; ") == [
        "reference: 2 unique ops = 2 success",
        "xla: 2 unique ops ≠ 0",
        "toy: 11 ops = 4 uses of unique ops + 2 unsplittable + 5 structural",
        "empty: 0 ops = 0 uses of unique ops + 0 unsplittable + 0 structural",
        "lost: 3 ops ≠ 0 uses of unique ops + 0 unsplittable + 0 structural",
    ]
    assert not books["reference"].adds_up
    assert ledger(header.model_copy(update={"module_ops": {"toy": 11, "empty": 0}}), rows, tests).adds_up


def test_labels_of_what_was_run_again_are_counted_by_name(tmp_path):
    header, rows, tests = parts(tmp_path)
    failed = {"status": Status.WRONG_RESULT, "success": False}
    tests = [
        test.model_copy(update={"stability": label, **failed}) for test, label in zip(tests, ("flaky", ""), strict=True)
    ]
    assert ledger(header, rows, tests).stability == {"flaky": 1}
    right = tests[1].model_copy(update={"stability": "varying", "status": Status.SUCCESS, "success": True})
    assert ledger(header, rows, [tests[0], right]).stability == {"flaky": 1}, "of failures"
    counts = ledger(header, rows, [tests[0], tests[1].model_copy(update={"stability": "deterministic"})])
    assert list(counts.stability.items()) == [("deterministic", 1), ("flaky", 1)]

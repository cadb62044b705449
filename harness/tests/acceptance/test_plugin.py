"""`pytest --model X --op-by-op` as users start it: what it collects, how it behaves beside pytest's own options."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from opscope.base.installing import install_command
from opscope.harness.record.records import VOLATILE
from opscope.harness.tests.acceptance.conftest import MODEL, ROOMS, Place
from opscope.harness.tests.own_backend import own_backend

Counts = Callable[[str], dict[str, int]]

REFUSES = """
    if b"dot_general" in job.module:
        raise StageError("no room for a dot", "the whole story")
"""
PICKY = own_backend("picky", REFUSES)


@pytest.fixture
def picky(place: Place) -> str:
    """A backend of the user's that refuses matrix products."""
    (place.folder / "picky.py").write_text(PICKY)
    return "picky.py"


@pytest.mark.slow
def test_each_op_has_the_three_reports_of_a_test(place: Place, picky: str) -> None:
    """Other plugins build on them: JUnit files take an op's properties from the last one."""
    done = place.pytest("--junit-xml=junit.xml", "--ops", "stablehlo.dot*", "--ops", "stablehlo.tanh", backend=picky)
    suite = ElementTree.parse(place.folder / "junit.xml").getroot()[0]
    cases = {case.get("name", "").partition("[")[0]: case for case in suite}
    assert suite.get("tests") == str(len(suite))
    assert cases["stablehlo.dot_general"].find("failure") is not None, done.out
    for case in suite:
        properties = case.find("properties")
        assert properties is not None
        values = {one.get("name"): one.get("value") for one in properties}
        assert len(values) == len(properties), "each has a property of its own"
        assert case.get("name", "") == f"{values['op_name']}[{values['op_id']}]"
        refused = values["op_name"] == "stablehlo.dot_general"
        assert values["status"] == ("compile_failed" if refused else "stopped")
        assert values.get("failed_stage") == ("compile" if refused else None)
        assert values.get("error_message") == ("no room for a dot" if refused else None)
        assert values["models"] == MODEL
        assert case.get("classname") == MODEL


@pytest.mark.slow
def test_hostile_folder(hostile: Place, results: Counts) -> None:
    done = hostile.pytest(report=True)
    assert done.code == 0, done.out + done.err
    assert "opscope: conftest.py is left out, and what it would load: RuntimeError: their conftest" in done.lines
    theirs = (f"their {what}" for what in (*ROOMS, "other conftest", "test"))
    assert not [words for words in theirs if words in done.out + done.err]
    assert set(results(done.out)) == {"passed"}
    run = hostile.runs()[-1]
    tests = hostile.records(run)
    assert len(tests) == results(done.out)["passed"] > 10
    assert {test["model_name"] for test in tests} == {MODEL}
    assert {test["op_id"] for test in tests} == {
        line.split('"op_id":"')[1].split('"')[0] for line in (run / "manifest.jsonl").read_text().splitlines()[1:]
    }
    for place in ("report.html", "opscope.sqlite", f"run       {run.relative_to(hostile.folder)}"):
        assert place in done.out


@pytest.mark.slow
def test_hostile_folder_on_the_path_and_processes_stay_light(hostile: Place, results: Counts) -> None:
    script = "import sys, pytest; sys.path.insert(0, ''); code = pytest.main(sys.argv[1:]); "
    script += "print('loaded:', [m for m in ('jax', 'jaxlib', 'numpy', 'xdsl') if m in sys.modules]); sys.exit(code)"
    done = hostile.run("python", "-c", script, *hostile.sweep("-q")[1:])
    assert done.code == 0, done.out + done.err
    said, _, loaded = done.out.rpartition("loaded: ")
    assert loaded == "[]\n"
    assert set(results(said)) == {"passed"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["null", "reference"])
def test_two_workers_give_the_records_of_one(place: Place, results: Counts, backend: str) -> None:
    one, two = (place.pytest("--no-cache", *words, backend=backend) for words in ((), ("-n", "2")))
    assert (one.code, two.code) == (0, 0), two.out + two.err
    assert results(one.out) == results(two.out)
    first, second = ({t["op_id"]: t for t in place.records(run)} for run in place.runs())
    assert [path.stem for path in (place.runs()[1] / "journal").iterdir()] == ["main"]
    assert first.keys() == second.keys()
    for op_id, test in first.items():
        stable = {name for name in test if name not in VOLATILE | {"digest"}}  # the digest is the line's
        assert {n: test[n] for n in stable} == {n: second[op_id][n] for n in stable}


OF_ANOTHER_SOURCE = """
import sys, types, pytest
passes = types.ModuleType("opscope.base.passes._passes")
passes.SOURCE = "the digest of the file before it was pulled"
sys.modules[passes.__name__] = passes
code = pytest.main(sys.argv[1:])
print("--op-by-op alone")
sys.exit(code or pytest.main(["--op-by-op"]))
"""


@pytest.mark.slow
def test_lists_without_writing_and_says_that_compiled_passes_are_not_used(place: Place) -> None:
    _, *sweep = place.sweep("--collect-only")
    both = place.run("python", "-P", "-c", OF_ANOTHER_SOURCE, *sweep)
    assert both.code == 0, both.out + both.err
    listed, _, alone = both.out.partition("--op-by-op alone")
    assert len(re.findall(rf"^ *<\w+ (?:{MODEL}::)?stablehlo\.", listed, re.MULTILINE)) > 10
    assert (
        f"passes over arrays: NumPy (compiled from another _passes.c; try {install_command()})" in listed.splitlines()
    )
    assert not place.runs()
    assert MODEL in alone


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_plugin_that_shuffles_tests_changes_no_order(place: Place, workers: tuple[str, ...]) -> None:
    pytest.importorskip("pytest_randomly")
    done = place.pytest("--randomly-seed=1", "-v", *workers, PYTEST_ADDOPTS="-p no:hypothesispytest -p no:benchmark")
    assert done.code == 0, done.out + done.err
    lines = [line for line in done.lines if "PASSED" in line]
    ran = [re.search(r"::\S+\[(\w+)\]", line)[1] for line in lines]
    rows = (place.runs()[-1] / "manifest.jsonl").read_text().splitlines()[1:]
    assert ran == [json.loads(row)["op_id"] for row in rows]
    assert "randomly-seed" not in done.out


NET = """func.func @main(%x: tensor<4x4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = stablehlo.tanh %0 : tensor<4x4xf32>
  %2 = stablehlo.abs %1 : tensor<4x4xf32>
  %3 = stablehlo.negate %2 : tensor<4x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}"""


def test_selection_skips_the_rest(place: Place, picky: str, results: Counts) -> None:
    (place.folder / "net.mlir").write_text(NET)
    sweep = ("pytest", "--model", "net.mlir", "--op-by-op", "--backend", "null", "--no-report")
    done, by_name, no_op, none, some, refused = place.one_after_another(
        (*sweep, "-k", "matmul or reduce", "-q"),
        (*sweep, "--ops", "dot_gen*"),
        (*sweep, "--ops", "dot_gem*"),
        (*sweep, "-k", "nothing"),
        (*sweep, "--ops", "dot_gen*", "--ops", "dot_gem*"),
        (*sweep, "--ops", "dot_gen*", "--backend", picky),
    )
    assert refused.code == 1
    assert "compile_failed at compile: no room for a dot" in refused.out
    assert done.code == by_name.code == 0
    assert no_op.code == 2
    assert "--ops: expected the name, family or id of an op of the run, got 'dot_gem*'; try dot_general" in no_op.err
    assert none.code == 5
    assert some.code == 5, "one of two patterns selected nothing"
    wrong = "--ops: expected the name, family or id of an op of the run, got 'dot_gem*'; try dot_general"
    assert some.out.count(wrong) == 2, "before the ops run, and below their results"
    kinds, names, _, both, _ = (place.records(run) for run in place.runs())
    counts = results(done.out)
    assert counts["deselected"] > counts["passed"] > 0
    ran = [t for t in kinds if t["status"] == "stopped"]
    assert {t["op_kind"] for t in ran} == {"matmul", "reduce"}
    assert len(ran) == counts["passed"]
    assert [t["status"] for t in both] == [t["status"] for t in names], "what the other pattern names has run"
    assert Counter(t["status"] for t in kinds)["skipped"] == counts["deselected"]
    assert "opscope:" not in done.out, "-q is quiet"
    assert not (place.runs()[0] / "report.html").exists()
    assert not (place.folder / ".opscope" / "opscope.sqlite").exists()
    assert {t["op_name"] for t in names if t["status"] != "skipped"} == {"stablehlo.dot_general"}
    assert {t["error_message"] for t in names if t["status"] == "skipped"} == {"deselected"}


@pytest.mark.slow
def test_failures_then_last_failed_then_one_again(place: Place, picky: str, results: Counts) -> None:
    done = place.pytest(backend=picky)
    assert done.code == 1
    failed = [t for t in place.records() if t["status"] == "compile_failed"]
    assert results(done.out)["failed"] == len(failed) > 1
    assert "Traceback" not in done.out
    for test in failed:
        assert test["repro"] in done.out
        assert (place.runs()[-1] / test["artifact"]).read_text() == "no room for a dot\n\nthe whole story\n"
    assert f"compile_failed at compile: {failed[0]['error_message']}" in done.out

    again = place.pytest("--lf", "-q", backend=picky)
    assert again.code == 1
    assert results(again.out)["failed"] == len(failed)
    assert results(again.out)["deselected"] == len(place.records()) - len(failed)

    line = next(line for line in done.lines if failed[0]["op_id"] in line and line.startswith("again: pytest "))
    shown = line.removeprefix("again: ")
    for words, folder in ((failed[0]["repro"].split(), place.folder.parent), (shown.split(), place.folder)):
        first = dataclasses.replace(place, folder=folder).run(*words, "-q", "--no-report")
        assert first.code == 1
        assert results(first.out)["failed"] == 1
        assert "Run again (1)" in first.out
        answer = folder / ".opscope" / "runs"
        (of_again,) = [run for run in answer.glob("*-again+*") if (run / "run.json").is_file()]
        options = json.loads((of_again / "run.json").read_text())["origin"]["options"]
        ran = [t["op_id"] for t in place.records(of_again) if t["status"] != "skipped"]
        assert ran == options["answers"]["ops"] == [failed[0]["op_id"]]
    assert {t["attempt"] for t in place.records(place.runs()[0])} == {1}, "what a run says stays as it is"


@pytest.mark.slow
@pytest.mark.parametrize(("flag", "most"), [(("-x",), 1), (("--maxfail", "3"), 3)])
@pytest.mark.parametrize("lanes", [(), ("-n", "3")])
def test_stops_after_as_many_failures_as_are_asked_for(
    place: Place, picky: str, flag: tuple[str, ...], most: int, lanes: tuple[str, ...]
) -> None:
    done = place.pytest(*flag, *lanes, backend=picky)
    assert done.code == 1
    assert re.search(rf"\b{most} failed", done.lines[-1]), done.lines[-1]


REFUSED = (
    (("--tx", "ssh=host"), "--tx: expected popen or N*popen, got 'ssh=host'; try --cluster tcp://HOST:PORT"),
    (("--dist", "each", "--tx", "2*popen"), "--dist: expected each op once, got 'each'"),
    (("-n", "2", "--rsyncdir", "x"), "--rsyncdir: expected none with --op-by-op"),
    (("-n", "2", "--px", "id=1//popen"), "--px: expected none with --op-by-op"),
)


@pytest.mark.slow
def test_what_xdist_would_do_elsewhere_is_refused_with_the_way_to_do_it(place: Place) -> None:
    for words, said in REFUSED:
        done = place.pytest(*words)
        assert (done.code, said in done.err, place.runs()) == (2, True, []), done.out + done.err


TALKS = """
import time
from opscope import Backend, Stage, Target

class Talks(Backend):
    name = "talks"
    stages = (Stage.COMPILE,)

    def target(self, options):
        return Target(card_type="none", float_format=None, math_fidelity="exact")

    def available(self):
        return None

    def climb(self, stage, job):
        print("an op", flush=True)  # into the log of its lane
        time.sleep(0.1)
"""


@pytest.mark.slow
def test_xdists_options_say_how_many_lanes_there_are(place: Place) -> None:
    """Whoever says it: the option, a project's ini file, a variable or a hook of its conftest."""
    (place.folder / "pytest.ini").write_text("[pytest]\naddopts = -n 2 --dist loadfile\n")
    (place.folder / "conftest.py").write_text("def pytest_xdist_auto_num_workers(config):\n    return 4\n")
    (place.folder / "talks.py").write_text(TALKS)
    for words, variables, lanes in (
        ((), {}, 2),
        (("-n", "0"), {}, 1),
        (("-n", "3", "--maxprocesses", "2"), {}, 2),
        (("-n", "auto"), {}, 4),
        (("-d", "--tx", "3*popen", "-n", "0"), {}, 1),
    ):
        done = place.pytest("--no-cache", *words, backend="talks.py", **variables)
        assert done.code == 0, done.out + done.err
        assert "[gw0]" not in done.out
        logs = {path.stem for path in (place.runs()[-1] / "logs").iterdir()}
        assert logs == {"main", *(f"lane{number}" for number in range(2, lanes + 1))}, words


@pytest.mark.slow
def test_stops_at_the_first_failure(place: Place, picky: str) -> None:
    done = place.pytest("-x", "-v", backend=picky)
    assert done.code == 1
    [failed] = [t for t in place.records() if t["status"] == "compile_failed"]
    assert f"{failed['full_test_name']} FAILED" in done.out, "the id as --lf and the command line take it"
    statuses = Counter(t["status"] for t in place.records())
    assert statuses["compile_failed"] == 1
    assert statuses["not_run"] > 10
    assert "≠" not in done.out

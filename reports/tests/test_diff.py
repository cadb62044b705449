"""Two runs compared: each label by hand, rates that a larger set of models does not move, what else changed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from opscope.base.labels import QUIET, Label
from opscope.base.tests.resealed import reseal
from opscope.harness.record.errors import InputError
from opscope.harness.record.stages import Stage
from opscope.reports.commands import compare as commands
from opscope.reports.commands.compare import diff as command
from opscope.reports.commands.report import report
from opscope.reports.compare import history as history_of_times
from opscope.reports.compare import readiness
from opscope.reports.compare.diff import Diff, compare
from opscope.reports.compare.first_sentence import first_sentence, of_view
from opscope.reports.compare.history import compared
from opscope.reports.compare.isolated import labelled
from opscope.reports.compare.night_diff import diffs
from opscope.reports.compare.outcomes import RunView, from_database, from_folder
from opscope.reports.compare.run_selection import Listed, Runs, open_runs
from opscope.reports.database.reading import read_database
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import copy_of, fresh
from opscope.reports.tests.nights import START, Op, night, op_id

BAD = Op("compile_failed")
OK = Op(pcc=0.99999, cycles=1000)
VARIES = replace(OK, more={"stability": "varying"})

# What an op was and is -> its label. None: not in the run.
TABLE: dict[str, tuple[Op | None, Op | None, Label]] = {
    "new": (OK, BAD, Label.NEW),
    "new_in_model": (None, BAD, Label.NEW),
    "new_after_skip": (Op("skipped"), BAD, Label.NEW),
    "fixed": (BAD, OK, Label.FIXED),
    "fixed_no_golden": (Op("no_golden"), OK, Label.FIXED),
    "persisting": (BAD, BAD, Label.PERSISTING),
    "persisting_elsewhere": (
        Op("compile_failed", error="%1 of tensor<4x4xf32> at /a/b.cc:7"),
        Op("compile_failed", error="%92 of tensor<8x1xbf16> at /c/d.cc:9"),
        Label.PERSISTING,
    ),
    "other_text": (BAD, Op("compile_failed", error="another"), Label.REASON_CHANGED),
    "other_stage": (BAD, Op("compile_failed", failed=Stage.TTIR_TO_TTNN), Label.REASON_CHANGED),
    "other_status": (BAD, Op("timeout"), Label.REASON_CHANGED),
    "split": (Op("unsplittable"), Op("unsplittable"), Label.PERSISTING),
    "unsplit": (OK, Op("unsplittable"), Label.NEW),
    "pcc": (OK, Op(pcc=0.998, cycles=1000), Label.PCC_DROP),
    "pcc_tenfold": (Op(pcc=0.999999), Op(pcc=0.99998), Label.PCC_DROP),
    "pcc_noise": (Op(pcc=0.9999999), Op(pcc=0.9999991), Label.SAME),
    "pcc_tiny": (Op(pcc=0.9999999), Op(pcc=0.999998), Label.SAME),
    "pcc_up": (Op(pcc=0.99), OK, Label.SAME),
    "ulp": (Op(more={"largest_ulp": 0.6}), Op(more={"largest_ulp": 1.5}), Label.PCC_DROP),
    "ulp_within_one": (Op(more={"largest_ulp": 0.5}), Op(more={"largest_ulp": 1.0}), Label.SAME),
    "ulp_noise": (Op(more={"largest_ulp": 10.0}), Op(more={"largest_ulp": 10.4}), Label.SAME),
    "ulp_less": (Op(more={"largest_ulp": 255.0}), Op(more={"largest_ulp": 0.5}), Label.SAME),
    "cycles": (OK, Op(pcc=0.99999, cycles=1100), Label.SLOWER),
    "pcc_limit": (Op(pcc=0.999), Op(pcc=0.998), Label.PCC_DROP),
    "pcc_less": (Op(pcc=0.999), Op(pcc=0.9981), Label.SAME),
    "pcc_tenfold_of_nothing": (Op(pcc=0.999999), Op(pcc=0.999991), Label.SAME),
    "cycles_limit": (OK, Op(pcc=0.99999, cycles=1050), Label.SAME),
    "cycles_more": (OK, Op(pcc=0.99999, cycles=1051), Label.SLOWER),
    "cycles_inside_error": (OK, Op(pcc=0.99999, cycles=1080, more={"cycles_error": 9.0}), Label.SAME),
    "cycles_outside_error": (OK, Op(pcc=0.99999, cycles=1100, more={"cycles_error": 9.0}), Label.SLOWER),
    "cycles_bit": (OK, Op(pcc=0.99999, cycles=1040), Label.SAME),
    "faster": (OK, Op(pcc=0.99999, cycles=10), Label.SAME),
    "vanished": (OK, None, Label.VANISHED),
    "vanished_bad": (BAD, None, Label.VANISHED),
    "model_gone": (Op(uses={"other": 2}), None, Label.NEVER_RUN),
    "skipped": (OK, Op("skipped"), Label.NEVER_RUN),
    "not_reached": (BAD, Op("not_run"), Label.NEVER_RUN),
    "stopped": (OK, Op("stopped"), Label.NEVER_RUN),
    "added": (None, OK, Label.ADDED),
    "added_after_stop": (Op("stopped"), OK, Label.ADDED),
    "same": (OK, OK, Label.SAME),
    "varies": (OK, VARIES, Label.VARYING),
    "varies_and_slower": (OK, replace(VARIES, cycles=2000), Label.VARYING),
    "varies_and_less_exact": (OK, replace(VARIES, pcc=0.9), Label.PCC_DROP),
    "varies_at_first": (None, VARIES, Label.VARYING),
    "varies_still": (VARIES, VARIES, Label.SAME),
    "varies_no_more": (VARIES, OK, Label.SAME),
    "varies_and_wrong": (OK, replace(BAD, more={"stability": "varying"}), Label.NEW),
    "by_batch": (VARIES, Op(more={"stability": "batch_dependent"}), Label.BATCH_DEPENDENT),
}


@pytest.fixture
def nights(tmp_path: Path) -> tuple[Path, Path]:
    early = night(tmp_path, 1, {name: row[0] for name, row in TABLE.items() if row[0]})
    late = night(
        tmp_path, 2, {name: row[1] for name, row in TABLE.items() if row[1]}, origin={"versions": {"jaxlib": "0.11.0"}}
    )
    return early, late


@pytest.fixture
def comparison(nights: tuple[Path, Path]) -> Diff:
    return compare(*map(from_folder, nights))


def test_every_op_has_the_label_of_the_table(comparison: Diff) -> None:
    labels = {row.op_id: row.label for row in comparison.rows}
    assert labels == {op_id(name): label for name, (_, _, label) in TABLE.items()}
    assert sum(comparison.counts.values()) == len(TABLE) == len(comparison.rows)


def test_two_nights_of_a_database_have_the_labels_of_the_table(nights: tuple[Path, Path], tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    for folder in nights:
        publish(folder, url)
    with read_database(url) as connection:
        rows = connection.execute(sa.text("SELECT op_id, label FROM dashboard_two_nights")).all()
    listed = {op_id(name): str(label) for name, (_, _, label) in TABLE.items() if label not in QUIET}
    assert {row.op_id: row.label for row in rows} == listed


def test_a_row_names_models_reasons_and_numbers(comparison: Diff) -> None:
    rows = {row.op_name: row for row in comparison.rows}
    gone = rows["stablehlo.model_gone"]
    assert (gone.models, gone.uses, gone.note) == (("other",), 2, "its models are not in the later run")
    drop = rows["stablehlo.pcc"]
    assert (drop.pcc_a, drop.pcc_b, drop.note) == (0.99999, 0.998, "1 - PCC: 1.0e-05 before, 2.0e-03 now")
    assert rows["stablehlo.ulp"].note == "at most 0.6 ulp before, 1.5 now"
    changed = rows["stablehlo.other_stage"]
    assert (changed.status_a, changed.note) == ("compile_failed", "compile_failed at stablehlo-to-ttir before")
    assert rows["stablehlo.skipped"].note == "skipped"
    assert rows["stablehlo.unsplit"].error_b == "it broke"


def test_database_and_folders_give_the_same_diff(nights: tuple[Path, Path], tmp_path: Path, comparison: Diff) -> None:
    url = fresh(tmp_path / "db.sqlite")
    for folder in nights:
        publish(folder, url)
    with read_database(url) as connection:
        again = compare(from_database(connection, "night01"), from_database(connection, "night02"))
    assert again.rows == comparison.rows
    assert (again.rates, again.clusters, again.changes) == (comparison.rates, comparison.clusters, comparison.changes)


def test_an_outcome_has_all_that_a_record_says(tmp_path: Path) -> None:
    more = {"crash_kind": "SIGSEGV", "artifact": "artifacts/x/e.txt", "expected": "notyet: here", "flaky": True}
    right = Op(uses={"m": 3, "n": 1}, pcc=0.5, cycles=7, compile_ms=20.0, more={"l1_peak_bytes": 64})
    folder = night(tmp_path, 1, {"bad": Op("crashed", more=more), "right": right, "lost": Op("unsplittable")})
    url = fresh(tmp_path / "db.sqlite")
    publish(folder, url)
    with read_database(url) as connection:
        views = [from_folder(folder), from_database(connection, "night01")]
    for view in views:
        bad, good, lost = (view.ops[op_id(name)] for name in ("bad", "right", "lost"))
        assert (bad.op_name, bad.types, bad.status) == (
            "stablehlo.bad",
            "f32[8,8] -> f32[8,8]",
            "crashed",
        )
        assert (bad.stage, bad.failed_stage, bad.crash) == ("split", "stablehlo-to-ttir", "SIGSEGV")
        assert (bad.error, bad.artifact, bad.expected, bad.flaky) == ("it broke", *list(more.values())[1:])
        assert (bad.bad, bad.attempted, bad.compile_seconds, bad.uses) == (True, True, 0.0, 1)
        assert (good.pcc, good.cycles, good.l1_peak_bytes, good.compile_seconds) == (0.5, 7, 64, 0.02)
        assert (good.ran_on, good.uses_of, good.uses) == ("simulator", {"m": 3, "n": 1}, 4)
        assert (good.failed_stage, good.signature, good.error, good.crash, good.artifact) == ("", "", "", "", "")
        assert (good.bad, good.flaky, good.expected) == (False, False, "")
        assert (lost.status, lost.error, lost.bad, lost.op_kind) == ("unsplittable", "it broke", True, "other")


def test_a_run_of_another_workflow_has_not_the_ops_that_it_lacks(tmp_path: Path) -> None:
    a = from_folder(night(tmp_path, 1, {"gone": OK, "stays": OK}))
    options = {"dtype": "float32", "seed": 0, "workflow": "full"}
    b = from_folder(night(tmp_path, 2, {"stays": BAD}, origin={"options": options}))
    labels = {row.op_name: (row.label, row.note) for row in compare(a, b).rows}
    assert labels == {
        "stablehlo.gone": (Label.NEVER_RUN, "the later run is of workflow full"),
        "stablehlo.stays": (Label.NEW, ""),
    }


def test_runs_alone_and_in_a_model_say_which_folder_is_missing(tmp_path: Path) -> None:
    alone, again = (from_folder(night(tmp_path, number, {"add": OK})) for number in (1, 2))
    whole = from_folder(night(tmp_path, 3, {"add": OK}, origin={"options": {"workflow": "full"}}))
    assert labelled(compare(alone, again), tmp_path) == compare(alone, again)
    for pair in ((alone, whole), (whole, alone)):
        notes = compare(*pair).notes
        assert labelled(compare(*pair), tmp_path).notes == (*notes, "no op changes its verdict when it runs alone")
        for gone in pair:
            away = [replace(view, place="database", run_id="lost") if view is gone else view for view in pair]
            said = "verdicts alone and in a model are not compared, because the run folder of lost is missing"
            assert labelled(compare(*away), tmp_path).notes == (*notes, said)
        # Where a view is the database's, the folder is looked for below the root of all runs.
        published = [replace(view, place="database") for view in pair]
        assert labelled(compare(*published), tmp_path).notes == labelled(compare(*pair), tmp_path).notes


def test_failures_of_one_cause_are_one_cluster(comparison: Diff) -> None:
    first = {row.op_name: row.cluster for row in comparison.rows}
    one = next(cluster for cluster in comparison.clusters if cluster.cluster == first["stablehlo.new"])
    # Every row of the table that is refused with `it broke` at the default stage, in the later run or, if right or
    # absent there, in the earlier one; what ended otherwise has a cause of its own.
    assert first["stablehlo.persisting_elsewhere"] != first["stablehlo.new"]
    assert one.ops == sum(cluster == one.cluster for cluster in first.values())
    assert one.labels == {"NEW": 4, "FIXED": 1, "PERSISTING": 1, "VANISHED": 1, "NEVER-RUN": 1}


def test_more_models_move_no_like_for_like_rate(tmp_path: Path) -> None:
    small = {"a": Op(uses={"m": 3}), "b": Op("run_failed")}
    more = {name: Op("run_failed", uses={"zoo": 5}) for name in "cdef"}
    a = from_folder(night(tmp_path, 1, small))
    b = from_folder(night(tmp_path, 2, small | more))
    rates = {rate.scope: rate for rate in compare(a, b).rates}
    assert rates["all"].rate_ops_a == 0.5
    assert rates["all"].rate_ops_b == 1 / 6
    assert rates["like for like"].rate_ops_a == rates["like for like"].rate_ops_b == 0.5
    assert rates["like for like"].rate_uses_a == rates["like for like"].rate_uses_b == 0.75
    assert [change.b for change in compare(a, b).changes if change.what == "models"] == ["zoo"]


def test_like_for_like_both_runs_are_weighed_by_the_later_uses(tmp_path: Path) -> None:
    a = from_folder(night(tmp_path, 1, {"a": Op(uses={"m": 1}), "b": Op("run_failed", uses={"m": 1})}))
    b = from_folder(night(tmp_path, 2, {"a": Op(uses={"m": 1}), "b": Op("run_failed", uses={"m": 3})}))
    rates = {rate.scope: rate for rate in compare(a, b).rates}
    assert (rates["all"].rate_uses_a, rates["all"].rate_uses_b) == (0.5, 0.25)
    assert (rates["like for like"].rate_uses_a, rates["like for like"].rate_uses_b) == (0.25, 0.25)


def test_places_of_execution_stay_apart(tmp_path: Path) -> None:
    host = Op(more={"ran_on": "host"})
    a, b = (from_folder(night(tmp_path, n, {"a": OK, "b": op})) for n, op in ((1, OK), (2, host)))
    rates = {(rate.scope, rate.ran_on): rate.right_ops_b for rate in compare(a, b).rates}
    assert rates == {(scope, place): 1 for scope in ("all", "like for like") for place in ("host", "simulator")}


def test_changes_of_options_and_versions_are_listed(comparison: Diff) -> None:
    changes = {change.what: (change.a, change.b) for change in comparison.changes}
    assert changes["version jaxlib"] == ("0.10.2", "0.11.0")
    assert changes["revision"] == ("01" * 6, "02" * 6)
    assert changes["models"] == ("other", "")
    assert "arch" not in changes


def under(view: RunView, **conditions: str) -> RunView:
    """The run, under these conditions and others that both runs have; of one commit, in a cache of its own, and asked
    for models and a share of its own."""
    options = view.origin["options"] | {
        "conditions": {"processor": "P", "simulator": "1"} | conditions,
        "cache_dir": view.run_id,
        "models": [f"{view.run_id}.mlir"],
        "shard": f"{len(conditions)}/2",
    }
    return replace(
        view, origin={**view.origin, "revision": "a", "backend_revision": "a", "compiler": "", "options": options}
    )


def test_where_only_conditions_changed_each_new_failure_says_so(tmp_path: Path) -> None:
    ops = {
        "ok": (OK, OK),
        "worse": (OK, BAD),
        "less": (OK, Op(pcc=0.998)),
        "other": (BAD, Op("timeout")),
        "first": (None, BAD),
    }
    a, b = (
        from_folder(night(tmp_path, n + 1, {name: pair[n] for name, pair in ops.items() if pair[n]})) for n in (0, 1)
    )
    a, b = under(a), under(b, XLA_FLAGS="--xla_cpu_max_isa=AVX")
    both = compare(a, b)
    assert [(change.what, change.a, change.b) for change in both.changes] == [
        ("condition XLA_FLAGS", None, "--xla_cpu_max_isa=AVX")
    ]
    notes = {row.op_name.removeprefix("stablehlo."): row.note for row in both.rows}
    assert notes["worse"] == "only XLA_FLAGS changed"
    assert notes["less"].endswith("; only XLA_FLAGS changed")
    assert notes["other"].endswith("; only XLA_FLAGS changed")
    assert (notes["ok"], notes["first"]) == ("", "first attempt")
    said = first_sentence("head", [of_view(b, both)])
    assert said.headline == first_sentence("head", [replace(of_view(b, both), conditions=())]).headline
    assert said.about.endswith("with the same commit a, under other conditions: XLA_FLAGS")
    newer = replace(b, origin={**b.origin, "versions": {"jaxlib": "0.11.0"}})
    assert not any("only" in row.note for row in compare(a, newer).rows), "the new version may be why"
    silent = replace(b, origin={**b.origin, "options": {}})
    assert compare(a, silent).conditions == (), "a run of before says nothing of its conditions"


def test_cycles_of_another_simulator_make_nothing_slower(tmp_path: Path) -> None:
    slow = {"sim": Op(pcc=0.99999, cycles=5000), "card": Op(pcc=0.99999, cycles=5000, more={"ran_on": "silicon"})}
    fast = {"sim": OK, "card": Op(pcc=0.99999, cycles=1000, more={"ran_on": "silicon"})}
    a, b = (under(from_folder(night(tmp_path, n, ops))) for n, ops in ((1, fast), (2, slow)))
    assert labels(compare(a, b)) == {"sim": Label.SLOWER, "card": Label.SLOWER}
    other = compare(a, under(b, simulator="2"))
    assert labels(other) == {"sim": Label.SAME, "card": Label.SLOWER}
    assert "cycles of the simulator are not compared: its model is another one than in the earlier run" in other.notes


def labels(of: Diff) -> dict[str, str]:
    return {row.op_name.removeprefix("stablehlo."): row.label for row in of.rows}


def test_another_version_of_the_plugin_is_a_change(tmp_path: Path) -> None:
    a, b = (from_folder(night(tmp_path, n, {"a": OK})) for n in (1, 2))
    for view, version in ((a, "0.1.2"), (b, "0.1.3")):
        view.origin["options"]["versions"] = {"tt": {"jax-tt-plugin": version, "PJRT API": "0.114"}}
    what = {change.what: (change.a, change.b) for change in compare(a, b).changes}
    assert what["version jax-tt-plugin"] == ("0.1.2", "0.1.3")
    assert not [name for name in what if "PJRT" in name or name.endswith(" versions")]


def test_flaky_and_known_failures_fail_no_gate(tmp_path: Path) -> None:
    ops = {
        "known": Op("run_failed", more={"expected": "notyet: no kernel"}),
        "flaky": Op("crashed", more={"flaky": True}),
    }
    a = from_folder(night(tmp_path, 1, dict.fromkeys(ops, OK)))
    b = from_folder(night(tmp_path, 2, ops))
    diff = compare(a, b)
    assert dict(diff.counts) == {"NEW": 2}
    assert diff.news == 0
    assert compare(a, from_folder(night(tmp_path, 3, {"known": BAD, "flaky": OK}))).news == 1


# --- which runs


@pytest.fixture(scope="module")
def six_nights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six nights: one op compiles slower from the fifth on, one had a slow night, one fails at the end."""
    folder = tmp_path_factory.mktemp("six-nights")
    url = fresh(folder / "db.sqlite")
    for number in range(1, 7):
        slow = 20.0 if number < 5 else 40.0
        spike = 90.0 if number == 6 else 20.0
        ops = {
            "slow": Op(compile_ms=slow + number % 2),
            "spike": Op(compile_ms=spike + number % 3),
            "breaks": OK if number < 6 else BAD,
        }
        publish(night(folder, number, ops), url)
    return url


@pytest.fixture
def history(six_nights: str, tmp_path: Path) -> str:
    """The six nights, in a database of the test's own."""
    return copy_of(six_nights, tmp_path / "db.sqlite")


def test_a_compile_time_is_slower_once_a_second_run_confirms_it(history: str) -> None:
    with open_runs(history) as runs:
        last = compared(runs)[0]
        before = compared(runs, "night04", "night05")[0]
        across = compared(runs, "night02", "night06")[0]
    for comparison in (last, across):
        assert {row.op_name: row.label for row in comparison.rows} == {
            "stablehlo.breaks": Label.NEW,
            "stablehlo.slow": Label.SLOWER,
            "stablehlo.spike": Label.SAME,
        }
        assert next(row.note for row in comparison.rows if row.label == Label.SLOWER).endswith("ms since night05")
    assert dict(before.counts) == {"SAME": 3}  # one slow run proves nothing


def test_a_step_is_reported_once(history: str, tmp_path: Path) -> None:
    publish(night(tmp_path, 7, {"slow": Op(compile_ms=41.0)}), history)
    with open_runs(history) as runs:
        assert {row.op_name: row.label for row in compared(runs)[0].rows}["stablehlo.slow"] == Label.SAME


GROWTH: dict[str, tuple[tuple[float, ...], Label]] = {
    # 1.3 times the run before is looked at, and is slower if its level is 1.25 times the one before.
    "looked_at": ((20, 20, 19, 20, 20, 26.1, 26.1), Label.SLOWER),
    "not_looked_at": ((20, 20, 19, 20, 20, 26, 26), Label.SAME),
    "on_its_level": ((20, 20, 20, 22, 22, 27.4, 27.4), Label.SAME),
    # A growth of 5 ms is noise.
    "noise": ((10, 10, 10, 10, 10, 15, 15), Label.SAME),
    "more_than_noise": ((10, 10, 10, 10, 10, 15.1, 15.1), Label.SLOWER),
    # Fewer than five runs are no history.
    "four": ((0, 0, 0, 20, 20, 40, 40), Label.SAME),
    "five": ((0, 0, 20, 20, 20, 40, 40), Label.SLOWER),
    # What comes with the run before is measured against the one before that.
    "high_before": ((20, 20, 20, 31, 20, 40, 40), Label.SLOWER),
    "long": ((500, 500, 500, 500, 500, 800, 800), Label.SLOWER),
    "fast_between": ((100, 100, 100, 20, 20, 110, 110), Label.SLOWER),
}
"""Op -> its compile times in ms (0: not in the run) and what the last run says of it."""

ACROSS: dict[str, tuple[tuple[float, ...], str]] = {
    # Between the fifth run and the seventh: a step that came with the fifth was told before.
    "came_before": ((100, 100, 100, 100, 151, 200, 200), ""),
    "came_after": ((100, 100, 100, 100, 140, 200, 200), "compile time 100.0 -> 200.0 ms since night06"),
    # A run that took no time at all says nothing.
    "no_time": ((100, 100, 100, 100, None, 200, 200), "compile time 100.0 -> 200.0 ms since night06"),
}
"""Op -> its compile times (None: zero) and what the seventh run says of it beside the fifth."""


FAST = (20, 20, 20, 20, 40, 40, 20, 40, 40)
"""Compile times in ms of an op on a higher level, which is fast once."""


@pytest.fixture(scope="module")
def nine_nights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Nine nights of ops whose times and cycles grow, each by itself: of FAST, of GROWTH and ACROSS in the first seven,
    of CYCLES in the first six."""
    folder = tmp_path_factory.mktemp("nine-nights")
    url = fresh(folder / "db.sqlite")
    for number in range(1, 10):
        ops = {"fast": Op(compile_ms=FAST[number - 1] + number % 2)}
        if number <= 7:
            levels = {name: each[number - 1] for name, (each, _) in (GROWTH | ACROSS).items()}
            ops |= {name: Op(compile_ms=level or 0.0) for name, level in levels.items() if level != 0}
        if number <= 6:
            cycles = 1000 if number < 5 else 1400
            ops["silicon"] = Op(cycles=cycles + number % 2, more={"ran_on": "device"})
            ops["simulator"] = Op(cycles=cycles)
            for name, (of_op, _) in CYCLES.items():
                ops[f"cycles_{name}"] = Op(cycles=of_op[number - 1], more={"ran_on": "device"})
        publish(night(folder, number, ops), url)
    return url


def test_a_fast_run_on_a_higher_level_makes_the_next_no_step(nine_nights: str) -> None:
    with open_runs(nine_nights) as runs:
        after, across = (labels(compared(runs, name, "night09")[0])["fast"] for name in ("night07", "night03"))
    assert (after, across) == (Label.SAME, Label.SLOWER)


def test_growth_that_counts(nine_nights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_runs(nine_nights) as runs:
        newest = compared(runs, "night06", "night07")[0]
        comparison = {row.op_name.removeprefix("stablehlo."): row for row in newest.rows}
        across = {row.op_name.removeprefix("stablehlo."): row for row in compared(runs, "night05", "night07")[0].rows}
        far = {row.op_name.removeprefix("stablehlo."): row for row in compared(runs, "night03", "night07")[0].rows}
        fewer = compared(runs, "night03", "night04")[0].notes, compared(runs, "night04", "night05")[0].notes
        # A history of at most five runs is enough for those of the last five, and none between others.
        monkeypatch.setattr(history_of_times, "RUNS", 5)
        short = compared(runs, "night06", "night07")[0], compared(runs, "night02", "night07")[0]
    assert {name: comparison[name].label for name in GROWTH} == {name: label for name, (_, label) in GROWTH.items()}
    assert comparison["long"].note == "compile time 500.0 -> 800.0 ms since night06"
    assert {name: across[name].note for name in ACROSS} == {name: note for name, (_, note) in ACROSS.items()}
    # Runs between two that are compared do not count: a tenth more than the first of the two is no growth.
    assert far["fast_between"].label == Label.SAME
    assert [bool(notes) for notes in fewer] == [True, False]
    assert [len(diff.notes) for diff in short] == [0, 1]
    assert {row.op_name for row in short[0].rows if row.label == Label.SLOWER} >= {"stablehlo.five", "stablehlo.long"}


CYCLES: dict[str, tuple[tuple[int, ...], str]] = {
    # Just 1.3 times the run before is not looked at; a level of just 1.25 times the one before is not slower.
    "looked_at_limit": ((1000, 1000, 1000, 1000, 1300, 1300), ""),
    "looked_at": ((1000, 1000, 1000, 1000, 1301, 1301), "cycles 1000 -> 1301 cycles since night05"),
    "level_limit": ((1000, 1000, 1000, 950, 1250, 1250), ""),
    "level": ((1000, 1000, 1000, 950, 1251, 1251), "cycles 1000 -> 1251 cycles since night05"),
    # Nor is a growth of one cycle.
    "one_cycle": ((2, 2, 2, 1, 3, 3), ""),
    "two_cycles": ((2, 2, 2, 2, 4, 4), "cycles 2 -> 4 cycles since night05"),
}
"""Op on silicon -> its cycles and what the sixth run says of it."""


def test_cycles_of_silicon_have_a_history_and_those_of_the_simulator_need_none(nine_nights: str) -> None:
    with open_runs(nine_nights) as runs:
        notes = {row.op_name: (row.label, row.note) for row in compared(runs, "night05", "night06")[0].rows}
        first = {row.op_name: (row.label, row.note) for row in compared(runs, "night04", "night05")[0].rows}
    assert notes["stablehlo.silicon"] == (Label.SLOWER, "cycles 1000 -> 1400 cycles since night05")
    assert notes["stablehlo.simulator"] == (Label.SAME, "")
    assert first["stablehlo.silicon"][0] == Label.SLOWER
    assert first["stablehlo.simulator"] == (Label.SLOWER, "40 % more cycles")
    assert {name: notes[f"stablehlo.cycles_{name}"][1] for name in CYCLES} == {
        name: note for name, (_, note) in CYCLES.items()
    }


def test_the_newest_comparable_runs_are_taken(history: str, tmp_path: Path) -> None:
    other = {"options": {"dtype": "float32", "seed": 0, "math_fidelity": "LoFi"}}
    publish(night(tmp_path, 7, {"slow": OK}, origin=other), history)
    publish(night(tmp_path, 8, {"slow": OK}, arch="p150"), history)
    publish(night(tmp_path, 9, {"slow": OK}, outcome="running"), history)
    publish(night(tmp_path, 10, {"else": Op(uses={"another": 1})}), history)
    with open_runs(history) as runs:
        diff = compared(runs)[0]
        named = compared(runs, "night03")[0]
    assert (diff.a.run_id, diff.b.run_id) == ("night05", "night06")
    assert diff.notes[-1] == "the newest run, night10, has no comparable one before it"
    assert (named.a.run_id, named.b.run_id) == ("night02", "night03")


def test_a_run_follows_an_earlier_one_of_its_series_with_a_model_in_common() -> None:
    late = Listed("late", START, "xla", frozenset("ab"))
    early = Listed("early", START - timedelta(hours=1), "xla", frozenset("bc"))
    assert late.follows(early)
    assert not early.follows(late)
    for change in ({"started": START}, {"series": "other"}, {"models": frozenset("c")}):
        assert not late.follows(replace(early, **change))


def test_without_a_database_the_folders_are_the_runs(tmp_path: Path) -> None:
    """The newest first, of those that started together the one of most models; those that go on are left out."""
    together = {"started": START + timedelta(days=1)}
    night(tmp_path, 1, {"add": OK})
    night(tmp_path, 2, {"add": OK, "sub": Op(uses={"n": 1})}, **together)
    night(tmp_path, 3, {"add": OK}, outcome="running")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text("no run")
    runs = Runs(None, tmp_path)
    assert [run.run_id for run in runs.listed()] == ["night02", "night01"]
    assert runs.newest().models == {"m", "n"}
    assert runs.read(runs.newest()).place == str(tmp_path / "night02")
    assert runs.view("night01").run_id == "night01"
    assert runs.before("night02", START + timedelta(days=3), runs.newest().series, ["m"]) == runs.listed()[1:]
    night(tmp_path, 4, {"add": OK})
    assert [run.run_id for run in runs.pair()] == ["night02", "night04"]
    with pytest.raises(InputError) as caught:
        Runs(None, tmp_path / "none").newest()
    assert str(caught.value) == "RUN: expected a run, got none; try pytest --model mnist_mlp --op-by-op"
    with pytest.raises(InputError, match=r"two comparable runs, got none; try pytest --model mnist_mlp --op-by-op$"):
        Runs(None, tmp_path / "none").pair()


def test_runs_that_share_nothing_are_named_to_be_compared_all_the_same(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    for number, arch in ((1, "n150"), (2, "p150")):
        publish(night(tmp_path, number, {"slow": OK}, arch=arch), url)
    with open_runs(url) as runs, pytest.raises(InputError) as caught:
        compared(runs)
    message = "two comparable runs, got 2 runs, no two of which share backend, board, options and a model"
    assert str(caught.value) == f"opscope diff: expected {message}; try opscope diff night01 night02"


def test_a_models_history_is_its_newest_runs_the_oldest_first(history: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "HISTORY", 3)
    with open_runs(history) as runs:
        view = runs.view("night06")
        rows = readiness.history(runs, view, view.models[0])
    assert [row.run_id for row in rows] == ["night04", "night05", "night06"]
    counts = [(row.ops, row.missing, row.not_attempted, row.right) for row in rows]
    assert counts == [(3, 0, 0, 3), (3, 0, 0, 3), (3, 1, 0, 2)]


# --- the command


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return 2, str(done.exception)
    return done.exit_code, done.output


def test_the_command_prints_rows_and_json(nights: tuple[Path, Path]) -> None:
    code, text = run(*map(str, nights))
    assert code == 0
    assert "stablehlo.pcc_tenfold" in text
    assert "REASON-CHANGED (3)" in text
    code, text = run(*map(str, nights), "--json", "--check")
    answer = json.loads(text)
    assert code == 1
    assert answer["news"] == 13
    assert len(answer["rows"]) == len(TABLE)
    assert {row["label"] for row in answer["rows"]} == {*map(str, Label)} - {"FIRST"}


def test_missing_runs_are_one_line(history: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, text = run("night1", "night06", "--db", history)
    assert (code, text[:60]) == (2, "RUN_A: expected a run folder or the id of a published run, g")
    assert "try night01" in text
    known = text.partition("; try ")[2].strip().split(", ")
    assert len(run("zzz", "zzz", "--db", history)[1].partition("; try ")[2].split(", ")) == 3 >= len(known)
    assert run("--db", f"sqlite:///{tmp_path}/none.sqlite")[1].startswith("--db: expected a results database, got no")
    assert run("night01", "--db", history)[1].startswith("opscope diff: expected an earlier run")
    assert run()[1].startswith("opscope diff: expected two comparable runs, got none")
    (tmp_path / "empty").mkdir()
    assert "got a folder without run.json" in run("empty", "empty")[1]


# --- runs of several backends


def on_two(folder: Path, number: int, changed: str) -> Path:
    """A run on two backends: `add` is right on both, `exp` is right on `changed` alone."""
    run_dir = night(folder, number, {"add": OK, "exp": Op("run_failed")}, backend="reference,xla")
    journal = run_dir / "journal" / "main.jsonl"
    other = journal.parent / "another.jsonl"
    reseal(journal, lambda line: line.replace('"backend":"reference"', '"backend":"xla"'), other)
    right = journal if changed == "reference" else other
    reseal(right, lambda line: line.replace("run_failed", "success").replace('"it broke"', '""'), right)
    return run_dir


@pytest.mark.parametrize("published", [False, True])
def test_each_backend_of_two_runs_is_compared_with_itself(tmp_path: Path, published: bool) -> None:
    """The verdict of one backend does not stand for that of another, whose record came later."""
    url = f"sqlite:///{tmp_path / 'r.sqlite'}"
    names = [str(on_two(tmp_path, number, changed)) for number, changed in ((1, "reference"), (2, "xla"))]
    if published:
        for name in names:
            publish(Path(name), url)
        names = ["night01", "night02"]
    with open_runs(url if published else None) as runs:
        diffs_of_backends = compared(runs, *names)
        labels = {(diff.b.backend, row.op_name): str(row.label) for diff in diffs_of_backends for row in diff.rows}
        assert labels == {
            ("reference", "stablehlo.add"): "SAME",
            ("reference", "stablehlo.exp"): "NEW",
            ("xla", "stablehlo.add"): "SAME",
            ("xla", "stablehlo.exp"): "FIXED",
        }
        assert [runs.view(name).ops[op_id("exp")].bad for name in names] == [True, True], "one that is wrong speaks"
    if published:
        code, printed = run("xla", "reference", "--db", url, "--json")
        assert code == 0
        document = json.loads(printed)
        assert (document["a"]["backend"], document["b"]["backend"]) == ("xla", "reference")
        assert document["counts"] == {"NEW": 1, "SAME": 1}
        code, printed = run(*names, "--db", url, "--json")
        assert [each["b"]["backend"] for each in json.loads(printed)["series"]] == ["reference", "xla"]


@pytest.mark.parametrize("published", [False, True])
def test_what_one_backend_can_says_nothing_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: bool
) -> None:
    """A model that is whole on one backend of a run and not on the other: in every command, and on the page."""
    monkeypatch.chdir(tmp_path)
    runs = [
        on_two(tmp_path / ".opscope" / "runs", number, changed) for number, changed in ((1, "reference"), (2, "xla"))
    ]
    if published:
        for each in runs:
            publish(each, f"sqlite:///{tmp_path}/.opscope/opscope.sqlite")

    def asked(*words: str) -> list[dict[str, Any]]:
        done = CliRunner().invoke(getattr(commands, words[0]), [*words[1:], "--json"], catch_exceptions=False)
        return list(json.loads(done.output)["series"])

    newest = "night02" if published else str(runs[1])
    for words in ([], [newest]):
        assert [plan["curve"][0]["whole"] for plan in asked("unblock", *words)] == [0, 1]
    for words in ([], ["--run", newest]):
        ready = asked("readiness", "m", *words)
        assert [len(each["missing"]) for each in ready] == [1, 0]
        earlier = [[row["missing"] for row in each["history"]] for each in ready]
        assert earlier == ([[0, 1], [1, 0]] if published else [[1], [0]])
    CliRunner().invoke(report, [str(runs[1]), "-o", "page.html"], catch_exceptions=False)
    page = Path("page.html").read_text()
    assert "1 new failure, 1 cause" in page if published else "1 failing, 1 cause" in page


def test_a_backend_that_no_run_has_is_no_name(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'r.sqlite'}"
    publish(on_two(tmp_path, 1, "xla"), url)
    with open_runs(url) as runs, pytest.raises(InputError, match="expected a run folder or the id of a published run"):
        diffs(runs, "xla", "iree")

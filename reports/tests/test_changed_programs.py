"""What the compiler makes of whole models, stored with each run: table, view, `opscope diff`, a night's summary."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.harness.record.records import WHOLE_MODEL, Structure
from opscope.harness.record.store import load_run
from opscope.reports.commands.compare import diff
from opscope.reports.compare import changed_programs
from opscope.reports.compare.night_views import night_view, series_of
from opscope.reports.compare.outcomes import RunView, from_database, from_folder, from_stored
from opscope.reports.database import rows as rows_of
from opscope.reports.database.ask import ask
from opscope.reports.database.reading import read_database
from opscope.reports.nightly.verdict import MOST_PROGRAMS, compiled_otherwise
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh, record, rows, run_whole, shard_run
from opscope.reports.tests.nights import Op, night

BEFORE = Structure(
    ops={"ttnn.matmul": 4, "ttnn.rms_norm": 9, "fusion kLoop": 1},
    ahead={"ttnn.full": 8},
    fused={"ttnn.matmul silu": 4},
    memory={"ttnn.matmul": {"l1 width_sharded": 4}, "ttnn.rms_norm": {"dram": 9}},
    casts=2,
    launches=14,
    temp_bytes=1000,
    cycles={"matmul": 700, "rms_norm": 300},
)
NOW = BEFORE.model_copy(
    update={
        "ops": {"ttnn.matmul": 4, "ttnn.mean": 18, "fusion kLoop": 1},
        "fused": {},
        "memory": {"ttnn.matmul": {"dram interleaved": 1, "l1 width_sharded": 3}, "ttnn.mean": {"dram": 18}},
        "temp_bytes": 1500,
    }
)
TEXT = (
    "net: cycles 1,000 -> 1,100 (+10.00 %), temporary bytes 1,000 -> 1,500 (+50.00 %); ttnn.mean 0 -> 18, "
    "ttnn.rms_norm 9 -> 0, fused ttnn.matmul silu 4 -> 0; ttnn.matmul dram interleaved 0 -> 1, "
    "ttnn.matmul l1 width_sharded 4 -> 3"
)


def whole(structure: Structure | None, cycles: int | None = 1000) -> Op:
    return Op(uses={"net": 1}, cycles=cycles, more={"op_name": WHOLE_MODEL, "structure": structure})


def view(folder: Path, number: int, op: Op) -> RunView:
    return from_stored(load_run(night(folder, number, {"net": op}, ("net",))), "")


def test_every_number_of_a_structure_comes_back_from_its_rows(tmp_path: Path) -> None:
    run_dir = night(tmp_path, 1, {"net": whole(BEFORE), "alone": Op(uses={"net": 1})}, ("net",))
    stored = [*rows_of.structure_rows(rows_of.read(run_dir))]
    assert len({row[:6] for row in stored}) == len(stored) == 14
    assert rows_of.structure_from(row[3:] for row in stored) == BEFORE
    url = fresh(tmp_path / "db.sqlite")
    publish(run_dir, url)
    publish(run_dir, url)
    assert rows(url, "SELECT COUNT(*) FROM structures") == [(14,)]
    with read_database(url) as connection:
        published = from_database(connection, "night01").ops
    assert {op.op_name: op.structure for op in published.values()}[WHOLE_MODEL] == BEFORE
    assert published == from_stored(load_run(run_dir), "").ops


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        (whole(BEFORE), whole(NOW, 1100), TEXT),
        (whole(BEFORE), whole(BEFORE), ""),
        (whole(BEFORE), whole(BEFORE, 900), "net: cycles 1,000 -> 900 (-10.00 %)"),
        (whole(BEFORE, None), whole(BEFORE, 900), ""),
        (whole(None), whole(NOW), ""),
        (Op(more={"structure": BEFORE}), Op(more={"structure": NOW}), ""),
    ],
    ids=["changed", "equal", "cheaper", "no-price-before", "of-an-earlier-opscope", "op-alone"],
)
def test_what_changed_is_named_with_its_counts_and_its_price(tmp_path: Path, before: Op, now: Op, text: str) -> None:
    views = view(tmp_path, 1, before), view(tmp_path, 2, now)
    assert [program.text for program in changed_programs.changed_programs(*views)] == ([text] if text else [])


def test_ops_of_each_execution_stand_before_those_that_are_fused() -> None:
    old, new = Structure(ops={"x": 4}, ahead={"full": 9}, fused={"constant": 90}), Structure(ops={"x": 3})
    assert list(changed_programs.changed_counts(old, new)) == ["x", "ahead full", "fused constant"]


def test_models_that_run_before_their_ops_are_compared_too(tmp_path: Path) -> None:
    """`--op-by-op-on-fail`: in folders, as published runs, and as nights."""
    url, folders, nights = fresh(tmp_path / "db.sqlite"), [], []
    for number, program in enumerate((whole(BEFORE), whole(NOW, 1100))):
        night_record = record(number, models=("net",))
        folder = shard_run(tmp_path, night_record, number, {"add": Op("skipped", uses={"net": 1})})
        run_whole(folder, {"net": program})
        publish(folder, url)
        folders.append(folder)
        nights.append(night_record.night_id)
    with read_database(url) as connection:
        (series,) = series_of(connection, nights[0])
        sides = [
            [from_folder(folder) for folder in folders],
            [from_database(connection, folder.name) for folder in folders],
            [night_view(connection, night_id, series) for night_id in nights],
        ]
    for views in sides:
        assert [program.text for program in changed_programs.changed_programs(*views)] == [TEXT]
    done = CliRunner().invoke(diff, [*map(str, folders)], catch_exceptions=False)
    assert "Whole models of which the compiler made another program (1)" in done.output
    assert "rms_norm" in done.output


def test_long_lists_and_many_models_are_cut_and_the_dearest_stands_first(tmp_path: Path) -> None:
    many = Structure(ops={f"op{number}": 1 for number in range(9)})
    models = {f"m{number}": 1000 + number for number in range(8)}
    views = []
    for run, structure in enumerate((Structure(), many)):
        ops = {
            name: replace(whole(structure, cycles if run else 1000), uses={name: 1}) for name, cycles in models.items()
        }
        views.append(from_stored(load_run(night(tmp_path, run, ops, tuple(models))), ""))
    diff = changed_programs.changed_programs(*views)
    assert [program.model for program in diff] == ["m7", "m6", "m5", "m4", "m3", "m2", "m1", "m0"]
    assert diff[-1].text == "m0: op0 0 -> 1, op1 0 -> 1, op2 0 -> 1, op3 0 -> 1, op4 0 -> 1, op5 0 -> 1, and 3 more"
    from opscope.reports.compare.diff import compare

    problems = compiled_otherwise([("series", compare(*views))])
    assert len(problems) == MOST_PROGRAMS + 1
    assert (problems[-1].text, problems[-1].fails) == ("and 3 more models: opscope diff", False)


def test_the_view_has_each_night_beside_the_one_before(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    nights = (whole(None), whole(BEFORE), whole(NOW, 1100), whole(NOW, 1100))
    for number, op in enumerate(nights):
        publish(shard_run(tmp_path, record(number, models=("net",)), number, {"net": op}, models=("net",)), url)
    query = "SELECT name, number_before, number, cycles_before, cycles FROM dashboard_programs"
    first = rows(url, f"{query} WHERE part = 'ops' AND day = '2026-11-02' ORDER BY name")
    assert first == [
        ("fusion kLoop", None, 1, None, 1000),
        ("ttnn.matmul", None, 4, None, 1000),
        ("ttnn.mean", None, 0, None, 1000),
        ("ttnn.rms_norm", None, 9, None, 1000),
    ]
    changed = rows(url, f"{query} WHERE changed = 1 AND part = 'ops' ORDER BY name")
    assert changed == [("ttnn.mean", 0, 18, 1000, 1100), ("ttnn.rms_norm", 9, 0, 1000, 1100)]
    assert rows(url, "SELECT DISTINCT tonight FROM dashboard_programs WHERE changed = 1") == [(0,)]
    lost = "SELECT day, number, number_before FROM dashboard_programs WHERE op_on = 'net: rms_norm' AND part = 'ops'"
    assert rows(url, f"{lost} ORDER BY day")[1:] == [("2026-11-03", 0, 9), ("2026-11-04", 0, 0)]
    places = "SELECT place, number_before, number FROM dashboard_programs WHERE changed = 1 AND name = 'ttnn.matmul'"
    assert rows(url, f"{places} ORDER BY place") == [("dram interleaved", 0, 1), ("l1 width_sharded", 4, 3)]


OWN = """
from pathlib import Path

from opscope.harness.backends.reference import Reference


class Own(Reference):
    name = "own"

    def climb(self, stage, job):
        from opscope.compiler.passes.ttir_fusing.matching import RULES

        left_out = Path(__file__).with_name("left_out").read_text().split()
        for name, rules in RULES.items():
            RULES[name] = [rule for rule in rules if rule.__name__ not in left_out]
        super().climb(stage, job)
"""


@pytest.mark.slow
def test_the_next_night_says_which_fusion_a_compiler_lost(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    options = "{no_cache: true, reruns: 0, workflow: full, optimization_level: 2}"
    (tmp_path / "nightly.yaml").write_text(f"models: [llama_prefill]\nbackends: [own.py]\noptions: {options}\n")
    said = []
    for left_out in ("", "", "normalised"):
        (tmp_path / "left_out").write_text(left_out)
        command = [sys.executable, "-m", "opscope.harness.cli.main", "nightly", "nightly.yaml"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ})
        assert done.returncode == 0, done.stdout + done.stderr
        said.append(" ".join(done.stdout.split()))
    assert ["compiled otherwise" in text for text in said] == [False, False, True]
    assert "llama_prefill: cycles 1,447,229 -> 1,641,281 (+13.41 %)" in said[-1]
    assert "ttnn.mean 0 -> 9, ttnn.rms_norm 9 -> 0" in said[-1]
    found = subprocess.run(
        [sys.executable, "-m", "opscope.harness.cli.main", "diff", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    [series] = json.loads(found.stdout)["series"]
    [program] = series["programs"]
    assert program["counts"]["ttnn.rms_norm"] == [9, 0]
    answer = ask(
        f"sqlite:///{tmp_path}/.opscope/opscope.sqlite",
        "SELECT DISTINCT name FROM dashboard_programs WHERE tonight = 1 AND changed = 1 AND part = 'cycles'",
    )
    assert {row[0] for row in answer.rows} == {"add", "mean", "multiply", "rms_norm", "rsqrt"}
    (run_dir, *_) = tmp_path.glob(".opscope/runs/*")
    assert not [*run_dir.glob("artifacts/*/ir-*")], "the IR that it was read from is not kept"

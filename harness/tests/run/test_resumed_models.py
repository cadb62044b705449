"""What a run knows of models that were cut off, lost or removed: which ops are repeated, what `--resume` adds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from opscope.harness.cache import export_folder
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import unrun_test
from opscope.harness.record.records import ManifestHeader, ModelFailure, OpRow, Origin, RunRecord, Use
from opscope.harness.record.stages import ModelStatus, Status
from opscope.harness.record.store import StoredRun
from opscope.harness.run import ops_again, resume
from opscope.harness.tests import run_folder
from opscope.harness.tests.run.test_plan import request
from opscope.harness.triage import after_run, from_run

OPS = {"a": [1, 2], "b": [2, 3], "c": [4], "d": [5]}
"""The ops of each model, by their numbers; one is in two models."""


def row(number: int, *models: str, golden: bool = False) -> OpRow:
    op_id = f"{number:016x}"
    return OpRow(
        op_id=op_id,
        op_name="stablehlo.add",
        module=f"ops/{op_id}.mlirbc",
        golden=(f"values/{number}.npy",) if golden else (),
        uses=tuple(Use(model=model, path=f"main/{number}") for model in models),
    )


def header_of(cache: Path, *models: str) -> ManifestHeader:
    folders = tuple(str(cache / "exports" / model) for model in models)
    counts = {model: len(OPS[model]) for model in models}
    return ManifestHeader(models=models, export_dirs=folders, module_ops=counts, structural=dict.fromkeys(models, 0))


def exported(cache: Path, *models: str) -> None:
    """Complete exports of some models."""
    for model in models:
        folder = cache / "exports" / model
        (folder / "values").mkdir(parents=True)
        rows = [row(number, model, golden=True) for number in OPS[model]]
        export_folder.write_manifest(folder, header_of(cache, model), rows)
        export_folder.stored.seal(folder, model)


def failure(model: str, status: ModelStatus, error: str = "budget: it was at golden") -> ModelFailure:
    return ModelFailure(model=model, framework="", status=status, error=error)


def cut_run(cache: Path, run_dir: Path, **header: object) -> StoredRun:
    """A run of a, b and c, of which b was complete when it ended; nothing of d was known."""
    exported(cache, "b")
    rows = [row(1, "a"), row(2, "a", "b"), row(3, "b", golden=True), row(4, "c")]
    origin = Origin(options={"backend": "null", "models": ["a", "b", "c", "d"]})
    record = RunRecord(
        run_id="run-1", models=("a", "b", "c"), backend="null", arch="n150", started=run_folder.START, origin=origin
    )
    stored = header_of(cache, "a", "b", "c").model_copy(update=header)
    store.write_manifest(run_dir, stored, rows)
    store.write_run(run_dir, record)
    return store.load_run(run_dir)


Make = Callable[[], tuple[Sequence[str], ManifestHeader]]
CUT = failure("a", ModelStatus.NOT_RUN)
LOST = failure("c", ModelStatus.PREPARE_FAILED, "timeout")
SKIPPED = failure("d", ModelStatus.NOT_RUN, "budget: it was at its beginning")


def making(cache: Path, *models: str, failed: Sequence[ModelFailure] = ()) -> Make:
    """What makes the exports of some models, and fails to make others."""

    def make() -> tuple[Sequence[str], ManifestHeader]:
        exported(cache, *(model for model in models if not (cache / "exports" / model).exists()))
        made = header_of(cache, *(model for model in OPS if (cache / "exports" / model).exists()))
        return list(OPS), made.model_copy(update={"failed": tuple(failed)})

    return make


def never() -> tuple[Sequence[str], ManifestHeader]:
    raise AssertionError("everything is there")


def test_the_rest_of_a_run_is_that_of_a_whole_one(tmp_path: Path) -> None:
    run = cut_run(tmp_path, tmp_path / "run", failed=(CUT, SKIPPED), unfinished=("a", "c"))
    run = resume.prepared(run, making(tmp_path, "a", "c", "d"), some=False)
    assert run.header == header_of(tmp_path, "a", "b", "c", "d")
    assert run.rows == [
        row(1, "a", golden=True),
        row(2, "a", "b", golden=True),
        row(3, "b", golden=True),
        row(4, "c", golden=True),
        row(5, "d", golden=True),
    ]
    assert resume.prepared(run, never, some=False) is run


def test_of_a_run_of_some_ops_no_model_is_prepared_that_nothing_was_known_of(tmp_path: Path) -> None:
    run = cut_run(tmp_path, tmp_path / "run", failed=(CUT, SKIPPED), unfinished=("a", "c"))
    run = resume.prepared(run, making(tmp_path, "a", "c", "d"), some=True)
    assert (run.header.models, run.header.failed, run.header.unfinished) == (("a", "b", "c"), (SKIPPED,), ())


def test_models_beyond_a_second_budget_stay_unfinished(tmp_path: Path) -> None:
    run = cut_run(tmp_path, tmp_path / "run", failed=(CUT,), unfinished=("a", "c"))
    again = failure("a", ModelStatus.NOT_RUN, "budget: it was at split")
    run = resume.prepared(run, making(tmp_path, "c", failed=[again]), some=False)
    assert (run.header.models, run.header.failed, run.header.unfinished) == (("a", "b", "c"), (again,), ("a",))
    assert run.rows == [row(1, "a"), row(2, "a", "b"), row(3, "b", golden=True), row(4, "c", golden=True)]


def test_a_model_whose_goldens_fail_is_lost_and_costs_no_other_its_ops(tmp_path: Path) -> None:
    """Neither when it failed in the run itself, nor in its rest."""
    run = cut_run(tmp_path, tmp_path / "run", failed=(LOST,), unfinished=("a",))
    assert run.header.lost == {"c": LOST}
    now = failure("a", ModelStatus.PREPARE_FAILED, "killed")
    run = resume.prepared(run, making(tmp_path, failed=[now, LOST]), some=False)
    assert (run.header.models, run.header.failed, run.header.unfinished) == (("b", "c", "a"), (LOST, now), ())
    assert [(row.op_id[-1], row.uses[0].model, row.no_golden) for row in run.rows] == [
        ("2", "b", ""),
        ("3", "b", ""),
        ("4", "c", "no goldens of c: timeout"),
        ("1", "a", "no goldens of a: killed"),
    ]
    assert resume.prepared(run, never, some=False) is run, "nor is it made again"


def test_a_model_of_which_a_golden_was_killed_is_made_again(tmp_path: Path) -> None:
    """Its export is complete, but for what the system took away."""
    run = cut_run(tmp_path, tmp_path / "run")
    exported(tmp_path, "a", "c")
    killed = row(4, "c").model_copy(update={"no_golden": "killed by the system (SIGKILL), probably out of memory"})
    run = run._replace(rows=[*run.rows[:3], killed])
    again = resume.prepared(run, making(tmp_path, "c"), some=False)
    assert again.rows == [
        row(1, "a", golden=True),
        row(2, "a", "b", golden=True),
        *run.rows[2:3],
        row(4, "c", golden=True),
    ]
    assert resume.prepared(again, never, some=False) is again


def test_other_models_than_those_of_the_run_are_refused(tmp_path: Path) -> None:
    run = cut_run(tmp_path, tmp_path / "run", unfinished=("a",))
    for make in (making(tmp_path, "a"), making(tmp_path, "a", failed=[LOST])):
        with pytest.raises(InputError, match="--resume: expected the models and the exporter that the run"):
            resume.prepared(run, make, some=False)
    OPS["c"].append(6)
    try:
        with pytest.raises(InputError, match="--resume: expected the ops that the run started with"):
            resume.prepared(run, making(tmp_path, "c"), some=False)
    finally:
        OPS["c"].remove(6)


def test_ops_of_the_complete_models_of_a_run_are_repeated_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    run_dir = tmp_path / ".opscope" / "runs" / "20260102-030405-m"
    run = cut_run(tmp_path / "cache", run_dir, failed=(CUT, LOST), unfinished=("a",))
    with store.Journal(run_dir, "main") as journal:
        for known in run.rows:
            journal.append(unrun_test(known, run_folder.context(run_dir), Status.SUCCESS, ""))
    ids = {number: f"{number:016x}" for number in range(1, 5)}
    assert [row.op_id for row in ops_again.from_run(request(tmp_path, op_ids=(ids[3],))).selected()] == [ids[3]]
    assert from_run.find(ids[3], run_dir, "opscope repro")[2].op_id == ids[3]
    for number, model, way in (
        (1, "a, whose goldens were not all made when", f"try pytest --op-by-op --resume {run_dir}"),
        (2, "a, whose goldens were not all made when", f"try pytest --op-by-op --resume {run_dir}"),
        (4, "c, which is prepare_failed in", "try pytest --op-by-op --model c"),
    ):
        for ask in (
            lambda op_id: ops_again.from_run(request(tmp_path, op_ids=(op_id,))),
            lambda op_id: from_run.find(op_id, run_dir, "opscope repro"),
        ):
            with pytest.raises(InputError) as caught:
                ask(ids[number])
            assert f"got {model}" in str(caught.value)
            assert str(caught.value).endswith(way)
            assert "\n" not in str(caught.value)
    (tmp_path / "cache/exports/b").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"expected the export of b in .*, got a removed export"):
        from_run.find(ids[3], run_dir, "opscope repro")


def test_a_failure_without_its_export_has_no_repro_folder_and_is_no_problem(tmp_path: Path) -> None:
    """It has one once the run has gone on."""
    run_dir = tmp_path / "run"
    run = cut_run(tmp_path, run_dir, failed=(CUT, LOST), unfinished=("a",))
    with store.Journal(run_dir, "main") as journal:
        for known in (run.rows[0], run.rows[3]):
            journal.append(unrun_test(known, run_folder.context(run_dir), Status.RUN_FAILED, "no such kernel"))
    assert len(after_run.failures(store.load_run(run_dir))) == 2
    assert after_run.write_all(run_dir, 1 << 20) == []
    assert not list(run_dir.rglob("repro*"))

"""Shares joined: the records of the whole run, and one line for every set that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext, build_test, unrun_test
from opscope.harness.record.origin import FOLDER
from opscope.harness.record.records import ManifestHeader, OpRow, Origin, RunRecord, TensorDesc, Use
from opscope.harness.record.stages import Stage, Status
from opscope.harness.run.merge_shares import merge
from opscope.harness.scale import shard
from opscope.harness.tests.run_folder import START, lasting

OPTIONS = {"backend": "null", "arch": "n150", "dtype": "float32", "cache_dir": None, "shard": None}


def rows(count: int = 7) -> list[OpRow]:
    """Ops of growing size; the last could not be split off."""
    return [
        OpRow(
            op_id=f"{n:016x}",
            op_name="stablehlo.add",
            module=f"ops/{n}" if n + 1 < count else None,
            inputs=(TensorDesc(shape=(1000, n + 1), data_type="f32"),),
            uses=(Use(model="m", path=f"main/{n}"),),
        )
        for n in range(count)
    ]


def write(
    folder: Path,
    asked: str | None = None,
    *,
    manifest: list[OpRow] | None = None,
    outcome: str = "complete",
    skip: frozenset[str] = frozenset(),
    costs: dict[str, float] | None = None,
    **options: object,
) -> Path:
    """A run of all ops or of a share, as the plugin leaves it; ops in `skip` have no record."""
    manifest = manifest or rows()
    mine = shard.share(manifest, asked, costs) if asked else None
    context = RunContext(f"run-{folder.name}", str(folder), backend="null")
    header = ManifestHeader(models=("m",), export_dirs=("/gone",), module_ops={"m": len(manifest)}, structural={"m": 0})
    store.write_manifest(folder, header, manifest)
    if mine is not None:
        shard.write(folder, mine)
    with store.Journal(folder, "main") as journal:
        for row in manifest:
            if row.module is None or row.op_id in skip:
                continue
            if mine is not None and row.op_id not in mine.ops:
                journal.append(unrun_test(row, context, Status.SKIPPED, shard.ELSEWHERE))
                continue
            failed = int(row.op_id, 16) == 2
            artifact = store.artifact_dir(folder, row.op_id) / "compile.txt"
            if failed:
                artifact.parent.mkdir(parents=True)
                artifact.write_text("the whole story")
            journal.append(
                build_test(
                    row,
                    context,
                    status=Status.COMPILE_FAILED if failed else Status.SUCCESS,
                    started=START,
                    stage_reached=Stage.COMPARE,
                    error="no room" if failed else None,
                    artifact=artifact.relative_to(folder).as_posix() if failed else None,
                )
            )
    origin = Origin(options={**OPTIONS, **options, "shard": asked}, host=folder.name)
    store.write_run(
        folder,
        RunRecord(
            run_id=f"run-{folder.name}",
            models=("m",),
            backend="null",
            arch="n150",
            started=START,
            ended=START,
            outcome=outcome,
            origin=origin,
        ),
    )
    return folder


def test_the_joined_run_says_what_the_whole_one_does(tmp_path):
    shares = [write(tmp_path / f"s{index}", f"{index}/3") for index in (2, 3, 1)]
    whole = write(tmp_path / "whole")
    record = merge(shares, tmp_path / "joined")
    assert lasting(tmp_path / "joined") == lasting(whole)
    assert len(lasting(whole)) == 6
    assert record.outcome == "complete"
    assert record.origin.options["shard"] is None
    assert record.origin.host == "s1, s2, s3"
    (failed,) = (test for test in store.load_run(tmp_path / "joined").tests if test.status is Status.COMPILE_FAILED)
    assert failed.artifact is not None
    assert (tmp_path / "joined" / failed.artifact).read_text() == "the whole story"
    assert f"--run-dir {record.run_id}" in failed.repro
    again = merge(shares[::-1], tmp_path / "again")
    record.origin.options[FOLDER] = again.origin.options[FOLDER] = ""
    assert again == record, "the order in which they are named says nothing"


def test_a_missing_or_unfinished_share_is_reported_and_leaves_ops_not_run(tmp_path):
    one, two = write(tmp_path / "s1", "1/3"), write(tmp_path / "s2", "2/3")
    with pytest.raises(InputError, match="expected all 3 shares, got no share 3/3; try --partial"):
        merge([one, two], tmp_path / "joined")
    assert not (tmp_path / "joined").exists()
    assert merge([one, two], tmp_path / "joined", partial=True).outcome == "partial"
    lost = [test for test in store.load_run(tmp_path / "joined").tests if test.status is Status.NOT_RUN]
    share = shard.share(rows(), "3/3")
    assert [test.op_id for test in lost] == list(share.ops)
    three = write(tmp_path / "s3", "3/3", outcome="running", skip=frozenset(share.ops[:1]))
    with pytest.raises(InputError, match=r"expected shares that have finished, got .*s3, which is running"):
        merge([one, two, three], tmp_path / "cut")
    assert merge([one, two, three], tmp_path / "cut", partial=True).outcome == "partial"
    assert [t.op_id for t in store.load_run(tmp_path / "cut").tests if t.status is Status.NOT_RUN] == [share.ops[0]]


def test_ops_cut_off_in_one_job_are_known_from_another(tmp_path):
    """The goldens of a model that a job did not finish are no other ops."""
    known = [row.model_copy(update={"golden": (f"values/{row.op_id}.npy",)}) for row in rows()]
    cut, whole = write(tmp_path / "s1", "1/2", outcome="out_of_budget"), write(tmp_path / "s2", "2/2", manifest=known)
    with pytest.raises(InputError, match="whose manifests differ"):
        merge([cut, whole], tmp_path / "joined", partial=True)
    header, unknown = store.read_manifest(cut)
    store.write_manifest(cut, header.model_copy(update={"unfinished": ("m",)}), unknown)
    assert merge([cut, whole], tmp_path / "joined", partial=True).outcome == "partial"
    assert store.read_manifest(tmp_path / "joined") == store.read_manifest(whole)
    odd = [row.model_copy(update={"module": "ops/other"}) for row in unknown]
    store.write_manifest(cut, header.model_copy(update={"unfinished": ("m",)}), odd)
    with pytest.raises(InputError, match="whose manifests differ"):
        merge([cut, whole], tmp_path / "again", partial=True)


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ({"asked": "1/2"}, "expected each share once, got share 1/2 in"),
        ({"asked": "2/3"}, "which are of 2 and of 3"),
        ({"asked": "2/2", "manifest": rows(8)}, r"whose manifests differ"),
        ({"asked": "2/2", "dtype": "bfloat16"}, "with dtype 'float32' and 'bfloat16'"),
        ({"asked": "2/2", "costs": {f"{0:016x}": 5.0}}, "which divide the ops in two ways"),
        ({"asked": None}, "expected runs of --shard, got"),
    ],
)
def test_what_does_not_belong_together(other, line, tmp_path):
    first, second = write(tmp_path / "a", "1/2"), write(tmp_path / "b", **other)
    with pytest.raises(InputError, match=line):
        merge([first, second], tmp_path / "joined")
    assert not (tmp_path / "joined").exists()


def test_a_folder_that_holds_a_run_stays(tmp_path):
    shares = [write(tmp_path / f"s{index}", f"{index}/2") for index in (1, 2)]
    with pytest.raises(InputError, match="--into: expected a new folder"):
        merge(shares, tmp_path / "s1")

"""Batches shrink towards the end, keep suspects apart, and blame only ops that a dead worker can have been at."""

from __future__ import annotations

from opscope.harness.record.records import OpRow, TensorDesc, Use
from opscope.harness.scale.batches import MOST, Batch, Op, Work


def ops(count: int, size: int = 1) -> list[Op]:
    desc = TensorDesc(shape=(size,), data_type="f32")
    return [
        Op(
            OpRow(
                op_id=f"op{number}",
                op_name="stablehlo.add",
                module=None,
                inputs=(desc, desc),
                outputs=(desc,),
                sources=(),
                golden=(),
                no_golden="",
                uses=(Use(model="toy", path="main/0", location=""),),
                provenance="",
            ),
            1,
        )
        for number in range(count)
    ]


def sizes(work: Work, devices: int) -> list[int]:
    batches = []
    while work.waiting:
        batches.append(len(work.take(devices)))
    return batches


def test_batches_are_large_first_and_single_ops_at_the_end() -> None:
    work = Work()
    work.add(ops(400))
    counts = sizes(work, 2)
    assert sum(counts) == 400
    assert counts[0] == MOST
    assert counts == sorted(counts, reverse=True)
    assert counts[-4:] == [1] * 4
    assert len(counts) < 60


def test_a_dear_op_is_a_batch_of_its_own() -> None:
    work = Work()
    work.add([*ops(10), *ops(1, size=100_000_000), *ops(18)])
    first = [work.take(2) for _ in range(3)]
    assert [len(batch) for batch in first] == [10, 1, 3]


def test_a_returned_op_is_next_and_counts_again() -> None:
    work = Work()
    work.add(ops(90))
    taken = work.take(1)
    work.back(taken[3:])
    assert [op.row.op_id for op in work.take(1)][:2] == ["op3", "op4"]
    fresh = Work()
    fresh.add(ops(90))
    work.back(fresh.take(1))
    assert work._cost == sum(op.cost for op in work.waiting)


def test_a_suspect_is_alone() -> None:
    work = Work()
    suspect, *rest = ops(40)
    suspect.lost = 1
    work.add([*rest[:2], suspect, *rest[2:]])
    assert [[op is suspect for op in work.take(1)] for _ in range(2)] == [[False, False], [True]]


def test_only_an_op_that_was_begun_can_have_taken_its_worker_down() -> None:
    work = Work()
    by_id = {op.row.op_id: op for op in ops(9)}
    ids = list(by_id)
    for key, worker, part in (("a", "one", ids[:3]), ("b", "one", ids[3:6]), ("c", "two", ids[6:])):
        work.batches[key] = Batch(worker, 1, {op_id: by_id[op_id] for op_id in part})
    del work.batches["a"].ops["op0"]  # its record has come
    orphans = list(work.orphans(["one"]))
    assert [begun.row.op_id if begun else None for _, begun in orphans] == ["op1", None]
    assert [list(batch.ops) for batch, _ in orphans] == [["op1", "op2"], ["op3", "op4", "op5"]]
    assert list(work.batches) == ["c"]

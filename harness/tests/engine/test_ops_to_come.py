"""Which ops a cluster may be sent while goldens are made, and what becomes of those whose files have moved."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from opscope.harness.cache import export_folder
from opscope.harness.engine import ready_ops
from opscope.harness.engine.goldens import AwaitedGoldens
from opscope.harness.engine.ready_ops import MOST_BACK, OpsToCome
from opscope.harness.record.records import OpRow
from opscope.harness.tests.cache.test_growing_export import filled, header, row
from opscope.harness.tests.cache.test_growing_export import growing as growing_export_in


class Growing:
    """Two models whose goldens are being made; their ops are 1 and 2 of `m`, 3 of both, 4 of `n`."""

    def __init__(self, folder: Path) -> None:
        self.final = {"m": str(folder / "exports-m"), "n": str(folder / "exports-n")}
        self.folders = dict(self.final)
        self.rows = [row(1, "m"), row(2, "m"), row(3, "m", "n"), row(4, "n")]
        self.making = {
            model: filled(folder / f".making-{model}", *(r for r in self.rows if model in {u.model for u in r.uses}))
            for model in "mn"
        }
        sides = {model: growing_export_in(self.making[model]) for model in "mn"}
        self.says = {model: announcer for model, (announcer, _) in sides.items()}
        self.exports = {model: export for model, (_, export) in sides.items()}
        self.goldens = AwaitedGoldens(self.exports, threading.Condition(), self.folders, self.final)

    def to_come(self, kept: str = "") -> OpsToCome:
        """As the split knows the ops."""
        bare = [
            row(number, *(use.model for use in each.uses), golden=False) for number, each in enumerate(self.rows, 1)
        ]
        return OpsToCome(bare, self.goldens, lambda each: each.op_id != kept)

    def announce(self, number: int, model: str) -> None:
        self.says[model].op(self.making[model], row(number, model))

    def complete(self, model: str) -> None:
        rows = [each for each in self.rows if each.uses[0].model == model]
        folder = Path(self.final[model])
        export_folder.write_manifest(self.making[model], header(model, folder), rows)
        export_folder.publish(self.making[model], folder)


@pytest.fixture
def growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Growing:
    monkeypatch.setattr(ready_ops, "LOOK", 0.0)
    return Growing(tmp_path)


def numbers(ops: OpsToCome) -> list[tuple[int, str]]:
    return [(int(each.op_id, 16), Path(folder).name) for each, folder in ops.take()]


def settled(ops: OpsToCome) -> list[int]:
    return sorted(int(op_id, 16) for op_id in ops.settled())


def test_an_op_is_handed_out_once_its_goldens_are_there_in_the_order_of_the_plan(growing: Growing) -> None:
    ops = growing.to_come(kept=growing.rows[1].op_id)
    assert (numbers(ops), settled(ops), bool(ops)) == ([], [], True)
    growing.announce(4, "n")
    growing.announce(1, "m")
    growing.announce(3, "n")
    assert numbers(ops) == [(1, ".making-m"), (4, ".making-n")], "3 may still come from the first of its models"
    assert numbers(ops) == []
    growing.announce(2, "m")
    assert (numbers(ops), settled(ops)) == ([], [2]), "its verdict is kept"
    growing.exports["m"].fails("killed")
    assert (numbers(ops), settled(ops), bool(ops)) == ([(3, ".making-n")], [], False)
    assert [use.model for use in ops.ready[growing.rows[2].op_id].uses] == ["n", "m"]


def test_ops_without_goldens_are_settled_and_the_time_of_idle_devices_counts(growing: Growing) -> None:
    ops = growing.to_come()
    growing.announce(1, "m")
    assert numbers(ops) == [(1, ".making-m")]
    ops.idle(1.5)
    growing.exports["m"].fails("killed")
    growing.exports["n"].fails("timeout")
    assert (numbers(ops), settled(ops), bool(ops)) == ([], [2, 3, 4], False)
    ops.idle(1.0)
    assert growing.goldens.waited == 1.5, "nothing waits any more"


def test_moved_and_abandoned_ops_are_retried_a_few_times(growing: Growing) -> None:
    ops = growing.to_come()
    for number in (1, 2):
        growing.announce(number, "m")
    assert numbers(ops) == [(1, ".making-m"), (2, ".making-m")]
    one, two = (each.op_id for each in growing.rows[:2])
    growing.complete("m")
    assert ops.back(one)
    assert numbers(ops) == [(1, "exports-m")], "although nobody has said yet that it is complete"
    assert ops.back(two)
    growing.exports["m"].is_complete(Path(growing.final["m"]))
    growing.exports["n"].fails("timeout")
    assert numbers(ops)[0] == (2, "exports-m")
    for _ in range(MOST_BACK - 1):
        assert ops.back(one)
        assert [number for number, _ in numbers(ops)] == [1]
    assert not ops.back(one)
    assert not OpsToCome(growing.rows).back(one), "the files of an export that was complete are damaged"


def test_an_op_waits_while_its_folder_is_gone_and_nobody_has_said_why(growing: Growing) -> None:
    ops = growing.to_come()
    growing.announce(1, "m")
    growing.making["m"].rename(growing.making["m"].with_name("elsewhere"))
    assert (numbers(ops), settled(ops)) == ([], [])
    growing.exports["m"].fails("memory")
    assert (numbers(ops), settled(ops)[:2]) == ([], [1, 2])


def test_without_goldens_to_come_all_ops_are_there() -> None:
    rows: list[OpRow] = [row(2, "m"), row(1, "m")]
    ops = OpsToCome(rows)
    assert (numbers(ops), bool(ops)) == ([(2, ""), (1, "")], False)

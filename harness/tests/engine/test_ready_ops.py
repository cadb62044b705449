"""An op whose golden comes late holds up none whose golden is there."""

from __future__ import annotations

from pathlib import Path

from opscope.harness.engine.ready_ops import ReadyOps
from opscope.harness.tests.cache.test_growing_export import filled, growing, row


def numbers(ids: list[str]) -> list[int]:
    return [int(op_id, 16) for op_id in ids]


def test_an_op_is_ready_once_its_golden_is_announced_or_will_not_come(tmp_path: Path) -> None:
    split = [row(1, "m"), row(2, "m"), row(3, "n", "m"), row(4, "n"), row(5, "o"), row(6, "whole"), row(7, "m", "n")]
    sides = {model: growing(filled(tmp_path / model, *split)) for model in "mno"}
    exports = {model: export for model, (_, export) in sides.items()}
    m = sides["m"][0]
    ops = ReadyOps(exports, split)
    assert numbers(ops.look()) == [6], "of a model that was complete"
    m.op(tmp_path / "m", row(2, "m"))
    m.op(tmp_path / "m", row(3, "m"))
    assert numbers(ops.look()) == [2], "the first of an op's models has its golden, as far as that is known"
    exports["n"].fails("killed")
    assert numbers(ops.look()) == [3, 4], "the golden of another model, or none"
    assert ops.look() == []
    exports["m"].fails("budget", cut_off=True)
    assert numbers(ops.look()) == [1, 7]
    assert ops.waiting
    assert (numbers(ops.rest()), ops.waiting) == ([5], False)
    exports["o"].is_complete(tmp_path / "o")
    assert ops.look() == [], "each is ready once"

"""Times of imports are summed by room, and a room that takes too long is named."""

from __future__ import annotations

from ci.benchmarks import bench_imports

TEXT = """import time: self [us] | cumulative | imported package
import time:       100 |        100 |   opscope.harness.record
import time:    260000 |     260100 | opscope.harness.run.plugin
import time:      5000 |       5000 |     sqlalchemy.sql
some other line
"""


def test_imports_are_summed_by_room_and_held_to_limits() -> None:
    measured = bench_imports.by_owner(TEXT)
    assert measured == {"harness": 260.1, "sqlalchemy": 5.0}
    assert bench_imports.over(measured) == ["harness"]
    assert bench_imports.over({"harness": 1.0, "sqlalchemy": 900.0}) == []

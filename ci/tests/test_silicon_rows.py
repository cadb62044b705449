"""Cycles of the rows that no constant was fitted to, within the limits that the project set itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.calibration.bench_cycles import ARCHS, buda_cycles, by_file, compiled_cycles, counted_cycles, summary
from ci.calibration.fit_cycles import SEED
from ci.calibration.silicon_rows import SILICON, Row, halves, rows
from opscope.simulator.timing.arch_constants import CONSTANTS

pytestmark = pytest.mark.skipif(not SILICON.exists(), reason=f"no measured silicon figures at {SILICON}")


@pytest.fixture(scope="module")
def unfitted() -> dict[str, list[Row]]:
    """The rows of each arch that the constants were not fitted to."""
    return {arch: halves(list(rows(arch)), SEED)[1] for arch in ARCHS}


def test_the_same_halves_each_time_and_no_row_in_both() -> None:
    every = list(rows("grayskull"))
    fitted, unfitted = halves(every, SEED)
    assert halves(every, SEED) == (fitted, unfitted)
    assert (len(fitted), len(unfitted)) == (668, 659)
    assert sorted(map(id, (*fitted, *unfitted))) == sorted(map(id, every))


def test_a_row_is_read_whole() -> None:
    every = {row.file.partition("/")[2]: row for row in rows("wormhole_b0")}
    assert len(every) == 48
    product, quantised = every["matmul-l1-acc-bfp8-op-performance"], every["requantization-int32-op-performance"]
    assert (product.kernel, product.l1_acc, product.width, product.work.phases) == ("matmul", True, "8", 1)
    assert (quantised.kernel, quantised.width, quantised.work.operands) == ("requantization int32", "32", 2)
    assert every["matmul-sparse-op-performance"].work.sparse is not None
    assert every["nop-int8-op-performance"].width == "int8"
    assert {row.kernel for row in rows("wormhole_b0") if "sine-" in row.file} == {"sin", "cos"}


@pytest.mark.parametrize("arch", ARCHS)
def test_rows_that_were_not_fitted(arch: str, unfitted: dict[str, list[Row]]) -> None:
    errors = by_file(unfitted[arch], lambda row: counted_cycles(row, CONSTANTS[arch]))
    median, high = summary([each for part in errors.values() for each in part])
    assert median <= 1
    assert high <= 10


BEYOND = {
    "grayskull/matmul-op-performance",
    "grayskull/nop-op-performance",
    "wormhole_b0/depthwise-op-performance",
    "wormhole_b0/whb0-reduce-r-performance",
    "wormhole_b0/whb0-splice-op-performance",
}
"""Files with more than 5 % in the median or 15 % at p95 (docs/measurements.yaml)."""
WORSE: set[str] = set()
"""Files with a larger median and a larger p95 than TT-Buda's formulas, which were fitted to all of their rows."""


def test_no_other_file_is_beyond_the_limits_or_worse_than_published_formulas(unfitted: dict[str, list[Row]]) -> None:
    beyond, worse = set[str](), set[str]()
    for arch in ARCHS:
        buda = by_file(unfitted[arch], buda_cycles)
        for file, errors in by_file(
            unfitted[arch], lambda row, arch=arch: counted_cycles(row, CONSTANTS[arch])
        ).items():
            (median, high), (their_median, their_high) = summary(errors), summary(buda[file])
            if median > 5 or high > 15:
                beyond.add(file)
            if median > their_median + 0.05 and high > their_high + 0.05:
                worse.add(file)
    assert (beyond, worse) == (BEYOND, WORSE)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_compiled_op_takes_the_cycles_of_its_counts(
    arch: str, unfitted: dict[str, list[Row]], tmp_path: Path
) -> None:
    last = {row.file: row for row in unfitted[arch]}
    built = {file: compiled_cycles(row, tmp_path) for file, row in last.items()}
    assert sum(cycles is not None for cycles in built.values()) >= (15 if arch == "grayskull" else 30)
    for file, cycles in built.items():
        if cycles is not None:
            assert cycles == pytest.approx(counted_cycles(last[file], CONSTANTS[arch]), rel=0.01), file

"""Where buffers lie: shares of banks, first fit per core, and the map of a memory that is full."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from opscope.compiler.target.allocation import Banks, l1_of, map_of, shares
from opscope.compiler.target.program import TensorDesc
from opscope.compiler.target.system_desc import boards, load_board

N150 = load_board("n150").ttnn
SHARDED = TensorDesc((320, 64), "bf16", "Float16_b", "tile", "l1", "height_sharded", (8, 1))


def test_each_core_gives_what_its_shard_takes() -> None:
    """10 rows of tiles over 8 cores: 2 rows on each of 5 cores, none on the others."""
    row = 2 * 2048
    assert shares(SHARDED, N150).reshape(8, 8)[:, 0].tolist() == [2 * row] * 5 + [0] * 3
    assert shares(SHARDED, N150).sum() == 10 * row
    uneven = replace(SHARDED, shape=(288, 64))
    assert shares(uneven, N150).reshape(8, 8)[:, 0].tolist() == [2 * row] * 4 + [row] + [0] * 3
    long = replace(SHARDED, shape=(640, 32), grid=(20, 1))
    assert (shares(long, N150) > 0).sum() == 20, "a long column of shards goes through the grid core by core"


def test_interleaved_buffers_take_the_same_of_every_bank() -> None:
    in_l1 = replace(SHARDED, memory_layout="interleaved", grid=(1, 1))
    assert shares(in_l1, N150).tolist() == [2048] * 64
    assert shares(replace(in_l1, buffer_type="dram"), N150).tolist() == [2 * 2048]
    assert shares(SHARDED, N150).max() == 4 * 2048


def test_cores_without_a_shard_keep_their_room() -> None:
    banks = Banks("l1", 100, 4)
    left, right = np.array([80, 80, 0, 0]), np.array([0, 0, 90, 0])
    first, second = banks.fit(left), banks.fit(right)
    assert first is not None
    assert second is not None
    assert (first.address, second.address) == (0, 0)
    assert banks.fit(np.full(4, 30)) is None, "one address for all cores"
    third = banks.fit(np.array([0, 0, 0, 100]))
    assert third is not None
    assert third.address == 0
    assert (banks.in_use, banks.peak, banks.used.tolist()) == (100, 100, [80, 80, 90, 100])
    banks.free(first)
    assert banks.largest_gap(left) == 100
    assert banks.largest_gap() == 0


def test_first_fit_takes_the_lowest_gap() -> None:
    banks = Banks("l1", 100)
    buffers = [banks.fit(np.array([size])) for size in (20, 30, 40)]
    assert [b.address for b in buffers if b] == [0, 20, 50]
    assert buffers[1] is not None
    banks.free(buffers[1])
    assert banks.largest_gap() == 30
    again = banks.fit(np.array([25]))
    assert again is not None
    assert again.address == 20
    assert banks.fit(np.array([11])) is None
    assert banks.fit(np.array([0])) is not None


def test_a_map_says_what_lies_where_since_when_and_what_is_left() -> None:
    banks = l1_of(N150)
    for number in range(3):
        banks.fit(np.full(64, 400_000), f"tensor {number}", f"add (line {number})")
    banks.free(banks.buffers[1])
    memory = map_of(banks, N150, np.full(64, 500_000), "tensor 9, Float16_b 4x4", "multiply (line 9)")
    assert (memory.free, memory.largest_gap) == (N150.l1_usable - 800_000, 400_000)
    assert memory.fragmentation == pytest.approx(1 - 400_000 / (N150.l1_usable - 800_000))
    text = memory.text()
    for part in (
        "l1: 1,499,136 bytes per core, 103,840 reserved, 64 cores",
        "wanted 500,000 bytes for tensor 9, Float16_b 4x4 (multiply (line 9)); free 595,296, largest gap 400,000",
        "fragmentation 33%",
        "reserved: firmware and kernels",
        "tensor 2, since add (line 2)",
    ):
        assert part in text, text
    assert "tensor 1" not in text
    drawing = ElementTree.fromstring(memory.svg())
    titles = [title.text or "" for title in drawing.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 1 + 2 + 1
    assert any("400,000 bytes from 103,840 in 64 banks, since add (line 0)" in title for title in titles)


def test_reserved_regions_and_banks_of_every_board() -> None:
    """Regions by tt-budabackend netlists; an L1 is 16 banks (L1.md: 91.5 KiB each on Wormhole)."""
    for name in boards():
        board = load_board(name)
        for profile in (board.ttnn, board.buda):
            assert sum(size for _, size in profile.l1_regions) == profile.l1_unreserved_base
            assert profile.l1_banks == 16
            assert profile.l1_bytes % 16 == 0
    assert load_board("n150").ttnn.l1_bytes == 16 * 93_696
    assert dict(load_board("n150").buda.l1_regions)["overlay blob"] == 65_408

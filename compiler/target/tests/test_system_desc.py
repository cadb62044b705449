from __future__ import annotations

import pytest

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.system_desc import boards, load_board, resolve_arch


def test_published_budgets() -> None:
    # tt-buda's usable L1 per arch (tt-budabackend), tt-metal's L1 sizes and compute grids.
    assert load_board("n150").buda.l1_usable == load_board("p150").buda.l1_usable == 1_027_968
    assert load_board("e150").buda.l1_usable == 577_408
    assert [load_board(b).ttnn.l1_bytes for b in ("n150", "e150", "p150")] == [1_499_136, 1_048_576, 1_572_864]
    assert [load_board(b).ttnn.cores for b in ("n150", "n300", "e150", "p150")] == [64, 64, 108, 130]
    assert load_board("n150").ttnn.dram_channels * load_board("n150").ttnn.dram_channel_bytes == 12 * 2**30


def test_an_arch_means_its_default_board() -> None:
    assert resolve_arch("wormhole_b0") == "n150"
    assert load_board("Blackhole") is load_board("p150") or load_board("Blackhole") == load_board("p150")
    assert resolve_arch("grayskull") == "e150"


def test_an_unknown_board_names_the_closest() -> None:
    with pytest.raises(ValueError, match=r"expected a board or an arch, got 'n15O'; try n150"):
        load_board("n15O")


def test_every_board_is_sound() -> None:
    for name in boards():
        board = load_board(name)
        assert board.board == name
        assert set(board.formats) <= {f.name for f in FORMATS.values() if f.on_device}
        for profile in (board.ttnn, board.buda):
            assert profile.grid[0] <= board.physical_grid[0]
            assert profile.grid[1] <= board.physical_grid[1]
            assert 0 < profile.l1_usable < profile.l1_bytes
        assert len(set(board.harvested_rows)) == len(board.harvested_rows)


def test_a_harvest_mask_shrinks_both_grids() -> None:
    """Masks of tt-buda's presets: 2050 is e300, 2052 and 2176 are n300's chips."""
    assert load_board("n150-harvested-2048").ttnn.grid == load_board("n150").ttnn.grid
    two = load_board("n150-harvested-2052")
    assert (two.board, two.ttnn.grid, two.buda.grid, two.harvested_rows) == (
        "n150-harvested-2052", (7, 8), (8, 8), (8, 9),
    )  # fmt: skip
    grayskull = load_board("grayskull-harvested-0x802")
    assert grayskull.board == "e150-harvested-2050"
    assert grayskull.harvested_rows == (0, 9), "rows 1 and 11 of the NoC"
    assert (grayskull.ttnn.grid, grayskull.buda.grid) == ((7, 12), (8, 12))
    assert load_board("p150-harvested-0").ttnn.grid == (10, 13)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("n150-harvested-64", "expected rows 1-5 and 7-11, got 6"),
        ("n150-harvested-x", "expected a harvest mask after -harvested-, got 'x'; try n150-harvested-2050"),
        ("n150-harvested-4030", r"expected fewer than 9, got 10 \(mask 4030\)"),
        ("n151-harvested-2", "expected a board or an arch"),
    ],
)
def test_bad_masks_are_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_board(name)

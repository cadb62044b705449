from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.compiler.target import system_desc
from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.system_desc import (
    HARVESTABLE_ROWS,
    also_harvested,
    base_and_mask,
    boards,
    load_board,
    resolve_arch,
)
from opscope.simulator.commands.device_show import device


def test_published_budgets() -> None:
    # tt-buda's usable L1 per arch (tt-budabackend), tt-metal's L1 sizes and compute grids.
    assert load_board("n150").buda.l1_usable == load_board("p150").buda.l1_usable == 1_027_968
    assert load_board("e150").buda.l1_usable == 577_408
    assert [load_board(b).ttnn.l1_bytes for b in ("n150", "e150", "p150")] == [1_499_136, 1_048_576, 1_572_864]
    assert [load_board(b).ttnn.cores for b in ("n150", "n300", "e150", "p150")] == [64, 64, 108, 110]
    assert load_board("n150").ttnn.dram_channels * load_board("n150").ttnn.dram_channel_bytes == 12 * 2**30


def test_an_arch_means_its_default_board() -> None:
    assert resolve_arch("wormhole_b0") == "n150"
    assert load_board("Blackhole") is load_board("p150") or load_board("Blackhole") == load_board("p150")
    assert resolve_arch("grayskull") == "e150"
    assert resolve_arch("llmbox") == resolve_arch("n300-llmbox") == "t3000", "names of tt-mlir's and tt-xla's"


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


def test_which_board_has_which_format() -> None:
    """tt-isa-documentation (FloatBitPatterns.md, Packers/FormatConversion.md), tt-budabackend's DataFormat; FP8 with 4
    exponent bits is Blackhole's (tt-llk, tt-metal issue 44312), and its Dst of 32 bits Grayskull has not (tt-buda).
    """
    every = {f.name for f in FORMATS.values() if f.on_device}
    for name, without, wide in (
        ("e150", {"Fp8_e4m3", "Fp8_e5m2"}, False),
        ("n150", {"Fp8_e4m3", "Fp8_e5m2"}, True),
        ("p150", set(), True),
    ):
        board = load_board(name)
        assert every - set(board.formats) == without
        assert ("Float32" in board.dst_formats, "Int32" in board.dst_formats) == (wide, wide)


def test_buda_has_the_rows_that_a_card_comes_with() -> None:
    """tt-buda: tti/runtime_param_yamls; a plan for a whole chip needs more rows than a card has."""
    grids = {name: load_board(name).buda.grid for name in ("n150", "n300", "t3000", "galaxy", "e150", "p150")}
    assert grids == {
        "n150": (9, 8),
        "n300": (8, 8),
        "t3000": (8, 8),
        "galaxy": (10, 8),
        "e150": (10, 12),
        "p150": (10, 14),
    }
    assert load_board("n150-harvested-0").buda.grid == (10, 8)
    assert load_board("n150-harvested-2048").buda.grid == (9, 8)
    assert [base_and_mask(name) for name in ("n150", "n150-harvested-0", "n300", "e150")] == [
        ("n150", 2048),
        ("n150", 0),
        ("n300", 1024 + 2048),
        ("e150", 0),
    ]
    assert [load_board(name).ttnn.grid for name in ("n150", "n300")] == [(8, 8), (8, 8)]
    for name in boards():
        own, masked = load_board(name), load_board(f"{name}-harvested-{base_and_mask(name)[1]}")
        assert (masked.harvested_rows, masked.ttnn, masked.buda) == (own.harvested_rows, own.ttnn, own.buda), name


@pytest.mark.parametrize("row", range(13))
def test_a_mask_names_rows_with_cores(row: int) -> None:
    if row in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11):
        assert also_harvested(load_board("e150"), 1 << row).buda.grid == (9, 12)
    else:
        with pytest.raises(ValueError, match=rf"expected rows 1-5 and 7-11, got {row} \(mask {1 << row}\)"):
            also_harvested(load_board("e150"), 1 << row)


def test_a_board_keeps_a_row() -> None:
    with pytest.raises(ValueError, match=r"^harvested rows: expected fewer than \d+, got 10 "):
        also_harvested(load_board("e150"), sum(1 << row for row in HARVESTABLE_ROWS))


def test_a_harvest_mask_shrinks_both_grids() -> None:
    """Masks of tt-buda's presets: 2050 is e300, 2052 and 2176 are n300's chips."""
    assert load_board("n150-harvested-2048").ttnn.grid == load_board("n150").ttnn.grid
    two = load_board("n150-harvested-2052")
    assert (two.board, two.ttnn.grid, two.buda.grid, two.harvested_rows) == (
        "n150-harvested-2052",
        (7, 8),
        (8, 8),
        (8, 9),
    )
    grayskull = load_board("grayskull-harvested-0x802")
    assert grayskull.board == "e150-harvested-2050"
    assert grayskull.harvested_rows == (0, 9), "rows 1 and 11 of the NoC"
    assert (grayskull.ttnn.grid, grayskull.buda.grid) == ((7, 12), (8, 12))
    assert load_board("p150-harvested-0").ttnn.grid == (10, 11)


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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dram_gb_per_s: 288.0\n", "", "mine.yaml: expected dram_gb_per_s, a number above 0, got none"),
        ("clock_ghz: 1.0", "clock_ghz: -1.0", "mine.yaml: expected clock_ghz to be a number above 0, got -1.0"),
        ("clock_ghz: 1.0", "clock_ghz: .nan", "expected clock_ghz to be a number above 0, got nan"),
        ("clock_ghz: 1.0", "clock_ghz: fast", "expected clock_ghz to be a number above 0, got 'fast'"),
        ("dram_efficiency: 0.92", "dram_efficiency: 1.92", "a share above 0 and up to 1, got 1.92"),
        ("  grid: [9, 8]", "  grid: [10, 8]", "mine.yaml: buda: expected a grid of 9 rows, all that are not"),
        ("  grid: [8, 8]", "  grid: [80, 8]", r"mine.yaml: ttnn: expected a grid within the physical one of \[10, 8\]"),
        ("hop_ns: 790", "hop_ns: 0", "mine.yaml: ethernet: expected hop_ns to be a number above 0, got 0"),
        ("l1_bytes: 1499136", "l1_bytes: 4096", "ttnn: expected l1_unreserved_base below l1_bytes"),
        ("l1_bytes: 1499136", "l1_bytes: true", "ttnn: expected l1_bytes to be a whole number above 0, got True"),
        ("Float32, Float16,", "Float33, Float16,", "expected formats to be a list of formats of a device that differ"),
        ("chips: 1\n", "chips: 1\nchipz: 1\n", "mine.yaml: expected only board, .*got 'chipz'"),
        ("board: mine", "board: yours", "expected the file's name at `board`, got 'yours'"),
        ("board: mine", "- board: mine", "mine.yaml: expected YAML, got"),
        ("board: mine", "board: mine\nlike: nobody", "expected a board's name at `like`, got 'nobody'"),
    ],
)
def test_a_board_file_with_a_missing_or_impossible_figure_is_one_line(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (system_desc.BOARDS / "n150.yaml").read_text(encoding="utf-8").replace("board: n150", "board: mine")
    assert old in text
    (tmp_path / "mine.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
    monkeypatch.setattr(system_desc, "BOARDS", tmp_path)
    for cached in (system_desc.boards, system_desc.load_board):
        cached.cache_clear()
    try:
        with pytest.raises(ValueError, match=message) as caught:
            load_board("mine")
        assert "\n" not in str(caught.value)
        done = CliRunner().invoke(device, ["show", "mine"])
        assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    finally:
        for cached in (system_desc.boards, system_desc.load_board):
            cached.cache_clear()

"""tt-mlir's system descriptors: ours are the published ones, and whatever is damaged is one line.

What a plugin makes of them is tried by ci/descriptors_against_plugin.py.
"""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from pathlib import Path

import flatbuffers.table
import pytest

from opscope.compiler import api
from opscope.compiler.target.system_desc import boards, load_board, load_board_file
from opscope.compiler.target.tt_system_desc.fields import FIELDS, ChipTable, SystemDescriptor, SystemTable
from opscope.compiler.target.tt_system_desc.of_board import descriptor_of
from opscope.compiler.target.tt_system_desc.schema_hashes import BUILDS
from opscope.compiler.target.tt_system_desc.write import descriptor_bytes

PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "tt_system_desc"
FILES = {"n150": "n150", "n300": "n300", "t3000": "n300-llmbox", "p150": "p150"}
HASH = api.schema_hash_of("jax-tt-plugin", "0.1.3")


def published(board: str) -> bytes:
    if not PUBLISHED.is_dir():
        pytest.skip("the published descriptors are not in ../shared/data/tt_system_desc")
    return (PUBLISHED / f"{FILES[board]}_system_desc.ttsys").read_bytes()


def ours(board: str = "n150") -> bytes:
    return api.system_desc_file(load_board(board), HASH)


def refusal(data: bytes, schema_hash: str | None = None) -> str:
    """The one line that refuses bytes."""
    with pytest.raises(api.CompilerInputError) as caught:
        api.read_system_desc(data, "my.ttsys", schema_hash)
    line = str(caught.value)
    assert line.startswith("my.ttsys: expected "), line
    assert "; try " in line, line
    assert line.isprintable(), line
    return line


@pytest.mark.parametrize("board", FILES)
def test_every_field_of_a_published_descriptor_is_ours(board: str) -> None:
    descriptor = api.read_system_desc(published(board), board)
    assert descriptor_of(load_board(board), descriptor.schema_hash) == descriptor, (
        "version and commit are those of that build"
    )
    again = api.read_system_desc(ours(board), board, HASH)
    assert again.system_desc == descriptor.system_desc
    assert again.schema_hash == HASH
    assert again.product_identifier == descriptor.product_identifier


def test_figures_of_a_published_descriptor_as_tt_mlir_prints_them() -> None:
    """The numbers are from `#ttcore.system_desc<...>` of a TTNN module that jax-tt-plugin 0.1.3 made for this file."""
    descriptor = api.read_system_desc(published("n150"), "n150")
    (chip,) = descriptor.chips
    assert chip.arch_name == "wormhole_b0"
    assert (chip.grid_size, chip.coord_translation_offsets, chip.dram_grid_size) == ((8, 8), (18, 18), (1, 12))
    assert (chip.l1_size, chip.num_dram_channels, chip.dram_channel_size) == (1499136, 12, 1073741824)
    assert (chip.l1_unreserved_base, chip.erisc_l1_unreserved_base) == (103840, 98304)
    assert (chip.dram_unreserved_base, chip.dram_unreserved_end) == (2968640, 1073118784)
    assert (chip.noc_l1_address_align_bytes, chip.pcie_address_align_bytes, chip.noc_dram_address_align_bytes) == (
        16,
        32,
        32,
    )
    assert chip.supported_data_types == tuple(range(13))
    assert chip.supported_tile_sizes == ((4, 16), (16, 16), (32, 16), (4, 32), (16, 32), (32, 32))
    assert (chip.dst_physical_size_tiles, chip.num_cbs) == (16, 64)
    assert (chip.num_compute_threads, chip.num_datamovement_threads) == (1, 2)
    assert chip.dram_bank_to_logical_worker_noc0[:5] == ((7, 3), (0, 0), (4, 0), (5, 0), (0, 4))
    assert descriptor.system_desc.cpu_descs[0].target_triple == "x86_64-pc-linux"
    assert descriptor.version == (0, 0, 3758)


@pytest.mark.parametrize("board", [name for name in boards() if name != "e150"])
def test_what_is_written_is_a_flatbuffer_by_flatbuffers_own_reader(board: str) -> None:
    """Each table has the slots of its rows, and the numbers there; large ones are aligned from the first byte on."""
    data, wanted = ours(board), descriptor_of(load_board(board), HASH)
    assert struct.unpack_from("<I", data)[0] == len(data) - 4
    assert data[8:12] == b"TTSY"
    body = data[4:]
    root = flatbuffers.table.Table(bytearray(body), struct.unpack_from("<I", body)[0])
    assert root.String(root.Pos + root.Offset(4 + 2 * 1)).decode() == HASH
    system = flatbuffers.table.Table(root.Bytes, root.Indirect(root.Pos + root.Offset(4 + 2 * 4)))
    chips = system.Offset(4 + 2 * 1)
    assert system.VectorLen(chips) == load_board(board).chips
    for number, expected in enumerate(wanted.system_desc.chip_descs):
        chip = flatbuffers.table.Table(root.Bytes, system.Indirect(system.Vector(chips) + 4 * number))
        for field in FIELDS[ChipTable]:
            place = chip.Pos + chip.Offset(4 + 2 * field.slot)
            if field.kind == "number":
                assert (place + 4) % field.alignment == 0
                assert field.item.unpack_from(chip.Bytes, place)[0] == getattr(expected, field.name)
            elif field.kind == "structs":
                offset = chip.Offset(4 + 2 * field.slot)
                assert chip.VectorLen(offset) == len(getattr(expected, field.name))
                assert struct.unpack_from("<ii", chip.Bytes, chip.Vector(offset)) == getattr(expected, field.name)[0]


def test_slots_are_numbered_as_the_fields_stand() -> None:
    for cls, rows in FIELDS.items():
        assert [row.slot for row in rows] == list(range(len(rows)))
        assert [row.name for row in rows] == list(cls.__dataclass_fields__)


def test_boards_without_a_published_descriptor() -> None:
    p100, p150 = (descriptor_of(load_board(name), HASH).chips[0] for name in ("p100", "p150"))
    assert (p100.num_dram_channels, p100.grid_size) == (7, (10, 11))
    assert p100.dram_bank_to_logical_worker_noc0 == tuple(
        worker for bank, worker in enumerate(p150.dram_bank_to_logical_worker_noc0) if bank != 3
    )
    p300 = descriptor_of(load_board("p300"), HASH)
    assert [(chip.num_dram_channels, chip.grid_size) for chip in p300.chips] == [(8, (10, 11))] * 2
    assert [link[:2] + link[3:5] for link in p300.system_desc.chip_channels] == [
        (0, 2, 1, 9),
        (0, 3, 1, 8),
    ], "as tt-umd's example of one has them"
    galaxy = descriptor_of(load_board("galaxy"), HASH).system_desc
    assert len(galaxy.chip_desc_indices) == 32
    assert len({tuple(sorted((link[0], link[3]))) for link in galaxy.chip_channels}) == 4 * 7 + 3 * 8, "a mesh of 4x8"
    ends = [end for link in galaxy.chip_channels for end in (link[:2], link[3:5])]
    assert len(set(ends)) == len(ends), "a channel has one link"


def test_a_board_file_with_harvested_rows_and_half_the_l1_has_a_descriptor(tmp_path: Path) -> None:
    text = "like: n150\nboard: mine\nharvested_rows: [7, 8, 9]\nttnn: {grid: [6, 7], l1_bytes: 749568}\n"
    text += "buda: {grid: [7, 8]}\n"
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    board = load_board_file(tmp_path / "mine.yaml")
    assert (board.ttnn.dram_channels, board.ttnn.l1_unreserved_base) == (12, 103840), "the rest is n150's"
    (chip,) = api.read_system_desc(api.system_desc_file(board, HASH), "mine", HASH).chips
    (whole,) = descriptor_of(load_board("n150"), HASH).chips
    assert (chip.grid_size, chip.l1_size) == ((6, 7), 749568)
    programs = [(1 << 30) - each.dram_unreserved_end for each in (whole, chip)]
    assert programs == [103840 * 72 // 12, 484_608], "103,840 bytes for 56 cores in 12 banks, rounded up to 32"
    workers = chip.dram_bank_to_logical_worker_noc0
    assert len(set(workers)) == 12
    kept = [a for a, b in zip(workers, whole.dram_bank_to_logical_worker_noc0, strict=True) if a == b]
    assert len(kept) == 8, "(7, 3), (3, 7), (7, 4), (6, 4) lie outside and move"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("runtime: {coordinate_offset: [18]}", "runtime: expected coordinate_offset to be a row and a column, such as"),
        ("runtime: {pcie_alignment: 33}", "runtime: expected pcie_alignment to be a power of two, got 33"),
        ("runtime: {threads: {compute: 1}}", "runtime: expected threads to be numbers above 0 for compute and"),
        ("runtime: {tile_sizes: [[0, 32]]}", "runtime: expected tile_sizes to be a list of rows and columns above 0"),
        ("runtime: {chips: [{host: true}]}", "runtime: chip 0: expected dram_workers, a list of rows and columns"),
        ("runtime: {chips: [7]}", "runtime: chip 0: expected figures by name, got int"),
        ("runtime: {links: [[0, 1, 1, 1]]}", "runtime: expected links between two of 1 chips, got 0 to 1"),
        ("runtime: {cores: 1}", "runtime: expected only coordinate_offset"),
        ("chips: 2\nruntime: {chips: []}", "runtime: expected chips to be a list of chips, got"),
        ("runtime: null", "expected figures under `runtime` in its board file, got none; try `like: n150`"),
        ("ttnn: {l1_bytes: 98304, l1_unreserved_base: 1, l1_regions: {a: 1}}", "expected l1_unreserved_base and eri"),
        ("ttnn: {dram_channel_bytes: 8589934592}", "expected figures that fit into a system descriptor"),
        ("ttnn: {dram_channel_bytes: 2968641}", "expected dram_unreserved_base < dram_unreserved_end"),
        ("arch: grayskull", "expected an arch that tt-mlir knows (wormhole_b0, blackhole), got grayskull; try n150"),
    ],
)
def test_a_board_file_that_makes_no_descriptor_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"like: n150\nboard: mine\n{text}\n", encoding="utf-8")
    with pytest.raises(ValueError) as caught:
        api.system_desc_file(load_board_file(tmp_path / "mine.yaml"), HASH)
    assert message in str(caught.value)
    assert str(caught.value).startswith(("mine.yaml: ", "board mine: "))
    assert "\n" not in str(caught.value)


def test_only_the_build_with_its_hash_takes_a_descriptor() -> None:
    older = api.system_desc_file(load_board("n150"), api.schema_hash_of("jax-tt-plugin", "0.1.2"))
    assert api.read_system_desc(older, "my.ttsys").schema_hash != HASH
    line = refusal(older, HASH)
    assert "(jax-tt-plugin 0.1.3), got 50a866cfc403... (jax-tt-plugin 0.1.2); try" in line
    assert "--for jax-tt-plugin==0.1.3" in line
    assert "an unknown build" in refusal(ours().replace(HASH.encode(), b"a" * 64), HASH)
    other = next(build.schema_hash for build in BUILDS if build.other_layout)
    assert "whose tables are others" in refusal(ours().replace(HASH.encode(), other.encode()))
    assert "expected a schema hash of 64 hexadecimal digits" in refusal(ours().replace(HASH.encode(), b"X" * 64))


@pytest.mark.parametrize(
    ("distribution", "version", "message"),
    [
        ("jax-tt-plugin", "0.1.0", "expected a build with the tables of 0.1.1 and later, got one with others"),
        ("jax-tt-plugin", "0.1.4", "expected a build whose descriptor schema is known (jax-tt-plugin 0.1.1, "),
        ("pjrt-plugin-tt", "0.9", "pjrt-plugin-tt 0.9: expected a build whose descriptor schema is known"),
    ],
)
def test_a_build_without_a_known_hash_says_what_to_do(distribution: str, version: str, message: str) -> None:
    with pytest.raises(api.CompilerInputError) as caught:
        api.schema_hash_of(distribution, version)
    assert message in str(caught.value)
    assert "--system-desc FILE" in str(caught.value)


def test_every_truncated_descriptor_is_one_line() -> None:
    data = ours()
    for size in range(len(data)):
        refusal(data[:size])
        refusal(struct.pack("<I", max(size - 4, 0)) + data[4:size])
    refusal(data + b"\0")


def test_another_file_is_one_line() -> None:
    assert "with identifier TTSY, got b'TTNN'" in refusal(ours().replace(b"TTSY", b"TTNN"))
    for data in (b"", b"text", b"\xff" * 1000, bytes(1000), bytes(2 << 20)):
        refusal(data)


# quick: [n150], whose tables the others have too
@pytest.mark.parametrize("board", ["n150", *(pytest.param(name, marks=pytest.mark.slow) for name in ("n300", "p150"))])
def test_a_damaged_descriptor_is_one_line_or_has_possible_figures(board: str) -> None:
    """400 seeded mutations: bits, bytes and runs of them. Most are noticed; a number that is possible cannot be."""
    draw, data = random.Random(35), ours(board)
    noticed = 0
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(draw.choice((1, 1, 2, 8))):
            at = draw.randrange(len(data))
            damaged[at] = draw.choice((damaged[at] ^ 1 << draw.randrange(8), draw.randrange(256), 0, 255))
        if bytes(damaged) == data:
            continue
        try:
            api.read_system_desc(bytes(damaged), "my.ttsys", HASH)
        except api.CompilerInputError:
            refusal(bytes(damaged), HASH)
            noticed += 1
    assert noticed > 200, noticed


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 5))])
def test_every_damaged_offset_is_noticed_or_harmless(first: int) -> None:
    """Each place of four bytes that points somewhere, moved to the ends of the file and beyond.

    Quick: one place in five, other parts of each table."""
    data = ours()
    for place in range(4 * first, len(data) - 4, 20):
        for value in (0, 1, 4, len(data), len(data) - place, (1 << 31) - 1, (1 << 32) - 1, (1 << 32) - place):
            damaged = data[:place] + struct.pack("<I", value % (1 << 32)) + data[place + 4 :]
            try:
                api.read_system_desc(damaged, "my.ttsys")
            except api.CompilerInputError:
                refusal(damaged)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arch": 3}, "expected arch 0 to 2 (wormhole_b0, blackhole, quasar), got 3"),
        ({"grid_size": (0, 8)}, "expected a grid_size of 1x1 to 64x64 cores, got 0x8"),
        ({"grid_size": (-8, 8)}, "expected a grid_size"),
        ({"grid_size": (4, 8)}, "expected dram_bank_to_logical_worker_noc0 inside the grid of 4x8 cores, got (7, 3)"),
        ({"coord_translation_offsets": (-1, 0)}, "expected coord_translation_offsets"),
        ({"l1_size": 0}, "expected a possible l1_size above 0, got 0"),
        ({"num_cbs": 1 << 31}, "expected a possible num_cbs above 0, got 2,147,483,648"),
        ({"noc_dram_address_align_bytes": 0}, "expected noc_dram_address_align_bytes to be a power of two"),
        ({"pcie_address_align_bytes": 48}, "expected pcie_address_align_bytes to be a power of two up to 65,536"),
        ({"l1_unreserved_base": 1499136}, "expected l1_unreserved_base and erisc_l1_unreserved_base below l1_size"),
        ({"dram_unreserved_end": 2968640}, "expected dram_unreserved_base < dram_unreserved_end <= dram_channel_size"),
        ({"dram_unreserved_end": 1 << 31}, "expected dram_unreserved_base < dram_unreserved_end <= dram_channel_size"),
        ({"supported_data_types": (0, 19)}, "expected supported_data_types that differ, below 19, got (0, 19)"),
        ({"supported_data_types": ()}, "expected supported_data_types"),
        ({"supported_tile_sizes": ((0, 32),)}, "expected supported_tile_sizes above 0, got ((0, 32),)"),
        ({"dram_grid_size": (1, 11)}, "expected a dram_grid_size of 12 banks, got (1, 11)"),
        ({"dram_bank_to_logical_worker_noc1": ((0, 0),)}, "to have a worker for each of 12 banks, got 1"),
    ],
)
def test_an_impossible_figure_of_a_chip_is_one_line(change: dict[str, object], message: str) -> None:
    whole = descriptor_of(load_board("n150"), HASH)
    (chip,) = whole.system_desc.chip_descs
    assert message in refusal(_with(whole, chip_descs=(replace(chip, **change),)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cpu_descs": ()}, "expected a CPU and 1 to 1024 chips, got 0 and 2"),
        ({"chip_desc_indices": ()}, "expected a CPU and 1 to 1024 chips, got 1 and 0"),
        ({"chip_desc_indices": (0, 2)}, "expected chip_desc_indices below 2, got 2"),
        ({"chip_desc_indices": (1, 1)}, "expected chip_desc_indices that differ, got (1, 1)"),
        ({"chip_capabilities": (1,)}, "expected chip_capabilities of 2 chips, got 1"),
        ({"chip_capabilities": (1, 2)}, "expected chip_capabilities 0 or 1, got 2"),
        ({"chip_capabilities": (0, 0)}, "expected a chip that the host reaches, got none"),
        ({"chip_coords": ()}, "expected chip_coords, got none"),
        ({"chip_channels": ((0, 9, 0, 2, 1, 0),)}, "expected chip_channels between two of 2 chips, got 0 and 2"),
    ],
)
def test_an_impossible_figure_of_a_system_is_one_line(change: dict[str, object], message: str) -> None:
    assert message in refusal(_with(descriptor_of(load_board("n300"), HASH), **change))


def _with(whole: SystemDescriptor, **change: object) -> bytes:
    system: SystemTable = replace(whole.system_desc, **change)
    return descriptor_bytes(replace(whole, system_desc=system))

"""Bytes of tiles, by tt-budabackend and tenstorrent/tt-isa-documentation (FloatBitPatterns.md, UNPACR_Regular.md)."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.rounding import quantise
from opscope.compiler.target.system_desc import boards, load_board
from opscope.compiler.target.tiles import (
    TILE_DIMS,
    TileError,
    TileLayout,
    decode_blocks,
    decode_floats,
    encode_floats,
    from_tiles,
    layout_of,
    tile_size,
    to_tiles,
)

ON_DEVICE = [f for f in FORMATS.values() if f.on_device]
NARROW = [f for f in ON_DEVICE if f.kind == "float" and f.bits <= 16]


def values_of(name: str, shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    """Random values that a format has."""
    fmt, random = FORMATS[name], np.random.default_rng(seed)
    if fmt.is_float:
        spread = random.integers(-12, 12, shape)
        return quantise((random.standard_normal(shape) * 2.0**spread).astype(np.float32), fmt)
    low, high = np.iinfo(fmt.image).min, np.iinfo(fmt.image).max
    # The lowest number of a sign and a magnitude is one higher than that of two's complement.
    return random.integers(low + (fmt.kind == "int"), high, shape, dtype=np.int64, endpoint=True).astype(fmt.image)


@pytest.mark.parametrize("fmt", NARROW, ids=lambda f: f.name)
def test_all_patterns_of_narrow_floats_come_back(fmt) -> None:
    """FloatBitPatterns.md: every pattern of 8 and 16 bits; with 5 or 4 bits of exponent none is NaN."""
    codes = np.arange(1 << fmt.bits, dtype=np.uint32)
    values = decode_floats(codes, fmt)
    kept = ~np.isnan(values)
    assert np.array_equal(encode_floats(values, fmt)[kept], codes[kept])
    assert kept.all() or fmt.exponent_bits == 8, "narrow exponents have no NaN"


def test_narrow_floats_are_those_of_numpy_and_ml_dtypes_below_the_highest_exponent() -> None:
    known = {
        "Float16": np.float16,
        "Lf8": ml_dtypes.float8_e5m2,
        "Fp8_e5m2": ml_dtypes.float8_e5m2,
        "Fp8_e4m3": ml_dtypes.float8_e4m3fn,
        "Float16_b": ml_dtypes.bfloat16,
    }
    for name, dtype in known.items():
        fmt = FORMATS[name]
        codes = np.arange(1 << fmt.bits, dtype=f"u{fmt.bits // 8}")
        theirs = codes.view(dtype).astype(np.float32)
        finite = np.isfinite(theirs)
        assert np.array_equal(decode_floats(codes, fmt)[finite], theirs[finite]), name


def test_exponent_31_of_float16_is_a_binade() -> None:
    """FloatBitPatterns.md, FP16: (1 + Mant/2^10) * 2^(31-15); all ones is what overflow gives, here Inf."""
    codes = np.array([0x7C00, 0x7E00, 0x7FFE, 0x7FFF, 0xFC00], np.uint16)
    assert decode_floats(codes, FORMATS["Float16"]).tolist() == [65536, 98304, 130944, np.inf, -65536]
    assert decode_floats(np.array([0x78, 0x7E, 0x7F], np.uint8), FORMATS["Fp8_e4m3"]).tolist() == [256, 448, np.inf]


def isa_bfp8_to_bf16(datum: int, exponent: int) -> float | None:
    """What FloatBitPatterns.md's table says of a BFP8 datum; None where its field of 8 bits would wrap."""
    magnitude, negative = datum & 0x7F, datum >> 7
    if magnitude == 0:
        return -np.inf if negative else 0.0
    if exponent - (7 - magnitude.bit_length()) < 1 or exponent == 255:
        return None
    return (-1.0) ** negative * magnitude / 2**6 * 2.0 ** (exponent - 127)


@pytest.mark.parametrize(("name", "width"), [("Bfp8_b", 7), ("Bfp4_b", 3), ("Bfp2_b", 1)])
def test_all_patterns_of_blocks_read_as_the_table_says(name: str, width: int) -> None:
    datums = np.arange(1 << (width + 1), dtype=np.uint8)
    for exponent in (7, 8, 100, 127, 200, 254):
        groups = np.resize(datums, (-(-len(datums) // 16), 16))
        read = decode_blocks(groups, np.full(len(groups), exponent, np.uint8), FORMATS[name]).reshape(-1)
        for datum, value in zip(groups.reshape(-1).tolist(), read.tolist(), strict=True):
            # BFP4 and BFP2 are BFP8 with zeros below (UNPACR_Regular.md).
            expected = isa_bfp8_to_bf16(datum << (7 - width), exponent)
            assert expected is None or value == expected, (name, exponent, datum)


def test_a_blocks_have_bias_15_and_a_lone_sign_is_the_lowest_number() -> None:
    """FloatBitPatterns.md, BFP8a: bias 15; a sign without magnitude is -2^16."""
    codes = np.zeros((1, 16), np.uint8)
    codes[0, :3] = [64, 0x80 | 96, 0x80]
    read = decode_blocks(codes, np.array([31], np.uint8), FORMATS["Bfp8"])
    assert read[0, :3].tolist() == [65536, -98304, -65536]


@pytest.mark.parametrize("fmt", ON_DEVICE, ids=lambda f: f.name)
def test_tensors_come_back_in_both_worlds(fmt) -> None:
    shapes = [(), (5,), (32, 32), (33, 65), (2, 3, 40, 17)]
    for layout, shape in itertools.product((TileLayout(), TileLayout(header=True, alignment=32)), shapes):
        values = values_of(fmt.name, shape)
        data = to_tiles(values, fmt, layout)
        assert len(data) % tile_size(fmt, layout) == 0
        assert np.array_equal(from_tiles(data, shape, fmt, layout), values)


@pytest.mark.parametrize("dims", TILE_DIMS)
def test_partial_tiles(dims: tuple[int, int]) -> None:
    for name in ("Float16_b", "Bfp8_b", "Bfp4", "Int8"):
        values = values_of(name, (37, 50))
        layout = TileLayout(dims, header=True, alignment=32)
        assert np.array_equal(from_tiles(to_tiles(values, name, layout), (37, 50), name, layout), values)
    # Exponent bytes of a block of 1x32 fill 16 bytes (UNPACR_Regular.md: ceil(ceil(32 / 16) / 16) * 16).
    assert tile_size("Bfp8_b", TileLayout((1, 32))) == 16 + 32


def test_a_tile_is_four_faces_of_rows() -> None:
    """tt-budabackend and tt-metal (tech_reports/tensor_layouts): faces of 16x16, row by row."""
    tile = np.arange(1024, dtype=np.uint16).reshape(32, 32)
    stored = np.frombuffer(to_tiles(tile, "UInt16"), np.uint16)
    assert stored[:16].tolist() == tile[0, :16].tolist()
    assert stored[16:32].tolist() == tile[1, :16].tolist()
    assert stored[256:272].tolist() == tile[0, 16:].tolist()
    assert stored[512:528].tolist() == tile[16, :16].tolist()


def test_bytes_of_a_block_tile_by_hand() -> None:
    """UNPACR_Regular.md: exponents, filled up to 16 bytes, before the datums; tt-budabackend: a header first."""
    tile = np.zeros((32, 32), np.float32)
    tile[0, :3] = [1.0, -0.5, 3.0]
    layout = TileLayout(header=True, alignment=32)
    data = to_tiles(tile, "Bfp8_b", layout)
    assert len(data) == 1120 == FORMATS["Bfp8_b"].buda_tile_bytes
    assert data[:16] == bytes([1120 // 16, 0, 0, 0]) + bytes(12)
    assert data[16:18] == bytes([128, 0]), "the exponent of 3, then that of a group of zeros"
    assert data[80:83] == bytes([32, 0x80 | 16, 96]), "in units of 2^-5"
    small = to_tiles(quantise(tile, "Bfp4_b"), "Bfp4_b")
    assert small[64:66] == bytes([2 | (0x8 | 1) << 4, 6]), "the first datum is in the low bits"
    assert to_tiles(quantise(tile, "Bfp2_b"), "Bfp2_b")[64] == 1 << 4


def test_integers_have_a_sign_and_a_magnitude() -> None:
    """Packers/FormatConversion.md: INT8 and INT32 are sign and magnitude, UINT8 is not."""
    assert to_tiles(np.array([[-3, 5, -128]], np.int8), "Int8")[:3] == bytes([0x83, 5, 0xFF])
    assert to_tiles(np.array([[-1]], np.int32), "Int32")[:4] == bytes([1, 0, 0, 0x80])
    assert to_tiles(np.array([[255]], np.uint8), "UInt8")[0] == 255
    assert from_tiles(to_tiles(np.array([[-128]], np.int8), "Int8"), (1, 1), "Int8").tolist() == [[-127]]


@pytest.mark.parametrize("fmt", ON_DEVICE, ids=lambda f: f.name)
def test_sizes_are_those_of_the_format_table(fmt) -> None:
    assert tile_size(fmt) == fmt.tile_bytes
    assert tile_size(fmt, layout_of(load_board("n150").buda)) == fmt.buda_tile_bytes
    assert tile_size(fmt, layout_of(load_board("p150").ttnn)) == fmt.tile_bytes


def test_every_board_has_both_layouts() -> None:
    for name in boards():
        board = load_board(name)
        assert layout_of(board.buda).header
        assert not layout_of(board.ttnn).header


def test_bad_bytes_and_values_are_refused() -> None:
    layout = TileLayout(header=True, alignment=32)
    good = to_tiles(np.ones((32, 32), np.float32), "Float16_b", layout)
    with pytest.raises(TileError, match="expected 1 tiles of 2080 bytes of Float16_b, got 2079"):
        from_tiles(good[:-1], (32, 32), "Float16_b", layout)
    with pytest.raises(TileError, match="tile 0: expected a header that says 130, got 7"):
        from_tiles(bytes([7]) + good[1:], (32, 32), "Float16_b", layout)
    for name, value in (("Float16_b", 1 + 2**-9), ("Lf8", 1.1), ("Bfp8_b", np.nan), ("Bfp8", 1e9), ("Fp8_e4m3", 1e-9)):
        with pytest.raises(TileError, match=f"expected values of {name}"):
            to_tiles(np.array([[value, 1.0]], np.float32), name)
    with pytest.raises(TileError, match="expected integers of UInt8"):
        to_tiles(np.array([[256]]), "UInt8")
    with pytest.raises(TileError, match="format of the device, got Tf32"):
        tile_size("Tf32")
    with pytest.raises(TileError, match="expected a size of 32x32"):
        TileLayout((3, 32))


@pytest.mark.slow
@pytest.mark.parametrize("fmt", ON_DEVICE, ids=lambda f: f.name)
def test_a_million_values_come_back(fmt) -> None:
    values = values_of(fmt.name, (1024, 1024), seed=9)
    assert np.array_equal(from_tiles(to_tiles(values, fmt), values.shape, fmt), values)

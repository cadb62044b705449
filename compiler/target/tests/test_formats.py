from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.compiler.target.formats import (
    ELEMENT_TYPES,
    FORMATS,
    default_format,
    element_type,
    host_dtype,
    number_format,
    padded_tiles,
)
from opscope.compiler.target.rounding import flush, quantise, to_block, to_tf32

RANDOM = np.random.default_rng(7)


@pytest.mark.parametrize(
    ("name", "raw", "buda"),
    [
        ("Float32", 4096, 4128),
        ("Float16_b", 2048, 2080),
        ("Float16", 2048, 2080),
        ("Bfp8_b", 1088, 1120),
        ("Bfp4_b", 576, 608),
        ("Bfp2_b", 320, 352),
        ("Int32", 4096, 4128),
        ("Int8", 1024, 1056),
    ],
)
def test_tile_bytes_are_the_published_ones(name: str, raw: int, buda: int) -> None:
    """FloatBitPatterns.md: datums, and an exponent per 16 of a block; tt-budabackend: a header of 32 bytes."""
    assert (FORMATS[name].tile_bytes, FORMATS[name].buda_tile_bytes) == (raw, buda)


def test_both_vocabularies_name_the_same_format() -> None:
    for fmt in FORMATS.values():
        assert number_format(fmt.name) is fmt
        if fmt.ttcore:
            assert number_format(fmt.ttcore) is fmt
    with pytest.raises(ValueError, match=r"got 'bfp9'; try .*Bfp8"):
        number_format("bfp9")
    for name in ("Invalid", "invalid"):
        with pytest.raises(ValueError, match=f"expected a format, got '{name}', which names none; try Float32"):
            number_format(name)


def test_codes_are_those_of_the_back_end() -> None:
    """The codes are those of `DataFormat` in tt-budabackend and tt-metal."""
    codes = {f.name: f.code for f in FORMATS.values() if f.code is not None}
    assert codes["Lf8"] == codes["Fp8_e5m2"] == 10
    assert (codes["Fp8_e4m3"], codes["UInt8"], codes["RawUInt8"], codes["RawUInt32"]) == (0x1A, 30, 0xF0, 0xF2)
    assert len(set(codes.values())) == len(codes) - 1, "only the two names of FP8 share one"
    assert not any(code == 0xFF for code in codes.values()), "0xFF is Invalid"


def test_every_element_type_has_a_format_or_a_reason() -> None:
    for row in ELEMENT_TYPES.values():
        assert (row.data_format is None or row.read_only) == bool(row.why_not)
    assert default_format("i1") is FORMATS["UInt8"]
    assert default_format("f64") is None
    assert host_dtype("bf16") == ml_dtypes.bfloat16
    with pytest.raises(ValueError, match="try f32"):
        element_type("fp32")


def test_padded_tiles() -> None:
    assert padded_tiles(()) == padded_tiles((5,)) == padded_tiles((32, 32)) == 1
    assert padded_tiles((2, 33, 65)) == 2 * 2 * 3


def test_bfloat16_nearest_even_is_ml_dtypes() -> None:
    """Packers/FormatConversion.md: the packer's ties go away from zero, the host's to even."""
    x = (RANDOM.standard_normal(20000) * 10.0 ** RANDOM.integers(-30, 30, 20000)).astype(np.float32)
    assert np.array_equal(quantise(x, "Float16_b", "even"), x.astype(ml_dtypes.bfloat16).astype(np.float32))
    away = quantise(x, "Float16_b")
    assert np.abs(away - x).max(initial=0, where=np.abs(x) < 1) <= 2.0**-8
    # Ties differ: 1 + 2^-8 lies half-way between 1 and 1 + 2^-7.
    tie = np.float32([1 + 2**-8, -(1 + 2**-8)])
    assert quantise(tie, "Float16_b").tolist() == [1 + 2**-7, -(1 + 2**-7)]
    assert quantise(tie, "Float16_b", "even").tolist() == quantise(tie, "Float16_b", "truncate").tolist() == [1, -1]


def test_packing_loses_what_the_packer_loses() -> None:
    """Packers/FormatConversion.md: rounding makes NaN Inf, -0 +0 and denormals zero."""
    x = np.float32([np.nan, -np.inf, -0.0, 1e-40, 3.4e38])
    assert quantise(x, "Float16_b").tolist() == [np.inf, -np.inf, 0, 0, np.inf]
    assert not np.signbit(quantise(x, "Float16_b")[2])
    assert flush(np.float32([1e-40, -0.0, 2.0])).tolist() == [0, 0, 2]
    kept = np.float32([1.5])
    assert flush(kept) is kept


def test_tf32_truncates_13_bits() -> None:
    """UNPACR_Regular.md: Float32 enters SrcA and SrcB as TF32, 13 bits cut."""
    x = RANDOM.standard_normal(1000).astype(np.float32)
    assert np.array_equal(to_tf32(x), (x.view(np.uint32) >> 13 << 13).view(np.float32))
    assert to_tf32(np.float32([1 + 2**-10 + 2**-11])).tolist() == [1 + 2**-10]


def test_float16_agrees_with_numpy_where_both_are_normal() -> None:
    """FloatBitPatterns.md, FP16: IEEE's half but for exponents 0 (zero) and 31 (a binade)."""
    x = (RANDOM.standard_normal(20000) * 10.0 ** RANDOM.integers(-4, 4, 20000)).astype(np.float32)
    rounded = x.astype(np.float16).astype(np.float32)  # what lies just below the normal numbers may become one
    assert np.array_equal(quantise(x, "Float16", "even"), np.where(np.abs(rounded) < 2**-14, 0, rounded))
    assert quantise(np.float32([1e6, -1e6, 2.0**-15]), "Float16").tolist() == [np.inf, -np.inf, 0]


def test_block_floats_by_hand() -> None:
    """FloatBitPatterns.md: units of 2^-6 of the shared exponent; FormatConversion.md: BFP4 and BFP2 are cut BFP8."""
    x = np.zeros((1, 16), np.float32)
    x[0, :5] = [1.0, 0.75, 1 / 64, 1 / 128, -0.3]
    # Shared exponent 127: a unit is 2^-6; 1/128 is half a unit and goes away from zero; .3 is 19.2 units.
    assert to_block(x, 7)[0, :5].tolist() == [1.0, 0.75, 1 / 64, 1 / 64, -19 / 64]
    # Three bits: units of 1/4, truncated.
    assert to_block(x, 3)[0, :5].tolist() == [1.0, 0.75, 0, 0, -0.25]
    assert to_block(x, 1)[0, :5].tolist() == [1.0, 0, 0, 0, 0]


def test_block_floats_share_16_along_the_last_dim() -> None:
    """FloatBitPatterns.md: 16 datums in a row share an exponent."""
    x = np.ones((2, 40), np.float32)
    x[0, 3] = 1000.0
    out = quantise(x, "Bfp8_b")
    assert out[0, 0] == 0, "1 is below half a unit of 2^3 beside 1000"
    assert (out[0, 16:] == 1).all()
    assert (out[1] == 1).all()
    assert out.shape == x.shape


def test_block_error_is_bounded_by_half_a_unit() -> None:
    """Packers/FormatConversion.md: to BFP8, nearest with ties away, of a mantissa cut to bfloat16's."""
    x = RANDOM.standard_normal((64, 64)).astype(np.float32)
    groups = x.reshape(64, 4, 16)
    unit = 2.0 ** (np.floor(np.log2(np.abs(groups).max(-1, keepdims=True))) - 6)
    error = np.abs(to_block(x, 7).reshape(groups.shape) - groups)
    assert (error <= unit * 1.01).all()
    assert 0.2 < (error / unit).mean() < 0.3


def test_small_exponents_of_the_a_formats() -> None:
    """FloatBitPatterns.md: the `a` formats share an exponent of 5 bits."""
    x = np.full((1, 16), 2.0**-20, np.float32)
    assert (quantise(x, "Bfp8") == 0).all()
    assert (quantise(x, "Bfp8_b") == x).all()

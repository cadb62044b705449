"""Rounding of host, packer and SFPU. Sources: tenstorrent/tt-isa-documentation, WormholeB0, named at each test."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.compiler.target import rounding
from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.rounding import (
    as_number,
    flush_keeping_sign,
    host_rounded,
    kept,
    largest,
    quantise,
    sfpu_stored,
    to_block,
)

FLOATS = {
    "Float16_b": ml_dtypes.bfloat16,
    "Float16": np.float16,
    "Lf8": ml_dtypes.float8_e5m2,
    "Fp8_e4m3": ml_dtypes.float8_e4m3fn,
}


def any_floats(count: int = 20000, seed: int = 3) -> np.ndarray:
    """Random bit patterns of float32, NaN left out."""
    patterns = np.random.default_rng(seed).integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    return patterns[~np.isnan(patterns)]


@pytest.mark.parametrize("name", FLOATS)
def test_the_host_rounds_as_numpy_and_ml_dtypes(name: str) -> None:
    """tt-metal's float8.cpp, tt-budabackend: nearest, ties to even; FloatBitPatterns.md: denormals read as zero."""
    fmt, dtype = FORMATS[name], np.dtype(FLOATS[name])
    x = np.concatenate([any_floats(), np.random.default_rng(1).standard_normal(20000).astype(np.float32) * 30])
    smallest = 2.0 ** (2 - (1 << (fmt.exponent_bits - 1)))
    with np.errstate(over="ignore"):
        theirs = x.astype(dtype).astype(np.float32)
    # Denormals are zero, and E4M3 saturates where ml_dtypes gives NaN.
    top = np.copysign(np.float32(448), x)
    theirs = np.where(np.isnan(theirs) & np.isfinite(x), top, theirs) if name == "Fp8_e4m3" else theirs
    normal = (np.abs(x) >= smallest) & (np.isfinite(x) | (name != "Fp8_e4m3"))
    assert np.array_equal(host_rounded(x, name)[normal], theirs[normal])
    assert (host_rounded(x[np.abs(x) < smallest * 0.9], name) == 0).all()
    assert np.isnan(host_rounded(np.float32([np.nan]), name)).all(), "the host keeps NaN"


def test_the_packer_rounds_ties_away_and_the_host_to_even() -> None:
    """Packers/FormatConversion.md: round-to-nearest with ties away from zero."""
    tie = np.float32([1 + 2**-8, -(1 + 2**-8)])
    assert quantise(tie, "Float16_b").tolist() == [1 + 2**-7, -(1 + 2**-7)]
    assert host_rounded(tie, "Float16_b").tolist() == [1, -1]


def test_the_packer_cuts_fp8_and_saturates_it() -> None:
    """Packers/FormatConversion.md, late conversion to FP8: saturate the exponent, then truncate the mantissa."""
    x = np.float32([1.24, 1.99, -1.99, 200000.0, 2.0**-15, np.nan])
    assert quantise(x, "Lf8").tolist() == [1.0, 1.75, -1.75, np.inf, 0, np.inf]
    assert quantise(x, "Fp8_e5m2").tolist() == quantise(x, "Lf8").tolist()
    assert quantise(np.float32([1.99, 470.0, 500.0, 2.0**-7]), "Fp8_e4m3").tolist() == [1.875, 448, np.inf, 0]


def test_float16_reaches_130944() -> None:
    """FloatBitPatterns.md, FP16: exponent 31 is a binade; overflow gives all ones, which here is Inf."""
    assert largest(FORMATS["Float16"]) == 131008
    large = np.float32([65520, 70000, 130944, 131000, 1e9])
    assert quantise(large, "Float16").tolist() == [65536, 70016, 130944, np.inf, np.inf]


def test_block_formats_of_host_and_packer_differ() -> None:
    """BFP4 and BFP2 are cut from BFP8 in the packer (FormatConversion.md); the host rounds the full mantissa once."""
    x = np.zeros((1, 16), np.float32)
    x[0, :4] = [1.0, 0.74, 0.2, 0.9]
    assert quantise(x, "Bfp4_b")[0, :4].tolist() == [1.0, 0.5, 0, 0.75]
    assert host_rounded(x, "Bfp4_b")[0, :4].tolist() == [1.0, 0.75, 0.25, 1.0]
    assert host_rounded(x * -1, "Bfp2_b")[0, :4].tolist() == [-1, -1, 0, -1]


def test_exponent_31_of_a_blocks_is_used() -> None:
    """FloatBitPatterns.md, BFP8a: 5 bits of exponent, of which 31 is a binade like the others."""
    x = np.full((1, 16), 100000.0, np.float32)
    assert (quantise(x, "Bfp8") == 100352).all()
    assert (quantise(x * 2, "Bfp8") == 127 / 64 * 65536).all(), "beyond it the magnitude saturates"


def test_sfpstore_truncates() -> None:
    """SFPSTORE.md: denormals to zero of their sign, mantissa towards zero; FP16: overflow and NaN to all ones."""
    x = np.float32([1.999, -1.999, -1e-40, 200000.0])
    assert sfpu_stored(x, "Float16_b").tolist() == [1.9921875, -1.9921875, 0, 199680]
    assert np.signbit(sfpu_stored(x, "Float16_b")[2])
    assert sfpu_stored(np.float32([1.9999, 200000.0, np.nan, -np.inf, 2.0**-15]), "Float16").tolist() == [
        1.9990234375,
        np.inf,
        np.inf,
        -np.inf,
        0,
    ]
    nan = np.array([0x7F800001, 0x7FC00000], np.uint32).view(np.float32)
    assert np.isinf(sfpu_stored(nan, "Float16_b")).tolist() == [True, False], "cut bits can be all of a NaN"


def test_stochastic_rounding_is_biased_as_the_hardware_is() -> None:
    """SFPSTOCHRND_FloatFloat.md: up if the cut bits are >= random ones, so also where nothing needs to be rounded."""
    random = np.random.default_rng(5)
    half = quantise(np.full(1 << 17, 1 + 2**-9, np.float32), "Float16_b", "stochastic", random)
    assert 0.24 < (half > 1).mean() < 0.26
    exact = quantise(np.ones(1 << 20, np.float32), "Float16_b", "stochastic", random)
    assert 4 <= (exact > 1).sum() <= 40, "once in 2^16"
    blocks = to_block(np.full((4096, 16), 1 + 2**-7, np.float32), 7, mode="stochastic", random=random)
    assert 0.48 < (blocks > 1).mean() < 0.52
    with pytest.raises(ValueError, match="expected a generator"):
        quantise(np.ones(2, np.float32), "Float16_b", "stochastic")


def test_the_matrix_unit_reads_exponent_255_as_a_number() -> None:
    """FloatBitPatterns.md: (1 + Mant/2^23) * 2^(Exp-127) for every exponent but 0."""
    nan = np.array([0x7FC00000, 0xFF800000], np.uint32).view(np.float32)
    assert as_number(nan, "Float32").tolist() == [1.5 * 2.0**128, -(2.0**128)]
    assert as_number(np.float32([np.inf, -np.inf]), "Float16").tolist() == [131008, -131008]
    assert as_number(np.float32([np.inf]), "Fp8_e4m3").tolist() == [480]


def test_blackhole_keeps_the_sign_of_flushed_numbers() -> None:
    """BlackholeA0, SFPMAD.md: flushed to sign-preserved zero."""
    kept = flush_keeping_sign(np.float32([-1e-40, 1e-40, -0.0, 2]))
    assert np.signbit(kept).tolist() == [True, False, True, False]
    assert kept.tolist() == [0, 0, 0, 2]


@pytest.mark.parametrize("name", ["Float16_b", "Float16", "Lf8", "Fp8_e4m3", "Bfp8_b", "Bfp8", "Bfp4_b", "Bfp2"])
def test_what_is_in_a_format_stays(name: str) -> None:
    """Packers/FormatConversion.md: what needs no rounding is not changed."""
    x = quantise(any_floats(4096).reshape(-1)[:4080].reshape(-1, 16), name)
    assert np.array_equal(quantise(x, name), x)
    finite = np.where(np.abs(x) < 65536, x, 0)  # what the host's types know
    assert np.array_equal(host_rounded(finite, name), finite)


@pytest.mark.slow
@pytest.mark.parametrize("name", [f.name for f in FORMATS.values() if f.is_float and f.name != "Float32"])
def test_a_million_values_are_off_by_at_most_a_unit(name: str) -> None:
    """Packers/FormatConversion.md: off by half a unit where it rounds, by one where it cuts (FP8, BFP4, BFP2)."""
    fmt = FORMATS[name]
    random = np.random.default_rng(11)
    x = (random.standard_normal((1 << 16, 16)) * 2.0 ** random.integers(-6, 6, (1 << 16, 1))).astype(np.float32)
    top = np.abs(x).max(axis=-1, keepdims=True) if fmt.kind == "block" else np.abs(x)
    width = fmt.mantissa_bits - 1 if fmt.kind == "block" else fmt.mantissa_bits
    unit = 2.0 ** (np.floor(np.log2(np.maximum(top, 2.0**-60))) - width)
    smallest = 2.0 ** (2 - (1 << (fmt.exponent_bits - 1)))
    normal = np.abs(x) >= smallest
    cuts = (fmt.bits == 8 and fmt.kind == "float") or fmt.mantissa_bits < 7
    largest_error = {"packer": 1.0 if cuts else 0.5, "host": 0.5}
    for who, rounded in (("packer", quantise(x, fmt)), ("host", host_rounded(x, fmt))):
        saturated = np.isinf(rounded) | (np.abs(rounded) >= 448) | (np.abs(x) >= unit * (2.0 ** (width + 1) - 0.5))
        error = (np.abs(rounded - x) / unit)[normal & ~saturated]
        assert error.max() <= largest_error[who] + (0.02 if fmt.kind == "block" else 0), who


def test_a_large_transposed_matrix_keeps_its_order_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its values are those of a copy, which took 40 s for the last product of a language model."""
    matrix = np.random.default_rng(0).standard_normal((5, 7), np.float32)
    matrix[2, :4] = -0.0, 1e-41, np.nan, -np.inf
    turned = matrix.T
    copied = kept(turned, 0xFFFFE000)
    monkeypatch.setattr(rounding, "TURNED", 0)
    uncopied = kept(turned, 0xFFFFE000)
    assert (uncopied.view(np.uint32) == np.ascontiguousarray(copied).view(np.uint32)).all()
    assert uncopied.T.flags.c_contiguous

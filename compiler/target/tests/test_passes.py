"""The passes in C have the bits of NumPy's, of every pattern of 16 bits and of random ones of 32."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from opscope.base import passes
from opscope.base.installing import install_command
from opscope.compiler.target.rare_values import has_nan, has_special, has_tiny
from opscope.compiler.target.rounding import bits, flush, kept, quantise, to_halves, to_mantissa

if passes.compiled is None:
    pytest.skip(f"no compiled passes here: {passes.state}", allow_module_level=True)
compiled: Any = passes.compiled

HALVES = np.arange(1 << 16, dtype=np.uint16)
RANDOM = np.random.default_rng(5).integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
TAILS = (HALVES.astype(np.uint32) << 16)[:, None] | np.uint32([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
RARE = np.uint32([0, 1 << 31, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00000])


def numpys(monkeypatch: pytest.MonkeyPatch, function: Callable[[], Any]) -> Any:
    """What a function returns without the compiled passes."""
    with monkeypatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(passes, "compiled", None)
        return function()


def words(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.itemsize}")


ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "flush": flush,
    "kept": lambda x: kept(x, 0xFFFFC000),
    "away": lambda x: quantise(x, "Float16_b"),
    "even": lambda x: quantise(x, "Float16_b", "even"),
    "truncate": lambda x: quantise(x, "Float16_b", "truncate"),
    "tf32": lambda x: to_mantissa(x, 10),
    "most": lambda x: to_mantissa(x, 22),
    "least": lambda x: to_mantissa(x, 1),
    "Float16": lambda x: quantise(x, "Float16"),
    "Bfp8_b": lambda x: quantise(x.reshape(-1, 16), "Bfp8_b"),
    "halves": to_halves,
    "halves cut": lambda x: to_halves(x, "truncate"),
}


@pytest.mark.parametrize("name", ROUNDINGS)
def test_rounding_has_numpys_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for pattern in (TAILS.reshape(-1), RANDOM, np.resize(RARE, 48)):
        x = pattern.view(np.float32)
        expected = numpys(monkeypatch, lambda x=x: ROUNDINGS[name](x))
        with np.errstate(all="ignore"):
            assert np.array_equal(words(ROUNDINGS[name](x)), words(expected))


@pytest.mark.parametrize("look", [has_tiny, has_special, has_nan, lambda p: has_tiny(p, 27 << 23)])
def test_a_look_sees_one_value_wherever_it_is(look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = np.full(3000, 0x3F800000, np.uint32)
    for word in (*RARE, *RANDOM[:40]):
        for at in (0, 1023, 1024, 2999):
            pattern = plain.copy()
            pattern[at] = word
            assert look(pattern) == numpys(monkeypatch, lambda pattern=pattern: look(pattern))
    assert not look(plain[:0])


def test_a_look_at_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (0, 0x80, 0x81, 0x0D80):
        for word in np.concatenate([HALVES[:0x90], HALVES[0x0D70:0x0D90], HALVES[0x8000:0x8090]]):
            pattern = np.full(33, 0x3F80, np.uint16)
            pattern[32] = word
            assert has_tiny(pattern, size) == numpys(monkeypatch, lambda p=pattern, s=size: has_tiny(p, s))


def test_halves_are_widened() -> None:
    out = np.empty(HALVES.size, np.float32)
    compiled.widen(HALVES, out)
    assert np.array_equal(bits(out), HALVES.astype(np.uint32) << 16)


def test_memory_of_any_address_is_read() -> None:
    raw = bytes(1) + TAILS.tobytes()
    odd = np.frombuffer(raw, np.float32, offset=1)
    assert not odd.flags.aligned
    even = TAILS.reshape(-1).view(np.float32)
    assert np.array_equal(words(quantise(odd, "Float16_b")), words(quantise(even, "Float16_b")))
    assert has_tiny(odd[:4000].view(np.uint32)) == has_tiny(TAILS.reshape(-1)[:4000])
    target = np.frombuffer(bytearray(5), np.float32, offset=1)
    with pytest.raises(ValueError, match="aligned"):
        compiled.keep(np.zeros(1, np.float32), 1, target)


F, U, H = np.zeros(8, np.float32), np.zeros(8, np.uint32), np.zeros(8, np.uint16)
LINES = np.zeros((0x4F000000 >> 16) + 1, np.float32)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("has_tiny", (np.zeros(8), 1)),
        ("has_tiny", (U[::2], 1)),
        ("has_tiny", (U, -1)),
        ("has_tiny", (U, 1 << 40)),
        ("has_tiny", (U,)),
        ("reaches", ([1, 2], 1)),
        ("reaches", (H, 1)),
        ("changes", (U.astype(">u4"), 1)),
        ("keep", (F, 1, F[:7])),
        ("keep", (F, 1, np.frombuffer(bytes(32), np.float32))),
        ("round_floats", (F, 0, "away", F)),
        ("round_floats", (F, 23, "away", F)),
        ("round_floats", (F, 16, "up", F)),
        ("round_floats", (F, 16, 0, F)),
        ("narrow", (F, "away", F)),
        ("narrow", (F, "away", H[:7].copy())),
        ("widen", (H, np.zeros(9, np.float32))),
        ("widen", (F, F)),
        ("combine", ("power", F, F, F)),
        ("combine", (0, F, F, F)),
        ("combine", ("add", F, F[:2], F)),
        ("combine", ("add", F[:2], F, F)),
        ("combine", ("add", F, F, F[:0])),
        ("combine", ("add", F, F.astype(np.int32), F)),
        ("look_up", (np.zeros(65535, np.uint16), H, H)),
        ("look_up", (np.zeros(65536, np.uint8), H, H)),
        ("look_up", (np.zeros(65536, np.uint16), H, H[:7].copy())),
        ("look_up", (np.zeros(65536, np.float64), H, np.zeros(8))),
        ("odd_series", (F, F[:0], 1.0, F)),
        ("odd_series", (F, F, "1", F)),
        ("odd_series", (F, F, 1.0, F[:7])),
        ("normal", (U, F, F, 1.0, 0.0, F)),
        ("normal", (U, LINES, LINES[1:], 1.0, 0.0, F)),
        ("normal", (U[:7], LINES, LINES, 1.0, 0.0, F)),
        ("normal", (F, LINES, LINES, 1.0, 0.0, F)),
        ("normal", (U, LINES, LINES, "1", 0.0, F)),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_touched(function: str, arguments: tuple[Any, ...]) -> None:
    counts = [sys.getrefcount(argument) for argument in arguments]
    with pytest.raises((TypeError, ValueError, BufferError, OverflowError)):
        getattr(compiled, function)(*arguments)
    assert [sys.getrefcount(argument) for argument in arguments] == counts, "memory is given back"


def test_a_build_of_another_source_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "SOURCE", "another")
    assert passes._load() == (None, f"NumPy (compiled from another _passes.c; try {install_command()})")


def test_without_it_numpy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opscope.base.passes._passes", None)
    assert passes._load() == (None, "NumPy (not compiled: no C compiler at installation)")

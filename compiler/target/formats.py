"""The one table of number formats: what each is called in both worlds, how big it is, whether the device has it.

Names are TT-Buda's (`Float16_b`), with tt-mlir's `ttcore` spelling (`bf16`) beside them. `ELEMENT_TYPES` maps each
MLIR element type to the format in which the device holds it, or to the hardware fact why it cannot.
Sizes and names: tenstorrent/tt-isa-documentation (FloatBitPatterns.md), tt-mlir (ttcore DataType), tt-buda.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cached_property, lru_cache

import ml_dtypes
import numpy as np

TILE = 32
"""Rows and columns of a tile."""
INDEX_LIMIT = 2**30
"""Where 64-bit integers that say a place saturate on their way to the device's 32. No dim of a tensor in tiles is as
long: with the other one padded to 32 it would take 32 GiB. So one more step, add or subtract, still fits 32 bits.
"""
FACE = 16
"""Rows and columns of a face; a tile is 2x2 faces."""


@dataclass(frozen=True)
class NumberFormat:
    """One number format; `tile_bytes` is a raw 32x32 tile in L1 or DRAM, without any header."""

    name: str
    ttcore: str
    """tt-mlir's name; empty if it has none."""
    kind: str
    """`float`, `block` (16 datums share an exponent), `int`, `uint`, or `host` (the element type itself, in NumPy)."""
    bits: int
    """Stored bits per datum, a shared exponent not counted."""
    exponent_bits: int = 0
    mantissa_bits: int = 0
    """Explicit fraction bits; of a block format: magnitude bits (it has no hidden one)."""
    on_device: bool = True
    """Whether tensors can be held in it in L1 or DRAM."""
    code: int | None = None
    """Number of the format in Tenstorrent's `DataFormat`, as tt-budabackend and tt-metal write it; None: has none."""

    @cached_property
    def tile_bytes(self) -> int:
        """Bytes of a 32x32 tile: the datums, and one exponent byte per 16 of them in a block format."""
        return TILE * TILE * self.bits // 8 + (TILE * TILE // 16 if self.kind == "block" else 0)

    @cached_property
    def buda_tile_bytes(self) -> int:
        """Bytes of a tile as TT-Buda counts them: with a 32-byte header."""
        return self.tile_bytes + 32

    @property
    def is_float(self) -> bool:
        """Whether a tensor in it is computed as floats."""
        return self.kind in ("float", "block")

    @property
    def image(self) -> np.dtype:
        """NumPy type in which the simulator holds it: float32 for every float, else the integer itself.

        A `host` format has none of its own: its tensors are in that of their element type.
        """
        return np.dtype(np.float32) if self.is_float else np.dtype(f"{self.kind}{self.bits}")

    @property
    def register_exponent_bits(self) -> int:
        """Exponent bits of a datum in SrcA, SrcB and a 16-bit Dst: 5 for formats held as FP16, else 8."""
        return 5 if 0 < self.exponent_bits <= 5 else 8

    def datum_bytes(self) -> float:
        """Average bytes per datum in a row-major buffer of this format."""
        return self.tile_bytes / (TILE * TILE)


FORMATS: dict[str, NumberFormat] = {
    f.name: f
    for f in (
        NumberFormat("Float32", "f32", "float", 32, 8, 23, code=0),
        NumberFormat("Tf32", "", "float", 32, 8, 10, on_device=False, code=4),
        NumberFormat("Float16", "f16", "float", 16, 5, 10, code=1),
        NumberFormat("Float16_b", "bf16", "float", 16, 8, 7, code=5),
        NumberFormat("Lf8", "lf8", "float", 8, 5, 2, code=10),
        NumberFormat("Fp8_e5m2", "f8e5m2", "float", 8, 5, 2, code=10),
        NumberFormat("Fp8_e4m3", "f8e4m3", "float", 8, 4, 3, code=0x1A),
        NumberFormat("Bfp8", "bfp_f8", "block", 8, 5, 7, code=2),
        NumberFormat("Bfp8_b", "bfp_bf8", "block", 8, 8, 7, code=6),
        NumberFormat("Bfp4", "bfp_f4", "block", 4, 5, 3, code=3),
        NumberFormat("Bfp4_b", "bfp_bf4", "block", 4, 8, 3, code=7),
        NumberFormat("Bfp2", "bfp_f2", "block", 2, 5, 1, code=11),
        NumberFormat("Bfp2_b", "bfp_bf2", "block", 2, 8, 1, code=15),
        NumberFormat("Int32", "si32", "int", 32, code=8),
        NumberFormat("Int8", "", "int", 8, code=14),
        NumberFormat("UInt32", "u32", "uint", 32, code=24),
        NumberFormat("UInt16", "u16", "uint", 16, code=9),
        NumberFormat("UInt8", "u8", "uint", 8, code=30),
        NumberFormat("RawUInt32", "", "uint", 32, code=0xF2),
        NumberFormat("RawUInt16", "", "uint", 16, code=0xF1),
        NumberFormat("RawUInt8", "", "uint", 8, code=0xF0),
        NumberFormat("Int64", "", "int", 64, on_device=False),
        NumberFormat("UInt64", "", "uint", 64, on_device=False),
        NumberFormat("Float64", "", "host", 64, on_device=False),
        NumberFormat("Complex64", "", "host", 64, on_device=False),
        NumberFormat("Complex128", "", "host", 128, on_device=False),
        NumberFormat("Byte", "", "host", 8, on_device=False),
    )
}
"""Every format, by TT-Buda's name. `Tf32` lives only in the matrix unit's source registers; 64 bits, and bytes
that hold a narrower float or integer, only on the host. `Lf8` and `Fp8_e5m2` are one format with an old and a new
name. `RawUInt8`, `RawUInt16` and `RawUInt32` are bits that nothing converts, such as the encoded tiles of a sparse
matrix. tt-mlir has no word for 8-bit floats; ours are `lf8`, `f8e5m2` and `f8e4m3`."""

INVALID = "Invalid"
"""What the back end calls a tensor without a format (code 0xFF): a name, never a format."""

_ALIASES = {f.ttcore.lower(): f.name for f in FORMATS.values() if f.ttcore}
_ALIASES |= {f.name.lower(): f.name for f in FORMATS.values()}
_ALIASES |= {"float16b": "Float16_b", "bfp8b": "Bfp8_b", "bfp4b": "Bfp4_b", "bfp2b": "Bfp2_b", "tf32": "Tf32"}
_ALIASES |= {"bfloat16": "Float16_b", "float32": "Float32"}


@lru_cache(maxsize=256)
def number_format(name: str) -> NumberFormat:
    """The format called `name` in either vocabulary, case ignored. Raises ValueError with the closest names."""
    alias = _ALIASES.get(name.lower())
    if name.lower() == INVALID.lower():
        raise ValueError(f"data format: expected a format, got {name!r}, which names none; try {', '.join(FORMATS)}")
    if alias is None:
        near = difflib.get_close_matches(name.lower(), _ALIASES, n=3, cutoff=0.4)
        hint = ", ".join(dict.fromkeys(_ALIASES[n] for n in near)) or ", ".join(FORMATS)
        raise ValueError(f"data format: expected a known format, got {name!r}; try {hint}")
    return FORMATS[alias]


@dataclass(frozen=True)
class ElementType:
    """An MLIR element type: its NumPy type on the host, and the format the device holds it in."""

    name: str
    numpy: np.dtype | None
    """None where neither NumPy nor ml_dtypes has it."""
    data_format: str | None
    """Default device format; None if the device has none."""
    why_not: str = ""
    """The hardware fact, where `data_format` is None, or where it is `read_only`."""
    read_only: bool = False
    """Whether values are moved and converted to other types only, as weights are: nothing computes in it."""


_NO_64 = "the device's registers hold at most 32 bits per datum"
_NO_COMPLEX = "the device has no complex numbers"
_NO_FP8 = "the device's unpackers have no {} (of the 8-bit floats only E4M3FN and E5M2, and not on every board)"
_NO_SUB_BYTE = "the device has no integers narrower than 8 bits"


def _element_types() -> dict[str, ElementType]:
    rows: list[tuple[str, object, str | None, str]] = [
        ("f32", np.float32, "Float32", ""),
        ("bf16", ml_dtypes.bfloat16, "Float16_b", ""),
        ("f16", np.float16, "Float16", ""),
        ("i32", np.int32, "Int32", ""),
        ("ui32", np.uint32, "UInt32", ""),
        # ttcore has no signed 8- or 16-bit device type: held in Int32, results wrap to their own width.
        ("i16", np.int16, "Int32", ""),
        ("i8", np.int8, "Int32", ""),
        ("ui16", np.uint16, "UInt16", ""),
        ("ui8", np.uint8, "UInt8", ""),
        ("i1", np.bool_, "UInt8", ""),
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn, "Fp8_e4m3", ""),
        ("f8E5M2", ml_dtypes.float8_e5m2, "Lf8", ""),
        ("f64", np.float64, None, _NO_64),
        ("i64", np.int64, None, _NO_64),
        ("ui64", np.uint64, None, _NO_64),
        ("complex<f32>", np.complex64, None, _NO_COMPLEX),
        ("complex<f64>", np.complex128, None, _NO_COMPLEX),
        # Weights of 4 bits are held as i8 is, and converted where they are read; nothing computes in 4 bits.
        ("i4", ml_dtypes.int4, "Int32", _NO_SUB_BYTE),
        ("ui4", ml_dtypes.uint4, "UInt8", _NO_SUB_BYTE),
        ("i2", ml_dtypes.int2, None, _NO_SUB_BYTE),
        ("ui2", ml_dtypes.uint2, None, _NO_SUB_BYTE),
    ]
    f8 = {
        "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
        "f8E4M3FNUZ": "float8_e4m3fnuz",
        "f8E5M2FNUZ": "float8_e5m2fnuz",
        "f8E4M3": "float8_e4m3",
        "f8E3M4": "float8_e3m4",
        "f8E8M0FNU": "float8_e8m0fnu",
        "f4E2M1FN": "float4_e2m1fn",
        "f6E2M3FN": "float6_e2m3fn",
        "f6E3M2FN": "float6_e3m2fn",
    }
    rows += [(name, getattr(ml_dtypes, attr), None, _NO_FP8.format(name)) for name, attr in f8.items()]
    return {
        n: ElementType(n, np.dtype(t), f, why, read_only=f is not None and bool(why))  # type: ignore[arg-type]
        for n, t, f, why in rows
    }


ELEMENT_TYPES: dict[str, ElementType] = _element_types()
"""Every MLIR element type that StableHLO tensors have (quantised types apart)."""


def element_type(name: str) -> ElementType:
    """The row of MLIR element type `name`. Raises ValueError if there is none."""
    if name not in ELEMENT_TYPES:
        near = difflib.get_close_matches(name, ELEMENT_TYPES, n=3, cutoff=0.4)
        raise ValueError(
            f"element type: expected an MLIR element type, got {name!r}; try {', '.join(near or ELEMENT_TYPES)}"
        )
    return ELEMENT_TYPES[name]


def default_format(name: str) -> NumberFormat | None:
    """The device format of MLIR element type `name`, or None (then `element_type(name).why_not` says why)."""
    row = element_type(name)
    return FORMATS[row.data_format] if row.data_format else None


_ON_HOST = {
    "i64": "Int64",
    "ui64": "UInt64",
    "f64": "Float64",
    "complex<f32>": "Complex64",
    "complex<f64>": "Complex128",
}


def host_format(name: str) -> NumberFormat:
    """The format in which the host holds MLIR element type `name`. Raises ValueError for an unknown one."""
    if (data_format := default_format(name)) is not None:
        return data_format
    return FORMATS[_ON_HOST.get(name, "Byte")]


def host_dtype(name: str) -> np.dtype:
    """The NumPy type in which the host holds MLIR element type `name`. Raises ValueError if there is none."""
    dtype = element_type(name).numpy
    if dtype is None:
        raise ValueError(f"element type: expected one that NumPy can hold, got {name!r}")
    return dtype


def padded_tiles(shape: tuple[int, ...]) -> int:
    """Tiles that a tensor of `shape` takes: the last two dims are padded to 32, a vector is one row."""
    rows = shape[-2] if len(shape) > 1 else 1
    cols = shape[-1] if shape else 1
    lead = 1
    for dim in shape[:-2]:
        lead *= dim
    return lead * -(-rows // TILE) * -(-cols // TILE)

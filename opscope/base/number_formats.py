"""The one table of number formats and element types; every other table of them is derived from it.

Formats have TT-Buda's names (`Float16_b`), with tt-mlir's `ttcore` spelling (`bf16`) beside them. `ELEMENT_TYPES` maps
each MLIR element type to its NumPy type and to the format in which a device holds it, or to the hardware fact why none
does. Sizes and names: tenstorrent/tt-isa-documentation (FloatBitPatterns.md), tt-mlir (ttcore DataType), tt-buda.
NumPy is imported when a type is asked for, since pytest's own process has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

TILE = 32
"""Rows and columns of a tile."""
SHARED = 16
"""Elements of a row that share an exponent in a block format."""


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
    tt_mlir_code: int | None = None
    """Number of the format in tt-mlir's system descriptors; None: tt-mlir makes no tensors of it."""

    @cached_property
    def tile_bytes(self) -> int:
        """Bytes of a 32x32 tile: the datums, and one exponent byte per 16 of them in a block format."""
        return TILE * TILE * self.bits // 8 + (TILE * TILE // SHARED if self.kind == "block" else 0)

    @cached_property
    def buda_tile_bytes(self) -> int:
        """Bytes of a tile as TT-Buda counts them: with a 32-byte header."""
        return self.tile_bytes + 32

    @property
    def is_float(self) -> bool:
        """Whether a tensor in it is computed as floats."""
        return self.kind in ("float", "block")

    @cached_property
    def image(self) -> np.dtype:
        """NumPy type in which the simulator holds it: float32 for every float, else the integer itself.

        A `host` format has none of its own: its tensors are in that of their element type.
        """
        import numpy as np

        return np.dtype(np.float32) if self.is_float else np.dtype(f"{self.kind}{self.bits}")

    @property
    def register_exponent_bits(self) -> int:
        """Exponent bits of a datum in SrcA, SrcB and a 16-bit Dst: 5 for formats held as FP16, else 8."""
        return 5 if 0 < self.exponent_bits <= 5 else 8

    @property
    def rounds_as(self) -> str:
        """The format that verdicts treat it as: one for block formats of either exponent, one for 8-bit floats."""
        if self.kind == "block":
            return self.name.removesuffix("_b")
        return "Float8" if self.kind == "float" and self.bits == 8 else self.name

    @property
    def fraction_bits(self) -> int:
        """Fraction bits behind the leading one; of a block format behind that of the block's largest value."""
        return self.mantissa_bits - (self.kind == "block")

    def datum_bytes(self) -> float:
        """Average bytes per datum in a row-major buffer of this format."""
        return self.tile_bytes / (TILE * TILE)

    def holds(self, other: NumberFormat) -> bool:
        """Whether it has every number of another float format."""
        wide_enough = self.exponent_bits >= other.exponent_bits and self.mantissa_bits >= other.mantissa_bits
        return self.kind == other.kind == "float" and wide_enough


FORMATS: dict[str, NumberFormat] = {
    f.name: f
    for f in (
        NumberFormat("Float32", "f32", "float", 32, 8, 23, code=0, tt_mlir_code=0),
        NumberFormat("Tf32", "", "float", 32, 8, 10, on_device=False, code=4),
        NumberFormat("Float16", "f16", "float", 16, 5, 10, code=1, tt_mlir_code=1),
        NumberFormat("Float16_b", "bf16", "float", 16, 8, 7, code=5, tt_mlir_code=2),
        NumberFormat("Lf8", "lf8", "float", 8, 5, 2, code=10),
        NumberFormat("Fp8_e5m2", "f8e5m2", "float", 8, 5, 2, code=10),
        NumberFormat("Fp8_e4m3", "f8e4m3", "float", 8, 4, 3, code=0x1A),
        NumberFormat("Bfp8", "bfp_f8", "block", 8, 5, 7, code=2, tt_mlir_code=3),
        NumberFormat("Bfp8_b", "bfp_bf8", "block", 8, 8, 7, code=6, tt_mlir_code=4),
        NumberFormat("Bfp4", "bfp_f4", "block", 4, 5, 3, code=3, tt_mlir_code=5),
        NumberFormat("Bfp4_b", "bfp_bf4", "block", 4, 8, 3, code=7, tt_mlir_code=6),
        NumberFormat("Bfp2", "bfp_f2", "block", 2, 5, 1, code=11, tt_mlir_code=7),
        NumberFormat("Bfp2_b", "bfp_bf2", "block", 2, 8, 1, code=15, tt_mlir_code=8),
        NumberFormat("Int32", "si32", "int", 32, code=8, tt_mlir_code=12),
        NumberFormat("Int8", "", "int", 8, code=14),
        NumberFormat("UInt32", "u32", "uint", 32, code=24, tt_mlir_code=9),
        NumberFormat("UInt16", "u16", "uint", 16, code=9, tt_mlir_code=10),
        NumberFormat("UInt8", "u8", "uint", 8, code=30, tt_mlir_code=11),
        NumberFormat("RawUInt32", "", "uint", 32, code=0xF2),
        NumberFormat("RawUInt16", "", "uint", 16, code=0xF1),
        NumberFormat("RawUInt8", "", "uint", 8, code=0xF0),
        NumberFormat("Int64", "", "int", 64, on_device=False),
        NumberFormat("UInt64", "", "uint", 64, on_device=False),
        NumberFormat("Float64", "", "host", 64, 11, 52, on_device=False),
        NumberFormat("Complex64", "", "host", 64, on_device=False),
        NumberFormat("Complex128", "", "host", 128, on_device=False),
        NumberFormat("Byte", "", "host", 8, on_device=False),
    )
}
"""Every format, by TT-Buda's name. `Tf32` lives only in the matrix unit's source registers; 64 bits, and bytes
that hold a narrower float or integer, only on the host. `Lf8` and `Fp8_e5m2` are one format with an old and a new
name. `RawUInt8`, `RawUInt16` and `RawUInt32` are bits that nothing converts, such as the encoded tiles of a sparse
matrix. tt-mlir has no word for 8-bit floats; ours are `lf8`, `f8e5m2` and `f8e4m3`."""


@dataclass(frozen=True)
class ElementType:
    """An MLIR element type: its NumPy type on the host, and the format the device holds it in."""

    name: str
    numpy_name: str
    """Its name in NumPy or ml_dtypes."""
    data_format: str | None
    """Default device format; None if the device has none."""
    why_not: str = ""
    """The hardware fact, where `data_format` is None, or where it is `read_only`."""
    host_format: str = "Byte"
    """The format in which the host holds it, where `data_format` is None."""

    @cached_property
    def numpy(self) -> np.dtype:
        """Its NumPy type."""
        import numpy as np

        try:
            return np.dtype(self.numpy_name)
        except TypeError:
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, self.numpy_name))

    @property
    def read_only(self) -> bool:
        """Whether values are moved and converted to other types only, as weights are: nothing computes in it."""
        return self.data_format is not None and bool(self.why_not)

    @property
    def held_in(self) -> NumberFormat:
        """The format in which the device holds it, or else the host."""
        return FORMATS[self.data_format or self.host_format]


_NO_64 = "the device's registers hold at most 32 bits per datum"
_NO_COMPLEX = "the device has no complex numbers"
_NO_FP8 = "the device's unpackers have no {} (of the 8-bit floats only E4M3FN and E5M2, and not on every board)"
_NO_SUB_BYTE = "the device has no integers narrower than 8 bits"

ELEMENT_TYPES: dict[str, ElementType] = {
    e.name: e
    for e in (
        ElementType("f32", "float32", "Float32"),
        ElementType("bf16", "bfloat16", "Float16_b"),
        ElementType("f16", "float16", "Float16"),
        ElementType("i32", "int32", "Int32"),
        ElementType("ui32", "uint32", "UInt32"),
        # ttcore has no signed 8- or 16-bit device type: held in Int32, results wrap to their own width.
        ElementType("i16", "int16", "Int32"),
        ElementType("i8", "int8", "Int32"),
        ElementType("ui16", "uint16", "UInt16"),
        ElementType("ui8", "uint8", "UInt8"),
        ElementType("i1", "bool", "UInt8"),
        ElementType("f8E4M3FN", "float8_e4m3fn", "Fp8_e4m3"),
        ElementType("f8E5M2", "float8_e5m2", "Lf8"),
        ElementType("f64", "float64", None, _NO_64, "Float64"),
        ElementType("i64", "int64", None, _NO_64, "Int64"),
        ElementType("ui64", "uint64", None, _NO_64, "UInt64"),
        ElementType("complex<f32>", "complex64", None, _NO_COMPLEX, "Complex64"),
        ElementType("complex<f64>", "complex128", None, _NO_COMPLEX, "Complex128"),
        # Weights of 4 bits are held as i8 is, and converted where they are read; nothing computes in 4 bits.
        ElementType("i4", "int4", "Int32", _NO_SUB_BYTE),
        ElementType("ui4", "uint4", "UInt8", _NO_SUB_BYTE),
        ElementType("i2", "int2", None, _NO_SUB_BYTE),
        ElementType("ui2", "uint2", None, _NO_SUB_BYTE),
        *(
            ElementType(name, numpy_name, None, _NO_FP8.format(name))
            for name, numpy_name in {
                "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
                "f8E4M3FNUZ": "float8_e4m3fnuz",
                "f8E5M2FNUZ": "float8_e5m2fnuz",
                "f8E4M3": "float8_e4m3",
                "f8E3M4": "float8_e3m4",
                "f8E8M0FNU": "float8_e8m0fnu",
                "f4E2M1FN": "float4_e2m1fn",
                "f6E2M3FN": "float6_e2m3fn",
                "f6E3M2FN": "float6_e3m2fn",
            }.items()
        ),
    )
}
"""Every MLIR element type that StableHLO tensors have (quantised types apart)."""

SIGNIFICAND_BITS = {name: ELEMENT_TYPES[name].held_in.mantissa_bits + 1 for name in ("f64", "f32", "bf16", "f16")}
"""Float type -> bits of its significand, the hidden one among them."""

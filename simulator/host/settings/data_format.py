"""Number formats."""

from __future__ import annotations

from opscope.simulator.host.settings.named_value import NamedValue


class DataFormat(NamedValue):
    """A number format, with tt-budabackend's number. `_b` has eight bits of exponent, other narrow floats five."""

    Float32 = 0
    Float16 = 1
    Bfp8 = 2
    Bfp4 = 3
    Bfp2 = 11
    Float16_b = 5
    Bfp8_b = 6
    Bfp4_b = 7
    Bfp2_b = 15
    Lf8 = 10
    UInt16 = 9
    Int8 = 14
    RawUInt8 = 240
    RawUInt16 = 241
    RawUInt32 = 242
    Int32 = 8
    Invalid = 255

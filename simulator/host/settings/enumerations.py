"""Enumerations of TT-Buda: members have its names, which files hold, and its numbers."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from opscope.simulator.host.errors import NoMeaningHere, PyBudaError

E = TypeVar("E", bound="NamedValue")

REFUSED = {
    "Model": "it estimates and computes nothing; `opscope plan` prints estimates",
    "Versim": "it simulates the hardware's RTL, which is not public",
    "Emulation": "it needs an emulator of the chip",
}
"""Kinds without a meaning here, and why."""


class NamedValue(Enum):
    """A member has a name, which files hold, and TT-Buda's number."""

    @classmethod
    def from_json(cls: type[E], text: str) -> E:
        """Returns the member of that name; case does not matter. Raises PyBudaError."""
        for member in cls:
            if isinstance(text, str) and member.name.lower() == text.lower():
                return member
        raise PyBudaError(f"{cls.__name__}: expected {', '.join(m.name for m in cls)}, got {text!r}")

    @classmethod
    def from_string(cls: type[E], text: str) -> E:
        """Returns the member of that name; case does not matter. Raises PyBudaError."""
        return cls.from_json(text)

    def to_json(self) -> str:
        """Returns its name."""
        return self.name


class BackendDevice(NamedValue):
    """An architecture."""

    Grayskull = 0
    Wormhole = 1
    Wormhole_B0 = 2
    Blackhole = 3
    Invalid = 255

    def to_string(self) -> str:
        """Returns its name in lower case."""
        return self.name.lower()

    @property
    def arch(self) -> str:
        """The compiler's name of it. Raises NoMeaningHere for those that it does not know."""
        if self in (BackendDevice.Wormhole, BackendDevice.Invalid):
            raise NoMeaningHere(
                f"arch: expected Grayskull, Wormhole_B0 or Blackhole, got {self.name}, of which no board is described"
            )
        return self.to_string()


class BackendType(NamedValue):
    """What runs a program. Here `Golden` and `Silicon` are the same simulated card."""

    Golden = 0
    Model = 1
    Versim = 2
    Silicon = 3
    NoBackend = 4
    Emulation = 5
    Invalid = 255


class DeviceMode(NamedValue):
    """Whether a device compiles, runs, or does both."""

    CompileAndRun = 0
    CompileOnly = 1
    RunOnly = 2


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


class MathFidelity(NamedValue):
    """How many phases the matrix unit takes for a product: each adds bits of the operands."""

    LoFi = 0
    HiFi2 = 2
    HiFi3 = 3
    HiFi4 = 4
    Invalid = 255


class PerfTraceLevel(NamedValue):
    """How much a performance trace holds: nothing, cycles of ops, or also bytes and places."""

    NONE = 0
    LIGHT = 1
    VERBOSE = 2


class DRAMPlacementAlgorithm(NamedValue):
    """The order in which channels are taken."""

    ROUND_ROBIN = 0
    ROUND_ROBIN_FLIP_FLOP = 1
    GREATEST_CAPACITY = 2
    CLOSEST = 3

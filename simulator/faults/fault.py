"""A hardware fault as a user writes it: `l1-bit@3-4,0x1a000,5`, `dead-core@0-0`, `slow-channel@2=x4`.

A core is ROW-COL of the grid that programs may use, an address counts from the start of the core's L1 or of the DRAM
channel, reserved regions included, and a bit is 0 to 7 of the byte there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from opscope.compiler.target.system_desc import Profile
from opscope.simulator.cores_of import Core, name_of

FORMS = {
    "l1-bit": (
        "l1-bit@ROW-COL,ADDRESS,BIT",
        "bit 0 to 7 of a byte of that core's L1 is inverted in every tensor that comes to lie there",
    ),
    "dram-bit": ("dram-bit@CHANNEL,ADDRESS,BIT", "the same in a DRAM channel"),
    "dead-core": ("dead-core@ROW-COL", "operations on that core never end: `DeviceHang`, exit code 1"),
    "stuck-link": (
        "stuck-link@ROW-COL,DIRECTION",
        "products whose operands are multicast over that link of NoC 0 (`east`, `south`) never end",
    ),
    "slow-channel": (
        "slow-channel@CHANNEL=xN",
        "the channel (without `@CHANNEL` channel 0) takes N times as long for its pages; results are the same",
    ),
}
"""Kind -> how it is written, what it does."""
DIRECTIONS = {"east": (0, 1), "south": (1, 0)}
"""Where NoC 0 leads from a core: rows and columns to the next one."""

_NUMBER = r"(0x[0-9a-fA-F]{1,16}|0|[1-9]\d{0,19})"
_CORE = r"(\d{1,4})-(\d{1,4})"
_PATTERNS = {
    "l1-bit": re.compile(rf"@{_CORE},{_NUMBER},(\d+)"),
    "dram-bit": re.compile(rf"@(\d{{1,4}}),{_NUMBER},(\d+)"),
    "dead-core": re.compile(rf"@{_CORE}"),
    "stuck-link": re.compile(rf"@{_CORE},([a-z]+)"),
    "slow-channel": re.compile(r"(?:@(\d{1,4}))?=x(\d{1,6}(?:\.\d{1,6})?)"),
}


class FaultError(ValueError):
    """No fault that this device can have; `--fault: expected X, got Y; try Z`."""


@dataclass(frozen=True)
class Fault:
    """One hardware fault; fields that its kind has not are None."""

    text: str
    kind: str
    core: Core | None = None
    channel: int | None = None
    address: int | None = None
    bit: int | None = None
    direction: str | None = None
    factor: float | None = None

    def check(self, grid: tuple[int, int], profile: Profile) -> None:
        """Raises FaultError if a device with this grid and these memories has no such core, channel, byte or link."""
        if self.core is not None:
            _within(self.text, self.core, grid)
        if self.direction is not None and self.core is not None:
            step = DIRECTIONS[self.direction]
            _within(self.text, (self.core[0] + step[0], self.core[1] + step[1]), grid, "a link to a core")
        if self.channel is not None and self.channel >= profile.dram_channels:
            raise _expected(f"a DRAM channel below {profile.dram_channels}", self.text)
        size = profile.dram_channel_bytes if self.kind == "dram-bit" else profile.l1_bytes
        if self.address is not None and self.address >= size:
            raise _expected(f"an address below {size:,}", self.text)


def parse(text: str) -> Fault:
    """The fault that a text names. Raises FaultError."""
    kind = re.split(r"[@=]", text, maxsplit=1)[0]
    if kind not in FORMS:
        raise FaultError(f"--fault: expected one of {', '.join(FORMS)}, got {text[:80]!r}; try {FORMS['l1-bit'][0]}")
    matched = _PATTERNS[kind].fullmatch(text.removeprefix(kind))
    if matched is None:
        example = {"l1-bit": "l1-bit@0-0,0x20000,3", "dram-bit": "dram-bit@0,0x400,3"}.get(kind, FORMS[kind][0])
        raise FaultError(f"--fault: expected {FORMS[kind][0]}, got {text[:80]!r}; try {example}")
    words = matched.groups()
    match kind:
        case "slow-channel":
            factor = float(words[1])
            if factor < 1:
                raise _expected("a factor of 1 or more", text)
            return Fault(text, kind, channel=int(words[0] or 0), factor=factor)
        case "dram-bit":
            return Fault(text, kind, channel=int(words[0]), address=int(words[1], 0), bit=_bit(words[2], text))
    core = int(words[0]), int(words[1])
    match kind:
        case "l1-bit":
            return Fault(text, kind, core, address=int(words[2], 0), bit=_bit(words[3], text))
        case "stuck-link":
            if words[2] not in DIRECTIONS:
                raise _expected(f"a direction of {', '.join(DIRECTIONS)}", text)
            return Fault(text, kind, core, direction=words[2])
    return Fault(text, kind, core)


def _bit(word: str, text: str) -> int:
    if not 0 <= int(word[:3]) <= 7 or len(word) > 3:
        raise _expected("a bit from 0 to 7", text)
    return int(word)


def _within(text: str, core: Core, grid: tuple[int, int], what: str = "a core") -> None:
    if not (0 <= core[0] < grid[0] and 0 <= core[1] < grid[1]):
        last = name_of((grid[0] - 1, grid[1] - 1))
        raise _expected(f"{what} of the {grid[0]}x{grid[1]} that are not switched off", text, f"0-0 to {last}")


def _expected(what: str, text: str, hint: str = "") -> FaultError:
    return FaultError(f"--fault: expected {what}, got {text[:80]!r}" + (f"; try {hint}" if hint else ""))

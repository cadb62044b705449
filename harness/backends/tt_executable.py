"""What tt-mlir's PJRT plugin leaves of an op: its executable in three parts, the IR of its stages, and its errors.

The executable that `serialize()` returns is a header that varies, then `TTSERv00`, six little-endian 64-bit numbers
(offset and size of TTIR, TTNN and flatbuffer, counted from their end), then these three. With the compile option
`export_path` the plugin writes each stage's IR as `irs/<stage>_<milliseconds>.mlir`. Both as jax-tt-plugin 0.1.0 to
0.1.3 do it (measured). Standard library only.
"""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from opscope.base.visible_text import cut
from opscope.harness.record.stages import Stage

MARK = b"TTSERv00"
_SIZES = struct.Struct("<6Q")
FLATBUFFER = b"TTNN"
"""Identifier of the flatbuffer, eight bytes from its beginning, since its size comes first."""

STAGES = (Stage.STABLEHLO_TO_TTIR, Stage.TTIR_TO_TTNN, Stage.TTNN_TO_FLATBUFFER)
_WRITTEN = {Stage.STABLEHLO_TO_TTIR: "ttir", Stage.TTIR_TO_TTNN: "ttnn", Stage.TTNN_TO_FLATBUFFER: "fb"}
"""Stage -> the name of the file that shows that it has passed."""
WRITTEN = {
    Stage.STABLEHLO_TO_TTIR: "irs/ttir_*.mlir",
    Stage.TTIR_TO_TTNN: "irs/ttnn_[0-9]*.mlir",
    Stage.TTNN_TO_FLATBUFFER: "fb_*.ttnn",
}
"""Stage -> the pattern of that file in an export folder."""
_FIRST = "vhlo"
"""What is written before the first stage."""
_FILE = re.compile(r"(\w+?)_(\d{10,})\.(mlir|ttnn)")
_NAMED = (
    (re.compile(r"from SHLO to TTIR|convert from (?:VHLO|StableHLO)"), Stage.STABLEHLO_TO_TTIR),
    (re.compile(r"TTIRToTTNN|TTIR to TTNN|to TTNN module"), Stage.TTIR_TO_TTNN),
    (re.compile(r"[Ff]latbuffer|TTNN to "), Stage.TTNN_TO_FLATBUFFER),
)
"""What an error says of its stage."""
_CODE = re.compile(r"^[A-Z][A-Z_]{3,}: ")
"""The status code that PJRT puts in front of a message."""
_FATAL = re.compile(r"(?:TT_FATAL|TT_THROW) @ [^\n]*\ninfo:\n([^\n]+)")
"""tt-metal's own errors: the place, then what is wrong."""


class Parts(NamedTuple):
    """The three parts of an executable."""

    ttir: str
    ttnn: str
    flatbuffer: bytes


def parts(serialised: bytes) -> Parts:
    """The parts of a serialised executable. Raises ValueError if it is not laid out as described above."""
    start = serialised.find(MARK)
    if start < 0:
        raise ValueError(f"executable: expected {MARK.decode()} in it, got {len(serialised)} bytes without")
    base = start + len(MARK) + _SIZES.size
    if base > len(serialised):
        raise ValueError("executable: expected six sizes, got its end")
    numbers = _SIZES.unpack_from(serialised, start + len(MARK))
    sections: list[bytes] = []
    for offset, size in zip(numbers[::2], numbers[1::2], strict=True):
        if base + offset + size > len(serialised):
            raise ValueError(f"executable: expected {size} bytes at {offset}, got {len(serialised) - base} in all")
        sections.append(serialised[base + offset : base + offset + size])
    if sections[2][8:12] != FLATBUFFER:
        raise ValueError(f"executable: expected a flatbuffer {FLATBUFFER.decode()}, got {sections[2][8:12]!r}")
    return Parts(sections[0].decode().rstrip("\0"), sections[1].decode().rstrip("\0"), sections[2])


def exported(folder: Path) -> Iterator[tuple[str, int, Path]]:
    """What the plugin has written to an export folder: stage, time in milliseconds, file; in order of time."""
    files = [*folder.glob("irs/*.mlir"), *folder.glob("fb_*.ttnn")]
    named = [(match[1], int(match[2]), path) for path in files if (match := _FILE.fullmatch(path.name))]
    yield from sorted(named, key=lambda file: (file[1], file[0]))


def passed(folder: Path) -> Stage:
    """The last stage that the files of an export folder show as passed."""
    written = {name for name, _, _ in exported(folder)}
    return next((stage for stage in reversed(STAGES) if _WRITTEN[stage] in written), Stage.SPLIT)


def failed_stage(message: str, folder: Path) -> Stage:
    """The stage at which an op failed: the one that the error names, else the one after the last that has passed."""
    for pattern, stage in _NAMED:
        if pattern.search(message):
            return stage
    before = passed(folder)
    after = STAGES.index(before) + 1 if before in STAGES else 0
    return STAGES[min(after, len(STAGES) - 1)]


def first_diagnostic(message: str) -> str:
    """The compiler's own first words in an error: without status code, and without what followed from it."""
    text = _CODE.sub("", message.strip())
    fatal = _FATAL.search(text)
    if fatal is not None:
        return f"{text.partition(' @ ')[0]}: {fatal[1].strip()}"
    first = text.partition("\n")[0]
    return first.partition("; ")[0].strip() or cut(message.strip(), 200)


def seconds(folder: Path, whole: float) -> dict[Stage, float]:
    """Seconds of each stage, from the times in the files' names; all as `compile` where one of them is missing."""
    times = {name: moment for name, moment, _ in exported(folder)}
    marks = [times.get(name) for name in (_FIRST, *_WRITTEN.values())]
    if None in marks:
        return {Stage.COMPILE: whole}
    moments = [mark for mark in marks if mark is not None]
    return {
        stage: max(0, after - before) / 1000 for stage, before, after in zip(STAGES, moments, moments[1:], strict=False)
    }


def keep(folder: Path, target: Path) -> None:
    """Moves the files of an export folder to `target`, named by their stage. Raises OSError."""
    target.mkdir(parents=True, exist_ok=True)
    for name, _, path in exported(folder):
        shutil.move(path, target / ("binary.ttnn" if name == "fb" else f"{name}.mlir"))

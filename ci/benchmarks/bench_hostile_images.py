"""A device image, spoiled or made up a thousand times: how each ends, and how long it takes to say so.

`python -m ci.benchmarks.bench_hostile_images FILE.tti [--mutations N] [--seed S]`: a third changes bytes of the file. A
third changes bytes of one entry, most often of a binary or the tensors, a third one value of `device.json`, both with
checksums and a MANIFEST that fit, as who makes up an image would write them. The exit code is 1 if one ends in anything
but a typed error or a run, takes longer than a second to refuse, or, as a changed file, gives other bits.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import json
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opscope.compiler.target.binary import frame, unframe
from opscope.simulator.api import DeviceError
from opscope.simulator.host.image_error import ImageError
from opscope.simulator.host.tt_device_image import TTDeviceImage

SECONDS = 1.0
"""What refusing an image may take."""
LIMIT = 20
"""Seconds after which a load and a run together count as a hang."""
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63,
    2**200,
    -0.5,
    1e308,
    "",
    "x",
    "../x",
    "MANIFEST",
    "\u0000",
    [],
    {},
    [[]],
    [-1],
    [2**62],
    ["x"],
    {"x": 1},
)
"""What a value of `device.json` is replaced with."""
Entries = dict[str, bytes]


class Hang(Exception):
    """A load and a run that took too long."""


@dataclass(frozen=True)
class Ending:
    """How one image ended."""

    result: str
    """refused, same, other, or the name of an exception that nobody expected."""
    seconds: float
    why: str = ""


def spoiled(data: bytes, random: np.random.Generator) -> bytes:
    """Returns bytes with one change: a bit, some bytes, fewer, more, or the end cut off."""
    made = bytearray(data)
    at, count = int(random.integers(len(data))), int(random.integers(1, 65))
    match int(random.integers(5)):
        case 0:
            made[at] ^= 1 << int(random.integers(8))
        case 1:
            made[at : at + count] = random.bytes(min(count, len(data) - at))
        case 2:
            del made[at : at + count]
        case 3:
            made[at:at] = random.bytes(count)
        case _:
            del made[at:]
    return bytes(made)


def with_another_value(text: bytes, random: np.random.Generator) -> bytes:
    """Returns JSON with one of its values replaced, or left out."""
    document = json.loads(text)
    places = list(_places(document))
    holder, key = places[random.integers(len(places))]
    if random.integers(8) == 0:
        del holder[key]
    else:
        holder[key] = VALUES[random.integers(len(VALUES))]
    return json.dumps(document).encode()


def _changed(name: str, content: bytes, random: np.random.Generator) -> bytes:
    """Returns another content of an entry; a binary has the checksum of its own bytes."""
    return frame(spoiled(unframe(content), random)) if name.endswith(".ttnn") else spoiled(content, random)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def mutations(image: Path, count: int, random: np.random.Generator) -> Iterator[tuple[str, bytes | Entries]]:
    """Yields kinds, `file`, `entry` and `device.json` in turn, with the file, or the entries that a file has."""
    data = image.read_bytes()
    with zipfile.ZipFile(image) as archive:
        entries = {name: archive.read(name) for name in archive.namelist() if name != "MANIFEST"}
    names = list(entries)
    read = [name for name in names if name.endswith((".ttnn", ".safetensors"))]
    for number in range(count):
        match number % 3:
            case 0:
                yield "file", spoiled(data, random)
            case 1:
                among = read if random.integers(5) else names
                name = among[random.integers(len(among))]
                yield "entry", {**entries, name: _changed(name, entries[name], random)} if entries[name] else entries
            case _:
                changed = with_another_value(entries["device.json"], random)
                yield "device.json", {**entries, "device.json": changed}


def write(path: Path, made: bytes | Entries) -> None:
    """Writes a file; entries with a MANIFEST that fits."""
    if isinstance(made, bytes):
        path.write_bytes(made)
        return
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in made.items()}
    manifest = json.dumps({"format": "opscope device image", "version": 1, "sha256": digests}).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {"MANIFEST": manifest, **made}.items():
            archive.writestr(zipfile.ZipInfo(name), content)


def ending(path: Path, inputs: list[np.ndarray], expected: list[np.ndarray]) -> Ending:
    """Loads and runs an image, and returns how that ended."""
    started = time.monotonic()

    def took() -> float:
        return time.monotonic() - started

    try:
        with _limited():
            results = TTDeviceImage.load_from_disk(path).run(inputs)
    except (ImageError, DeviceError) as error:
        lines = str(error).count("\n")
        return Ending("refused" if not lines else "several lines", took(), str(error))
    except Exception as error:  # noqa: BLE001 - this count is there to show that there is none
        return Ending(type(error).__name__, took(), traceback.format_exc(limit=-3))
    same = len(results) == len(expected) and all(
        a.tobytes() == b.tobytes() for a, b in zip(results, expected, strict=True)
    )
    return Ending("same" if same else "other", took())


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def hang(*_: Any) -> None:
        raise Hang(f"expected an end within {LIMIT} s, got none")

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def wrong(kind: str, one: Ending) -> bool:
    """Whether an ending is none that an image may have."""
    allowed = {"refused", "same"} if kind == "file" else {"refused", "same", "other"}
    return one.result not in allowed or (one.result == "refused" and one.seconds > SECONDS)


def main(arguments: list[str] | None = None) -> int:
    """Prints how many of each kind ended how, the slowest refusal, and what should not have happened."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("image", type=Path, help="a device image of inference")
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    random = np.random.default_rng(options.seed)
    image = TTDeviceImage.load_from_disk(options.image)
    inputs = [random.standard_normal(shape, np.float32) for shape in image.get_input_shapes()]
    expected = image.run(inputs)
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    slowest, failed = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, made in mutations(options.image, options.mutations, random):
            path = Path(folder) / "x.tti"
            write(path, made)
            one = ending(path, inputs, expected)
            counts[kind, one.result] += 1
            slowest = max(slowest, one.seconds if one.result == "refused" else 0.0)
            if wrong(kind, one):
                failed += 1
                print(f"{kind}: {one.result} after {one.seconds:.2f} s: {one.why}")
    for (kind, result), count in sorted(counts.items()):
        print(f"| {kind} | {result} | {count} |")
    print(f"slowest refusal: {slowest:.3f} s; {failed} that should not be")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())

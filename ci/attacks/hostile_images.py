"""Device images that are damaged or made up: each is refused in one line within a second, or gives the same bits.

A good image is written by `opscope image`. Mutations change bytes of the file (where a time or an offset that nobody
reads is hit, the results must be the same), or write the archive anew as an attacker would, with digests that fit:
names, links, sizes, pickles, versions, a description that contradicts the binaries, any value or byte behind checksums
that fit (which may be another program). A child reads and runs many, one after another; every 25th goes through
`opscope run-image`.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import random
import struct
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ci.attacks._many_models import GOOD, environment
from ci.attacks.attempt import Attempt, Ending
from ci.attacks.called import judged, opscope
from ci.attacks.damage import spoiled
from opscope.compiler.target.binary import frame, unframe

SAMPLE, FULL = 60, 1000
SECONDS = 1.0
"""What reading one image may take, in processor time: other work on the machine is not the image's."""
TOGETHER = 100
"""Images that one child reads."""
CHILD_SECONDS = 120

READ = """
import hashlib, json, sys, time
import numpy as np
from opscope.simulator.api import DeviceError
from opscope.simulator.host.errors import ImageError
from opscope.simulator.host.tt_device_image import TTDeviceImage

for path in sys.stdin:
    started, line = time.process_time(), {}
    try:
        image = TTDeviceImage.load_from_disk(path.rstrip("\\n"))
        line["seconds"] = time.process_time() - started
        inputs = [np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
                  for shape in image.get_input_shapes()]
        line["bits"] = [hashlib.sha256(result.tobytes()).hexdigest() for result in image.run(inputs)]
    except (ImageError, DeviceError) as error:
        line.setdefault("seconds", time.process_time() - started)
        line["refused"] = str(error)
    print(json.dumps(line), flush=True)
"""

WAYS = ("flip", "flip", "flip", "bytes", "cut", "insert", "remove", "before", "behind")
"""How bytes of the file are spoiled."""

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 2**200, -0.5, 1e308, "", "x", "../x", "MANIFEST", "\u0000"),
    *([], {}, [[]], [-1], [2**62], ["x"], {"x": 1}),
)
"""What any value of `device.json` may be replaced by."""

Entries = dict[str, bytes]
Change = Callable[[zipfile.ZipInfo], None]


def _weights(draw: random.Random) -> bytes:
    """The weights of GOOD as a safetensors file."""
    values = struct.pack("<64f", *(draw.uniform(-1, 1) for _ in range(64)))
    head = json.dumps({"arg1": {"dtype": "F32", "shape": [16, 4], "data_offsets": [0, 256]}}).encode()
    return struct.pack("<Q", len(head)) + head + values


def _entries(data: Path) -> Entries:
    with zipfile.ZipFile(data) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def _signed(entries: Entries, **changes: object) -> Entries:
    """The entries behind a MANIFEST that fits them."""
    rest = {name: content for name, content in entries.items() if name != "MANIFEST"}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in rest.items()}
    manifest = {"format": "opscope device image", "version": 1, "sha256": digests, **changes}
    return {"MANIFEST": json.dumps(manifest).encode(), **rest}


def _zipped(path: Path, entries: list[tuple[str, bytes]], change: Change | None = None) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")  # two entries of one name
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            if change is not None:
                change(info)
            archive.writestr(info, content)


def _index(data: bytes, draw: random.Random) -> tuple[str, bytes]:
    """The file with a byte of the archive's index or of a header changed."""
    mutant = bytearray(data)
    starts = [at for at in range(len(data) - 4) if data[at : at + 4] in (b"PK\x01\x02", b"PK\x05\x06", b"PK\x03\x04")]
    at = draw.choice(starts) + draw.randrange(46)
    mutant[min(at, len(data) - 1)] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
    return "index", bytes(mutant)


def _names(entries: Entries, path: Path, draw: random.Random) -> str:
    name = draw.choice(
        (
            "../x",
            "/tmp/x",
            "a/../../x",
            "..",
            "a\\..\\..\\x",
            "C:\\x",
            "./x",
            "a//b",
            "x\n",
            "\x1b[31m",
            "a\u202eb",
            "tensors/../../x",
            "~/../x/..",
            "module_files/x.pkl",
            "tensors/torch.Tensor.w.pkl",
            "x.pt",
        )
    )
    content = pickle.dumps([1, 2]) if name.endswith(("pkl", "pt")) else b"x"
    _zipped(path, list(_signed({**entries, name: content}).items()))
    return f"name {name!r}"


def _kinds(entries: Entries, path: Path, draw: random.Random) -> str:
    victim = draw.choice(list(entries))
    mode = draw.choice((0o120777, 0o040755, 0o010644, 0o060644, 0o020666, 0o140777))

    def change(info: zipfile.ZipInfo) -> None:
        if info.filename == victim:
            info.external_attr = mode << 16

    _zipped(path, list(entries.items()), change)
    return f"mode {mode:o} of {victim}"


def _twice(entries: Entries, path: Path, draw: random.Random) -> str:
    rows = list(entries.items())
    victim = draw.choice(rows)
    rows.insert(draw.randrange(len(rows) + 1), (victim[0], draw.choice((victim[1], b"", b"x"))))
    _zipped(path, rows)
    return f"twice {victim[0]}"


def _bombs(entries: Entries, path: Path, draw: random.Random) -> str:
    size = draw.choice((1 << 20, 30 << 20))
    compression = draw.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    victim = draw.choice(("zeros", "tensors/zeros.safetensors", "device.json", "MANIFEST"))

    def change(info: zipfile.ZipInfo) -> None:
        if info.filename == victim:
            info.compress_type = compression

    made = _signed({**entries, victim: bytes(size)}) if victim != "MANIFEST" else {**entries, victim: b" " * size}
    _zipped(path, list(made.items()), change)
    return f"{size} bytes as {victim}"


def _sizes(entries: Entries, path: Path, draw: random.Random) -> str:
    """Sizes in the index that are not those of the content."""
    _zipped(path, list(entries.items()))
    data, victim = bytearray(path.read_bytes()), draw.choice(list(entries))
    at = data.rindex(victim.encode()) - 46
    sizes = (draw.choice((0, 1, 3 << 30, (1 << 32) - 2, (1 << 32) - 1)) for _ in range(2))
    data[at + 20 : at + 28] = struct.pack("<LL", *sizes)
    path.write_bytes(data)
    return f"sizes of {victim}"


def _lacking(entries: Entries, path: Path, draw: random.Random) -> str:
    victim = draw.choice(list(entries))
    rest = {name: content for name, content in entries.items() if name != victim}
    _zipped(path, list((_signed(rest) if draw.random() < 0.5 else rest).items()))
    return f"without {victim}"


def _swapped(entries: Entries, path: Path, draw: random.Random) -> str:
    one, other = draw.sample(sorted(entries), 2)
    _zipped(path, list({**entries, one: entries[other], other: entries[one]}.items()))
    return f"{one} and {other} in each other's place"


def _versions(entries: Entries, path: Path, draw: random.Random) -> str:
    change = draw.choice(
        (
            {"version": 2},
            {"version": 0},
            {"version": "1"},
            {"version": None},
            {"version": True},
            {"version": 10**400},
            {"format": "TTI"},
            {"format": 1},
            {"sha256": {}},
            {"sha256": []},
            {"sha256": {"device.json": 1}},
        )
    )
    _zipped(path, list(_signed(entries, **change).items()))
    return f"MANIFEST with {str(change)[:40]}"


def _described(entries: Entries, path: Path, draw: random.Random) -> str:
    """A value of device.json replaced by one of another kind or size, or taken out."""
    document = json.loads(entries["device.json"])
    at, key = document, draw.choice([*document])
    while isinstance(at[key], dict | list) and at[key] and draw.random() < 0.8:
        at = at[key]
        key = draw.choice([*at]) if isinstance(at, dict) else draw.randrange(len(at))
    before = at[key]
    if isinstance(at, dict) and draw.random() < 0.2:
        del at[key]
    else:
        at[key] = draw.choice((None, -1, 2**63, 10**30, 1.5, "x", "../x", [], {}, [[]], [2**62], True, 64))
    if before in ("input", "parameter"):
        at[key] = "owner"  # another role that exists makes another model, which nobody could refuse
    if key == "inverted":
        at[key] = "yes"  # so does the reciprocal of a value
    _zipped(path, list(_signed({**entries, "device.json": json.dumps(document).encode()}).items()))
    return f"device.json with another {key}"


def _content(entries: Entries, path: Path, draw: random.Random) -> str:
    """A binary or the header of the tensors spoiled, behind a digest that fits."""
    name = draw.choice([name for name in entries if name.endswith((".ttnn", ".safetensors"))])
    content = bytearray(entries[name])
    if name.endswith(".ttnn"):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)  # its own checksum tells
    else:
        length = draw.choice((0, 1, 2**40, 2**63, len(content)))
        content[:8] = struct.pack("<Q", length)
    if draw.random() < 0.2:
        content = bytearray(pickle.dumps({"w": 1}))
    _zipped(path, list(_signed({**entries, name: bytes(content)}).items()))
    return f"another {name}"


def _valued(entries: Entries, path: Path, draw: random.Random) -> str:
    """Any value of device.json replaced or left out, as who makes up an image may do: it may be another program."""
    document = json.loads(entries["device.json"])
    holder, key = draw.choice(list(_places(document)))
    if draw.randrange(8):
        holder[key] = draw.choice(VALUES)
    else:
        del holder[key]
    _zipped(path, list(_signed({**entries, "device.json": json.dumps(document).encode()}).items()))
    return f"device.json with any {key}"


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def _reframed(entries: Entries, path: Path, draw: random.Random) -> str:
    """An entry spoiled, most often a binary or the tensors, a binary behind a checksum of its own that fits."""
    read = [name for name in entries if name.endswith((".ttnn", ".safetensors"))]
    name = draw.choice(read if draw.randrange(5) else [name for name in entries if name != "MANIFEST"])
    content = entries[name]
    way, made = spoiled(unframe(content) if name.endswith(".ttnn") else content, draw)
    made = frame(made) if name.endswith(".ttnn") else made
    _zipped(path, list(_signed({**entries, name: made}).items()))
    return f"{name}, {way}"


ANOTHER = ("valued", "reframed")
"""Kinds that may be images of another program, which gives other bits."""

MADE_UP = (
    _names,
    _kinds,
    _twice,
    _bombs,
    _sizes,
    _lacking,
    _swapped,
    _versions,
    _described,
    _described,
    _content,
    _valued,
    _valued,
    _reframed,
    _reframed,
)


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """Half of the mutations are of bytes, half of what the archive says."""
    draw = random.Random(seed)
    (folder / "good.mlir").write_text(GOOD)
    (folder / "w.safetensors").write_bytes(_weights(draw))
    good = folder / "good.tti"
    words = ("image", "good.mlir", "-o", str(good), "--arch", "n150", "--weights", "w.safetensors")
    made = opscope(folder, *words, environment=environment(folder))
    if made.code != 0:
        raise RuntimeError(made.text)
    data, entries = good.read_bytes(), _entries(good)
    images = folder / "images"
    images.mkdir()
    (right,) = _read([good], folder / "images")
    if "bits" not in right:
        raise RuntimeError(str(right))
    batch: list[tuple[str, Path]] = []
    for number in range(count):
        path = images / f"image{number}.tti"
        if number % 2:
            how = draw.choice(MADE_UP)
            detail = how(entries, path, draw)
            kind = how.__name__.strip("_")
        else:
            detail, mutant = _index(data, draw) if draw.random() < 0.3 else spoiled(data, draw, WAYS)
            path.write_bytes(mutant)
            kind = "bytes"
        if number % 25 == 24:
            words = ("run-image", str(path), "--info")
            yield judged(f"{kind}, command", detail, [opscope(folder, *words, environment=environment(folder))])
            path.unlink()
        else:
            batch.append((f"{kind}: {detail}", path))
        if len(batch) == TOGETHER or number == count - 1:
            yield from _judged(batch, right, folder)
            batch = []


def _judged(batch: list[tuple[str, Path]], right: dict, folder: Path) -> Iterator[Attempt]:
    before = sorted(folder.rglob("*"))
    lines = _read([path for _, path in batch], folder / "images")
    changed = sorted(folder.rglob("*")) != before
    for (what, path), line in zip(batch, lines, strict=True):
        kind, _, detail = what.partition(": ")
        ending = "spoiled" if changed else ending_of(kind, line, right)
        yield Attempt(kind, detail, ending, f"{path.name}: {json.dumps(line)[:800]}")
        path.unlink()


def ending_of(kind: str, line: dict, right: dict) -> Ending:
    """How the attempt ended of which a child says `line`, where it says `right` of the good image."""
    if "ended" in line:
        return "stuck" if line["ended"] == "stuck" else "traceback"
    if line["seconds"] > SECONDS:
        return "stuck"
    if "refused" in line:
        return "noticed" if "\n" not in line["refused"] else "traceback"
    return "no effect" if line["bits"] == right["bits"] or kind in ANOTHER else "silent"


def _read(paths: list[Path], folder: Path) -> list[dict]:
    """What became of each image: `refused` or `bits`, with `seconds`; `ended` if it ended the child."""
    lines: list[dict] = []
    while len(lines) < len(paths):
        text = "".join(f"{path}\n" for path in paths[len(lines) :])
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [sys.executable, "-P", "-c", READ],
            cwd=folder,
            env=environment(folder.parent),
            text=True,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        ) as child:
            try:
                out, err = child.communicate(text, timeout=CHILD_SECONDS)
                ended = f"exit {child.returncode}: {err[-600:]}"
            except subprocess.TimeoutExpired:
                child.kill()
                out, _ = child.communicate()
                ended = "stuck"
        done = [json.loads(line) for line in out.splitlines()]
        lines += done
        if len(lines) < len(paths):
            lines.append({"ended": ended})
    return lines

"""Files of values and models that are damaged, truncated or huge by their header: npz and safetensors as arguments of a
good model, ONNX as models, netlists and graphs as YAML, names that are no text, pipes and
devices. Each must end in one line or one row within the limit.
"""

from __future__ import annotations

import io
import json
import os
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ci.attacks._many_models import GOOD, environment, run_models
from ci.attacks.attempt import Attempt
from ci.attacks.called import judged, opscope, pytest
from ci.attacks.damage import put_in_place, spoiled

SAMPLE, FULL = 6, 400
SECONDS = 90
"""What one command may take."""

NETLIST = """devices: {arch: grayskull}
queues:
  in: {input: HOST, type: queue, entries: 1, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16_b,
    target_device: 0, loc: dram, dram: [[0, 0x10000000]]}
  out: {input: relu, type: queue, entries: 1, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16_b,
    target_device: 0, loc: dram, dram: [[0, 0x20000000]]}
graphs:
  g: {target_device: 0, input_count: 1, relu: {type: nop, grid_loc: [0, 0], grid_size: [1, 1], inputs: [in],
    in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, t: 1,
    mblock: [1, 1], ublock: [1, 1], buf_size_mb: 2, ublock_order: r}}
programs: []
"""
GRAPH = """nodes:
  x: {input: [64, 128]}
  w: {parameter: [128, 64], data_format: Bfp8_b}
  z: {op: matmul, inputs: [x, w]}
  y: {op: exp, inputs: [z | hslice(1)], approximate: true}
outputs: [y]
"""


def _npy(shape: str = "(8, 16)", kind: str = "<f4", data: bytes = bytes(512)) -> bytes:
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data


def _npz(draw: random.Random) -> bytes:
    array = draw.choice(
        (
            _npy(),
            _npy("(9223372036854775807,)"),
            _npy("(1099511627776, 1099511627776)"),
            _npy("(-1, 4)"),
            _npy(kind="|O"),
            _npy("(8, 16)", "<f8"),
            b"",
            b"\x93NUMPY",
            _npy("(" * 200 + ")" * 200),
            _npy(data=b""),
            _npy("(8,"),
            _npy("'text'"),
            _npy(kind="<U1000000000"),
        )
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        archive.writestr(draw.choice(("arg0.npy", "../arg0.npy", "arg9.npy", "arg0")), array)
    return file.getvalue() if draw.random() < 0.5 else spoiled(file.getvalue(), draw)[1]


def _safetensors(draw: random.Random) -> bytes:
    offsets = draw.choice(((0, 512), (0, 2**62), (512, 0), (0, 4), (-1, 511)))
    shape = draw.choice(([8, 16], [2**62, 4]))
    head = json.dumps({"arg0": {"dtype": "F32", "shape": shape, "data_offsets": offsets}})
    size = draw.choice((len(head), 2**63, 2**40, 0))
    data = struct.pack("<Q", size) + head.encode() + bytes(512)
    return data if draw.random() < 0.6 else spoiled(data, draw)[1]


def _onnx(draw: random.Random) -> bytes:
    name = b"\x0a\x04tanh\x12\x01x"
    node = b"\x0a\x01x\x12\x01y\x22\x04Tanh"
    graph = b"\x0a" + bytes([len(node)]) + node + name
    model = b"\x08\x08\x3a" + bytes([len(graph)]) + graph + b"\x42\x02\x10\x11"
    return draw.choice((spoiled(model, draw)[1], model, draw.randbytes(200), b"\x3a\xff\xff\xff\xff\x0f", b""))


def _yaml(text: str, draw: random.Random) -> bytes:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(12)
    )
    return draw.choice(
        (
            spoiled(text.encode(), draw)[1],
            spoiled(text.encode(), draw)[1],
            bomb.encode(),
            b"[" * 5000,
            b"{" * 5000,
            text.replace("1", "9" * 40).encode(),
            text.replace("[1, 1]", "2001-99-99").encode(),
            b"\xff\xfe",
            b"",
        )
    )


def _command(kind: str, detail: str, folder: Path, *words: str) -> Attempt:
    """Runs a command of opscope that should work, or end in a line."""
    return judged(kind, detail, [opscope(folder, *words, seconds=SECONDS, environment=environment(folder))])


def _run(kind: str, detail: str, folder: Path, *words: str) -> Attempt:
    """Runs pytest over a model with further options, which should work, or end in a line."""
    options = ("--op-by-op", "--backend", "null", "--no-report", "--prepare-timeout", "20", *words)
    return judged(kind, detail, [pytest(folder, *options, seconds=SECONDS, environment=environment(folder))])


def _arguments(option: str, suffix: str, made: bytes, number: int, folder: Path) -> Attempt:
    path = folder / f"values{number}{suffix}"
    path.write_bytes(made)
    words = ("--model", "good.mlir", option, str(path), "--run-dir", str(folder / f"run{number}"))
    return _run(suffix[1:], path.name, folder, *words)


READERS: dict[str, tuple[tuple[str, ...], ...]] = {
    ".mlir": (("compile", "{}"), ("opt", "{}", "-p", "stablehlo-to-ttir"), ("pytest", "--model", "{}")),
    ".npz": (("pytest", "--model", "good.mlir", "--inputs", "{}"),),
    ".yaml": (
        ("netlist", "{}"),
        ("plan", "{}"),
        ("pytest", "--model", "good.mlir", "--limitations", "{}"),
        ("pytest", "--model", "good.mlir", "--backend", "{}"),
    ),
    ".onnx": (("pytest", "--model", "{}"),),
}
"""How a file's name ends -> the commands that read it."""


def _special(number: int, draw: random.Random, folder: Path) -> Attempt:
    """A pipe, a device or a folder in place of a file."""
    kind, suffix = draw.choice(("a pipe", "/dev/zero", "a folder")), draw.choice(list(READERS))
    path = put_in_place(folder / f"special{number}{suffix}", kind)
    words = [word.replace("{}", str(path)) for word in draw.choice(READERS[suffix])]
    if words[0] == "pytest":
        return _run(f"special {kind}", path.name, folder, *words[1:])
    return _command(f"special {kind}", path.name, folder, *words)


def _name(number: int, draw: random.Random, folder: Path) -> Attempt:
    """A model's file name that is no text, a locale without its characters, or both."""
    name = draw.choice((b"caf\xc3\xa9", b"bad\xff\xfe", b"new\nline", b"esc\x1b[31m", b"-dash", b"a b;c", b"[x]*?"))
    path = folder / f"names{number}" / os.fsdecode(name + b".mlir")
    path.parent.mkdir()
    path.write_text(GOOD)
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"} if draw.random() < 0.5 else {}
    words = ("--op-by-op", "--backend", "null", "--model", str(path), "--run-dir", str(folder / f"names{number}-run"))
    return judged(
        "name", repr(name), [pytest(folder, *words, seconds=SECONDS, environment=environment(folder) | ascii_only)]
    )


def _models(
    kind: str, suffix: str, count: int, make: Callable[[random.Random], bytes], draw: random.Random, folder: Path
) -> Iterator[Attempt]:
    """Model files of one format in one run."""
    place = folder / kind
    place.mkdir()
    made = []
    for number in range(count):
        path = place / f"{kind}{number}{suffix}"
        path.write_bytes(make(draw))
        made.append((kind, path))
    yield from run_models(made, folder / f"{kind}-run", models=[str(path) for _, path in made])


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """A ninth are ONNX models, in one run; the rest a command each."""
    draw = random.Random(seed)
    models = count // 9
    if models:
        yield from _models("onnx", ".onnx", models, _onnx, draw, folder)
    (folder / "good.mlir").write_text(GOOD)
    for verb, text in (("netlist", NETLIST), ("plan", GRAPH)):
        (folder / f"good-{verb}.yaml").write_text(text)
        attempt = _command(verb, "unspoiled", folder, verb, f"good-{verb}.yaml")
        if attempt.ending != "no effect":  # else all that is made of it would be refused for one reason
            raise RuntimeError(attempt.shown)
    for number in range(count - models):
        kind = number % 6
        if kind == 0:
            yield _arguments("--inputs", ".npz", _npz(draw), number, folder)
        elif kind == 1:
            yield _arguments("--weights", ".safetensors", _safetensors(draw), number, folder)
        elif kind in (2, 3):
            verb, text = (("netlist", NETLIST), ("plan", GRAPH))[kind - 2]
            path = folder / f"{verb}{number}.yaml"
            path.write_bytes(_yaml(text, draw))
            yield _command(verb, path.name, folder, verb, path.name)
        elif kind == 4:
            yield _special(number, draw, folder)
        else:
            yield _name(number, draw, folder)

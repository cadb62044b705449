"""Images that somebody spoiled or made up: each is one typed error, at once, and nothing is written anywhere."""

from __future__ import annotations

import json
import pickle
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ci.attacks.__main__ import main as attacks
from ci.attacks.hostile_images import _entries, _signed, ending_of
from opscope.simulator.api import DeviceError
from opscope.simulator.host.errors import ImageError
from opscope.simulator.host.tests.images import compiled, values, written
from opscope.simulator.host.tt_device_image import TTDeviceImage

Entries = dict[str, bytes]
SECONDS = 1.0
"""What refusing an image may take, of the processor: other work on the machine counts for nothing."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("image") / "good.tti", compiled("n150"))


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """Two folders below the test's own: `refused` lists what is above it, which must not be every test's folder."""
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    return inner


def zipped(path: Path, entries: Entries, change: Callable[[zipfile.ZipInfo], None] | None = None) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            info = zipfile.ZipInfo(name)
            if change is not None:
                change(info)
            archive.writestr(info, content)
    return path


def refused(path: Path, message: str) -> None:
    before = sorted(path.parent.parent.rglob("*"))
    started = time.process_time()
    with pytest.raises((ImageError, DeviceError), match=message) as caught:
        TTDeviceImage.load_from_disk(path)
    assert time.process_time() - started < SECONDS
    assert "\n" not in str(caught.value)
    assert sorted(path.parent.parent.rglob("*")) == before


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/x", "a/../../x", "..", "a\\..\\x", "C:/x", "./x", "a//x", "x\n", "a/./x"],
)
def test_a_name_that_leaves_the_image_is_refused(name: str, good: Path, tmp_path: Path) -> None:
    made = zipped(tmp_path / "x.tti", _signed({**_entries(good), name: b"x"}))
    refused(made, "expected a name inside the image")


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (0o120777, "expected a file, got a link"),
        (0o020666, "got a device or a pipe"),
        (0o040755, "got a device or a pipe"),
    ],
)
def test_what_is_no_file_is_refused(mode: int, message: str, good: Path, tmp_path: Path) -> None:
    def change(info: zipfile.ZipInfo) -> None:
        if info.filename == "device.json":
            info.external_attr = mode << 16

    refused(zipped(tmp_path / "x.tti", _entries(good), change), message)


def test_a_folder_is_refused(good: Path, tmp_path: Path) -> None:
    refused(zipped(tmp_path / "x.tti", _signed({**_entries(good), "tensors/": b""})), "expected a file, got a folder")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name_are_refused(good: Path, tmp_path: Path) -> None:
    made = zipped(tmp_path / "x.tti", _entries(good))
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr("device.json", b"{}")
    refused(made, "expected one entry of that name, got two")


def test_what_unpacks_to_far_more_is_refused(good: Path, tmp_path: Path) -> None:
    def deflated(info: zipfile.ZipInfo) -> None:
        info.compress_type = zipfile.ZIP_DEFLATED if not info.filename.startswith("tensors/") else zipfile.ZIP_STORED

    made = zipped(tmp_path / "x.tti", _signed({**_entries(good), "zeros": bytes(4 << 20)}), deflated)
    refused(made, "expected at most 100 bytes for each compressed one, got 4194304 for")


def test_compressed_tensors_and_other_compressions_are_refused(good: Path, tmp_path: Path) -> None:
    def deflated(info: zipfile.ZipInfo) -> None:
        info.compress_type = zipfile.ZIP_DEFLATED

    refused(zipped(tmp_path / "x.tti", _entries(good), deflated), "expected tensors that are stored")

    def other(info: zipfile.ZipInfo) -> None:
        info.compress_type = zipfile.ZIP_LZMA

    refused(zipped(tmp_path / "y.tti", _entries(good), other), "expected an entry that is stored or deflated")


def patched(good: Path, path: Path, name: str, offset: int, value: bytes) -> Path:
    """The image with bytes of an entry's row in the archive's index replaced."""
    data = bytearray(good.read_bytes())
    at = data.rindex(name.encode()) - 46
    assert data[at : at + 4] == b"PK\x01\x02"
    data[at + offset : at + offset + len(value)] = value
    path.write_bytes(data)
    return path


def test_sizes_that_lie_are_refused(good: Path, tmp_path: Path) -> None:
    tensors = "tensors/parameters.safetensors"
    two = struct.pack("<LL", (1 << 32) - 2, (1 << 32) - 2)
    refused(
        patched(good, tmp_path / "a.tti", tensors, 20, two), "expected 4294967294 bytes of tensors/param.*, got fewer"
    )
    refused(
        patched(good, tmp_path / "b.tti", "device.json", 24, struct.pack("<L", 0)), "expected 0 bytes of device.json"
    )
    refused(
        patched(good, tmp_path / "c.tti", "device.json", 42, struct.pack("<L", 7)), "where the archive's index has it"
    )
    refused(
        patched(good, tmp_path / "d.tti", "device.json", 8, struct.pack("<H", 1)), "expected an entry that is stored"
    )


def test_an_entry_unpacks_to_no_more_than_it_claims(tmp_path: Path) -> None:
    """A MANIFEST that claims no bytes and has 30 MB."""
    made = tmp_path / "x.tti"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("MANIFEST", bytes(30 << 20))
    patched(made, made, "MANIFEST", 24, struct.pack("<L", 0))
    tracemalloc.start()
    try:
        refused(made, "expected 0 bytes of MANIFEST")
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_more_than_eight_gibibytes_are_refused(tmp_path: Path) -> None:
    """Three entries that claim 3 GiB each; none of them is unpacked."""
    made = tmp_path / "x.tti"
    zipped(made, {"MANIFEST": b"{}", **{f"e{i}": b"x" * 40 for i in range(3)}})
    data = bytearray(made.read_bytes())
    for i in range(3):
        at = data.rindex(f"e{i}".encode()) - 46
        data[at + 20 : at + 28] = struct.pack("<LL", 3 << 30, 3 << 30)
    made.write_bytes(data)
    refused(made, "expected at most 8589934592 bytes, got 9663676418")


def test_content_of_another_digest_is_refused(good: Path, tmp_path: Path) -> None:
    entries = _entries(good)
    for name in entries:
        if name != "MANIFEST":
            spoiled = {**entries, name: entries[name][:-1] + b"\x00"}
            if spoiled != entries:
                refused(zipped(tmp_path / "x.tti", spoiled), "expected the SHA-256 of its MANIFEST, got another of")


def test_entries_that_are_missing_or_strange_are_refused(good: Path, tmp_path: Path) -> None:
    entries = _entries(good)
    for name in entries:
        less = {n: c for n, c in entries.items() if n != name}
        refused(zipped(tmp_path / "x.tti", less), "expected MANIFEST as the first" if name == "MANIFEST" else name)
    refused(zipped(tmp_path / "x.tti", {**entries, "more": b""}), "got more as well")
    build = "backend_build_binaries/"
    for name in (
        "device.json",
        "compile_and_runtime_config.json",
        f"{build}program.ttnn",
        f"{build}host.ttnn",
        "dense.yaml",
        "tensors/parameters.safetensors",
    ):
        less = {n: c for n, c in entries.items() if n != name}
        refused(zipped(tmp_path / "x.tti", _signed(less)), "expected a value of w" if "tensors" in name else name)
    refused(zipped(tmp_path / "x.tti", {}), "expected MANIFEST as the first entry, got none")


def test_a_pickle_is_refused_and_not_read(good: Path, tmp_path: Path) -> None:
    class Run:
        def __reduce__(self) -> Any:
            return (print, ("executed",))

    bomb = pickle.dumps(Run())
    (tmp_path / "x.tti").write_bytes(bomb)
    refused(tmp_path / "x.tti", "got a pickle, which would run code")
    for name in ("tensors/w.pkl", "module.PICKLE", "a.pt"):
        made = zipped(tmp_path / "y.tti", _signed({**_entries(good), name: bomb}))
        refused(made, "expected no pickle, which would run code")
    spoiled = {**_entries(good), "tensors/parameters.safetensors": bomb}
    refused(zipped(tmp_path / "z.tti", _signed(spoiled)), "expected the header of a safetensors file")


def manifest(**changes: Any) -> Callable[[Entries], Entries]:
    def change(entries: Entries) -> Entries:
        return {**entries, "MANIFEST": json.dumps({**json.loads(entries["MANIFEST"]), **changes}).encode()}

    return change


def device(*path: str | int, value: Any = None, drop: bool = False) -> Callable[[Entries], Entries]:
    """Sets or drops one field of device.json, and signs the image again."""

    def change(entries: Entries) -> Entries:
        document = json.loads(entries["device.json"])
        at = document
        for step in path[:-1]:
            at = at[step]
        if drop:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        return _signed({**entries, "device.json": json.dumps(document).encode()})

    return change


def content(name: str, data: bytes) -> Callable[[Entries], Entries]:
    return lambda entries: _signed({**entries, name: data})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (manifest(version=2), "expected version 1 of the format, got 2"),
        (manifest(version=True), "expected version 1 of the format, got True"),
        (manifest(format="TTI"), "expected a MANIFEST of format"),
        (manifest(sha256=[]), "expected a MANIFEST of format"),
        (manifest(sha256={"device.json": 3}), "expected a SHA-256 for each entry"),
        (lambda entries: {**entries, "MANIFEST": b"[" * 100_000}, "expected a MANIFEST in JSON"),
        (lambda entries: {**entries, "MANIFEST": b"\xff"}, "expected a MANIFEST in JSON"),
        (content("device.json", b"{" * 100_000), "device.json: expected the description of a device"),
        (content("device.json", b"[]"), "device.json: expected the description of a device"),
        (content("compile_and_runtime_config.json", b"3"), "config.json: expected JSON"),
        (content("dense.yaml", b"\xff"), "dense.yaml: expected text"),
        (content("backend_build_binaries/program.ttnn", b"x"), "dense: binary: expected at least"),
        (content("tensors/parameters.safetensors", b"\x02" + bytes(7) + b"{}"), "expected a value of w"),
        (content("tensors/parameters.safetensors", bytes([255] * 9)), "expected the header of a safetensors"),
        (device("arch", value="grayskull"), "expected the device of dense"),
        (device("board", value="e150"), "expected the device of dense"),
        (device("board", value="no-board"), "expected the description of a device"),
        (device("harvested", value=[2]), "expected the device of dense"),
        (device("harvested", value=[64]), "expected rows 1-5 and 7-11, got 6"),
        (device("chip_ids", value=[1]), "expected the device of dense"),
        (device("chip_ids", value=["0"]), "expected the description of a device"),
        (device("needs", value=["os"]), r"expected needs \[\], got \['os'\]"),
        (device("modules", value=[]), "expected at least one module"),
        (device("training", drop=True), "expected the description of a device"),
        (device("modules", 0, "program", value="../program.ttnn"), "expected an entry ../program.ttnn, got none"),
        (device("modules", 0, "program", value="MANIFEST"), "expected an entry MANIFEST, got none"),
        (device("modules", 0, "host", value="backend_build_binaries/program.ttnn"), "expected"),
        (device("modules", 0, "arguments", 0, "shape", value=[2**62]), "expected .64, 32. of f32"),
        (device("modules", 0, "arguments", 0, "element_type", value="i7"), "expected .64, 32. of f32"),
        (device("modules", 0, "arguments", 0, "role", value="owner"), "expected a role of input"),
        (device("modules", 0, "arguments", 2, "role", value="parameter"), "expected a value of x"),
        (device("modules", 0, "arguments", value=[]), "expected .64, 32. of f32, got none"),
        (device("modules", 0, "results", value=[]), "expected each result once"),
        (device("modules", 0, "results", 0, "shape", value=[7]), "expected .1, 32, 32. elements, got .7."),
        (device("modules", 0, "results", 0, "element_type", value="x"), "results.y: element type"),
        (device("modules", 0, "device_results", value=[-1]), "expected each result once"),
        (device("modules", 0, "host_results", value=[5]), "expected 3 with the results of the host's part"),
        (device("modules", 0, "queues", value=["a", "b", "c"]), "expected the shapes of the program's inputs"),
        (device("modules", 0, "contents", 0, "elements", value=[1, 1, 1]), "contents.arg2: expected a layout of"),
        (device("modules", 0, "contents", 0, "elements", value=[1, 1]), "expected the description of a device"),
        (device("modules", 0, "contents", value=[]), "expected 3 with the results of the host's part"),
        (device("modules", 0, "contents", 0, "channels", value=3), "contents.arg2: expected a layout of"),
    ],
)
def test_an_image_that_contradicts_itself_is_refused(
    change: Callable[[Entries], Entries], message: str, good: Path, tmp_path: Path
) -> None:
    refused(zipped(tmp_path / "x.tti", change(_entries(good))), message)


@pytest.mark.slow
def test_made_up_images_end_in_a_refusal_or_a_run() -> None:
    assert attacks(["hostile_images", "--count", "150", "--seed", "7"]) == 0


@pytest.mark.parametrize(
    ("kind", "line", "ending"),
    [
        ("bytes", {"seconds": 0.1, "refused": "x.tti: expected A, got B"}, "noticed"),
        ("bytes", {"seconds": 1.1, "refused": "x.tti: expected A, got B"}, "stuck"),
        ("bytes", {"seconds": 0.1, "refused": "two\nlines"}, "traceback"),
        ("reframed", {"ended": "exit 1: KeyError"}, "traceback"),
        ("bytes", {"seconds": 0.1, "bits": ["other"]}, "silent"),
        ("reframed", {"seconds": 0.1, "bits": ["other"]}, "no effect"),
    ],
    ids=["refused", "slowly refused", "two lines", "ended the reader", "other bits", "another program"],
)
def test_the_attack_tells_defects_from_refusals(kind: str, line: dict[str, Any], ending: str) -> None:
    assert ending_of(kind, line, {"seconds": 0.1, "bits": ["right"]}) == ending


def test_a_fifth_of_flipped_bytes_changes_no_bit(good: Path, tmp_path: Path) -> None:
    """Where a byte of no consequence was hit (a time, an offset that nobody reads), the results are the same."""
    data, random = good.read_bytes(), np.random.default_rng(5)
    inputs = [values()["x"]]
    (expected,) = TTDeviceImage.load_from_disk(good).run(inputs)
    ended = {"refused": 0, "same": 0}
    for _ in range(60):
        spoiled = bytearray(data)
        spoiled[random.integers(len(data))] ^= 1 << int(random.integers(8))
        (tmp_path / "x.tti").write_bytes(spoiled)
        try:
            (result,) = TTDeviceImage.load_from_disk(tmp_path / "x.tti").run(inputs)
        except (ImageError, DeviceError):
            ended["refused"] += 1
        else:
            ended["same"] += 1
            np.testing.assert_array_equal(result, expected)
    assert ended["refused"] > 30, ended

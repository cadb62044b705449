"""Which models a file of StableHLO holds, and over which mesh each is sharded, for processes that do not parse it.

Most files hold one, for one device, and a look at the text says so. Where it does not, a child reads the file; what it
reads is kept in the cache by the file's content.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from opscope.base import damage, regular_file
from opscope.base.children.call import call
from opscope.base.children.ending import Cause
from opscope.base.digest import file_digest, words_digest
from opscope.base.machine import memory_limit
from opscope.harness.cache.json_store import JsonStore

SECONDS = 60.0
"""How long it may take to find out which models a file holds, or to read one for a command; a second more for each
megabyte, of which some ten are read in that time."""

TELL = 2.0
"""Seconds after which a line says what takes so long."""

SUFFIXES = (".mlir", ".mlirbc", ".stablehlo", ".bc", ".vhlo")
FOLDER = "entries"
"""The subfolder of the cache folder."""
VERSION = 4
"""Increased when the same file would have other models, meshes or shardings."""

_MAGIC = b"ML\xefR"
"""Of bytecode; what `jax.export` serialises holds some."""
_FUNCTION = re.compile(rb'"?func\.func"?(?!\s+(?:private|nested)\b)\s*[@(]|"?func\.func"?\s+public\b')
_MESH = re.compile(rb"\bsdy\.mesh\b[^\n]*=\s*(?:[2-9]|[1-9]\d)")
"""A mesh of several devices in a text; one in bytecode is a string `sdy`."""
_COLLECTIVE = re.compile(rb"all_(?:gather|reduce|to_all)|reduce_scatter|collective_(?:permute|broadcast)|replica_id")
"""What the devices of a mesh compute together, in text and bytecode."""
_MODULE = re.compile(rb'(?m)^\s*"?(?:builtin\.)?module\b')


def reading_seconds(path: Path) -> float:
    """How long the reading of a file may take."""
    try:
        return SECONDS + path.stat().st_size / 1e6
    except OSError:
        return SECONDS


def file_and_model(word: str) -> tuple[Path, str] | None:
    """The file and the model of `FILE.mlir:name`; None for any other word."""
    path = Path(word)
    if path.exists() or ":" not in path.name:
        return None
    head, _, name = word.rpartition(":")
    return (Path(head), name) if name and Path(head).suffix in SUFFIXES and Path(head).is_file() else None


class Endless(Exception):
    """A file that was not read within its time."""


def models(path: Path, cache: Path, seconds: float = SECONDS) -> list[str]:
    """The names of a file's models; none where it has one, or where it cannot be read, which its row will say.

    Raises Endless if it takes longer than `seconds` to find out.
    """
    try:
        data = regular_file.read_bytes(path)
        if _MAGIC not in data and not _may_have_several(data):
            return []
        digest = file_digest(path)
    except OSError:
        return []
    contents = _read(str(path), digest, str(cache), seconds)
    if contents.late:
        raise Endless(f"a file whose reading does not end within {contents.late:.0f} s")
    return list(contents.models) if len(contents.models) > 1 else []


def mesh(path: Path, model: str, cache: Path, seconds: float = SECONDS) -> str:
    """The sizes of the file's own mesh, `1x2`, if a model is sharded over that, or has collectives between as many
    devices; empty otherwise, and where it takes longer than `seconds` to find out."""
    try:
        data = regular_file.read_bytes(path)
        sharded = b"sdy" in data if _MAGIC in data else _MESH.search(data)
        if not sharded and not _COLLECTIVE.search(data):
            return ""
        digest = file_digest(path)
    except OSError:
        return ""
    return _read(str(path), digest, str(cache), seconds).meshes.get(model, "")


def gspmd(path: Path, model: str, cache: Path, seconds: float = SECONDS) -> str:
    """The attribute that shards a model over several devices in words of GSPMD alone, `mhlo.sharding`; empty if none
    does, and where it takes longer than `seconds` to find out."""
    try:
        if not any(word in regular_file.read_bytes(path) for word in (b"mhlo.sharding", b"mhlo.spmd_")):
            return ""
        digest = file_digest(path)
    except OSError:
        return ""
    return _read(str(path), digest, str(cache), seconds).gspmd.get(model, "")


def _may_have_several(text: bytes) -> bool:
    """Whether a text names two public functions or two modules; a comment may do so too."""
    return len(_FUNCTION.findall(text)) > 1 or len(_MODULE.findall(text)) > 1


@dataclass(frozen=True)
class _Contents:
    """The models of a file and their meshes."""

    models: tuple[str, ...] = ()
    meshes: Mapping[str, str] = field(default_factory=dict)
    """Of those models that are sharded; an empty name is the file's only one."""
    gspmd: Mapping[str, str] = field(default_factory=dict)
    """Of those that GSPMD's words alone shard: which."""
    late: float = 0.0
    """The seconds after which the child was ended; 0 if it was not."""


_late: dict[str, _Contents] = {}
"""Files that were not read in time, by digest: they are not read again."""


@lru_cache(maxsize=256)
def _read(path: str, digest: str, cache: str, seconds: float = SECONDS) -> _Contents:
    if (late := _late.get(digest)) is not None:
        return late
    store, key = JsonStore(Path(cache) / FOLDER), words_digest(digest, str(VERSION), digits=20)
    stored_values = store.get(key)
    if stored_values is None:
        began, announced = time.monotonic(), False

        def tell() -> None:
            nonlocal announced
            if not announced and time.monotonic() - began > TELL:
                announced = True
                damage.say(f"{path}: reading which models it holds, for at most {seconds:.0f} s")

        outcome = call(
            "opscope.harness.prepare.file_models_child:read",
            {"path": path},
            seconds=seconds,
            memory=memory_limit(None),
            watch=tell,
        )
        if outcome.ending.cause is Cause.TIMEOUT:
            return _late.setdefault(digest, _Contents(late=seconds))
        if not isinstance(outcome.result, dict):
            return _Contents()
        stored_values = outcome.result
        store.put(key, stored_values)
    return _Contents(tuple(stored_values["models"]), dict(stored_values["meshes"]), dict(stored_values["gspmd"]))

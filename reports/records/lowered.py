"""What a compiler made of each op of a run, so that two releases of it can be compared: the last IR, in one file.

    RUN/lowered.json.xz    backend -> op id -> its last IR, without what says nothing of the program

`opscope history` keeps it. Without locations, descriptors of devices and the modules around a function, and with
aliases replaced by what they stand for, the texts of one program are equal, whatever the release prints around it.
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from opscope.base.digest import words_digest
from opscope.harness.record import artifacts
from opscope.harness.record.optest import backend_label
from opscope.harness.record.records import OpTest
from opscope.harness.record.store import read_run, write_whole

FILE = "lowered.json.xz"
_LAST = ("ttnn.mlir", "2-ttnn.mlir", "optimised.hlo")
"""The last IR that says what is computed, of the compilers that are known; of others it is the newest file."""
_TEXTS = (".mlir", ".hlo", ".txt", ".ll")
_ALIAS = re.compile(r"^([#!][\w$.-]+) = (.*)$", re.MULTILINE)
_USED = re.compile(r"[#!][A-Za-z_][\w$.-]*")
_WRAPPER = re.compile(r"^\s*(?:module|builtin\.module|ttcore\.device_module|ttcore\.device)\b.*$\n?", re.MULTILINE)
_METADATA = re.compile(r",? ?metadata=\{[^{}]*\}")
_EMPTY = re.compile(r"\b\w+ = \[\](?:, )?")
"""An attribute without a value: one release prints it, another does not."""
_DESCRIPTOR = "ttcore.system_desc"
_MOST_NESTED = 8
"""Aliases stand for what has aliases in it; so deep at most."""


def keep(run_dir: Path, tests: Iterable[OpTest]) -> Path:
    """Gathers the IR that `--keep-ir` left in a run's folder, and removes it but for ops that went wrong.

    Raises InputError where the folder cannot be written.
    """
    kept: dict[str, dict[str, str]] = {}
    for test in tests:
        label = backend_label(test.backend)
        folder = run_dir / artifacts.ARTIFACT_DIR / test.op_id / artifacts.ir_folder(label)
        if (last := _last_ir(folder)) is not None and test.failed_stage is None:
            kept.setdefault(label, {})[test.op_id] = plain(last.read_text(encoding="utf-8", errors="replace"))
            shutil.rmtree(folder, ignore_errors=True)
    artifacts.seal(run_dir, read_run(run_dir).run_id)
    text = json.dumps({label: dict(sorted(of.items())) for label, of in sorted(kept.items())})
    return write_whole(run_dir / FILE, lzma.compress(text.encode()), "a writable folder")


def read(run_dir: Path, label: str) -> Mapping[str, str]:
    """Op id -> its last IR on a backend; empty where a run has not kept it."""
    try:
        kept = json.loads(lzma.decompress((run_dir / FILE).read_bytes()))
        return {str(op_id): str(text) for op_id, text in kept.get(label, {}).items()}
    except (OSError, ValueError, EOFError, AttributeError, lzma.LZMAError):
        return {}


def digest(text: str) -> str:
    """Sixteen hexadecimal digits, equal for equal programs."""
    return words_digest(text, digits=16)


def plain(text: str) -> str:
    """An IR without locations, descriptors, modules around it and empty attributes, and with no aliases."""
    aliases = {match[1]: match[2] for match in _ALIAS.finditer(text) if not match[2].startswith("loc(")}
    aliases = {name: f"#{_DESCRIPTOR}" if _DESCRIPTOR in value else value for name, value in aliases.items()}
    body = _WRAPPER.sub("", _without_locations(_METADATA.sub("", _ALIAS.sub("", text))))
    for _ in range(_MOST_NESTED):
        replaced = _USED.sub(lambda match: aliases.get(match[0], match[0]), body)
        if replaced == body:
            break
        body = replaced
    body = _EMPTY.sub("", body)
    body = re.sub(r" <\{,? ?\}>", "", re.sub(r", \}>", "}>", body))
    lines = (line.strip() for line in body.splitlines())
    return "\n".join(line for line in lines if line.strip("} "))


def _without_locations(text: str) -> str:
    """Cuts `loc(...)`, which may hold brackets and quoted text."""
    parts: list[str] = []
    place = 0
    while (start := text.find("loc(", place)) >= 0:
        if start and (text[start - 1].isalnum() or text[start - 1] in "_."):  # the end of another word
            parts.append(text[place : start + 4])
            place = start + 4
            continue
        parts.append(text[place:start].rstrip(" "))
        place = _end_of_brackets(text, start + 3)
    return "".join([*parts, text[place:]])


def _end_of_brackets(text: str, start: int) -> int:
    """The place behind the bracket that closes the one at `start`."""
    depth, quoted = 0, False
    for place in range(start, len(text)):
        character = text[place]
        if character == '"' and text[place - 1] != "\\":
            quoted = not quoted
        elif not quoted and character in "()":
            depth += 1 if character == "(" else -1
            if not depth:
                return place + 1
    return len(text)


def _last_ir(folder: Path) -> Path | None:
    """The file with the last IR of an op; None if there is none."""
    for name in _LAST:
        if (folder / name).is_file():
            return folder / name
    texts = [path for path in folder.glob("*") if path.suffix in _TEXTS] if folder.is_dir() else []
    return max(texts, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)

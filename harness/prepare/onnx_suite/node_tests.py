"""The node tests of the package `onnx` as models: `suite:onnx` is all of them, `suite:onnx/test_acos*` some.

A model has the case's graph and its stored inputs, and is named `suite:onnx.test_acos`, which `--model` takes too. The
cases are written by a child and kept in the cache by the versions of the packages. No package of ONNX is imported here.
"""

from __future__ import annotations

import fnmatch
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from opscope.base import damage, stored
from opscope.base.children.call import call
from opscope.base.damage import Damaged
from opscope.base.digest import file_digest, json_digest, words_digest
from opscope.base.plugins import version
from opscope.harness.cache import export_folder, upkeep
from opscope.harness.prepare.onnx_suite import onnx_cases
from opscope.harness.record.errors import InputError, closest
from opscope.models import frontends

SUITE = "suite:onnx"
FOLDER = "suites"
"""The subfolder of the cache folder."""
SECONDS = 300.0


@dataclass(frozen=True)
class Case:
    """One node test."""

    name: str
    model: Path
    inputs: Path


def pattern(word: str) -> str | None:
    """The glob over names of cases that `word` means; None if it does not name the suite."""
    rest = word.removeprefix(SUITE)
    if rest == word or (rest and rest[0] not in "/."):
        return None
    return rest[1:] or "*"


def cases(glob: str, cache: Path, max_cache: int) -> list[Case]:
    """The cases that a glob takes, without those whose values are no tensors of numbers.

    Raises InputError if it takes none.
    """
    folder = cache / FOLDER / _key()
    while True:
        if not export_folder.intact(folder):
            _make(folder, max_cache)
        try:
            reasons = json.loads(stored.checked(folder, onnx_cases.INDEX).read_bytes())
            names = [name for name in reasons if fnmatch.fnmatchcase(name, glob)]
            chosen = [
                Case(name, stored.checked(folder, f"{name}.onnx"), stored.checked(folder, f"{name}.npz"))
                for name in names
                if not reasons[name]
            ]
        except Damaged as error:
            export_folder.discard(folder, error)
            continue
        export_folder.mark_used(folder)
        if not names:
            raise InputError(f"--model {SUITE}", "a name or glob of its cases", repr(glob), closest(glob, reasons, 3))
        if not chosen:
            got = f"{names[0]}: {reasons[names[0]]}"
            raise InputError(f"--model {SUITE}", "a case that can be a model", got, f"'{SUITE}/test_acos*'")
        if left_out := len(names) - len(chosen):
            first = next(name for name in names if reasons[name])
            damage.say(f"{SUITE}: {left_out} of {len(names)} cases are no models ({first}: {reasons[first]})")
        return chosen


def _key() -> str:
    """The name of the folder: what the cases follow from."""
    versions = {**frontends.versions("onnx"), "numpy": version("numpy")}
    return words_digest(file_digest(Path(onnx_cases.__file__)), json_digest(versions), digits=20)


def _make(folder: Path, max_cache: int) -> None:
    """Has a child write all cases. Raises InputError if it cannot."""
    place = export_folder.make_dir(folder.parent)
    upkeep.trim(place.parent, max_cache, every=upkeep.EVERY_SECONDS)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=upkeep.UNFINISHED, dir=place))
    except OSError as error:
        raise export_folder.unwritable(place, error) from None
    try:
        task = {"folder": str(temporary)}
        outcome = call("opscope.harness.prepare.onnx_suite.onnx_cases:write_models", task, seconds=SECONDS)
        if not outcome.ending.ok:
            got = f"{outcome.ending.kind}: {outcome.log.last_line()}"
            raise InputError(f"--model {SUITE}", "the node tests of the package onnx", got)
        export_folder.publish(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)

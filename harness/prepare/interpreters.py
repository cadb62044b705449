"""The user's own interpreter, in which models are exported (`--export-python`), with the packages that it has.

Nothing is installed there: it is shown this package in a folder of its own, and needs NumPy. What a model's exporter
writes comes back as a portable artifact, which is read here whatever JAX made it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.base.places import PACKAGE
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.record.errors import InputError

if TYPE_CHECKING:
    from opscope.base.children.child import ChildOptions

WHERE = "--export-python"
OLDEST = (3, 10)
_SECONDS = 60
_ASK = """
import importlib.metadata, json, sys
names = {each.metadata["Name"]: each.version for each in importlib.metadata.distributions()}
print(json.dumps([sys.version_info[:3], names]))
"""


@dataclass(frozen=True)
class Interpreter:
    """An interpreter, and what is installed there."""

    path: str
    version: str
    packages: tuple[tuple[str, str], ...]
    """Name, in the spelling of package indexes, and version of each package."""

    def installed(self, package: str) -> str:
        """The version of a package. Raises PackageNotFoundError."""
        for name, version in self.packages:
            if name == _spelled(package):
                return version
        raise PackageNotFoundError(package)


def of(words: str | None, model: str) -> Interpreter | None:
    """The interpreter that exports a model; None for this one.

    `words` are paths, with commas between them: the last that is `GLOB=PATH` for a name like the model's, else the one
    without a glob. Raises InputError for what is no such interpreter.
    """
    chosen = ""
    for word in filter(None, (words or "").split(",")):
        glob, named, path = word.rpartition("=")
        if fnmatchcase(model, glob) if named else not chosen:
            chosen = path
    return _asked(chosen) if chosen else None


def installed_in(interpreter: Interpreter | None) -> Mapping[str, Callable[[str], str]]:
    """The keyword with which frontends look for packages there; none for this interpreter."""
    return {} if interpreter is None else {"installed": interpreter.installed}


@contextmanager
def calling(interpreter: Interpreter | None, environment: Mapping[str, str]) -> Iterator[ChildOptions]:
    """The options of `call` for a function of this package in an interpreter, as long as the context lasts."""
    if interpreter is None:
        yield {"environment": environment}
        return
    with TemporaryFolder("exporter") as folder:
        Path(folder, PACKAGE.name).symlink_to(PACKAGE)  # without what is installed beside it
        yield {"python": interpreter.path, "environment": {**environment, "PYTHONPATH": folder}}


@cache
def _asked(path: str) -> Interpreter:
    """Asks an interpreter what it is and has. Raises InputError."""
    expected = f"an interpreter of Python {'.'.join(map(str, OLDEST))} or newer with NumPy"
    try:
        done = subprocess.run([path, "-I", "-c", _ASK], capture_output=True, text=True, timeout=_SECONDS, check=True)
        version, packages = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise InputError(WHERE, expected, f"{path}: {error}", "the path of bin/python of your environment") from error
    found = Interpreter(path, ".".join(map(str, version)), tuple((_spelled(n), v) for n, v in sorted(packages.items())))
    if tuple(version[:2]) < OLDEST:
        raise InputError(WHERE, expected, f"{path}, which is Python {found.version}", "a newer one")
    try:
        found.installed("numpy")
    except PackageNotFoundError:
        raise InputError(WHERE, expected, f"{path} without NumPy", f"{path} -m pip install numpy") from None
    return found


def _spelled(package: str) -> str:
    """A package's name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", package).lower()

"""Creates Superset's virtual environment, once per set of pins and whole or not at all, and shows the progress."""

from __future__ import annotations

import fcntl
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from opscope.base.live import pip_install, progress
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import CONSTRAINTS, REQUIREMENTS, Home

STAMP = ".complete"
PYTHONS = ("3.11", "3.12", "3.10")
"""Versions of Python that the pinned packages have wheels for; the tested one comes first."""
EVERY = 5.0
"""Seconds between two lines of progress."""

Echo = Callable[[str], None]


def ensure(home: Home, echo: Echo, python: str | None = None) -> bool:
    """Creates the virtual environment; returns False if it is already complete. Raises DashboardError if it fails."""
    with _locked(home.venv):
        if (home.venv / STAMP).is_file():
            return False
        interpreter = python or suitable_python()
        total = sum("==" in line for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines())
        echo(f"installing Apache Superset and its {total} packages into {home.venv}: about a minute, 700 MB")
        shutil.rmtree(home.venv, ignore_errors=True)
        _run([interpreter, "-m", "venv", str(home.venv)], "python -m venv", echo)
        pip = [str(home.python), "-m", "pip", "--disable-pip-version-check", "install", "--no-compile"]
        pip += ["--progress-bar", "off", "-r", str(REQUIREMENTS), "-c", str(CONSTRAINTS)]
        _run(pip, "pip install", echo, total)
        (home.venv / STAMP).touch()
        return True


def suitable_python() -> str:
    """Finds an interpreter that Superset's packages have wheels for. Raises DashboardError if there is none."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" in PYTHONS:
        return sys.executable
    interpreter = next(filter(None, (shutil.which(f"python{version}") for version in PYTHONS)), None)
    if interpreter is None:
        got = f"only Python {sys.version_info.major}.{sys.version_info.minor}"
        raise DashboardError("opscope dashboard", f"one of Python {', '.join(PYTHONS)}", got, "--python PATH")
    return interpreter


@contextmanager
def _locked(venv: Path) -> Iterator[None]:
    """Locks the virtual environment, so that two installations do not collide."""
    try:
        venv.parent.mkdir(parents=True, exist_ok=True)
        lock = venv.with_name(f"{venv.name}.lock").open("w")
    except OSError as error:
        place = str(venv.parent)
        raise DashboardError(place, "a writable folder", str(error), "OPSCOPE_CACHE_DIR") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str], step: str, echo: Echo, total: int = 0) -> None:
    """Runs a step of the installation; pip's `Collecting` lines are its progress."""
    last_echo = time.monotonic()

    def say(what: str) -> None:
        nonlocal last_echo
        progress.step(what)
        if what.startswith("unpacking") or time.monotonic() - last_echo > EVERY:
            last_echo = time.monotonic()
            echo(f"  {what}")

    try:
        code, lines = pip_install.run(command, say, total)
    except OSError as error:
        raise DashboardError("opscope dashboard", "a Python", f"{command[0]}: {error.strerror}", "--python") from None
    if code:
        reason = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "nothing")
        hint = "apt-get install python3-venv" if "ensurepip" in " ".join(lines) else "a network that reaches your index"
        raise DashboardError("opscope dashboard", f"`{step}` to work", reason, hint)

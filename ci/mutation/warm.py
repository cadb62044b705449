"""A process that has loaded the libraries, and of which each test run is a fork: `python -m ci.mutation.warm`.

Half of the time of a short test run is the import of JAX, xDSL and SQLAlchemy. Nothing of opscope is imported before
the fork, so each run reads the mutant. One JSON line in, `{"words": [...], "output": FILE, "limit": SECONDS}`, gives
one JSON line out: the exit code of pytest, or null if the run took longer and was ended.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence

LIBRARIES = (
    "numpy",
    "jax",
    "jax.numpy",
    "ml_dtypes",
    "xdsl.dialects.builtin",
    "xdsl.dialects.func",
    "xdsl.parser",
    "sqlalchemy",
    "pydantic",
    "msgspec",
    "yaml",
    "click.testing",
    "rich.table",
    "psutil",
    "jinja2",
)
"""What many tests import, but no plugin of pytest, which rewrites the assertions of those that it loads itself."""


def forked(words: Sequence[str], output: str, limit: float) -> int | None:
    """Runs pytest in a fork and returns its exit code; None if it took too long."""
    child = os.fork()
    if child == 0:
        _run(words, output)
    until, pause = time.monotonic() + limit, 0.01
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(2 * pause, 0.2)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # opscope's own children die with their parent
    os.waitpid(child, 0)
    return None


def _run(words: Sequence[str], output: str) -> None:
    """Runs pytest as a new process would; never returns."""
    code = 3
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for stream in (1, 2):
            os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
        import pytest

        code = int(pytest.main(list(words)))
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)


def main() -> None:
    """Serves until standard input ends."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(forked(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()

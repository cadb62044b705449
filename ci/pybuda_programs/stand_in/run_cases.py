"""Runs cases of TT-Buda's tests as they are, with its own conftest files, each file in a fork that has the frameworks.

`python -m opscope.pybuda run_cases.py TESTS SEED SECONDS FILE=COUNT...`: of each file the first COUNT cases of a
shuffle by the seed that are neither skipped nor expected to fail. A line of standard output is a case as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from _pytest.skipping import evaluate_skip_marks, evaluate_xfail_marks

FRAMEWORKS = ("torch", "jax", "tensorflow", "transformers", "loguru", "pybuda")
ADDRESS_SPACE = 16 << 30


class Late(BaseException):
    """A case has taken too long."""


def late(*_: Any) -> None:
    """Ends a case."""
    raise Late("the case takes too long")


class Hooks:
    """Hooks of older releases of pytest that the tests' conftest files implement."""

    @pytest.hookspec
    def pytest_cmdline_preparse(self, config: Any, args: Any) -> None:
        """Nothing calls it."""


class Cases:
    """Chooses and runs the cases of one file."""

    def __init__(self, file: str, count: int, seed: str, seconds: float, out: int) -> None:
        self.file, self.count, self.seed, self.seconds, self.out = file, count, seed, seconds, out
        self.ended: tuple[str, str] = ("passed", "")

    def say(self, case: str, outcome: str, why: str = "", seconds: float = 0.0) -> None:
        """Writes a line."""
        row = {"file": self.file, "case": case, "outcome": outcome, "why": why[:400], "seconds": round(seconds, 1)}
        os.write(self.out, json.dumps(row).encode() + b"\n")

    def pytest_addhooks(self, pluginmanager: Any) -> None:
        """Lets the tests' conftest files load."""
        pluginmanager.add_hookspecs(Hooks)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leaves out what TT-Buda skips or expects to fail."""
        kept = [item for item in items if evaluate_skip_marks(item) is None and evaluate_xfail_marks(item) is None]
        random.Random(f"{self.seed}:{self.file}").shuffle(kept)
        items[:] = kept

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported stops all of its cases."""
        if report.failed:
            for _ in range(self.count):
                self.say("", "failed", _reason(str(report.longrepr)))

    def pytest_runtestloop(self, session: Any) -> bool:
        """Runs cases until enough have not skipped themselves."""
        done, collected = 0, not session.testsfailed
        for item in session.items:
            if done == self.count:
                break
            self.ended, began = ("passed", ""), time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, self.seconds)
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            except Late as error:
                self.ended = ("failed", str(error))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            done += self.ended[0] != "skipped"
            self.say(item.name, *self.ended, time.monotonic() - began)
        for _ in range(self.count - done if collected else 0):
            self.say("", "absent", "TT-Buda skips all cases of the file, or expects them to fail")
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Notes how a case ends."""
        if report.passed or self.ended[0] == "failed":
            return
        if report.skipped:
            self.ended = ("skipped", "")
        else:
            self.ended = (report.outcome, _reason(str(report.longrepr)))


def _reason(text: str) -> str:
    """The error of a report, in one line: the last one of several that follow from each other."""
    for between in ("direct cause of the following exception:", "another exception occurred:"):
        text = text.rpartition(between)[2]
    errors = [line[1:].strip() for line in text.splitlines() if line.startswith("E  ")]
    return errors[0] if errors else " ".join(text[-300:].split())


def without_compiled_ops() -> None:
    """Lets a torchvision be imported that was built for another torch: its compiled ops are missing, and not called."""
    import torch

    register: Any = torch.library.register_fake

    def registered(name: Any, *args: Any, **options: Any) -> Any:
        return (
            register(name, *args, **options) if not str(name).startswith("torchvision::") else lambda function: function
        )

    torch.library.register_fake = registered


def main() -> None:
    """Runs the files one after the other."""
    tests, seed, seconds, *asked = sys.argv[1:]
    sys.argv = sys.argv[:1]
    if find_spec("torchvision") is not None:
        without_compiled_ops()
    for name in FRAMEWORKS:
        if find_spec(name) is not None:
            importlib.import_module(name)
    import resource

    signal.signal(signal.SIGALRM, late)
    out = os.dup(1)
    for one in asked:
        file, _, count = one.rpartition("=")
        cases = Cases(file, int(count), seed, float(seconds), out)
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.chdir(Path(tests).parents[1])  # where TT-Buda's own runs begin
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            quiet = [
                "-c",
                os.devnull,
                "-p",
                "no:cacheprovider",
                "-p",
                "no:randomly",
                "-p",
                "no:benchmark",
                "--tb=short",
            ]
            try:
                ended = pytest.main([*quiet, "--rootdir", str(Path(tests).parent), f"{tests}/{file}"], plugins=[cases])
                for _ in range(cases.count if ended in (3, 4) else 0):
                    cases.say("", "failed", "a conftest file of it cannot be imported")
            finally:
                os._exit(0)
        end = time.monotonic() + 120 + 2 * int(count) * float(seconds)
        while not os.waitpid(child, os.WNOHANG)[0]:
            if time.monotonic() > end:  # stuck in native code
                os.killpg(child, signal.SIGKILL)
                cases.say("", "failed", "stuck in native code")
            time.sleep(0.05)


main()

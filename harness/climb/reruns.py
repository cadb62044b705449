"""Running a failed op again: whether it fails every time, now and then, or only because of the machine.

A failure is told apart by what its runs have in common. All alike: `deterministic`. Else, where each failing run was
the machine's doing (a signal from outside, no memory, a full disk, a time limit under a load that leaves no processor
free): `infrastructure`. Else: `flaky`. Whatever the later runs say, the record stays the failure that it was.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import FAILED, Status

DETERMINISTIC, FLAKY, INFRASTRUCTURE = "deterministic", "flaky", "infrastructure"

AGAIN = FAILED - {Status.NO_GOLDEN}
"""Statuses that another run might change."""

KNOWN_AFTER = 3
"""After so many ops that a compiler refused each time with one fingerprint, later ones are not run again."""

OF_THE_MACHINE = re.compile(r"\b(MemoryError|OSError|Errno|bad_alloc|RESOURCE_EXHAUSTED|KeyboardInterrupt)\b")
"""Words in an error that point to the machine at that moment and not to the op."""

FROM_OUTSIDE = frozenset({"signal SIGKILL", "signal SIGTERM", "signal SIGHUP", "signal SIGINT"})
"""Ends that a lane's child does not bring on itself; the harness's own kills are labelled by their reason."""

LOADED = 2.0
"""Load per processor above which a time-out is not the op's fault."""

SCARCE = 0.05
"""Share of free memory below which a crash is not the op's fault."""


def pressure() -> str:
    """What this machine lacks at this moment, in words. Empty if it lacks nothing or that is unknown."""
    with suppress(OSError, AttributeError):
        load, processors = os.getloadavg()[0], os.cpu_count() or 1
        if load > LOADED * processors:
            return f"load {load:.1f} on {processors} processors"
    with suppress(OSError, KeyError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        memory = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
        share = memory["MemAvailable"] / memory["MemTotal"]
        if share < SCARCE:
            return f"{share:.0%} of memory free"
    return ""


def fault_of_machine(test: OpTest, lacking: str) -> bool:
    """Whether a failing run may be put down to the machine, which was `lacking` something when it ended."""
    return bool(
        test.crash_kind in FROM_OUTSIDE
        or OF_THE_MACHINE.search(test.error_message or "")
        or (lacking and test.status in (Status.TIMEOUT, Status.CRASHED))
    )


def outcome(test: OpTest) -> str:
    """How a run ended, on one line: status, stage, kind of crash, fingerprint."""
    stage = f" at {test.failed_stage}" if test.failed_stage else ""
    crash = f" ({test.crash_kind})" if test.crash_kind else ""
    return f"{test.status}{crash}{stage}{f' {test.error_signature}' if test.error_signature else ''}"


class Reruns:
    """The reruns of one process. Remembers which refusals of the compiler have proved to be deterministic."""

    def __init__(self, count: int) -> None:
        """`count` is how often a failed op is run again; 0: never."""
        self.count = count
        self._proved: Counter[str] = Counter()

    def settled(self, test: OpTest) -> bool:
        """Whether a record needs no other run: it did not fail, is labelled, or nothing is to be run again."""
        return not self.count or test.status not in AGAIN or bool(test.stability)

    def label(self, test: OpTest, run: Callable[[], OpTest], go_on: Callable[[], bool] = lambda: True) -> OpTest:
        """`test` with its label. `run` runs the op once more in a fresh lane, while `go_on`; without any, no label."""
        if self.settled(test):
            return test
        refusal = f"{test.failed_stage} {test.error_signature}" if test.status is Status.COMPILE_FAILED else ""
        if self._proved[refusal] >= KNOWN_AFTER:
            return test.model_copy(update={"stability": DETERMINISTIC, "outcomes": (outcome(test),)})
        runs, machine = [test], [fault_of_machine(test, pressure())]
        with suppress(InputError):  # no lane starts any more: the next op, if there is one, will say so
            for _ in range(self.count):
                if not go_on():
                    break
                runs.append(run())
                if runs[-1].status in FAILED:
                    machine.append(fault_of_machine(runs[-1], pressure()))
        if len(runs) == 1:
            return test
        ends = tuple(outcome(each) for each in runs)
        if len(set(ends)) == 1:
            label = DETERMINISTIC
            if refusal:
                self._proved[refusal] += 1
        else:
            label = INFRASTRUCTURE if all(machine) else FLAKY
        return test.model_copy(update={"stability": label, "flaky": label != DETERMINISTIC, "outcomes": ends})

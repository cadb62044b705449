"""The cause of a crash is the line that the library wrote, not the signal."""

from __future__ import annotations

from opscope.base.children.ending import Cause, Ending, of_return_code
from opscope.base.tests.each import each
from opscope.harness.lanes import crash_cause

ABORT = of_return_code(-6)
STACK = 'Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File "a.py", line 3 in climb\n'


@each(
    ("output", "cause"),
    [
        (
            f"loading\nLLVM ERROR: initValue_ must be a stablehlo.constant\n{STACK}",
            "LLVM ERROR: initValue_ must be a stablehlo.constant",
        ),
        (
            "terminate called after throwing an instance of 'std::runtime_error'\n  what():  no chip\n" + STACK,
            "std::runtime_error: no chip",
        ),
        (
            "\x1b[31mTT_FATAL: No chips detected\x1b[0m\nbacktrace:\n --- /lib/x.so(+0x1)\n" + STACK,
            "TT_FATAL: No chips detected",
        ),
        ("LLVM ERROR: the first\nLLVM ERROR: the last\n", "LLVM ERROR: the last"),
        ("free(): double free detected in tcache 2\n" + STACK, "free(): double free detected in tcache 2"),
        (
            "Fatal Python error: PyThreadState_Get: no current thread\n",
            "Fatal Python error: PyThreadState_Get: no current thread",
        ),
        ("an error of an earlier op was told\n" + STACK, ""),
        ("", ""),
    ],
)
def test_the_last_line_that_names_a_cause(output: str, cause: str) -> None:
    assert crash_cause.of(ABORT, output) == cause


def test_a_cause_from_outside_is_not_in_the_output() -> None:
    output = "LLVM ERROR: of long ago\n"
    for ending in (of_return_code(-9), Ending(Cause.MEMORY, "too much"), Ending(Cause.PROTOCOL, "no frame")):
        assert crash_cause.of(ending, output) == "", ending
    assert crash_cause.of(of_return_code(3), output) == "LLVM ERROR: of long ago"

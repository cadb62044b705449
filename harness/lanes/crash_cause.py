"""The cause of a crash: the last line that a process wrote which names one, as libraries do before they abort."""

from __future__ import annotations

import re

from opscope.base.children.ending import Cause, Ending

FROM_WITHIN = frozenset({"SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP"})
"""Signals that a process causes itself; of the others, its output says nothing."""

_CAUSES = re.compile(
    r"LLVM ERROR:|\bTT_(?:FATAL|THROW|ASSERT)\b|terminate called|^\s*what\(\):|Assertion .*failed"
    r"|\bCheck failed:|^F\d{4} |\bFATAL\b|panicked at|ERROR: \w*Sanitizer|UNREACHABLE executed|std::bad_alloc"
    r"|(?:stack|buffer) overflow|stack smashing|double free|corrupted size|free\(\): |malloc\(\): |munmap_chunk"
    r"|Fatal Python error:|pure virtual method|symbol lookup error"
)
"""How a line names a cause: of LLVM, tt-metal, C++ and its libraries, glibc, sanitizers, Rust and Python."""

_SIGNAL_ALONE = re.compile(
    r"Fatal Python error: (Aborted|Segmentation fault|Bus error|Floating point exception|Floating-point exception"
    r"|Illegal instruction)\s*$"
)
"""What Python writes below the cause: no more than the signal."""

_THREW = re.compile(r"terminate called after throwing an instance of '(.*)'")
_WHAT = re.compile(r"^\s*what\(\):\s*")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LONGEST = 500
"""Longest cause, in characters."""


def of(ending: Ending, output: str) -> str:
    """The last output line of a dead process that names the cause of its end; empty if no line does."""
    if ending.cause is Cause.SIGNAL and ending.kind.removeprefix("signal ") not in FROM_WITHIN:
        return ""
    if ending.cause not in (Cause.SIGNAL, Cause.EXIT):
        return ""
    lines = [" ".join(_ESCAPES.sub("", line).split()) for line in output.splitlines()]
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if not _CAUSES.search(line) or _SIGNAL_ALONE.search(line):
            continue
        if what := _WHAT.match(line):
            threw = next((match for above in lines[:number][::-1] if (match := _THREW.search(above))), None)
            line = f"{threw[1]}: {line[what.end() :]}" if threw else line[what.end() :]
        return line[:_LONGEST]
    return ""

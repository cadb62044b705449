"""Writes what happened as a trace in Chrome's trace event format, which Perfetto and chrome://tracing open.

A process is a core, named by its epoch and place; its threads are unpack, math and pack. A piece of work is named by
its op and, of a plan, its input, and repeats both among its arguments, with epoch, chip and core. One cycle is
`1 / clock` nanoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opscope.base.atomic_write import write_whole
from opscope.simulator.timing.events.recording import THREADS, Recording, Span


def trace_events(recording: Recording) -> list[dict[str, Any]]:
    """Returns the events: names of cores and threads, and a complete event (`X`) for each piece of work."""
    per_us = recording.clock_ghz * 1000
    numbers: dict[tuple[int, int, tuple[int, int]], int] = {}
    entries: list[dict[str, Any]] = []
    for span in recording.spans:
        section = span.section if recording.planned else 0
        key = (section, span.chip, span.core)
        if key not in numbers:
            numbers[key] = len(numbers) + 1
            epoch = f"epoch {section}, " if recording.planned else ""
            label = f"{epoch}chip {span.chip}, core {span.core[0]}-{span.core[1]}"
            pid = numbers[key]
            entries.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": label}})
            entries += [
                {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
                for tid, name in enumerate(THREADS, 1)
            ]
        where = {"epoch": section, "input": span.input} if recording.planned else {"operation": span.section}
        entries.append(
            {
                "ph": "X",
                "name": named(span, recording),
                "cat": span.thread,
                "pid": numbers[key],
                "tid": THREADS.index(span.thread) + 1,
                "ts": span.start / per_us,
                "dur": span.cycles / per_us,
                "args": {
                    "op": span.name,
                    **where,
                    "chip": span.chip,
                    "core": f"{span.core[0]}-{span.core[1]}",
                    "cycles": round(span.cycles),
                },
            }
        )
    return entries


def named(span: Span, recording: Recording) -> str:
    """Returns what a piece of work is called: its op, and of a plan the input, counted from 0."""
    return f"{span.name}, input {span.input}" if recording.planned else span.name


def write_trace(path: Path, recording: Recording, counters: Mapping[str, Any]) -> None:
    """Writes a trace, whole or not at all, with a run's counters beside it. Raises OSError."""
    about = {
        "partial": recording.partial,
        "events": recording.events,
        "notes": recording.notes,
        "inputs": recording.inputs,
        "counters": dict(counters),
    }
    whole = {"traceEvents": trace_events(recording), "displayTimeUnit": "ns", "otherData": about}
    write_whole(path, json.dumps(whole, separators=(",", ":")))

"""Writes what happened as a trace in Chrome's trace event format, which Perfetto and chrome://tracing open.

A process is a core, named by its place; its threads are unpack, math and pack. One cycle is `1 / clock` microseconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from opscope.base.atomic_write import write_whole
from opscope.simulator.timing.events.recording import THREADS, Recording


def trace_events(recording: Recording) -> list[dict[str, Any]]:
    """Returns the events: names of cores and threads, and a complete event (`X`) for each piece of work."""
    per_us = recording.clock_ghz * 1000
    numbers: dict[tuple[int, int, tuple[int, int]], int] = {}
    found: list[dict[str, Any]] = []
    for span in recording.spans:
        section = span.section if recording.planned else 0
        key = (section, span.chip, span.core)
        if key not in numbers:
            numbers[key] = len(numbers) + 1
            epoch = f"epoch {section}, " if recording.planned else ""
            label = f"{epoch}chip {span.chip}, core {span.core[0]}-{span.core[1]}"
            pid = numbers[key]
            found.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": label}})
            found += [
                {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
                for tid, name in enumerate(THREADS, 1)
            ]
        found.append({
            "ph": "X", "name": span.name, "cat": span.thread, "pid": numbers[key],
            "tid": THREADS.index(span.thread) + 1, "ts": span.start / per_us, "dur": span.cycles / per_us,
            "args": {"input": span.input, "cycles": round(span.cycles)},
        })  # fmt: skip
    return found


def write_trace(path: Path, recording: Recording) -> None:
    """Writes a trace, whole or not at all. Raises OSError."""
    about = {"partial": recording.partial, "events": recording.events, "notes": recording.notes}
    whole = {"traceEvents": trace_events(recording), "displayTimeUnit": "ns", "otherData": about}
    write_whole(path, json.dumps(whole, separators=(",", ":")))

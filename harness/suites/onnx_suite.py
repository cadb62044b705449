"""Runs the node tests of ONNX in children and collects the scores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opscope.base.children.call import call
from opscope.base.installing import install_command
from opscope.base.live import progress
from opscope.base.temporary_folder import TemporaryFolder
from opscope.base.visible_text import cut
from opscope.harness.prepare.onnx_suite.onnx_cases import INDEX, Choice
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import DEFAULT_BACKEND
from opscope.harness.suites.faults import Fault, Score

CASE_SECONDS = 120.0
"""Time limit of one case. Beyond it, the part that was at work is at fault."""
BATCH = 24
"""Cases per child: enough to pay for its imports, few enough that children end together."""
WRITE_SECONDS = 300.0
MEMORY = 8 << 30


def scores(
    choice: Choice, backend: str = DEFAULT_BACKEND, options: dict[str, Any] | None = None, jobs: int = 1
) -> list[Score]:
    """The scores of the chosen cases, in the suite's order. Raises InputError if there is none, or no `onnx`."""
    import json
    from importlib import util

    missing = [name for name in ("onnx", "torch_mlir") if util.find_spec(name) is None]
    if missing:
        raise InputError("suite:onnx", "the ONNX frontend", f"no {', '.join(missing)}", install_command("onnx"))
    with TemporaryFolder("suite") as folder:
        task = {"folder": folder, "choice": asdict(choice)}
        outcome = call("opscope.harness.prepare.onnx_suite.onnx_cases:write", task, seconds=WRITE_SECONDS)
        if not outcome.ending.ok:
            raise InputError("suite:onnx", "the node tests of the package onnx", outcome.ending.kind)
        index = json.loads((Path(folder) / INDEX).read_text())
        if not index:
            raise InputError("suite:onnx", "a name or glob of its cases", repr(choice.pattern), "--only 'test_resize*'")
        waiting = deque(list(index)[start : start + BATCH] for start in range(0, len(index), BATCH))
        rows: dict[str, Score] = {}
        progress.step("cases", 0, len(index))

        def add(row: Score) -> None:
            rows[row.name] = row
            progress.step("cases", len(rows), len(index))

        def work() -> None:
            while waiting:
                try:
                    batch = waiting.popleft()
                except IndexError:
                    return
                _score(batch, Path(folder), index, backend, options or {}, add)

        with ThreadPoolExecutor(jobs) as pool:
            for future in [pool.submit(work) for _ in range(jobs)]:
                future.result()
    return [rows[name] for name in index]


def _score(
    names: list[str],
    folder: Path,
    index: dict[str, Any],
    backend: str,
    options: dict[str, Any],
    add: Callable[[Score], None],
) -> None:
    """Scores some cases. If a case ends its child, the part that was at work is at fault.

    Raises RuntimeError for an error of the child itself.
    """
    left = list(names)
    while left:
        now = {"begins": "", "step": Fault.FRONTEND}
        scored = set[str]()

        def take(message: dict[str, Any], now: dict[str, str] = now, scored: set[str] = scored) -> None:
            if "score" in message:
                fields = message["score"]
                scored.add(fields["name"])
                add(Score(**{**fields, "fault": Fault(fields["fault"])}))
            else:
                now |= message

        task = {"folder": str(folder), "names": left, "backend": backend, "options": options}
        outcome = call(
            "opscope.harness.suites.onnx_score:score",
            task,
            on_message=take,
            seconds=CASE_SECONDS + 20.0 * len(left),
            memory=MEMORY,
        )
        if outcome.ending.ok:
            return
        name = now["begins"]
        if not name or name in scored:
            raise RuntimeError(f"suite:onnx: {name or 'start'}: {outcome.ending.kind}\n{outcome.log.tail(30)}")
        why = f"the process ended ({outcome.ending.kind}): {outcome.log.last_line()}"
        add(Score(name, index[name]["op"], Fault(now["step"]), cut(why, 300)))
        left = left[left.index(name) + 1 :]

"""Goldens outside the lanes: XLA in a child process, which may crash without taking the caller along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from opscope.harness.lanes.lane_process import child_environment
from opscope.harness.record.records import OpRow

SECONDS = 120.0
"""How long one golden may take."""


class Evaluator:
    """A child that computes goldens, started when the first is asked for; a context manager. Safe for threads."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._child: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def with_golden(self, row: OpRow, export_dir: Path, folder: Path) -> OpRow:
        """`row` with goldens computed from its module and inputs, which lie in `export_dir`; written to `folder`.

        Where XLA refuses, crashes or takes too long, the row says so (`no_golden`).
        """
        folder.mkdir(parents=True, exist_ok=True)
        request = {"row": row.model_dump(mode="json"), "export_dir": str(export_dir), "folder": str(folder)}
        with self._lock:
            answer = self._ask(request)
        golden = tuple(answer.get("golden", ()))
        return row.model_copy(update={"golden": golden, "no_golden": answer.get("error", "")})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._child is None or self._child.poll() is not None:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "opscope.harness.triage.evaluator_child", str(os.getpid())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                env=child_environment({}),
            )  # fmt: skip
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        timer = threading.Timer(self._seconds, child.kill)
        timer.start()
        try:
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except OSError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            self.close()
            return {"error": "XLA crashed on it, or took too long"}
        return json.loads(line)

    def close(self) -> None:
        """Ends the child."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""What a command printed, for tests that start one."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def captured(command: Sequence[str | Path], *, check: bool = False, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, with both of its outputs as text; `more` is as for `subprocess.run`."""
    return subprocess.run(command, capture_output=True, text=True, check=check, **more)

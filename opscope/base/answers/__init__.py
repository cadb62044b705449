"""JSON schemas of what commands print with `--json`, one file for each command, and each kind of answer that it has.

`opscope schema VERB` prints them, and the tools of `opscope mcp` state them. reports/tests/test_answers.py holds every
command to its schema, and writes them (WRITE_ANSWERS=1).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def commands() -> list[str]:
    """The names of the files without kinds: `db-stats` for `opscope db stats`."""
    return sorted({path.name.split(".")[0] for path in FOLDER.glob("*.json")})


def schema_of(command: str) -> dict[str, Any] | None:
    """The schema of what a command prints with `--json`: any of several where it depends on what was asked; None if the
    command prints no JSON."""
    name = command.replace(" ", "-")
    paths = sorted(path for path in FOLDER.glob("*.json") if path.name.split(".")[0] == name)
    schemas = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return None if not schemas else schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

"""What commands print with `--json`: one module for each command, which the command imports when it prints.

A module's `PRINTS` is the type of the answer, any of several where it depends on what was asked. `opscope schema VERB`
prints its JSON schema, and the tools of `opscope mcp` state it. Answers are built of these types and of those that
rooms compute with (records, results of a comparison): no shape is written twice.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any


def commands() -> list[str]:
    """The commands that print JSON: `db-stats` for `opscope db stats`."""
    modules = {path.stem for path in Path(__file__).parent.glob("*.py")} - {"__init__", "answer"}
    return sorted(name.replace("_", "-") for name in modules)


def schema_of(command: str) -> dict[str, Any] | None:
    """The schema of what a command prints with `--json`: any of several where it depends on what was asked; None if the
    command prints no JSON."""
    name = command.replace(" ", "-")
    if name not in commands():
        return None
    from opscope.wire.answer import schema

    return schema(importlib.import_module(f"opscope.wire.{name.replace('-', '_')}").PRINTS)

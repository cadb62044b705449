"""An option of a command that takes a path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def path_option(*names: str, metavar: str = "FILE", **more: Any) -> Callable[[Any], Any]:
    """`click.option` of a path; where none is given, it is None."""
    return click.option(*names, type=click.Path(path_type=Path), metavar=metavar, **more)

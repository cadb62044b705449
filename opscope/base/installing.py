"""The command that installs what is missing, as this opscope was installed itself: from a checkout or as a wheel."""

from __future__ import annotations

from importlib import util

from opscope.base import places


def install_command(extra: str = "") -> str:
    """The pip command that adds an extra of opscope, or without one its own packages.

    In a checkout the command is one for its folder; else it names the distribution, since there is no folder.
    """
    what = "." if places.HOME != places.PACKAGE else "opscope"
    option = "-e " if what == "." else ""
    return f"pip install {option}'{what}[{extra}]'" if extra else f"pip install {option}{what}"


def install_missing(extra: str, *modules: str) -> str | None:
    """`install_command`, and which of the top-level modules are not installed; None if all are."""
    missing = [name for name in modules if util.find_spec(name) is None]
    return f"{install_command(extra)} (not installed: {', '.join(missing)})" if missing else None

"""The command that installs what is missing, as this opscope was installed itself: from a checkout or as a wheel."""

from __future__ import annotations

from opscope.base import places


def install_command(extra: str = "") -> str:
    """The pip command that adds an extra of opscope, or without one its own packages.

    In a checkout the command is one for its folder; else it names the distribution, since there is no folder.
    """
    what = "." if places.HOME != places.PACKAGE else "opscope"
    option = "-e " if what == "." else ""
    return f"pip install {option}'{what}[{extra}]'" if extra else f"pip install {option}{what}"

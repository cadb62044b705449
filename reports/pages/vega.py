"""The JavaScript of Vega, Vega-Lite and Vega-Embed, which the distribution holds: nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

from opscope.harness.record.errors import InputError
from opscope.reports.pages import vega_lite

SCRIPTS = Path(__file__).parent / "assets" / f"vega-lite-{vega_lite.VERSION}.js.gz.base64"
"""Assembled when the distribution is built (build_backend.py)."""


def packed_javascript() -> str:
    """Returns the JavaScript as a page holds it, which unpacks it where it has charts; it defines `window.vegaEmbed`.

    Raises InputError in a checkout that was not installed.
    """
    try:
        return SCRIPTS.read_text(encoding="ascii")
    except OSError as error:
        raise InputError(str(SCRIPTS), "the scripts of charts", error.strerror or "none", "pip install -e .") from None

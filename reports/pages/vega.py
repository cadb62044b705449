"""The JavaScript of Vega, Vega-Lite and Vega-Embed as one text, out of vl-convert's wheel: nothing is downloaded.

vl-convert assembles it in about two seconds; it is kept in the cache folder under the versions that it was made from.
"""

from __future__ import annotations

import contextlib
import os
import re
from importlib.metadata import version
from pathlib import Path

import platformdirs

from opscope.base.atomic_write import write_whole

VEGA_LITE = "6.4"
"""The Vega-Lite that Altair's specifications are written for (a test compares it with Altair's own word)."""


def cache_file() -> Path:
    """Where the text is kept: below OPSCOPE_CACHE_DIR or the user's cache folder."""
    root = Path(os.environ.get("OPSCOPE_CACHE_DIR") or platformdirs.user_cache_dir("opscope"))
    return root / "javascript" / f"vega-lite-{VEGA_LITE}-vl-convert-{version('vl-convert-python')}.js"


def javascript() -> str:
    """The text, fit to stand inside a `<script>` element; it defines `window.vegaEmbed`."""
    path = cache_file()
    try:
        text = path.read_text(encoding="utf-8")
        with contextlib.suppress(OSError):
            os.utime(path)  # what was used lately is cleared away last
        return text
    except OSError:
        text = assemble()
    with contextlib.suppress(OSError):  # without a cache the next report is two seconds slower, nothing else
        write_whole(path, text)
    return text


def assemble() -> str:
    """The text, made anew."""
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    # A closing tag inside a string would end the element that holds the script.
    return re.sub(r"</(script)", r"<\\/\1", bundle, flags=re.IGNORECASE).replace("<!--", "<\\!--")

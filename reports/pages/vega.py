"""The JavaScript of Vega, Vega-Lite and Vega-Embed as one text, from vl-convert's wheel, so nothing is downloaded.

vl-convert assembles it in about two seconds; the result is cached under the versions that it was made from.
"""

from __future__ import annotations

import contextlib
import re
from importlib.metadata import version
from pathlib import Path

from opscope.base import stored
from opscope.base.cache_folder import NoCacheError, cache_folder, users_folder
from opscope.reports.pages import kept_file, vega_lite


def cache_files() -> tuple[Path, ...]:
    """The files that may cache the text: in the cache folder, and in that of a user who names another one."""
    name = f"vega-lite-{vega_lite.VERSION}-vl-convert-{version('vl-convert-python')}.js"
    files: dict[Path, None] = {}
    for find in (cache_folder, users_folder):
        with contextlib.suppress(NoCacheError):
            files[find() / "javascript" / name] = None
    return tuple(files)


def javascript() -> str:
    """Returns the JavaScript, safe inside a `<script>` element; it defines `window.vegaEmbed`."""
    paths = cache_files()
    for path in paths:
        if (content := kept_file.read(path)) is not None:
            return content.decode()
    text = assemble()
    for path in paths:  # a run with a new cache folder then finds it in the user's
        with contextlib.suppress(OSError):  # without the cache, only the next report is two seconds slower
            stored.write_bytes(path, text.encode())
    return text


def assemble() -> str:
    """Assembles the JavaScript again."""
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=vega_lite.VERSION)
    # A closing tag inside a string would close the element around the script.
    return re.sub(r"</(script)", r"<\\/\1", bundle, flags=re.IGNORECASE).replace("<!--", "<\\!--")

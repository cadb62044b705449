"""The JavaScript of Vega, Vega-Lite and Vega-Embed as one text, from vl-convert's wheel, so nothing is downloaded.

vl-convert assembles it in about two seconds; the result is cached under the versions that it was made from.
"""

from __future__ import annotations

import contextlib
import os
import re
from importlib.metadata import version
from pathlib import Path

import platformdirs

from opscope.base import damage, stored
from opscope.base.damage import Damaged

VEGA_LITE = "6.4"
"""The version of Vega-Lite that Altair's specifications use (a test compares it with Altair's own constant)."""


def cache_file() -> Path:
    """The file that caches the text, below OPSCOPE_CACHE_DIR or the user's cache folder."""
    root = Path(os.environ.get("OPSCOPE_CACHE_DIR") or platformdirs.user_cache_dir("opscope"))
    return root / "javascript" / f"vega-lite-{VEGA_LITE}-vl-convert-{version('vl-convert-python')}.js"


def javascript() -> str:
    """Returns the JavaScript, safe inside a `<script>` element; it defines `window.vegaEmbed`."""
    path = cache_file()
    try:
        text = stored.read_bytes(path).decode()
        with contextlib.suppress(OSError):
            os.utime(path)  # the files used most recently are removed last
        return text
    except Damaged as error:
        damage.say(f"{error.where}: damaged ({error.got}); it is assembled again")
    except OSError:
        pass
    text = assemble()
    with contextlib.suppress(OSError):  # without the cache, only the next report is two seconds slower
        stored.write_bytes(path, text.encode())
    return text


def assemble() -> str:
    """Assembles the JavaScript again."""
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    # A closing tag inside a string would close the element around the script.
    return re.sub(r"</(script)", r"<\\/\1", bundle, flags=re.IGNORECASE).replace("<!--", "<\\!--")

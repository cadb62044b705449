"""How the distribution is built: setuptools, and the scripts of a report's charts, which vl-convert assembles first.

So vl-convert, of 84 MB, is needed where a wheel is built or a checkout installed, and not where opscope runs. A source
distribution has the scripts already.
"""

from __future__ import annotations

import base64
import gzip
import runpy
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import prepare_metadata_for_build_editable, prepare_metadata_for_build_wheel

__all__ = ["prepare_metadata_for_build_editable", "prepare_metadata_for_build_wheel"]

PAGES = Path("reports", "pages") if Path("reports").is_dir() else Path("opscope", "reports", "pages")
"""In a checkout, and in a source distribution."""
VEGA_LITE = runpy.run_path(str(PAGES / "vega_lite.py"))["VERSION"]
SCRIPTS = PAGES / "assets" / f"vega-lite-{VEGA_LITE}.js.gz.base64"


def assemble() -> None:
    """Writes the scripts, as a page holds them; they define `window.vegaEmbed`. They are under BSD-3-Clause."""
    for other in set(SCRIPTS.parent.glob("vega-lite-*")) - {SCRIPTS}:  # of another version: a wheel would hold both
        other.unlink()
    if SCRIPTS.is_file():
        return
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    begun = SCRIPTS.with_name(f"{SCRIPTS.name}.new")
    begun.write_bytes(base64.b64encode(gzip.compress(bundle.encode(), mtime=0)))
    begun.replace(SCRIPTS)  # whole, or not there


def _needed(by_setuptools: list[str]) -> list[str]:
    return by_setuptools if SCRIPTS.is_file() else [*by_setuptools, "vl-convert-python>=1.9"]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return _needed(build_meta.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    return _needed(build_meta.get_requires_for_build_editable(config_settings))


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    return _needed(build_meta.get_requires_for_build_sdist(config_settings))


def build_wheel(folder: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    assemble()
    return build_meta.build_wheel(folder, config_settings, metadata_directory)


def build_editable(folder: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    assemble()
    return build_meta.build_editable(folder, config_settings, metadata_directory)


def build_sdist(folder: str, config_settings: Any = None) -> str:
    assemble()
    return build_meta.build_sdist(folder, config_settings)

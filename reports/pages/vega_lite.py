"""The parts of a Vega-Lite specification, as plain JSON, and the JavaScript that draws it.

A library that builds them takes half a second to import. A test holds every chart of a report to the schema of
Vega-Lite. The scripts are in the distribution: nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opscope.harness.record.errors import InputError

VERSION = "6.4"
"""The version of Vega-Lite that the specifications are written for. Tests hold them to Altair, which has its schema."""

SCRIPTS = Path(__file__).parent / "assets" / f"vega-lite-{VERSION}.js.gz.base64"
"""Assembled when the distribution is built (build_backend.py)."""

Spec = dict[str, Any]

_TYPES = {"N": "nominal", "O": "ordinal", "Q": "quantitative", "T": "temporal"}


def channel(shorthand: str, **more: Any) -> Spec:
    """A channel of an encoding that shows a field: `channel("count:Q", title="ops")`."""
    field, _, letter = shorthand.rpartition(":")
    return {"field": field, "type": _TYPES[letter], **more}


def tooltip(*channels: str | Spec) -> list[Spec]:
    """The lines that appear over a mark."""
    return [channel(each) if isinstance(each, str) else each for each in channels]


def layer(mark: str, encoding: Spec, rows: Sequence[Spec] | None = None, **style: Any) -> Spec:
    """Marks with their encoding; `rows` is their data, where it is not that of the whole chart."""
    data = {} if rows is None else {"data": {"values": list(rows)}}
    return {**data, "mark": {"type": mark, **style}, "encoding": encoding}


def chart(height: int, *layers: Spec, rows: Sequence[Spec] | None = None) -> Spec:
    """A chart as wide as its place in the page and `height` pixels high, made of one layer or several on each other."""
    data = {} if rows is None else {"data": {"values": list(rows)}}
    body = layers[0] if len(layers) == 1 else {"layer": list(layers)}
    schema = f"https://vega.github.io/schema/vega-lite/v{VERSION.partition('.')[0]}.json"
    return {"$schema": schema, **data, **body, "height": height, "width": "container"}


def packed_javascript() -> str:
    """Returns the JavaScript as a page holds it, which unpacks it where it has charts; it defines `window.vegaEmbed`.

    Raises InputError in a checkout that was not installed.
    """
    try:
        return SCRIPTS.read_text(encoding="ascii")
    except OSError as error:
        raise InputError(str(SCRIPTS), "the scripts of charts", error.strerror or "none", "pip install -e .") from None

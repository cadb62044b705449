"""The text of an element type, as MLIR writes it: f32, ui8, i1, ..."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


@lru_cache(maxsize=256)
def element_text(kind: Any) -> str:
    """The text of an element type; empty for an empty text, as of what has no element type."""
    # xDSL's printer takes 40 us for it, and a module of one op is asked some thirty times.
    return str(kind)

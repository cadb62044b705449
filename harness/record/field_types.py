r"""Types of fields of records that may come from elsewhere: ids that name files, paths inside a folder, numbers.

Whoever sends a run folder decides what its records say. An id becomes the name of a file or folder and a path is
followed, so both are checked when a record is read, by pydantic here and by msgspec in reports/records/quick_records.py
with the same pattern.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field

from opscope.base.visible_text import ACTING

LEAST, MOST = -(2**63), 2**63 - 1
"""What a database's integer and every reader of JSON hold."""


@dataclass(frozen=True)
class Matching:
    """A check of a text by a pattern; `what` says what the text should be."""

    pattern: str
    """A regular expression that finds the whole text, from `\\A` to `\\Z`."""
    what: str
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_compiled", re.compile(self.pattern))

    def __call__(self, text: str) -> str:
        """Returns `text`. Raises ValueError if it does not match."""
        if self._compiled.search(text) is None:
            raise ValueError(f"expected {self.what}")
        return text


FILE_NAME = Matching(rf"\A(?!\.{{1,2}}\Z)[^/\\{ACTING}]{{1,200}}\Z", "a name without separators or control characters")
INNER_PATH = Matching(
    rf"\A(?!/)(?!(?:[^/]*/)*\.\.(?:/|\Z))[^\\{ACTING}]{{0,1000}}\Z", "a path that stays inside its folder"
)

Id = Annotated[str, AfterValidator(FILE_NAME)]
"""An id of a run, an op or a backend. Files and folders are named by it, so it can be the name of nothing else."""
InnerPath = Annotated[str, AfterValidator(INNER_PATH)]
"""A path relative to the run folder or the export folder, and never outside of it."""
Int = Annotated[int, Field(ge=LEAST, le=MOST)]
"""A number of 64 bits."""

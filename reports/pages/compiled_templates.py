"""The templates of pages, compiled once for all runs: compiling them takes as long as half of the rest of a report.

What is kept is Python's bytecode, under a name that says what it was made from: this Python, this Jinja2, the options
of the environment, the template's text.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket, BytecodeCache

from opscope.base import damage, stored
from opscope.base.cache_folder import NoCacheError, cache_folder
from opscope.base.damage import Damaged
from opscope.base.digest import words_digest
from opscope.base.visible_text import visible

OPTIONS: Mapping[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}


def environment(*folders: Path) -> Environment:
    """The environment of the templates in these folders: every text is escaped, also what hides or reorders others."""
    return Environment(
        loader=FileSystemLoader(folders),
        undefined=StrictUndefined,
        bytecode_cache=CompiledTemplates(OPTIONS),
        finalize=lambda value: visible(value) if type(value) is str else value,  # not what is HTML or a script
        **OPTIONS,
    )


class CompiledTemplates(BytecodeCache):
    """The compiled templates of environments with these `options`, in the cache folder.

    One that cannot be used is no error: the next report compiles again.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._folder: Path | None = None
        with contextlib.suppress(NoCacheError):
            self._folder = cache_folder() / "templates"
        self._made_by = words_digest(jinja2.__version__, repr(sorted(options.items())), digits=12)

    def _path(self, bucket: Bucket) -> Path | None:
        return None if self._folder is None else self._folder / f"{bucket.key}-{bucket.checksum}-{self._made_by}"

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fills the bucket if its template is kept; a damaged file is said in a line, and the template is compiled."""
        if (path := self._path(bucket)) is None:
            return
        with contextlib.suppress(OSError):  # there is none
            try:
                bucket.bytecode_from_string(stored.read_bytes(path))
            except Damaged as error:
                damage.say(f"{error.where}: {error.state}; it is made again")
            os.utime(path)  # the files used most recently are removed last

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keeps a compiled template."""
        if (path := self._path(bucket)) is None:
            return
        with contextlib.suppress(OSError):
            stored.write_bytes(path, bucket.bytecode_to_string())

"""Names of files as text. A file's name is bytes, and Python keeps those that are no text as lone surrogates, which
neither JSON nor a database takes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from opscope.base.visible_text import one_line


def as_text(name: str) -> str:
    r"""`name` as text that has an encoding: UTF-8 where its bytes are that, and else each byte as `\xff`."""
    try:
        name.encode()
    except UnicodeEncodeError:
        pass
    else:
        return name
    try:
        data = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        data = name.encode("utf-8", "backslashreplace")
    return data.decode("utf-8", "backslashreplace")


def resolved(path: Path) -> Path:
    """`path` without links, as `Path.resolve` makes it. A link to itself stays as it is, and reading it fails."""
    return Path(os.path.realpath(path))


def label(name: str) -> str:
    r"""The name of a file as a label on one line, which may also stand in the environment: without UTF-8, `caf\xe9`."""
    text = one_line(as_text(name))
    return text if sys.getfilesystemencoding() == "utf-8" else text.encode("ascii", "backslashreplace").decode()

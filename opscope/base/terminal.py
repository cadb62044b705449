"""The doors to the terminal: output that commands write, consoles of rich, and pytest's own writer.

`visible_output` is around every command: what it writes to stdout and stderr is shown by `visible_text.visible`. What
styles its output itself takes a `console()`, which writes past that and does the same with each piece of text.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.live.status_line import make_room
from opscope.base.visible_text import VisibleStream, visible, visible_but_style

if TYPE_CHECKING:
    from rich.console import Console


WIDEST = 160
"""Width of a page in columns if stdout is not a terminal (a file, a pipe) and COLUMNS does not say another."""

PLAIN = "OPSCOPE_PLAIN"
"""A variable of the environment: if it is set, and not to 0, no table, line or bar is drawn, for screen readers."""


def plain() -> bool:
    """Whether output is meant to be heard or goes to a terminal that draws nothing: rows are lists, without lines."""
    return os.environ.get(PLAIN, "0") not in ("", "0") or os.environ.get("TERM") == "dumb"


def wrapped(text: str, room: int) -> list[str]:
    """`text` in lines of at most `room` columns, broken between words; a word wider than that has a line of its own."""
    from rich.cells import cell_len

    lines: list[str] = []
    for word in text.split(" "):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def for_reader(text: str) -> list[str]:
    """`text` in lines of the reader's terminal; in one line where nobody says how wide that is, as in a log."""
    columns = shutil.get_terminal_size((0, 0)).columns
    return wrapped(text, columns) if columns else [text]


def print_prose(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """Prints a sentence that wraps at words, each line with the indent of the first."""
    from rich.text import Text

    for line in wrapped(text, max(1, console.width - indent)):
        console.print(Text(" " * indent + line, style=style), soft_wrap=True)


class _AnnouncedStream:
    """A stream of text that has a status line leave the terminal before it writes; all else is that of `stream`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes a text."""
        make_room(text, _on_terminal(self._stream))
        return self._stream.write(text)


class _CommandStream(VisibleStream):
    """A `VisibleStream` that has a status line leave the terminal before it writes."""

    def write(self, text: str) -> int:
        """Writes a text."""
        make_room(text, _on_terminal(self.stream))
        return super().write(text)


def _on_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


@contextmanager
def visible_output() -> Iterator[None]:
    """Escapes, while it is open, what is written to stdout and stderr."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (  # type: ignore[assignment]
        stream if stream is None or isinstance(stream, VisibleStream) else _CommandStream(stream) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def console(*, file: Any = None, **options: Any) -> Console:
    """A console of rich that escapes the text in what it prints; nothing in a text is markup or an emoji."""
    from rich.console import Console
    from rich.segment import Segment

    class VisibleConsole(Console):
        """Escapes each piece of text when it is drawn, whatever table or grid it stands in."""

        def render(self, renderable: Any, options: Any = None) -> Any:
            """Yields the pieces that `renderable` consists of."""
            for piece in super().render(renderable, options):
                text = piece.text if piece.control else visible(piece.text)
                yield piece if text is piece.text else Segment(text, piece.style)

    target = sys.stdout if file is None else file
    target = target.stream if isinstance(target, VisibleStream) else target
    _escape_what_has_no_code(target)
    announced: Any = _AnnouncedStream(target)
    return VisibleConsole(file=announced, **{"highlight": False, "emoji": False, "markup": False, **options})


def page_console() -> Console:
    """The console of a page on stdout, as wide as terminal or COLUMNS say; a pipe without it has WIDEST columns."""
    page = console()
    if not knows_its_width(page):
        page.width = max(page.width, WIDEST)
    return page


def knows_its_width(page: Console) -> bool:
    """Whether a reader decided how wide the output is; otherwise sentences stay in one line each."""
    return bool(page.is_terminal or os.environ.get("COLUMNS"))


def _escape_what_has_no_code(stream: Any) -> None:
    """Escapes the characters that the stream's encoding lacks (in an ASCII locale), which raise otherwise."""
    if getattr(stream, "errors", None) in ("strict", "surrogateescape") and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")


class LastingStream:
    """A stream of text on which no write fails: once nobody takes what is written (a pipe whose reader has left, a full
    disk), `lost` says why, and what follows goes nowhere. All else is that of `stream`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.lost = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes a text."""
        with self._lasting():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Writes what has not been written yet."""
        with self._lasting():
            self._stream.flush()

    @contextmanager
    def _lasting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.lost = error.strerror or str(error)
            with Path(os.devnull).open("wb") as nowhere:  # also for what Python writes when the process ends
                os.dup2(nowhere.fileno(), self._stream.fileno())


def guard_pytest(writer: Any) -> LastingStream:
    """Escapes what is written by pytest's terminal writer, apart from its colours; returns the stream that it writes to
    from now on. A second call changes nothing."""
    if isinstance(writer._file, LastingStream):
        return writer._file
    write = writer.write
    _escape_what_has_no_code(writer._file)
    writer._file = LastingStream(writer._file)

    def visible_write(text: str, **options: Any) -> None:
        # A line that pytest draws again begins with a carriage return.
        again = "\r" if text.startswith("\r") else ""
        make_room(text)
        write(again + visible_but_style(text[len(again) :]), **options)

    writer.write = visible_write
    return writer._file

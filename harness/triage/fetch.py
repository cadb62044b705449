"""Fetches the repro folder of an op from an artifact server (`opscope artifacts serve`) of any machine."""

from __future__ import annotations

import http.client
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from opscope.base.visible_text import counted, cut
from opscope.harness.record.artifacts import REPRO
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import ARTIFACT_DIR
from opscope.harness.triage import bundle

SECONDS = 30.0
"""How long the server may take for one answer."""
FILES, BYTES = 500, 4 << 30
"""Most files and bytes that one folder may have."""
RUNS = 50
"""How many runs of the server are asked for the op, the youngest first."""
CHUNK = 1 << 20
NAME = re.compile(r"(?!\.)[\w.+-]{1,200}")
"""Names of files that are written: a server is a stranger, and no name of it leads out of the folder."""
PROGRAMS = frozenset({"run.sh"})


def is_server(text: str) -> bool:
    """Whether `--from` names a server."""
    return urlsplit(text).scheme in ("http", "https")


def fetch(server: str, op_id: str, run_id: str, out: Path, where: str) -> Path:
    """Writes the repro folder of an op to `out`; returns `out`. An empty `run_id`: its youngest run there that has one.

    Raises InputError: the server does not answer, has no such folder, or sends something else. `where` is the command.
    """
    server = server.rstrip("/")
    candidate = _find(server, op_id, run_id, where)
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        _folder(candidate, part, where, [FILES, BYTES])
        bundle.read(part)
        for name in PROGRAMS & {path.name for path in part.iterdir()}:
            (part / name).chmod(0o755)
        shutil.rmtree(out, ignore_errors=True)
        part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return out


def _find(server: str, op_id: str, run_id: str, where: str) -> str:
    """The address of the repro folder."""
    runs = [run_id] if run_id else [name.rstrip("/") for name in _names(f"{server}/", where)][:RUNS]
    for run in runs:
        place = f"{server}/{quote(run)}/{ARTIFACT_DIR}/{quote(op_id)}/"
        for name in _names(place, where, absent=True):
            if name.startswith(REPRO) and name.endswith("/"):
                return place + quote(name)
    wanted = f"a repro folder of {op_id}" + (f" in run {run_id}" if run_id else "")
    runs_there = f"none in {counted(len(runs), 'run')}" if not run_id else "none"
    raise InputError(
        where, f"{wanted} at {server}", runs_there, "opscope repro ID on the machine that has the run folder"
    )


def _folder(address: str, to: Path, where: str, left: list[int]) -> None:
    """Writes what is at `address`, a folder, to `to`. `left`: files and bytes that may still come."""
    for name in _names(address, where):
        plain = name.rstrip("/")
        left[0] -= 1
        if not NAME.fullmatch(plain) or left[0] < 0:
            got = f"{cut(plain, 60)!r}" if left[0] >= 0 else f"more than {FILES} files"
            raise InputError(where, f"files of a repro folder at {address}", got, "another server")
        if name.endswith("/"):
            (to / plain).mkdir()
            _folder(address + quote(name), to / plain, where, left)
            continue
        with _open(address + quote(name), where) as answer, (to / plain).open("wb") as file:
            while chunk := answer.read(CHUNK):
                left[1] -= len(chunk)
                if left[1] < 0:
                    raise InputError(where, f"at most {BYTES >> 30} GiB at {address}", "more", "another server")
                file.write(chunk)
        expected = answer.headers.get("Content-Length")
        if expected is not None and int(expected) != (to / plain).stat().st_size:
            raise InputError(where, f"{expected} bytes of {name}", f"{(to / plain).stat().st_size}", "again")


class _Links(HTMLParser):
    """The addresses of the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hrefs += [value for name, value in attrs if (tag, name) == ("a", "href") and value]


def _names(address: str, where: str, absent: bool = False) -> Iterator[str]:
    """The names in a folder of the server; none if it is not there and may be absent."""
    try:
        with _open(address, where) as answer:
            page = answer.read(CHUNK).decode("utf-8", "replace")
    except _AbsentError:
        if absent:
            return
        raise
    links = _Links()
    links.feed(page)
    yield from map(unquote, links.hrefs)


class _AbsentError(InputError):
    """The server has no such file."""


def _open(address: str, where: str) -> http.client.HTTPResponse:
    try:
        return urllib.request.urlopen(address, timeout=SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        kind = _AbsentError if error.code == 404 else InputError
        raise kind(
            where,
            f"an artifact server at {address}",
            f"{error.code} {error.reason}",
            "the address that opscope artifacts serve prints",
        ) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        got = str(getattr(error, "reason", "") or error)
        raise InputError(
            where, f"an artifact server at {address}", got, "opscope artifacts serve on the machine that has the run"
        ) from None

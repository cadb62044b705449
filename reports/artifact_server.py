"""Serves run folders read-only under stable addresses: `/<run id>/<path in the run folder>`.

Only GET and HEAD are answered. A run is found by the id in its run.json, whatever its folder is called. A request
cannot leave the run folder, neither by `..` nor by a link. Text of every kind, HTML too, is sent as text/plain and
never executed; only report.html is sent as a page, in a sandbox of its own.
"""

from __future__ import annotations

import html
import json
import os
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, unquote, urlsplit

from opscope.base.file_names import as_text
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import RUN_FILE

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
REPORT = "report.html"
SANDBOX = (
    "sandbox allow-scripts allow-top-navigation-by-user-activation; default-src 'none'; "
    "script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:; font-src data:"
)
"""What report.html may do: run its own inline scripts, reach nobody, read nothing of this server."""
CHUNK = 1 << 16


class Runs:
    """The run folders below some folders, by their ids. An unknown id makes it search the folders again."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self.roots = tuple(root.resolve() for root in roots)
        self._found: dict[str, Path] = {}
        self._lock = threading.Lock()

    def folder(self, run_id: str) -> Path | None:
        """The folder of a run."""
        with self._lock:
            path = self._found.get(run_id)
            if path is None or _run_id(path) != run_id:
                self._found = dict(self._look())
            return self._found.get(run_id)

    def all(self) -> list[tuple[str, Path]]:
        """Every run, the youngest id first."""
        with self._lock:
            self._found = dict(self._look())
            return sorted(self._found.items(), reverse=True)

    def _look(self) -> Iterator[tuple[str, Path]]:
        """Yields every run. A root is a run folder, holds run folders, or holds folders of them (runs of a night)."""
        for root in self.roots:
            for pattern in (RUN_FILE, f"*/{RUN_FILE}", f"*/*/{RUN_FILE}"):
                for path in root.glob(pattern):
                    run_id = _run_id(path.parent)
                    if run_id:
                        yield run_id, path.parent


def _run_id(folder: Path) -> str:
    try:
        return str(json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))["run_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: ArtifactServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "opscope", ""
    timeout = 30
    disable_nagle_algorithm = True  # else the body waits 40 ms until the client acknowledges the headers

    def do_GET(self) -> None:
        """Sends the file, or a list of what the folder holds."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Sends the headers of the same answer."""
        self._answer(body=False)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: a server that runs for months would fill the disk with its log."""

    def _answer(self, body: bool) -> None:
        if not self.server.knows(self.headers.get("Host", "")):
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this server is not reached by that name")
        try:
            parts = [unquote(part, errors="surrogateescape") for part in urlsplit(self.path).path.split("/")]
        except ValueError:
            return self._refuse(HTTPStatus.BAD_REQUEST, "no path")
        if any("\0" in part or "/" in part or part in (".", "..") for part in parts):
            return self._refuse(HTTPStatus.BAD_REQUEST, "no path")
        if parts == ["", "healthy"]:
            return self._send(b"ok\n", "text/plain; charset=utf-8", body)
        if parts == ["", ""]:
            return self._list("runs", [(f"{run}/", run) for run, _ in self.server.runs.all()], body)
        folder = self.server.runs.folder(parts[1]) if len(parts) > 1 else None
        if folder is None:
            return self._refuse(HTTPStatus.NOT_FOUND, "no such run here")
        path = inside(folder, [part for part in parts[2:] if part])
        if path is None:
            return self._refuse(HTTPStatus.NOT_FOUND, "no such file in this run")
        if not path.is_dir():
            return self._file(path, path == folder.resolve() / REPORT, body)
        if parts[-1]:
            return self._move(f"{quote(os.fsencode('/'.join(parts)))}/")
        rows = [
            (quote(os.fsencode(p.name)) + "/" * p.is_dir(), as_text(p.name) + "/" * p.is_dir())
            for p in sorted(path.iterdir())
        ]
        return self._list(as_text("/".join(parts[1:])), rows, body)

    def _file(self, path: Path, page: bool, body: bool) -> None:
        try:
            file = path.open("rb")
        except OSError:
            return self._refuse(HTTPStatus.NOT_FOUND, "no such file in this run")
        with file:
            head = file.read(CHUNK)
            kind = "text/html; charset=utf-8" if page else content_type(head)
            more = {"Content-Security-Policy": SANDBOX if page else "sandbox; default-src 'none'"}
            if kind == "application/octet-stream":
                more["Content-Disposition"] = "attachment"
            self._head(HTTPStatus.OK, kind, os.fstat(file.fileno()).st_size, more)
            if body:
                self._copy(head, file, os.fstat(file.fileno()).st_size)
        return None

    def _copy(self, head: bytes, file: BinaryIO, size: int) -> None:
        """Sends exactly as many bytes as the header promised, because a log may grow meanwhile."""
        left = size
        while head and left > 0:
            self.wfile.write(head[:left])
            left -= len(head)
            head = file.read(CHUNK)
        if left > 0:
            self.close_connection = True

    def _list(self, title: str, rows: Sequence[tuple[str, str]], body: bool) -> None:
        lines = "".join(f'<li><a href="{html.escape(link)}">{html.escape(name)}</a></li>\n' for link, name in rows)
        page = f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title><ul>\n{lines}</ul>\n"
        self._send(page.encode(), "text/html; charset=utf-8", body)

    def _move(self, place: str) -> None:
        self._head(HTTPStatus.MOVED_PERMANENTLY, "text/plain; charset=utf-8", 0, {"Location": place})

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        text = f"{status.value} {status.phrase}: {why}\n".encode()
        self._head(status, "text/plain; charset=utf-8", len(text), {})
        if self.command != "HEAD":
            self.wfile.write(text)

    def _send(self, content: bytes, kind: str, body: bool) -> None:
        self._head(HTTPStatus.OK, kind, len(content), {"Content-Security-Policy": "default-src 'none'"})
        if body:
            self.wfile.write(content)

    def _head(self, status: HTTPStatus, kind: str, length: int, more: dict[str, str]) -> None:
        self.send_response(status)
        fixed = {
            "Content-Type": kind,
            "Content-Length": str(length),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
            "X-Frame-Options": "DENY",
        }
        for name, value in (fixed | more).items():
            self.send_header(name, value)
        self.end_headers()


class ArtifactServer(ThreadingHTTPServer):
    """The HTTP server; `allowed` are host names of this machine besides those of the loopback."""

    daemon_threads = True
    request_queue_size = 128
    """A page asks for many files at once; of more connections than this the kernel lets one wait for a second."""

    def __init__(self, host: str, port: int, runs: Runs, allowed: Iterable[str] = ()) -> None:
        self.runs = runs
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.allowed = None if host in ("0.0.0.0", "::") else LOOPBACK | {host} | set(allowed)
        try:
            super().__init__((host, port), Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            where = "opscope artifacts serve"
            raise InputError(where, f"a free port on {host}", f"{port}: {reason}", "--port 0") from error

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Shows a fault of this server; a client that leaves, or stops to read, is none."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def knows(self, host: str) -> bool:
        """Whether a request's Host names this server; without this a web page could read it through its own name."""
        return self.allowed is None or (urlsplit(f"//{host}").hostname or "") in self.allowed


def inside(folder: Path, parts: Sequence[str]) -> Path | None:
    """The file or folder that `parts` name below `folder`; None if there is none or it lies outside of `folder`."""
    home = folder.resolve()
    try:
        path = home.joinpath(*parts).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
    regular = path.is_file() or path.is_dir()
    return path if regular and path.is_relative_to(home) else None


def content_type(head: bytes) -> str:
    """The content type of a file that begins with `head`: plain text for any text, else one that browsers save."""
    try:
        head.decode("utf-8")
        text = b"\0" not in head
    except UnicodeDecodeError as error:
        text = error.start >= len(head) - 3 and b"\0" not in head  # a character that the cut went through
    return "text/plain; charset=utf-8" if text else "application/octet-stream"

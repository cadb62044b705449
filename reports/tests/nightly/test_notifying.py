"""Messages of a night, to real receivers on this machine: what arrives, and that a bad receiver is one line in time."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from opscope.reports.nightly.notices import Email, Notices, Webhook, read_notices
from opscope.reports.nightly.notifying import Message, filled, notify

MESSAGE = Message(
    "2 worse",
    "# 2 worse\n\n| a | b |",
    "2 worse\nhttps://ci/1",
    "nightly",
    "nightly-1",
    "2026-11-20 02:00",
    "failed",
    "https://ci/1",
)


class Receiver(ThreadingHTTPServer):
    """A web server that keeps what it is sent and answers as the path says."""

    daemon_threads = True
    posts: list[tuple[str, dict[str, str], Any]]


class Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append((self.path, dict(self.headers), json.loads(body)))
        if self.path == "/slow":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n")
            for _ in range(50):
                try:
                    self.wfile.write(b".")  # a byte now and then: no single wait is ever too long
                    time.sleep(0.05)
                except OSError:
                    return
            return
        self.send_response({"/no": 500, "/away": 302}.get(self.path, 200))
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver(("127.0.0.1", 0), Answer)
    server.posts = []
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def hook(receiver: Receiver, path: str, **more: Any) -> Notices:
    return Notices("always", Webhook(f"http://127.0.0.1:{receiver.server_port}{path}", None, **more))


def test_a_template_is_filled_and_sent(receiver: Receiver) -> None:
    template = {"blocks": [{"text": "{status}: {title} {unknown} {"}, 3, None], "{title}": "{url}"}
    notices = hook(receiver, "/in", template=template, token_env="TOKEN")
    assert notify(notices, MESSAGE, False, {"TOKEN": "hush"}) == []
    ((path, headers, body),) = receiver.posts
    assert path == "/in"
    assert (headers["Authorization"], headers["Content-Type"]) == ("Bearer hush", "application/json")
    assert body == {"blocks": [{"text": "failed: 2 worse {unknown} {"}, 3, None], "{title}": "https://ci/1"}


def test_words_of_the_message_are_no_template() -> None:
    message = Message(**{**vars(MESSAGE), "title": "{summary} {0} %s"})
    assert filled(["{title}"], message) == ["{summary} {0} %s"]


def test_on_change_no_notice_is_sent_of_an_unchanged_night(receiver: Receiver) -> None:
    settings = {"when": "change", "webhook": {"url": f"http://127.0.0.1:{receiver.server_port}/in"}}
    notices = read_notices("notify", settings)
    assert notify(notices, MESSAGE, False) == []
    assert receiver.posts == []
    assert notify(notices, MESSAGE, True) == []
    assert receiver.posts[0][2] == {"text": "2 worse\n\n# 2 worse\n\n| a | b |"}
    assert notify(None, MESSAGE, True) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/no", "webhook: expected it to take the summary, got HTTP 500; try notify.webhook"),
        ("/away", "got HTTP 302"),
        ("/slow", "got no answer in 1 s"),
    ],
)
def test_a_broken_receiver_is_reported_in_one_line(receiver: Receiver, path: str, expected: str) -> None:
    begun = time.monotonic()
    (line,) = notify(hook(receiver, path, timeout=0.2), MESSAGE, True)
    assert expected in line
    assert time.monotonic() - begun < 30
    assert [post[0] for post in receiver.posts] == [path]


def test_dead_receivers_and_missing_secrets_are_one_line_each() -> None:
    port = free_port()
    dead = Notices(
        "always",
        Webhook(f"http://127.0.0.1:{port}/?token=hush", None, timeout=0.5),
        Email("127.0.0.1", port, "a@example.org", ("b@example.org",), "none", timeout=0.5),
    )
    lines = notify(dead, MESSAGE, True)
    assert [line.partition(":")[0] for line in lines] == ["webhook", "email"]
    assert all("refused" in line for line in lines)
    assert "hush" not in "".join(lines)
    (line,) = notify(Notices("always", Webhook(None, "CHAT")), MESSAGE, True, {})
    assert "no $CHAT" in line


def test_a_mail_arrives_as_it_was_written() -> None:
    controllers = pytest.importorskip("aiosmtpd.controller", reason="pip install aiosmtpd")
    from email import message_from_bytes, policy

    got: list[Any] = []

    class Handler:
        async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
            got.append((envelope.mail_from, envelope.rcpt_tos, session.authenticated, envelope.content))
            return "250 OK"

    def authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
        from aiosmtpd.smtp import AuthResult

        right = (data.login, data.password) == (b"night", b"hush")
        return AuthResult(success=right, handled=right)

    port = free_port()
    controller = controllers.Controller(
        Handler(), "127.0.0.1", port, authenticator=authenticate, auth_require_tls=False, ready_timeout=60
    )
    controller.start()
    try:
        mail = Email("127.0.0.1", port, "a@example.org", ("b@example.org", "c@example.org"), "none", "WHO", "WORD", 2.0)
        assert notify(Notices("always", None, mail), MESSAGE, True, {"WHO": "night", "WORD": "hush"}) == []
        (line,) = notify(Notices("always", None, mail), MESSAGE, True, {"WHO": "night", "WORD": "wrong"})
        assert line.startswith("email: expected it to take the summary, got 535 ")
        # A server without TLS gets neither password nor mail where TLS is asked for.
        strict = Email("127.0.0.1", port, "a@example.org", ("b@example.org",), "starttls", "WHO", "WORD", 2.0)
        assert len(notify(Notices("always", None, strict), MESSAGE, True, {"WHO": "night", "WORD": "hush"})) == 1
    finally:
        controller.stop()
    ((sender, to, authenticated, content),) = got
    assert (sender, to, authenticated) == ("a@example.org", ["b@example.org", "c@example.org"], True)
    mail = message_from_bytes(content, policy=policy.default)
    assert mail["Subject"] == "2 worse"
    assert mail.get_content().replace("\r\n", "\n").strip() == MESSAGE.summary

"""Messages over TLS, to real servers with a certificate of their own: sent where that is trusted, nowhere else."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opscope.reports.nightly.notices import Email, Notices, Webhook
from opscope.reports.nightly.notifying import notify
from opscope.reports.tests.nightly.test_notifying import MESSAGE, Answer, Receiver, free_port

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="apt-get install openssl")

SECRETS = {"WHO": "night", "WORD": "hush"}

Start = Callable[[str], tuple[int, list[Any], list[Any]]]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that only itself vouches for, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "certificate.pem", folder / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=mail -addext"
    command = [str(OPENSSL), *words.split(), "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


def ciphered(server: Any) -> bool:
    return server.transport.get_extra_info("cipher") is not None


@pytest.fixture
def start(certificate: tuple[Path, Path]) -> Iterator[Start]:
    """Starts a mail server that speaks TLS in one of the two ways; its port, the mails and the logins that it took."""
    controllers = pytest.importorskip("aiosmtpd.controller", reason="pip install aiosmtpd")
    running = []

    def started(tls: str) -> tuple[int, list[Any], list[Any]]:
        from aiosmtpd.smtp import AuthResult

        mails: list[Any] = []
        logins: list[Any] = []

        class Handler:
            async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
                mails.append((ciphered(server), session.authenticated, envelope.rcpt_tos))
                return "250 OK"

        def authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
            logins.append((ciphered(server), data.login, data.password))
            return AuthResult(success=True)

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        port = free_port()
        how = {"ssl_context": context} if tls == "implicit" else {"tls_context": context, "require_starttls": True}
        controller = controllers.Controller(
            Handler(), "127.0.0.1", port, authenticator=authenticate, auth_require_tls=False, ready_timeout=60, **how
        )
        controller.start()
        running.append(controller)
        return port, mails, logins

    yield started
    for controller in running:
        controller.stop()


@pytest.mark.parametrize("tls", ["starttls", "implicit"])
def test_a_trusted_server_gets_the_mail_and_any_other_neither_mail_nor_password(
    start: Start, certificate: tuple[Path, Path], tls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, mails, logins = start(tls)

    def sent(host: str) -> list[str]:
        mail = Email(host, port, "a@example.org", ("b@example.org",), tls, "WHO", "WORD", timeout=5.0)
        return notify(Notices("always", None, mail), MESSAGE, True, SECRETS)

    (line,) = sent("127.0.0.1")  # nobody vouches for it
    assert line.startswith("email: expected it to take the summary, got a certificate that is not trusted (self")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    (line,) = sent("localhost")  # its certificate is another host's
    assert "certificate is not valid for 'localhost'" in line
    assert (mails, logins) == ([], [])
    assert sent("127.0.0.1") == []
    assert mails == [(True, True, ["b@example.org"])]
    assert logins == [(True, b"night", b"hush")]


def test_a_webhook_is_trusted_in_the_same_way(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    server = Receiver(("127.0.0.1", 0), Answer)
    server.posts = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    webhook = Webhook(f"https://127.0.0.1:{server.server_port}/?token=hush", None, {"text": "{title}"}, timeout=5.0)
    notices = Notices("always", webhook)
    try:
        (line,) = notify(notices, MESSAGE, True)
        assert line.startswith("webhook: expected it to take the summary, got a certificate that is not trusted (self")
        assert "hush" not in line
        assert server.posts == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert notify(notices, MESSAGE, True) == []
        assert [body for _, _, body in server.posts] == [{"text": "2 worse"}]
    finally:
        server.shutdown()
        server.server_close()

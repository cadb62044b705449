"""Sends the summary of a night. A receiver that is dead or slow, or that refuses, costs the night only a line."""

from __future__ import annotations

import json
import os
import smtplib
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any

from opscope.harness.record.signature import shorten
from opscope.reports.nightly.notices import Email, Notices, Webhook

ALL = 3.0
"""Total time of a receiver, in multiples of its timeout, which also ends one that answers a byte now and then."""


@dataclass(frozen=True)
class Message:
    """A message. Its fields are the words that a template may have in braces."""

    title: str
    summary: str
    """Markdown."""
    short: str
    """Title and problems in plain text, for a system that takes 2,000 characters."""
    name: str
    night: str
    """Id of the night."""
    date: str
    status: str
    """`passed` or `failed`."""
    url: str
    """Page of the CI job; empty elsewhere."""


def notify(
    notices: Notices | None, message: Message, changed: bool, environment: Mapping[str, str] = os.environ
) -> list[str]:
    """Sends the message; returns one line for each receiver that it could not reach."""
    if notices is None or (notices.when == "change" and not changed):
        return []
    problems: list[str] = []
    if notices.webhook is not None:
        webhook = notices.webhook
        problems += _bounded("webhook", webhook.timeout, lambda: _post(webhook, message, environment))
    if notices.email is not None:
        email = notices.email
        problems += _bounded("email", email.timeout, lambda: _mail(email, message, environment))
    return problems


def _bounded(receiver: str, timeout: float, send: Callable[[], None]) -> list[str]:
    """Sends in a thread, which is abandoned if it does not end in time."""
    problems: list[str] = []

    def run() -> None:
        try:
            send()
        except Exception as error:  # noqa: BLE001 - no receiver is worth a night
            problems.append(
                f"{receiver}: expected it to take the summary, got {_error_line(error)}; try notify.{receiver}"
            )

    thread = threading.Thread(target=run, name=f"notify-{receiver}", daemon=True)
    thread.start()
    thread.join(ALL * timeout)
    if thread.is_alive():
        problem = f"expected it to take the summary, got no answer in {ALL * timeout:.0f} s"
        return [f"{receiver}: {problem}; try notify.{receiver}"]
    return problems


def _error_line(error: Exception) -> str:
    """The error in one line, without the address, which may be a secret."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    if isinstance(error, smtplib.SMTPResponseException):
        message = (
            error.smtp_error.decode("utf-8", "replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
        )
        return shorten(f"{error.smtp_code} {message}", 200)
    reason = getattr(error, "reason", None) or error
    failed = error if isinstance(error, ssl.SSLError) else reason  # whose own `reason` is a code
    if isinstance(failed, ssl.SSLCertVerificationError):
        return f"a certificate that is not trusted ({failed.verify_message})"
    return shorten(str(reason), 200) or type(error).__name__


def secret(variable: str, environment: Mapping[str, str]) -> str:
    """The value of an environment variable. Raises KeyError with its name if it is not set."""
    value = environment.get(variable)
    if not value:
        raise KeyError(f"no ${variable}")
    return value


# --- the two ways


def filled(template: Any, message: Message) -> Any:
    """The template with `{title}` and the other fields of the message filled in; anything else in braces stays."""
    if isinstance(template, dict):
        return {str(key): filled(value, message) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(value, message) for value in template]
    if not isinstance(template, str):
        return template
    words = vars(message)
    parts = template.split("{")
    filled_parts = [parts[0]]
    for part in parts[1:]:
        word, brace, rest = part.partition("}")
        filled_parts.append(f"{words[word]}{rest}" if brace and word in words else "{" + part)
    return "".join(filled_parts)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirections, which would send the token to another server."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        """Does not follow it, so that the answer becomes an error."""


def _post(webhook: Webhook, message: Message, environment: Mapping[str, str]) -> None:
    url = webhook.url if webhook.url is not None else secret(str(webhook.url_env), environment)
    headers = {"Content-Type": "application/json", "User-Agent": "opscope"}
    if webhook.token_env is not None:
        headers["Authorization"] = f"Bearer {secret(webhook.token_env, environment)}"
    body = json.dumps(filled(webhook.template, message)).encode()
    if not url.startswith(("http://", "https://")):
        raise ValueError("an address that is neither http nor https")
    request = urllib.request.Request(url, body, headers, method="POST")
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=webhook.timeout) as answer:
        answer.read(65536)


def _mail(email: Email, message: Message, environment: Mapping[str, str]) -> None:
    mail = EmailMessage()
    mail["Subject"] = " ".join(message.title.split())
    mail["From"] = email.sender
    mail["To"] = ", ".join(email.to)
    mail.set_content(message.summary)
    context = ssl.create_default_context()
    if email.tls == "implicit":
        server: smtplib.SMTP = smtplib.SMTP_SSL(email.host, email.port, timeout=email.timeout, context=context)
    else:
        server = smtplib.SMTP(email.host, email.port, timeout=email.timeout)
    with server:
        if email.tls == "starttls":
            server.starttls(context=context)
        if email.user_env is not None:
            password = secret(email.password_env, environment) if email.password_env is not None else ""
            server.login(secret(email.user_env, environment), password)
        server.send_message(mail)

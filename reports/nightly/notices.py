"""`notify:` in the configuration of a night: who gets a message, when, and its template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opscope.harness.record.errors import InputError
from opscope.reports.nightly.fields import mapping, number, one_of, text, texts, whole_number

WHEN = ("always", "change")
TLS = ("starttls", "implicit", "none")
TIMEOUT = 10.0
"""Timeout in seconds of each step (connecting, answering)."""

TEMPLATE: Mapping[str, Any] = {"text": "{title}\n\n{summary}"}
"""Template that most chat systems accept. Words in braces are replaced (notifying.py lists them), others stay."""


@dataclass(frozen=True)
class Webhook:
    """An address that takes JSON by POST."""

    url: str | None
    url_env: str | None
    """Variable with the address, which is a secret with most chat systems."""
    template: Any = None
    token_env: str | None = None
    """Variable with a token for `Authorization: Bearer`."""
    timeout: float = TIMEOUT


@dataclass(frozen=True)
class Email:
    """A mail server and whom to write to."""

    host: str
    port: int
    sender: str
    to: tuple[str, ...]
    tls: str = "starttls"
    user_env: str | None = None
    password_env: str | None = None
    timeout: float = TIMEOUT


@dataclass(frozen=True)
class Notices:
    """Who gets a message about a night, and when."""

    when: str = "change"
    """`always`, or `change`: something is new, fixed, gone or fails the night."""
    webhook: Webhook | None = None
    email: Email | None = None


def read_notices(where: str, value: Any) -> Notices:
    """The value of `notify`. Raises InputError with the place of what is wrong."""
    fields = mapping(where, value, ("when", "webhook", "email"))
    return Notices(
        one_of(f"{where}.when", fields.get("when", "change"), WHEN),
        _webhook(f"{where}.webhook", fields["webhook"]) if "webhook" in fields else None,
        _email(f"{where}.email", fields["email"]) if "email" in fields else None,
    )


def _webhook(where: str, value: Any) -> Webhook:
    fields = mapping(where, value, ("url", "url_env", "template", "token_env", "timeout"))
    key = "url" if "url" in fields else "url_env"
    address = text(f"{where}.{key}", fields.get(key))
    if key == "url" and not address.startswith(("http://", "https://")):
        raise InputError(f"{where}.url", "an address of http or https", f"`{address}`", "url_env: CHAT_WEBHOOK")
    return Webhook(
        url=address if key == "url" else None,
        url_env=address if key == "url_env" else None,
        template=fields.get("template", TEMPLATE),
        token_env=_text_or_none(where, fields, "token_env"),
        timeout=number(f"{where}.timeout", fields.get("timeout", TIMEOUT)),
    )


def _email(where: str, value: Any) -> Email:
    keys = ("host", "port", "from", "to", "tls", "user_env", "password_env", "timeout")
    fields = mapping(where, value, keys)
    tls = one_of(f"{where}.tls", fields.get("tls", "starttls"), TLS)
    return Email(
        host=text(f"{where}.host", fields.get("host")),
        port=whole_number(f"{where}.port", fields.get("port", {"starttls": 587, "implicit": 465, "none": 25}[tls])),
        sender=text(f"{where}.from", fields.get("from")),
        to=texts(f"{where}.to", fields.get("to")),
        tls=tls,
        user_env=_text_or_none(where, fields, "user_env"),
        password_env=_text_or_none(where, fields, "password_env"),
        timeout=number(f"{where}.timeout", fields.get("timeout", TIMEOUT)),
    )


def _text_or_none(where: str, fields: Mapping[str, Any], key: str) -> str | None:
    return text(f"{where}.{key}", fields[key]) if key in fields else None

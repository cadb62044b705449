"""Guest tokens: with one a page of yours shows a dashboard in a frame to somebody without an account (embedding.md).

The token is a JSON Web Token as Superset checks it, signed with a key that follows from the server's own.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from opscope.dashboards.asset_files import Assets
from opscope.dashboards.bundle import embedded_uuid
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import Home

AUDIENCE = "opscope"
OWNED = """
SELECT t.uuid, t.id FROM tables t JOIN table_columns c ON c.table_id = t.id WHERE c.column_name = 'owner'"""
"""The datasets in Superset's own database whose rows have owners."""


@dataclass(frozen=True)
class Guest:
    """What a page needs to show one dashboard."""

    frame: str
    """The address of the frame. It says whose rows they are, for the page to name them; the token decides it."""
    token: str
    expires: int
    """Seconds since 1970."""


def guest(home: Home, assets: Assets, slug: str, team: str, minutes: float) -> Guest:
    """A token for one dashboard, for some minutes. `team`: whose rows alone lists show; empty for all.

    Raises DashboardError if the server lets nobody embed, or for a dashboard that is not there.
    """
    served = home.served()
    if served is None or not served.embed:
        hint = "opscope dashboard up --embed URL"
        raise DashboardError("opscope dashboard guest-token", "a server that pages may embed", "none", hint)
    page = next((each for each in assets.dashboards.values() if each.slug == slug), None)
    if page is None:
        raise DashboardError("DASHBOARD", "the slug of a dashboard", repr(slug), ", ".join(assets.slugs))
    now = int(time.time())
    uuid, expires = embedded_uuid(page.uuid), now + int(60 * minutes)
    claims = {
        "user": {"username": "guest", "first_name": "Guest", "last_name": ""},
        "resources": [{"type": "dashboard", "id": uuid}],
        "rls_rules": _rules(home, team) if team else [],
        "iat": now,
        "exp": expires,
        "aud": AUDIENCE,
        "type": "guest",
    }
    address = f"{served.url}/embedded/{uuid}?" + urlencode({"uiConfig": 1} | ({"team": team} if team else {}))
    return Guest(address, _signed(claims, key(home)), expires)


def key(home: Home) -> str:
    """The key that tokens are signed with; superset_config.py computes it from the same file."""
    return hashlib.sha256(b"guests" + (home.folder / "secret_key").read_bytes()).hexdigest()


def _rules(home: Home, team: str) -> list[dict[str, Any]]:
    """A condition for each dataset with owners: one for all of them would fail where there are none."""
    with closing(sqlite3.connect(f"{home.metadata.as_uri()}?mode=ro", uri=True)) as connection:
        numbers = [number for _, number in connection.execute(OWNED)]
    clause = "owner = '" + team.replace("'", "''") + "'"
    return [{"dataset": number, "clause": clause} for number in numbers]


def _signed(claims: dict[str, Any], secret: str) -> str:
    parts = [_base64(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims)]
    text = ".".join(parts)
    return f"{text}.{_base64(hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest())}"


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()

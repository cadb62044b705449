"""Tokens of guests, and whom teams and frames are refused to, without a server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from opscope.dashboards import guests
from opscope.dashboards.cli import dashboard
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import Home, Served
from opscope.dashboards.results import results_uri
from opscope.dashboards.tests.assets import ASSETS
from opscope.reports.database.database import open_database
from opscope.reports.database.owners import Rule, store_owners

SERVED = Served("sqlite:///x", "x", "127.0.0.1", 1, "", "", False, embed=["https://team.example.org"])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A server's home whose datasets 3 and 7 have owners."""
    one = Home(tmp_path, tmp_path)
    one.secret("secret_key", 42)
    one.remember(SERVED)
    with closing(sqlite3.connect(one.metadata)) as connection, connection:
        connection.execute("CREATE TABLE tables (id, uuid)")
        connection.execute("CREATE TABLE table_columns (table_id, column_name)")
        connection.executemany("INSERT INTO tables VALUES (?, ?)", [(3, "a"), (5, "b"), (7, "c")])
        connection.executemany(
            "INSERT INTO table_columns VALUES (?, ?)", [(3, "owner"), (3, "op"), (5, "op"), (7, "owner")]
        )
    return one


def claims(token: str, home: Home) -> Any:
    """What a token says, once its signature is checked as the standard says."""
    text, _, signature = token.rpartition(".")
    expected = hmac.new(guests.key(home).encode(), text.encode(), hashlib.sha256).digest()
    assert base64.urlsafe_b64decode(signature + "=") == expected
    body = text.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


def test_a_token_opens_one_dashboard_and_the_rows_of_one_team(home: Home) -> None:
    made = guests.guest(home, ASSETS, "opscope-tonight", "o'hara", 2)
    said = claims(made.token, home)
    [resource] = said["resources"]
    assert made.frame == f"http://127.0.0.1:1/embedded/{resource['id']}?uiConfig=1&team=o%27hara"
    assert said["rls_rules"] == [{"dataset": number, "clause": "owner = 'o''hara'"} for number in (3, 7)]
    assert made.expires == said["exp"] == said["iat"] + 120
    assert abs(said["iat"] - time.time()) < 60
    assert claims(guests.guest(home, ASSETS, "opscope-tonight", "", 2).token, home)["rls_rules"] == []
    other = guests.guest(home, ASSETS, "opscope-start", "", 2)
    assert claims(other.token, home)["resources"] != said["resources"]


def test_a_team_that_owns_nothing_is_refused(home: Home, tmp_path: Path) -> None:
    """Its condition would hide every row, and a typing error would look like a quiet night."""
    url = f"sqlite:///{tmp_path / 'results 1.sqlite'}"
    with open_database(url) as connection:
        store_owners(connection, [Rule("numerics"), Rule("kernels", op="*.add")])
    home.remember(replace(SERVED, database_uri=results_uri(url).uri))
    words = ["guest-token", "opscope-tonight", "--home", str(home.folder), "--json"]
    assert CliRunner().invoke(dashboard, [*words, "--team", "kernels"]).exit_code == 0
    done = CliRunner().invoke(dashboard, [*words, "--team", "nix"])
    assert str(done.exception) == "--team: expected a team that owns something, got 'nix'; try kernels, numerics"
    assert not done.stdout


def test_no_token_where_nobody_may_embed_or_there_is_no_such_dashboard(home: Home) -> None:
    with pytest.raises(DashboardError, match="DASHBOARD: expected the slug of a dashboard, got 'tonight'"):
        guests.guest(home, ASSETS, "tonight", "", 5)
    home.remember(replace(SERVED, embed=[]))
    with pytest.raises(DashboardError, match="that pages may embed, got none; try opscope dashboard up --embed URL"):
        guests.guest(home, ASSETS, "opscope-start", "", 5)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["user", "add", "eve", "--role", "editor", "--team", "kernels"], "--team: expected a viewer, got an editor"),
        (["up", "--embed", "https://team.example.org/page"], "--embed: expected an origin without a path"),
        (["up", "--embed", "team.example.org"], "--embed: expected an origin without a path"),
    ],
)
def test_wrong_options_are_refused(words: list[str], says: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(dashboard, [*words, "--home", str(tmp_path / "home")])
    assert isinstance(done.exception, DashboardError)
    assert str(done.exception).startswith(says)

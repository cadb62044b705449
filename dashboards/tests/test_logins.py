"""Wrong passwords are counted by address, and no redirect leads to another server."""

from __future__ import annotations

import sys

import pytest

from opscope.dashboards.home import ROOM

sys.path.insert(0, str(ROOM / "inside"))  # as Superset's configuration does
import logins  # type: ignore[import-not-found]


def test_ten_wrong_passwords_and_then_a_pause() -> None:
    now = [1000.0]
    wrong = logins.WrongLogins(lambda: now[0])
    for _ in range(logins.WRONG):
        assert wrong.wait("10.0.0.1") == 0
        wrong.add("10.0.0.1")
        now[0] += 1
    assert wrong.wait("10.0.0.1") == logins.WITHIN - logins.WRONG
    assert wrong.wait("10.0.0.2") == 0
    now[0] = 1000.0 + logins.WITHIN
    assert wrong.wait("10.0.0.1") == 0  # the first of them is forgotten
    wrong.add("10.0.0.1")
    assert wrong.wait("10.0.0.1") == 1


def test_addresses_are_forgotten_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "ADDRESSES", 3)
    wrong = logins.WrongLogins(lambda: 0.0)
    for address in ["a"] * logins.WRONG + ["b", "c"]:
        wrong.add(address)
    assert wrong.wait("a")
    wrong.add("d")
    assert not wrong.wait("a")


@pytest.mark.parametrize(
    ("location", "local"),
    [
        ("/superset/dashboard/opscope-start/", "/superset/dashboard/opscope-start/"),
        ("/login/?next=/wall/", "/login/?next=%2Fwall%2F"),
        ("/login/?next=http://evil.example/users/list/?a=1", "/login/?next=%2Fusers%2Flist%2F%3Fa%3D1"),
        ("http://evil.example/login/?next=http%3A%2F%2Fevil.example%2Fx", "/login/?next=%2Fx"),
        ("http://evil.example", "/"),
        ("//evil.example/x", "/x"),
        ("////evil.example/x", "/evil.example/x"),
        ("/\\evil.example/x", "/evil.example/x"),
        ("https:/\\evil.example", "/evil.example"),
        ("javascript:alert(1)", "alert(1)"),
        ("/a?b=c&d=%20#e", "/a?b=c&d=%20#e"),
        ("http://[evil", "/"),
    ],
)
def test_a_redirect_stays_on_this_server(location: str, local: str) -> None:
    assert logins.on_this_server(location) == local

"""What is read of the environment while another thread changes it."""

from __future__ import annotations

import os
from collections import UserDict
from collections.abc import Iterator

import pytest

from opscope.base.variables import variables_now


class Leaving(UserDict[str, str]):
    """Variables of which one is taken away as soon as their names are known."""

    def __iter__(self) -> Iterator[str]:
        names = list(self.data)
        self.data.pop("PYTEST_CURRENT_TEST", None)
        return iter(names)


def test_a_variable_that_another_thread_takes_away_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(os.environ)
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", Leaving({**before, "PYTEST_CURRENT_TEST": "one"}))
        found = variables_now()
    assert found == {name: value for name, value in before.items() if name != "PYTEST_CURRENT_TEST"}

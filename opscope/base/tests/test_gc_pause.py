"""The collector of cycles is as it was once a pause is over."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from opscope.base import gc_pause


@pytest.fixture(autouse=True, params=[True, False], ids=["enabled", "disabled"])
def before(request: pytest.FixtureRequest) -> Iterator[bool]:
    was_enabled = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was_enabled else gc.disable)()
    gc.freeze()  # as conftest.py left it


def test_a_pause_ends_as_it_began(before: bool) -> None:
    with pytest.raises(ZeroDivisionError), gc_pause.paused():
        print(1 / gc.isenabled())
    assert gc.isenabled() is before


def test_whatever_was_done_is_undone(before: bool) -> None:
    restore = gc_pause.restorer()
    gc_pause.pause()
    gc_pause.set_aside()
    assert not gc.isenabled()
    assert gc.get_freeze_count() > 0
    restore()
    assert gc.isenabled() is before
    assert gc.get_freeze_count() == 0

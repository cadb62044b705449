"""The collector of cycles is as it was once a pause is over."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from subprocess import run

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


UNDONE = """
import gc
from opscope.base import gc_pause
for before in (gc.enable, gc.disable):
    before()
    restore = gc_pause.restorer()
    gc_pause.pause()
    gc_pause.set_aside()
    assert not gc.isenabled()
    assert gc.get_freeze_count() > 0
    restore()
    assert gc.isenabled() is (before is gc.enable)
    assert gc.get_freeze_count() == 0
"""


@pytest.mark.parametrize("before", [True], indirect=True)
def test_whatever_was_done_is_undone(before: bool) -> None:
    """In a process with few objects: to count those of the tests takes a fifth of a second."""
    run([sys.executable, "-c", UNDONE], check=True)


def test_a_pause_is_resumed_as_it_was_before_it(before: bool) -> None:
    gc_pause.resume()  # of no pause
    assert gc.isenabled() is before
    gc_pause.pause()
    gc_pause.pause()
    assert not gc.isenabled()
    gc_pause.resume()
    assert gc.isenabled() is before


def test_an_interpreter_ends_without_a_look_for_garbage() -> None:
    program = (
        "import sys\nfrom opscope.base import gc_pause\n"
        "class Loop:\n    def __init__(self): self.loop = self\n    def __del__(self): print('collected')\n"
        "if sys.argv[1:]: gc_pause.none_at_exit(); gc_pause.none_at_exit()\nloop = Loop()\ndel loop\n"
    )
    ends = [run([sys.executable, "-c", program, *words], capture_output=True, check=True) for words in ((), ("none",))]
    assert [end.stdout for end in ends] == [b"collected\n", b""]

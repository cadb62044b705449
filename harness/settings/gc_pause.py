"""Python's collector of cycles, kept from walking the records of a run.

A large run holds millions of small objects, none of which is in a cycle: reference counts free them. Each full
collection walks them all the same, which took a seventh of the processor time of a run of 20,000 ops.
"""

from __future__ import annotations

import gc
from collections.abc import Callable


def as_now() -> Callable[[], None]:
    """What has garbage collected again as it is when this is called, whatever the functions below did since."""
    on = gc.isenabled()

    def restore() -> None:
        gc.unfreeze()
        (gc.enable if on else gc.disable)()

    return restore


def pause() -> None:
    """Collects nothing by itself from now on."""
    gc.disable()


def set_aside() -> None:
    """Leaves what there is out of collections that others ask for."""
    gc.freeze()

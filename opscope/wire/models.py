"""`opscope models --json`."""

from __future__ import annotations

from opscope.wire.answer import Answer


class Model(Answer):
    """A model of the zoo. Counts are null where `opscope models --count` has not counted it yet."""

    name: str
    framework: str
    family: str
    size: str
    """`full` or `reduced`."""
    giant: bool
    """Whether its weights do not fit in memory, so that `--model all` leaves it out."""
    trainable: bool
    parameters: int | None
    ops: int | None
    unique_ops: int | None
    missing: str
    """What is not installed, and how to install it; empty if nothing is missing."""
    missing_packages: tuple[str, ...]
    about: str
    file: str


PRINTS = list[Model]

"""`opscope config --json`: a pair for each row of the table of settings."""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from pydantic import create_model

from opscope.harness.settings.settings import SETTINGS
from opscope.wire.answer import Answer


class Resolved(Answer):
    """The value of a setting, and where it comes from. Null is the setting's own default; times are seconds, sizes
    bytes, passwords in URLs masked."""

    value: str | int | float | bool | None
    source: str


@cache
def _of(kind: type) -> type[Resolved]:
    """The pair of a setting with such a value."""
    value: Any = (kind | None, ...)
    return create_model(f"Resolved_{kind.__name__}", __base__=Resolved, __doc__=Resolved.__doc__, value=value)


def _plain(kind: Any) -> type:
    """The type of a value as it is once it was read: `int` of a size that is written `8GiB`."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    return next((_plain(each) for each in get_args(kind) if each is not NoneType), kind)


PAIRS = {setting.name: _of(_plain(setting.type)) for setting in SETTINGS}
"""Setting -> the type of its pair."""

if TYPE_CHECKING:

    class Config(Answer):
        """Every setting."""

        def __init__(self, **pairs: Resolved) -> None: ...

else:
    Config = create_model("Config", __base__=Answer, **{name: (pair, ...) for name, pair in PAIRS.items()})

PRINTS = Config

"""`opscope config --json`: a pair for each row of the table of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

from pydantic import create_model

from opscope.harness.settings.settings import SETTINGS, Setting
from opscope.wire.answer import Answer

Value = TypeVar("Value")


class Resolved(Answer, Generic[Value]):
    """The value of a setting, and where it comes from. Null is the setting's own default; times are seconds, sizes
    bytes, passwords in URLs masked."""

    value: Value | None
    source: str


def _pair(setting: Setting) -> Any:
    """The type of a setting's pair: its value as it is once it was read."""
    return Resolved[get_args(setting.type)[0]]


if TYPE_CHECKING:

    class Config(Answer):
        """Every setting."""

        def __init__(self, **pairs: Resolved[Any]) -> None: ...

else:
    Config = create_model("Config", __base__=Answer, **{each.name: _pair(each) for each in SETTINGS})

PRINTS = Config

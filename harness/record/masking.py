"""Leaves secrets out of what is stored or shown: the one rule for URLs and for options, whoever prints them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from opscope.base.file_names import as_text

SECRET_KEY = re.compile(r"pass|pwd|secret|token|api_?key", re.IGNORECASE)
"""What the name of a URL's parameter contains if its value is a secret: `password`, `sslpassword`, `access_token`."""

MASK = "***"
"""What stands in the place of a secret."""

_LOGIN = re.compile(r"(?P<head>(?<![\w+.-])[a-zA-Z][\w+.-]*://)(?P<user>[^\s:/@]*):(?P<password>[^\s/]*)@")
_DATABASE = re.compile(r"(?P<head>postgres[\w+.-]*://)(?P<user>[^\s:/@]*):(?P<password>[^\s?]*)@", re.IGNORECASE)
"""A login at a database: its password may have a / that nobody has escaped, which in other URLs ends a port."""
_LONE_LOGIN = re.compile(r"(?P<head>https?://)[^\s/@:]+@", re.IGNORECASE)
"""A token that logs in by itself."""
_OPTION = re.compile(
    r"(?P<head>(?<![\w.-])(?:[\w.-]*[_.-])?(?:token|pass(?:word|wd)?|pwd|secret|api_?key|access_?key|credentials)=)"
    r"(?!(?:[\dx.]+|true|false)(?![^\s,'\"]))[^\s,'\"&#]+",
    re.IGNORECASE,
)
"""An option whose name ends so, and whose value is neither a number, nor a size (`--shape token=128`), nor a switch."""
_PARAMETER = re.compile(r"(?<=[?&])(?P<name>[^\s=&#?]+)=(?P<value>[^\s&#]*)")


def mask_secrets(text: str) -> str:
    """`text` with the secrets of its URLs and options replaced by `***`; used wherever one could be shown or stored."""
    for login in (_DATABASE, _LOGIN):
        text = login.sub(rf"\g<head>\g<user>:{MASK}@", text)
    text = _PARAMETER.sub(_parameter, _LONE_LOGIN.sub(rf"\g<head>{MASK}@", text))
    return _OPTION.sub(rf"\g<head>{MASK}", text)


def _parameter(match: re.Match[str]) -> str:
    return f"{match['name']}={MASK}" if SECRET_KEY.search(unquote_plus(match["name"])) else match[0]


def masked(value: Any) -> Any:
    """`value` (JSON-like) with every text masked; paths and other objects become text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): masked(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [masked(part) for part in value]
    return as_text(mask_secrets(str(value)))

"""Leaves passwords out of what is stored or shown: the one rule for URLs, whoever prints them."""

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

_LOGIN = re.compile(r"(?P<head>[a-zA-Z][\w+.-]*://)(?P<user>[^\s:/@]*):(?P<password>[^\s/]*)@")
_DATABASE = re.compile(r"(?P<head>postgres[\w+.-]*://)(?P<user>[^\s:/@]*):(?P<password>[^\s?]*)@", re.IGNORECASE)
"""A login at a database: its password may have a / that nobody has escaped, which in other URLs ends a port."""
_PARAMETER = re.compile(r"(?<=[?&])(?P<name>[^\s=&#?]+)=(?P<value>[^\s&#]*)")


def mask_url(text: str) -> str:
    """`text` with the secrets of its URLs replaced by `***`; used wherever a URL could be shown or stored."""
    for login in (_DATABASE, _LOGIN):
        text = login.sub(rf"\g<head>\g<user>:{MASK}@", text)
    return _PARAMETER.sub(_parameter, text)


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
    return as_text(mask_url(str(value)))

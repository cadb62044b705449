"""The types of options: how a value is read from text, and which error is raised if it cannot be read.

A value comes from the command line, the environment, a TOML or YAML file or a Python caller; a type accepts all four.
A validator that refuses a value raises InputError with an empty place, which `read` fills in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, WrapValidator

from opscope.harness.record.errors import InputError, closest


def expects(expected: str, example: str = "") -> WrapValidator:
    """A validator that turns a refused value into an InputError, with what is expected and an example."""

    def checked(value: object, handler: Callable[[object], Any]) -> Any:
        try:
            return handler(value)
        except ValueError:
            raise InputError("", expected, repr(value), example) from None

    return WrapValidator(checked)


def choice(value: object, choices: Mapping[str, Any] | Iterable[Any]) -> Any:
    """The choice that `value` names, or what a mapping holds for it. Raises InputError for any other value."""
    value_of_word = dict(choices) if isinstance(choices, Mapping) else {str(choice): choice for choice in choices}
    if str(value) not in value_of_word:
        raise InputError("", f"one of {', '.join(value_of_word)}", repr(value), closest(str(value), value_of_word))
    return value_of_word[str(value)]


def one_of(choices: Mapping[str, Any] | Iterable[Any]) -> BeforeValidator:
    """A validator that takes one of `choices`, as `choice` does."""
    return BeforeValidator(partial(choice, choices=choices))


def absolute(path: object) -> str:
    """The absolute path, so that the command line stored in a record works from any folder."""
    return str(Path(str(path)).absolute())


def _integer(value: object) -> object:
    return int(value, 0) if isinstance(value, str) else value


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def _bytes(value: object) -> int:
    """A number of a Python caller is bytes; text has a unit (`4096B`), since `8` was rarely meant as bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = re.fullmatch(r"0|(\d+(?:\.\d+)?)\s*(?:([KMGT])(?:i?B)?|B)", str(value).strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(value)
    return int(float(match[1] or 0) * _UNITS[(match[2] or "").upper()])


_SPANS = {"h": 3600.0, "m": 60.0, "s": 1.0}


def _span(value: object) -> float:
    text = str(value).strip().lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", text)
    if "".join(map("".join, parts)) != text:
        raise ValueError(value)
    return sum(float(number) * _SPANS[unit] for number, unit in parts)


MOST_SHARES = 10_000
"""A larger number is a typo."""


def _share(value: object) -> str:
    match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", str(value))
    if match is None or not 1 <= int(match[2]) <= MOST_SHARES:
        raise InputError("", f"I/N with N from 1 to {MOST_SHARES}", repr(value), "1/4")
    index, of = int(match[1]), int(match[2])
    if not 1 <= index <= of:
        raise InputError("", f"a share from 1/{of} to {of}/{of}", repr(value), f"{min(max(index, 1), of)}/{of}")
    return f"{index}/{of}"


def _words(value: Any) -> list[str]:
    """The words between the commas of a text, or of several."""
    return [word for text in ([value] if isinstance(value, str) else value) for word in text.split(",")]


_SIZE_OF = re.compile(r"([^=,\s]+)=([1-9]\d{0,9}(?:x[1-9]\d{0,9})*)")


def sizes_of(value: object) -> str:
    """`a=1,b=4x16` of such texts or of a mapping, sorted by name. Raises InputError for anything else."""
    pairs = value.items() if isinstance(value, Mapping) else ()
    parts = [f"{name}={'x'.join(map(str, size)) if isinstance(size, tuple | list) else size}" for name, size in pairs]
    if not isinstance(value, Mapping):
        parts = _words(value)
    sizes: dict[str, str] = {}
    for part in map(str.strip, parts):
        match = _SIZE_OF.fullmatch(part)
        if match is None:
            raise InputError("", "NAME=SIZE with sizes above 0", repr(part), "batch=4 or arg0=4x16")
        if sizes.setdefault(match[1], match[2]) != match[2]:
            raise InputError("", f"one size for {match[1]!r}", f"{sizes[match[1]]} and {match[2]}")
    return ",".join(f"{name}={size}" for name, size in sorted(sizes.items()))


_OPTION = re.compile(r"(?:([\w.:/-]+):)?([A-Za-z][\w.-]*)=([^\s,=]+)")
"""[BACKEND:]NAME=VALUE of a backend's own compiler."""


def options_of_backends(value: object) -> str:
    """`[BACKEND:]NAME=VALUE,...` of such words or of a mapping, sorted. Raises InputError for anything else."""
    words = [f"{name}={word}" for name, word in value.items()] if isinstance(value, Mapping) else _words(value)
    values: dict[str, str] = {}
    for word in map(str.strip, words):
        match = _OPTION.fullmatch(word)
        if match is None:
            raise InputError("", "[BACKEND:]NAME=VALUE", repr(word), "enable_const_eval=false")
        name = f"{match[1]}:{match[2]}" if match[1] else match[2]
        if values.setdefault(name, match[3]) != match[3]:
            raise InputError("", f"one value for {name!r}", f"{values[name]} and {match[3]}")
    return ",".join(f"{name}={value}" for name, value in sorted(values.items()))


_MARK = re.compile(r"@([0-9a-f]{16})$")
_LARGEST_FILE = 1 << 24
"""Bytes of a file whose content is part of an option's value."""


def file_with_digest(value: object) -> str:
    """`PATH@DIGEST` of a file, the digest being 16 hex digits of the SHA-256 of what it holds.

    A value with a digest names a file that was read before, maybe on another machine: it may be missing here, but must
    not hold anything else. Raises InputError if it does, or if a file without a digest cannot be read.
    """
    path = absolute(_MARK.sub("", str(value)))
    mark = _MARK.search(str(value))
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        if mark is not None:
            return f"{path}{mark[0]}"
        raise InputError("", "a file that can be read", f"{path}: {error.strerror}") from None
    if len(content) > _LARGEST_FILE:
        raise InputError("", f"a file of at most {_LARGEST_FILE >> 20} MiB", path)
    digest = hashlib.sha256(content).hexdigest()[:16]
    if mark is not None and mark[1] != digest:
        raise InputError("", f"{path} with the digest {mark[1]}", f"one with {digest}", path)
    return f"{path}@{digest}"


def path_of(file: str) -> Path:
    """The path in a value of `file_with_digest`."""
    return Path(_MARK.sub("", file))


def without_folder(value: object) -> object:
    """The value of an option, of a file with its digest without the folder, which differs between machines."""
    return path_of(value).name + value[-17:] if isinstance(value, str) and _MARK.search(value) else value


Text = Annotated[str, BeforeValidator(str)]
Flag = Annotated[bool, expects("true or false")]
Integer = Annotated[int, BeforeValidator(_integer), expects("an integer", "0")]
Count = Annotated[int, Field(ge=0), BeforeValidator(_integer), expects("a whole number from 0 on", "0")]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), expects("a number of seconds above 0", "60")]
Duration = Annotated[float, Field(gt=0), BeforeValidator(_span), expects("a time with a unit", "30m, 90s or 1h30m")]
"""Seconds, written `1h30m`."""
Size = Annotated[int, Field(gt=0), BeforeValidator(_bytes), expects("a size above 0 with a unit", "8GiB")]
"""Bytes, written `8GiB`; all units are powers of 1024, as memory is sold."""
LEAST_MEMORY = 64 << 20
"""Bytes that the smallest child takes before it does anything."""
ProcessMemory = Annotated[
    int,
    Field(ge=LEAST_MEMORY),
    BeforeValidator(_bytes),
    expects(f"a size of memory with a unit, from {LEAST_MEMORY >> 20}MiB on", "8GiB"),
]
"""Bytes that a process may hold."""
SizeOrNone = Annotated[int, BeforeValidator(_bytes), expects("a size with a unit, or 0 for none", "64MiB")]
DumpedOps = Annotated[str, one_of(("none", "failing", "all"))]
"""Ops whose results a run keeps."""
Share = Annotated[str, BeforeValidator(_share)]
"""`2/4`: the second of four shares."""
File = Annotated[str, BeforeValidator(absolute)]
"""The path of a file."""
Sizes = Annotated[str, BeforeValidator(sizes_of)]
"""`arg0=4x16,batch=4`: sizes of dimensions by name; a mapping or a list of such words is read too."""
BackendOptions = Annotated[str, BeforeValidator(options_of_backends)]
"""`enable_trace=true,tt:fp32_dest_acc_en=false`; a mapping or a list of such words is read too."""
DigestedFile = Annotated[str, BeforeValidator(file_with_digest)]
"""`/path/to/file@0123456789abcdef`: a file and the digest of its content; the digest may be left out."""
Mesh = Annotated[
    Text, Field(pattern=r"^[1-9]\d{0,2}(x[1-9]\d{0,2})*$"), expects("the sizes of a mesh of devices", "2x4")
]
"""`2x4`: the sizes of a mesh's axes."""
Ref = Annotated[Text, Field(pattern=r"^[^\s\x00-\x1f]{1,200}$"), expects("a name without spaces", "a1b2c3d")]
"""The name of a commit or of a branch."""
Scheduler = Annotated[
    Text,
    Field(pattern=r"^(tcp|tls|ws|wss)://\S+:\d+/?$"),
    expects("the address of a Dask scheduler", "tcp://127.0.0.1:8786"),
]
Server = Annotated[
    Text,
    Field(pattern=r"^https?://[^\s/@]+(/\S*)?$"),
    expects("the address of an artifact server", "http://ci.example:8090"),
]


def read(adapter: TypeAdapter[Any], where: str, value: object) -> Any:
    """Converts a value to the type of its option. Raises InputError; `where` says where the value comes from."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise input_error(error, lambda _: where) from None


def input_error(error: ValidationError, where: Callable[[str], str]) -> InputError:
    """The first error that pydantic reports, as one line; `where` returns the place of a field by its name."""
    first = error.errors(include_url=False)[0]
    place = where(".".join(map(str, first["loc"])))
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return InputError(place, cause.expected, cause.got, cause.hint)
    return InputError(
        place, first["msg"].removeprefix("Input should be ").removeprefix("Value error, "), repr(first["input"])
    )

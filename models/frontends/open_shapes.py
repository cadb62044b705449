"""Sizes for the dimensions that a model's file leaves open, as `--shape NAME=SIZE,NAME=4x16` gives them.

A name is an argument's (or its number) or that of a symbolic dimension, which may stand in several arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opscope.models.frontends.base import Refused

Dim = int | str
"""A size, or the name of an open dimension; one without a name is `OPEN`."""
OPEN = "?"
MOST_LISTED = 6
"""Arguments that an error lists."""


def parsed(text: str) -> dict[str, tuple[int, ...]]:
    """Name -> sizes, from an option's text, which has been checked."""
    pairs = (part.rpartition("=") for part in text.split(",") if part)
    return {name: tuple(int(size) for size in sizes.split("x")) for name, _, sizes in pairs}


def bound(arguments: Mapping[str, Sequence[Dim]], text: str, where: str) -> dict[str, tuple[Dim, ...]]:
    """The shape of each argument with the sizes of `text`; what no size was given for stays open.

    An argument takes the sizes of all its dimensions, or those of its open ones. Raises Refused for a name that the
    model has not, for another number of sizes, and for a size that differs from a fixed one or from another of the
    same name.
    """
    sizes: dict[str, int] = {}
    shapes = {name: tuple(dims) for name, dims in arguments.items()}

    def name_size(symbol: str, size: int, option: str) -> None:
        if sizes.setdefault(symbol, size) != size:
            raise Refused(f"{where}: --shape {option}", f"one size for {symbol!r}", f"{sizes[symbol]} and {size}")

    for word, given_sizes in parsed(text).items():
        option = f"{word}={'x'.join(map(str, given_sizes))}"
        name = list(arguments)[int(word)] if word.isdecimal() and int(word) < len(arguments) else word
        if name in shapes:
            shapes[name] = _filled(shapes[name], given_sizes, f"{where}: --shape {option}")
            for dim, size in zip(arguments[name], shapes[name], strict=True):
                if isinstance(dim, str) and dim != OPEN:
                    name_size(dim, int(size), option)
        elif name in _symbols(arguments) and len(given_sizes) == 1:
            name_size(name, given_sizes[0], option)
        elif name in _symbols(arguments):
            raise Refused(f"{where}: --shape {option}", f"one size for the dimension {name!r}", str(len(given_sizes)))
        else:
            expected = f"an argument or an open dimension ({listed(arguments)})"
            raise Refused(f"{where}: --shape {option}", expected, repr(word), hint(arguments))
    return {name: tuple(d if isinstance(d, int) else sizes.get(d, d) for d in dims) for name, dims in shapes.items()}


def fixed(arguments: Mapping[str, Sequence[Dim]], text: str, where: str) -> dict[str, tuple[int, ...]]:
    """Of the shapes that `bound` returns those that are not open any more, without arguments that never were."""
    return {
        name: tuple(int(dim) for dim in dims)
        for name, dims in bound(arguments, text, where).items()
        if is_open(arguments[name]) and not is_open(dims)
    }


def is_open(dims: Sequence[Dim]) -> bool:
    """Whether a dimension has no size yet."""
    return any(isinstance(dim, str) for dim in dims)


def hint(arguments: Mapping[str, Sequence[Dim]]) -> str:
    """The options that would bind what is open; empty if nothing is."""
    words = [f"{symbol}=1" for symbol in _symbols(arguments)]
    for name, dims in arguments.items():
        if OPEN in dims:
            words.append(f"{name}={'x'.join('1' if isinstance(dim, str) else str(dim) for dim in dims)}")
    return " ".join(f"--shape {word}" for word in words[:MOST_LISTED])


def shown(dims: Sequence[Dim]) -> str:
    """`[batch, 16]`."""
    return f"[{', '.join(map(str, dims))}]"


def listed(arguments: Mapping[str, Sequence[Dim]]) -> str:
    """The arguments with an open dimension; all of them if none has one."""
    names = [name for name, dims in arguments.items() if is_open(dims)] or list(arguments)
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(f"{name}: {shown(arguments[name])}" for name in names[:MOST_LISTED]) + more


def _symbols(arguments: Mapping[str, Sequence[Dim]]) -> list[str]:
    """The names of open dimensions, each once."""
    return list(dict.fromkeys(d for dims in arguments.values() for d in dims if isinstance(d, str) and d != OPEN))


def _filled(dims: tuple[Dim, ...], sizes: tuple[int, ...], where: str) -> tuple[int, ...]:
    """The dimensions with `sizes`, which are those of all dimensions or of the open ones."""
    places = [index for index, dim in enumerate(dims) if isinstance(dim, str)]
    if len(sizes) == len(places) < len(dims):
        size_of = dict(zip(places, sizes, strict=True))
        sizes = tuple(dim if isinstance(dim, int) else size_of[index] for index, dim in enumerate(dims))
    if len(sizes) != len(dims) or any(d != s for d, s in zip(dims, sizes, strict=True) if isinstance(d, int)):
        raise Refused(where, f"sizes of {shown(dims)}", shown(sizes))
    return sizes

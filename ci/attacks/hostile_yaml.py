"""YAML that a person should not have written: as a backend, limitations, a night, owners, a netlist and a graph."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

from ci.attacks.attempt import Attempt
from ci.attacks.called import judged, opscope
from ci.attacks.damage import SPECIAL, put_in_place

SAMPLE, FULL = 4, 120

PAIRS = tuple(itertools.pairwise("abcdefghijklmnop"))
ALIASES = "a: &a [x, x]\n" + "\n".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in PAIRS)
MERGES = "a: &a {x: 1}\n" + "\n".join(f"{b}: &{b} {{<<: [{', '.join([f'*{a}'] * 9)}]}}" for a, b in PAIRS)

TEXTS: dict[str, str | bytes] = {
    "a date that does not exist": "{name}: 2026-02-30",
    "a time that does not exist": "{name}: 2026-02-28 99:99:99",
    "5,000 brackets": "{name}: " + "[" * 5000 + "]" * 5000,
    "5,000 braces": "{name}: " + "{{a: " * 5000 + "}}" * 5000,
    "5,000 levels of blocks": "\n".join(" " * level + "{name}:" for level in range(5000)),
    "aliases that multiply": ALIASES + "\n{name}: *p",
    "merges that multiply": MERGES + "\n{name}: *p",
    "an alias of itself": "{name}: &x [*x]",
    "a number of 5,000 digits": "{name}: " + "9" * 5000,
    "a number of 40,000 bits": "{name}: 0x" + "f" * 10_000,
    "an object of Python": "{name}: !!python/object/apply:os.system [touch spoiled]",
    "half a surrogate pair": '{name}: "\\ud800"',
    "escape sequences": '{name}: "\\e]0;title\\a\\e[2J\\u202e"\n"\\e[31m": 1',
    "NUL": b"{name}: \0",
    "no UTF-8": b"{name}: \xff\xfe",
    "UTF-16": "{name}: x".encode("utf-16"),
    "a list as a key": "? [a]\n: {name}",
    "a tag that is none": "{name}: !!int x",
    "null": "",
    "a list": "- {name}",
    "two documents": "{name}: x\n---\n{name}: y",
    "only an anchor": "&a",
    "tabs": "{name}:\n\t- x",
    "an infinite number": "{name}: [.inf, .nan, -.inf]",
}
"""What is wrong -> a text; `{name}` is the key that the file should have."""

READERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "backend": ("stages", "mine.yaml", ("nightly", "good.yaml", "--dry-run")),
    "limitations": ("limitations", "l.yaml", ("limitations", "list", "--limitations", "l.yaml")),
    "night": ("models", "night.yaml", ("nightly", "night.yaml", "--dry-run")),
    "owners": ("owners", "owners.yaml", ("db", "owners", "owners.yaml")),
    "netlist": ("graphs", "net.yaml", ("netlist", "net.yaml")),
    "graph": ("nodes", "graph.yaml", ("plan", "graph.yaml")),
}
"""Reader -> the key that it looks for, the file's name, and the command that reads it."""


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """Every reader with every text, in a drawn order, and again with texts of which a part is repeated or lost."""
    draw = random.Random(seed)
    every = [(reader, what) for reader in READERS for what in (*TEXTS, *SPECIAL)]
    draw.shuffle(every)
    for number in range(count):
        reader, what = every[number % len(every)]
        place = folder / str(number)
        place.mkdir()
        name, file, words = READERS[reader]
        if what in SPECIAL:
            put_in_place(place / file, what)
        else:
            data = TEXTS[what]
            data = data if isinstance(data, bytes) else data.replace("{name}", name).encode()
            if number >= len(every) and data:
                cut = draw.randrange(len(data))
                data = data[:cut] + data[cut:] * draw.randrange(3)
            (place / file).write_bytes(data.replace(b"{name}", name.encode()))
        (place / "good.yaml").write_text("models: [mnist_mlp]\nbackends: [mine.yaml]\n")
        called = opscope(place, *words, seconds=60)
        spoiled = "a command of the file ran" if (place / "spoiled").exists() else ""
        yield judged(reader, what, [called], spoiled)

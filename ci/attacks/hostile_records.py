"""Run folders from elsewhere: texts that act, ids that are paths, numbers beyond 64 bits, special files.

A run is made once; each attempt damages a copy as somebody else's program would write it and takes it through commands.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ci.attacks.attempt import Attempt
from ci.attacks.called import judged, opscope
from ci.attacks.damage import SPECIAL, put_in_place

SAMPLE, FULL = 3, 150

TEXT = (
    "\x1b]0;t\x07\x1b[2J\x9b31m\x00\x7f\u202eevil\u2066\ud800\r\b\U000e0041 %s %n {} {0} [red]x[/red] [/] <b>&amp; |`"
)
PATHS = ("../../x", "..", "a/../../../b", "/etc/passwd", "x\x1b[2J", "", "x" * 5000, "\ud800", "a\\..\\b")
NUMBERS = (2**63, -(2**70), 10**400, 1e300, float("nan"), float("inf"), "x", None, [], {"a": 1}, True)
OTHERS = ("0000-00-00", "99999-01-01T00:00:00Z", "lower", "UP", "../lower", TEXT, "x" * 1_000_000, [["x"] * 9] * 9)
CONTENTS = {
    "no UTF-8": b"\xff\xfe{}\n",
    "100,000 brackets": b"[" * 100_000 + b"\n",
    "NUL": bytes(999) + b"\n",
    "empty": b"",
}
"""What a file of a run holds in place of its lines."""

COMMANDS = (
    ("show", "run"),
    ("publish", "run", "--to", "sqlite:///d.sqlite"),
    ("report", "run"),
    ("diff", "good", "run"),
    ("costs", "run"),
    ("export", "run", "--format", "csv", "-o", "out"),
    ("export", "run", "--format", "junit", "-o", "out"),
    ("export", "run", "--format", "optest-json", "--job-id", "7", "-o", "out"),
    ("limitations", "update", "run"),
    ("merge", "run", "--into", "out/joined"),
    ("repro", "{op}", "--run", "run", "--out", "out/repro"),
    ("reduce", "{op}", "--run", "run", "--budget", "5s", "--out", "out/least"),
)


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """Draws a file, a field of it and a value; nothing may appear outside of an attempt's own folder."""
    draw = random.Random(seed)
    good = folder / "good"
    words = ["--model", "mnist_mlp", "--op-by-op", "--run-dir", str(good), "--no-report", "-q"]
    subprocess.run([sys.executable, "-m", "pytest", *words], cwd=folder, capture_output=True, timeout=900, check=False)
    files = [path.relative_to(good) for path in sorted(good.rglob("*.json*"))]
    op_id = json.loads((good / "manifest.jsonl").read_text().splitlines()[1])["op_id"]
    for number in range(count):
        place = folder / f"{number}"
        shutil.copytree(good, place / "inner" / "run")
        (place / "inner" / "good").symlink_to(good)
        file = draw.choice(files)
        kind, detail = DAMAGE[number % len(DAMAGE)](place / "inner" / "run" / file, draw)
        calls = [
            opscope(place / "inner", *(word.replace("{op}", op_id) for word in command), seconds=60)
            for command in draw.sample(COMMANDS, 2)
        ]
        strange = [path.name for path in place.iterdir() if path.name != "inner"]
        strange += [
            path.name
            for path in (place / "inner").iterdir()
            if path.name not in ("run", "good", "out", "d.sqlite", ".opscope", ".gitignore")
        ]
        yield judged(kind, f"{file}: {detail}", calls, f"new files {strange}" if strange else "")
        shutil.rmtree(place)


def _changed(path: Path, draw: random.Random, values: tuple[Any, ...], fits: Callable[[Any], bool]) -> str:
    """Puts a drawn value into a drawn field that `fits`, of a drawn line."""
    whole = path.suffix == ".json"
    lines = [path.read_text()] if whole else path.read_text().splitlines()
    number = draw.randrange(len(lines))
    content = json.loads(lines[number])
    places = [field for field in _places(content) if fits(field[0][field[1]])]
    if not places:
        return "no such field"
    holder, name = draw.choice(places)
    value = holder[name] = draw.choice(values)
    if isinstance(content, dict):
        content.pop("digest", None)  # as written by an opscope without digests
    lines[number] = json.dumps(content)
    path.write_text("\n".join(lines) + "\n")
    return f"line {number + 1} {name} = {str(value)[:30]!r}"


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for name, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, name
        yield from _places(item)


def _texts(path: Path, draw: random.Random) -> tuple[str, str]:
    return "a text that acts", _changed(path, draw, (TEXT,), lambda value: isinstance(value, str))


def _paths(path: Path, draw: random.Random) -> tuple[str, str]:
    return "a path for a name", _changed(path, draw, PATHS, lambda value: isinstance(value, str))


def _numbers(path: Path, draw: random.Random) -> tuple[str, str]:
    return "a number", _changed(path, draw, NUMBERS, lambda value: isinstance(value, int | float))


def _others(path: Path, draw: random.Random) -> tuple[str, str]:
    return "another value", _changed(path, draw, (*OTHERS, *NUMBERS), lambda value: True)


def _special(path: Path, draw: random.Random) -> tuple[str, str]:
    what = draw.choice((*SPECIAL, *CONTENTS))
    path.unlink()
    if what in CONTENTS:
        path.write_bytes(CONTENTS[what])
    else:
        put_in_place(path, what)
    return "a special file", what


DAMAGE = (_texts, _paths, _numbers, _others, _special)

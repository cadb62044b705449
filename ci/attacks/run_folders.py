"""Damage to every kind of file of a run folder, seen by each verb that reads one.

A command whose output differs from that on the undamaged folder must name the damaged file and end with another exit
code than 0. After `--resume`, every op must have the record that it had.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ci.attacks.attempt import Attempt, Ending
from ci.attacks.called import UNEXPLAINED
from ci.attacks.damage import spoiled
from ci.attacks.small_cache import SECONDS, files_by_kind, records_of, run, write_models
from ci.sweep_command import sweep_command

SAMPLE, FULL = 12, 500

RUNS = {
    "split": ("--shard", "1/1", "--ops", "add", "--ops", "dot*"),
    "whole": ("--backend", "null", "--op-by-op-on-fail"),
}
"""Runs that together leave every kind of file that a run leaves: name -> options."""

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Seen:
    """What a verb made of a run folder."""

    code: int
    output: str
    """What it printed about damage and errors."""
    result: str
    """What it read: equal for equal runs."""


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """Damages one file of a run folder and reads the folder, again and again."""
    draw = random.Random(seed)
    models = write_models(folder)
    for name, options in {"before": (), **RUNS}.items():
        run(models[:4], folder / "cache", folder / name, *options).sound()
    kinds = {name: files_by_kind(folder / name) for name in RUNS}
    place, right = folder / "run", {}
    for _ in range(count):
        verb = draw.choices(list(VERBS), [weight for weight, _ in VERBS.values()])[0]
        see, name = VERBS[verb][1], draw.choice(sorted(RUNS))
        if (verb, name) not in right:
            _copy(folder / name, place)
            right[verb, name] = see(place, folder)
            if right[verb, name].code:
                raise RuntimeError(f"{verb} of an undamaged run: {right[verb, name].output}")
        _copy(folder / name, place)
        kind = draw.choice(sorted(kinds[name]))
        path = place / draw.choice(kinds[name][kind]).relative_to(folder / name)
        what = _damage(draw, path)
        seen = see(place, folder)
        ending = _ending(seen, right[verb, name], path)
        shown = f"exit code {seen.code}\n{seen.output}\n{seen.result[:500]}"
        yield Attempt(f"{verb}: {kind}", f"{what} of {path.name}", ending, shown)


def _copy(base: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(base, place)


def _damage(draw: random.Random, path: Path) -> str:
    """Flips a bit, cuts the file, or removes it."""
    way, data = spoiled(path.read_bytes(), draw, ("flip", "flip", "flip", "cut"))
    if not data or not draw.randrange(5):
        path.unlink()
        return "remove"
    path.write_bytes(data)
    return way


def _ending(seen: Seen, right: Seen, path: Path) -> Ending:
    if seen.code == -1:
        return "stuck"
    if any(word in seen.output for word in UNEXPLAINED):
        return "traceback"
    if seen.code and path.name in seen.output:
        return "noticed"
    return "no effect" if (seen.code, seen.result) == (right.code, right.result) else "silent"


def _call(*command: str | Path, folder: Path) -> Seen:
    try:
        done = subprocess.run(
            list(map(str, command)),
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return Seen(-1, "", "")
    return Seen(done.returncode, done.stdout + done.stderr, done.stdout)


def _show(place: Path, folder: Path) -> Seen:
    return _call(BIN / "opscope", "show", place, "--json", folder=folder)


def _export(place: Path, folder: Path) -> Seen:
    return _call(BIN / "opscope", "export", place, "--format", "junit", "-o", "-", folder=folder)


def _diff(place: Path, folder: Path) -> Seen:
    return _call(BIN / "opscope", "diff", folder / "before", place, "--json", folder=folder)


def _report(place: Path, folder: Path) -> Seen:
    page = folder / "page.html"
    page.unlink(missing_ok=True)
    seen = _call(BIN / "opscope", "report", place, "-o", page, folder=folder)
    return Seen(seen.code, seen.output, page.read_text() if page.is_file() else "")


def _publish(place: Path, folder: Path) -> Seen:
    database = folder / "results.sqlite"
    database.unlink(missing_ok=True)
    seen = _call(BIN / "opscope", "publish", place, "--to", f"sqlite:///{database}", folder=folder)
    rows: list[str] = []
    if database.is_file():
        with sqlite3.connect(database) as connection:
            rows = [json.dumps(row) for row in connection.execute("select * from op_tests order by op_id")]
    return Seen(seen.code, seen.output, "\n".join(rows))


def _resume(place: Path, folder: Path) -> Seen:
    command = ["env", f"OPSCOPE_CACHE_DIR={folder / 'cache'}", *sweep_command("", "--resume", str(place))]
    seen = _call(*command, folder=folder)
    try:
        return Seen(seen.code, seen.output, json.dumps(records_of(place), sort_keys=True))
    except ValueError as error:  # a line that is damaged, and stays
        return Seen(seen.code, seen.output, str(error))


VERBS: dict[str, tuple[int, Callable[[Path, Path], Seen]]] = {
    "show": (5, _show),
    "export": (4, _export),
    "diff": (3, _diff),
    "publish": (3, _publish),
    "report": (2, _report),
    "resume": (2, _resume),
}
"""Verb -> how often it is drawn, and what runs it."""

"""Damage to every kind of file that a cache holds: bits flipped, files cut, removed, or put in each other's place.

A cache of ten tiny models is brought into a state in which one run reads all of it: a part of the exports and of the
kept verdicts is gone. Each attempt damages one file of a kind that is drawn from what the folder holds; attempts on
different folders share a run. Every record must be what it is without damage. What damage does not change is harmless;
what it could change must be named in the output.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ci.attacks.attempt import Attempt
from ci.attacks.small_cache import FILES, Said, files_by_kind, run, write_models

SAMPLE, FULL = 12, 2000

TOGETHER = 24
"""Attempts that share a run at most."""


@dataclass(frozen=True)
class Damage:
    """What is done to one file."""

    kind: str
    what: str
    """`flip`, `cut`, `remove`, `swap`."""
    path: Path
    """Relative to the cache, as all paths here."""
    other: Path
    """For `swap`: the other file."""
    place: float
    """Where in the file, as a share of its size."""
    bit: int

    @property
    def touched(self) -> tuple[Path, ...]:
        """The files that it damages."""
        return (self.path, self.other) if self.what == "swap" else (self.path,)

    @property
    def folders(self) -> set[Path]:
        """The parts of the cache that are made again as a whole if this is noticed."""
        return set(map(_entry, self.touched))

    def apply(self, cache: Path) -> None:
        """Damages the file in one cache."""
        path = cache / self.path
        if self.what == "remove":
            path.unlink()
        elif self.what == "swap":
            mine, theirs = path.read_bytes(), (cache / self.other).read_bytes()
            path.write_bytes(theirs)
            (cache / self.other).write_bytes(mine)
        else:
            data = bytearray(path.read_bytes())
            at = int(self.place * len(data))
            if self.what == "cut":
                del data[at:]
            else:
                data[at] ^= 1 << self.bit
            path.write_bytes(data)


def _entry(path: Path) -> Path:
    """The folder of a model's export, or else the file itself."""
    return Path(*path.parts[:2]) if path.parts[0] in ("exports", "modules") else path


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """Damages files of a cache, many in one run where they do not meet."""
    draw = random.Random(seed)
    models = write_models(folder)
    right = _prepare(folder, models)
    kinds = {
        kind: [path.relative_to(folder / "base") for path in paths]
        for kind, paths in files_by_kind(folder / "base").items()
    }
    left = count
    while left > 0:
        batch = _draw_batch(draw, kinds, folder / "base", min(left, TOGETHER))
        left -= len(batch)
        yield from _try(batch, folder, models, right)


def _prepare(folder: Path, models: list[str]) -> Said:
    """Makes `base`, the cache that is damaged; what a run on it says if it is not."""
    first = run(models, folder / "base", folder / "run").sound()
    verdicts = sorted((folder / "base" / "results").rglob("*.json"))
    for path in verdicts:
        test = json.loads(path.read_text()).get("test")
        if test and any(model in test["models"] for model in ["python_model", *(f"file{n}" for n in range(1, 6))]):
            path.unlink()  # these ops run again, so that their modules and values are read
    gone = {"python_model", f"file{FILES}", f"file{FILES - 1}"}
    for export in (folder / "base" / "exports").iterdir():
        header = json.loads((export / "manifest.jsonl").read_text().splitlines()[0])
        if gone & set(header["models"]):
            shutil.rmtree(export)  # these models are prepared again, so that modules and executables are read
    return first


def _draw_batch(draw: random.Random, kinds: dict[str, list[Path]], base: Path, most: int) -> list[Damage]:
    """Damages that do not meet: no two in one folder."""
    batch: list[Damage] = []
    taken: set[Path] = set()
    for _ in range(4 * most):
        if len(batch) == most:
            break
        kind = draw.choice(sorted(kinds))
        files = [path for path in kinds[kind] if (base / path).stat().st_size]
        if not files:
            continue
        what = draw.choice(("flip", "flip", "cut", "remove", "swap"))
        path, other = draw.choice(files), draw.choice(files)
        if what == "swap" and (base / path).read_bytes() == (base / other).read_bytes():
            continue
        damage = Damage(kind, what, path, other, draw.random(), draw.randrange(8))
        if not damage.folders & taken:
            taken |= damage.folders
            batch.append(damage)
    return batch


def _try(batch: list[Damage], folder: Path, models: list[str], right: Said) -> Iterator[Attempt]:
    """The endings of some attempts in one run; of each alone if something went wrong."""
    said = _run_on(batch, folder, models)
    ending = said.beside(right)
    if ending == "no effect" or len(batch) == 1:
        for damage in batch:
            named = any(str(path) in said.output for path in damage.touched)
            detail = f"{damage.what} of {damage.path}"
            if ending == "no effect":
                yield Attempt(damage.kind, detail, "noticed" if named else ending)
            else:
                yield Attempt(damage.kind, detail, ending, said.output)
        return
    for damage in batch:
        yield from _try([damage], folder, models, right)


def _run_on(batch: list[Damage], folder: Path, models: list[str]) -> Said:
    cache = folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    shutil.copytree(folder / "base", cache)
    for damage in batch:
        damage.apply(cache)
    return run(models, cache, folder / "run")

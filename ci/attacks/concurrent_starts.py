"""Two starts with one --run-dir, up to half a second apart: one runs, the other gets one line and exit code 2."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from ci.attacks.attempt import Attempt, Ending
from ci.attacks.called import UNEXPLAINED
from ci.attacks.small_cache import SECONDS, run, write_models
from ci.sweep_command import sweep_command

SAMPLE, FULL = 1, 20

COMMAND = tuple(sweep_command("--no-cache"))


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """Starts pairs of runs, and pairs of resumed runs, in one folder."""
    draw = random.Random(seed)
    models = write_models(folder)[:8]
    right = run(models, folder / "cache", folder / "right").sound()
    for number in range(count):
        place = folder / f"run{number}"
        new = [*models, "--run-dir", str(place)]
        if number % 3 == 2:
            _killed(new, folder, place)
            new = ["--resume", str(place)]
        delay = draw.uniform(0, 0.5)
        ended = _both(new, folder, delay)
        lines = sum(path.read_bytes().count(b"\n") for path in (place / "journal").glob("*.jsonl"))
        yield Attempt(
            "resume" if number % 3 == 2 else "start", f"{delay:.2f} s apart", *_ending(ended, lines, len(right.records))
        )


def _killed(words: list[str], folder: Path, place: Path) -> None:
    """Starts a run and kills it once it has written a record."""
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(folder / "cache")}
    with subprocess.Popen([*COMMAND, *words], cwd=folder, env=environment, stdout=subprocess.DEVNULL) as child:
        while child.poll() is None and not any(path.stat().st_size for path in (place / "journal").glob("*.jsonl")):
            time.sleep(0.01)
        child.kill()


def _both(words: list[str], folder: Path, delay: float) -> list[tuple[int | None, str]]:
    """Exit code and output of each of two runs."""
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(folder / "cache")}
    children = []
    for _ in range(2):
        children.append(
            subprocess.Popen(
                [*COMMAND, *words],
                cwd=folder,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
        time.sleep(delay)
    ended: list[tuple[int | None, str]] = []
    for child in children:
        try:
            output, _ = child.communicate(timeout=SECONDS)
            ended.append((child.returncode, output))
        except subprocess.TimeoutExpired:
            child.kill()
            ended.append((None, ""))
    return ended


def _ending(ended: list[tuple[int | None, str]], lines: int, ops: int) -> tuple[Ending, str]:
    shown = f"{lines} records of {ops} ops\n" + "\n---\n".join(f"{code}: {output}" for code, output in ended)
    if any(code is None for code, _ in ended):
        return "stuck", shown
    if any(word in output for _, output in ended for word in UNEXPLAINED):
        return "traceback", shown
    codes = sorted(code for code, _ in ended if code is not None)
    refused = next((output for code, output in ended if code == 2), "")
    one_line = sum(": expected " in line for line in refused.splitlines()) == 1
    return ("noticed", "") if codes == [0, 2] and one_line and lines == ops else ("silent", shown)

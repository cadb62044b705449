"""Seeded mutations of the specification's cases: `python -m opscope.compiler.tests.mutations --count 10000`.

Each mutant is vetted and compiled as `opscope compile` does it. Whatever becomes of it is typed: compiled, refused as
input, refused by a stage, or `parser-crashed`. A crash, a hang or another exception ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import collections
import random
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from opscope.compiler import api
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.ir.guard import ParserCrashed
from opscope.compiler.tests import programs

SECONDS = 30
"""What one mutant may take."""
_TOKEN = re.compile(r"[\w.]+|[^\s\w]")
_NUMBER = re.compile(r"-?\d+")
EXTREMES = ("0", "-1", "1", "2147483648", "9223372036854775807", "-9223372036854775808", "99999999999999999999", "?")
TYPES = ("f32", "bf16", "i1", "i64", "ui4", "complex<f32>", "f8E4M3FN", "!quant.uniform<i8:f32, 0.5>", "index", "none")
_TYPE = re.compile(r"\b(?:f32|bf16|f16|f64|u?i\d+)\b")
_OP = re.compile(r"\b(?:stablehlo|chlo)\.\w+")


class Hang(BaseException):
    """A mutant took longer than it may. No Exception, so that no stage takes it for its own."""


def mutants(count: int, seed: int) -> Iterator[str]:
    """So many texts, each a case changed in one to three places."""
    rng = random.Random(seed)
    texts = [source for _, source, _, _ in programs.conformance() if len(source) < 20_000]
    for _ in range(count):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 3)):
            text = _mutate(text, rng, texts)
        yield text


def _mutate(text: str, rng: random.Random, texts: list[str]) -> str:
    kind = rng.randrange(9)
    if kind == 0:
        return _replace(text, _NUMBER, rng.choice(EXTREMES), rng)
    if kind == 1:
        return _replace(text, _TYPE, rng.choice(TYPES), rng)
    if kind == 2:
        return _replace(text, _OP, rng.choice(_OP.findall(rng.choice(texts)) or ["stablehlo.add"]), rng)
    if kind == 3:
        return _replace(text, _TOKEN, "", rng)
    if kind == 4:
        return _replace(text, _TOKEN, rng.choice(_TOKEN.findall(rng.choice(texts))), rng)
    if kind == 5:
        return text[: rng.randrange(len(text) + 1)]
    lines = text.splitlines(keepends=True) or [""]
    at = rng.randrange(len(lines))
    if kind == 6:
        return "".join([*lines[:at], lines[at], *lines[at:]])
    if kind == 7:
        return "".join([*lines[:at], *lines[at + 1 :]])
    at = rng.randrange(len(text) + 1)
    return text[:at] + chr(rng.choice((0, 34, 37, 60, 123, 233, 0x1F600))) + text[at:]


def _replace(text: str, pattern: re.Pattern[str], new: str, rng: random.Random) -> str:
    matches = list(pattern.finditer(text))
    if not matches:
        return text
    place = rng.choice(matches)
    return text[: place.start()] + new + text[place.end() :]


@contextmanager
def _limited() -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(text: str, options: api.CompileOptions) -> str:
    """What became of one mutant. Raises what is not typed, Hang among it."""
    try:
        with _limited():
            api.compile(text, programs.BOARD, options)
    except ParserCrashed as error:
        return error.kind
    except CompilerInputError:
        return "refused as input"
    except StageFailure as failure:
        return "internal error" if "internal error" in failure.message else f"refused: {failure.kind}"
    return "compiled"


def run(count: int, seed: int) -> tuple[collections.Counter[str], list[str]]:
    """Counts of what became of the mutants, and those of which something untyped came, with what it was."""
    counts: collections.Counter[str] = collections.Counter()
    bad: list[str] = []
    for number, text in enumerate(mutants(count, seed)):
        options = api.CompileOptions(unsupported_types="fallback" if number % 2 else "fail")
        try:
            counts[outcome(text, options)] += 1
        except (Exception, Hang) as error:  # noqa: BLE001  that is what is looked for
            counts["untyped"] += 1
            bad.append(f"{type(error).__name__}: {error}\n{text}")
    return counts, bad


def main() -> int:
    """Prints the counts; exit code 1 where anything untyped came."""
    parser = argparse.ArgumentParser(prog="python -m opscope.compiler.tests.mutations", description=main.__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not programs.has_conformance():
        print("no stablehlo_cases.zip beside the checkout: there is nothing to change")
        return 0
    counts, bad = run(options.count, options.seed)
    for outcome, number in counts.most_common():
        print(f"{number:6} {outcome}")
    for text in bad[:5]:
        print(f"--- untyped\n{text}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""Which releases of JAX this project takes, what is known to be wrong in them, and the flags that mend it.

Goldens and import checks stand on XLA's compiler for the processor, which errs like any other. Whoever makes them has
it compile with `OPTIONS`; what a backend is tested with is the user's own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError

from opscope.base.plugins import version

PACKAGES = ("jax", "jaxlib")
FIRST, BEFORE = "0.10.1", "0.13"
"""The releases that pyproject.toml takes: from the first to below the second."""

OPTIONS: dict[str, str] = {"xla_cpu_experimental_ynn_fusion_type": ""}
"""XLA's options for goldens and checks of imports. Every release that is taken knows them.

No op goes to the library YNNPACK: releases without it by default were right where those with it were not.
"""

_FUSION_EMITTERS = "xla_cpu_use_fusion_emitters"
_WITH_FUSION_EMITTERS = "0.7.1", "0.11.0"
"""The first and the last release of jaxlib known to take that option: others refuse what is compiled with it."""

XLA_FLAGS = "XLA_FLAGS"


@dataclass(frozen=True)
class KnownBug:
    """Something that a release computes wrongly, or not at all."""

    first: str
    last: str
    """The last release that is known to have it; empty if none is known without it."""
    what: str
    source: str
    mended_by: str = ""
    """The option of `OPTIONS`, or what else, that keeps it out of goldens; empty if nothing does."""
    shows: str = ""
    """How it shows itself."""
    package: str = "jaxlib"

    def is_in(self, release: str) -> bool:
        """Whether a release of its package has it."""
        return number(self.first) <= number(release) and (not self.last or number(release) <= number(self.last))


_YNN = "xla_cpu_experimental_ynn_fusion_type"
_SECOND = "a second authority"
_WIDER = "goldens, which are computed in f32"
_TT, _TT_BUILD = "jax-tt-plugin", "shown with 0.1.0 to 0.1.3 for n150, 2026-11"
_WRONG, _CRASH, _REFUSED = "wrong numbers", "the process ends", "an error of the compiler"
KNOWN_BUGS = (
    KnownBug("0.10.2", "0.10.2", "a product, squared and summed, is wrong in its last row", "jax#39103", _YNN, _WRONG),
    KnownBug(
        "0.10.2",
        "0.11.0",
        "multiply and reduce of rank 7 and 8 crashes or does not end",
        "jax#39257",
        _YNN,
        "the process ends, or no end within the time limit",
    ),
    KnownBug(
        "0.10.2", "0.10.2", "multiply and reduce of rank 7 with a dim of size 1 crashes", "jax#40412", _YNN, _CRASH
    ),
    KnownBug(
        "0.10.1",
        "0.10.2",
        "the largest or smallest of 4,096 f32 or more misses a NaN",
        "shown with jaxlib 0.10.1 (of 65,536) and 0.10.2, 2026-11",
        _YNN,
        _WRONG,
    ),
    KnownBug(
        "0.10.2",
        "0.10.2",
        "popcnt of i4 and i2 counts copies of the sign; powers of integers are wrong for exponents from 64 on",
        "shown with jaxlib 0.10.2, 2026-11",
        _SECOND,
        _WRONG,
    ),
    KnownBug("0.5.3", "", "log_plus_one of f64 is off by up to 128 ulp", "jax#39707", _SECOND, _WRONG),
    KnownBug(
        "0.9.1",
        "0.10.1",
        "log_plus_one of f16 is off by up to 1.9 ulp",
        "shown with jaxlib 0.9.1 to 0.10.1, not with 0.10.2, 2026-11",
        _WIDER,
        _WRONG,
    ),
    KnownBug(
        "0.10.2",
        "",
        "a scatter of several equal operands gives result 0 for all, and writes into its indices",
        "xla#29362; the indices: shown with jaxlib 0.10.2 alone",
        _SECOND,
        _WRONG,
    ),
    KnownBug(
        "0.1.0",
        "0.1.0",
        "its system descriptor has other tables, which nobody here can write",
        _TT_BUILD,
        shows="the process ends (SIGSEGV) when the client is made",
        package=_TT,
    ),
    KnownBug("0.1.0", "0.1.1", "reduce_precision", _TT_BUILD, shows=_REFUSED, package=_TT),
    KnownBug(
        "0.1.0", "0.1.2", "bitcast_convert, stablehlo.dot, stablehlo.broadcast", _TT_BUILD, shows=_REFUSED, package=_TT
    ),
    KnownBug(
        "0.1.0",
        "",
        "select_and_scatter with an initial value that is no constant of its module",
        _TT_BUILD,
        shows="the process ends (LLVM ERROR: initValue_ must be a stablehlo.constant)",
        package=_TT,
    ),
    KnownBug(
        "0.1.0",
        "",
        "triangular_solve, cholesky, rng, fft RFFT, if, map, and reduce of an index with its value",
        _TT_BUILD,
        shows="Failed to convert from SHLO to TTIR module",
        package=_TT,
    ),
    *(
        KnownBug(first, "", what, f"shown with {first} and later, 2026-11", shows=shows, package=package)
        for package, first, shows, what in (
            ("iree-base-compiler", "3.11.0", _WRONG, "add of truth values is their exclusive or"),
            ("iree-base-compiler", "3.11.0", _REFUSED, "triangular_solve, cholesky and batch_norm_grad"),
            ("onnxruntime", "1.31.0", "NOT_IMPLEMENTED", "Where of booleans, Max of int16, ReduceMax of uint32"),
            ("openvino", "2026.3.1", _WRONG, "erf of small float32 is off by up to 7 of 10,000"),
            ("openvino", "2026.3.1", _WRONG, "subtract and shift_left of uint8 stop at the type's limits"),
            ("openvino", "2026.3.1", _WRONG, "a pad whose value is an input"),
            ("apache-tvm", "0.26.0", _WRONG, "tanh of small float16 is 0; atanh of small float32"),
            ("apache-tvm", "0.26.0", _REFUSED, "inverse and hyperbolic functions of float16, Equal of booleans"),
            ("torch", "2.13.0", _WRONG, "compiled erf, atanh and expm1 of small float32; eager ones are right"),
        )
    ),
)
"""What releases of compilers are known to do wrong. Sources are issues of jax-ml/jax and openxla/xla, or what was seen
here."""


def number(release: str) -> tuple[int, ...]:
    """`(0, 10, 2)` of `0.10.2.dev3`."""
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", release, maxsplit=1)[0]))


def quick_options(release: str = "") -> dict[str, bool]:
    """XLA's options for what is compiled quickly and runs once, as a release of jaxlib knows them (the installed one).

    MLIR's pipeline for loops takes three times as long to compile as the emitter that it replaces.
    """
    first, last = map(number, _WITH_FUSION_EMITTERS)
    known = first <= number(release or version("jaxlib")) <= last
    return {_FUSION_EMITTERS: False} if known else {}


def flags() -> str:
    """XLA_FLAGS with which goldens are made: those of this process, and after them ours, which win."""
    ours = [f"--{name}={value}" for name, value in OPTIONS.items()] if _knows_options() else []
    theirs = os.environ.get(XLA_FLAGS, "").split()
    return " ".join([*(flag for flag in theirs if flag not in ours), *ours])


def _knows_options() -> bool:
    """Whether this process's jaxlib is one of the releases that know them: an older one ends at flags that it does not
    know."""
    try:
        return number(version("jaxlib")) >= number(FIRST)
    except PackageNotFoundError:
        return True


def use_flags() -> None:
    """Has all that this process compiles follow `flags`. XLA reads them when it is first asked for something."""
    os.environ[XLA_FLAGS] = flags()


def notes(installed: Callable[[str], str] = version, author: str = "") -> Iterator[str]:
    """One line for a release that is not taken, and one for each known bug that nothing keeps out of goldens.

    `author` is the release of jaxlib that makes goldens, where it is not the installed one.
    """
    for package in PACKAGES:
        try:
            release = installed(package)
        except PackageNotFoundError:
            continue
        if not author and not number(FIRST) <= number(release) < number(BEFORE):
            yield (
                f"{package}: expected {FIRST} or newer, below {BEFORE}, got {release}: goldens may be missing or "
                f"wrong; try pip install 'jax>={FIRST},<{BEFORE}' 'jaxlib>={FIRST},<{BEFORE}'"
            )
    try:
        release = author or installed("jaxlib")
    except PackageNotFoundError:
        return
    for bug in KNOWN_BUGS:
        if bug.package == "jaxlib" and bug.is_in(release) and not bug.mended_by:
            yield f"jaxlib {release}, which makes goldens, is known to be wrong: {bug.what} ({bug.source})"


def known_bugs(installed: Callable[[str], str] = version) -> Iterator[tuple[str, KnownBug]]:
    """Each known bug of a compiler that is installed, with its release."""
    for package in dict.fromkeys(bug.package for bug in KNOWN_BUGS):
        try:
            release = installed(package)
        except PackageNotFoundError:
            continue
        yield from ((release, bug) for bug in KNOWN_BUGS if bug.package == package and bug.is_in(release))

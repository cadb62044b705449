"""Ops that this compiler lowers and a build of tt-mlir refuses, with the build's name and its own words.

Tried with the 1,677 unique ops of eight models and `suite:ops`, board n150, optimization level 0; `opscope ops
--against-backend` tries them again.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """One form of an op that a build refuses."""

    op: str
    """The StableHLO op."""
    form: str
    """Which of its forms; empty for all that were tried."""
    reason: str
    """What the build says."""
    cases: int
    """How many of the unique ops it refused so."""
    crashes: bool = False
    """Whether the process ends of it, instead of an error."""

    def __str__(self) -> str:
        form = f" ({self.form})" if self.form else ""
        return f"{BUILD} {'crashes' if self.crashes else 'refuses'}{form}: {self.reason}"


BUILD = "jax-tt-plugin 0.1.3"
"""The build that was asked: a third party's, of a patched tt-mlir."""


def _not_legal(op: str, cases: int, form: str = "") -> Refusal:
    return Refusal(op, form, f"failed to legalize operation '{op}'", cases)


REFUSALS = (
    _not_legal("stablehlo.cholesky", 1),
    Refusal("stablehlo.fft", "", "failed to legalize unresolved materialization from complex numbers to pairs", 1),
    _not_legal("stablehlo.if", 1),
    _not_legal("stablehlo.map", 1),
    _not_legal("stablehlo.reduce", 12, "values and their positions, as argmax reduces them"),
    _not_legal("stablehlo.rng", 2),
    Refusal(
        "stablehlo.select_and_scatter",
        "a start value that is no constant",
        "LLVM ERROR: initValue_ must be a stablehlo.constant",
        1,
        crashes=True,
    ),
    _not_legal("stablehlo.triangular_solve", 8),
)
"""In alphabetical order; `fft` is refused here as well."""


def refusals(op: str) -> tuple[Refusal, ...]:
    """Returns the refusals of an op, by its full name."""
    return tuple(refusal for refusal in REFUSALS if refusal.op == op)

"""Who is asked about a golden beside XLA and NumPy in float64 (formulas.py). Imports nothing that computes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

_HERE = "opscope.harness.prepare.authorities"


@dataclass(frozen=True)
class Voice:
    """One authority beside XLA, whose goldens are questioned."""

    by: str
    """How records name it."""
    code: str
    """The backend whose code it is: on its results it is no voice."""
    module: str
    """The module whose `computed(row, module, inputs)` is called in a child, with what makes it raise NoAnswerError."""
    package: str = ""
    """The package that it needs, beside what opscope needs."""
    only: str = ""
    """The one op that it takes."""
    exact: bool = False
    """Whether there is one right answer, which it gives: it decides alone."""

    @property
    def version(self) -> str | None:
        """The version of its package; None if that is not installed, empty if it needs none."""
        try:
            return metadata.version(self.package) if self.package else ""
        except metadata.PackageNotFoundError:
            return None


VOICES = (
    Voice("NumPy's comparison of all pairs", "numpy", f"{_HERE}.sorts", only="stablehlo.sort", exact=True),
    Voice("StableHLO's interpreter", "stablehlo-interpreter", f"{_HERE}.interpreted"),
    Voice("IREE", "iree", "opscope.harness.backends.as_authority", package="iree-base-compiler"),
)
"""The authorities that compute in a child, the cheapest first. Before them NumPy in float64 is asked (formulas.py)."""


def present() -> str:
    """The voices that are installed here, with their versions."""
    return ", ".join(f"{voice.by} {voice.version}".strip() for voice in VOICES if voice.version is not None)

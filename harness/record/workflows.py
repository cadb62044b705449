"""The workflows: which part of a model goes through the stages. One row each.

split                 each op of the StableHLO module, compiled and run by itself
compile-split         the model compiled whole; each op of its TTNN run by itself
split-compile-split   each op of the StableHLO module compiled; each op of its TTNN run by itself
full                  the whole model compiled and run as one program, every value on the way compared
"""

from __future__ import annotations

from dataclasses import dataclass

SPLIT, COMPILE_SPLIT, SPLIT_COMPILE_SPLIT, FULL = "split", "compile-split", "split-compile-split", "full"


@dataclass(frozen=True)
class Workflow:
    """One way of taking a model through the stages."""

    unsupported_types: str
    """Default of `unsupported_types`. In a model that runs whole, the host computes ops of types that the device lacks;
    an op by itself fails, so that the ladder stays honest."""
    patience: int = 1
    """Factor from the time limit of one op to that of a row."""
    of_ttnn: bool = False
    """Whether the rows are TTNN ops that the compiler produced."""


WORKFLOWS = {
    SPLIT: Workflow("fail"),
    COMPILE_SPLIT: Workflow("fallback", of_ttnn=True),
    SPLIT_COMPILE_SPLIT: Workflow("fail", of_ttnn=True),
    FULL: Workflow("fallback", patience=10),
}

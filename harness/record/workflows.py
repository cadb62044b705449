"""The workflows: which part of a model goes through the stages. One row each."""

from __future__ import annotations

from dataclasses import dataclass

from opscope.harness.record.errors import InputError, closest

SPLIT, COMPILE_SPLIT, SPLIT_COMPILE_SPLIT, FULL = "split", "compile-split", "split-compile-split", "full"
WINDOWS, PATTERNS, LAYERS = "windows", "patterns", "layers"


@dataclass(frozen=True)
class Workflow:
    """One way of taking a model through the stages."""

    rows: str
    """What each row of a run is."""
    golden: str
    """What it is compared with."""
    unsupported_types: str
    """Default of `unsupported_types`. In a model that runs whole, the host computes ops of types that the device lacks;
    an op by itself fails, so that the ladder stays honest."""
    patience: int = 1
    """Factor from the time limit of one op to that of a row."""
    of_ttnn: bool = False
    """Whether the rows are TTNN ops that the compiler produced."""
    of_pieces: bool = False
    """Whether the rows are pieces of the model, several ops each."""
    size: int = 0
    """How many ops a piece has, unless the workflow's name says how many; 0 where that is no number."""

    @property
    def derived(self) -> bool:
        """Whether the rows are made of the models' exports, in export folders of their own."""
        return self.of_ttnn or self.of_pieces


WORKFLOWS = {
    SPLIT: Workflow("a unique op of the StableHLO module, by itself", "XLA's evaluation of the split ops", "fail"),
    COMPILE_SPLIT: Workflow(
        "an op of the TTNN that the model was compiled to, by itself",
        "XLA's result of the equivalent StableHLO op, on its inputs",
        "fallback",
        of_ttnn=True,
    ),
    SPLIT_COMPILE_SPLIT: Workflow(
        "an op of the TTNN of each unique StableHLO op, compiled by itself", "the same", "fail", of_ttnn=True
    ),
    FULL: Workflow(
        "the model, compiled and run as one program",
        "the evaluation's final outputs, and each of its values on the way",
        "fallback",
        patience=10,
    ),
    WINDOWS: Workflow(
        "an op of the StableHLO module together with the N - 1 producers nearest to it (`windows`: 4)",
        "the evaluation's values where they leave the piece",
        "fail",
        of_pieces=True,
        size=4,
    ),
    PATTERNS: Workflow(
        "what compilers fuse: softmax, norms, attention, products of one value, ...", "the same", "fail", of_pieces=True
    ),
    LAYERS: Workflow(
        "a layer of the model, by the numbered scopes of its source", "the same", "fail", patience=5, of_pieces=True
    ),
}
LARGEST = 64
"""The most ops of a piece that a name may ask for."""


def workflow(name: str) -> Workflow:
    """The row of a workflow by its name, `windows:4`."""
    return WORKFLOWS[name.partition(":")[0]]


def ops_in_a_piece(name: str) -> int:
    """How many ops a workflow's name asks for in a piece: 4 of `windows:4`; 0 of one without a number."""
    kind, _, number = name.partition(":")
    return int(number) if number else WORKFLOWS[kind].size


def full_name(name: str) -> str:
    """The name with the number that it leaves out: `windows:4` of `windows`. Raises InputError, without a place, for a
    word that names no workflow."""
    kind, colon, number = name.partition(":")
    row = WORKFLOWS.get(kind)
    if row is None or (colon and not row.size):
        words = [f"{word}:N" if WORKFLOWS[word].size else word for word in WORKFLOWS]
        raise InputError("", f"one of {', '.join(words)}", repr(name), closest(kind, list(WORKFLOWS)))
    if not row.size:
        return name
    size = number if colon else str(row.size)
    if not (size.isascii() and size.isdigit() and 2 <= int(size) <= LARGEST):
        raise InputError("", f"{kind}:N with N from 2 to {LARGEST}", repr(name), f"{kind}:{row.size}")
    return f"{kind}:{int(size)}"

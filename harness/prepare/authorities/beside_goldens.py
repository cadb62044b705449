"""What is kept beside a golden: how large the terms of its sums are, and what a second authority says of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.op_families import op_family
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.cache.export_folder import VALUES
from opscope.harness.prepare import golden, operand_sizes
from opscope.harness.prepare.authorities import ask, formulas, known_wrong
from opscope.harness.prepare.program import SingleOp
from opscope.harness.record.element_types import byte_size, save
from opscope.harness.record.records import OpRow, SecondAuthority, Source
from opscope.harness.record.signature import shorten

ONLY_XLA = frozenset({"custom", "collective", "random", "control"})
"""Families of which no other authority has results: foreign code, several devices, own random numbers, loops."""


def term_sizes(
    op: SingleOp, executable: golden.Executable, buffers: Sequence[Any], most_bytes: int, part: str = ""
) -> dict[str, np.ndarray]:
    """The sizes of the terms that an op's results are sums of, by the file that keeps them. `part` names which of
    several sets of operands these are. Empty for an op that adds nothing up, and for operands above `most_bytes`: these
    are measured by the lane, where its verdict needs it.
    """
    if not operand_sizes.sums_terms(op.op_name, op.op_params.get("body")):
        return {}
    if sum(byte_size(desc.shape, desc.data_type) for desc in op.inputs) > most_bytes:
        return {}
    try:
        sizes = operand_sizes.root_sizes(op.op_name, executable, [golden.view(buffer) for buffer in buffers])
    except golden.GoldenError:
        return {}  # XLA had a golden: the lane says what is wrong with the squares
    return {f"{VALUES}/{op.op_id}{part}.terms{n}.npy": operand_sizes.stored(array) for n, array in enumerate(sizes)}


def by_formula(form: known_wrong.KnownWrong) -> SecondAuthority:
    """What is said of an op whose golden is a formula's."""
    text = f"golden by {formulas.BY}: {form.what} ({form.source})"
    return SecondAuthority(by=formulas.BY, values=(), text=text)


def by_another(op: SingleOp, row: OpRow, inputs: Sequence[np.ndarray], why: str) -> tuple[Any, ...] | str:
    """The results of an op for which XLA has none, and who says so; or why nobody else has them.

    `row` is what the split knows of it, and `why` what XLA says.
    """
    if op_family(op.op_name) in ONLY_XLA:
        return why
    with TemporaryFolder("golden") as folder:
        paths = [f"{number}.npy" for number in range(len(inputs))]
        for path, array in zip(paths, inputs, strict=True):
            save(Path(folder, path), array)
        Path(folder, "op.mlirbc").write_bytes(op.bytecode)
        sources = tuple(Source(kind="captured", path=path) for path in paths)
        answer = ask.ask(row.model_copy(update={"sources": sources, "module": "op.mlirbc"}), Path(folder), None)
    if answer.refusal:
        return f"{why}; {answer.refusal}"
    second = SecondAuthority(by=answer.by, values=(), text=f"golden by {answer.by}: {why}")
    return second, *answer.values


def second_authority(row: OpRow, form: known_wrong.KnownWrong, folder: Path, part: str = "") -> SecondAuthority:
    """Has a second authority compute an op whose golden is known to be wrong, and stores what it gives beside the
    golden, where the lane compares them. `part` names which of several sets of operands these are."""
    try:
        answer = ask.ask(row, folder, None)
    except (OSError, ValueError, MemoryError) as error:  # the golden is there all the same
        answer = ask.Answer("", refusal=shorten(str(error), 200) or type(error).__name__)
    paths = tuple(f"{VALUES}/{row.op_id}{part}.second{number}.npy" for number in range(len(answer.values)))
    for path, array in zip(paths, answer.values, strict=True):
        save_anew(folder / path, array)
    return SecondAuthority(by=answer.by, values=paths, text=answer.none or f"{form.what} ({form.source})")


def save_anew(path: Path, array: np.ndarray) -> None:
    """Writes an array. One that a walk has written which died is replaced as a whole: a lane may read it."""
    if path.exists():
        again = path.with_suffix(".again")
        with again.open("wb") as file:
            save(file, array)
        again.replace(path)
    else:
        save(path, array)

"""Checks that the disk has room for the values of a model, before the first is computed."""

from __future__ import annotations

import shutil
from pathlib import Path

from opscope.harness.cache.upkeep import readable
from opscope.harness.prepare.operand_sizes import sums_terms
from opscope.harness.prepare.program import Node, SingleOp, SplitModule
from opscope.harness.prepare.walk import Limits
from opscope.harness.record.element_types import TERM_SIZES, byte_size
from opscope.harness.record.errors import InputError


def stored_bytes(split: SplitModule, limits: Limits, *, random: bool = False) -> int:
    """Bytes of the inputs and goldens that a walk over a module stores, each once.

    Counts also values that turn out to be missing, but not the model's arguments, which are drawn again.
    """
    first: dict[str, Node] = {}
    for node in split.program.walk():
        if node.kind == "op":
            first.setdefault(node.op_id, node)
    arguments = set(split.program.arguments)

    def size(value: int) -> int:
        desc = split.values[value]
        count = byte_size(desc.shape, desc.data_type)
        return count if count <= limits.tensor_bytes else 0

    measured = sum(_term_bytes(split.ops[op_id], limits) for op_id in first)
    if random:
        return measured + sum(size(value) for node in first.values() for value in node.outputs)
    stored = {value for node in first.values() for value in (*node.inputs, *node.outputs)}
    # The final outputs are stored a second time, for a run of the model as a whole.
    return measured + sum(size(value) for value in (*(stored - arguments), *split.program.results))


def _term_bytes(op: SingleOp, limits: Limits) -> int:
    """Bytes of the sizes of its terms that the walk keeps beside the golden of a sum."""
    operands = sum(byte_size(desc.shape, desc.data_type) for desc in op.inputs)
    if not sums_terms(op.op_name, op.op_params.get("body")) or operands > limits.measured_bytes:
        return 0
    return sum(byte_size(desc.shape, TERM_SIZES) for desc in op.outputs)


def check(split: SplitModule, limits: Limits, folder: Path, model: str, *, random: bool = False) -> None:
    """Raises InputError if what the walk will store does not fit on the disk of `folder`."""
    needed, free = stored_bytes(split, limits, random=random), shutil.disk_usage(folder).free
    if needed > free:
        expected = f"{readable(needed)} free on the disk of {folder.parent} for its inputs and goldens"
        hint = "opscope clean --max-cache SIZE, another OPSCOPE_CACHE_DIR, or --inputs random"
        raise InputError(f"--model {model}", expected, f"{readable(free)} free", hint)

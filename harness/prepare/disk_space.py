"""Checks that the disk has room for the values of a model, before the first is computed."""

from __future__ import annotations

import shutil
from pathlib import Path

from opscope.harness.cache.upkeep import readable
from opscope.harness.prepare.program import Node, SplitModule
from opscope.harness.prepare.walk import Limits
from opscope.harness.record.element_types import byte_size
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

    if random:
        return sum(size(value) for node in first.values() for value in node.outputs)
    stored = {value for node in first.values() for value in (*node.inputs, *node.outputs)}
    # The final outputs are stored a second time, for a run of the model as a whole.
    return sum(size(value) for value in (*(stored - arguments), *split.program.results))


def check(split: SplitModule, limits: Limits, folder: Path, model: str, *, random: bool = False) -> None:
    """Raises InputError if what the walk will store does not fit on the disk of `folder`."""
    needed, free = stored_bytes(split, limits, random=random), shutil.disk_usage(folder).free
    if needed > free:
        expected = f"{readable(needed)} free on the disk of {folder.parent} for its inputs and goldens"
        hint = "opscope clean --max-cache SIZE, another OPSCOPE_CACHE_DIR, or --inputs random"
        raise InputError(f"--model {model}", expected, f"{readable(free)} free", hint)

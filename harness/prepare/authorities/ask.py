"""Asks a second authority for the results of one op: a formula here, the interpreter in a child, which it may end.

What the interpreter says is kept in the cache. Its key holds the op, its inputs' sources and what its golden holds, so
that it is asked once per golden.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import stored
from opscope.base.children.call import call
from opscope.base.children.inside import Parent
from opscope.base.digest import json_digest
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.cache import export_folder
from opscope.harness.cache.json_store import JsonStore
from opscope.harness.prepare.authorities import formulas
from opscope.harness.prepare.inputs import row_golden, row_inputs
from opscope.harness.record.element_types import load, save
from opscope.harness.record.records import OpRow

if TYPE_CHECKING:
    import numpy as np

INTERPRETER = "StableHLO's interpreter"
FOLDER = "authorities"
"""The subfolder of the cache folder."""
SECONDS = 60.0
"""How long a child may take that computes what was estimated at ten seconds."""
MOST_KEPT = 16 << 20
"""Bytes of results above which an answer is computed again where it is needed again."""


@dataclass(frozen=True)
class Answer:
    """What a second authority computed for an op."""

    by: str
    values: tuple[np.ndarray, ...] = ()
    refusal: str = ""
    """Why there are no values."""

    @property
    def none(self) -> str:
        """Why there is no second authority, for a record; empty if there is one."""
        return f"no second authority: {self.refusal}" if self.refusal else ""


def ask(row: OpRow, export_dir: Path, cache_dir: Path | None) -> Answer:
    """The answer of the first authority that takes an op, of whose row module, inputs and golden are in `export_dir`.

    Raises Damaged, OSError or ValueError where these cannot be read.
    """
    if row.module is None or row.level != "stablehlo" or row.shards or (row.inputs and not row.sources):
        return Answer("", refusal="only single ops of StableHLO with inputs have one")
    if formulas.has_formula(row) and formulas.steps(row) <= formulas.MOST_STEPS:
        return Answer(formulas.BY, tuple(formulas.computed(row, row_inputs(row, export_dir))))
    store = JsonStore(cache_dir / FOLDER) if cache_dir is not None else None
    key = _key(row, row_golden(row, export_dir))
    if store is not None and (kept := _kept(store, key, row)) is not None:
        return kept
    with TemporaryFolder("authority") as folder:
        task = {"row": row.model_dump(mode="json"), "export_dir": str(Path(export_dir).absolute()), "folder": folder}
        outcome = call("opscope.harness.prepare.authorities.ask:computed", task, seconds=SECONDS)
        if outcome.result is None:
            return Answer(INTERPRETER, refusal=f"{INTERPRETER} gave no answer: {outcome.ending.text}")
        values = [
            load(Path(folder, name), desc.shape, desc.data_type)
            for name, desc in zip(outcome.result["names"], row.outputs, strict=False)
        ]
    answer = Answer(INTERPRETER, tuple(values), outcome.result["refusal"])
    if store is not None and sum(value.nbytes for value in values) <= MOST_KEPT:
        arrays = [base64.b64encode(value.tobytes()).decode() for value in values]
        store.put(key, {"refusal": answer.refusal, "values": arrays})
    return answer


def _key(row: OpRow, golden: Sequence[np.ndarray]) -> str:
    return json_digest(
        {
            "op": row.op_id,
            "sources": [source.model_dump(exclude={"path"}) for source in row.sources],
            "provenance": row.provenance,
            "golden": [stored.digest(value.tobytes()) for value in golden],
            "code": export_folder.sources_digest(),
        },
        digits=32,
    )


def _kept(store: JsonStore, key: str, row: OpRow) -> Answer | None:
    """The answer that is kept; None if there is none of this shape."""
    import numpy as np

    from opscope.harness.record.element_types import numpy_dtype

    entry = store.get(key)
    try:
        if entry is None:
            return None
        values = [
            np.frombuffer(base64.b64decode(text), numpy_dtype(desc.data_type)).reshape(desc.shape)
            for text, desc in zip(entry["values"], row.outputs, strict=False)
        ]
        return Answer(INTERPRETER, tuple(values), str(entry["refusal"]))
    except (KeyError, TypeError, ValueError):
        return None


def computed(parent: Parent) -> dict[str, Any]:
    """The child: files with the results in the `folder` of the task, or why there are none."""
    from opscope.harness.prepare.authorities import interpreted

    task = parent.task()
    row, export_dir = OpRow.model_validate(task["row"]), Path(task["export_dir"])
    try:
        module = stored.checked(export_dir, row.module or "").read_bytes()
        values = interpreted.computed(row, module, row_inputs(row, export_dir))
    except interpreted.NoAnswerError as reason:
        return {"names": [], "refusal": str(reason)}
    names = [f"{number}.npy" for number in range(len(values))]
    for name, value in zip(names, values, strict=True):
        save(Path(task["folder"], name), value)
    return {"names": names, "refusal": ""}

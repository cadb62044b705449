"""Asks other authorities than XLA for the results of one op: a formula here, the others in a child, which they may end.

What these say is kept in the cache. Its key holds the op, its inputs' sources and what its golden holds, so that each
is asked once per golden.
"""

from __future__ import annotations

import base64
import importlib
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import stored
from opscope.base.children.call import call
from opscope.base.children.inside import Parent
from opscope.base.digest import json_digest
from opscope.base.op_families import TO_THE_LAST_BIT
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.cache import export_folder
from opscope.harness.cache.json_store import JsonStore
from opscope.harness.prepare.authorities import formulas
from opscope.harness.prepare.authorities.voices import VOICES, Voice
from opscope.harness.prepare.inputs import row_golden, row_inputs
from opscope.harness.record.element_types import load, save
from opscope.harness.record.records import OpRow

if TYPE_CHECKING:
    import numpy as np

FOLDER = "authorities"
"""The subfolder of the cache folder."""
SECONDS = 60.0
"""How long a child may take that computes what was estimated at ten seconds."""
MOST_ELEMENTS = 1 << 20
"""Elements of operands and results that are computed at most."""
MOST_KEPT = 16 << 20
"""Bytes of results above which an answer is computed again where it is needed again."""


@dataclass(frozen=True)
class Answer:
    """What an authority computed for an op."""

    by: str
    values: tuple[np.ndarray, ...] = ()
    refusal: str = ""
    """Why there are no values."""
    exact: bool = False
    """Whether there is one right answer, which this is."""

    @property
    def none(self) -> str:
        """Why there is no second authority, for a record; empty if there is one."""
        return f"no second authority: {self.refusal}" if self.refusal else ""


def ask(row: OpRow, export_dir: Path, cache_dir: Path | None) -> Answer:
    """The answer of the first authority that has one; else why nobody has. Raises as `answers`."""
    refusals = []
    for answer in answers(row, export_dir, cache_dir):
        if not answer.refusal:
            return answer
        refusals.append(answer.refusal)
    return Answer("", refusal="; ".join(refusals))


def answers(row: OpRow, export_dir: Path, cache_dir: Path | None, accused: Collection[str] = ()) -> Iterator[Answer]:
    """What the authorities on an op say, one after another, the cheapest first; each may refuse. `accused` names the
    backend in question and those whose code it is, none of which is asked about itself.

    Module and inputs of the row are in `export_dir`, and its golden, if it has one. Raises Damaged, OSError or
    ValueError where these cannot be read.
    """
    if row.module is None or row.level != "stablehlo" or row.shards or (row.inputs and not row.sources):
        yield Answer("", refusal="only single ops of StableHLO with inputs have one")
        return
    if formulas.has_formula(row) and formulas.steps(row) <= formulas.MOST_STEPS:
        values = tuple(formulas.computed(row, row_inputs(row, export_dir)))
        yield Answer(formulas.BY, values, exact=row.op_name in TO_THE_LAST_BIT or formulas.of_integers(row))
    store = JsonStore(cache_dir / FOLDER) if cache_dir is not None else None
    for voice in VOICES:
        if voice.code not in accused and voice.only in ("", row.op_name) and voice.version is not None:
            yield _asked(voice, row, export_dir, store)


def _asked(voice: Voice, row: OpRow, export_dir: Path, store: JsonStore | None) -> Answer:
    """The answer of one voice, kept or computed in a child."""
    key = _key(voice, row, row_golden(row, export_dir))
    if store is not None and (kept := _kept(voice, store, key, row)) is not None:
        return kept
    with TemporaryFolder("authority") as folder:
        task = {
            "row": row.model_dump(mode="json"),
            "export_dir": str(Path(export_dir).absolute()),
            "folder": folder,
            "module": voice.module,
        }
        outcome = call("opscope.harness.prepare.authorities.ask:computed", task, seconds=SECONDS)
        if outcome.result is None:
            return Answer(voice.by, refusal=f"{voice.by} gave no answer: {outcome.ending.text}")
        values = [
            load(Path(folder, name), desc.shape, desc.data_type)
            for name, desc in zip(outcome.result["names"], row.outputs, strict=False)
        ]
    reason = outcome.result["refusal"]
    answer = Answer(voice.by, tuple(values), f"{voice.by}: {reason}" if reason else "", voice.exact)
    if store is not None and sum(value.nbytes for value in values) <= MOST_KEPT:
        arrays = [base64.b64encode(value.tobytes()).decode() for value in values]
        store.put(key, {"refusal": answer.refusal, "values": arrays})
    return answer


def _key(voice: Voice, row: OpRow, golden: Sequence[np.ndarray]) -> str:
    return json_digest(
        {
            "voice": (voice.by, voice.version),
            "op": row.op_id,
            "sources": [source.model_dump(exclude={"path"}) for source in row.sources],
            "provenance": row.provenance,
            "golden": [stored.digest(value.tobytes()) for value in golden],
            "code": export_folder.sources_digest(),
        },
        digits=32,
    )


def _kept(voice: Voice, store: JsonStore, key: str, row: OpRow) -> Answer | None:
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
        return Answer(voice.by, tuple(values), str(entry["refusal"]), voice.exact)
    except (KeyError, TypeError, ValueError):
        return None


def computed(parent: Parent) -> dict[str, Any]:
    """The child: files with the results in the `folder` of the task, or why there are none."""
    from opscope.harness.prepare.authorities import interpreted

    task = parent.task()
    row, export_dir = OpRow.model_validate(task["row"]), Path(task["export_dir"])
    try:
        module = stored.checked(export_dir, row.module or "").read_bytes()
        inputs = row_inputs(row, export_dir)
        if (elements := sum(math.prod(desc.shape) for desc in (*row.inputs, *row.outputs))) > MOST_ELEMENTS:
            raise interpreted.NoAnswerError(
                f"too large ({elements:,} elements, at most {MOST_ELEMENTS:,} are computed)"
            )
        values = importlib.import_module(task["module"]).computed(row, module, inputs)
    except interpreted.NoAnswerError as reason:
        return {"names": [], "refusal": str(reason)}
    names = [f"{number}.npy" for number in range(len(values))]
    for name, value in zip(names, values, strict=True):
        save(Path(task["folder"], name), value)
    return {"names": names, "refusal": ""}

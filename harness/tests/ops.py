"""Small runs for the tests: rows whose files lie in a folder, as an export would leave them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from opscope.harness.backends.base import Backend, Job
from opscope.harness.record.records import OpRow, Source, TensorDesc, Use

BACKENDS = Path(__file__).parent / "faulty_backends"
"""Backends that fail, spoil their worker or hide things, each a file."""
FAULTY = str(BACKENDS / "faulty.py")
DESC = TensorDesc(shape=(4, 8), data_type="f32")


def add_row(folder: Path, op_id: str, module: bytes = b"fine", *, golden: bool = True, uses: int = 1) -> OpRow:
    """An addition of two seeded inputs; `module` is all that the faulty backend reads."""
    for sub in ("ops", "values"):
        (folder / sub).mkdir(parents=True, exist_ok=True)
    (folder / "ops" / f"{op_id}.mlirbc").write_bytes(module)
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((4, 8), dtype=np.float32) for _ in range(2))
    for name, value in (("left", left), ("right", right), ("sum", left + right)):
        np.save(folder / "values" / f"{name}.npy", value)
    return OpRow(
        op_id=op_id,
        op_name="stablehlo.add",
        module=f"ops/{op_id}.mlirbc",
        inputs=(DESC, DESC),
        outputs=(DESC,),
        sources=tuple(Source(kind="captured", path=f"values/{name}.npy") for name in ("left", "right")),
        golden=("values/sum.npy",) if golden else (),
        no_golden="" if golden else "XLA could not run it",
        uses=tuple(Use(model="toy", path=f"main/{n}", location=f"layer (toy.py:{n})") for n in range(uses)),
        provenance="captured:toy:0:main/0",
    )


def climbed(backend: Backend, job: Job) -> Job:
    """The job after all stages of a backend."""
    for stage in backend.stages:
        backend.climb(stage, job)
    return job


NOTHING_READ: dict[str, Any] = {
    "files": {},
    "folders": {},
    "searched": {},
    "links": {},
    "variables": [],
    "programs": [],
    "changed": [],
    "patterns": [],
    "sites": [],
    "place": False,
}
"""What a child says that has read nothing."""

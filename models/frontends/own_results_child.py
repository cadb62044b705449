"""Runs a model in its own framework in a process of its own, on values that the golden walk names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.children.inside import Parent
from opscope.base.slots import take_one
from opscope.models import frontends
from opscope.models.arguments import ArgSpec
from opscope.models.frontends import child, own_results
from opscope.models.seeding import draw, dtype_of


def run(parent: Parent) -> None:
    """Computes a model's own results in a process of its own.

    The task: `framework`, the fields of `base.Source`, `module` (the exporter's folder), `folder` (where to write),
    `cap` (bytes), and `sources`, one for each argument: `path` of a file, or `law`, `seed` and `index` of a draw. With
    `slots` it works in one of these.
    """
    task = parent.task()
    take_one(task.pop("slots", None))
    framework, folder, cap = task.pop("framework"), Path(task.pop("folder")), task.pop("cap")
    sources, module = task.pop("sources"), Path(task.pop("module"))
    source = child.source_of(task)
    frontend = frontends.get(framework)
    child.use_safe_flags(frontend)
    specs = child.read(module).arguments

    def results() -> tuple[str, Sequence[Any]]:
        values = {spec.name: value_of(spec, place) for spec, place in zip(specs, sources, strict=True)}
        return frontend.results(frontend.build(source), source, values)

    own_results.write(folder, results, specs, cap, None)


def value_of(spec: ArgSpec, place: Mapping[str, Any]) -> np.ndarray:
    """The value of an argument: from a file, whose types that NumPy lacks are bits, or drawn."""
    dtype = dtype_of(spec.dtype)
    if not place.get("path"):
        return draw(place["law"], spec.shape, dtype, place["seed"], place["index"])
    stored = np.load(place["path"], allow_pickle=False)
    bits = stored.dtype.kind == "u" and dtype.isbuiltin != 1 and stored.dtype.itemsize == dtype.itemsize
    return stored.view(dtype) if bits else stored.astype(dtype)

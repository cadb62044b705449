"""A SavedModel folder: one of its signatures as a function, its variables as arguments with their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from opscope.base.first_line import first_line
from opscope.models.arguments import ArgSpec
from opscope.models.frontends import open_shapes
from opscope.models.frontends.base import Refused
from opscope.models.frontends.through_tf.built import TfBuilt

DEFAULT = "serving_default"
"""The default signature."""


def load(path: Path, signature: str, shapes: Mapping[str, Sequence[int]], sizes: str = "") -> TfBuilt:
    """The signature of the model in a folder. Raises Refused: no SavedModel, no such signature, an open shape.

    Open dimensions take their sizes from `sizes` (of `--shape`) and from `shapes`.
    """
    special = next((inner for inner in path.rglob("*") if not (inner.is_file() or inner.is_dir())), None)
    if special is not None:  # a pipe would wait for ever, a device has no end
        raise Refused(str(path), "a SavedModel", f"{special.relative_to(path)}, which is no regular file")
    try:
        loaded: Any = tf.saved_model.load(str(path))
    except Exception as error:  # noqa: BLE001 - protobuf, registry and file system each have errors of their own
        raise Refused(str(path), "a SavedModel", f"{type(error).__name__}: {first_line(error)}"[:200]) from None
    known = dict(loaded.signatures)
    wanted = signature or (DEFAULT if DEFAULT in known or len(known) != 1 else next(iter(known)))
    if wanted not in known:
        got = ", ".join(sorted(known)) or "none"
        raise Refused(str(path), f"a signature {wanted!r}", f"the signatures {got}", "PATH:SIGNATURE")
    function = known[wanted]
    inputs: dict[str, Any] = function.structured_input_signature[1]
    shapes = given_shapes(inputs, shapes, sizes, str(path))
    specs = [spec_of(name, spec, shapes, str(path)) for name, spec in inputs.items()]
    names = [spec.name for spec in specs]

    def call(*tensors: Any) -> Any:
        results = function(**dict(zip(names, tensors, strict=True)))
        return [results[key] for key in sorted(results)]

    return TfBuilt(call, tuple(specs), alive=loaded)


def given_shapes(
    inputs: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], sizes: str, where: str
) -> dict[str, Sequence[int]]:
    """`shapes`, and those that `sizes` (of `--shape`) makes of the inputs' own. Raises Refused for a wrong one."""
    dims = {
        name: [open_shapes.OPEN if extent is None else extent for extent in spec.shape]
        for name, spec in inputs.items()
        if spec.shape.rank is not None
    }
    return {**shapes, **open_shapes.fixed(dims, sizes, where)}


def spec_of(name: str, spec: Any, shapes: Mapping[str, Sequence[int]], where: str) -> ArgSpec:
    """An input as an argument, open extents taken from `shapes`. Raises Refused if some stay open."""
    if spec.shape.rank is None:
        raise Refused(where, "inputs of known rank", f"{name!r}, which has none")
    shape = shapes.get(name, ())
    extents: list[Any] = [
        shape[i] if e is None and len(shape) == spec.shape.rank else e for i, e in enumerate(spec.shape)
    ]
    if None in extents:
        shown = ", ".join("?" if e is None else str(e) for e in extents)
        binding = open_shapes.hint({name: [open_shapes.OPEN if e is None else e for e in extents]})
        hint = f"{binding}, or --inputs FILE.npz with an array {name!r}, whose shape is then taken"
        raise Refused(where, "inputs of fixed shape", f"{name!r} of [{shown}]", hint)
    return ArgSpec(name, tuple(extents), spec.dtype.name, "", "input")

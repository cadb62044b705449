"""Makes an op's inputs and goldens again from their sources in the manifest. NumPy and ml_dtypes only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opscope.base.mesh.placement import part_of
from opscope.base.stored import checked
from opscope.harness.record.element_types import TERM_SIZES, load, numpy_dtype
from opscope.harness.record.records import OpRow, Source, TensorDesc
from opscope.models.arguments import GENERATOR
from opscope.models.seeding import draw

if TYPE_CHECKING:
    import numpy as np


class OtherValues(ValueError):
    """An input whose golden was computed on values that an older generator drew."""


def materialise(source: Source, desc: TensorDesc, export_dir: Path | str, seed: int | None = None) -> np.ndarray:
    """The value of one input: a fresh array of `desc`'s shape and type, which the caller may write to.

    `seed` is used if the source has none. Raises ValueError if the source is incomplete or the file
    is not what `desc` says, OSError where the file is gone, Damaged where the folder has digests and these differ.
    """
    if source.whole:
        whole = materialise(
            source.model_copy(update={"whole": ()}), desc.model_copy(update={"shape": source.whole}), export_dir, seed
        )
        return part_of(whole, source.start, desc.shape)
    if source.kind == "captured":
        if source.path is None:
            raise ValueError("source captured: expected a path, got none")
        return load(checked(Path(export_dir), source.path), desc.shape, desc.data_type)
    if source.kind not in ("seeded", "random"):
        raise ValueError(f"source: expected captured, seeded or random, got {source.kind!r}")
    chosen = source.seed if source.seed is not None else seed
    if source.law is None or source.index is None or chosen is None:
        raise ValueError(f"source {source.kind}: expected law, seed and index, got {source!r}")
    if source.generator != GENERATOR:
        raise OtherValues(
            f"source {source.kind}: expected values of generator {GENERATOR}, got a golden for generator "
            f"{source.generator}, which this version of opscope does not draw; run the model again"
        )
    return draw(source.law, desc.shape, numpy_dtype(desc.data_type), chosen, source.index)


def drawn(kind: str, distribution: str, seed: int, index: int) -> Source:
    """The source of a value that `seeding.draw` draws, `seeded` or `random`."""
    return Source(kind=kind, law=distribution, seed=seed, index=index, generator=GENERATOR)


def row_inputs(row: OpRow, export_dir: Path | str) -> list[np.ndarray]:
    """All inputs of an op, in order."""
    return [materialise(s, d, export_dir) for s, d in zip(row.sources, row.inputs, strict=True)]


def row_term_sizes(row: OpRow, export_dir: Path | str) -> list[np.ndarray]:
    """The root sum of squares of the terms of each element of each result, as far as the walk kept them, float32."""
    folder, pairs = Path(export_dir), zip(row.term_sizes, row.outputs, strict=False)
    return [load(checked(folder, path), desc.shape, TERM_SIZES).astype("float32") for path, desc in pairs]


def row_second(row: OpRow, export_dir: Path | str) -> list[np.ndarray]:
    """What a second authority computed for each result of an op while its golden was made; none if it was not asked."""
    if row.second is None or not row.second.values:
        return []
    pairs = zip(row.second.values, row.outputs, strict=True)
    return [load(checked(Path(export_dir), path), desc.shape, desc.data_type) for path, desc in pairs]


def row_golden(row: OpRow, export_dir: Path | str) -> list[np.ndarray]:
    """The golden of each result of an op, in order; none if the row has no golden."""
    if not row.golden:
        return []
    folder = Path(export_dir)
    return [load(checked(folder, p), d.shape, d.data_type) for p, d in zip(row.golden, row.outputs, strict=True)]

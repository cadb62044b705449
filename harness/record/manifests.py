"""Joins the manifests of several models to that of a run."""

from __future__ import annotations

from collections.abc import Sequence

from opscope.harness.record.records import ManifestHeader, ModelFailure, OpRow

Manifest = tuple[ManifestHeader, list[OpRow]]


def merge_all(results: Sequence[Manifest | ModelFailure]) -> Manifest:
    """One manifest of all models' own, whose header has the models that failed."""
    header, rows = merge([result for result in results if not isinstance(result, ModelFailure)])
    failed = tuple(result for result in results if isinstance(result, ModelFailure))
    return header.model_copy(update={"failed": failed}), rows


def merge(manifests: Sequence[Manifest]) -> Manifest:
    """One manifest of several: rows in order of first appearance, uses of equal ops joined."""
    rows: dict[str, OpRow] = {}
    for _, of_model in manifests:
        for row in of_model:
            earlier = rows.get(row.op_id)
            rows[row.op_id] = row if earlier is None else earlier.model_copy(update={"uses": earlier.uses + row.uses})
    headers = [header for header, _ in manifests]
    header = ManifestHeader(
        models=tuple(m for h in headers for m in h.models),
        export_dirs=tuple(d for h in headers for d in h.export_dirs),
        module_ops={m: n for h in headers for m, n in h.module_ops.items()},
        structural={m: n for h in headers for m, n in h.structural.items()},
        dead={m: n for h in headers for m, n in h.dead.items()},
        notes={m: lines for h in headers for m, lines in h.notes.items()},
    )
    return header, list(rows.values())

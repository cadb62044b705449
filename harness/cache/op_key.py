"""What a verdict depends on in the manifest's row of an op: part of the key under which it is kept."""

from __future__ import annotations

from typing import Any

from opscope.harness.record.records import OpRow


def of_row(row: OpRow) -> dict[str, Any]:
    """The op, where its values come from, and how they are shared among devices."""
    parts: dict[str, Any] = {
        "op": row.op_id,
        "provenance": row.provenance,
        # A file's path does not matter, but distribution, seed and index do.
        "sources": [source.model_dump(exclude={"path"}) for source in row.sources],
        "golden": bool(row.golden),
        "second": row.second.model_dump(exclude={"values"}) if row.second is not None else None,
        "argument_types": row.argument_types,
    }
    if row.shards:
        exclude = {"sources": {"__all__": {"path"}}, "golden": True, "term_sizes": True}
        parts["devices"] = row.devices
        parts["shards"] = [shard.model_dump(exclude=exclude) for shard in row.shards]
    return parts

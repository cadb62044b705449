"""Models as one program, as pages show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from opscope.harness.record import isolation
from opscope.harness.record.stages import FAILED
from opscope.harness.record.store import StoredRun, whole_models
from opscope.reports.compare.owned import Owned
from opscope.reports.database.rows import Row
from opscope.reports.database.whole_models import columns_of, counting
from opscope.reports.records.columns import plain


def models_section(run: StoredRun, run_dir: Path | None, owned: Owned) -> dict[str, Any]:
    """What report.html shows of models as one program, and the ops whose verdict changes when they run alone."""
    if run_dir is None:
        return {"whole": [], "isolation": []}
    tests = whole_models(run_dir, run.tests)
    return {
        "whole": _listed([columns_of(test) for test in tests], owned),
        "isolation": isolation.lines(isolation.of_run(run_dir, tests, run.tests)),
    }


def night_section(
    connection: sa.Connection, night_id: str, names: Mapping[str, str], owned: Owned
) -> list[dict[str, Any]]:
    """The same of a night, by the verdicts that count. `names`: series -> what a page calls it, empty where it is the
    only one."""
    rows = counting(connection, night_id, names)
    return _listed([{**row, "backend": names[row["series"]] or row["backend"]} for row in rows], owned)


def _listed(rows: Iterable[Row], owned: Owned) -> list[dict[str, Any]]:
    shown = [_shown(row, owned.owner_of_model(row) if row["status"] in FAILED else "") for row in rows]
    return [row for row in shown if owned.lists(row["owner"])]


def _shown(row: Row, owner: str) -> dict[str, Any]:
    where = ""
    if row["jump_op_id"]:
        where = f"{row['jump_op_name']} [{row['jump_op_id']}] {row['jump_path']} {row['jump_location']}"
        if row["jump_pcc"] is not None and row["jump_pcc_before"] is not None:
            where += f": PCC {row['jump_pcc_before']:.6f} before, {row['jump_pcc']:.6f} after"
    return plain(
        {
            "model": row["model"],
            "backend": row["backend"],
            "status": str(row["status"]),
            "jump": where,
            "error": row["error_message"] or "",
            "pcc": "" if row["pcc"] is None else f"{row['pcc']:.7f}",
            "l2": "" if row["relative_l2"] is None else f"{row['relative_l2']:.2g}",
            "ran_on": row["ran_on"],
            "compared": "" if row["intermediates"] is None else f"{row['intermediates']:,}",
            "owner": owner,
        }
    )

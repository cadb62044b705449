"""Rows of stage `import`: they name models whose import is expected to differ from their framework.

In such a row `op` is a pattern of the model's name, `backend` the framework, and `message` a pattern of the check's
text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from opscope.harness.limitations.limitations import Limitation, NewRows, now
from opscope.harness.record.records import ImportCheck
from opscope.harness.record.stages import ImportStatus, Stage

IMPORT = "import"


def names(row: Limitation, check: ImportCheck) -> bool:
    """Whether a row names the import of a model."""
    named = row.stage == IMPORT and row.backend == check.framework and check.model not in row.but
    return named and any(fnmatchcase(check.model, pattern) for pattern in row.op)


def judged_import(check: ImportCheck, rows: Iterable[Limitation]) -> ImportCheck:
    """The check with its `expected` filled in, where a row names the model's import."""
    for row in rows:
        if not names(row, check):
            continue
        expected = f"{row.kind}: {row.reason}"
        if check.status is ImportStatus.AGREES and row.strict:
            expected = f"unexpected pass: expected the import to differ ({expected}); delete the row"
            return check.model_copy(update={"expected": expected})
        fits = fnmatchcase(check.text, row.message) and row.excuses(now())
        if _differs(check) and fits:
            return check.model_copy(update={"expected": expected})
    return check


def outdated(rows: Iterable[Limitation], checks: Sequence[ImportCheck]) -> list[str]:
    """A line for each row that no longer describes the imports of a run which has models of its framework."""
    lines = []
    for row in rows:
        of_framework = [check for check in checks if check.framework == row.backend]
        if row.stage != IMPORT or not of_framework:
            continue
        named = [check for check in of_framework if names(row, check)]
        right = [check.model for check in named if check.status is ImportStatus.AGREES and row.strict]
        other = [check for check in named if _differs(check) and not fnmatchcase(check.text, row.message)]
        models = f"{row.where}: expected a model of {row.backend} that `{', '.join(row.op)}` names"
        if not named:
            lines.append(f"{models}, got none of {len(of_framework)}; try deleting the row")
        elif right:
            lines.append(f"{models} to differ, got {', '.join(right)}, which agrees; try opscope limitations update")
        elif other:
            lines.append(f"{models} to differ by `{row.message}`, got {other[0].text}; try another message in the row")
    return lines


def passing(rows: Iterable[Limitation], checks: Sequence[ImportCheck]) -> list[str]:
    """The places of rows of which every model agrees with its framework now."""
    places = []
    for row in rows:
        named = [check for check in checks if names(row, check)]
        if named and row.strict and all(check.status is ImportStatus.AGREES for check in named):
            places.append(row.where)
    return places


def new_rows(checks: Iterable[ImportCheck], of_new: NewRows) -> list[Limitation]:
    """A row for each import that differs and that no row excuses, as narrow as can be."""
    return [
        Limitation(
            op=(_literally(check.model),),
            backend=check.framework,
            stage=Stage(IMPORT),
            reason=f"{check.node}: {check.error}" if check.node else check.error or "it differs",
            message=f"*{_literally(check.error)}",
            **vars(of_new),
        )
        for check in checks
        if _differs(check) and check.fails_run
    ]


def _differs(check: ImportCheck) -> bool:
    """Whether an import is one that a row may excuse."""
    return check.status in (ImportStatus.DIFFERS, ImportStatus.CRASHED)


def _literally(text: str) -> str:
    """A pattern (fnmatch) that only this text fits."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)

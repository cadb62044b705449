"""The patch of a file of expected failures after a run: rows for new failures, and out with those that no longer hold.

New rows are as narrow as can be: op ids, board, stage and fingerprint. A flaky failure gets none, as a row that is
red whenever the op passes would be noise.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any

from opscope.base.visible_text import counted
from opscope.harness.limitations import import_rows, limitation_file
from opscope.harness.limitations.limitation_file import HEAD, LimitationFile
from opscope.harness.limitations.limitation_notes import Row
from opscope.harness.limitations.limitations import Limitation, NewRows
from opscope.harness.record import store
from opscope.harness.record.records import ImportCheck, OpTest
from opscope.harness.record.stages import FAILED


@dataclass(frozen=True)
class Proposal:
    """The changes to the files of limitations."""

    new: tuple[Limitation, ...]
    changes: Mapping[str, Limitation | None]
    """Row (file and line) -> what stands there instead; None: nothing."""
    remarks: tuple[str, ...]
    """What is left to the user, a line each."""


def propose(
    tests: Iterable[OpTest],
    rows: Sequence[Row],
    of_new: NewRows,
    imports: Sequence[ImportCheck] = (),
    known: Sequence[Limitation] = (),
) -> Proposal:
    """The rows to add for unexpected failures among `tests` and `imports`, and the changes to `rows` and `known`."""
    changes: dict[str, Limitation | None] = dict.fromkeys(import_rows.passing(known, imports))
    remarks: list[str] = []
    for row in rows:
        limitation = row.limitation
        if row.named and not row.excused:
            changes[limitation.where] = None
        elif row.passed and limitation.op_ids:
            passing = {test.op_id for test in row.passed}
            changes[limitation.where] = replace(
                limitation, op_ids=tuple(op_id for op_id in limitation.op_ids if op_id not in passing)
            )
        elif row.passed:
            ids = ", ".join(test.op_id for test in row.passed[:3])
            remarks.append(
                f"{limitation.where}: {len(row.passed)} of the {counted(row.named, 'op')} that this row names "
                f"pass ({ids}); narrow it by hand"
            )
    groups: dict[tuple[str, ...], list[OpTest]] = {}
    excused = {test.op_id for row in rows for test in row.excused}
    for test in tests:
        if test.status not in FAILED or not test.fails_run or test.op_id in excused:
            continue
        if test.flaky or test.failed_stage is None:
            why = f"it is {test.stability}" if test.flaky else f"{test.status} has no stage"
            remarks.append(f"{test.op_name} [{test.op_id}] gets no row because {why}")
            continue
        key = (test.op_name, test.failed_stage, test.error_signature or "", test.card_type, test.backend)
        groups.setdefault(key, []).append(test)
    new = [_row(group, of_new) for group in groups.values()]
    return Proposal((*new, *import_rows.new_rows(imports, of_new)), changes, tuple(remarks))


def _row(group: list[OpTest], of_new: NewRows) -> Limitation:
    """The row of failures that have op, stage, fingerprint and board in common."""
    first = group[0]
    assert first.failed_stage is not None
    board = first.card_type.removeprefix("sim-") if first.card_type.startswith("sim-") else "*"
    return Limitation(
        op=(first.op_name,),
        backend=first.backend,
        stage=first.failed_stage,
        reason=first.error_message or first.crash_kind or first.status.value,
        signature=first.error_signature or "",
        op_ids=tuple(sorted({test.op_id for test in group})),
        arch=board,
        **vars(of_new),
    )


def patched(file: LimitationFile, proposal: Proposal, *, takes_new: bool) -> str:
    """The text of `file` after the proposal; new rows go to its end where it `takes_new` ones."""
    lines = file.text.splitlines()
    for placed in reversed(file.placed):
        if placed.row.where in proposal.changes:
            instead = proposal.changes[placed.row.where]
            lines[placed.start : placed.end] = block(instead).splitlines() if instead is not None else []
    if takes_new and proposal.new:
        if not any(line.startswith(f"{HEAD}:") for line in lines):
            lines.append(f"{HEAD}:")
        lines = [f"{HEAD}:" if line.replace(" ", "") == f"{HEAD}:[]" else line for line in lines]
        lines += [line for row in proposal.new for line in block(row).splitlines()]
    return "\n".join(lines) + "\n"


def diff(path: Path, before: str, after: str) -> str:
    """The change as a unified diff, empty if there is none."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    name = path.as_posix()
    return "".join(difflib.unified_diff(old, new, name if before else "/dev/null", name))


def write(path: Path, text: str) -> None:
    """Replaces a file, whole or not at all. Raises InputError if it would not read back, or the disk refuses it."""
    limitation_file.parse(text, path)
    store.write_whole(path, text)


_DEFAULTS: dict[str, Any] = {
    f.name: f.default_factory() if f.default_factory is not MISSING else f.default
    for f in fields(Limitation)
    if f.default is not MISSING or f.default_factory is not MISSING
}
"""Field -> its default value."""


def block(row: Limitation) -> str:
    """A row as a block of YAML, in the order of its fields, without fields at their default."""
    import yaml

    values: dict[str, Any] = {}
    for name in limitation_file.NAMES:
        value = getattr(row, name)
        if name in _DEFAULTS and value == _DEFAULTS[name]:
            continue
        plain = sorted(value) if isinstance(value, frozenset) else list(value) if isinstance(value, tuple) else value
        values[name] = str(plain) if name == "stage" else dict(plain) if name == "params" else plain
    if len(row.op) == 1:
        values["op"] = row.op[0]
    text = yaml.safe_dump([values], sort_keys=False, width=116, allow_unicode=True, default_flow_style=None)
    # PyYAML writes a map that holds only scalars in one line; a row is a block in any case.
    return (
        text if text.startswith("- op:") else yaml.safe_dump([values], sort_keys=False, width=116, allow_unicode=True)
    )

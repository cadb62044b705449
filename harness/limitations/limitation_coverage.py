"""The project's expected failures as the coverage table of `opscope ops` shows them (entry points `opscope.limits`)."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from opscope.base.op_families import op_family
from opscope.harness.backends import registry
from opscope.harness.limitations import limitation_file
from opscope.harness.limitations.limitations import Limitation


@dataclass(frozen=True)
class Limit:
    """One row: which ops of which element types fail where, and why."""

    row: Limitation

    def covers(self, op_name: str) -> bool:
        """Whether the row covers this op in at least one type."""
        row = self.row
        named = any(fnmatchcase(op_name, pattern) for pattern in row.op) and op_name not in row.but
        return named and (not row.families or op_family(op_name) in row.families)

    @property
    def types(self) -> tuple[str, ...]:
        """The element types that the row covers; empty for any."""
        return self.row.types

    @property
    def condition(self) -> str:
        """The ops, board and formats that it names, in words."""
        row = self.row
        parts = ["any op" if row.op == ("*",) else ", ".join(row.op)]
        parts += [f"but {', '.join(row.but)}"] * bool(row.but)
        parts += [f"of {', '.join(sorted(row.families))}"] * bool(row.families)
        parts += [f"on {row.arch}"] * (row.arch != "*")
        parts += [f"computed in {' or '.join(f or 'its own types' for f in row.data_formats)}"] * bool(row.data_formats)
        parts += ["some of them"] * (not row.strict)
        return "; ".join(parts)

    @property
    def stage(self) -> str:
        """The stage at which the op fails."""
        return str(self.row.stage)

    @property
    def kind(self) -> str:
        """`notimpl`, `notyet`, `never`."""
        return self.row.kind

    @property
    def reason(self) -> str:
        """Why, with the link of its issue."""
        return f"{self.row.reason} ({self.row.link})" if self.row.link else self.row.reason


def limits() -> list[Limit]:
    """The rows of the backends that compile the ops of the table, but for rows of single op ids: the table has none."""
    backends = {name for name in registry.own_names() if registry.declares(name, "in_op_table")}
    return [Limit(row) for row in limitation_file.project_rows() if row.backend in backends and not row.op_ids]

"""The tables of docs/pybuda.md, from the tables that decide: `python -m opscope.simulator.host.name_tables FILE`."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path

from opscope.simulator.host import op
from opscope.simulator.host.names import HOST, NAMES, NO_MEANING, NOT_YET

BEGIN, END = "<!-- {}: generated, see simulator/host/name_tables.py -->", "<!-- end of {} -->"


def names_table() -> str:
    """Returns a row for each name that is there."""
    rows = [f"| `{name}` | {does} |" for name, (_, does) in NAMES.items()]
    return "\n".join(["| name | here |", "|---|---|", *rows])


def absent_table() -> str:
    """Returns a row for each name that is not there, with the reason."""
    rows = [f"| `{name}` | {why} |" for name, why in {**NO_MEANING, **NOT_YET}.items()]
    return "\n".join(["| name | why not |", "|---|---|", *rows])


def ops_table() -> str:
    """Returns a row for each op: its signature without the name, and the first line of its docstring."""
    rows = []
    for name in sorted(op.MODULE_OF):
        made = getattr(import_module(f"{HOST}.op.{op.MODULE_OF[name]}"), name)
        accepted = inspect.signature(made).parameters.values()
        parameters = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in accepted]
        signature = str(inspect.Signature(parameters)).removeprefix("(name, ").removeprefix("(name)").removeprefix("(")
        rows.append(f"| `{name}` | `{signature.removesuffix(')')}` | {(made.__doc__ or '').strip().splitlines()[0]} |")
    return "\n".join(["| op | after its name | |", "|---|---|---|", *rows])


def options_table() -> str:
    """Returns a row for each option."""
    from opscope.compiler.api import OPTIONS

    rows = [f"| `{name}` | {o.does or f'no effect: {o.no_effect}'} |" for name, o in OPTIONS.items()]
    return "\n".join(["| option | here |", "|---|---|", *rows])


TABLES = {"names": names_table, "absent": absent_table, "ops": ops_table, "options": options_table}


def filled(text: str) -> str:
    """Returns a page with its tables made again."""
    for name, table in TABLES.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = text.partition(begin)
        _, marker, after = rest.partition(end)
        text = f"{before}{begin}\n{table()}\n{end}{after}" if marker else text
    return text


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")

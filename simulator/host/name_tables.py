"""The tables of docs/pybuda.md, from the tables that decide: `python -m opscope.simulator.host.name_tables FILE`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from opscope.simulator.host import op
from opscope.simulator.host.names import HOST, MODULES, NAMES, NO_MEANING, NOT_YET
from opscope.simulator.host.settings import environment
from opscope.simulator.host.settings.compiler_config import ATTRIBUTES

BEGIN, END = "<!-- {}: generated, see simulator/host/name_tables.py -->", "<!-- end of {} -->"


def names_table() -> str:
    """Returns a row for each name that is there."""
    rows = [f"| `{name}` | {does} |" for name, (_, does) in NAMES.items()]
    return "\n".join(["| name | here |", "|---|---|", *rows])


def modules_table() -> str:
    """Returns a row for each module of pybuda that has names of its own."""
    rows = [f"| `pybuda.{name}` | {', '.join(f'`{n}`' for n in own)} |" for name, own in MODULES.items() if own]
    return "\n".join(["| module | names besides those of `pybuda` |", "|---|---|", *rows])


def grouped(heading: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Returns a table with a row for each text, before which stand the names that have it."""
    names: dict[str, list[str]] = {}
    for name, text in pairs:
        names.setdefault(text, []).append(f"`{name}`")
    rows = [f"| {', '.join(own)} | {text} |" for text, own in names.items()]
    return "\n".join([f"| {heading} | here |", "|---|---|", *rows])


def attributes_table() -> str:
    """Returns the attributes of the compiler configuration, by what they do here."""
    own = "the option of that name"
    return grouped(
        "attribute",
        (
            (
                name,
                (own if a.option == name else f"the option `{a.option}`")
                if a.option
                else a.does or f"no effect: {a.no_effect}",
            )
            for name, a in ATTRIBUTES.items()
        ),
    )


def variables_table() -> str:
    """Returns the environment variables of TT-Buda's, by what they do here."""
    return grouped(
        "variable",
        [
            *((name, f"`{one.option}`: {one.does}") for name, one in environment.VARIABLES.items()),
            *((name, "runs are `_sequential`") for name in environment.SEQUENTIAL),
            (environment.AMP_LIGHT, "level of `enable_amp_light`"),
            (environment.VERIFY_ALL, "1: the default of VerifyConfig's `verify_all`"),
            (
                environment.GOLDEN_QUANTIZE,
                "set at all: VerifyConfig's `golden_ignore_df_precision` is False by default",
            ),
            (environment.COMPILE_DEPTH, "`compile_depth`: counts more than what the program sets"),
            (environment.DEVICE, "`backend_device_descriptor_path`, if the file is there"),
            *((name, f"no effect: {why}") for name, why in sorted(environment.WITHOUT_EFFECT.items())),
            *((f"{start}...", f"no effect: {why}") for start, why in sorted(environment.FAMILIES.items())),
        ],
    )


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


TABLES = {
    "names": names_table,
    "modules": modules_table,
    "absent": absent_table,
    "ops": ops_table,
    "attributes": attributes_table,
    "variables": variables_table,
}


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

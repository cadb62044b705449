"""`opscope config`: the settings that a run here would have, what one of them means, and a file to begin with."""

from __future__ import annotations

import textwrap
import tomllib
from pathlib import Path

import click

from opscope.base import atomic_write
from opscope.base.page import Page
from opscope.harness.record.errors import InputError, closest
from opscope.harness.settings.settings import BY_NAME, PRESETS, SETTINGS, Resolved, Setting, project_folder, resolve

WIDTH = 96
"""Columns of a comment that `init` writes."""
_HEAD = """\
[tool.opscope]
# Each setting of a run with its default, out of force: take the # away from a line to set it. The command line goes
# before the environment (OPSCOPE_NAME), that before a preset, and that before this table.
"""
_PRESET = """
# A usual line by a name: `pytest --op-by-op --preset nightly`. It holds any of the settings above, model and ops.
# [tool.opscope.presets.nightly]
# model = ["resnet50", "bert_base"]
# backend = ["reference", "xla"]
# budget = "30m"
"""


@click.group(invoke_without_command=True)
@click.option("--explain", "name", metavar="NAME", help="Say all of one setting.")
@click.option("--preset", metavar="NAME", help="Show the values with this preset.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def config(context: click.Context, name: str | None, preset: str | None, as_json: bool) -> None:
    """Print every setting, its value, and where the value comes from."""
    if context.invoked_subcommand is not None:
        return
    row = None if name is None else _setting(name)
    settings = resolve({"preset": preset}, project_folder(Path.cwd()))
    values = settings.masked()
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.config import PAIRS, Config

        pairs = {name: of(value=values[name], source=settings.sources[name]) for name, of in PAIRS.items()}
        print_answer(Config(**pairs))
    elif row is not None:
        _explain(row, settings)
    else:
        texts = {name: "-" if value is None else str(value) for name, value in values.items()}
        Page().table(
            [("setting", ""), ("value", ""), ("from", "")],
            [[s.name, texts[s.name], settings.sources[s.name]] for s in SETTINGS],
        )


@config.command()
def init() -> None:
    """Write every setting, with its meaning and out of force, into the project's pyproject.toml.

    A file that is there keeps what it has; one with a table [tool.opscope] is left as it is.
    """
    path = project_folder(Path.cwd()) / "pyproject.toml"
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if "opscope" in tomllib.loads(before).get("tool", {}):
            hint = "`opscope config --explain NAME` for what to add to it"
            raise InputError(str(path), "no table [tool.opscope] yet", "one", hint)
        atomic_write.write_whole(path, f"{before.rstrip()}\n\n{commented()}".lstrip())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(str(path), "a TOML file that can be written", str(error), "another folder") from None
    click.echo(f"{path}: [tool.opscope] with {len(SETTINGS)} settings, all out of force")


def commented() -> str:
    """The table that `init` writes."""
    rows = "".join(f"{_comment(row.help, row.more)}# {_line(row)}\n" for row in SETTINGS)
    return f"{_HEAD}\n{rows}{_PRESET}"


def _comment(*texts: str) -> str:
    lines = textwrap.wrap(" ".join(filter(None, texts)), WIDTH, break_long_words=False, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines)


def _line(row: Setting) -> str:
    """A setting as a line of TOML, with its default where it has a fixed one."""
    default = row.default
    if default is None or callable(default):
        value = f'"{row.metavar}"'
    elif isinstance(default, bool):
        value = str(default).lower()
    else:
        value = f'"{default}"' if isinstance(default, str) else str(default)
    return f"{row.name} = {value}"


def _setting(name: str) -> Setting:
    """A setting by its name, its option or its variable. Raises InputError."""
    plain = name.lower().removeprefix("opscope_").lstrip("-").replace("-", "_")
    if plain not in BY_NAME:
        raise InputError("--explain", "the name of a setting", repr(name), closest(plain, BY_NAME))
    return BY_NAME[plain]


def _explain(row: Setting, settings: Resolved) -> None:
    """Prints all that there is to say of a setting."""
    value = settings.masked()[row.name]
    click.echo(f"{row.name}: {row.help}")
    if row.more:
        click.echo(textwrap.fill(row.more, WIDTH, break_long_words=False, break_on_hyphens=False))
    words = row.flag if not row.metavar else f"{row.flag} {f'[{row.metavar}]' if row.optional else row.metavar}"
    places = [words] if row.option else []
    click.echo(f"set by: {', '.join([*places, row.variable, f'[tool.opscope] {row.name}', f'a preset in {PRESETS}'])}")
    click.echo(f"now: {'-' if value is None else value} (from: {settings.sources[row.name]})")

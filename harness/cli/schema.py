"""`opscope schema`: the JSON schema of what a command prints with `--json`."""

from __future__ import annotations

import difflib
import json

import click

from opscope import wire
from opscope.harness.record.errors import InputError


@click.command(short_help="Print the JSON schema of what a command prints with --json.")
@click.argument("verb", nargs=-1, metavar="[VERB]...")
def schema(verb: tuple[str, ...]) -> None:
    """Print the JSON schema of what a command prints with --json; without VERB, list the commands that have one.

    VERB is a command, such as `diff` or `db stats`.
    """
    if not verb:
        click.echo("\n".join(wire.commands()))
        return
    name = " ".join(verb)
    found = wire.schema_of(name)
    if found is None:
        near = difflib.get_close_matches(name.replace(" ", "-"), wire.commands(), n=1, cutoff=0.4)
        raise InputError("VERB", "a command with --json", repr(name), " ".join(["opscope schema", *near]))
    click.echo(json.dumps(found, indent=1))

"""The `opscope` command: lists the verbs of every room and loads the one that is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any

import click

GROUP = "opscope.commands"

WORKFLOW = (
    "doctor",
    "models",
    "config",
    "compile",
    "opt",
    "plan",
    "show",
    "costs",
    "merge",
    "limitations",
    "repro",
    "replay",
    "reduce",
    "probe",
    "bisect",
    "nightly",
    "gate",
    "status",
    "publish",
    "db",
    "diff",
    "unblock",
    "readiness",
    "sql",
    "export",
    "dashboard",
    "artifacts",
    "demo",
    "clean",
)
"""Order in which `opscope --help` lists the verbs; others follow by name."""


class Verbs(click.Group):
    """A group whose commands are the entry points of `opscope.commands`, loaded when called."""

    def _entries(self) -> dict[str, EntryPoint]:
        """The entry points by verb."""
        return {entry.name: entry for entry in entry_points(group=GROUP)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order of the work."""
        names = self._entries()
        return sorted(names, key=lambda n: (WORKFLOW.index(n) if n in WORKFLOW else len(WORKFLOW), n))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command behind one verb; None where there is no such verb."""
        entry = self._entries().get(cmd_name)
        if entry is None:
            return None
        try:
            return entry.load()
        except (ImportError, AttributeError) as error:
            line = f"opscope {cmd_name}: expected {entry.value} to load, got {type(error).__name__}: {error}"

            @click.command(cmd_name, help=f"(not usable: {error})", context_settings={"ignore_unknown_options": True})
            @click.argument("anything", nargs=-1)
            def broken(anything: tuple[str, ...]) -> None:
                click.echo(f"{line}; try pip install opscope again", err=True)
                raise SystemExit(2)

            return broken

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` call; an unknown verb is answered with the closest ones."""
        from opscope.harness.record.errors import InputError, closest

        if args and not args[0].startswith("-") and args[0] not in self._entries():
            raise InputError("opscope", "a command", repr(args[0]), closest(args[0], self._entries()))
        return super().resolve_command(ctx, args)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(message="%(version)s", package_name="opscope")
def root() -> None:
    """Test and regression harness for ML compilers.

    Runs are made by pytest: `pytest --model resnet50 --op-by-op`. These commands are for what stands around them.
    """


def main(arguments: Sequence[str] | None = None) -> Any:
    """Runs the command line. Bad input ends in one line on stderr and exit code 2."""
    try:
        return root.main(args=None if arguments is None else list(arguments), prog_name="opscope")
    except BrokenPipeError:
        sys.stderr.close()
        return sys.exit(1)
    except (ValueError, OSError) as error:
        click.echo(_one_line(error), err=True)
        return sys.exit(2)


def _one_line(error: Exception) -> str:
    """The text of an error that the user can act on; anything else is a fault of ours and keeps its traceback."""
    text = str(error)
    ours = isinstance(error, OSError) or ": expected " in text
    if not ours:
        raise error
    return " ".join(text.split())


def project_version() -> str:
    """The version of the installed distribution, or `unknown`."""
    try:
        return version("opscope")
    except PackageNotFoundError:
        return "unknown"


if __name__ == "__main__":
    main()

"""The `opscope` command: lists the commands of every room and loads the one that is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, version
from typing import Any, cast

import click

from opscope.base import damage
from opscope.base.live import progress
from opscope.base.model_files import Computed, GoldenOf, ModelFiles
from opscope.base.plugins import plugins
from opscope.base.terminal import visible_output

GROUP = "opscope.commands"

SECTIONS: dict[str, tuple[str, ...]] = {
    "Set up": ("doctor", "models", "backend", "config", "clean"),
    "Compile and plan": (
        "ops",
        "compile",
        "opt",
        "plan",
        "netlist",
        "simulate",
        "device",
        "image",
        "run-image",
        "benchmark",
        "score",
        "decode",
    ),
    "Look at runs": ("show", "report", "diff", "unblock", "scoreboard", "readiness", "note", "sql", "export"),
    "Work on a failure": (
        "repro",
        "replay",
        "reduce",
        "probe",
        "bisect",
        "diff-tensors",
        "judge",
        "ulp",
        "limitations",
    ),
    "Run every night, on many machines": ("nightly", "history", "gate", "status", "costs", "merge", "publish", "db"),
    "Dashboards": ("dashboard", "artifacts", "demo"),
    "Assistants": ("agents", "mcp", "schema"),
}
"""Commands of `opscope --help` by heading, in order. Commands of other packages follow under OTHERS."""
OTHERS = "Other commands"
DAMAGED = 1
"""Exit code of a command that did its work on a damaged run folder."""


class Verbs(click.Group):
    """A group whose commands are the entry points of `opscope.commands`; each is loaded when it is called."""

    def _entries(self) -> dict[str, EntryPoint]:
        """The entry points by name of command."""
        return {entry.name: entry for entry in plugins(GROUP)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of SECTIONS, then all others by name."""
        listed = [name for names in SECTIONS.values() for name in names]
        entries = self._entries()
        return [*(name for name in listed if name in entries), *sorted(set(entries) - set(listed))]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands under the headings of SECTIONS."""
        names = self.list_commands(ctx)
        width = max(map(len, names), default=0)
        listed = {name for section in SECTIONS.values() for name in section}
        for heading, section in {**SECTIONS, OTHERS: tuple(n for n in names if n not in listed)}.items():
            commands = [(name, self.get_command(ctx, name)) for name in section if name in names]
            limit = formatter.width - 6 - width
            rows = [(name.ljust(width), command.get_short_help_str(limit)) for name, command in commands if command]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None if there is none."""
        entry = self._entries().get(cmd_name)
        if entry is None:
            return None
        try:
            if ctx.resilient_parsing:  # the shell completes a line: only then what knows runs and models is imported
                from opscope.harness.cli.completion import attach

                return attach(cmd_name, entry.load())
            return entry.load()
        except (ImportError, AttributeError) as error:
            got = f"{type(error).__name__}: {error}"

            @click.command(cmd_name, help=f"(not usable: {error})", context_settings={"ignore_unknown_options": True})
            @click.argument("anything", nargs=-1)
            def broken(anything: tuple[str, ...]) -> None:
                from opscope.harness.record.errors import InputError

                hint = "pip install --force-reinstall opscope"
                raise InputError(f"opscope {cmd_name}", f"{entry.value} to load", got, hint)

            return broken

    def main(self, *args: Any, **extra: Any) -> Any:
        """Runs the command line; what it writes acts on no terminal, wherever the text came from."""
        words = extra.get("args") or (args[0] if args else None) or sys.argv[1:]
        verb = next((word for word in words if not word.startswith("-")), "")
        with visible_output(), progress.command(f"opscope {verb}".strip()):
            return super().main(*args, **extra)

    def called(self, words: Sequence[str]) -> str:
        """The command that a line calls, with its groups: `opscope dashboard user add`."""
        path, command = "opscope", cast("click.Command", self)
        for word in words:
            if isinstance(command, click.Group) and not word.startswith("-"):
                inner = command.get_command(click.Context(command), word)
                if inner is None:
                    break
                path, command = f"{path} {word}", inner
        return path

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` call. Raises InputError with the closest name if there is no such command."""
        unknown = bool(args) and not args[0].startswith("-") and args[0] not in self._entries()
        if unknown and not ctx.resilient_parsing:
            from opscope.harness.cli.refused_words import closest_command
            from opscope.harness.record.errors import InputError

            hint = closest_command("opscope", args[0], self._entries())
            raise InputError("opscope", "a command", repr(args[0]), hint)
        return super().resolve_command(ctx, args)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(message="%(version)s", package_name="opscope")
def root() -> None:
    """Test and regression harness for ML compilers.

    pytest runs the ops of a model: `pytest --model resnet50 --op-by-op`. The commands below inspect, compare and
    publish runs.
    """


def _read(word: str, shape: str | None) -> bytes:
    from opscope.harness.cli.read_file import read

    return read(word, shape)


def _goldens(word: str, inputs: Sequence[Any], operations: Sequence[Computed]) -> GoldenOf:
    from opscope.harness.cli.op_goldens import goldens

    return goldens(word, inputs, operations)


FILES = ModelFiles(_read, _goldens)
"""How commands of other rooms read models, as a sweep does: `opscope compile`, `opscope simulate --golden`."""


def main(arguments: Sequence[str] | None = None) -> Any:
    """Runs the command line. Bad input ends in one line on stderr and exit code 2."""
    damage.forget()
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = root.main(args=words, prog_name="opscope", obj=FILES, standalone_mode=False) or 0
    except SystemExit as ended:
        code = ended.code
    except BrokenPipeError:
        sys.stderr.close()
        code = 1
    except click.Abort:
        click.echo("Aborted!", err=True)
        code = 1
    except (ValueError, OSError, click.ClickException) as error:
        code = _refuse(root.called(words), error)
    return sys.exit(DAMAGED if damage.losses() and not code else code)


def _refuse(called: str, error: Exception) -> int:
    """Prints why a command did not do what it was called for; returns its exit code."""
    from opscope.harness.cli.refused_words import refused_words
    from opscope.harness.record.errors import Refused, refusal

    code, notes = 2, []
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return code
    if isinstance(error, click.UsageError):
        error = refused_words(error, called)
    elif isinstance(error, click.ClickException):  # a compiler's, which may have notes and an exit code of its own
        code = error.exit_code
        first, *notes = error.format_message().splitlines()
        error = Refused(first)
    line = refusal(called, error) if code == 2 else f"{called}: {error}"
    with visible_output():
        click.echo("\n".join([line, *notes]), err=True)
    return code


def project_version() -> str:
    """The version of the installed distribution, or `unknown`."""
    try:
        return version("opscope")
    except PackageNotFoundError:
        return "unknown"


if __name__ == "__main__":
    main()

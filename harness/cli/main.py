"""The `opscope` command: lists the commands of every room and loads the one that is called."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, version
from textwrap import shorten
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from opscope.base import damage
from opscope.base.live import progress
from opscope.base.model_files import Computed, GoldenOf, ModelFiles
from opscope.base.plugins import plugins
from opscope.base.terminal import visible_output
from opscope.harness.cli.verbs import DAILY, GROUPS, SENTENCES

GROUP = "opscope.commands"

EVERY_DAY, OTHERS = "Every day", "Other commands"
"""Headings of `opscope --help`: of the commands of every day, and of commands of other packages."""
MORE = "More (opscope help GROUP says what each does)"
DAMAGED = 1
"""Exit code of a command that did its work on a damaged run folder."""


class Verbs(click.Group):
    """A group whose commands are the entry points of `opscope.commands`; each is loaded when it is called."""

    def _entries(self) -> dict[str, EntryPoint]:
        """The entry points by name of command."""
        return {entry.name: entry for entry in plugins(GROUP)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the help, then all others by name."""
        entries = self._entries()
        return [*(name for name in SENTENCES if name in entries), *sorted(set(entries) - set(SENTENCES))]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands of every day with their sentences, the names of those of each group, and what other
        packages add."""
        here = self._entries()
        write_section(formatter, EVERY_DAY, {name: DAILY[name] for name in DAILY if name in here})
        groups = {group: " ".join(name for name in names if name in here) for group, names in GROUPS.items()}
        write_section(formatter, MORE, groups)
        others = {name: self.get_command(ctx, name) for name in self.list_commands(ctx) if name not in SENTENCES}
        write_section(formatter, OTHERS, {name: each.get_short_help_str(200) for name, each in others.items() if each})

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, none of which is loaded for that; options where a word begins with a dash."""
        if not incomplete or incomplete[0].isalnum():
            names = [*self.list_commands(ctx), *self.commands]
            return [CompletionItem(name, help=SENTENCES.get(name)) for name in names if name.startswith(incomplete)]
        return click.Command.shell_complete(self, ctx, incomplete)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None if there is none."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
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

    def called(self, words: Sequence[str]) -> tuple[str, click.Command]:
        """The command that a line calls, and its name with its groups: `opscope dashboard user add`."""
        path, command = "opscope", cast("click.Command", self)
        for word in words:
            if isinstance(command, click.Group) and not word.startswith("-"):
                inner = command.get_command(click.Context(command), word)
                if inner is None:
                    break
                path, command = f"{path} {word}", inner
        return path, command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` call. Raises InputError with the closest name if there is no such command."""
        unknown = bool(args) and not args[0].startswith("-") and args[0] not in {*self._entries(), *self.commands}
        if unknown and not ctx.resilient_parsing:
            from opscope.harness.cli.refused_words import closest_command
            from opscope.harness.record.errors import InputError

            hint = closest_command("opscope", args[0], self._entries())
            raise InputError("opscope", "a command", repr(args[0]), hint)
        return super().resolve_command(ctx, args)


def write_section(formatter: click.HelpFormatter, heading: str, rows: Mapping[str, str]) -> None:
    """Writes commands with what is said of each, a line each; nothing where there are none."""
    width = max(map(len, rows), default=0)
    if rows:
        with formatter.section(heading):
            limit = formatter.width - 6 - width
            cut = {name.ljust(width): shorten(text, limit, placeholder="...") for name, text in rows.items()}
            formatter.write_dl(list(cut.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(message="%(version)s", package_name="opscope")
def root() -> None:
    """Test and regression harness for ML compilers.

    pytest runs the ops of a model: `pytest --model resnet50 --op-by-op`.
    """


@root.command("help", short_help="Show the commands of a group, or the help of a command.")
@click.argument("words", nargs=-1, metavar="[GROUP|COMMAND...]")
@click.pass_context
def help_command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the commands of a group with their sentences, or the help of a command.

    Groups: compiler, device, debugging, results, assistants; without one, the commands of every day.
    """
    parent = context.find_root()
    if len(words) == 1 and words[0] in GROUPS:
        formatter = context.make_formatter()
        with formatter.section(f"{words[0]} (opscope COMMAND --help says more)"):
            formatter.write_dl(list(GROUPS[words[0]].items()))
        click.echo(formatter.getvalue().rstrip("\n"))
        return
    command: click.Command = parent.command
    for word in words:
        inner = command.get_command(parent, word) if isinstance(command, click.Group) else None
        if inner is None:
            from opscope.harness.cli.refused_words import closest_command
            from opscope.harness.record.errors import InputError

            known = {*GROUPS, *SENTENCES} if command is root else set(getattr(command, "commands", ()))
            called = parent.command_path.replace("opscope", "opscope help", 1)
            raise InputError(called, "a group or a command", repr(word), closest_command(called, word, known))
        command, parent = inner, click.Context(inner, info_name=word, parent=parent)
    click.echo(command.get_help(parent))


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
    from opscope.harness.record.errors import refuse_closed_stdout

    damage.forget()
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        refuse_closed_stdout()
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
        code = _refuse(words, error)
    return sys.exit(DAMAGED if damage.losses() and not code else code)


def _refuse(words: Sequence[str], error: Exception) -> int:
    """Prints why a command did not do what it was called for; returns its exit code."""
    from opscope.harness.cli.refused_words import refused_words, usage
    from opscope.harness.record.errors import Refused, refusal

    called, command = root.called(words)
    code, notes = 2, []
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return code
    if isinstance(error, click.UsageError):
        error = refused_words(error, called, command)
    elif isinstance(error, click.ClickException):  # a compiler's, which may have notes and an exit code of its own
        code = error.exit_code
        first, *notes = error.format_message().splitlines()
        error = Refused(first)
    line = refusal(called, error, usage(called, command)) if code == 2 else f"{called}: {error}"
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

"""What the shell completes: ops, models and runs of this folder, in the words of the commands that take them.

Click's own completion asks for it (docs/commands.md says how to switch it on); stored questions are completed by
`opscope sql` itself. Damaged or foreign files complete nothing, and are told by the command, not while one types.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from opscope.base import stored
from opscope.harness.record import run_folders, store

MOST = 200
"""Largest number of words that are offered."""


class Word(NamedTuple):
    """A word that a command takes, with what zsh and fish show beside it."""

    text: str
    about: str = ""


def runs() -> Iterator[Word]:
    """The run folders in .opscope/runs, the newest first."""
    root = run_folders.runs_root()
    names = [path.parent.name for path in root.glob(f"*/{store.RUN_FILE}")] if root.is_dir() else []
    yield from map(Word, sorted(names, reverse=True))


def ops() -> Iterator[Word]:
    """The ids of the ops of the newest run, with their names."""
    run = run_folders.newest_run()
    lines = (run / store.MANIFEST_FILE).read_bytes().split(b"\n")[1:] if run is not None else []
    for line in filter(None, lines):
        row = json.loads(stored.unsealed(line, where="manifest"))
        yield Word(row["op_id"], row["op_name"])


def ran_models() -> Iterator[Word]:
    """The models of the runs in .opscope/runs."""
    names: set[str] = set()
    for run in runs():
        with contextlib.suppress(OSError, ValueError):
            names.update(store.read_run(run_folders.runs_root() / run.text).models)
    yield from map(Word, sorted(names))


def registered_models() -> Iterator[Word]:
    """The models of the project."""
    from opscope.models import registry

    yield from map(Word, registry.names())


def lowered_ops() -> Iterator[Word]:
    """The names of the ops of the newest run."""
    yield from map(Word, sorted({word.about for word in ops()}))


WORDS: dict[tuple[str, str], tuple[Callable[[], Iterator[Word]], ...]] = {
    ("show", "what"): (runs, ops, ran_models),
    ("show", "alone"): (runs,),
    ("report", "what"): (runs,),
    ("diff", "run_a"): (runs,),
    ("diff", "run_b"): (runs,),
    ("unblock", "run"): (runs,),
    ("readiness", "model"): (ran_models,),
    ("readiness", "run"): (runs,),
    ("export", "run"): (runs,),
    ("publish", "run_dirs"): (runs,),
    ("plan", "what"): (registered_models,),
    ("gate", "models"): (registered_models,),
    ("bisect", "model"): (registered_models,),
    ("ops", "names"): (lowered_ops,),
    **{(command, "op_id"): (ops,) for command in ("repro", "reduce", "locate", "probe", "bisect")},
    **{(command, "run_dir"): (runs,) for command in ("repro", "reduce", "locate", "probe", "bisect")},
}
"""What completes a parameter, by command and name of the parameter."""

PATHS = frozenset({"alone", "run_dirs", "run_dir"})
"""Parameters that take a path: a run in .opscope/runs is completed with its folder."""


def attach(name: str, command: click.Command) -> click.Command:
    """Lets the parameters of a command complete what WORDS says of them."""
    for parameter in command.params:
        sources = WORDS.get((name, str(parameter.name)))
        if sources is not None:
            prefix = f"{run_folders.runs_root()}/" if parameter.name in PATHS else ""
            parameter.shell_complete = _completer(sources, prefix)  # type: ignore[method-assign]
    return command


def _completer(
    sources: tuple[Callable[[], Iterator[Word]], ...], prefix: str
) -> Callable[[click.Context, str], list[CompletionItem]]:
    def complete(_: click.Context, incomplete: str) -> list[CompletionItem]:
        words: list[Word] = []
        for source in sources:
            # Completion must never print an error into the line that someone types.
            with contextlib.suppress(Exception):
                words.extend(source())
        whole_words = [Word(prefix + word.text, word.about) for word in words]
        fitting = [word for word in whole_words if word.text.startswith(incomplete)]
        if not fitting and incomplete:  # an op by its name, where that is one op
            named = [word for word in whole_words if incomplete in word.about.removeprefix("stablehlo.")]
            fitting = named if len(named) == 1 else []
        if not fitting:
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(word.text, help=word.about or None) for word in fitting[:MOST]]

    return complete

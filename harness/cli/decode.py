"""`opscope decode` lets a decoder of the zoo generate on a backend beside XLA, and shows how far it drifts."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opscope.base.children.process import QUIET
from opscope.base.live import progress
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.optest import DEFAULT_BACKEND

if TYPE_CHECKING:
    from opscope.harness.decode.steps import Step
    from opscope.harness.record.result_options import ResultOptions

PARTS = ("prefill", "decode")


@click.command(short_help="Let a decoder generate, and show its drift.")
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.option("--decode-steps", "steps", type=click.IntRange(1), default=64, show_default=True, help="Tokens.")
@click.option("--backend", default=DEFAULT_BACKEND, show_default=True, help="The backend that runs both modules.")
@click.option("--arch", default=None, metavar="BOARD", help="Board, such as `n150`.")
@click.option("--optimization-level", type=click.IntRange(0, 2), default=1, show_default=True, help="Of the compiler.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of weights and prompt.")
@click.option(
    "--keep-step",
    multiple=True,
    type=click.IntRange(0),
    metavar="N",
    help="Keep the arguments of step N for an op by op run; may be repeated.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    metavar="DIR",
    help="Folder for the chart of the drift (MODEL.svg), the steps (MODEL.jsonl) and kept arguments.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per step.")
def decode(models: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Run MODEL's prompt and then token after token, with its cache as state.

    MODEL is a decoder whose modules MODEL_prefill and MODEL_decode are in the zoo (`gpt2`, `llama`, `hybrid`; by
    default all). Each step gets the next token of a text that is drawn from the seed. Printed are PCC of logits and of
    the worst state, and how many of the likeliest tokens agree. A state that is not written, written elsewhere or
    holds another's values is named. Exit code 1 if a step is wrong.
    """
    from opscope.harness.decode import page

    for variable, value in QUIET.items():
        os.environ.setdefault(variable, value)
    asked, wrong = _Asked(**given), False
    asked.check()
    output = asked.output
    for name in models or _known():
        begun = time.monotonic()
        rows = _steps(name, asked)
        taken = time.monotonic() - begun
        click.echo(page.json_lines(name, rows) if as_json else page.table(rows), nl=not as_json)
        if not as_json:
            click.echo(f"{page.summary(name, rows)}; {taken:.0f} s")
        if output is not None:
            output.mkdir(parents=True, exist_ok=True)
            (output / f"{name}.svg").write_text(page.chart(name, rows), encoding="utf-8")
            (output / f"{name}.jsonl").write_text(page.json_lines(name, rows), encoding="utf-8")
            click.echo(f"wrote {output / name}.svg (the drift) and {output / name}.jsonl (the steps)", err=True)
        first = next((row.number for row in rows if row.problems), None)
        if first is not None and first not in asked.keep_step:
            click.echo(f"its first wrong step op by op: {asked.again(name, first)}", err=True)
        wrong = wrong or any(row.problems for row in rows)
    if wrong:
        raise SystemExit(1)


@dataclass(frozen=True)
class _Asked:
    """How decoders are run."""

    steps: int
    backend: str
    arch: str | None
    optimization_level: int
    seed: int
    keep_step: tuple[int, ...]
    output: Path | None

    def check(self) -> None:
        """Raises InputError for a step to be kept that there is not, or no place for it."""
        if self.keep_step and self.output is None:
            raise InputError("--keep-step", "a folder too", "none", "-o DIR")
        for step in self.keep_step:
            if step > self.steps:
                expected = f"a step of the {self.steps} that are run"
                raise InputError("--keep-step", expected, str(step), f"--decode-steps {step}")

    @property
    def options(self) -> ResultOptions:
        """The options of the backend."""
        from opscope.harness.record.result_options import ResultOptions

        options = ResultOptions().changed(optimization_level=self.optimization_level)
        return options.changed(arch=self.arch) if self.arch else options

    def again(self, name: str, step: int) -> str:
        """The command that keeps a step of a decoder."""
        how = f"--decode-steps {self.steps} --backend {self.backend}"
        return f"opscope decode {name} {how} --keep-step {step} -o {self.output or f'{name}-steps'}"


def _known() -> list[str]:
    from opscope.models import registry

    return sorted(name.removesuffix("_decode") for name in registry.names() if name.endswith("_decode"))


def _steps(name: str, asked: _Asked) -> list[Step]:
    """Runs one decoder. Raises InputError for one that the zoo has not, or that the backend refuses."""
    import numpy as np

    from opscope.harness.backends import registry as backends
    from opscope.harness.backends.base import StageError
    from opscope.harness.decode import steps as decoding
    from opscope.harness.prepare.export import export_apart
    from opscope.models import registry
    from opscope.models.seeding import draw

    if name not in _known():
        raise InputError("MODEL", f"a decoder of {', '.join(_known())}", repr(name), closest(name, _known()))
    exported = [export_apart(registry.get(f"{name}_{part}")) for part in PARTS]
    loaded, options, seed = backends.load(asked.backend), asked.options, asked.seed
    try:
        prefill, decode = (
            decoding.module(loaded, each, f"{name}_{part}", options) for part, each in zip(PARTS, exported, strict=True)
        )
        values = {
            spec.name: draw(spec.law, spec.shape, spec.dtype, seed, index)
            for index, spec in enumerate(prefill.arguments)
        }

        def keep(number: int, arguments: Any) -> None:
            if number in asked.keep_step and asked.output is not None:
                asked.output.mkdir(parents=True, exist_ok=True)
                part = decode if number else prefill
                path = asked.output / f"{name}-step{number}.npz"
                np.savez(path, **{s.name: arguments[s.name] for s in part.arguments if s.role != "parameter"})
                module = f"{name}_{'decode' if number else 'prefill'}"
                click.echo(f"op by op: pytest --model {module} --op-by-op --seed {seed} --inputs {path}", err=True)

        ids = next(spec for spec in prefill.arguments if spec.name == "input_ids")
        text = draw(ids.law, (asked.steps,), ids.dtype, seed, len(prefill.arguments) + 1).tolist()
        rows = decoding.generate(prefill, decode, values, text, keep)
        return list(progress.each(rows, f"{name}: step", asked.steps + 1))
    except StageError as error:
        raise InputError("MODEL", f"a decoder that {asked.backend} runs", f"{name}: {error}") from error

"""Runs a decoder's two modules, on XLA and on a backend: the prompt, then one token after another.

Teacher-forced: both get the tokens of one text, so that a step shows the device's own error and what its states carry
over, never another text. The text is drawn from the seed: with seeded weights, what a model finds likeliest is the same
token again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from opscope.harness.backends.base import Backend, Job
from opscope.harness.decode.states import State, pcc, problem
from opscope.harness.prepare import golden
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.verdict.tolerance import DEFAULT_PCC

if TYPE_CHECKING:
    from opscope.harness.prepare.export import Exported
    from opscope.models.arguments import ArgSpec

TOP = 5
Run = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Arguments of a module, in its order -> its results."""
Arguments = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Step:
    """What one step gave. Step 0 is the prompt."""

    number: int
    token: int
    """The golden's likeliest next token."""
    logits_pcc: float
    states_pcc: float
    """The lowest of all states'."""
    state: str
    """Whose that is."""
    top1: bool
    """Whether the likeliest token is the golden's (at the prompt: that of its last position)."""
    top5: int
    """How many of the golden's five likeliest tokens are among the backend's."""
    cycles: int | None
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Module:
    """One module of a decoder: its arguments, and what runs it on the host and on the backend."""

    arguments: Sequence[ArgSpec]
    golden: Run
    run: Run
    cycles: Callable[[], int | None] = lambda: None


def on_host(exported: Exported) -> Run:
    """Compiles a module with XLA. Raises GoldenError."""
    return golden.compile_module(exported.bytecode)


class OnBackend:
    """A module that a backend has compiled once. Raises StageError, as its stages do."""

    def __init__(self, backend: Backend, exported: Exported, name: str, options: ResultOptions) -> None:
        kinds = tuple("parameter" if spec.role == "parameter" else "input" for spec in exported.arguments)
        self.backend, self.cycles = backend, None
        self.job = Job(name, exported.bytecode, [], options, argument_types=kinds)
        for stage in backend.stages[:-1]:
            backend.climb(stage, self.job)

    def __call__(self, arguments: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """Runs it with copies of the arguments, as backends may write to them."""
        job = replace(self.job, inputs=[value.copy() for value in arguments], state=dict(self.job.state), outputs=[])
        self.backend.climb(self.backend.stages[-1], job)
        self.cycles = job.cycles
        return job.outputs


def module(backend: Backend, exported: Exported, name: str, options: ResultOptions) -> Module:
    """Returns an exported module, compiled by XLA and by the backend."""
    on_backend = OnBackend(backend, exported, name, options)
    return Module(exported.arguments, on_host(exported), on_backend, lambda: on_backend.cycles)


def generate(
    prefill: Module,
    decode: Module,
    values: Arguments,
    text: Sequence[int],
    see: Callable[[int, Arguments], None] | None = None,
) -> Iterator[Step]:
    """Yields the step of the prompt and those of the tokens of `text`.

    `values` holds the parameters, the first states and the prompt by name. `see` gets the number of each step and the
    arguments that it has on the host, before it runs. Raises InputError where the caches have fewer positions.
    """
    names = [spec.name for spec in decode.arguments if spec.role == "state"]
    count = values["input_ids"].shape[-1]
    room = [spec.shape[2] for spec in decode.arguments if spec.role == "state" and len(spec.shape) == 4]
    if room and count + len(text) > min(room):
        raise InputError("--decode-steps", f"at most {min(room) - count} after a prompt of {count}", str(len(text)))
    ours = {name: values[name] for name in names}
    theirs, fixed = dict(ours), dict(values)
    for number in range(len(text) + 1):
        if number:
            fixed |= {
                "input_ids": np.array([[text[number - 1]]], values["input_ids"].dtype),
                "position": np.asarray(count + number - 1, np.int32),
            }
        part = decode if number else prefill
        if see is not None:
            see(number, fixed | ours)
        logits, *after = part.golden([(fixed | ours)[spec.name] for spec in part.arguments])
        got, *states = part.run([(fixed | theirs)[spec.name] for spec in part.arguments])
        if len(states) != len(names) or got.shape != logits.shape:
            raise InputError("MODEL", f"logits and {len(names)} states", f"{len(states)} states and {got.shape}")
        seen = [
            State(name, ours[name], wanted, theirs[name], np.asarray(state))
            for name, wanted, state in zip(names, after, states, strict=True)
        ]
        yield _step(number, logits, got, seen, part.cycles())
        ours, theirs = dict(zip(names, after, strict=True)), dict(zip(names, states, strict=True))


def _step(number: int, logits: np.ndarray, got: np.ndarray, states: Sequence[State], cycles: int | None) -> Step:
    ours, theirs = (np.argsort(-x[0, -1].astype(np.float64), kind="stable")[:TOP] for x in (logits, got))
    score = pcc(logits, got)
    scores = {state.name: pcc(state.golden_after, state.after) for state in states}
    worst = min(scores, key=lambda name: scores[name]) if scores else ""
    problems = [f"logits: PCC {score:.4f}"] if score < DEFAULT_PCC else []
    problems += [text for state in states if (text := problem(state, states, DEFAULT_PCC))]
    same = len(set(ours.tolist()) & set(theirs.tolist()))
    lowest = scores.get(worst, 1.0)
    return Step(number, int(ours[0]), score, lowest, worst, bool(ours[0] == theirs[0]), same, cycles, tuple(problems))

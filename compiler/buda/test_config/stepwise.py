"""Runs the programs of a netlist whose results depend on what came before, and compares what its queues then hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from opscope.compiler.buda.plan_to_binary import PlannedProgram
from opscope.compiler.buda.test_config import config as configs
from opscope.compiler.buda.test_config.comparison import constant_tiles, differences, stable_difference
from opscope.compiler.buda.test_config.config import TestConfig
from opscope.compiler.buda.test_config.golden_programs import GoldenPrograms
from opscope.compiler.buda.test_config.queue_content import from_queue, host_array
from opscope.compiler.buda.test_config.rows import NotModelledError, Row, op_that_fills, ops_of, tile_of
from opscope.compiler.buda.test_config.stimulus import input_of
from opscope.compiler.target import binary

MOST_ROUNDS = 2
"""How often each program is run: the second time on what the first one left."""


class Step(NamedTuple):
    """One thing that the host does: `push` an entry to a queue, `run` a program, `pop` an entry of a queue."""

    action: str
    name: str
    value: np.ndarray | Mapping[str, int] | None = None
    """The entry, or parameters of the program."""


StepRunner = Callable[[bytes, Sequence[Step]], Sequence[np.ndarray]]
"""Runs a binary step by step, and returns what it popped."""


@dataclass(frozen=True)
class StepsCompared:
    """What a comparison of queues found: why it failed, if it did."""

    why: str
    queues: tuple[str, ...]
    entries: int
    rounds: int
    """How often its programs ran."""
    constant_tiles: int = 0
    """Tiles that are one number, of which no correlation was asked."""
    unstable: tuple[str, ...] = ()
    """Queues whose golden rounding to float32 alone fails the comparison: what it leaves of it was asked."""


def has_state(raw: Row) -> bool:
    """Whether results depend on what ran before: gradients add up, or an op reads what one writes to a ram."""
    read = {name for op in ops_of(raw).values() for name in op["inputs"]}
    read |= {row["alias"] for name, row in raw["queues"].items() if name in read and row.get("alias")}
    written = (name for name, row in raw["queues"].items() if row["type"] == "ram" and op_that_fills(row))
    return any(op.get("gradient_op") for op in ops_of(raw).values()) or any(name in read for name in written)


def compare_steps(
    raw: Row, config: TestConfig, planned: PlannedProgram, runner: StepRunner, seed: int = 0
) -> StepsCompared:
    """Runs all programs `MOST_ROUNDS` times, in the order of the file, and compares what they leave after each round.

    They run once where what goes on from the first round is no number (roots of trained weights). Compared are the
    queues that no op reads, and every ram that an op writes. Parameters of programs are those of `test-args`, else 1:
    gradients start at zero. Raises NotModelledError for a golden that is not known, and what the runner raises.
    """
    queues: Row = raw["queues"]
    programs = planned.binary.plan.programs

    def entry(name: str, number: int) -> np.ndarray:
        return input_of(raw, config, seed, name, number)

    parameters = config.parameters
    golden = GoldenPrograms(raw, programs, entry, parameters)
    read = {name for op in ops_of(raw).values() for name in op["inputs"]}
    made = [name for name, row in queues.items() if op_that_fills(row)]
    compared = [name for name in made if name not in read or queues[name]["type"] == "ram"]
    if not compared:
        raise NotModelledError("expected a queue that the host reads, got none")
    script: list[Step] = []
    expected: list[tuple[str, int, np.ndarray]] = []
    rounds = 0
    for turn in range(MOST_ROUNDS):
        before = {name: set(numbers) for name, numbers in golden.asked.items()}
        left = _left_by_a_round(golden, queues, compared)
        if turn and not all(np.isfinite(value).all() for _, value in left):
            break
        rounds += 1
        for name, numbers in golden.asked.items():
            for number in sorted(numbers - before[name]):
                value = host_array(queues[name], input_of(raw, config, seed, name, number))
                script.append(Step("push", name, value))
        script += [Step("run", program.name, parameters) for program in programs]
        script += [Step("pop", name) for name, _ in left]
        expected += [(name, turn, value) for name, value in left]
    if undefined := next((name for name, _, value in expected if not np.isfinite(value).all()), ""):
        raise NotModelledError(f"{undefined}: expected numbers, got NaN or infinity with the inputs that it asks for")
    results = runner(binary.write(planned.binary), script)
    single: list[np.ndarray] = []
    unstable: set[str] = set()
    for number, ((name, turn, value), result) in enumerate(zip(expected, results, strict=True)):
        tiles = from_queue(np.asarray(result, np.float64), tile_of(queues[name]))
        if differences(value, tiles, config.comparison_of(name)):
            if not single:
                rounding = GoldenPrograms(raw, programs, entry, parameters, single=True)
                every = (_left_by_a_round(rounding, queues, compared) for _ in range(rounds))
                single = [value for left in every for _, value in left]
            if why := stable_difference(value, single[number], tiles, config.comparison_of(name)):
                return StepsCompared(f"{name}, round {turn}: {why}", tuple(compared), len(expected), rounds)
            unstable.add(name)
    if unstable and unstable.issuperset(name for name, _, _ in expected):
        raise NotModelledError(f"{compared[0]}: expected numbers that rounding to float32 leaves as they are, got none")
    constant = sum(constant_tiles(value, config.comparison_of(name)) for name, _, value in expected)
    left_over = tuple(name for name in compared if name in unstable)
    return StepsCompared("", tuple(compared), len(expected), rounds, constant, left_over)


def _left_by_a_round(golden: GoldenPrograms, queues: Row, compared: Sequence[str]) -> list[tuple[str, np.ndarray]]:
    """Runs every program once. Returns what queues then hold: an entry of a ram, of others those that were written."""
    written = {name: golden.content[name].written for name in compared}
    golden.run()
    left: list[tuple[str, np.ndarray]] = []
    for name in compared:
        content = golden.content[name]
        if queues[name]["type"] == "ram":
            pointers = [min(content.entries)] if content.entries else []
        else:
            wrap = 2 * queues[name]["entries"]
            count = (content.written - written[name]) % wrap
            pointers = [(written[name] + i) % wrap for i in range(count)]
        left += [(name, content.entries[pointer]) for pointer in pointers]
    return left


def compare_drawn(
    raw: Row, config: TestConfig, planned: PlannedProgram, runner: StepRunner, seed: int = 0
) -> tuple[StepsCompared, bool]:
    """`compare_steps`, and whether inputs were drawn positive, since the netlist's default gives no numbers."""
    try:
        return compare_steps(raw, config, planned, runner, seed), False
    except NotModelledError:
        if not config.drawn_by_default or config.stimulus is configs.POSITIVE:
            raise
    positive = replace(config, stimulus=configs.POSITIVE)
    return compare_steps(raw, positive, planned, runner, seed), True


__all__ = ["MOST_ROUNDS", "Step", "StepRunner", "compare_drawn", "has_state"]

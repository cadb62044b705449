"""Takes a netlist with a `test-config` to a compared result: draws inputs, compiles, runs, compares."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opscope.base.yaml_text import YamlError, parse_yaml
from opscope.compiler.buda.netlist.check import for_first_chip
from opscope.compiler.buda.netlist.parse import parse
from opscope.compiler.buda.netlist.to_binary import to_binary
from opscope.compiler.buda.plan_to_binary import PlannedProgram
from opscope.compiler.buda.test_config import config as configs
from opscope.compiler.buda.test_config.comparison import constant_tiles, differences, stable_difference
from opscope.compiler.buda.test_config.config import TestConfig
from opscope.compiler.buda.test_config.golden import Golden, NotModelledError
from opscope.compiler.buda.test_config.queue_content import from_queue, host_array
from opscope.compiler.buda.test_config.rows import Row, tile_of
from opscope.compiler.buda.test_config.stepwise import StepRunner, compare_drawn, has_state
from opscope.compiler.buda.test_config.stimulus import encodings_of_ours, inputs_of
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target import binary

Runner = Callable[[bytes, Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Runs a binary with the contents of its queues, and returns those of its output queues."""
ENOUGH = 10.0
"""Seconds after which no further input is begun; the first one is always compared."""
MOST_INPUTS = 2
"""Inputs that are run and compared; a netlist that asks for fewer has fewer."""


@dataclass(frozen=True)
class Verdict:
    """What a run of a `test-config` found."""

    passed: bool
    why: str = ""
    """Why it did not pass: the queue, the input, the first tile that differs."""
    queues: tuple[str, ...] = ()
    """The queues that were compared."""
    inputs: int = 0
    """Inputs that were compared; of programs that keep a state, entries of queues."""
    asked: int = 0
    """Inputs that the netlist's programs would run: the graph's `input_count` times the loops."""
    positive: bool = False
    """Whether its inputs were drawn positive, since it does not say how, and others give no number."""
    encodings: tuple[str, ...] = ()
    """Encodings of sparse tiles that are ours, since it asks for numbers there."""
    rounds: int = 0
    """How often its programs ran, one after another, where results depend on what ran before; 0 elsewhere."""
    constant_tiles: int = 0
    """Tiles that are one number, of which no correlation was asked."""
    unstable: tuple[str, ...] = ()
    """Queues whose golden rounding to float32 alone fails the comparison: what it leaves of it was asked."""


def run_test_config(
    text: str,
    runner: Runner,
    step_runner: StepRunner | None = None,
    *,
    name: str = "netlist",
    board: str = "",
    seed: int = 0,
) -> Verdict:
    """Runs a netlist as its own `test-config` asks.

    Raises CompilerInputError for a netlist that is refused, NotModelledError for one whose golden is not known, and
    whatever the runner raises.
    """
    netlist = for_first_chip(parse(text, name, board))
    try:
        raw = parse_yaml(text)
    except YamlError as error:
        raise CompilerInputError(f"netlist: expected YAML, got: {error}") from error
    config = configs.read(raw)
    planned = to_binary(netlist, parameters={})
    return compare_run(raw, config, planned, runner, step_runner, seed)


def compare_run(
    raw: Row,
    config: TestConfig,
    planned: PlannedProgram,
    runner: Runner,
    step_runner: StepRunner | None = None,
    seed: int = 0,
) -> Verdict:
    """Draws inputs, computes the golden, runs the binary and compares. Raises as `run_test_config`.

    Where results depend on what ran before, the netlist's programs are run, by `step_runner`.
    """
    asked, encodings = asked_inputs(raw, config), tuple(encodings_of_ours(raw, config))
    if has_state(raw):
        if step_runner is None:
            raise NotModelledError("expected results of one input alone, got programs that keep a state")
        compared, positive = compare_drawn(raw, config, planned, step_runner, seed)
        return Verdict(
            not compared.why,
            compared.why,
            compared.queues,
            compared.entries,
            asked,
            positive,
            encodings,
            compared.rounds,
            compared.constant_tiles,
            compared.unstable,
        )
    count = min(asked, MOST_INPUTS)
    data = binary.write(planned.binary)
    program = planned.graph
    if not program.outputs:
        raise NotModelledError("expected a queue that the host reads, got none")
    started = time.monotonic()
    verdict = Verdict(True, "", tuple(program.outputs), 0, asked, encodings=encodings)
    for entry in range(count):
        if entry and time.monotonic() - started > ENOUGH:
            break
        config, inputs, golden = _golden(raw, config, seed, entry)
        verdict = replace(verdict, inputs=entry + 1, positive=config.stimulus is configs.POSITIVE)
        results = runner(data, [host_array(raw["queues"][name], inputs[name]) for name in program.sources])
        for name, got in zip(program.outputs, results, strict=True):
            tiles = from_queue(np.asarray(got, np.float64), tile_of(raw["queues"][name]))
            rule = config.comparison_of(name)
            verdict = replace(verdict, constant_tiles=verdict.constant_tiles + constant_tiles(golden[name], rule))
            if not differences(golden[name], tiles, rule):
                continue
            if why := stable_difference(golden[name], Golden(raw, single=True).run(inputs)[name], tiles, rule):
                where = f"{name}, input {entry}" if count > 1 else name
                return replace(verdict, passed=False, why=f"{where}: {why}")
            verdict = replace(verdict, unstable=tuple(dict.fromkeys((*verdict.unstable, name))))
    if set(verdict.unstable) == set(verdict.queues):
        first = verdict.queues[0]
        raise NotModelledError(f"{first}: expected numbers that rounding to float32 leaves as they are, got none")
    return verdict


def _golden(
    raw: Row, config: TestConfig, seed: int, entry: int
) -> tuple[TestConfig, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns one input and its golden, and the rules by which it was drawn.

    Where a netlist does not say how its inputs are drawn, they were tensors that its publisher kept; if the default
    gives results that are no numbers (roots of negative variances), they are drawn positive. Raises NotModelledError
    if no input gives numbers.
    """
    tried = [config]
    if config.drawn_by_default and config.stimulus is not configs.POSITIVE:
        tried.append(replace(config, stimulus=configs.POSITIVE))
    missing = ""
    for candidate in tried:
        inputs = inputs_of(raw, candidate, seed, entry)
        golden = Golden(raw).run(inputs)
        undefined = [name for name, value in golden.items() if not np.isfinite(value).all()]
        if not undefined:
            return candidate, inputs, golden
        missing = missing or undefined[0]
    raise NotModelledError(f"{missing}: expected numbers, got NaN or infinity with the inputs that it asks for")


def asked_inputs(raw: Row, config: TestConfig) -> int:
    """Returns how many inputs the netlist's programs run: `input_count` times the loops of `test-args`."""
    loops = 1
    for key in ("program_loop_count", "microbatch_count", "minibatch_count"):
        loops *= max(1, config.arguments.get(key, 1))
    counts = [graph.get("input_count", 1) for graph in raw["graphs"].values()]
    return max(counts, default=1) * loops


__all__ = ["MOST_INPUTS", "Runner", "Verdict", "compare_run", "run_test_config"]

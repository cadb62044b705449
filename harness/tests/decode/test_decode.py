"""Decoders with states: what drifts, and that a state which is not kept as it should be is named, at its step."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from click.testing import CliRunner

from opscope.harness.decode import page
from opscope.harness.decode.steps import Module, Step, generate
from opscope.harness.record.errors import InputError
from opscope.models.arguments import ArgSpec

WIDTH, CONTEXT, VOCABULARY = 8, 16, 40
RANDOM = np.random.default_rng(5)
TABLE = RANDOM.normal(size=(VOCABULARY, WIDTH)).astype(np.float32)
STATES = [ArgSpec(name, (1, 1, CONTEXT, WIDTH), "float32", "zeros", "state") for name in ("keys", "values")]
IDS = ArgSpec("input_ids", (1, 4), "int32", f"int:0:{VOCABULARY}", "input")
POSITION = ArgSpec("position", (), "int32", "int:0:16", "input")
Arrays = Sequence[np.ndarray]


def decoder(arguments: Arrays) -> list[np.ndarray]:
    """Attention over a cache, in NumPy: of a prompt, or of one token with a position."""
    keys, values, ids, *position = arguments
    first, count = int(position[0]) if position else 0, ids.shape[1]
    x = TABLE[ids[0]]
    keys, values = keys.copy(), values.copy()
    keys[0, 0, first : first + count], values[0, 0, first : first + count] = x, np.roll(x, 1, axis=1)
    seen = np.arange(CONTEXT) <= first + np.arange(count)[:, None]
    weights = np.where(seen, np.exp(x @ keys[0, 0].T * 0.2), 0)
    out = weights / weights.sum(1, keepdims=True) @ values[0, 0]
    return [(out @ TABLE.T)[None], keys, values]


def noisy(arguments: Arrays) -> list[np.ndarray]:
    logits, *states = decoder(arguments)
    return [logits * (1 + 1e-3 * RANDOM.normal(size=logits.shape).astype(np.float32)), *states]


def never_written(arguments: Arrays) -> list[np.ndarray]:
    """A replay of the same program, whose caches stay as they were when it was recorded."""
    logits, *_ = decoder(arguments)
    return [logits, arguments[0], arguments[1]]


def written_elsewhere(arguments: Arrays) -> list[np.ndarray]:
    keys, values, ids, position = arguments
    logits, *states = decoder([keys, values, ids, np.asarray(position + 1)])
    return [logits, *states]


def written_twice(arguments: Arrays) -> list[np.ndarray]:
    logits, keys, values = decoder(arguments)
    keys[0, 0, 1] = TABLE[0]
    return [logits, keys, values]


def aliased(arguments: Arrays) -> list[np.ndarray]:
    logits, keys, values = decoder(arguments)
    place = int(arguments[3])
    values[0, 0, place] = keys[0, 0, place]
    return [logits, keys, values]


def other_values(arguments: Arrays) -> list[np.ndarray]:
    logits, keys, values = decoder(arguments)
    keys[0, 0, int(arguments[3])] *= RANDOM.normal(size=WIDTH)
    return [logits, keys, values]


def steps_of(run: Callable[[Arrays], list[np.ndarray]], count: int = 8) -> list[Step]:
    prefill = Module([*STATES, IDS], decoder, decoder)
    decode = Module([*STATES, IDS, POSITION], decoder, run)
    empty = np.zeros(STATES[0].shape, np.float32)
    prompt = RANDOM.integers(0, VOCABULARY, (1, 4)).astype(np.int32)
    values = {"keys": empty, "values": empty, "input_ids": prompt}
    return list(generate(prefill, decode, values, RANDOM.integers(1, VOCABULARY, count).tolist()))


def test_a_right_decoder_has_no_problem_and_its_drift_is_seen() -> None:
    steps = steps_of(noisy)
    assert [step.number for step in steps] == list(range(9))
    assert not any(step.problems for step in steps)
    assert all(0.999 < step.logits_pcc < 1 for step in steps[1:])
    assert steps[0].logits_pcc == pytest.approx(1)


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (never_written, "keys is not written at position 4 of dim 2"),
        (written_elsewhere, "keys is written elsewhere at position 4 of dim 2"),
        (written_twice, "keys is written elsewhere too: 8 elements that are to stay"),
        (aliased, "values is aliased: it holds what keys is to hold"),
        (other_values, "keys has wrong values where it is written"),
    ],
)
def test_a_state_that_is_not_kept_is_named_at_the_step(
    run: Callable[[Arrays], list[np.ndarray]], sentence: str
) -> None:
    steps = steps_of(run)
    assert not steps[0].problems
    assert any(problem.startswith(sentence) for problem in steps[1].problems)
    # From the second step on, the logits tell it too, for all that looks at them alone.
    if run is never_written:
        assert any(problem.startswith("logits") for step in steps[2:4] for problem in step.problems)


def test_more_steps_than_a_cache_has_room_for_are_refused() -> None:
    with pytest.raises(InputError, match="--decode-steps: expected at most 12 after a prompt of 4, got 13"):
        steps_of(decoder, 13)


def test_the_steps_are_a_table_lines_and_a_chart() -> None:
    steps = steps_of(never_written)
    assert "first wrong at step 1: keys is not written" in page.summary("toy", steps)
    assert len(page.table(steps).splitlines()) == 1 + len(steps) + sum(len(step.problems) for step in steps)
    assert [json.loads(line)["number"] for line in page.json_lines("toy", steps).splitlines()] == list(range(9))
    chart = page.chart("toy", steps)
    assert chart.count("<polyline") == 2
    assert "nan" not in chart


def test_an_unknown_decoder_is_refused() -> None:
    from opscope.harness.cli.decode import decode

    result = CliRunner().invoke(decode, ["gpt3"])
    assert isinstance(result.exception, InputError)
    assert "expected a decoder of gpt2, hybrid, llama" in str(result.exception)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama", "hybrid"])
def test_the_decoders_of_the_zoo_generate(name: str, tmp_path) -> None:
    from opscope.harness.cli.decode import decode

    result = CliRunner().invoke(decode, [name, "--decode-steps", "3", "--keep-step", "2", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert f"{name}: 3 steps, every step right" in result.output
    with np.load(tmp_path / f"{name}-step2.npz") as archive:
        kept = {key: archive[key] for key in archive.files}
    assert int(kept["position"]) == 33
    assert kept["input_ids"].shape == (1, 1)
    states = [kept[key] for key in kept if key.endswith("keys")]
    # Prompt and one token are in the cache, the second is not yet.
    assert states
    assert all(state[0, 0, 32].any() and not state[0, 0, 33:].any() for state in states)

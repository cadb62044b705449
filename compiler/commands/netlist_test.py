"""`opscope netlist FILE --run-test-config`: runs a netlist on the simulator and compares as its `test-config` asks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opscope.base.temporary_folder import TemporaryFolder
from opscope.compiler.errors import CompilerInputError

if TYPE_CHECKING:
    import numpy as np

    from opscope.compiler.buda.test_config.run import Verdict
    from opscope.compiler.buda.test_config.stepwise import Step

LIMIT = 1800
"""Seconds that the simulator may take for one input, or for all steps."""


def run_test(file: Path, board: str, seed: int, as_json: bool) -> bool:
    """Runs a netlist's test, prints the outcome and returns whether it passed.

    Raises CompilerInputError for a netlist that is refused, one without a `test-config`, or one that the simulator
    refuses.
    """
    from opscope.base.yaml_text import YamlError, read_text
    from opscope.compiler.buda.netlist.lines import with_line
    from opscope.compiler.buda.test_config.rows import NotModelledError
    from opscope.compiler.buda.test_config.run import run_test_config
    from opscope.compiler.target.system_desc import load_board

    try:
        text = read_text(file)
    except (OSError, YamlError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise CompilerInputError(f"{file}: expected a readable netlist, got: {reason}") from error
    arch = load_board(board).arch if board else ""
    with TemporaryFolder("netlist") as folder:
        try:
            simulator = _Simulator(Path(folder))
            verdict = run_test_config(text, simulator.run, simulator.steps, name=file.stem, board=arch, seed=seed)
        except NotModelledError as missing:
            raise CompilerInputError(f"{file}: expected a test with a known result, got: {missing}") from missing
        except CompilerInputError as error:
            raise CompilerInputError(f"{file}: {with_line(str(error), text)}") from error
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.netlist import Tested

        tested = Tested(
            netlist=str(file),
            passed=verdict.passed,
            why=verdict.why,
            queues=verdict.queues,
            inputs=verdict.inputs,
            inputs_asked=verdict.asked,
            positive_inputs=verdict.positive,
            encodings_of_ours=verdict.encodings,
            rounds=verdict.rounds,
            constant_tiles=verdict.constant_tiles,
            unstable=verdict.unstable,
        )
        print_answer(tested, indent=None)
    else:
        _print_outcome(verdict)
    return verdict.passed


def _print_outcome(verdict: Verdict) -> None:
    """What was compared, and what the numbers do not say."""
    inputs = f"{verdict.inputs} of {verdict.asked} inputs" if verdict.asked > 1 else "1 input"
    if verdict.rounds:
        inputs = f"{verdict.inputs} entries of {verdict.rounds} runs of its programs"
    click.echo(f"{'passed' if verdict.passed else 'failed'}: {', '.join(verdict.queues)}; {inputs} compared")
    if verdict.positive:
        click.echo("inputs were drawn positive: the netlist does not say how, and others give no number")
    if verdict.constant_tiles and verdict.passed:
        click.echo(
            f"PCC was not asked of {verdict.constant_tiles} tiles of one number: all of their elements are close"
        )
    if verdict.unstable and verdict.passed:
        click.echo(
            f"rounding alone fails the comparison of these, what is left of it was asked: {', '.join(verdict.unstable)}"
        )
    if verdict.encodings:
        click.echo(
            f"encodings of sparse tiles are ours, since the netlist asks for numbers: {', '.join(verdict.encodings)}"
        )
    if not verdict.passed:
        click.echo(verdict.why)


@dataclass(frozen=True)
class _Simulator:
    """Runs binaries in processes of their own, with files in a folder."""

    folder: Path

    def run(self, data: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs a binary once."""
        return self._outputs(data, {f"arr_{number}": value for number, value in enumerate(inputs)})

    def steps(self, data: bytes, script: Sequence[Step]) -> list[np.ndarray]:
        """Runs the programs of a binary, step by step."""
        pushed: dict[str, np.ndarray] = {}
        lines: list[list[Any]] = []
        for number, step in enumerate(script):
            lines.append([step.action, step.name])
            if isinstance(step.value, Mapping):
                lines[-1].append(step.value)
            elif step.value is not None:
                pushed[f"arr_{number}"] = step.value
                lines[-1].append(f"arr_{number}")
        file = self.folder / "steps.json"
        file.write_text(json.dumps(lines), encoding="utf-8")
        return self._outputs(data, pushed, "--steps", str(file))

    def _outputs(self, data: bytes, arrays: Mapping[str, np.ndarray], *more: str) -> list[np.ndarray]:
        import numpy as np

        program, inputs, outputs = (self.folder / name for name in ("program.ttnn", "inputs.npz", "outputs.npz"))
        program.write_bytes(data)
        named: dict[str, Any] = dict(arrays)
        np.savez(inputs, **named)
        command = [sys.executable, "-P", "-m", "opscope.simulator", str(program), "--inputs", str(inputs), *more]
        try:
            done = subprocess.run(
                [*command, "--outputs", str(outputs)], capture_output=True, text=True, timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise CompilerInputError(f"simulator: expected an end within {LIMIT} s, got none") from error
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise CompilerInputError(lines[-1])
        with np.load(outputs, allow_pickle=False) as archive:
            return [archive[name] for name in archive.files]


__all__ = ["run_test"]

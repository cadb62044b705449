"""Command line of `opscope benchmark`, with the options of tenstorrent/benchmarking."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np

from opscope.base.atomic_write import write_whole
from opscope.base.live import progress
from opscope.base.live.status_line import duration
from opscope.base.plugins import plugins
from opscope.base.terminal import console
from opscope.simulator.errors import DeviceError
from opscope.simulator.host.errors import ImageError, PyBudaError
from opscope.simulator.host.run_image import ImageProblem

DEVICES = ("tt", "cpu", "iree")
TASKS = (
    "na",
    "text_classification",
    "text_summarization",
    "image_classification",
    "segmentation",
    "asr",
    "text_generation",
)
SEED = 0
PUBLISHERS = "opscope.benchmark_publishers"
"""Entry points `(url, where) -> (report -> one line)`: what checks a database's URL, and then publishes reports there.
Both raise ValueError with a line to print; its `exit_code`, if it has one, is the command's."""


class Stopped(ImageProblem):
    """Ctrl-C: one line, and the exit code of a command that it ends."""

    exit_code = 130


class DatabaseAway(ImageProblem):
    """The report waits for its database: one line, and the exit code of `opscope publish`."""

    exit_code = 1


@click.command("benchmark", short_help="Measure pushing, running and popping the inputs of a model.")
@click.option("-d", "--device", required=True, metavar="|".join(DEVICES), help="tt is a simulated card.")
@click.option("-m", "--model", required=True, help="A model, such as bert or resnet; `opscope models` lists them.")
@click.option("-c", "--config", default="", help="Which of them, such as base or large; names are joined with _.")
@click.option("-t", "--task", default="na", show_default=True, help="Noted in the report; outputs are the model's own.")
@click.option("-mb", "--microbatch", default=1, show_default=True, type=click.IntRange(1), help="Inputs per loop.")
@click.option(
    "-lc", "--loop_count", "--loop-count", default=1, show_default=True, type=click.IntRange(1), help="Loops."
)
@click.option("--arch", default="wormhole_b0", show_default=True, help="The card: a board, or an arch.")
@click.option("--set", "settings", multiple=True, metavar="OPTION=VALUE", help="Set one of TT-Buda's compile options.")
@click.option(
    "--timing-only", "--timing_only", is_flag=True, help="Compute nothing: only what the card would take is reported."
)
@click.option(
    "--values",
    type=click.Choice(("one", "all")),
    help="Compute one input or all. Default: one on a simulated card, which takes the same time for each.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the report to this file, as JSON.")
@click.option("-s", "--save_output", "--save-output", is_flag=True, help="The same, to benchmark_DEVICE_MODEL.json.")
@click.option("--database", metavar="URL", help="Database to publish to; default: none.")
def benchmark(
    device: str,
    model: str,
    config: str,
    task: str,
    microbatch: int,
    loop_count: int,
    arch: str,
    settings: tuple[str, ...],
    timing_only: bool,
    values: str | None,
    output: Path | None,
    save_output: bool,
    database: str | None,
) -> None:
    """Run a model on inputs, `--microbatch` of them in each of `--loop_count` loops, and report what they took.

    The host's time is split into pushing inputs, the device, and popping outputs. On a simulated card the device's is
    the simulator's own; what a real card would take stands beside it, for all inputs. There the values of one input are
    computed, which warms up as well, and the report says `values 1 of 256`; `--values all` computes every one. With it,
    and on another device, a first input, which is not counted, warms up, and an estimate of the rest is printed. Ctrl-C
    reports the inputs that have run; such a report is not published.

    With `--database` the report becomes a row of the table `benchmarks`. If the database cannot be reached, the report
    is kept in .opscope/spool and the exit code is 1; the next benchmark or `opscope publish` to it delivers it.
    """
    from opscope.compiler.api import CompilerInputError, StageFailure

    try:
        publish = _publisher(database) if database is not None else None
        report = _measured(device, model, config, task, microbatch, loop_count, arch, settings, timing_only, values)
        path = output or (Path(f"benchmark_{device}_{report['model']}.json") if save_output else None)
        if path is not None:
            write_whole(path, json.dumps(report, indent=2) + "\n")
    except (StageFailure, CompilerInputError, ImageError, DeviceError, PyBudaError, ValueError) as error:
        raise ImageProblem(" ".join(str(error).split())) from error
    except OSError as error:
        raise ImageProblem(f"{error.filename}: expected a place to write, got: {error.strerror}") from error
    _show(report)
    if path is not None:
        click.echo(f"{path}: the report", err=True)
    if report["stopped"]:
        raise Stopped(f"stopped after {report['computed']} of {report['inputs']} inputs")
    if publish is not None:
        try:
            click.echo(publish(report), err=True)
        except ValueError as error:
            away = getattr(error, "exit_code", ImageProblem.exit_code) == DatabaseAway.exit_code
            raise (DatabaseAway if away else ImageProblem)(str(error)) from error


def _publisher(url: str) -> Callable[[dict[str, Any]], str]:
    """What publishes a report to the database at a URL. Raises ValueError for a URL that is none."""
    for entry in plugins(PUBLISHERS):
        return entry.load()(url, "--database")
    raise PyBudaError(
        f"--database: expected a package that publishes, got none; try installing one that registers {PUBLISHERS}"
    )


def _measured(
    device: str,
    model: str,
    config: str,
    task: str,
    microbatch: int,
    loop_count: int,
    arch: str,
    settings: tuple[str, ...],
    timing_only: bool,
    values: str | None,
) -> dict[str, Any]:
    from opscope.simulator.host.benchmark import runners

    if device == "cuda":
        raise PyBudaError("-d cuda: expected tt, cpu or iree, got cuda: no GPU is used here; try -d cpu")
    if device not in DEVICES:
        raise PyBudaError(f"-d: expected one of {', '.join(DEVICES)}, got {device!r}")
    task = task.replace("-", "_")
    if task not in TASKS:
        raise PyBudaError(f"--task: expected one of {', '.join(TASKS)}, got {task!r}")
    if timing_only and device != "tt":
        raise PyBudaError(f"--timing-only: expected -d tt, whose time is modelled, got {device}")
    if timing_only and values:
        raise PyBudaError(f"--timing-only: expected no values, got --values {values}")
    progress.step(f"exporting {model}")
    program = _program(model, config)
    make = {"cpu": runners.cpu, "iree": runners.iree}
    runner = runners.card(program, arch, settings) if device == "tt" else make[device](program)
    count = microbatch * loop_count
    report: dict[str, Any] = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "device": device,
        "model": program.name,
        "config": config,
        "task": task,
        "microbatch": microbatch,
        "loop_count": loop_count,
        "inputs": count,
        "timing_only": timing_only,
        "computed": 0,
        "stopped": False,
        **runner.about,
    }
    if not timing_only:
        one = (values or ("one" if device == "tt" else "all")) == "one"
        _compute(program, runner, report, one)
    if device == "tt":
        report["simulated_seconds"] = count * report["simulated_seconds_per_input"]
        report["simulated_inputs_per_second"] = 1 / report["simulated_seconds_per_input"]
    return report


def _compute(program: Any, runner: Any, report: dict[str, Any], one: bool) -> None:
    """Computes one input or all, and notes how many and what they took. Ctrl-C ends it: `stopped` then is true."""
    from opscope.simulator.host.benchmark.runners import Seconds

    seconds, warming = Seconds(), Seconds()
    count = 1 if one else report["inputs"]
    inputs = _inputs(program, min(report["microbatch"], count, 8))
    try:
        if not one:
            runner.step(inputs[0], warming)
            left = duration(count * warming.total)
            click.echo(
                f"{count} inputs in about {left}, {warming.total:.3g} s each; Ctrl-C reports what is done", err=True
            )
        for number in range(count):
            progress.step("computing input", number + 1, count)
            runner.step(inputs[number % len(inputs)], seconds)
            report["computed"] += 1
    except KeyboardInterrupt:
        report["stopped"] = True
    if report["computed"]:
        parts = ("push", "device", "pop", "total")
        report["seconds"] = {part: getattr(seconds, part) for part in parts}
        report["inputs_per_second"] = report["computed"] / seconds.total


def _program(model: str, config: str) -> Any:
    """The model of that name: MODEL_CONFIG, MODELCONFIG, CONFIG or MODEL, whichever there is. Raises ImageError."""
    from opscope.simulator.host.benchmark.runners import Program
    from opscope.simulator.host.sources import source

    names = [f"{model}_{config}", f"{model}{config}", config] if config else [model]
    refused: ImageError | None = None
    for name in names:
        try:
            return Program(name, *source(name))
        except ImageError as error:
            refused = refused or error
    assert refused is not None
    raise refused


def _inputs(program: Any, count: int) -> list[dict[str, np.ndarray]]:
    """Inputs from a fixed seed: floats are normal, integers small, so that they are indices of any table."""
    random = np.random.default_rng(SEED)
    sets = []
    for _ in range(count):
        values = dict(program.values)
        for name, shape, dtype in program.described:
            if name not in values:
                floats = dtype.kind in "fV"
                drawn = random.standard_normal(shape) if floats else random.integers(0, 2, shape)
                values[name] = np.asarray(drawn).astype(dtype)
        sets.append(values)
    return sets


def _show(report: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table("what", "value", title=f"{report['model']} on {report['device']}", title_justify="left")
    for key, value in report.items():
        if isinstance(value, dict):
            for part, seconds in value.items():
                table.add_row(f"host, {part}", f"{seconds:.4g} s")
        elif key == "computed":
            table.add_row("values", f"{value} of {report['inputs']}")
        elif key not in ("device", "model") and value != "":
            table.add_row(key.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else str(value))
    console().print(table)

"""Command line of device images: `opscope image` compiles a model and writes its image."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np

from opscope.base import regular_file
from opscope.simulator.errors import DeviceError
from opscope.simulator.host import safetensors_file
from opscope.simulator.host.errors import ImageError
from opscope.simulator.host.run_image import ImageProblem
from opscope.simulator.host.sources import Arguments, is_file, source

TRAINING = "+training"


@click.command("image", short_help="Compile a model to a device image (TTI).")
@click.argument("what", metavar="MODEL|FILE")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Write the image to this file.")
@click.option(
    "--arch", default="grayskull", show_default=True, help="A board, or an arch, which means its default board."
)
@click.option(
    "--harvested",
    default=0,
    type=click.IntRange(min=0),
    help="Mask of the rows that are switched off on every chip, such as 2050.",
)
@click.option("--chips", default="0", show_default=True, metavar="ID,...", help="Ids of the chips that it may use.")
@click.option("--set", "settings", multiple=True, metavar="OPTION=VALUE", help="Set one of TT-Buda's compile options.")
@click.option("--epoch-break", multiple=True, metavar="OP", help="Start a new epoch at OP.")
@click.option("--chip-break", multiple=True, metavar="OP", help="Start a new epoch on the next chip at OP.")
@click.option(
    "--weights",
    type=click.Path(path_type=Path),
    help="A .safetensors file with values of arguments, by name; in a FILE arguments are arg0, arg1, ... "
    "Arguments with a value stay in the image, the others are its inputs.",
)
@click.option("--name", default="tt0", show_default=True, help="Name of the device.")
def image(
    what: str,
    output: Path,
    arch: str,
    harvested: int,
    chips: str,
    settings: tuple[str, ...],
    epoch_break: tuple[str, ...],
    chip_break: tuple[str, ...],
    weights: Path | None,
    name: str,
) -> None:
    """Compile a model, or a StableHLO file, and write it with its parameters as one file that `run-image` runs.

    The card need not be there: `--arch` and `--harvested` say what it has.
    """
    from opscope.compiler.api import (
        Compilation,
        CompilerInputError,
        Configuration,
        StageFailure,
        compile_to,
        planned_module,
    )
    from opscope.simulator.host.compiled_module import CompiledModule
    from opscope.simulator.host.write_image import write_image

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            configuration = Configuration()
            for text in settings:
                option, _, value = text.partition("=")
                configuration.set_configuration_options(**{option: value})
            if harvested:
                configuration.set_configuration_options(harvested_rows=_rows(harvested))
            configuration.set_epoch_break(epoch_break)
            configuration.set_chip_break(chip_break)
            module_text, arguments, values = source(what)
            values |= _weights(weights)
            module = Path(what).stem if is_file(what) else what.removesuffix(TRAINING)
            trains = what.endswith(TRAINING)
            planned = planned_module(
                compile_to(Compilation(module_text, arch, configuration, module, chip_ids=_chips(chips), fallback=True))
            )
            arguments = _roles(arguments or [(f"arg{i}", "input") for i in range(len(planned.arguments))], values)
            made = CompiledModule.of(planned, arguments, kind="training" if trains else "forward")
            write_image(output, [made], values, device_name=name, training=trains)
    except (StageFailure, CompilerInputError, ImageError, DeviceError, ValueError) as error:
        raise ImageProblem(" ".join(str(error).split())) from error
    except OSError as error:
        got = (error.strerror or str(error)).lower()
        raise ImageProblem(f"{error.filename}: expected a place to write, got: {got}") from error
    for warning in caught:
        click.echo(f"warning: {warning.message}", err=True)
    click.echo(f"{output}: {output.stat().st_size} bytes", err=True)


def _rows(mask: int) -> list[int]:
    return [row for row in range(mask.bit_length()) if mask >> row & 1]


def _chips(text: str) -> tuple[int, ...]:
    try:
        chips = tuple(int(number) for number in text.split(","))
    except ValueError:
        chips = ()
    if not chips or min(chips) < 0 or len(set(chips)) < len(chips):
        raise ImageError(f"--chips: expected different numbers such as 0,1, got {text!r}")
    return chips


def _weights(path: Path | None) -> dict[str, np.ndarray]:
    if path is None:
        return {}
    try:
        tensors = safetensors_file.decode(f"--weights {path}", regular_file.read_bytes(path))
    except OSError as error:
        got = (error.strerror or str(error)).lower()
        raise ImageError(f"--weights {path}: expected a .safetensors file, got: {got}") from error
    return {name: array for name, (_, array) in tensors.items()}


def _roles(arguments: Arguments, values: dict[str, Any]) -> Arguments:
    """Returns the arguments; inputs with a value stay. Raises ImageError for a value of no argument."""
    names = [name for name, _ in arguments]
    if strange := [name for name in values if name not in names]:
        raise ImageError(f"--weights: expected names of arguments ({', '.join(names)[:200]}), got {strange[0]!r}")
    return [(name, "parameter" if role == "input" and name in values else role) for name, role in arguments]

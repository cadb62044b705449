"""Command line of device images: `opscope run-image`. It imports no framework, no compiler and no exporter."""

from __future__ import annotations

import struct
import zipfile
import zlib
from importlib import util
from pathlib import Path
from typing import Any

import click
import numpy as np

from opscope.base import regular_file
from opscope.base.array_bits import as_type
from opscope.compiler.target.formats import host_dtype
from opscope.simulator.errors import DeviceError
from opscope.simulator.host.compiled_module import Value
from opscope.simulator.host.errors import ImageError
from opscope.simulator.host.tt_device_image import TTDeviceImage


class ImageProblem(click.ClickException):
    """Bad input: one line, exit code 2."""

    exit_code = 2


@click.command("run-image", short_help="Run a device image without the compiler.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--inputs", type=click.Path(path_type=Path), help=".npz of the inputs, under their names or as arr_0, ..."
)
@click.option("--outputs", type=click.Path(path_type=Path), help=".npz to write, with the results under their names.")
@click.option("--board", default="", help="Board to run on, such as e150-harvested-2; default: that of the image.")
@click.option("--per-core", is_flag=True, help="Compute each result block by block, as its cores would.")
@click.option("--info", is_flag=True, help="Print what the image is, and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run_image(
    file: Path, inputs: Path | None, outputs: Path | None, board: str, per_core: bool, info: bool, as_json: bool
) -> None:
    """Run a device image FILE (TTI): a compiled model with its parameters, that `opscope image` writes.

    Every digest in it is checked, and that the board has the cores of its plan. Nothing in it is executed but the
    device's own operations; source text in it is for reading.
    """
    try:
        image = TTDeviceImage.load_from_disk(file, board)
        if info:
            if as_json:
                from opscope.wire.answer import print_answer

                print_answer(image.device, indent=None)
            else:
                click.echo(image.info_text())
            return
        if image.trains:
            image.run({})  # which says what to do with it
        arrays = read_inputs(inputs, image.modules[0].inputs)
        missing = [package for package in image.device.needs if util.find_spec(package) is None]
        if missing:
            raise ImageError(
                f"{file}: expected {missing[0]} for the ops of its host, got none; try pip install {missing[0]}"
            )
        results = image.run(arrays, per_core=per_core)
        if outputs is not None:
            names = [value.name for value in image.modules[0].results]
            named: dict[str, Any] = dict(zip(names, results, strict=True))
            np.savez(outputs, **named)
    except (ImageError, DeviceError) as error:
        raise ImageProblem(" ".join(str(error).split())) from error
    except OSError as error:
        got = (error.strerror or str(error)).lower()
        raise ImageProblem(f"{error.filename or outputs}: expected a place to write, got: {got}") from error
    profile = image.loaded[0].profile
    assert profile is not None
    card = image.loaded[0].device.card_type
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.run_image import Ran

        ran = Ran(
            card_type=card,
            cycles=profile.total_cycles,
            device_ns=profile.device_ns,
            results={value.name: value.shape for value in image.modules[0].results},
        )
        print_answer(ran, indent=None)
        return
    shapes = {value.name: list(value.shape) for value in image.modules[0].results}
    click.echo(f"card_type {card}  cycles {profile.total_cycles:,}  device_ns {profile.device_ns}  results {shapes}")


def read_inputs(path: Path | None, wanted: tuple[Value, ...]) -> dict[str, np.ndarray]:
    """Returns the arrays of an .npz file as inputs, by name. Raises ImageError for other names or no such file."""
    names = [value.name for value in wanted]
    if path is None:
        if names:
            raise ImageError(f"--inputs: expected an .npz with {', '.join(names)[:200]}, got none; try --info")
        return {}
    try:
        with open(path, "rb", opener=regular_file.opener) as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files} if hasattr(archive, "files") else {}
    except (
        OSError,
        ValueError,
        KeyError,
        EOFError,
        MemoryError,
        OverflowError,
        RecursionError,
        NotImplementedError,
        TypeError,
        AttributeError,
        SyntaxError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
    ) as error:
        raise ImageError(f"--inputs {path}: expected an .npz file of arrays, got: {str(error)[:200]}") from error
    if list(arrays) == [f"arr_{i}" for i in range(len(names))]:
        arrays = dict(zip(names, arrays.values(), strict=True))
    if sorted(arrays) != sorted(names):
        raise ImageError(
            f"--inputs {path}: expected {', '.join(names)[:200]}, got {', '.join(arrays)[:200] or 'nothing'}"
        )
    return {value.name: as_type(arrays[value.name], host_dtype(value.element_type)) for value in wanted}

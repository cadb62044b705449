"""`opscope device system-desc BOARD -o FILE`: a board's system descriptor, by which tt-mlir compiles without it."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import click

from opscope.base.atomic_write import write_whole
from opscope.base.page import Page
from opscope.simulator.commands.simulate import InputProblem

FILES = (".yaml", ".yml")


@click.command("system-desc")
@click.argument("board")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="File to write, .ttsys.")
@click.option(
    "--for",
    "build",
    metavar="BUILD",
    help="DISTRIBUTION==VERSION of the compiler, such as jax-tt-plugin==0.1.3, or the 64 digits of its "
    "schema hash; default: what is installed, else the newest that is known.",
)
def system_desc(board: str, output: Path, build: str | None) -> None:
    """Write tt-mlir's system descriptor of BOARD: n150, n300, t3000, galaxy, p100, p150, p300, or n150-harvested-2052.

    BOARD may be a board file of your own (.yaml), which can be `like: n150` and change what differs: rows that are
    switched off, another L1. Without a card tt-mlir compiles for what the descriptor says; a build takes only
    descriptors with its own schema hash.
    """
    from opscope.compiler.target.system_desc import load_board, load_board_file
    from opscope.compiler.target.tt_system_desc.of_board import system_desc_bytes

    try:
        named, schema_hash = _build(build)
        system = load_board_file(Path(board)) if Path(board).suffix in FILES else load_board(board)
        data = system_desc_bytes(system, schema_hash)
    except ValueError as error:
        raise InputProblem(str(error)) from error
    except OSError as error:
        raise InputProblem(f"{board}: expected a readable board file, got: {error.strerror}") from error
    try:
        write_whole(output, data)
    except OSError as error:
        raise InputProblem(f"{output}: expected a file that can be written, got: {error.strerror}") from error
    chips = "1 chip" if system.chips == 1 else f"{system.chips} chips"
    Page().prose(f"{output}: {system.board}, {system.arch}, {chips}, for {named}; schema hash {schema_hash}")


def _build(name: str | None) -> tuple[str, str]:
    """Returns a build's name and schema hash. Raises ValueError for one that is not known."""
    from opscope.compiler.target.tt_system_desc.schema_hashes import NEWEST, PLUGINS, schema_hash_of

    if name is None:
        name = next((f"{plugin}=={version}" for plugin in PLUGINS if (version := _installed(plugin))), NEWEST)
    if len(name) == 64 and not set(name) - set("0123456789abcdef"):
        return "the build with it", name
    distribution, equals, version = name.partition("==")
    if not (distribution and equals and version):
        raise ValueError(
            f"--for: expected DISTRIBUTION==VERSION or the 64 hexadecimal digits of a schema hash, got {name!r}; try "
            f"--for {NEWEST}"
        )
    return name, schema_hash_of(distribution, version)


def _installed(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None

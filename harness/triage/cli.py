"""The verbs of triage: `opscope repro`, `replay`, `reduce`, `probe`, `bisect`."""

from __future__ import annotations

from pathlib import Path

import click

from harness.errors import InputError
from harness.triage import after_run, bundle, from_run

RUN = click.option("--run", "run_dir", type=click.Path(path_type=Path), metavar="DIR",
                   help="The run that the op is of; default: the newest below .opscope/runs.")  # fmt: skip


@click.command(short_help="Write a folder that shows one op's failure anywhere.")
@click.argument("op_id", metavar="ID")
@RUN
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Where; default: in the run folder.")
def repro(op_id: str, run_dir: Path | None, out: Path | None) -> None:
    """Write the repro folder of an op: module, inputs, golden, options, run.sh, a test, a README.

    A sweep leaves one for each failure. This writes one for any op of a run, with all its values, wherever they are
    wanted.
    """
    run_dir, run, row, test = from_run.find(op_id, run_dir, "opscope repro")
    folder = out or after_run.place(run_dir, row.op_id)
    if out is not None and out.exists() and not (out / bundle.FILE).is_file():
        raise InputError("--out", "a new folder or a repro folder", f"{out}, which is something else")
    bundle.write(folder, row, test, from_run.origin(run, row, test))
    click.echo(folder)

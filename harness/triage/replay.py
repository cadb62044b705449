"""Runs the op of a repro folder in a lane and reports whether its failure is still there.

Also a program of its own (`python -m opscope.harness.triage.replay FOLDER`), so that a checkout needs no installation.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from opscope.base.file_names import resolved
from opscope.base.finite_number import FiniteNumber
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.record.errors import InputError, refusal
from opscope.harness.record.optest import backend_label
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import WENT_THROUGH, Stage
from opscope.harness.triage import bundle
from opscope.harness.triage.evaluator import Evaluator

PASSES, SAME, REFUSED, OTHER = 0, 1, 2, 3
"""Exit codes."""
NEEDS_GOLDEN = (Stage.COMPARE, None)
"""Stages of failures that only a golden shows."""


@dataclass(frozen=True)
class Replayed:
    """The outcome of the op this time."""

    test: OpTest
    failure: bundle.Failure
    diagnostic: str

    @property
    def passes(self) -> bool:
        """Whether it succeeds; where nothing can be compared, whether it goes past the stage it failed at."""
        return self.test.status in WENT_THROUGH

    @property
    def code(self) -> int:
        """The exit code."""
        return PASSES if self.passes else SAME if self.failure.same(self.test) else OTHER

    @property
    def text(self) -> str:
        """The lines that `opscope replay` prints."""
        test = self.test
        verdict = {PASSES: "it passes", SAME: "it fails as recorded", OTHER: "it fails in another way than recorded"}
        stage = f" at {test.failed_stage}" if test.failed_stage else ""
        lines = [f"{verdict[self.code]}: {test.status}{stage} on {test.backend} ({test.card_type})"]
        lines += [test.error_message] if test.error_message else []
        if self.code == OTHER:
            lines.append(f"recorded: {self.failure.status} at {self.failure.stage}: {self.failure.message}")
        if test.pcc is not None:
            lines.append(f"PCC {test.pcc:.7f}")
        return "\n".join([*lines, *([self.diagnostic] if self.diagnostic and self.code != PASSES else [])])


def replay(
    folder: Path, *, backend: str | None = None, op_timeout: float | None = None, **options: str | None
) -> Replayed:
    """Runs the op of a repro folder as it was run, but for the backend, the time limit and result options that are
    not None. Raises InputError."""
    repro = bundle.read(folder)
    with TemporaryFolder("replay") as scratch:
        context = bundle.context_of(folder, repro, Path(scratch))
        changed = {name: value for name, value in options.items() if value is not None}
        if backend is not None and backend_label(backend) != backend_label(repro.options.backend):
            # Formats and fidelity are the recorded backend's own words.
            changed |= {name: options.get(name) for name in ("data_format", "math_fidelity")}
        context = replace(context, backend=backend or context.backend, options=context.options.changed(**changed))
        row, export_dir = repro.row, resolved(folder)
        if not row.golden and repro.failure.stage in NEEDS_GOLDEN:
            export_dir = _linked(export_dir, Path(scratch) / "export")
            with Evaluator(repro.options.goldens_by) as evaluator:
                row = evaluator.with_golden(row, export_dir)
        config = LaneConfig(
            context,
            {bundle.MODEL: str(export_dir)},
            op_timeout=op_timeout or repro.options.op_timeout,
            memory_limit=repro.options.op_memory,
        )
        with Lane(config) as lane:
            test = lane.run(row)
        artifact = Path(scratch) / test.artifact if test.artifact else None
        diagnostic = artifact.read_text(encoding="utf-8").strip() if artifact and artifact.is_file() else ""
    return Replayed(test, repro.failure, diagnostic)


def _linked(folder: Path, to: Path) -> Path:
    """A folder with everything of another one, so that files can be added without a trace."""
    to.mkdir()
    for path in folder.iterdir():
        (to / path.name).symlink_to(path)
    return to


@click.command("replay", short_help="Run the op of a repro folder again.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--backend", help="Use this backend instead of the recorded one.")
@click.option("--arch", metavar="BOARD", help="Use this board.")
@click.option("--data-format", metavar="FORMAT", help="Use this number format.")
@click.option("--math-fidelity", metavar="FIDELITY", help="Use this fidelity.")
@click.option("--system-desc", metavar="FILE", help="Use this system descriptor.")
@click.option(
    "--op-timeout",
    type=FiniteNumber(min=0, min_open=True),
    metavar="SECONDS",
    help="Use this time limit, in seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the record.")
def command(folder: Path, as_json: bool, **changes: Any) -> None:
    """Run the op of a repro folder again.

    Exit code 0: it passes; 1: it fails as recorded; 2: it could not be run; 3: it fails in another way.
    """
    replayed = replay(folder, **changes)
    if as_json:
        from opscope.wire.answer import print_answer

        print_answer(replayed.test)
    else:
        click.echo(replayed.text)
    raise SystemExit(replayed.code)


def main(arguments: Sequence[str] | None = None) -> None:
    """The program: bad input is one line on stderr and exit code 2."""
    try:
        command.main(args=None if arguments is None else list(arguments), prog_name="replay")
    except InputError as error:
        click.echo(refusal("opscope replay", error), err=True)
        sys.exit(REFUSED)


if __name__ == "__main__":
    main()

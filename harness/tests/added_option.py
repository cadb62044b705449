"""What becomes of an option `rounding` that somebody added: a program for a copy of the rooms, run by test_adding.py.

Takes the folder to work in and prints what each place says of the option, as JSON.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from opscope.harness.cli import config as config_command
from opscope.harness.climb.result_cache import key
from opscope.harness.lanes.flight import Ready
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import ManifestHeader, OpRow, OpTest, Origin, RunRecord
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage
from opscope.harness.run import api, resume
from opscope.harness.run.merge_shares import merge
from opscope.harness.scale import shard
from opscope.harness.settings.settings import resolve
from opscope.harness.tests.ops import add_row
from opscope.harness.triage import bundle
from opscope.reports.database.database import open_database
from opscope.reports.publish.publish import publish

BACKEND = """
import numpy as np
from opscope.harness.backends.base import Target
from opscope.harness.record.stages import Stage

class Rounds:
    name, stages = "rounds", (Stage.COMPILE, Stage.RUN)
    def target(self, options): return Target("host", None, "exact")
    def fingerprint(self): return "rounds-1"
    def available(self): return None
    def climb(self, stage, job):
        if stage is Stage.RUN:
            total, job.ran_on = job.inputs[0] + job.inputs[1], "host"
            job.outputs = [np.floor(total) if job.options.rounding == "down" else total]
"""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
READY = Ready("host", "rounds-1", (Stage.COMPILE, Stage.RUN), "", "exact")
GIVEN = {"rounding": "down"}


def asked(folder: Path) -> dict[str, str]:
    """The option as the three sources of settings give it."""
    (folder / "pyproject.toml").write_text('[tool.opscope]\nrounding = "down"\n')
    empty = folder / "empty"
    empty.mkdir()
    os.chdir(folder)
    with contextlib.redirect_stdout(io.StringIO()) as page:
        pytest.main(["-p", "no:cacheprovider", "--help"])
    return {
        "help": " ".join(page.getvalue().split()),
        "command line": resolve(GIVEN, empty, {})["rounding"],
        "environment": resolve({}, empty, {"OPSCOPE_ROUNDING": "down"})["rounding"],
        "project": json.loads(CliRunner().invoke(config_command.config, ["--json"]).stdout)["rounding"]["value"],
        "signature": inspect.signature(api.run_op_by_op).parameters["rounding"].default,
        "default": resolve({}, empty, {})["rounding"],
    }


def recorded(folder: Path, options: ResultOptions) -> OpTest:
    """The record of an op whose backend knows the option."""
    (folder / "rounds.py").write_text(BACKEND)
    context = RunContext("run", str(folder / "run"), str(folder / "rounds.py"), options)
    with Lane(LaneConfig(context, {"toy": str(folder)})) as lane:
        return lane.run(add_row(folder, "0" * 16))


def share(folder: Path, test: OpTest, index: int, rounding: str) -> Path:
    """A run of a share of one op, or of none."""
    row = add_row(folder, test.op_id)
    origin = Origin(options={"backend": "rounds", "rounding": rounding, "shard": f"{index}/2"})
    record = RunRecord(
        run_id=f"run{index}",
        models=("toy",),
        backend="rounds",
        arch="n150",
        started=NOW,
        ended=NOW,
        outcome="complete",
        origin=origin,
    )
    header = ManifestHeader(models=("toy",), export_dirs=("/gone",), module_ops={"toy": 1}, structural={"toy": 0})
    store.write_manifest(folder, header, [row])
    shard.write(folder, shard.share([row], f"{index}/2", None))
    with store.Journal(folder, "main") as journal:
        journal.append(test)
    store.write_run(folder, record)
    return folder


def refusal(step: Any, *arguments: Any) -> str:
    """The line that a step ends in; empty where it does not refuse."""
    try:
        step(*arguments)
    except InputError as error:
        return str(error)
    return ""


def kept(folder: Path, row: OpRow, options: ResultOptions) -> dict[str, Any]:
    """What caches, merging, resuming, repro folders and the database make of it."""
    test = recorded(folder, options)
    one, two = share(folder / "one", test, 1, "down"), share(folder / "two", test, 2, "down")
    odd = share(folder / "odd", test, 2, "nearest")
    merge([one, two], folder / "whole")
    run = store.load_run(folder / "whole")
    usual = resolve({}, folder / "empty", {})
    sources = {**usual.sources, "rounding": "command line"}
    url = f"sqlite:///{folder}/db.sqlite"
    publish(folder / "whole", url)
    with open_database(url) as connection:
        column = connection.scalar(sa.text("SELECT rounding FROM op_tests"))
        series = connection.scalar(sa.text("SELECT series FROM runs"))
    contexts = [RunContext("run", "/run", options=asked) for asked in (ResultOptions(), options)]
    return {
        "record": test.model_dump()["rounding"],
        "status": test.status,
        "repro": test.repro,
        "keys": len({key(row, context, READY) for context in contexts}),
        "other shares": refusal(merge, [one, odd], folder / "mixed"),
        "merged repro": run.tests[0].repro,
        "resumed": resume.options(run, usual.values, usual.sources)["rounding"],
        "resumed otherwise": refusal(resume.options, run, usual.values, sources),
        "repro folder": bundle.Options.of({**run.record.origin.options}).model_dump()["rounding"],
        "column": column,
        "series": series,
    }


def main(folder: Path) -> None:
    """Prints what each place says."""
    options = ResultOptions(**GIVEN)
    print(json.dumps(asked(folder) | kept(folder, add_row(folder, "0" * 16), options)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

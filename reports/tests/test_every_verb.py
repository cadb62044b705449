"""A contract: a backend with stages of its own words, a message that acts and is 50 MB long, and 100,000 records go
through every verb: run, resume, merge, publish, spool, show, diff, report, export, gate, reduce, repro.

A run of a few ops is made by the command line. For many records its folder is enlarged by copies of its rows under
other ids, whose modules are those of the first ones, so that each op can be run again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from opscope.base import damage
from opscope.harness.record import store
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.scale import shard
from opscope.harness.tests.own_backend import own_backend
from opscope.reports.records.night_record import NightRecord, join

pytestmark = pytest.mark.slow

HOSTILE = "\x1b]0;t\x07\x1b[2J\x9b31m\x00\x7f\u202eevil\u2066\r\b\U000e0041 %s {0} [red]x[/red] <b>&amp; |`,\"';\n\t="
LONG = 50_000_000
"""Characters of the longest message."""
MANY = int(os.environ.get("OPSCOPE_RECORDS", "100_000"))
BIN = Path(sys.executable).parent
DB = ("--db", "sqlite:///results.sqlite")
STAGES = ("lower", "link.it", "run")

MODEL = """
func.func @main(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4x4xf32> loc("\\1B[2J\\07 here")
  %1 = stablehlo.tanh %0 : tensor<4x4xf32>
  %2 = stablehlo.sine %1 : tensor<4x4xf32>
  %3 = stablehlo.subtract %2, %b : tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}
"""
BACKEND = own_backend(
    "words",
    f"""
    if stage == "lower" and b"tanh" in job.module:
        raise StageError("no tanh: " + HOSTILE, HOSTILE * 1000)
    if stage == "link.it" and b"sine" in job.module:
        raise StageError("no room " * ({LONG} // 8) + HOSTILE, HOSTILE)
    if stage is Stage.RUN:
        a, b = job.inputs
        job.outputs, job.ran_on = [a + b if b"add" in job.module else a - b], "host"
    """,
    stages='Stage("lower"), Stage("link.it"), Stage.RUN',
    at="host",
    top=f'HOSTILE = {HOSTILE + "?"!r}.replace("?", chr(0xD800))',
)
GATE = """
name: nightly
models: [m.mlir]
backends: [words.py]
architectures: [n150]
database: sqlite:///results.sqlite
budget: 10m
workers: 1
"""


def acting(text: str) -> set[str]:
    """The characters of a text that act on a terminal or hide."""
    return {c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


@dataclass(frozen=True)
class Done:
    """A command that ended; what it printed acts on no terminal."""

    code: int
    output: str


@dataclass(frozen=True)
class Desk:
    """A user's folder with a model, a backend and a configuration of nights."""

    folder: Path

    def call(self, *words: str, codes: tuple[int, ...] = (0,), seconds: float = 1800) -> Done:
        """Runs a program of this interpreter's; `codes` are the exit codes that it may have."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        done = subprocess.run(
            [BIN / words[0], *words[1:]],
            cwd=self.folder,
            capture_output=True,
            timeout=seconds,
            check=False,
            env=environment | {"COLUMNS": "120", "PYTEST_ADDOPTS": "-p no:benchmark -p no:randomly"},
        )
        text = (done.stdout + done.stderr).decode()  # what is no UTF-8 raises
        assert done.returncode in codes, (words, done.returncode, text[-3000:])
        assert "Traceback (most recent call last)" not in text, text[-3000:]
        assert "INTERNALERROR" not in text
        assert not acting(text), (words, acting(text))
        return Done(done.returncode, text)

    def opscope(self, *words: str, codes: tuple[int, ...] = (0,)) -> Done:
        """Runs a command of opscope."""
        return self.call("opscope", *words, codes=codes)

    def json(self, *words: str, codes: tuple[int, ...] = (0,)) -> Any:
        """The JSON that a command prints."""
        return json.loads(self.opscope(*words, codes=codes).output)

    def sweep(self, name: str, *words: str, codes: tuple[int, ...] = (1,)) -> Path:
        """A run of the model."""
        self.call(
            "pytest",
            "--model",
            "m.mlir",
            "--op-by-op",
            "--backend",
            "words.py",
            "--repro-size",
            "0",
            "--no-report",
            "--run-dir",
            name,
            *words,
            codes=codes,
        )
        return self.folder / name


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / "m.mlir").write_text(MODEL)
    (tmp_path / "words.py").write_text(BACKEND)
    (tmp_path / "nightly.yaml").write_text(GATE)
    damage.forget()
    yield Desk(tmp_path)
    damage.forget()


def enlarge(run_dir: Path, ops: int) -> None:
    """Makes a run of at least `ops` ops of one of a few, by copies under other ids that use the same modules."""
    run = store.load_run(run_dir)
    copies = -(-ops // len(run.rows))
    rows: list[OpRow] = [_renamed(row, copy) for copy in range(copies) for row in run.rows]
    tests: list[OpTest] = [_renamed(test, copy) for copy in range(copies) for test in run.tests]
    counts = {model: count * copies for model, count in run.header.module_ops.items()}
    structural = {model: count * copies for model, count in run.header.structural.items()}
    store.write_manifest(run_dir, run.header.model_copy(update={"module_ops": counts, "structural": structural}), rows)
    for segment in (run_dir / "journal").iterdir():
        segment.unlink()
    store.write_whole(run_dir / "journal" / "main.jsonl", b"".join(map(store.line_of, tests)))
    if (share := shard.read(run_dir)) is not None:
        shard.write(run_dir, replace(share, ops=tuple(row.op_id for row in rows if row.module is not None)))
    store.write_run(run_dir, run.record)


def _renamed(record: Any, copy: int) -> Any:
    return record if copy == 0 else record.model_copy(update={"op_id": f"{int(record.op_id, 16) ^ copy << 40:016x}"})


def cut(run_dir: Path, left: int) -> None:
    """Makes a run one that was killed before its last `left` ops."""
    path = run_dir / "journal" / "main.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-left]))
    run = store.read_run(run_dir)
    store.write_run(run_dir, run.model_copy(update={"ended": None, "outcome": "running"}))


def check_records(run_dir: Path, ops: int) -> dict[str, OpTest]:
    """Every op has its verdict, in the backend's own words. Returns the records of the first four by op."""
    run = store.load_run(run_dir)
    assert len(run.tests) == len(run.rows) >= ops
    expected = {
        "stablehlo.add": ("success", "compare", None),
        "stablehlo.subtract": ("success", "compare", None),
        "stablehlo.tanh": ("compile_failed", "split", "lower"),
        "stablehlo.sine": ("compile_failed", "lower", "link.it"),
    }
    assert {(t.op_name, (t.status.value, t.stage_reached, t.failed_stage)) for t in run.tests} == set(expected.items())
    assert {stage.stage for t in run.tests if t.success for stage in t.stages} == {*STAGES, "compare"}
    return {test.op_name.partition(".")[2]: test for test in reversed(run.tests)}


@pytest.mark.parametrize("ops", [4, MANY], ids=["few", "many"])
def test_every_verb(desk: Desk, ops: int) -> None:
    run_and_resume(desk, ops)
    merge_publish_and_spool(desk, ops)
    compare_show_and_export(desk, ops)
    reproduce_reduce_and_gate(desk)


def run_and_resume(desk: Desk, ops: int) -> None:
    """Makes the runs `one`, a share of one, and `two`, which is killed and resumed."""
    left = min(ops - 1, 20)
    one = desk.sweep("one", "--shard", "1/1")
    two = desk.sweep("two")
    if ops > 4:
        enlarge(one, ops)
        enlarge(two, ops)
    cut(two, left)
    desk.call("pytest", "--op-by-op", "--no-report", "--resume", "two", codes=(1,))
    check_records(two, ops)
    assert store.read_run(two).outcome == "complete"
    assert not list(two.glob("artifacts/*/repro-*"))  # as its own options say


def merge_publish_and_spool(desk: Desk, ops: int) -> None:
    """Makes `joined`; both runs are in results.sqlite, and `two` has waited for a database that was away."""
    two = desk.folder / "two"
    desk.opscope("merge", "one", "--into", "joined", "--publish", "sqlite:///results.sqlite", codes=(1,))
    failing = check_records(desk.folder / "joined", ops)
    sine = (desk.folder / "joined" / str(failing["sine"].artifact)).read_text()
    assert 4_000_000 < len(sine) < 5_000_000
    assert len(failing["sine"].error_message or "") < 1000

    (desk.folder / "away").mkdir()
    (desk.folder / "away" / "db.sqlite").mkdir()  # what stands in the way of a database
    away = "sqlite:///away/db.sqlite"
    waits = desk.opscope("publish", "two", "--to", away, codes=(1,))
    assert "opscope publish, which delivers" in waits.output
    (desk.folder / "away" / "db.sqlite").rmdir()
    assert desk.json("publish", "--to", away, "--json")["from_spool"] == [store.read_run(two).run_id]
    run = store.read_run(two)
    join(two, NightRecord(started=run.started, models=run.models, backends=("words",), archs=("n150",)))
    desk.opscope("publish", "two", "--to", "sqlite:///results.sqlite")
    totals = "SELECT COUNT(*) AS n FROM op_tests GROUP BY run_id"
    total = len(store.load_run(two).rows)
    assert [row["n"] for row in desk.json("sql", totals, "--json", *DB)] == [total, total]
    stages = "SELECT DISTINCT failed_stage AS s FROM op_tests WHERE failed_stage IS NOT NULL ORDER BY 1"
    for where in ("results.sqlite", "away/db.sqlite"):
        answer = desk.json("sql", stages, "--json", "--db", f"sqlite:///{where}")
        assert [row["s"] for row in answer] == ["link.it", "lower"]


def compare_show_and_export(desk: Desk, ops: int) -> None:
    """Shows what is stored in every way."""
    failing, run = check_records(desk.folder / "joined", ops), store.read_run(desk.folder / "two")
    assert "lower" in desk.opscope("show", "joined").output
    assert desk.json("show", "joined", "--json")
    assert "link.it" in desk.opscope("show", failing["sine"].op_id, *DB).output
    counts = desk.json("diff", "joined", "two", "--json")["counts"]
    assert counts["SAME"] + counts["PERSISTING"] == sum(counts.values()) >= ops
    desk.opscope("diff", store.read_run(desk.folder / "joined").run_id, run.run_id, *DB)
    desk.opscope("unblock", *DB)
    desk.opscope("report", "two", "-o", "page.html")
    assert "link.it" in (desk.folder / "page.html").read_text() or ops > 4  # a large page holds its rows packed
    for words in (("csv",), ("junit",), ("optest-json", "--job-id", "5"), ("builder-xml", "--job-id", "5")):
        written = desk.opscope("export", "two", "--format", *words, "-o", "out").output.strip()
        text = (desk.folder / written).read_text()
        assert "no tanh" in text
        assert not acting(text)


def reproduce_reduce_and_gate(desk: Desk) -> None:
    """Runs ops of the stored runs again, and the model as it is after a change."""
    failing = check_records(desk.folder / "joined", 4)
    desk.opscope("repro", failing["tanh"].op_id, "--run", "joined", "--out", "repro")
    readme = (desk.folder / "repro" / "README.md").read_text()
    assert "no tanh: \\u001b]0;t" in readme
    assert not acting(readme)
    assert desk.opscope("replay", "repro", codes=(1,)).output.startswith("it fails as recorded")
    reduced = desk.json("reduce", failing["tanh"].op_id, "--run", "joined", "--budget", "60s", "--json")
    assert "tanh" in reduced["module"]

    gate = ("gate", "--config", "nightly.yaml", "--baseline", "nightly")
    desk.opscope(*gate)
    (desk.folder / "words.py").write_text(BACKEND.replace("words-1", "words-2").replace('b"sine"', 'b"add"'))
    assert "link.it" in desk.opscope(*gate, codes=(1,)).output

"""The commands on real runs: a compiler with faults, the same with others, and what the two sweeps say together."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from opscope.base.tests.captured import captured
from opscope.harness.record.store import load_run

pytestmark = pytest.mark.slow

BACKEND = '''
from opscope.harness.backends.base import StageError
from opscope.harness.backends.reference import Reference
from opscope.harness.record.stages import Stage

FAULTS = {FAULTS}


class Acme(Reference):
    """The reference compiler with operations that end at a stage of their own."""

    name = "acme"

    def climb(self, stage, job):
        for word, (at, text) in FAULTS.items():
            if stage == at and word in job.module:
                raise StageError(text)
        super().climb(stage, job)
'''
MODULE = """func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {{
  %0 = stablehlo.{first} %x : tensor<8x16xf32>
  %1 = stablehlo.add %0, %0 : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}}
"""
MODELS = {"m_exp": "exponential", "m_tanh": "tanh", "m_abs": "abs"}
NIGHTS = (
    {b"exponential": ("ttir-to-ttnn", "no lowering of exp"), b"tanh": ("run", "L1 exhausted")},
    {b"tanh": ("ttnn-to-flatbuffer", "cannot tile tanh"), b"abs": ("run", "kernel stuck")},
)


def command(folder: Path, *words: str) -> str:
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(folder / "cache"), "COLUMNS": "200"}
    program = [str(Path(sys.executable).with_name(words[0])), *words[1:]]
    done = captured(program, cwd=folder, env=environment, timeout=120)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nights")
    for model, first in MODELS.items():
        (folder / f"{model}.mlir").write_text(MODULE.format(first=first))
    models = [word for model in MODELS for word in ("--model", f"{model}.mlir")]
    for number, faults in enumerate(NIGHTS):
        (folder / "acme.py").write_text(BACKEND.replace("{FAULTS}", repr(faults)))
        command(folder, "pytest", *models, "--op-by-op", "--backend", "acme.py", "--run-dir", f"night{number}")
    return folder


def test_two_sweeps_say_what_changed(folder: Path) -> None:
    by_database = json.loads(command(folder, "opscope", "diff", "--json"))
    assert {row["op_name"]: row["label"] for row in by_database["rows"]} == {
        "stablehlo.exponential": "FIXED",
        "stablehlo.tanh": "REASON-CHANGED",
        "stablehlo.abs": "NEW",
        "stablehlo.add": "SAME",
    }
    assert by_database["changes"] == []
    report = (folder / "night1" / "report.html").read_text(encoding="utf-8")
    assert f"Compared with <code>{load_run(folder / 'night0').record.run_id}</code>" in report
    by_folder = json.loads(command(folder, "opscope", "diff", "night0", "night1", "--json"))
    assert by_folder["rows"] == by_database["rows"]


def test_what_to_fix_and_how_ready(folder: Path) -> None:
    plan = json.loads(command(folder, "opscope", "unblock", "--json"))
    assert plan["whole"] == ["m_exp"]
    assert sorted((fix["error"], fix["models"]) for fix in plan["fixes"]) == [
        ("cannot tile tanh", ["m_tanh"]),
        ("kernel stuck", ["m_abs"]),
    ]
    assert [step["whole"] for step in plan["curve"]] == [1, 2, 3]
    ready = json.loads(command(folder, "opscope", "readiness", "m_tanh", "--json"))
    assert [(row["op_name"], row["failed_stage"]) for row in ready["missing"]] == [
        ("stablehlo.tanh", "ttnn-to-flatbuffer")
    ]
    assert [row["missing"] for row in ready["history"]] == [1, 1]
    answer = json.loads(command(folder, "opscope", "sql", "one_fix_away", "--json"))
    assert {row["model"] for row in answer} == {"m_tanh", "m_abs"}
    path = command(folder, "opscope", "export", "night1", "--format", "optest-json", "--job-id", "12").strip()
    assert (folder / path).stat().st_size > 1000

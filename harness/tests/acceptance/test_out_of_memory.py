"""A container with too little memory: what the system kills has not run, and nothing of it stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opscope.base.tests.captured import captured
from opscope.base.tests.memory_group import in_group
from opscope.harness.tests.acceptance.conftest import Place

TANH = """func.func @main(%a: tensor<6144x6144xf32>) -> tensor<6144x6144xf32> {
  %0 = stablehlo.tanh %a : tensor<6144x6144xf32>
  return %0 : tensor<6144x6144xf32>
}
"""
GOLDEN, LANE = 330, 520
"""MiB in which the golden of this op, and the lane that runs it, find no room."""


@pytest.mark.slow
@pytest.mark.parametrize(("size", "stage"), [(GOLDEN, "at golden of stablehlo.tanh"), (LANE, "at run")])
def test_what_the_system_kills_has_not_run_until_there_is_memory(place: Place, size: int, stage: str) -> None:
    (place.folder / "big.mlir").write_text(TANH)
    environment = place.environment | {"OPSCOPE_CACHE_DIR": str(place.folder / "cache")}

    def pytest_(*words: str) -> list[str]:
        return place.command("pytest", "--op-by-op", "--no-report", *words)

    with in_group(size << 20, pytest_("--model", "big.mlir")) as command:
        done = captured(command, cwd=place.folder, env=environment, timeout=240)
    (run,) = place.runs()
    (test,) = place.records(run)
    assert (done.returncode, test["status"]) == (5, "not_run"), done.stdout
    assert test["error_message"].startswith(f"killed by the system (SIGKILL), probably out of memory, {stage}")
    assert test["error_message"] in " ".join(done.stdout.split()), "the page says why"
    assert json.loads((run / "run.json").read_text())["outcome"] == "interrupted"
    assert not list(Path(environment["OPSCOPE_CACHE_DIR"]).glob("results/**/*.json")), "no verdict is kept"
    for words in (("--resume", str(run)), ("--model", "big.mlir")):
        done = captured(pytest_(*words), cwd=place.folder, env=environment, timeout=240)
        assert done.returncode == 0, done.stdout
        assert "1 success" in done.stdout

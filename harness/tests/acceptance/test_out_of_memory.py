"""A container with too little memory: what the system kills has not run, and nothing of it stays."""

from __future__ import annotations

import json

import pytest

from opscope.base.tests.captured import captured
from opscope.base.tests.memory_group import in_group
from opscope.harness.record import store
from opscope.harness.tests.acceptance.conftest import Place

pytestmark = pytest.mark.slow

TANH = """func.func @main(%a: tensor<6144x6144xf32>) -> tensor<6144x6144xf32> {
  %0 = stablehlo.tanh %a : tensor<6144x6144xf32>
  return %0 : tensor<6144x6144xf32>
}
"""
MIB = 330
"""In so much memory neither the golden of this op nor the lane that runs it finds room."""


@pytest.mark.parametrize("stage", ["golden of stablehlo.tanh", "run"])
def test_what_the_system_kills_has_not_run_until_there_is_memory(place: Place, stage: str) -> None:
    (place.folder / "big.mlir").write_text(TANH)
    environment = place.environment | {"OPSCOPE_CACHE_DIR": str(place.folder / "cache")}

    def pytest_(*words: str) -> list[str]:
        ours = ("--op-memory", "4GiB", "--prepare-memory", "4GiB")  # more than the group has: the system is first
        return place.command("pytest", "--op-by-op", "--no-report", *ours, *words)

    if stage == "run":  # the golden is there
        assert place.run("pytest --model big.mlir --op-by-op --backend null --run-dir first", **environment).code == 0
    with in_group(MIB << 20, pytest_("--model", "big.mlir")) as command:
        done = captured(command, cwd=place.folder, env=environment, timeout=240)
    (run,) = place.runs()
    (test,) = place.records(run)
    assert (done.returncode, test["status"]) == (5, "not_run"), done.stdout
    # The one that makes the golden may be killed before, while it is loaded: the processor's libraries differ in size.
    ends = (stage,) if stage == "run" else ("golden", "split")
    killed = "killed by the system (SIGKILL), probably out of memory, at"
    assert any(f"{killed} {each}" in test["error_message"] for each in ends), test["error_message"]
    assert test["error_message"] in " ".join(done.stdout.split()), "the page says why"
    assert json.loads((run / "run.json").read_text())["outcome"] == "interrupted"
    for words in (("--resume", str(run)), ("--model", "big.mlir")):
        done = captured(pytest_(*words), cwd=place.folder, env=environment, timeout=240)
        assert done.returncode == 0, done.stdout
        assert "1 success" in done.stdout


def test_a_run_stores_what_it_ran_under_and_the_limit_of_its_container(place: Place) -> None:
    assert place.pytest(OPENBLAS_CORETYPE="Nehalem").code == 0
    stored = store.load_run(place.runs()[-1]).record.origin.options["conditions"]
    assert (stored["OPENBLAS_CORETYPE"], stored["BLAS kernel"]) == ("Nehalem", "Nehalem")
    with in_group(2000 << 20, place.command(*place.sweep("--run-dir", "limited"))) as command:
        done = captured(command, cwd=place.folder, env=place.environment, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert store.load_run(place.folder / "limited").record.origin.options["conditions"]["memory limit"] == "2.0 GiB"


@pytest.mark.slow
def test_lanes_side_by_side_with_too_little_memory_name_it_and_no_keyboard(place: Place) -> None:
    words = place.command("pytest", "--model", "resnet50", "--op-by-op", "--no-report", "-n", "2")
    environment = place.environment | {"OPSCOPE_CACHE_DIR": str(place.folder / "cache")}
    with in_group(250 << 20, words) as command:
        done = captured(command, cwd=place.folder, env=environment, timeout=240)
    text = " ".join((done.stdout + done.stderr).split())
    assert done.returncode in (1, 2, 5), text
    assert any(word in text for word in ("memory at ", "out of memory", "try --op-memory")), text
    assert "keyboard" not in text.lower()
    assert "Traceback" not in text

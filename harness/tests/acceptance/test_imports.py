"""A model whose import differs from its framework is red until a limitation names it."""

from __future__ import annotations

import pytest

from opscope.base.children.ending import killed_from_outside
from opscope.harness.import_check import hold
from opscope.harness.record import store
from opscope.harness.record.stages import ImportStatus
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.import_check.test_import_check import onnx_file

pytestmark = pytest.mark.slow


def test_a_difference_is_red_until_a_limitation_names_it(place: Place) -> None:
    words = ("--model", str(onnx_file(place.folder, "ceil")), "--op-by-op", "--backend", "null", "--no-report")
    done = place.run("pytest", *words, timeout=600)
    assert done.code == 1
    assert "import_differs: onnx" in done.out
    assert "1 import = 1 differs" in done.out
    (place.folder / "mine.yaml").write_text(
        "limitations:\n"
        "- {op: ceil, backend: onnx, stage: import, kind: notyet, reason: ceil_mode, message: '*MaxPool*'}\n"
    )
    done = place.run("pytest", *words, "--limitations", "mine.yaml", timeout=600)
    assert done.code == 0
    assert "Imports that are expected to differ (1)" in done.out


@pytest.mark.parametrize("why", [f"{killed_from_outside('signal SIGKILL')}, at the comparison", hold.OUT_OF_TIME])
def test_a_check_that_was_killed_is_made_by_the_rest_of_the_run(place: Place, why: str) -> None:
    run = place.folder / "run"
    words = ("--model", "mnist_mlp", "--op-by-op", "--backend", "null", "--no-report", "--run-dir", str(run))
    assert place.run("pytest", *words).code == 0
    header, rows = store.read_manifest(run)
    (check,) = header.imports
    assert check.status is ImportStatus.AGREES
    lost = check.model_copy(update={"status": ImportStatus.NOT_CHECKED, "error": why})
    store.write_manifest(run, header.model_copy(update={"imports": (lost,)}), rows)
    done = place.run("pytest", "--op-by-op", "--resume", str(run), "--no-report")
    assert done.code == 0, done.out + done.err
    assert "1 import = 1 agrees" in done.out
    assert store.read_manifest(run)[0].imports == (check,)

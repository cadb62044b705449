"""A model whose import differs from its framework is red until a limitation names it."""

from __future__ import annotations

import pytest

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

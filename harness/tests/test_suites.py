"""Suites of others: who is at fault, how scores are shown; a sample of ONNX's node tests has no fault of ours."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from opscope.harness.cli.score import score as command
from opscope.harness.prepare.onnx_cases import Choice
from opscope.harness.suites import page
from opscope.harness.suites.faults import OURS, Fault, Score

SCORES = [
    Score("test_abs", "Abs", Fault.NONE, ran_on="device", within="suite"),
    Score("test_mod", "Mod", Fault.IMPORTER, "XLA: result 0 at [1]: expected 1, got | 2"),
    Score("test_mod_i", "Mod", Fault.NONE, ran_on="host", within="exact"),
    Score("test_seq", "SequenceAt", Fault.NEVER, "a sequence"),
    Score("test_pad", "Pad", Fault.COMPILER, "ttir-to-ttnn:\n no such pad"),
]


def test_every_case_is_in_one_column() -> None:
    assert page.one_line(SCORES) == (
        "5 cases: 2 right (device 1, host 1), never 1, importer 1, "
        "ours 1 (frontend 0, compiler 1, device 0, comparison 0)"
    )
    text = page.to_markdown(SCORES, "onnx 1")
    assert "| `Mod` | 1 |  | 1 |  |  |  |  |" in text
    assert "All cases right: Abs." in text
    assert "| test_mod | importer | XLA: result 0 at [1]: expected 1, got \\| 2 |" in text
    assert "| test_pad | compiler | ttir-to-ttnn: no such pad |" in text
    assert [row["fault"] for row in json.loads(page.to_json(SCORES))] == [s.fault for s in SCORES]


def test_a_sample_is_drawn_by_its_seed() -> None:
    names = [f"test_{n}" for n in range(50)]
    first = Choice(sample=7, seed=1).names(names)
    assert first == Choice(sample=7, seed=1).names(names) != Choice(sample=7, seed=2).names(names)
    assert len(first) == 7
    assert Choice("test_4?").names(names) == names[40:]


def test_a_nan_in_16_bits_excuses_only_what_it_reaches() -> None:
    pytest.importorskip("jax")
    from opscope.harness.suites.onnx_score import _other_numbers

    x = np.array([1, np.nan, 2], np.float16)
    want = np.isinf(x)
    assert _other_numbers([np.array([False, True, False])], [want], [x])[0] is Fault.NEVER
    assert _other_numbers([np.array([True, True, False])], [want], [x])[0] is Fault.DEVICE
    assert _other_numbers([np.array([False, True, False])], [want], [x.astype(np.float32)])[0] is Fault.DEVICE


@pytest.mark.slow
def test_a_sample_of_the_node_tests_of_onnx_has_no_fault_of_ours() -> None:
    pytest.importorskip("torch_mlir", reason="pip install -e '.[onnx]'")
    done = CliRunner().invoke(command, ["suite:onnx", "--sample", "24", "--seed", "3", "-n", "2", "--json"])
    rows = json.loads(done.stdout)
    assert len(rows) == 24
    assert not [row for row in rows if row["fault"] in OURS]
    assert sum(row["fault"] == Fault.NONE for row in rows) > 12

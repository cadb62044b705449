"""Suites of others: who is at fault, how scores are shown; a sample of ONNX's node tests has no fault of ours."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

from opscope.harness.cli.score import score as command
from opscope.harness.prepare.onnx_suite.onnx_cases import Choice
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
    from opscope.harness.suites.onnx_score import _without_lost_nan

    x = np.array([1, np.nan, 2], np.float16)
    want, got = np.isinf(x), np.array([True, True, False])
    for narrow in (x, x.astype(ml_dtypes.bfloat16), x.astype(ml_dtypes.float8_e5m2)):
        (mended,) = _without_lost_nan([got], [want], [narrow]) or [want]
        assert mended.tolist() == [True, False, False]
    assert _without_lost_nan([got], [want], [x.astype(np.float32)]) is None
    assert _without_lost_nan([got], [want], [np.nan_to_num(x)]) is None
    assert _without_lost_nan([got.astype(np.int8)], [want], [x]) is None
    # A result that has the NaN itself, from an operand that keeps it.
    nan, inf = x.astype(ml_dtypes.float8_e5m2), np.array([1, np.inf, 2], ml_dtypes.float8_e5m2)
    (mended,) = _without_lost_nan([inf], [nan], [x.astype(np.float32)]) or [inf]
    assert np.isnan(mended).tolist() == [False, True, False]


def test_a_case_that_raises_costs_its_own_row_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    from opscope.harness.suites import onnx_score

    class Parent:
        sent: ClassVar[list[dict[str, Any]]] = []

        def task(self) -> dict[str, Any]:
            names = ["test_deep", "test_fine", "test_unequal"]
            return {"folder": str(tmp_path), "names": names, "backend": "reference", "options": {}}

        def send(self, message: dict[str, Any]) -> None:
            self.sent.append(message)

    def judged(self: Any, row: Score, folder: Path, entry: dict[str, Any]) -> Score:
        if row.name == "test_deep":
            self._begin(Fault.DEVICE)
            raise RecursionError("maximum recursion depth exceeded")
        if row.name == "test_unequal":
            onnx_score._agree([one], [one + 1], {"rtol": 0, "atol": 0}, None, onnx_score.HOST)
        return row

    one = np.ones(1, np.float32)
    monkeypatch.setattr(onnx_score._Judge, "judged", judged)
    (tmp_path / onnx_score.INDEX).write_text(json.dumps({name: {"op": "Abs"} for name in Parent().task()["names"]}))
    onnx_score.score(Parent())
    rows = [Score(**message["score"]) for message in Parent.sent if "score" in message]
    assert [(row.name, row.fault) for row in rows] == [
        ("test_deep", "device"),
        ("test_fine", "none"),
        ("test_unequal", "comparison"),
    ]
    assert rows[0].why == "RecursionError: maximum recursion depth exceeded"


CONV = b"""func.func @main(%x: tensor<1x256x6x6xf32>, %w: tensor<3x3x256x8xf32>) -> tensor<1x8x4x4xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[0, 1, i, o]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x256x6x6xf32>, tensor<3x3x256x8xf32>) -> tensor<1x8x4x4xf32>
  return %0 : tensor<1x8x4x4xf32>
}"""


def test_a_convolution_is_judged_by_the_size_of_its_terms() -> None:
    """A sum that cancels is off by a rounding of its terms, however small it is; one that lacks a term is wrong."""
    pytest.importorskip("jax")
    from opscope.harness.judge.module_verdict import ModuleVerdict
    from opscope.harness.prepare.golden import compile_module
    from opscope.harness.verdict.target import Target

    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 256, 6, 6), np.float32), rng.standard_normal((3, 3, 256, 8), np.float32)
    # Halves of the channels that all but cancel.
    x[:, 128:], w[:, :, 128:] = x[:, :128], -w[:, :, :128] * np.float32(1 + 1e-3)
    (wanted,) = compile_module(CONV)([x, w])
    verdict, device = ModuleVerdict(CONV, [x, w]), Target("sim-n150", None, "HiFi4", "Tf32")
    error = rng.standard_normal(wanted.shape).astype(np.float32) * np.float32(2.0**-12 * np.sqrt(9 * 256))
    assert np.abs(error).max() > 0.1 * np.abs(wanted).max()
    assert all(check.passed for check in verdict.checks([wanted], [wanted + error], device))
    wrong = wanted.copy()
    wrong[0, 3, 2, 1] += 1
    (check,) = verdict.checks([wanted], [wrong], device)
    assert not check.passed
    assert check.z_index == (0, 3, 2, 1)


@pytest.mark.parametrize("several", [False, True], ids=["one op", "two ops"])
def test_a_complex_result_is_judged_by_its_scale_and_not_by_its_bits(several: bool) -> None:
    pytest.importorskip("jax")
    from opscope.harness.judge.module_verdict import ModuleVerdict
    from opscope.harness.prepare.golden import compile_module
    from opscope.harness.suites.onnx_score import HOST

    more = "%1 = stablehlo.exponential %0" if several else "%1 = stablehlo.multiply %x, %x"
    module = f"""func.func @main(%x: tensor<64xcomplex<f32>>) -> tensor<64xcomplex<f32>> {{
      {"%0 = stablehlo.multiply %x, %x : tensor<64xcomplex<f32>>" if several else ""}
      {more} : tensor<64xcomplex<f32>>
      return %1 : tensor<64xcomplex<f32>>
    }}""".encode()
    x = np.random.default_rng(1).standard_normal((64, 2), np.float32).view(np.complex64)[:, 0]
    (wanted,) = compile_module(module)([x])
    near = wanted * np.complex64(1 + 1e-7j)
    assert not np.array_equal(near, wanted)
    verdict = ModuleVerdict(module, [x])
    assert verdict.checks([wanted], [near], HOST)[0].passed
    wrong = wanted.copy()
    wrong[5] += 1j * np.abs(wanted[5])
    assert not verdict.checks([wanted], [wrong], HOST)[0].passed


@pytest.mark.slow
def test_a_sample_of_the_node_tests_of_onnx_has_no_fault_of_ours() -> None:
    pytest.importorskip("torch_mlir", reason="pip install -e '.[onnx]'")
    done = CliRunner().invoke(command, ["suite:onnx", "--sample", "24", "--seed", "3", "-n", "2", "--json"])
    rows = json.loads(done.stdout)
    assert len(rows) == 24
    assert not [row for row in rows if row["fault"] in OURS]
    assert sum(row["fault"] == Fault.NONE for row in rows) > 12


def test_the_page_has_the_score_of_the_node_tests_and_no_fault_of_ours() -> None:
    text = (Path(__file__).parents[3] / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert re.search(r"^1404 cases: \d+ right \(.*\), never \d+, importer \d+, ours 0 \(", text, re.MULTILINE)
    assert "| op | right | never | importer | frontend | compiler | device | comparison |" in text

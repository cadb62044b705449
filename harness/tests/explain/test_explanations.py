"""What an explanation holds: worst elements with their terms, the heat map, the histogram; as text and as a picture."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from opscope.harness.explain.element_errors import Judged
from opscope.harness.explain.explain import explain, histogram, store
from opscope.harness.explain.heat_cells import heat_map, region
from opscope.harness.explain.operand_elements import OperandElements
from opscope.harness.record import artifacts, explanation_text
from opscope.harness.record import explanation as record
from opscope.harness.record.explanation import Explanation
from opscope.harness.record.explanation_picture import picture
from opscope.harness.record.records import TensorDesc
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import Target

HOST = Target("host", None, "exact")
CARD = Target("sim-n150", None, "HiFi4", "Tf32")
RANDOM = np.random.default_rng(7)
LEFT, RIGHT = (RANDOM.standard_normal((96, 64)).astype(np.float32), RANDOM.standard_normal((64, 80)).astype(np.float32))
GOLDEN = LEFT @ RIGHT


def explained(
    got: np.ndarray, op_name: str = "stablehlo.dot_general", golden: np.ndarray = GOLDEN, target: Target = HOST
) -> Explanation | None:
    """The explanation of a product without a module; None if it is right."""
    outputs = [TensorDesc(shape=golden.shape, data_type="f32" if golden.dtype == np.float32 else "i32")]
    checks = compare([golden], [got], op_name, target, outputs=outputs)
    if checks[0].passed:
        return None
    judged = Judged(op_name, target, (), outputs, {}, [golden], [got], None)
    return explain(judged, checks, op_id="1" * 16, backend="test", seconds=60)


def test_a_lost_tile_is_seen_and_named(tmp_path: Path) -> None:
    got = GOLDEN.copy()
    got[32:64, 64:] = 0
    explanation = explained(got, target=CARD)
    assert explanation is not None
    (result,) = explanation.results
    assert result.hypothesis.startswith("missing: zeros throughout tile (1, 2), where -")
    assert (result.wrong, result.count) == (32 * 16, GOLDEN.size)
    assert result.heat is not None
    shares = np.array(result.heat.cells)
    assert shares.shape == (6, 5), "a map of faces"
    assert shares[2:4, 4].tolist() == [1.0, 1.0]
    assert shares.sum() == 2.0
    at = result.worst[0].index
    assert got[at] == 0
    assert (result.worst[0].got, float(result.worst[0].expected)) == ("0", pytest.approx(float(GOLDEN[at])))
    assert sum(result.histogram.low) + sum(result.histogram.high) == GOLDEN.size
    path = store(explanation, [got], lambda name, data: artifacts.write(tmp_path, "op", f"compare-test/{name}", data))
    assert path == "artifacts/op/compare-test/compare.txt"
    text_file = tmp_path / path
    assert np.array_equal(np.load(text_file.with_name("result-0.npy")), got)
    stored = record.read(tmp_path, "artifacts/op/compare-test")
    assert stored is not None
    assert stored.results[0].file == "result-0.npy"
    text = text_file.read_text()
    assert "hypothesis: missing: zeros throughout tile (1, 2)" in text
    assert "\n  ....@\n  ....@\n" in text, "the heat map in characters"
    ElementTree.fromstring(text_file.with_name("compare.svg").read_text())
    assert "<title>row 2, column 4: 100.00%</title>" in picture(stored)


def test_kinds_of_wrong_results() -> None:
    square = (LEFT[:64] @ RIGHT[:, :64]).copy()
    cut = (GOLDEN.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    numbers = np.arange(4096, dtype=np.int32).reshape(64, 64)
    for got, golden, said in (
        (square.T, square, "transposed: the matrix of its last two dims is transposed"),
        (-GOLDEN, GOLDEN, "sign: every value has the other sign"),
        (GOLDEN * np.float32(1.003), GOLDEN, "factor: everything is 1.003 times what it should be"),
        (cut, GOLDEN, "truncated: rounded toward zero to 7 bits behind the leading one (bfloat16)"),
        (np.roll(GOLDEN, 2, 0), GOLDEN, "another entry: "),
        (numbers + 1, numbers, "offset: everything is 1 too large"),
        (numbers[:, ::-1], numbers, "another entry: "),
        (square.T.reshape(-1), square, ""),
    ):
        explanation = explained(np.ascontiguousarray(got), golden=golden)
        assert explanation is not None
        assert explanation.hypothesis.startswith(said), explanation.hypothesis
    for size in (0.01, 1.0):
        noisy = explained(GOLDEN + (size * RANDOM.standard_normal(GOLDEN.shape)).astype(np.float32))
        assert noisy is not None
        assert not noisy.hypothesis


def test_a_systematic_error_has_a_map_of_z() -> None:
    heat = heat_map(np.zeros((64, 64), bool), np.full((64, 64), 0.5, np.float32), tiled=True)
    assert heat.what == "root mean square of z"
    assert {value for row in heat.cells for value in row} == {0.5}


def test_structures_are_named_by_the_fewest() -> None:
    for place, said in (
        (np.s_[:], "the whole result"),
        (np.s_[1], "batch entry 1"),
        (np.s_[0, :, 5], "column (0, 5)"),
        (np.s_[1, 7, 16:32], "face row (1, 7, 1)"),
        (np.s_[0, 32:, :], "2 tiles: (0, 1, 0), (0, 1, 1)"),
        (np.s_[0, ::2], "32 of 128 rows"),
        (np.s_[0, :3, :3], ""),
    ):
        mask = np.zeros((2, 64, 64), bool)
        mask[place] = True
        assert region(mask, mask, tiled=True) == said


def test_a_target_without_tiles_has_rows_columns_and_batch_entries() -> None:
    for place, said in ((np.s_[1, 5], "row (1, 5)"), (np.s_[0, :32, :32], ""), (np.s_[1, 7, 16:32], "")):
        mask = np.zeros((2, 64, 64), bool)
        mask[place] = True
        assert region(mask, mask, tiled=False) == said
    got = GOLDEN.copy()
    got[32:64, 64:] = 0
    explanation = explained(got)
    assert explanation is not None
    (result,) = explanation.results
    assert result.hypothesis.startswith("missing: 512 of 7,680 elements are zero, in no row of their own, where -")
    assert result.heat is not None
    assert result.heat.cell == "16x16 elements"
    assert not re.search("tile|face", explanation.model_dump_json()), "of a host's compiler"


def test_large_results_have_maps_of_few_cells() -> None:
    for shape in ((1,), (1000,), (3, 5), (70, 3, 40, 40), (1, 5000), (512, 4096)):
        heat = heat_map(np.ones(shape, bool), None, tiled=True)
        assert len(heat.cells) <= 49
        assert len(heat.cells[0]) <= 64
        assert {value for row in heat.cells for value in row} == {1.0}
    counts = histogram(np.array([0.1, -0.3, 0.6, -5.0, 1e9], np.float32))
    assert (sum(counts.low), sum(counts.high), counts.edges[-1]) == (2, 3, 1e9)


def terms(op_name: str, params: dict[str, str], *inputs: np.ndarray):
    return OperandElements(op_name, params, Operands(op_name, b"", lambda: inputs))


def test_an_element_is_the_sum_of_its_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opscope.harness.explain.operand_elements.SHOWN", 1000)
    dims = "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"
    shown, note = terms("stablehlo.dot_general", {"dot_dimension_numbers": dims}, LEFT, RIGHT).of((5, 9), 0)
    assert sum(float(term.value) for term in shown) == pytest.approx(float(GOLDEN[5, 9]), rel=1e-4)
    assert not note
    x = RANDOM.standard_normal((2, 7, 6, 4)).astype(np.float32)
    kernel = RANDOM.standard_normal((3, 2, 2, 6)).astype(np.float32)
    params = {
        "dimension_numbers": "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>",
        "padding": "dense<[[1, 1], [0, 1]]> : tensor<2x2xi64>",
        "window_strides": "array<i64: 2, 1>",
        "feature_group_count": "2 : i64",
    }
    at = (1, 0, 5, 4)  # rows -1, 0, 1 of which the first is padding; columns 5, 6, the last padding; the second group
    expected = sum(float(x[1, r - 1, 5, 2 + c]) * float(kernel[r, 0, c, 4]) for r in (1, 2) for c in (0, 1))
    shown, _ = terms("stablehlo.convolution", params, x, kernel).of(at, 0)
    assert len(shown) == 4
    assert sum(float(term.value) for term in shown) == pytest.approx(expected, rel=1e-5)
    shown, _ = terms("stablehlo.reduce", {"dimensions": "array<i64: 0, 2>"}, x[0]).of((3,), 0)
    assert sum(float(term.value) for term in shown) == pytest.approx(float(x[0][:, 3].sum()), rel=1e-4)
    pool = {"window_dimensions": "array<i64: 1, 3, 3, 1>", "window_strides": "array<i64: 1, 2, 2, 1>"}
    shown, _ = terms("stablehlo.reduce_window", pool, x).of((0, 1, 1, 2), 0)
    assert {term.elements[0].index for term in shown} == {(0, r, c, 2) for r in (2, 3, 4) for c in (2, 3, 4)}
    shown, _ = terms("stablehlo.add", {}, x, x).of((0, 1, 2, 3), 0)
    assert [term.text for term in shown] == [f"in{n}[0, 1, 2, 3] {float(x[0, 1, 2, 3]):.7g}" for n in (0, 1)]


def test_the_text_says_what_is_missing() -> None:
    got = GOLDEN.copy()
    got[3, 4] = np.nan
    explanation = explained(got)
    assert explanation is not None
    text = explanation_text.text(explanation.model_copy(update={"note": "the explanation ends here: it took 10 s"}))
    assert "[3, 4]: expected " in text
    assert "got nan, z 1e+09" in text
    assert "1 of 7,680 elements beyond" in text
    assert text.endswith("it took 10 s\n")

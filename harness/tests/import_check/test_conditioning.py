"""How much a model magnifies rounding, and what that says of an import that is too far from its framework."""

from __future__ import annotations

import functools
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.engine import model_jobs
from opscope.harness.import_check.conditioning import MOST, Finding, Size, explained, finding
from opscope.harness.prepare import golden, mlir
from opscope.harness.prepare.inputs import row_golden
from opscope.harness.prepare.mlir import last_bits
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.prepare.whole_manifest import whole_rows
from opscope.harness.record.records import ImportCheck
from opscope.harness.record.stages import ImportStatus

KINDS = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
ROUNDED = """
  %three{kind} = stablehlo.constant dense<3.0> : tensor<6x{kind}>
  %part{kind} = stablehlo.divide %{kind}, %three{kind} : tensor<6x{kind}>
  %sum{kind} = stablehlo.add %{kind}, %{kind} : tensor<6x{kind}>
  %sign{kind} = stablehlo.negate %{kind} : tensor<6x{kind}>
"""
LOOP = """
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c3 = stablehlo.constant dense<3> : tensor<i32>
  %third = stablehlo.constant dense<0.3> : tensor<f32>
  %r:2 = stablehlo.while(%i = %c0, %x = %a) : tensor<i32>, tensor<f32>
    cond {
      %less = stablehlo.compare LT, %i, %c3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %next = stablehlo.add %i, %c1 : tensor<i32>
      %y = stablehlo.multiply %x, %third : tensor<f32>
      stablehlo.return %next, %y : tensor<i32>, tensor<f32>
    }
  return %r#1 : tensor<f32>
}
"""
CANCELLING = """
func.func @main(%a: tensor<256xf32>) -> (tensor<256xf32>, tensor<i32>) {
  %e = stablehlo.exponential %a : tensor<256xf32>
  %far = stablehlo.constant dense<3.0e4> : tensor<256xf32>
  %s = stablehlo.add %e, %far : tensor<256xf32>
  %d = stablehlo.subtract %s, %far : tensor<256xf32>
  %n = stablehlo.constant dense<7> : tensor<i32>
  return %d, %n : tensor<256xf32>, tensor<i32>
}
"""
JUMPING = """
func.func @main(%a: tensor<16xf32>) -> (tensor<16xf32>, tensor<i32>) {
  %eight = stablehlo.constant dense<[8., 4., 16., 2., 32., 64., 128., 8., 8., 4., 16., 2., 32., 64., 128., 8.]>
    : tensor<16xf32>
  %two = stablehlo.constant dense<2.> : tensor<16xf32>
  %up = stablehlo.log %eight : tensor<16xf32>
  %down = stablehlo.log %two : tensor<16xf32>
  %ratio = stablehlo.divide %up, %down : tensor<16xf32>
  %floor = stablehlo.floor %ratio : tensor<16xf32>
  %b = stablehlo.add %floor, %a : tensor<16xf32>
  %n = stablehlo.constant dense<7> : tensor<i32>
  return %b, %n : tensor<16xf32>, tensor<i32>
}
"""


def run(text: str, arguments: list[np.ndarray], seed: int | None) -> list[np.ndarray]:
    module = mlir.load(text)
    if seed is not None:
        module = last_bits.moved(module, seed)
    return golden.compile_module(mlir.to_bytecode(module))(arguments)


def test_only_rounded_values_move_by_a_unit() -> None:
    values = [0.3, -1.7, 6.0, 0.0, np.inf, -0.6]
    arguments = ", ".join(f"%{kind}: tensor<6x{kind}>" for kind in KINDS)
    results = [(f"%{word}{kind}", f"tensor<6x{kind}>") for kind in KINDS for word in ("part", "sum", "sign")]
    names, types = (", ".join(words) for words in zip(*results, strict=True))
    body = "".join(ROUNDED.format(kind=kind) for kind in KINDS)
    text = f"func.func @main({arguments}) -> ({types}) {{{body}  return {names} : {types}\n}}"
    plain, *by_seed = (run(text, [np.array(values, kind) for kind in KINDS.values()], seed) for seed in (None, 1, 2, 3))
    for number in range(0, len(results), 3):
        steps = [[_steps(plain[number + i], moved[number + i]) for i in range(3)] for moved in by_seed]
        for part, total, sign in steps:
            assert list(np.abs(part)) == [1, 1, 1, 0, 0, 1], "that 6 / 3 is exact is not known; 0 and Inf stay"
            assert list(np.abs(total)) == [1, 1, 0, 0, 0, 1], "6 + 6 is exact"
            assert not sign.any(), "a sign is not rounded"
        assert {step for part, _, _ in steps for step in part} == {-1, 0, 1}, "up and down"
        assert len({part.tobytes() for part, _, _ in steps}) > 1, "the seed decides"


def _steps(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    bits = np.dtype(f"i{before.dtype.itemsize}")
    return after.view(bits).astype(np.int64) - before.view(bits).astype(np.int64)


def test_the_body_of_a_loop_is_part_of_the_program() -> None:
    (plain,) = run(LOOP, [np.float32(1)], None)
    assert any(run(LOOP, [np.float32(1)], seed) != [plain] for seed in (1, 2, 3))


def test_an_error_is_compared_with_responses_that_differ() -> None:
    size, small, jump = Size(1.0, 3.0), Size(1e-3, 4e-3), Size(0.3, 1.7)
    assert finding(Size(8e-3, 32e-3), [jump, small], size) is Finding.AGREES
    assert finding(Size(8.1e-3, 32e-3), [small], size) is Finding.DIFFERS
    assert finding(Size(8e-3, 33e-3), [small], size) is Finding.DIFFERS, "one element counts, too"
    assert finding(Size(8.1e-3, 32e-3), [jump, small], size) is Finding.UNKNOWN
    assert finding(Size(2.5, 13.0), [jump, small], size) is Finding.DIFFERS
    assert finding(Size(1e-9, 1e-9), [], size) is finding(Size(1e-9, 1e-9), [Size(0, 0)], size) is Finding.DIFFERS
    assert finding(Size(MOST, MOST), [Size(MOST, MOST)], size) is Finding.AGREES
    assert finding(Size(MOST, MOST), [Size(1.01 * MOST, MOST)], size) is Finding.UNKNOWN


def test_a_check_says_whether_rounding_explains_the_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "compile_module", functools.cache(golden.compile_module))
    files = [tmp_path / "cancelling.mlir", tmp_path / "jumping.mlir"]
    for file, text in zip(files, (CANCELLING, JUMPING), strict=True):
        file.write_text(text)
    header, _ = model_jobs.prepare(Preparation(tuple(map(str, files)), cache_dir=str(tmp_path / "cache")))
    check = ImportCheck(model="made", status=ImportStatus.DIFFERS, held_to="torch 2", output=0, error="z 472", z_max=4)

    def explain(number: int, change: object) -> ImportCheck:
        folder = Path(header.export_dirs[number])
        (row,) = whole_rows([folder])
        values, seven = row_golden(row, folder)
        return explained(check, [change(values), seven], row, folder)

    signs = np.where(np.arange(256) % 2, 1, -1).astype(np.float32)
    near = explain(0, lambda values: values + 3e-3 * signs)
    assert near.status is ImportStatus.AGREES
    assert near.text.startswith("agrees with torch 2, within 8 times what rounding makes of it: one unit in the last")
    assert near.output is None
    for change in (
        lambda v: v + 0.1 * signs,
        lambda v: np.where(np.arange(256) == 9, np.nan, v),
        lambda v: v[:128],
        lambda v: v.astype(np.int32),
    ):
        assert explain(0, change) == check
    jumped = explain(1, lambda values: values - 1)
    assert jumped.status is ImportStatus.NOT_CHECKED
    assert jumped.error.startswith("it is ill-conditioned: one unit in the last place of each op moves its result")
    assert jumped.error.endswith("of its size; z 472")
    assert explain(1, lambda values: values + 100) == check
    folder = Path(header.export_dirs[0])
    (row,) = whole_rows([folder])
    values, seven = row_golden(row, folder)
    assert explained(check, [values + 3e-3 * signs, seven + 1], row, folder) == check, "an integer is exact"

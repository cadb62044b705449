"""Sorts by their comparator alone: what is the right order, and what an unstable sort may exchange."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.backends import registry
from opscope.harness.lanes.ladder import climb
from opscope.harness.prepare import golden, mlir
from opscope.harness.prepare.mlir import sorts
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import ResultCheck, TensorDesc
from opscope.harness.record.stages import Status
from opscope.harness.tests.prepare.test_second_authority import op
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import Target

HOST = Target("host", None, "exact")
ZEROS = np.array([0, -0.0, 3, -1, 0], np.float32)
BY_VALUE = "%l = stablehlo.compare LT, %p, %q, FLOAT : (tensor<{k}>, tensor<{k}>) -> tensor<i1>"
BY_BITS = "%l = stablehlo.compare LT, %p, %q, TOTALORDER : (tensor<{k}>, tensor<{k}>) -> tensor<i1>"
FALLING = "%l = stablehlo.compare GT, %p, %q, {w} : (tensor<{k}>, tensor<{k}>) -> tensor<i1>"


def sort(comparator: str, size: int, kind: str = "f32", payload: str = "", *, stable: bool = False) -> str:
    """A sort of `size` keys, with a payload of another type if one is given."""
    kinds = [kind, *filter(None, [payload])]
    types = [f"tensor<{size}x{each}>" for each in kinds]
    arguments = ", ".join(f"%x{n}: {each}" for n, each in enumerate(types))
    block = ", ".join(
        f"{name}: tensor<{each}>"
        for each, pair in zip(kinds, (("%p", "%q"), ("%r", "%s")), strict=False)
        for name in pair
    )
    names, listed = ", ".join(f"%x{n}" for n in range(len(types))), ", ".join(types)
    results = ", ".join(f"%s#{n}" for n in range(len(types)))
    return f"""func.func @main({arguments}) -> ({listed}) {{
      %s:{len(types)} = "stablehlo.sort"({names}) <{{dimension = 0 : i64, is_stable = {str(stable).lower()}}}> ({{
      ^bb0({block}):
        {comparator.format(k=kind, w="SIGNED" if kind.startswith("i") else "FLOAT")}
        stablehlo.return %l : tensor<i1>
      }}) : ({listed}) -> ({listed})
      return {results} : {listed}
    }}"""


def module(text: str) -> bytes:
    return mlir.to_bytecode(mlir.load(text))


def computed(text: str, *inputs: np.ndarray) -> list[np.ndarray]:
    return sorts.in_right_order(module(text), inputs)


def bits(array: np.ndarray) -> list[int]:
    return array.view(f"u{array.dtype.itemsize}").tolist()


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16", "i32", "i8"])
def test_every_type_is_sorted_as_xla_sorts_it(kind: str) -> None:
    dtype = {"f32": "f4", "f64": "f8", "f16": "f2", "bf16": ml_dtypes.bfloat16, "i32": "i4", "i8": "i1"}[kind]
    x = np.random.default_rng(3).integers(-9, 9, 64).astype(dtype)
    places = np.arange(64, dtype=np.int32)
    for comparator in (FALLING, BY_VALUE if kind[0] != "i" else FALLING.replace("GT", "LT")):
        text = sort(comparator, 64, kind, "i32", stable=True)
        got, right = computed(text, x, places), golden.compile_module(text)([x, places])
        assert [bits(array) for array in got] == [bits(np.asarray(array)) for array in right]
        assert sorts.in_order(module(text), [x, places], got)


def test_each_line_of_any_dimension_is_sorted_by_itself() -> None:
    x = np.random.default_rng(4).normal(size=(3, 7, 2)).astype(np.float32)
    text = sort(BY_VALUE, 1).replace("tensor<1xf32>", "tensor<3x7x2xf32>").replace("dimension = 0", "dimension = 1")
    np.testing.assert_array_equal(computed(text, x)[0], np.sort(x, axis=1))


@each(
    ("comparator", "why"),
    [
        ("%l = stablehlo.compare NE, %p, %q, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>", "no order"),
        (
            "%e = stablehlo.exponential %p : tensor<f32>\n"
            "%l = stablehlo.compare LT, %e, %q, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>",
            "stablehlo.exponential",
        ),
    ],
)
def test_what_is_not_known_is_refused(comparator: str, why: str) -> None:
    with pytest.raises(sorts.UnknownOrderError, match=why):
        computed(sort(comparator, 5), ZEROS)


def checks(text: str, inputs: list[np.ndarray], got: list[np.ndarray], stable: bool) -> list[ResultCheck]:
    params = {"dimension": "0 : i64", "is_stable": str(stable).lower()}
    operands = Operands("stablehlo.sort", module(text), lambda: inputs)
    right = golden.compile_module(text)(inputs)
    return compare(right, got, "stablehlo.sort", HOST, params=params, operands=operands)


def right(text: str, inputs: list[np.ndarray], got: list[np.ndarray], stable: bool = False) -> bool:
    return all(check.passed for check in checks(text, inputs, got, stable))


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_only_the_exact_order_is_right_of_a_stable_sort() -> None:
    text = sort(BY_VALUE, 5, stable=True)
    assert right(text, [ZEROS], [f32(-1, 0, -0.0, 0, 3)], stable=True)
    assert not right(text, [ZEROS], [f32(-1, -0.0, 0, 0, 3)], stable=True)


def test_an_unstable_sort_may_exchange_equal_keys_and_nothing_else() -> None:
    text = sort(BY_VALUE, 5)
    assert right(text, [ZEROS], [f32(-1, -0.0, 0, 0, 3)])
    assert not right(text, [ZEROS], [f32(-1, 0, 0, 0, 3)]), "a sign is lost"
    assert not right(text, [ZEROS], [f32(-1, 0, -0.0, 3, 0)]), "no order"
    assert not right(sort(BY_BITS, 5), [ZEROS], [f32(-1, 0, -0.0, 0, 3)]), "-0 is before 0 by the total order"
    assert right(sort(BY_BITS, 5), [ZEROS], [f32(-1, -0.0, 0, 0, 3)])


def test_a_payload_proves_which_keys_have_changed_places() -> None:
    keys, places = f32(2, 1, 2, np.nan, 1), np.arange(5, dtype=np.int32)
    text = sort(BY_BITS, 5, "f32", "i32")
    assert right(text, [keys, places], [f32(1, 1, 2, 2, np.nan), np.array([4, 1, 2, 0, 3], np.int32)])
    assert not right(text, [keys, places], [f32(1, 1, 2, 2, np.nan), np.array([4, 0, 2, 1, 3], np.int32)])
    assert not right(text, [keys, places], [f32(1, 1, 2, 2, np.nan), np.array([4, 4, 2, 0, 3], np.int32)])


@pytest.mark.slow
def test_zeros_of_a_stable_sort_on_backends(tmp_path: Path) -> None:
    """stablehlo#1283: -1, 0, -0, 0, 3, as Python's stable sort has it."""
    pytest.importorskip("iree.compiler")
    text = sort(BY_VALUE, 5, stable=True)
    params = {"dimension": "0 : i64", "is_stable": "true"}
    row = op(tmp_path, "stablehlo.sort", text, [ZEROS], "f32", [TensorDesc(shape=(5,), data_type="f32")], params)
    assert bits(np.load(tmp_path / row.golden[0])) == bits(f32(-1, 0, -0.0, 0, 3))

    def status(backend: str) -> tuple[Status, str]:
        context = RunContext("r", str(tmp_path / "run"), backend)
        test = climb(row, registry.load(backend), context=context, export_dir=tmp_path)
        return test.status, test.second_authority

    assert status("xla") == (Status.SUCCESS, "")
    assert status("reference") == (Status.SUCCESS, "")
    assert status("iree") == (Status.WRONG_RESULT, "NumPy's comparison of all pairs agrees with the golden")

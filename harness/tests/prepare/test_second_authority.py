"""A golden that is wrong: what second authorities compute, and what becomes of ops whose golden they contradict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.harness.backends import registry
from opscope.harness.climb.doubts import QUESTIONED, Doubts, found_later
from opscope.harness.lanes.ladder import climb
from opscope.harness.lanes.second_opinion import accused
from opscope.harness.prepare import golden, mlir
from opscope.harness.prepare.authorities import ask, formulas, known_wrong
from opscope.harness.prepare.authorities.voices import VOICES, Voice
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.walk import WalkTask, walk
from opscope.harness.record.optest import DOUBT, REFUTED, RunContext
from opscope.harness.record.records import OpRow, OpTest, SecondAuthority, Source, TensorDesc, Use
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.ops import FAULTY, add_row
from opscope.harness.tests.prepare import off_by

SCATTER = """
func.func @main(%i: tensor<3x1xi32>, %u: tensor<3xf32>, %v: tensor<3xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<5xf32>
  %r:2 = "stablehlo.scatter"(%z, %z, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
    stablehlo.return %c, %d : tensor<f32>, tensor<f32>
  }) : (tensor<5xf32>, tensor<5xf32>, tensor<3x1xi32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<5xf32>, tensor<5xf32>)
  return %r#0, %r#1 : tensor<5xf32>, tensor<5xf32>
}"""


def op(
    folder: Path,
    name: str,
    module: str,
    inputs: list[np.ndarray],
    kinds: str,
    outputs: list[TensorDesc],
    params: dict[str, str] | None = None,
    results: list[np.ndarray] | None = None,
) -> OpRow:
    """An op with captured inputs and XLA's own golden or `results`, as a walk leaves it."""
    (folder / "values").mkdir(parents=True, exist_ok=True)
    (folder / "op.mlirbc").write_bytes(mlir.to_bytecode(mlir.load(module)))
    for number, array in enumerate(inputs):
        np.save(folder / "values" / f"{number}.npy", array)
    results = golden.compile_module(module, widen=True)(inputs) if results is None else results
    for number, array in enumerate(results):
        np.save(folder / "values" / f"golden{number}.npy", array)
    return OpRow(
        op_id="op",
        op_name=name,
        module="op.mlirbc",
        outputs=tuple(outputs),
        op_params=params or {},
        inputs=tuple(TensorDesc(shape=a.shape, data_type=kind) for a, kind in zip(inputs, kinds.split(), strict=True)),
        sources=tuple(Source(kind="captured", path=f"values/{number}.npy") for number in range(len(inputs))),
        golden=tuple(f"values/golden{number}.npy" for number in range(len(results))),
        uses=(Use(model="m", path="main/0"),),
    )


def unary(folder: Path, name: str, x: np.ndarray, kind: str) -> OpRow:
    types = f"tensor<{x.size}x{kind}>"
    module = (
        f'func.func @main(%a: {types}) -> {types} {{ %0 = "{name}"(%a) : ({types}) -> {types} return %0 : {types} }}'
    )
    return op(folder, name, module, [x], kind, [TensorDesc(shape=x.shape, data_type=kind)])


def ulps(got: np.ndarray, exact: np.ndarray) -> float:
    return float((np.abs(got - exact) / np.spacing(np.abs(exact).astype(np.float64))).max())


@pytest.mark.parametrize(("name", "formula"), [("stablehlo.log_plus_one", np.log1p), ("chlo.atanh", np.arctanh)])
def test_the_formula_is_right_where_xla_is_known_to_be_wrong(tmp_path: Path, name, formula) -> None:
    x = np.linspace(-0.53, -0.28, 2001)
    row = unary(tmp_path, name, x, "f64")
    exact = formula(x.astype(np.longdouble))
    assert ulps(np.load(tmp_path / row.golden[0]), exact) > 100
    (values,) = ask.ask(row, tmp_path, None).values
    assert ulps(values, exact) <= 1
    form = known_wrong.form_of(row)
    assert form is not None
    assert form.is_formula
    assert known_wrong.form_of(unary(tmp_path, name, x.astype(np.float32), "f32")) is None


@pytest.mark.parametrize("name", sorted(formulas.FORMULAS))
def test_every_formula_is_the_ops(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(1.1, 2, 64) if name == "chlo.acosh" else rng.uniform(0.1, 0.9, 64)
    inputs = [x.astype(np.float32), rng.uniform(0.1, 0.9, 64).astype(np.float32)]
    names = ("%a", "%b")[
        : 2 if isinstance(formulas.FORMULAS[name], np.ufunc) and formulas.FORMULAS[name].nin == 2 else 1
    ]
    t = "tensor<64xf32>"
    signature = ", ".join(f"{each}: {t}" for each in names)
    module = (
        f'func.func @main({signature}) -> {t} {{ %0 = "{name}"({", ".join(names)}) : '
        f"({', '.join([t] * len(names))}) -> {t} return %0 : {t} }}"
    )
    row = op(
        tmp_path,
        name,
        module,
        inputs[: len(names)],
        "f32 f32"[: 3 if len(names) == 1 else 7],
        [TensorDesc(shape=(64,), data_type="f32")],
    )
    near = 1e-5 if name == "chlo.lgamma" else 3e-6  # XLA's is less exact near its zeros
    np.testing.assert_allclose(ask.ask(row, tmp_path, None).values[0], np.load(tmp_path / row.golden[0]), rtol=near)


def test_a_product_is_summed_over_its_own_dimensions(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    left, right = rng.normal(size=(5, 2, 7, 3)).astype(np.float32), rng.normal(size=(2, 3, 4, 5)).astype(np.float32)
    numbers = (
        "#stablehlo.dot<lhs_batching_dimensions = [1], rhs_batching_dimensions = [0], "
        "lhs_contracting_dimensions = [0, 3], rhs_contracting_dimensions = [3, 1]>"
    )
    module = (
        f"func.func @main(%a: tensor<5x2x7x3xf32>, %b: tensor<2x3x4x5xf32>) -> tensor<2x7x4xf32> {{ "
        f'%0 = "stablehlo.dot_general"(%a, %b) <{{dot_dimension_numbers = {numbers}}}> : (tensor<5x2x7x3xf32>, '
        f"tensor<2x3x4x5xf32>) -> tensor<2x7x4xf32> return %0 : tensor<2x7x4xf32> }}"
    )
    row = op(
        tmp_path,
        "stablehlo.dot_general",
        module,
        [left, right],
        "f32 f32",
        [TensorDesc(shape=(2, 7, 4), data_type="f32")],
        {"dot_dimension_numbers": numbers},
    )
    assert formulas.steps(row) == 2 * 7 * 4 * 15
    answer = ask.ask(row, tmp_path, None)
    assert answer.by == formulas.BY
    np.testing.assert_allclose(answer.values[0], np.einsum("abcd,bdea->bce", left, right), rtol=1e-5)


def test_the_interpreter_answers_once_for_a_golden_and_refuses_what_is_too_large(tmp_path: Path, monkeypatch) -> None:
    inputs = [np.array([[4], [0], [2]], np.int32), np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)]
    two = [TensorDesc(shape=(5,), data_type="f32")] * 2
    # XLA's own program for it writes into its operands' memory, so it is not run here.
    twice = [np.array([2, 0, 3, 0, 1], np.float32)] * 2
    row = op(tmp_path, "stablehlo.scatter", SCATTER, inputs, "i32 f32 f32", two, results=twice)
    form = known_wrong.form_of(row)
    assert form is not None
    assert "xla#29362" in form.source
    answer = ask.ask(row, tmp_path, tmp_path / "cache")
    assert [value.tolist() for value in answer.values] == [[2, 0, 3, 0, 1], [20, 0, 30, 0, 10]]
    monkeypatch.setattr(ask, "call", None)  # asked once
    again = ask.ask(row, tmp_path, tmp_path / "cache")
    assert [value.tolist() for value in again.values] == [value.tolist() for value in answer.values]
    assert again.by == answer.by == "StableHLO's interpreter"
    monkeypatch.undo()
    from opscope.harness.prepare.authorities import interpreted

    large = row.model_copy(update={"outputs": (TensorDesc(shape=(2048, 1024), data_type="f32"),)})
    assert (
        "StableHLO's interpreter: too large (2,097,"
        in ask.ask(large.model_copy(update={"golden": ()}), tmp_path, None).refusal
    )
    monkeypatch.setattr(interpreted, "MOST_SECONDS", 1e-6)
    with pytest.raises(interpreted.NoAnswerError, match=r"too large \(about 0 s"):
        interpreted.computed(row, (tmp_path / "op.mlirbc").read_bytes(), inputs)


def take(folder: Path, row: OpRow) -> OpTest:
    context = RunContext("r1", str(folder / "run"), FAULTY)
    return climb(row, registry.load(FAULTY), context=context, export_dir=folder)


def with_wrong_golden(folder: Path, module: bytes = b"fine") -> OpRow:
    row = add_row(folder, "op1", module)
    values = np.load(folder / row.golden[0])
    values[2, 3] += 1
    np.save(folder / row.golden[0], values)
    return row


def test_one_right_answer_decides_alone(tmp_path: Path) -> None:
    test = take(tmp_path, with_wrong_golden(tmp_path))
    assert (test.status, test.stage_reached) == (Status.SUCCESS, Stage.COMPARE)
    assert test.second_authority.startswith(f"{REFUTED}result 0[2, 3]: XLA has ")
    wrong = take(tmp_path, with_wrong_golden(tmp_path, b"run:wrong"))
    assert (wrong.status, wrong.fails_run) == (Status.WRONG_RESULT, True)
    assert wrong.second_authority.startswith(REFUTED)
    assert wrong.second_authority in (tmp_path / "run" / str(wrong.artifact)).read_text()


@pytest.fixture
def inexact(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy in float64 is one voice among others."""
    monkeypatch.setattr(ask, "TO_THE_LAST_BIT", frozenset())


@pytest.mark.usefixtures("inexact")
def test_a_right_result_beside_a_wrong_golden_is_in_doubt_with_both_answers(tmp_path: Path) -> None:
    test = take(tmp_path, with_wrong_golden(tmp_path))
    right = np.load(tmp_path / "values" / "left.npy")[2, 3] + np.load(tmp_path / "values" / "right.npy")[2, 3]
    assert (test.status, test.stage_reached, test.failed_stage) == (Status.GOLDEN_IN_DOUBT, Stage.COMPARE, None)
    assert not test.fails_run
    assert not test.success
    assert test.error_signature is None
    answers = (
        f"result 0[2, 3]: XLA has {np.float32(right + 1):.9g}, NumPy in float64 {right:.9g}; 1 of 32 elements differ"
    )
    assert test.second_authority.startswith(DOUBT + answers)
    assert "; StableHLO's interpreter gave no answer: " in test.second_authority, "who refused, and why"
    assert str(test.error_message).startswith(answers)
    assert answers in (tmp_path / "run" / str(test.artifact)).read_text()


@pytest.mark.usefixtures("inexact")
def test_a_result_that_is_wrong_by_both_authorities_stays_wrong(tmp_path: Path) -> None:
    test = take(tmp_path, with_wrong_golden(tmp_path, b"run:wrong"))
    assert (test.status, test.fails_run) == (Status.WRONG_RESULT, True)
    assert test.second_authority.startswith(DOUBT)
    plain = take(tmp_path, add_row(tmp_path, "op2", b"run:wrong"))
    assert (plain.status, plain.second_authority) == (Status.WRONG_RESULT, "NumPy in float64 agrees with the golden")
    assert take(tmp_path, add_row(tmp_path, "op3")).second_authority == ""


def test_without_an_authority_the_record_says_so(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delitem(formulas.FORMULAS, "stablehlo.add")  # and its module is nothing that the interpreter takes
    lacking = take(tmp_path, with_wrong_golden(tmp_path))
    assert lacking.status is Status.WRONG_RESULT
    assert lacking.second_authority.startswith("no second authority: StableHLO's interpreter")


@pytest.mark.usefixtures("inexact")
def test_a_prepared_authority_is_compared_with_right_results_too(tmp_path: Path) -> None:
    row = add_row(tmp_path, "op1")
    other = np.load(tmp_path / row.golden[0])
    other[1, 1] = 7
    np.save(tmp_path / "values" / "second.npy", other)
    second = SecondAuthority(by="another", values=("values/second.npy",), text="known to be wrong (a source)")
    test = take(tmp_path, row.model_copy(update={"second": second}))
    assert test.status is Status.GOLDEN_IN_DOUBT
    assert "another 7, NumPy in float64 " in test.second_authority
    assert test.second_authority.endswith(" (known to be wrong (a source))")
    np.save(tmp_path / "values" / "second.npy", np.load(tmp_path / row.golden[0]))
    test = take(tmp_path, row.model_copy(update={"second": second}))
    assert (test.status, test.second_authority) == (Status.SUCCESS, "another agrees with the golden")
    golden_by = SecondAuthority(by="another", text="golden by another: known to be wrong")
    test = take(tmp_path, row.model_copy(update={"second": golden_by}))
    assert (test.status, test.second_authority) == (Status.SUCCESS, golden_by.text)


@pytest.mark.usefixtures("inexact")
def test_no_backend_is_green_unasked_by_a_golden_that_another_put_in_question(tmp_path: Path) -> None:
    row = with_wrong_golden(tmp_path)
    doubted = take(tmp_path, row)
    fine = take(tmp_path, add_row(tmp_path, "op1"))
    right = fine.model_copy(update={"backend": "xla"})
    assert (doubted.status, right.status) == (Status.GOLDEN_IN_DOUBT, Status.SUCCESS)
    known = Doubts(tmp_path / "cache", lambda row: ["digest"])
    known.note(row, right)
    assert known.asked(row) is row
    known.note(row, doubted)
    for later in (known, Doubts(tmp_path / "cache", lambda row: ["digest"])):
        assert later.asked(row).second == QUESTIONED
        assert later.asked(row.model_copy(update={"provenance": "random:1"})).second is None
    assert Doubts(tmp_path / "cache", lambda row: ["other digest"]).asked(row) is row
    assert Doubts(tmp_path / "cache", lambda row: ["digest"], reads=False).asked(row) is row, "--no-cache"
    (before,) = found_later([right, doubted, right.model_copy(update={"op_id": "op9"})])
    assert (before.status, before.backend, before.attempt) == (Status.GOLDEN_IN_DOUBT, "xla", right.attempt + 1)


def test_a_question_is_asked_whatever_the_result_is(tmp_path: Path) -> None:
    row = add_row(tmp_path, "op1")
    asked = take(tmp_path, row.model_copy(update={"second": QUESTIONED}))
    assert (asked.status, asked.second_authority) == (Status.SUCCESS, "NumPy in float64 agrees with the golden")


# --- real authorities on real ops

CANONICAL = """func.func @main(%x: tensor<9xf32>) -> tensor<9xf32> {
  %nan = stablehlo.constant dense<0x7FC00000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %a = stablehlo.compare EQ, %p, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %b = stablehlo.select %a, %zero, %p : tensor<i1>, tensor<f32>
    %c = stablehlo.compare NE, %p, %p, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %d = stablehlo.select %c, %nan, %b : tensor<i1>, tensor<f32>
    %e = stablehlo.compare EQ, %q, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %f = stablehlo.select %e, %zero, %q : tensor<i1>, tensor<f32>
    %g = stablehlo.compare NE, %q, %q, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %h = stablehlo.select %g, %nan, %f : tensor<i1>, tensor<f32>
    %l = stablehlo.compare LT, %d, %h, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %l : tensor<i1>
  }) : (tensor<9xf32>) -> tensor<9xf32>
  return %s : tensor<9xf32>
}"""
UNSORTED = np.array([0, -0.0, np.inf, np.nan, 2, -np.inf, -np.nan, -0.0, 0], np.float32)
SORTED = np.array([-np.inf, 0, -0.0, -0.0, 0, 2, np.inf, np.nan, -np.nan], np.float32)
STABLE = {"dimension": "0 : i64", "is_stable": "true"}


def sort_row(folder: Path, results: list[np.ndarray] | None = None) -> OpRow:
    desc = [TensorDesc(shape=(9,), data_type="f32")]
    return op(folder, "stablehlo.sort", CANONICAL, [UNSORTED], "f32", desc, STABLE, results)


def on(backend: str, folder: Path, row: OpRow) -> OpTest:
    return climb(row, registry.load(backend), context=RunContext("r", str(folder / "run"), backend), export_dir=folder)


def test_an_accused_authority_is_not_asked_about_itself(tmp_path: Path) -> None:
    row = sort_row(tmp_path)
    golden_values = np.load(tmp_path / row.golden[0])
    assert golden_values.view(np.uint32).tolist() == SORTED.view(np.uint32).tolist()
    test = on("stablehlo-interpreter", tmp_path, row)
    assert (test.status, test.second_authority) == (
        Status.WRONG_RESULT,
        "NumPy's comparison of all pairs agrees with the golden",
    )
    assert on("xla", tmp_path, row).status is Status.SUCCESS


def test_a_sort_by_a_wrong_golden_is_judged_by_its_comparator(tmp_path: Path) -> None:
    test = on("xla", tmp_path, sort_row(tmp_path, [SORTED[[1, 0, *range(2, 9)]]]))
    assert (test.status, test.second_authority[: len(REFUTED)]) == (Status.SUCCESS, REFUTED)


PAD = """func.func @main(%x: tensor<5xf32>) -> tensor<8xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.pad %x, %z, low = [1], high = [2], interior = [0] : (tensor<5xf32>, tensor<f32>) -> tensor<8xf32>
  return %p : tensor<8xf32>
}"""


def pad_row(folder: Path, *added: float) -> OpRow:
    """A `pad`, which NumPy has no formula of, with a golden that is off by what is added to its third element."""
    x = np.arange(1, 6, dtype=np.float32)
    right = np.pad(x, (1, 2))
    right[2] += sum(added)
    return op(folder, "stablehlo.pad", PAD, [x], "f32", [TensorDesc(shape=(8,), data_type="f32")], {}, [right])


def voices(monkeypatch: pytest.MonkeyPatch, *others: int) -> None:
    """StableHLO's interpreter, and others, each a module of its own, that are off by so much."""
    more = (Voice(f"voice {n}", f"own{n}", f"{off_by.__name__}.by_{off}") for n, off in enumerate(others))
    monkeypatch.setattr(ask, "VOICES", (VOICES[1], *more))


INTERPRETER = "StableHLO's interpreter"


@pytest.mark.parametrize(
    ("golden_is_off", "others", "status", "text"),
    [
        (1.0, (), Status.GOLDEN_IN_DOUBT, f"{DOUBT}result 0[2]: XLA has 3, {INTERPRETER} 2; 1 of 8 elements differ"),
        (1.0, (0,), Status.SUCCESS, f"{REFUTED}result 0[2]: XLA has 3, {INTERPRETER} 2, voice 0 2; "),
        (1.0, (5,), Status.GOLDEN_IN_DOUBT, f"{DOUBT}result 0[2]: XLA has 3, {INTERPRETER} 2, voice 0 7; "),
        (1.0, (1,), Status.GOLDEN_IN_DOUBT, f"{DOUBT}result 0[2]: XLA has 3, {INTERPRETER} 2, voice 0 3; "),
        (1.0, (5, 0), Status.SUCCESS, f"{REFUTED}result 0[2]: XLA has 3, {INTERPRETER} 2, voice 0 7, voice 1 2; "),
        (0.0, (5,), Status.SUCCESS, ""),
    ],
)
def test_a_golden_falls_stands_or_is_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden_is_off, others, status, text
) -> None:
    voices(monkeypatch, *others)
    row = pad_row(tmp_path, golden_is_off).model_copy(update={"op_id": f"op{golden_is_off}{others}"})
    test = on("xla", tmp_path, row)
    assert (test.status, test.second_authority[: len(text)]) == (status, text)


def test_one_in_favour_and_none_against_is_enough_and_nobody_leaves_the_verdict(tmp_path: Path, monkeypatch) -> None:
    voices(monkeypatch, 7)
    row = pad_row(tmp_path).model_copy(update={"second": QUESTIONED, "op_id": "op7"})
    assert on("xla", tmp_path, row).second_authority == f"{INTERPRETER} agrees with the golden", (
        "the cheapest is enough"
    )
    accused = on("stablehlo-interpreter", tmp_path, row)
    assert accused.status is Status.GOLDEN_IN_DOUBT, "one other authority contradicts it"
    monkeypatch.setattr(ask, "VOICES", (VOICES[1],))
    alone = on("stablehlo-interpreter", tmp_path, pad_row(tmp_path, 1.0))
    assert (alone.status, alone.second_authority) == (
        Status.WRONG_RESULT,
        "no second authority: there is none beside the accused",
    )


def test_a_golden_that_differs_from_itself_is_none(tmp_path: Path, monkeypatch) -> None:
    """Nobody else speaks for it, and XLA makes another once more."""
    monkeypatch.setattr(ask, "VOICES", ())
    row = pad_row(tmp_path, 1.0).model_copy(update={"provenance": "captured:m:0:main/0"})
    test = on("xla", tmp_path, row)
    assert test.status is Status.NO_GOLDEN
    assert str(test.error_message).startswith("its golden differs from itself where XLA makes it once more: ")
    assert on("xla", tmp_path, row.model_copy(update={"provenance": "suite"})).status is Status.WRONG_RESULT
    wrong = on("stablehlo-interpreter", tmp_path, pad_row(tmp_path).model_copy(update={"provenance": "captured:m:0"}))
    assert wrong.status is Status.SUCCESS


def test_kin_is_known_by_its_class() -> None:
    from opscope.harness.backends.stablehlo_interpreter import StablehloInterpreter

    class Mine(StablehloInterpreter):
        name = "mine"

    assert accused(Mine(), "mine.py") >= {"mine", "stablehlo-interpreter"}
    assert "iree" in accused(registry.load("null"), "iree@3.1.0")


RAGGED = """func.func @main(%a: tensor<6x3xf32>, %b: tensor<2x3x2xf32>, %g: tensor<2xi32>) -> tensor<6x2xf32> {
  %r = "chlo.ragged_dot"(%a, %b, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1],
    rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}>
    : (tensor<6x3xf32>, tensor<2x3x2xf32>, tensor<2xi32>) -> tensor<6x2xf32>
  return %r : tensor<6x2xf32>
}"""


def test_what_xla_refuses_has_a_golden_by_the_next_authority(tmp_path: Path) -> None:
    split = split_module(RAGGED, "m")
    plan = WalkTask(split, ["normal:1", "normal:1", "int:2:4"], 0, tmp_path, "captured:m:0")
    [row] = walk(plan).rows
    assert row.second is not None
    assert row.second.text.startswith(f"golden by {INTERPRETER}: XLA does not compile it: ")
    a, b, groups = row_inputs(row, tmp_path)
    expected, start = np.zeros((6, 2), np.float32), 0
    for number, count in enumerate(groups):
        expected[start : start + count] = a[start : start + count] @ b[number]
        start += count
    np.testing.assert_allclose(np.load(tmp_path / row.golden[0]), expected, rtol=1e-5, atol=1e-6)
    own = climb(
        row,
        registry.load("stablehlo-interpreter"),
        context=RunContext("r", str(tmp_path / "run"), "stablehlo-interpreter"),
        export_dir=tmp_path,
    )
    assert own.status is Status.NO_GOLDEN
    assert str(own.error_message).startswith(f"its golden is its own: golden by {INTERPRETER}")

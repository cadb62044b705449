"""Values inside a model: each beside the golden of its op, and the op named whose own error it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.backends.base import Job, Target
from opscope.harness.backends.reference import Reference
from opscope.harness.prepare.mlir.door import load
from opscope.harness.prepare.mlir.tagged import tagged
from opscope.harness.prepare.split import split_module
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.verdict.intermediates import CompiledOp, Watch, candidates
from opscope.harness.verdict.tolerance import TABLE

CHAIN = """func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.tanh %0 : tensor<8x4xf32>
  %2 = stablehlo.exponential %1 : tensor<8x4xf32>
  %3 = stablehlo.abs %2 : tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}"""
CALLS = """
func.func private @twice(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func @main(%x: tensor<4x4xf32>, %n: tensor<i32>) -> tensor<4x4xf32> {
  %0 = func.call @twice(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = func.call @twice(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %2:2 = stablehlo.while(%i = %n, %v = %1) : tensor<i32>, tensor<4x4xf32>
    cond {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %t = stablehlo.tanh %v : tensor<4x4xf32>
      %d = stablehlo.subtract %i, %one : tensor<i32>
      stablehlo.return %d, %t : tensor<i32>, tensor<4x4xf32>
    }
  %3 = stablehlo.negate %2#1 : tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}
"""
TURNED = """func.func @main(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = stablehlo.exponential %1 : tensor<32x32xf32>
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %4 = stablehlo.abs %3 : tensor<32x32xf32>
  return %4 : tensor<32x32xf32>
}"""
CONVOLVED = """func.func @main(%x: tensor<1x8x8x8xf32>, %w: tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32>
  %1 = stablehlo.tanh %0 : tensor<1x8x8x8xf32>
  %2 = stablehlo.convolution(%1, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32>
  %3 = stablehlo.exponential %2 : tensor<1x8x8x8xf32>
  return %3 : tensor<1x8x8x8xf32>
}"""
EXACT = Target(card_type="host", float_format=None, math_fidelity="exact")


@pytest.fixture
def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in ((8, 16), (16, 4))]


def verdicts(arrays: list[np.ndarray], device: dict[str, np.ndarray]) -> Watch:
    watch = Watch(split_module(CHAIN), arrays, EXACT, None)
    watch.begin(frozenset(device))
    for path, value in device.items():
        watch.seen(path, lambda value=value: [value])
    watch.close()
    return watch


def test_the_wrong_op_is_distinguished_from_ops_that_pass_its_error_on(arrays: list[np.ndarray]) -> None:
    dot = arrays[0] @ arrays[1]
    wrong = np.tanh(dot) + np.float32(0.05)
    device = {"main/0": dot, "main/1": wrong, "main/2": np.exp(wrong), "main/3": np.abs(np.exp(wrong))}
    watch = verdicts(arrays, device)
    assert {one.path: one.verdict for one in watch.in_order()} == {
        "main/0": "right",
        "main/1": "jump",
        "main/2": "right",
        "main/3": "right",
    }
    jump = watch.first_jump()
    assert jump is not None
    assert (jump.path, jump.op_name, jump.confirmed) == ("main/1", "stablehlo.tanh", True)
    assert jump.error_before is not None
    assert jump.error is not None
    assert jump.error_before < 1e-5 < 1e-2 < jump.error
    assert jump.pcc is not None
    assert jump.pcc_before is not None


def test_an_op_that_only_enlarges_an_error_is_no_jump(arrays: list[np.ndarray]) -> None:
    dot = (arrays[0] @ arrays[1]) * np.float32(1 + 1e-5) + np.float32(1e-4)
    device = {"main/0": dot, "main/1": np.tanh(dot), "main/2": np.exp(np.tanh(dot))}
    watch = verdicts(arrays, {**device, "main/3": device["main/2"] + np.float32(0.3)})
    assert [one.verdict for one in watch.in_order()][1:] == ["right", "right", "jump"]


def test_fused_ops_are_judged_as_one_by_the_coarsest(arrays: list[np.ndarray]) -> None:
    tf32 = [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in arrays]
    right, wrong = (np.exp(np.tanh(tf32[0] @ tf32[1]) + np.float32(off)) for off in (0.0, 0.05))
    device = Target(card_type="sim-n150", float_format=None, math_fidelity="HiFi4", matrix_format="Tf32")
    for value, verdict in ((right, "right"), (wrong, "jump")):
        watch = Watch(split_module(CHAIN), arrays, device, None)
        watch.begin(frozenset({"main/2"}))
        watch.seen("main/2", lambda value=value: [value])
        watch.close()
        assert [one.verdict for one in watch.in_order()] == [verdict]


def test_nan_where_none_should_be_is_a_jump(arrays: list[np.ndarray]) -> None:
    dot = arrays[0] @ arrays[1]
    broken = np.tanh(dot)
    broken[0, 0] = np.nan
    jump = verdicts(arrays, {"main/0": dot, "main/1": broken}).first_jump()
    assert jump is not None
    assert (jump.path, jump.error) == ("main/1", None)


def watched(module: str, inputs: list[np.ndarray], folder: Path, level: int = 0, roles: tuple[str, ...] = ()) -> Watch:
    """The values of a module that the reference compiler and device made."""
    split = split_module(module)
    results = (split.values[split.program.results[0]],)
    job = Job("model", tagged(module), inputs, ResultOptions(optimization_level=level), results, roles)
    backend = Reference()
    job.watch = watch = Watch(split, inputs, backend.target(job.options), folder)
    for stage in backend.stages:
        backend.climb(stage, job)
    watch.close()
    return watch


def test_every_value_of_calls_and_of_loops_is_met_on_the_device(tmp_path: Path) -> None:
    inputs = [np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32), np.array(3, np.int32)]
    watch = watched(CALLS, inputs, tmp_path)
    assert {one.path for one in watch.in_order()} == set(watch.nodes)
    assert {one.verdict for one in watch.in_order()} <= {"right", "amplifies"}
    assert {"main/0@twice/0", "main/1@twice/0", "main/3.body/0", "main/3.cond/1", "main/4"} <= set(watch.intermediates)


@pytest.mark.parametrize(
    ("module", "shown"),
    [
        # The transposes cancel, the exponential runs on what was not turned: by its shape alone it cannot be told.
        (TURNED, ["main/0", "main/2", "main/4"]),
        # The permutations between the convolutions go, and tanh is computed with the first.
        (CONVOLVED, ["main/1", "main/2", "main/3"]),
    ],
)
def test_a_value_in_another_layout_is_compared_as_the_program_has_it(
    tmp_path: Path, module: str, shown: list[str]
) -> None:
    shapes = [desc.shape for desc in map(split_module(module).values.__getitem__, (0, 1))]
    inputs = [np.random.default_rng(1).normal(scale=0.2, size=shape).astype(np.float32) for shape in shapes]
    watch = watched(module, inputs, tmp_path, 2)
    assert {one.path: one.verdict for one in watch.in_order()} == dict.fromkeys(shown, "right")


@pytest.mark.parametrize("level", [0, 2])
def test_of_a_composite_only_what_it_returns_is_its_value(tmp_path: Path, level: int) -> None:
    module = """
    func.func private @twice_and_one(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %0 = stablehlo.add %a, %a : tensor<8x16xf32>
      %1 = func.call @up(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
      return %1 : tensor<8x16xf32>
    }
    func.func private @up(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %0 = stablehlo.exponential %a : tensor<8x16xf32>
      %1 = stablehlo.tanh %0 : tensor<8x16xf32>
      return %1 : tensor<8x16xf32>
    }
    func.func @main(%x: tensor<8x16xf32>, %w: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %0 = stablehlo.composite "my.twice" %x {decomposition = @twice_and_one} : (tensor<8x16xf32>) -> tensor<8x16xf32>
      %1 = stablehlo.add %0, %w : tensor<8x16xf32>
      return %1 : tensor<8x16xf32>
    }"""
    inputs = [np.random.default_rng(n).normal(size=(8, 16)).astype(np.float32) for n in range(2)]
    watch = watched(module, inputs, tmp_path, level)
    assert {one.path: one.verdict for one in watch.in_order()} == dict.fromkeys(("main/0", "main/1"), "right")
    text = load(tagged(module)).operation.get_asm(enable_debug_info=True, pretty_debug_info=True)
    # The composite, the call that makes its result, and what that returns.
    assert text.count('= "main/0"(') == 3, text


def test_values_hoisted_from_parameters_are_seen_too(tmp_path: Path) -> None:
    module = """func.func @main(%x: tensor<8x16xf32>, %w: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %0 = stablehlo.exponential %w : tensor<8x16xf32>
      %1 = stablehlo.abs %0 : tensor<8x16xf32>
      %2 = stablehlo.add %x, %1 : tensor<8x16xf32>
      return %2 : tensor<8x16xf32>
    }"""
    inputs = [np.random.default_rng(n).normal(size=(8, 16)).astype(np.float32) for n in range(2)]
    watch = watched(module, inputs, tmp_path, 1, ("input", "parameter"))
    # What loads the results carries the place of the first op, and is not taken for its value.
    assert {one.path: one.verdict for one in watch.in_order()} == dict.fromkeys(("main/0", "main/1", "main/2"), "right")


def watched_by_hand(module: str, inputs: list[np.ndarray], device: dict[str, np.ndarray]) -> Watch:
    """A watch that was given these values of a device, which shows no others."""
    watch = Watch(split_module(module), inputs, EXACT, None)
    watch.begin(frozenset(device))
    for path, value in device.items():
        watch.seen(path, lambda value=value: [value])
    return watch


TWO = """func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.abs %x : tensor<4x4xf32>
  %1 = stablehlo.negate %0 : tensor<4x4xf32>
  %2 = stablehlo.subtract %1, %0 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}"""


@pytest.mark.parametrize(("growth", "verdict"), [(3.9, "right"), (4.1, "jump")])
def test_an_error_up_to_four_times_that_of_the_inputs_is_theirs(growth: float, verdict: str) -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    device = {"main/0": x * np.float32(1.001), "main/1": -x * np.float32(1 + growth / 1000)}
    watch = watched_by_hand(TWO, [x], device)
    first, second = watch.in_order()
    assert (first.verdict, second.verdict) == ("jump", verdict)
    assert (first.error_before, first.pcc_before) == (0.0, None)
    assert (first.error, second.error) == (pytest.approx(1e-3, rel=1e-3), pytest.approx(growth / 1000, rel=1e-3))
    assert (second.error_before, second.pcc_before) == (first.error, first.pcc)


def test_an_op_counts_the_worse_of_what_it_reads_and_what_was_fused_away_passes_it_on() -> None:
    """The subtraction reads a value with an error of 0.1 %, and one that is not shown and has it too."""
    x = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    for shown, wrong, before in ((("main/0",), "main/0", 1e-3), (("main/0", "main/1"), "main/1", 1e-3)):
        values = {"main/0": x, "main/1": -x, "main/2": -2 * x}
        device = {path: values[path] for path in (*shown, "main/2")}
        device[wrong] = device[wrong] * np.float32(1.001)
        last = watched_by_hand(TWO, [x], device).in_order()[-1]
        assert (last.path, last.error_before) == ("main/2", pytest.approx(before, rel=1e-3))
        assert last.pcc_before is not None


def test_the_error_of_integers_is_the_share_that_differs() -> None:
    module = """func.func @main(%x: tensor<8xi32>) -> tensor<8xi32> {
      %0 = stablehlo.abs %x : tensor<8xi32>
      %1 = stablehlo.negate %0 : tensor<8xi32>
      return %1 : tensor<8xi32>
    }"""
    x = np.arange(8, dtype=np.int32)
    wrong = -x
    wrong[[2, 5]] = 9
    right, jump = watched_by_hand(module, [x], {"main/0": x, "main/1": wrong}).in_order()
    assert (right.verdict, right.error, right.pcc) == ("right", 0.0, None)
    assert (jump.verdict, jump.error, jump.error_before) == ("jump", 0.25, 0.0)


FOUR = """func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.abs %x : tensor<4x4xf32>
  %1 = stablehlo.negate %0 : tensor<4x4xf32>
  %2 = stablehlo.abs %1 : tensor<4x4xf32>
  %3 = stablehlo.negate %2 : tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}"""


@pytest.mark.parametrize(("room", "verdict"), [(128, "jump"), (127, "suspect")])
def test_an_op_whose_inputs_were_not_kept_is_only_suspect(
    room: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value of 64 bytes is kept until its last reader is judged: two at once here, in a diamond as in a chain."""
    monkeypatch.setattr("opscope.harness.verdict.intermediates.HELD_BYTES", room)
    x = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    cases = [(TWO, (x, -x, -3 * x)), (FOUR, (x, -x, x, -2 * x))]
    for module, values in cases[: 1 if verdict == "suspect" else 2]:
        watch = watched_by_hand(module, [x], {f"main/{number}": value for number, value in enumerate(values)})
        *before, last = [one.verdict for one in watch.in_order()]
        assert (set(before), last) == ({"right"}, verdict)
        first = watch.first_jump()
        assert first is not None
        assert (first.path, first.confirmed) == (f"main/{len(before)}", verdict == "jump")


def test_next_to_nothing_in_place_of_zeros_is_no_error() -> None:
    x = np.zeros((4, 4), np.float32)
    for small, verdict, error in ((1e-40, "right", 0.0), (1e-3, "jump", None)):
        device = {"main/0": x, "main/1": -x, "main/2": x + np.float32(small)}
        seen = watched_by_hand(TWO, [x], device).intermediates["main/2"]
        assert (seen.verdict, seen.error) == (verdict, error)


SCALED_SUM = """func.func @main(%x: tensor<8x64xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.BODY across dimensions = [1]
    : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.negate %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}"""


def test_a_fused_sum_whose_terms_cancel_is_judged_by_their_size() -> None:
    """Terms of 1000 that sum to about 1: an error of 1e-3 is nothing beside the terms, and much of the sum."""
    x = np.full((8, 64), 1000, np.float32)
    x[:, ::2] *= -1
    x[:, 0] += 1
    off = np.where(np.arange(8) % 2, np.float32(1e-3), np.float32(-1e-3))
    for body, right, verdict, unit in (
        ("add", x.sum(axis=1), "amplifies", 1),
        ("add", x.sum(axis=1), "amplifies", 2.0**-12),
        ("maximum", x.max(axis=1), "jump", 1),
    ):
        off_here = (right + (off if body == "add" else off * right)) * np.float32(unit)
        watch = watched_by_hand(SCALED_SUM.replace("BODY", body), [x * np.float32(unit)], {"main/2": -off_here})
        (one,) = watch.in_order()
        assert one.verdict == verdict, body


@each(
    ("operations", "chosen"),
    [
        # The last of a path, unless an earlier one says how it lies; then the first of these.
        ([(0, "main/1", (2, 3), "f32"), (0, "main/1 (net.py:7)", (2, 3), "f32")], 1),
        ([(0, "main/1 = permute[1,0]", (3, 2), "f32"), (0, "main/1", (2, 3), "f32")], 0),
        ([(0, "main/1", (2, 3), "f32"), (0, "main/1 = permute[1,0]", (3, 2), "f32")], 1),
        ([(0, "main/1 = permute[1,0]", (3, 2), "f32"), (0, "main/1 = reshape[2,3]", (6,), "f32")], 0),
        # One of the entry before any other.
        ([(0, "main/1", (2, 3), "f32"), (1, "main/1", (2, 3), "f32")], 0),
        ([(1, "main/1", (2, 3), "f32"), (1, "main/1", (2, 3), "f32")], 1),
        # No other shape or type, no step towards it, no other path.
        ([(0, "main/1", (3, 2), "f32"), (0, "main/1", (2, 3), "bf16"), (0, "part of main/1", (2, 3), "f32")], None),
        ([(0, "main/1 = permute[0,1]", (3, 2), "f32"), (0, "main/7", (2, 3), "f32"), (0, "", (2, 3), "f32")], None),
    ],
)
def test_which_operation_holds_a_value(operations: list, chosen: int | None) -> None:
    compiled = [CompiledOp(program, where, [(shape, element)]) for program, where, shape, element in operations]
    pairs = candidates(compiled, {"main/1": (TensorDesc(shape=(2, 3), data_type="f32"),)})
    assert pairs == ({} if chosen is None else {"main/1": chosen})


@each(
    ("declared", "device_type", "same"),
    [("i64", "i32", True), ("ui64", "ui32", True), ("i32", "i64", False), ("i64", "f32", False), ("i64", "i64", True)],
)
def test_indices_of_64_bits_may_have_become_32(declared: str, device_type: str, same: bool) -> None:
    expected = {"main/1": (TensorDesc(shape=(2,), data_type=declared), TensorDesc(shape=(), data_type="i1"))}
    both = [((2,), device_type), ((), "i1")]
    assert bool(candidates([CompiledOp(0, "main/1", both)], expected)) is same
    assert not candidates([CompiledOp(0, "main/1", both[:1])], expected)


def test_a_function_that_calls_itself_or_has_no_body_is_not_copied() -> None:
    module = """
    func.func private @outside(tensor<4xf32>) -> tensor<4xf32>
    func.func private @again(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.tanh %a : tensor<4xf32>
      %1 = func.call @again(%0) : (tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = func.call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = func.call @outside(%0) : (tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }"""
    text = load(tagged(module)).operation.get_asm(enable_debug_info=True, pretty_debug_info=True)
    assert 'call @outside(%0) : (tensor<4xf32>) -> tensor<4xf32> "main/1"(' in text
    assert 'call @again(%0) : (tensor<4xf32>) -> tensor<4xf32> "main/0@again/1"(' in text
    assert "again/1@again" not in text


def test_the_first_results_of_a_node_count_and_none_after_the_end() -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    watch = watched_by_hand(TWO, [x], {"main/0": x, "main/1": -x})
    watch.seen("main/1", lambda: pytest.fail("its results were fetched again"))
    assert [one.verdict for one in watch.in_order()] == ["right", "right"]
    watch.close()
    watch.seen("main/2", lambda: pytest.fail("the walk has ended"))
    assert (sorted(watch.intermediates), watch.skipped) == (["main/0", "main/1"], {})
    assert watch.lines().count("\n") == 2
    assert watch.first_jump() is None


def test_no_value_is_kept_after_its_last_reader() -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    watch = Watch(split_module(TWO), [x], EXACT, None)
    watch.begin(frozenset({"main/0", "main/1", "main/2"}))
    for path, value, sizes in (("main/0", x, [64]), ("main/1", -x, [64, 64]), ("main/2", -2 * x, [])):
        watch.seen(path, lambda value=value: [value])
        assert [each.nbytes for each in watch._values.values()] == sizes
        assert watch._held == sum(sizes)


@pytest.mark.parametrize(("most", "members"), [(1, [2, 3]), (2, [1, 2, 3]), (3, [0, 1, 2, 3]), (64, [0, 1, 2, 3])])
def test_fused_ops_are_searched_up_to_a_number(most: int, members: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opscope.harness.verdict.intermediates.MOST_FUSED", most)
    watch = Watch(split_module(FOUR), [np.ones((4, 4), np.float32)], EXACT, None)
    watch.begin(frozenset({"main/3"}))
    assert [node.path for node in watch._fused(watch.nodes["main/3"])] == [f"main/{n}" for n in members]
    assert len(watch._read_by(watch.nodes["main/3"])) == 1


def test_an_op_that_reads_nothing_has_no_error_before_it() -> None:
    module = """func.func @main(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xf32>) {
      %0 = stablehlo.iota dim = 0 : tensor<4xi32>
      %1 = stablehlo.add %0, %x : tensor<4xi32>
      %2 = stablehlo.convert %1 : (tensor<4xi32>) -> tensor<4xf32>
      return %1, %2 : tensor<4xi32>, tensor<4xf32>
    }"""
    count = np.arange(4, dtype=np.int32)
    wrong = np.array([0, 1, 2, 5], np.int32)
    device = {"main/0": wrong.astype(np.int64), "main/1": wrong + 1, "main/2": (wrong + 1).astype(np.float32)}
    first, second, third = watched_by_hand(module, [np.ones(4, np.int32)], device).in_order()
    assert (first.error, first.error_before, first.pcc_before) == (0.25, 0.0, None)
    assert (first.verdict, second.verdict, third.verdict) == ("jump", "right", "right")
    assert (second.error, second.error_before) == (0.25, 0.25)
    assert third.error == pytest.approx(2 / np.sqrt(30))
    right = watched_by_hand(module, [np.ones(4, np.int32)], {"main/0": count.astype(np.int64)}).in_order()
    assert [one.verdict for one in right] == ["right"]


def test_a_watch_waits_for_all_ops_that_have_results_and_for_no_constant() -> None:
    watch = Watch(split_module(SCALED_SUM.replace("BODY", "add")), [np.ones((8, 64), np.float32)], EXACT, None)
    assert watch.expected == dict.fromkeys(("main/1", "main/2"), (TensorDesc(shape=(8,), data_type="f32"),))
    assert (watch.seconds, watch.in_order(), watch.lines()) == (0.0, [], "")


def test_of_values_that_were_fused_away_the_worst_error_and_the_least_correlation_are_passed_on() -> None:
    """The sum reads what was made of two values that are shown: one is off by 0.1 %, the other the other way round."""
    module = """func.func @main(%x: tensor<4x4xf32>, %n: tensor<4xi32>) -> tensor<4x4xf32> {
      %0 = stablehlo.abs %x : tensor<4x4xf32>
      %1 = stablehlo.negate %x : tensor<4x4xf32>
      %2 = stablehlo.add %0, %1 : tensor<4x4xf32>
      %3 = stablehlo.negate %2 : tensor<4x4xf32>
      return %3 : tensor<4x4xf32>
    }"""
    x = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    turned = -x[::-1, ::-1]
    for first, second in ((x * np.float32(1.001), turned), (turned * np.float32(-1), -x * np.float32(1.001))):
        device = {"main/0": first, "main/1": second, "main/3": x * 0}
        one, two, last = watched_by_hand(module, [x, np.zeros(4, np.int32)], device).in_order()
        assert (last.error_before, last.pcc_before) == (max(one.error, two.error), min(one.pcc, two.pcc))
        assert last.pcc_before == pytest.approx(-1)


def test_an_op_by_itself_has_the_tolerance_of_single_ops() -> None:
    """On the inputs that the device had, one small element of 16 is off by 1e-4: nothing beside the norm of all."""
    module = """func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %0 = stablehlo.abs %x : tensor<4x4xf32>
      %1 = stablehlo.subtract %0, %y : tensor<4x4xf32>
      return %1 : tensor<4x4xf32>
    }"""
    small = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    x, y = np.full((4, 4), 100, np.float32), 100 - small
    shown = x * np.float32(1.0001)
    for factor, verdict in ((1, "amplifies"), (1.0001, "jump")):
        difference = shown - y
        difference[0, 0] *= np.float32(factor)
        watch = watched_by_hand(module, [x, y], {"main/0": shown, "main/1": difference})
        assert [one.verdict for one in watch.in_order()] == ["jump", verdict]


def test_terms_of_a_fused_sum_are_looked_at_only_where_its_numbers_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(split_module(SCALED_SUM.replace("BODY", "add")), [np.ones((8, 64), np.float32)], EXACT, None)
    monkeypatch.setattr(watch, "_operands", lambda *_: pytest.fail("its terms were asked for"))
    fused = [watch.nodes["main/1"], watch.nodes["main/2"]]
    right, broken = np.full(8, -64, np.float32), np.full(8, np.nan, np.float32)
    row = watch._row(fused[1], 0)
    values = {value: right for node in fused for value in node.outputs}
    assert watch._judge_fused(fused, values, right, right, row).passed
    for wrong, held_to in ((broken, row), (right + 1, TABLE["exact"])):
        assert not watch._judge_fused(fused, values, right, wrong, held_to).passed

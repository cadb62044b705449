"""The walk over split ops: the whole model's own XLA outputs come out, and every row can be replayed from its files."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from opscope.harness.prepare import golden
from opscope.harness.prepare.export import Exported, export_model
from opscope.harness.prepare.input_distributions import argument_distributions
from opscope.harness.prepare.inputs import row_golden, row_inputs
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.walk import Limits, Missing, Walked, WalkTask, walk
from opscope.harness.record.records import OpRow
from opscope.models import registry
from opscope.models.seeding import draw

BIG = ["resnet50", "bert_base", "vit_base", "gpt2_small"]
TOLERANCE = {"float32": 5e-6, "bfloat16": 2e-2}
"""Relative L2 against the whole model, which XLA fuses: for bfloat16 it rounds less often than op by op."""


def walked(exported: Exported | str | bytes, folder: Path, **options: object) -> tuple[WalkTask, Walked]:
    module = exported.bytecode if isinstance(exported, Exported) else exported
    split = split_module(module, "m")
    distributions = (
        [s.law for s in exported.arguments] if isinstance(exported, Exported) else argument_distributions(split)
    )
    assert split.module_ops == split.uses + split.unsplittable_uses + split.structural
    plan = WalkTask(split, distributions, 0, folder, "captured:m:0", **options)
    return plan, walk(plan)


@functools.cache
def model(name: str, dtype: str = "float32") -> Exported:
    """A model of the zoo, exported once for all tests."""
    return export_model(registry.get(name), dtype)


def whole(exported: Exported) -> list[np.ndarray]:
    arrays = [draw(s.law, s.shape, s.dtype, 0, i) for i, s in enumerate(exported.arguments)]
    return golden.compile_module(exported.bytecode)(arrays)


def lower(function: Callable[..., object], *shapes: tuple[tuple[int, ...], str]) -> bytes:
    import jax

    module = jax.jit(function, keep_unused=True).lower(*[jax.ShapeDtypeStruct(*s) for s in shapes]).compiler_ir()
    assert module is not None
    file = io.BytesIO()
    module.operation.write_bytecode(file)
    return file.getvalue()


def by_name(rows: list[OpRow], name: str) -> list[OpRow]:
    return [r for r in rows if r.op_name == f"stablehlo.{name}"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["mnist_mlp", *(pytest.param(n, marks=pytest.mark.slow) for n in BIG)])
def test_final_outputs_are_the_whole_models(name: str, dtype: str, tmp_path: Path) -> None:
    exported = model(name, dtype)
    _, rows = walked(exported, tmp_path)
    for ours, theirs in zip(rows.results, whole(exported), strict=True):
        assert isinstance(ours, np.ndarray)
        assert ours.dtype == theirs.dtype
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        assert np.linalg.norm(a - b) / np.linalg.norm(b) < TOLERANCE[dtype]
    assert all(row.golden for row in rows.rows)
    stored = sum(p.stat().st_size for p in (tmp_path / "values").iterdir())
    assert stored < 300e6


def test_every_row_replays_from_its_files(tmp_path: Path) -> None:
    _, rows = walked(model("mnist_mlp", "bfloat16"), tmp_path, cache_dir=tmp_path)
    for row in rows.rows:
        assert row.module is not None
        again = golden.compile_module((tmp_path / row.module).read_bytes(), tmp_path, widen=True)(
            row_inputs(row, tmp_path)
        )
        kept = row_golden(row, tmp_path)
        assert [a.tobytes() for a in again] == [k.tobytes() for k in kept]
        assert [(k.shape, len(kept)) for k in kept] == [(d.shape, len(row.outputs)) for d in row.outputs]


def test_weights_are_not_stored(tmp_path: Path) -> None:
    exported = model("mnist_mlp")
    _, rows = walked(exported, tmp_path)
    dots = by_name(rows.rows, "dot_general")
    assert {s.kind for r in dots for s in r.sources[1:]} == {"seeded"}
    assert {exported.arguments[s.index].name for r in dots for s in r.sources[1:] if s.index is not None} == {
        f"dense{i}.weight" for i in range(3)
    }
    assert sum(p.stat().st_size for p in (tmp_path / "values").iterdir()) < 100_000


def test_bodies_are_evaluated_at_their_first_iteration(tmp_path: Path) -> None:
    import jax.numpy as jnp
    from jax import lax

    def program(x, n):
        def body(i, c):
            return lax.cond(i > 2, lambda a: jnp.tanh(a) + x, lambda a: jnp.cos(a) * x, c)

        return lax.fori_loop(0, n, body, x * 3.0)

    plan, rows = walked(lower(program, ((4,), "float32"), ((), "int32")), tmp_path)
    x = draw(plan.distributions[0], (4,), "float32", 0, 0)
    [tanh], [cos] = by_name(rows.rows, "tanh"), by_name(rows.rows, "cosine")
    for row, function in ((tanh, np.tanh), (cos, np.cos)):
        [value] = row_inputs(row, tmp_path)
        np.testing.assert_allclose(value, x * 3, rtol=1e-6)
        np.testing.assert_allclose(row_golden(row, tmp_path)[0], function(x * 3), rtol=1e-5)
    assert by_name(rows.rows, "while")[0].golden
    assert all(row.golden or row.unsplittable for row in rows.rows)


UNKNOWN = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.exponential %a : tensor<8xf32>
  %1 = stablehlo.custom_call @nobody(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = stablehlo.log %1 : tensor<8xf32>
  return %2 : tensor<8xf32> }"""


def test_an_op_that_xla_refuses_does_not_end_the_walk(tmp_path: Path) -> None:
    _, rows = walked(UNKNOWN, tmp_path)
    exponential, custom, log = rows.rows
    assert exponential.golden
    assert custom.op_name == "stablehlo.custom_call:nobody"
    assert not custom.golden
    assert "nobody" in custom.no_golden
    assert custom.sources[0].kind == "captured"
    assert log.golden
    assert (log.sources[0].kind, log.provenance) == ("random", "random:0")
    assert (row_inputs(log, tmp_path)[0] > 0).all()
    assert isinstance(rows.results[0], Missing)


def test_a_guilty_op_is_not_evaluated_again(tmp_path: Path) -> None:
    split = split_module(UNKNOWN, "m")
    fatal_ops = {op.op_id: "it died" for op in split.ops.values() if op.op_name == "stablehlo.exponential"}
    _, rows = walked(UNKNOWN, tmp_path, fatal_ops=fatal_ops)
    assert rows.rows[0].second is not None
    assert rows.rows[0].second.text == "golden by NumPy in float64: it died"
    assert rows.rows[1].sources[0].kind == "captured"


def test_values_above_the_cap_are_replaced_by_random_inputs(tmp_path: Path) -> None:
    text = UNKNOWN.replace(
        "stablehlo.custom_call @nobody(%0) : (tensor<8xf32>) -> tensor<8xf32>", "stablehlo.abs %0 : tensor<8xf32>"
    )
    _, rows = walked(text, tmp_path, limits=Limits(tensor_bytes=16))
    assert all("above the cap of 16" in row.no_golden for row in rows.rows)
    assert [row.sources[0].kind for row in rows.rows] == ["seeded", "random", "random"]
    assert isinstance(rows.results[0], Missing)
    live = walked(text, tmp_path, limits=Limits(live_bytes=40))[1]
    assert "alive at once" in live.rows[1].no_golden
    # What was not computed is not alive: the last fits again.
    assert [bool(row.no_golden) for row in live.rows] == [False, True, False]


def test_values_not_computed_take_no_memory(tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<2xf32>) -> tensor<1000x2xf32>
      %1 = stablehlo.slice %0 [0:1, 0:2] : (tensor<1000x2xf32>) -> tensor<1x2xf32>
      %2 = stablehlo.reshape %1 : (tensor<1x2xf32>) -> tensor<2xf32>
      return %2 : tensor<2xf32>
    }"""
    _, rows = walked(text, tmp_path, limits=Limits(live_bytes=100))
    assert [row.no_golden for row in rows.rows] == [
        "7.812 KiB of values alive at once are above the cap of 100 bytes",
        "",
        "",
    ]
    # Nor is a random input made in the place of a value that is beyond reason.
    (tmp_path / "small").mkdir()
    _, rows = walked(text, tmp_path / "small", limits=Limits(live_bytes=100, input_bytes=1000))
    [cut] = by_name(rows.rows, "slice")
    assert cut.no_golden == "input of 7.812 KiB is above the cap of 1000 bytes"
    assert cut.sources == ()
    assert by_name(rows.rows, "reshape")[0].golden


def test_random_inputs_evaluate_each_op_alone(tmp_path: Path) -> None:
    _, rows = walked(model("mnist_mlp"), tmp_path, random=True)
    assert {s.kind for r in rows.rows for s in r.sources} == {"random"}
    assert {r.provenance for r in rows.rows} == {"random:0"}
    assert all(r.golden for r in rows.rows)
    [log] = by_name(rows.rows, "log")
    np.testing.assert_allclose(row_golden(log, tmp_path)[0], np.log(row_inputs(log, tmp_path)[0]), rtol=1e-5)


def test_arguments_of_a_file_get_distributions_of_their_users(tmp_path: Path) -> None:
    text = """func.func @main(%t: tensor<50x4xf32>, %i: tensor<3x1xi32>, %p: tensor<3x4xf32>) -> tensor<3x4xf32> {
      %0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 4>}> : (tensor<50x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
      %1 = stablehlo.log %p : tensor<3x4xf32>
      %2 = stablehlo.add %0, %1 : tensor<3x4xf32>
      return %2 : tensor<3x4xf32> }"""
    assert argument_distributions(split_module(text, "m")) == ["normal:1", "int:0:50", "uniform:0.1:4"]
    _, rows = walked(text, tmp_path)
    table, indices = draw("normal:1", (50, 4), "float32", 0, 0), draw("int:0:50", (3, 1), "int32", 0, 1)
    np.testing.assert_array_equal(row_golden(rows.rows[0], tmp_path)[0], table[indices[:, 0]])


def test_distributions_know_operands_beside_embedded_constants() -> None:
    text = """func.func @main(%x: tensor<4xf32>, %i: tensor<i32>) -> (tensor<4xf32>, tensor<i32>) {
      %one = stablehlo.constant dense<1.0> : tensor<4xf32>
      %a = stablehlo.constant dense<0> : tensor<i32>
      %b = stablehlo.constant dense<2> : tensor<i32>
      %0 = stablehlo.divide %one, %x : tensor<4xf32>
      %1 = stablehlo.clamp %a, %i, %b : tensor<i32>
      return %0, %1 : tensor<4xf32>, tensor<i32> }"""
    assert argument_distributions(split_module(text, "m")) == ["magnitude:0.5:2", "int:-8:8"]


@pytest.mark.parametrize(
    ("under", "laws"),
    [
        ("add %v, %w", ["uniform:0.1:4"] * 2),
        ("multiply %v, %w", ["uniform:0.1:4"] * 2),
        ("multiply %v, %v", ["normal:1"] * 2),
        ("subtract %v, %w", ["normal:1"] * 2),
    ],
)
def test_a_variance_that_a_root_reads_behind_others_is_positive(under: str, laws: list[str]) -> None:
    text = f"""func.func @main(%v: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {{
      %e = stablehlo.constant dense<1.0e-5> : tensor<2x4xf32>
      %0 = stablehlo.{under} : tensor<4xf32>
      %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
      %2 = stablehlo.add %1, %e : tensor<2x4xf32>
      %3 = stablehlo.rsqrt %2 : tensor<2x4xf32>
      return %3 : tensor<2x4xf32> }}"""
    assert argument_distributions(split_module(text, "m")) == laws


def test_an_implementations_own_random_numbers_are_no_golden(tmp_path: Path) -> None:
    text = """func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<4xf32> {
      %s = stablehlo.constant dense<4> : tensor<1xi64>
      %0 = stablehlo.rng %a, %b, %s, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
      %1 = stablehlo.tanh %0 : tensor<4xf32>
      return %1 : tensor<4xf32> }"""
    _, rows = walked(text, tmp_path)
    assert "each implementation's own" in rows.rows[0].no_golden
    assert rows.rows[1].golden
    assert rows.rows[1].sources[0].kind == "captured"


def programs() -> dict[str, tuple[Callable[..., object], tuple[tuple[tuple[int, ...], str], ...]]]:
    """Functions with the ops that models need besides the plain ones."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    return {
        "svd": (lambda a: jnp.linalg.svd(a)[1], (((4, 4), "float32"),)),
        "fft": (lambda a: jnp.abs(jnp.fft.fft(a)), (((4, 8), "float32"),)),
        "sort": (lambda a: (jnp.argsort(a), lax.top_k(a, 3)), (((4, 8), "float32"),)),
        "scatter": (lambda a, i: a.at[i].add(2.0), (((9, 4), "float32"), ((3,), "int32"))),
        "composite": (lambda a: lax.composite(lambda x: jnp.tanh(x) * 2, name="my.op")(a), (((9, 4), "float32"),)),
        "scan": (lambda a: lax.scan(lambda c, x: (c * 0.5 + jnp.sin(x), c), jnp.zeros(4), a), (((9, 4), "float32"),)),
        "grad": (jax.grad(lambda a: lax.cumsum(jnp.exp(a)).max()), (((8,), "float32"),)),
        "int4": (lambda a: a + a, (((8,), "int4"),)),
        "float8": (lambda a: a + a, (((8,), "float8_e4m3fn"),)),
        "complex": (lambda a: jnp.exp(a) * (1 + 2j), (((8,), "complex64"),)),
        "switch": (lambda i, a: lax.switch(i, [jnp.sin, jnp.tanh, jnp.cos], a), (((), "int32"), ((4,), "float32"))),
    }


# quick: a call of LAPACK is test_golden.py's, branches are test_split.py's
@pytest.mark.parametrize(
    "name",
    [
        *("fft", "sort", "scatter", "composite", "scan", "grad", "int4", "float8", "complex"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("svd", "switch")),
    ],
)
def test_many_kinds_of_ops_equal_jax(name: str, tmp_path: Path) -> None:
    import jax

    function, specs = programs()[name]
    plan, rows = walked(lower(function, *specs), tmp_path)
    drawn = [
        draw(distribution, *spec, 0, i)
        for i, (distribution, spec) in enumerate(zip(plan.distributions, specs, strict=True))
    ]
    for ours, theirs in zip(rows.results, jax.tree.leaves(jax.jit(function)(*drawn)), strict=True):
        assert isinstance(ours, np.ndarray)
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours.astype(complex), np.asarray(theirs).astype(complex), rtol=1e-5, atol=1e-6)
    assert all(row.golden for row in rows.rows)


@pytest.mark.parametrize(("count", "reported"), [(1, [1]), (20, [20]), (45, [20, 40, 45])])
def test_progress_is_reported_every_twenty_ops_and_at_the_end(count: int, reported: list[int], tmp_path: Path) -> None:
    """Constants and the return are no ops."""
    lines = [f"%{n + 1} = stablehlo.{'abs' if n % 2 else 'negate'} %{n} : tensor<4xf32>" for n in range(count)]
    text = "\n".join(lines).replace("%0 :", "%x :")
    module = f"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %c = stablehlo.constant dense<0.0> : tensor<4xf32>
      {text}
      return %{count} : tensor<4xf32> }}"""
    seen: list[tuple[int, int]] = []
    walked(module, tmp_path, on_progress=lambda done, total: seen.append((done, total)))
    assert seen[: len(reported)] == [(done, count) for done in reported]


LOG1P = """func.func @main(%x: tensor<64xf64>) -> (tensor<64xf64>, tensor<64xf64>) {
  %0 = stablehlo.negate %x : tensor<64xf64>
  %1 = stablehlo.log_plus_one %0 : tensor<64xf64>
  %2 = stablehlo.negate %1 : tensor<64xf64>
  %3 = stablehlo.log_plus_one %1 : tensor<64xf64>
  return %2, %3 : tensor<64xf64>, tensor<64xf64>
}"""


def test_a_golden_that_is_known_to_be_wrong_is_the_formulas(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.linspace(0.28, 0.53, 64))
    _, rows = walked(LOG1P, tmp_path, value_files={0: "x.npy"})
    (row,) = by_name(rows.rows, "log_plus_one")
    (x,), (got,) = row_inputs(row, tmp_path), row_golden(row, tmp_path)
    exact = np.log1p(x.astype(np.longdouble))

    def units(value: np.ndarray, exact: np.ndarray) -> float:
        return np.abs((value - exact) / np.spacing(np.abs(exact).astype(np.float64))).max()

    assert units(got, exact) <= 1
    # So is what rests on it, and another use: a whole model's golden would be as wrong as XLA else.
    first, second = rows.results
    assert units(first, -exact) <= 1
    assert units(second, np.log1p(got.astype(np.longdouble))) <= 1
    assert row.second is not None
    assert "jax#39707" in row.second.text
    assert row.second.values == ()
    assert {other.second for other in rows.rows if other is not row} == {None}

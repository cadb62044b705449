"""Goldens: widened arithmetic, executables kept and loaded again, errors of XLA as one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.prepare import golden, mlir
from opscope.harness.prepare.mlir.upcast import widened
from opscope.harness.prepare.pjrt.client import short

SUM = """func.func @main(%a: tensor<4x4096xbf16>) -> tensor<4xbf16> {
  %c = stablehlo.constant dense<0.0> : tensor<bf16>
  %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [1]
    : (tensor<4x4096xbf16>, tensor<bf16>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16> }"""


def bf16(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(ml_dtypes.bfloat16)


def test_a_long_bfloat16_sum_is_made_in_float32_and_rounded_once() -> None:
    x = bf16(4, 4096)
    [out] = golden.compile_module(SUM, widen=True)([x])
    assert out.dtype == ml_dtypes.bfloat16
    exact = x.astype(np.float64).sum(1)
    assert np.abs(out.astype(np.float64) / exact - 1).max() < 2**-8


def test_bfloat16_accumulation_would_have_been_worse() -> None:
    ones = np.ones((4, 4096), ml_dtypes.bfloat16)
    [wide] = golden.compile_module(SUM, widen=True)([ones])
    assert (wide.astype(np.float32) == 4096).all()
    running = ones[0, 0]
    for value in ones[0, 1:]:
        running = running + value
    assert float(running) == 256  # where bfloat16 can no longer count


@pytest.mark.parametrize(
    "line",
    [
        "%0 = stablehlo.bitcast_convert %a : (tensor<4xbf16>) -> tensor<4xi16> return %0 : tensor<4xi16>",
        "%0 = stablehlo.convert %a : (tensor<4xbf16>) -> tensor<4xi16> return %0 : tensor<4xi16>",
    ],
)
def test_ops_whose_meaning_is_their_type_are_left_alone(line: str) -> None:
    module = mlir.load(
        f"func.func @main(%a: tensor<4xbf16>) -> tensor<4xi16> {{ {line} }}".replace(" return", "\nreturn")
    )
    assert widened(module) is None
    x = np.array([1.0, -2.5, 3.0, 0.0], ml_dtypes.bfloat16)
    [out] = golden.compile_module(module, widen=True)([x])
    assert out.tolist() == (x.view(np.int16) if "bitcast" in line else x.astype(np.int16)).tolist()


@each("wide", ["f32", "f64"])
def test_a_module_of_wide_floats_needs_no_widening(wide: str) -> None:
    assert widened(mlir.load(SUM.replace("bf16", wide))) is None


def test_regions_constants_and_captures_are_widened() -> None:
    text = """func.func @main(%n: tensor<i32>, %x: tensor<4xbf16>, %y: tensor<4xbf16>) -> tensor<4xbf16> {
      %c0 = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.while(%i = %c0, %a = %x) : tensor<i32>, tensor<4xbf16>
        cond { %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.return %p : tensor<i1> }
        do { %one = stablehlo.constant dense<1> : tensor<i32>
             %k = stablehlo.constant dense<[0.5, 0.25, 1.5, 2.0]> : tensor<4xbf16>
             %m = stablehlo.multiply %y, %k : tensor<4xbf16>
             %b = stablehlo.add %a, %m : tensor<4xbf16>
             %j = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %j, %b : tensor<i32>, tensor<4xbf16> }
      return %r#1 : tensor<4xbf16> }"""
    module = widened(mlir.load(text))
    assert module is not None
    assert "tensor<4xbf16>" not in str(module).split("stablehlo.while")[1].split("return %")[0]
    x, y = bf16(2, 4)
    [out] = golden.compile_module(text, widen=True)([np.array(1000, np.int32), x, y])
    k = np.array([0.5, 0.25, 1.5, 2.0])
    exact = x.astype(np.float64) + 1000 * y.astype(np.float64) * k
    assert np.abs(out.astype(np.float64) / exact - 1).max() < 2**-8


def test_executables_are_kept_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = bf16(4, 4096)
    [first] = golden.compile_module(SUM, tmp_path, widen=True)([x])
    assert [len(file.name) for file in (tmp_path / "executables").iterdir()] == [32]
    monkeypatch.setattr(golden, "_compile", lambda *_: pytest.fail("compiled again"))
    [second] = golden.compile_module(SUM, tmp_path, widen=True)([x])
    assert first.tobytes() == second.tobytes()


def test_a_damaged_executable_is_only_a_miss(tmp_path: Path) -> None:
    golden.compile_module(SUM, tmp_path, widen=True)
    [file] = (tmp_path / "executables").iterdir()
    file.write_bytes(b"rubbish")
    x = bf16(4, 4096)
    [out] = golden.compile_module(SUM, tmp_path, widen=True)([x])
    assert out.shape == (4,)
    assert file.stat().st_size > 1000


def test_64_bit_types_stay() -> None:
    text = "func.func @main(%a: tensor<2xi64>, %b: tensor<2xf64>) -> (tensor<2xi64>, tensor<2xf64>) {\n return %a, %b : tensor<2xi64>, tensor<2xf64> }"  # noqa: E501
    values = [np.array([2**40, -1]), np.array([1 / 3, 1e300])]
    out = golden.compile_module(text)(values)
    assert [o.tobytes() for o in out] == [v.tobytes() for v in values]


def test_errors_of_xla_are_one_line() -> None:
    text = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.custom_call @no_such_target(%a) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32> }"""
    with pytest.raises(golden.GoldenError, match="no_such_target") as caught:
        golden.compile_module(text)([np.zeros(2, np.float32)])
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_golden_loads_no_jax() -> None:
    code = (
        "import sys, numpy as np; from opscope.harness.prepare import golden;"
        f"print(golden.compile_module({SUM.replace('bf16', 'f32')!r})([np.ones((4, 4096), np.float32)])[0].tolist());"
        "sys.exit('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[4096.0, 4096.0, 4096.0, 4096.0]"


@pytest.mark.slow
def test_a_fresh_process_runs_lapack_calls(tmp_path: Path) -> None:
    import jax
    import jax.numpy as jnp

    module = jax.jit(lambda a: jnp.linalg.svd(a)[1]).lower(jax.ShapeDtypeStruct((3, 3), "float32")).compiler_ir()
    assert module is not None
    (tmp_path / "svd.mlirbc").write_bytes(mlir.to_bytecode(module))
    code = (
        "import sys, numpy as np; from pathlib import Path; from opscope.harness.prepare import golden;"
        "run = golden.compile_module(Path(sys.argv[1]).read_bytes());"
        "print(run([np.diag(np.float32([3, 5, 4]))])[0].tolist())"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "svd.mlirbc")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[5.0, 4.0, 3.0]"


def test_the_functions_of_lapack_are_loaded_for_the_module_that_calls_them() -> None:
    factor = """func.func @main(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {
      %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {
        api_version = 4 : i32, backend_config = {uplo = 76 : ui8},
        operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
        result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>],
        output_operand_aliases = [#stablehlo.output_operand_alias<
          output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>]
      } : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)
      return %0#0 : tensor<2x2xf32> }"""
    golden._initialise_lapack.cache_clear()
    golden.compile_module(SUM)
    assert golden._initialise_lapack.cache_info().misses == 0
    [out] = golden.compile_module(factor)([np.float32([[4, 2], [2, 10]])])
    assert golden._initialise_lapack.cache_info().misses == 1
    assert np.tril(out).tolist() == [[2.0, 0.0], [1.0, 3.0]]


SPARSE = """func.func @main(
    %a: tensor<4xf32>, %p: tensor<3xi32>, %c: tensor<4xi32>, %x: tensor<2x1xf32>) -> tensor<2x1xf32> {
  %0 = stablehlo.custom_call @cpu_csr_sparse_dense_ffi(%a, %p, %c, %x) {
    backend_config = "", mhlo.backend_config = {}, result_layouts = [dense<[1, 0]> : tensor<2xindex>],
    operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>,
      dense<[1, 0]> : tensor<2xindex>]
  } : (tensor<4xf32>, tensor<3xi32>, tensor<4xi32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  return %0 : tensor<2x1xf32> }"""


@pytest.mark.parametrize(
    ("wide", "value"),
    [("f64", np.array([1.5, -3.25e100])), ("i8", np.array([5, -7], np.int8)), ("f32", np.array([1, -0.0], np.float32))],
)
def test_bits_of_a_number_are_as_many_booleans_and_back(wide, value):
    """XLA takes an i1 for eight bits."""
    count = 8 * value.itemsize
    bits = np.unpackbits(value.view(np.uint8), bitorder="little").reshape(2, count).astype(np.bool_)
    for source, target, x, wanted in (
        (f"tensor<2x{wide}>", f"tensor<2x{count}xi1>", value, bits),
        (f"tensor<2x{count}xi1>", f"tensor<2x{wide}>", bits, value),
    ):
        (got,) = golden.compile_module(f"""func.func @main(%x: {source}) -> {target} {{
          %0 = stablehlo.bitcast_convert %x : ({source}) -> {target}
          return %0 : {target}
        }}""")([x])
        assert got.dtype == wanted.dtype
        assert got.tobytes() == wanted.tobytes()


@each(
    ("text", "line"), [("  first\nsecond", "first"), ("x" * 201, "x" * 200), ("", "ValueError"), (" \n", "ValueError")]
)
def test_an_error_of_xla_is_its_first_line(text: str, line: str) -> None:
    assert short(ValueError(text)) == line


def test_values_without_buffers_are_taken_and_sparse_products_run_in_a_process_that_has_nothing_of_jax() -> None:
    """Which has one thread until then, although it has split a module."""
    program = """if True:
        import os, sys
        from opscope.harness.prepare.split import split_module
        text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
        text = text.replace("{ return %x", "{ %0 = stablehlo.add %x, %x : tensor<4xf32> return %0")
        assert list(split_module(text).ops)
        assert len(os.listdir("/proc/self/task")) == 1
        import ml_dtypes
        import numpy as np
        from opscope.harness.prepare import golden
        for kind in ("bfloat16", "float8_e4m3fn", "float16", "float32", "bool"):
            for shape in ((3, 4), (2, 1, 5), (), (0, 4)):
                array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(getattr(ml_dtypes, kind, kind))
                taken = golden.take(golden.put(array))
                assert (taken.dtype, taken.shape) == (array.dtype, array.shape), (kind, shape)
                assert taken.tobytes() == array.tobytes(), (kind, shape)
        small = np.full(4, 1e-39, np.float32)
        (kept,) = golden.compile_module(text, denormals=True)([small])
        assert (kept == 2 * small).all()
        assert "jax" not in sys.modules
        packed = np.arange(8).astype(ml_dtypes.int4)
        assert (golden.take(golden.put(packed)) == packed).all()
        operands = [np.float32([4, 1, 1, 4]), np.int32([0, 2, 4]), np.int32([0, 1, 0, 1]), np.float32([[1], [2]])]
        assert golden.compile_module(sys.argv[1])(operands)[0].tolist() == [[6.0], [9.0]]
    """
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-P", "-c", program, SPARSE], check=True, timeout=120, env=environment)

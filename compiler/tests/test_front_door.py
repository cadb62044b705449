"""What the door rewrites: tuples, tokens, asynchronous starts, quantised types, dynamic shapes; and custom calls."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.tests import programs
from opscope.simulator.api import Device

Q8 = "!quant.uniform<i8:f32, 0.5:3>"
FALLBACK = api.CompileOptions(unsupported_types="fallback")


def simulate(body: str, signature: str, *inputs: np.ndarray) -> list[np.ndarray]:
    return programs.simulate(programs.module(body, signature), *inputs)


def test_tuples_and_tokens_leave_nothing_behind():
    x, y = programs.random((2, 3), 1), programs.random((2, 3), 2)
    (got,) = simulate(
        """%t = stablehlo.tuple %x, %y : tuple<tensor<2x3xf32>, tensor<2x3xf32>>
           %k = stablehlo.create_token : !stablehlo.token
           %l = stablehlo.after_all %k, %k : !stablehlo.token
           %0 = stablehlo.get_tuple_element %t[1] : (tuple<tensor<2x3xf32>, tensor<2x3xf32>>) -> tensor<2x3xf32>
           %1 = stablehlo.subtract %0, %x : tensor<2x3xf32>
           return %1 : tensor<2x3xf32>""",
        "(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32>",
        x,
        y,
    )
    np.testing.assert_array_equal(got, y - x)


def test_quantised_numbers_are_integers():
    """Against the specification's formulas: (stored - zero point) * scale, rounded to even and clamped."""
    x = np.array([-100.0, -0.25, 0.25, 0.75, 3.3, 100.0], np.float32)
    stored, back = simulate(
        f"""%0 = stablehlo.uniform_quantize %x : (tensor<6xf32>) -> tensor<6x{Q8}>
            %1 = stablehlo.uniform_dequantize %0 : (tensor<6x{Q8}>) -> tensor<6xf32>
            return %0, %1 : tensor<6x{Q8}>, tensor<6xf32>""",
        f"(%x: tensor<6xf32>) -> (tensor<6x{Q8}>, tensor<6xf32>)",
        x,
    )
    want = np.clip(np.rint(x / np.float32(0.5) + 3), -128, 127)
    assert stored.dtype == np.int8
    np.testing.assert_array_equal(stored, want)
    np.testing.assert_array_equal(back, (want - 3) * 0.5)


def test_a_quantised_product_is_one_of_integers():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((4, 40), (40, 5)))
    wide = "!quant.uniform<i32:f32, 0.25>"
    (got,) = simulate(
        f"""%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
              : (tensor<4x40x{Q8}>, tensor<40x5x!quant.uniform<i8<-127:127>:f32, 0.5>>) -> tensor<4x5x{wide}>
            return %0 : tensor<4x5x{wide}>""",
        f"(%a: tensor<4x40x{Q8}>, %b: tensor<40x5x!quant.uniform<i8<-127:127>:f32, 0.5>>) -> tensor<4x5x{wide}>",
        a,
        b,
    )
    np.testing.assert_array_equal(got, (a.astype(np.int32) - 3) @ b.astype(np.int32))


def test_an_op_without_integer_arithmetic_goes_by_floats():
    x = np.array([-20, 3, 4, 100], np.int8)
    (got,) = simulate(
        f"%0 = stablehlo.tanh %x : tensor<4x{Q8}>\nreturn %0 : tensor<4x{Q8}>",
        f"(%x: tensor<4x{Q8}>) -> tensor<4x{Q8}>",
        x,
    )
    np.testing.assert_array_equal(got, np.rint(np.tanh((x.astype(np.float32) - 3) * 0.5) / 0.5 + 3))


def test_sizes_that_are_constants_become_static():
    x = programs.random((6,))
    (got,) = simulate(
        """%s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
           %0 = stablehlo.dynamic_reshape %x, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
           %1 = stablehlo.abs %0 : tensor<?x?xf32>
           %a = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
           %o = stablehlo.constant dense<1> : tensor<2xi32>
           %2 = stablehlo.real_dynamic_slice %1, %a, %s, %o
             : (tensor<?x?xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
           return %2 : tensor<?x?xf32>""",
        "(%x: tensor<6xf32>) -> tensor<?x?xf32>",
        x,
    )
    np.testing.assert_array_equal(got, np.abs(x.reshape(2, 3))[:, 1:])


def test_a_bounded_size_is_its_bound():
    kind = "tensor<?x3xf32, #stablehlo.bounds<7, ?>>"
    x = programs.random((7, 3))
    (got,) = simulate(f"%0 = stablehlo.abs %x : {kind}\nreturn %0 : {kind}", f"(%x: {kind}) -> {kind}", x)
    np.testing.assert_array_equal(got, np.abs(x))


def test_a_bounded_size_is_its_bound_beside_types_without_one():
    kind = "tensor<?x3xf32, #stablehlo.bounds<8, ?>>"
    x = programs.random((8, 3))
    size, total = simulate(
        f"""%c = stablehlo.constant dense<0.0> : tensor<f32>
            %0 = stablehlo.get_dimension_size %x, dim = 0 : ({kind}) -> tensor<i32>
            %1 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0]
              : ({kind}, tensor<f32>) -> tensor<3xf32>
            return %0, %1 : tensor<i32>, tensor<3xf32>""",
        f"(%x: {kind}) -> (tensor<i32>, tensor<3xf32>)",
        x,
    )
    assert size == 8
    np.testing.assert_allclose(total, x.sum(0), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("read", ["get_dimension_size", "abs"])
def test_a_size_that_is_set_at_run_time_is_never_its_bound(read: str):
    kind = "tensor<?x3xf32, #stablehlo.bounds<8, ?>>"
    result = "tensor<i32>" if read.startswith("get") else kind
    words = f"{read} %0, dim = 0 : ({kind}) -> {result}" if read.startswith("get") else f"{read} %0 : {kind}"
    with pytest.raises(StageFailure, match="dim 0 of tensor<8x3xf32> a size at run time") as caught:
        api.stablehlo_to_ttir(
            programs.module(
                f"""%0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<8x3xf32>, tensor<i32>) -> {kind}
                    %1 = stablehlo.{words}
                    return %1 : {result}""",
                f"(%x: tensor<8x3xf32>, %n: tensor<i32>) -> {result}",
            )
        )
    assert caught.value.kind == "never"


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_goes_the_way_it_says(reverse):
    x = np.array([1, 2, 3, 4], np.int32)
    source = programs.module(
        f"""%0:2 = "chlo.scan"(%x, %c) <{{dimension = 0 : i64, is_reverse = {str(reverse).lower()},
              operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}}> ({{
            ^bb0(%a: tensor<i32>, %b: tensor<i32>):
              %1 = stablehlo.add %a, %b : tensor<i32>
              stablehlo.return %1, %1 : tensor<i32>, tensor<i32>
            }}) : (tensor<4xi32>, tensor<i32>) -> (tensor<4xi32>, tensor<i32>)
            return %0#0, %0#1 : tensor<4xi32>, tensor<i32>""",
        "(%x: tensor<4xi32>, %c: tensor<i32>) -> (tensor<4xi32>, tensor<i32>)",
    )
    sums, last = programs.simulate(source, x, np.int32(0), unsupported_types="fallback")
    np.testing.assert_array_equal(sums, np.cumsum(x[::-1])[::-1] if reverse else np.cumsum(x))
    assert last == 10


def test_a_size_that_only_the_run_knows_is_refused():
    source = programs.module(
        """%0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
           return %0 : tensor<?xi32>""",
        "(%n: tensor<1xi32>) -> tensor<?xi32>",
    )
    with pytest.raises(StageFailure) as caught:
        api.compile(source, programs.BOARD)
    assert caught.value.kind == "never"


def _symmetric(n: int) -> np.ndarray:
    x = programs.random((n, n))
    return x @ x.T + n * np.eye(n, dtype=np.float32)


@pytest.mark.parametrize(
    ("function", "where"),
    [
        (jnp.linalg.cholesky, "simulator"),
        (lambda a: jnp.linalg.qr(a)[1], "mixed"),
        (jnp.linalg.eigvalsh, "mixed"),
        # quick: [eigh], the host's as well
        pytest.param(lambda a: jnp.linalg.svd(a, compute_uv=False), "mixed", marks=pytest.mark.slow),
        (lambda a: jax.scipy.linalg.lu_factor(a)[0], "mixed"),
        pytest.param(jnp.linalg.inv, "mixed", marks=pytest.mark.slow),  # quick: its parts, [lu] and [trsm]
        (lambda a: jax.scipy.linalg.solve_triangular(a, a[:, :2]), "simulator"),
        (lambda a: jax.lax.approx_max_k(a, 2)[0], "simulator"),
        (lambda a: jnp.abs(jnp.fft.rfft(a)), "host"),
    ],
    ids=["cholesky", "qr", "eigh", "svd", "lu", "inv", "trsm", "approx", "fft"],
)
def test_routines_of_the_host(function, where):
    a = _symmetric(6)
    source = programs.stablehlo(function, a)
    data = api.compile(source, programs.BOARD, FALLBACK)
    (got,) = Device("n150").load(data).run([a]).outputs
    np.testing.assert_allclose(got, np.asarray(programs.jit(function)(a)), rtol=2e-3, atol=2e-3)
    assert api.ran_on(data) == where


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_potrf_says_which_minor_is_not_positive(uplo):
    matrices = np.stack([_symmetric(6) + 6 * np.eye(6, dtype=np.float32)] * 3)
    matrices[1, 3, 3], matrices[2] = -50, -matrices[2]
    source = programs.module(
        f"""%0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {{mhlo.backend_config = {{uplo = {ord(uplo)} : ui8}}}}
          : (tensor<3x6x6xf32>) -> (tensor<3x6x6xf32>, tensor<3xi32>)
        return %0#0, %0#1 : tensor<3x6x6xf32>, tensor<3xi32>""",
        "(%x: tensor<3x6x6xf32>) -> (tensor<3x6x6xf32>, tensor<3xi32>)",
    )
    factor, info = programs.simulate(source, matrices)
    assert info.tolist() == [0, 4, 1]
    lower = np.linalg.cholesky(matrices[0])
    triangle, other = (np.tril, np.triu) if uplo == "L" else (np.triu, np.tril)
    np.testing.assert_allclose(triangle(factor[0]), lower if uplo == "L" else lower.T, rtol=1e-4, atol=1e-5)
    step = 1 if uplo == "L" else -1
    np.testing.assert_array_equal(other(factor[0], step), other(matrices[0], step))


def test_memory_that_nothing_wrote_is_zeros():
    source = programs.module(
        "%0 = stablehlo.custom_call @AllocateBuffer() : () -> tensor<2x3xi32>\nreturn %0 : tensor<2x3xi32>",
        "() -> tensor<2x3xi32>",
    )
    np.testing.assert_array_equal(programs.simulate(source)[0], np.zeros((2, 3), np.int32))


def test_constants_of_arith_are_stablehlos():
    """As torch-mlir writes a batch norm's epsilon."""
    source = programs.module(
        """%e = arith.constant dense<9.9999997473787516E-6> : tensor<4xf64>
        %k = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
        %0 = stablehlo.convert %e : (tensor<4xf64>) -> tensor<4xf32>
        %1 = stablehlo.add %0, %k : tensor<4xf32>
        return %1 : tensor<4xf32>""",
        "() -> tensor<4xf32>",
    )
    np.testing.assert_array_equal(programs.simulate(source)[0], np.arange(1, 5, dtype=np.float32) + np.float32(1e-5))


def _call(target: str) -> str:
    return programs.module(
        f"%0 = stablehlo.custom_call @{target}(%x) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>",
        "(%x: tensor<4xf32>) -> tensor<4xf32>",
    )


@pytest.mark.parametrize("target", ["annotate_device_placement", "MoveToDevice", "MoveToHost"])
def test_an_annotation_hands_its_operand_on(target):
    x = programs.random((4,))
    np.testing.assert_array_equal(programs.simulate(_call(target), x)[0], x)


def _ragged_dot(left, right, result, fields, groups="tensor<2xi32>"):
    operands = f"(tensor<{left}xf32>, tensor<{right}xf32>, {groups}) -> tensor<{result}xf32>"
    numbers = f"#chlo.ragged_dot<{fields}>"
    return programs.module(
        f'%r = "chlo.ragged_dot"(%a, %b, %g) <{{ragged_dot_dimension_numbers = {numbers}}}> : {operands}\n'
        f"return %r : tensor<{result}xf32>",
        f"(%a: tensor<{left}xf32>, %b: tensor<{right}xf32>, %g: {groups}) -> tensor<{result}xf32>",
    )


def test_a_product_of_ragged_groups_needs_no_64_bits():
    """The sizes are i32, so that the program has no 64-bit integer but those that its expansion would make."""
    fields = (
        "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], "
        "rhs_group_dimensions = [0]"
    )
    a, b = programs.random((6, 3)), programs.random((2, 3, 2), seed=1)
    data = api.compile(_ragged_dot("6x3", "2x3x2", "6x2", fields), programs.BOARD)
    loaded = Device("n150").load(data)
    for sizes in ((4, 2), (0, 5), (1, 1), (6, 0)):
        expected, start = np.zeros((6, 2)), 0
        for number, size in enumerate(sizes):
            expected[start : start + size] = a[start : start + size] @ b[number]
            start += size
        [got] = loaded.run([a, b, np.array(sizes, np.int32)]).outputs
        np.testing.assert_allclose(got, expected, atol=2e-2, err_msg=str(sizes))


def test_groups_of_what_is_summed():
    fields = "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [1]"
    a, b, groups = programs.random((4, 6)), programs.random((6, 2), seed=1), np.array([4, 2], np.int32)
    [got] = programs.simulate(_ragged_dot("4x6", "6x2", "2x4x2", fields), a, b, groups)
    np.testing.assert_allclose(got, np.stack([a[:, :4] @ b[:4], a[:, 4:] @ b[4:]]), atol=2e-2)


def test_sizes_of_64_bits_are_the_programs_own():
    fields = (
        "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], "
        "rhs_group_dimensions = [0]"
    )
    with pytest.raises(StageFailure, match=r"i64"):
        api.compile(_ragged_dot("6x3", "2x3x2", "6x2", fields, "tensor<2xi64>"), programs.BOARD)


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("xla_ffi_python_cpu_callback", "never"),
        ("tpu_custom_call", "never"),
        ("stablehlo.dynamic_top_k", "never"),
        ("Qr", "never"),
        ("Mine", "notimpl"),
    ],
)
def test_other_targets_are_refused_with_a_reason(target, kind):
    with pytest.raises(StageFailure) as caught:
        api.compile(_call(target), programs.BOARD, FALLBACK)
    assert caught.value.kind == kind
    assert target in caught.value.message


def test_a_dim_set_to_its_own_size_changes_nothing():
    text = """func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %c = stablehlo.constant dense<SIZE> : tensor<i32>
      %0 = "stablehlo.set_dimension_size"(%x, %c) {dimension = 1 : i64} : (tensor<4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
      %1 = stablehlo.add %0, %0 : tensor<4x8xf32>
      return %1 : tensor<4x8xf32>
    }"""  # noqa: E501
    assert "dimension_size" not in str(api.stablehlo_to_ttir(text.replace("SIZE", "8")))
    with pytest.raises(StageFailure, match="a size at run time"):
        api.stablehlo_to_ttir(text.replace("SIZE", "5"))

"""Files of tt-mlir's dialect ttir: what their ops compute, which forms are read, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from opscope.compiler.ops import families  # noqa: F401 - fills the table
from opscope.compiler.ops.row import TABLE
from opscope.harness.prepare import mlir
from opscope.harness.prepare.export import export_file
from opscope.harness.prepare.golden import compile_module
from opscope.harness.prepare.mlir import ttir_meanings
from opscope.harness.record.errors import InputError

RANDOM = np.random.default_rng(62)
WORDS = {"float32": "f32", "bfloat16": "bf16", "int32": "i32", "bool": "i1"}


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def kind(array: np.ndarray) -> str:
    return f"tensor<{''.join(f'{size}x' for size in array.shape)}{WORDS[array.dtype.name]}>"


def computed(text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return list(compile_module(mlir.to_bytecode(mlir.load(text)))(list(arrays)))


def of_op(name: str, attributes: str, arrays: Sequence[np.ndarray], *wants: np.ndarray) -> list[np.ndarray]:
    """The results of one op, of the types of what is wanted."""
    return computed(op_text(name, attributes, arrays, *wants), arrays)


def op_text(name: str, attributes: str, arrays: Sequence[np.ndarray], *wants: np.ndarray) -> str:
    operands = ", ".join(f"%{n}" for n in range(len(arrays)))
    arguments = ", ".join(f"%{n}: {kind(array)}" for n, array in enumerate(arrays))
    types, results = ", ".join(map(kind, arrays)), ", ".join(map(kind, wants))
    names = ", ".join(f"%r{n}" for n in range(len(wants)))
    body = f'{names} = "ttir.{name}"({operands}) <{{{attributes}}}> : ({types}) -> ({results})'
    return f"func.func @main({arguments}) -> ({results}) {{\n {body}\n return {names} : {results}\n}}"


X, IMAGE, CACHE = normal(3, 4), normal(1, 6, 6, 2), normal(2, 2, 5, 4)
TRUTH = np.signbit(X)
FIRST = "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, is_causal = true"
HEADS = [normal(1, heads, 4, 8) for heads in (4, 2, 2)]


def attended(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    key, value = (np.repeat(x, query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = np.where(np.tri(4, dtype=bool), query @ key.swapaxes(2, 3) * query.shape[-1] ** -0.5, -np.inf)
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True) @ value


def pooled(x: np.ndarray, join: str, pads: tuple[int, int]) -> np.ndarray:
    filled = np.pad(x, ((0, 0), pads, pads, (0, 0)), constant_values=-np.inf if join == "max" else 0)
    windows = np.lib.stride_tricks.sliding_window_view(filled, (3, 3), (1, 2))[:, ::2, ::2]
    return getattr(windows, join)((-1, -2))


@pytest.mark.parametrize(
    ("name", "attributes", "arrays", "want"),
    [
        ("subtract", "", [X, X[:1]], X - X[:1]),
        ("ge", "", [X, X[:, :1]], (X[:, :1] <= X).astype(np.float32)),
        ("logical_and", "", [X, X * 0], X * 0),
        ("where", "", [TRUTH, X, X[:1]], np.where(TRUTH, X, X[:1])),
        ("sum", "dim_arg = [-1 : i32], keep_dim = true", [X], X.sum(1, keepdims=True)),
        ("max", "keep_dim = false", [X], X.max()),
        ("mean", "dim_arg = [0 : i32], keep_dim = false", [X], X.mean(0)),
        ("argmax", "dim_arg = [1 : i32], keep_dim = false", [X], X.argmax(1).astype(np.int32)),
        ("matmul", "transpose_a = false, transpose_b = true", [X, normal(5, 4)], None),
        ("broadcast", "broadcast_dimensions = array<i64: 3, 1>", [X[:1]], np.repeat(X[:1], 3, 0)),
        ("index", "dim = 1 : i32, begin = 1 : i32, end = 4 : i32, step = 2 : i32", [X], X[:, 1:4:2]),
        (
            "pad",
            "padding = array<i32: 1, 0, 0, 2>, value = 2.0 : f32",
            [X],
            np.pad(X, ((1, 0), (0, 2)), constant_values=2),
        ),
        ("rearrange", 'pattern = "b c d e -> d (b c) e"', [CACHE], CACHE.transpose(2, 0, 1, 3).reshape(5, 4, 4)),
        ("repeat_interleave", "dim = 0 : si32, repeats = 2 : ui32", [X], np.repeat(X, 2, 0)),
        ("gather", "dim = 1 : i32", [X, X.argsort(1).astype(np.int32)], np.sort(X, 1)),
        ("scaled_dot_product_attention", FIRST, HEADS, attended(*HEADS)),
        ("concatenate_heads", "", [CACHE], CACHE.swapaxes(1, 2).reshape(2, 5, 8)),
        (
            "max_pool2d",
            "kernel = array<i32: 3, 3>, stride = 2 : i32, dilation = 1 : i32, padding = 1 : i32, ceil_mode = false",
            [IMAGE],
            pooled(IMAGE, "max", (1, 1)),
        ),
        (
            "avg_pool2d",
            "kernel = 3 : i32, stride = 2 : i32, dilation = 1 : i32, padding = 0 : i32, ceil_mode = false",
            [IMAGE],
            pooled(IMAGE, "mean", (0, 0)),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_op_computes_what_its_name_says(
    name: str, attributes: str, arrays: list[np.ndarray], want: np.ndarray | None
) -> None:
    wanted = arrays[0] @ arrays[1].T if want is None else np.asarray(want)
    assert_allclose(of_op(name, attributes, arrays, wanted)[0], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "dim", "size"),
    [("sum", "dim_arg = [0 : i32]", 1), ("prod", "dim_arg = [0 : i32]", 1), ("cumsum", "dim = 0 : i64", 2048)],
)
def test_numbers_of_16_bits_are_added_up_in_32(name: str, dim: str, size: int) -> None:
    """Added in bf16 itself, ones may end at 256: kernels add in more, and round once."""
    ones, keep = np.ones((2048,), ml_dtypes.bfloat16), "" if name == "cumsum" else ", keep_dim = true"
    text = op_text(name, dim + keep, [ones], ones[:size])
    steps = [line for line in str(mlir.load(text)).splitlines() if "stablehlo.add" in line or "stablehlo.mul" in line]
    assert steps
    assert not any("bf16" in line for line in steps)
    assert computed(text, [ones])[0][-1] == (1 if name == "prod" else 2048)


def test_a_sort_says_where_its_values_were() -> None:
    order = np.argsort(-X, 1, kind="stable").astype(np.int32)
    values, places = of_op("sort", "dim = 1 : si32, descending = true", [X], X, order)
    assert_array_equal(values, -np.sort(-X, 1))
    assert_array_equal(places, order)


UPDATES = """func.func @f(%c: tensor<2x2x5x4xf32>, %x: tensor<1x2x2x4xf32>, %i: tensor<1xsi32>) -> tensor<2x2x5x4xf32> {
  "ttir.update_cache"(%c, %x, %i) <{batch_offset = 0 : i32}>
    : (tensor<2x2x5x4xf32>, tensor<1x2x2x4xf32>, tensor<1xsi32>) -> ()
  %0 = "ttir.neg"(%c) : (tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  return %0 : tensor<2x2x5x4xf32>
}"""


def test_who_reads_a_cache_later_reads_what_was_written_and_the_cache_leaves_too() -> None:
    new = normal(1, 2, 2, 4)
    want = CACHE.copy()
    want[:, :, 3] = new[0].swapaxes(0, 1)
    negative, cache = computed(UPDATES.replace("@f", "@main"), [CACHE, new, np.array([3], np.int32)])
    assert_array_equal(cache, want)
    assert_array_equal(negative, -want)


def test_forms_that_only_tt_mlir_parses_are_read(tmp_path: Path) -> None:
    text = """module {
  ttcore.device_module {
    builtin.module {
      ttcore.device @default_device = <workerGrid = #ttcore.grid<8x8>, chipIds = [0]>
      func.func @first(%a: tensor<3x4xf32> {ttcore.argument_type = #ttcore.argument_type<parameter>})
          -> tensor<3x4xbf16> {
        %0 = ttir.empty() : tensor<3x4xf32>
        %1 = "ttir.exp"(%a, %0) <{operandSegmentSizes = array<i32: 1, 1>}>
          : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
        %2 = ttir.empty() : tensor<3x4xbf16>
        %3 = ttir.to_layout %1, %2 : tensor<3x4xf32> into tensor<3x4xbf16> -> tensor<3x4xbf16>
        return %3 : tensor<3x4xbf16>
      }
    }
  }
}"""
    path = tmp_path / "net.mlir"
    path.write_text(text)
    exported = export_file(path)
    assert exported.roles == ("parameter",)
    module = str(mlir.load(exported.bytecode))
    assert "@main" in module
    assert "stablehlo.exponential" in module
    assert "ttir" not in module
    assert f'"{path}":8:' in mlir.load(exported.bytecode).operation.get_asm(enable_debug_info=True)


@pytest.mark.parametrize("host_first", [False, True])
def test_functions_of_the_host_stand_where_the_device_calls_them(host_first: bool) -> None:
    kind = "tensor<3x4xf32>"
    device = f"""ttcore.device_module {{
    builtin.module {{
      func.func @main(%a: {kind}) -> {kind} {{
        %0 = "ttir.exp"(%a) : ({kind}) -> {kind}
        %1 = call @on_the_host(%0) {{ttir.cpu_hoisted_call}} : ({kind}) -> {kind}
        return %1 : {kind}
      }}
      func.func private @on_the_host({kind}) -> {kind}
    }}
  }}"""
    host = f"""ttcore.cpu_module {{
    builtin.module {{
      func.func @on_the_host(%a: {kind}) -> {kind} attributes {{tt.function_type = "forward_cpu"}} {{
        %0 = stablehlo.negate %a : {kind}
        return %0 : {kind}
      }}
    }}
  }}"""
    x = normal(3, 4)
    (result,) = computed("module {" + "\n".join([host, device] if host_first else [device, host]) + "}", [x])
    assert_allclose(result, -np.exp(x), rtol=1e-6)


def test_a_splat_stays_one_element() -> None:
    text = """func.func @main() -> tensor<51200x2048xbf16> {
  %0 = "ttir.full"() <{fill_value = 2.5 : f32, shape = array<i32: 51200, 2048>}> : () -> tensor<51200x2048xbf16>
  return %0 : tensor<51200x2048xbf16>
}"""
    assert "dense<2.500000e+00> : tensor<51200x2048xbf16>" in str(mlir.load(text))


@pytest.mark.parametrize(
    ("op", "got"),
    [
        ('"ttir.all_reduce"(%x) <{cluster_axis = 0 : ui32}>', "works among several chips"),
        ('"ttir.rand"(%x)', "random numbers"),
        ('"ttir.nonesuch"(%x)', "whose meaning is not known"),
        ('"ttir.neg"(%x) <{wrap = 1 : i32}>', "unexpected keyword argument 'wrap'"),
        ('"ttir.transpose"(%x) <{dim0 = 0 : si32, dim1 = 1 : si32}>', r"results of \[4, 3\]"),
    ],
)
def test_what_has_no_meaning_is_refused_in_its_place(op: str, got: str) -> None:
    of = "tensor<3x4xf32>"
    text = f"func.func @main(%x: {of}) -> {of} {{\n  %0 = {op} : ({of}) -> {of}\n"
    with pytest.raises(InputError, match=got) as error:
        mlir.load(f"{text}  return %0 : tensor<3x4xf32>\n}}", "net")
    assert str(error.value).startswith("net:2:")


def test_names_are_those_of_the_compilers_table() -> None:
    assert [name for name in ttir_meanings.MEANINGS if TABLE.named("ttir", name) is None] == []

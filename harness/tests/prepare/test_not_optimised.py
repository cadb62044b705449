"""Ops are compiled before the walk needs them, many of them with less optimisation: no value changes by it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.harness.prepare import golden
from opscope.harness.prepare.export import export_model
from opscope.harness.prepare.golden import SMALL, level_of
from opscope.harness.prepare.input_distributions import argument_distributions
from opscope.harness.prepare.program import SingleOp
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.walk import Walker, WalkTask, walk
from opscope.harness.record.element_types import numpy_dtype
from opscope.models import registry

SPECIAL = np.array(
    [
        0.0,
        -0.0,
        0.5,
        1.5,
        2.5,
        -0.5,
        np.inf,
        -np.inf,
        np.nan,
        1e-40,
        -1e-40,
        3e38,
        1e10,
        -(2.0**31),
        2.0**63,
        255,
        65504,
    ]
)
"""Where an operation may be written in more than one way: halves, ends of types, zeros, denormals, no numbers."""

TWICE = """
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.add %a, %a : tensor<8x8xf32>
  %1 = stablehlo.multiply %0, %a : tensor<8x8xf32>
  %2 = stablehlo.tanh %1 : tensor<8x8xf32>
  %3 = stablehlo.add %2, %a : tensor<8x8xf32>
  %4 = stablehlo.subtract %3, %a : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}"""


def test_a_walk_with_threads_finds_what_one_without_finds(tmp_path: Path) -> None:
    split = split_module(TWICE, "m")
    folders = []
    for threads in (0, 2):
        folder = tmp_path / str(threads)
        folder.mkdir()
        task = WalkTask(split, argument_distributions(split), 0, folder, "captured:m:0", compile_threads=threads)
        walked = walk(task)
        assert [row.op_name.partition(".")[2] for row in walked.rows if row.golden] == [
            "add",
            "multiply",
            "tanh",
            "add",
            "subtract",
        ]
        folders.append({path.name: path.read_bytes() for path in sorted((folder / "values").iterdir())})
    assert folders[0] == folders[1] != {}


def test_small_ops_are_optimised_as_little_as_their_bits_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = {}
    monkeypatch.setattr(golden, "begin_compiling", lambda code, cache, widen, level: level)
    for name, size in (("add", 8), ("tanh", 8), ("cbrt", 8), ("add", SMALL[0]), ("tanh", SMALL[1])):
        tensor = f"tensor<{size}xf32>"
        text = f"func.func @main(%a: {tensor}) -> {tensor} {{ %0 = stablehlo.{name} %a{', %a' * (name == 'add')} : {tensor} return %0 : {tensor} }}"  # noqa: E501
        split = split_module(text, "m")
        [op] = split.ops.values()
        walker = Walker(WalkTask(split, ["normal:1"], 0, tmp_path, ""))
        levels[name, size] = walker.begin_compiling(op)
        walker.close()
    assert levels == {
        ("add", 8): 0,
        ("tanh", 8): 1,
        ("cbrt", 8): None,
        ("add", SMALL[0]): None,
        ("tanh", SMALL[1]): None,
    }
    assert level_of("stablehlo.multiply", ["complex<f32>"], 8) is None
    assert level_of("stablehlo.sort", ["f32"], 8) is None


def text_of(operation: str, operands: str, result: str) -> str:
    kinds = operands.split()
    names = [f"%{index}" for index in range(len(kinds))]
    arguments = ", ".join(f"{name}: tensor<64x{kind}>" for name, kind in zip(names, kinds, strict=True))
    types = ", ".join(f"tensor<64x{kind}>" for kind in kinds)
    code = f"%r = stablehlo.{operation.replace('@', ', '.join(names))} : ({types}) -> tensor<64x{result}>"
    return f"func.func @main({arguments}) -> tensor<64x{result}> {{ {code} return %r : tensor<64x{result}> }}"


OPERATIONS = [
    ("maximum @", "f32 f32", "f32"),
    ("divide @", "f32 f32", "f32"),
    ("clamp @", "f32 f32 f32", "f32"),
    ("sign @", "bf16", "bf16"),
    ("round_nearest_even @", "f32", "f32"),
    ("convert @", "f32", "i8"),
    ("convert @", "f32", "ui64"),
    ("compare LT, @", "f16 f16", "i1"),
    ("divide @", "i8 i8", "i8"),
    ("select @", "i1 f32 f32", "f32"),
    ("remainder @", "f32 f32", "f32"),
    ("rsqrt @", "f32", "f32"),
    ("exponential @", "f32", "f32"),
]


@pytest.mark.parametrize(("operation", "operands", "result"), OPERATIONS)
def test_bits_are_the_same_with_less_optimisation(operation: str, operands: str, result: str) -> None:
    [op] = split_module(text_of(operation, operands, result), "m").ops.values()
    assert_same_bits(op)


@pytest.mark.slow
def test_bits_of_all_ops_of_the_suite_are_the_same_with_less_optimisation() -> None:
    split = split_module(export_model(registry.get("suite:ops")).bytecode, "m")
    assert sum(assert_same_bits(op) for op in split.ops.values()) > 500


def assert_same_bits(op: SingleOp) -> bool:
    """Holds an op that is optimised less to itself, on special values. False if none is, or XLA refuses it."""
    types = [desc.data_type for desc in (*op.inputs, *op.outputs)]
    level = level_of(op.op_name, types, 0)
    if op.unsplittable or level is None:
        return False
    try:
        pair = [golden.begin_compiling(op.bytecode, widen=True, level=which)() for which in (None, level)]
    except golden.GoldenError:
        return False
    for seed in range(2):
        generator = np.random.default_rng(seed)
        arrays = [values(tuple(desc.shape), numpy_dtype(desc.data_type), generator) for desc in op.inputs]
        for optimised, plain in zip(*(executable(arrays) for executable in pair), strict=True):
            assert bits(optimised) == bits(plain), op.op_name
    return True


def bits(array: np.ndarray) -> bytes:
    """The bytes of an array. Every NaN is the same one: processors choose among its bits by the order of operands."""
    if array.dtype.kind in "iub":
        return array.tobytes()
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        absent = np.isnan(array.astype(np.complex128))
    return np.where(absent, np.zeros_like(array), array).tobytes() + absent.tobytes()


def values(shape: tuple[int, ...], dtype: np.dtype, generator: np.random.Generator) -> np.ndarray:
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return generator.integers(ends.min, ends.max, shape, dtype=dtype, endpoint=True)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    drawn = np.where(generator.random(shape) < 0.5, generator.choice(SPECIAL, shape), generator.standard_normal(shape))
    with np.errstate(over="ignore", invalid="ignore"):
        return drawn.astype(dtype)

"""Our ops and attributes are tt-mlir's: by a list of its op names (August 2026), and by text as it writes it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from opscope.compiler import api
from opscope.compiler.commands.compile import opt
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.ir import text
from opscope.compiler.tests import programs
from opscope.simulator.api import Device

NAMES = Path(__file__).parent / "data" / "tt_mlir_op_names.json"
PAGE = Path(__file__).parents[2] / "docs" / "compiler.md"


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["ttir", "ttnn"])
def test_an_op_that_tt_mlir_lacks_is_listed(dialect):
    theirs = set(json.loads(NAMES.read_text(encoding="utf-8"))[dialect])
    # A process of its own: other tests register examples, and a dialect that knows an op never forgets it.
    listed = "from opscope.compiler.ir.context import context; print(*(op.name for op in context().loaded_ops))"
    names = subprocess.run([sys.executable, "-c", listed], check=True, capture_output=True, text=True).stdout.split()
    ours = {name.removeprefix(f"{dialect}.") for name in names if name.startswith(f"{dialect}.")}
    (paragraph,) = re.findall(r"\*\*Names that tt-mlir lacks\.\*\*.*?\n\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(ours) > 100
    assert len(ours & theirs) > 80
    assert ours - theirs <= set(re.findall(r"`(\w+)`", paragraph))


IMAGE = programs.random((1, 4, 6, 2))
MATRIX = programs.random((2, 3))
READ = {
    "pad": (
        '"ttir.pad"(%x) <{padding = array<i32: 1, 0, 0, 2>, value = 7.0 : f32}> : (tensor<2x3xf32>) -> tensor<3x5xf32>',
        MATRIX,
        lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=7),
    ),
    "max_pool2d": (
        '"ttir.max_pool2d"(%x) <{ceil_mode = false, dilation = array<i32: 1, 1>, kernel = array<i32: 1, 1>,'
        " padding = array<i32: 0, 2, 0, 0>, stride = array<i32: 1, 1>}>"
        " : (tensor<1x4x6x2xf32>) -> tensor<1x4x8x2xf32>",
        IMAGE,
        lambda x: np.pad(x, ((0, 0), (0, 0), (2, 0), (0, 0)), constant_values=-np.inf),
    ),
    "avg_pool2d": (
        '"ttir.avg_pool2d"(%x) <{ceil_mode = false, count_include_pad = true, dilation = array<i32: 1, 1>,'
        " kernel = array<i32: 2, 3>, padding = array<i32: 0, 0, 0, 0>, stride = array<i32: 2, 3>}>"
        " : (tensor<1x4x6x2xf32>) -> tensor<1x2x2x2xf32>",
        IMAGE,
        lambda x: x.reshape(1, 2, 2, 2, 3, 2).mean((2, 4)),
    ),
    "softmax": (
        '"ttir.softmax"(%x) <{dimension = 1 : si32}> : (tensor<2x3xf32>) -> tensor<2x3xf32>',
        MATRIX,
        lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True),
    ),
    "topk": (
        '"ttir.topk"(%x) <{dim = -1 : i32, k = 2 : i32, largest = true, sorted = true}>'
        " : (tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)",
        MATRIX,
        lambda x: -np.sort(-x)[:, :2],
    ),
}
"""Op -> a line of text as tt-mlir writes it, what goes in, what comes out."""


def module(line: str) -> str:
    """A function of one operand that returns the first result of an op."""
    operand, results = re.findall(r" : \((.*?)\) -> (.*)$", line, re.DOTALL)[0]
    first = results.strip("()").split(", ")[0]
    named = f"%0, %1 = {line}" if results.startswith("(") else f"%0 = {line}"
    return f"func.func @main(%x: {operand}) -> {first} {{\n{named}\nreturn %0 : {first}\n}}"


def flatbuffer(line: str) -> bytes:
    ttnn = api.ttir_to_ttnn(text.parse(module(line)), programs.BOARD)
    return api.ttnn_to_flatbuffer(ttnn, programs.BOARD)


@pytest.mark.parametrize("name", READ)
def test_what_tt_mlir_writes_means_the_same_here(name):
    line, x, formula = READ[name]
    (got,) = Device("n150").load(flatbuffer(line)).run([x]).outputs
    np.testing.assert_allclose(got, formula(x), rtol=4e-3, atol=4e-3)


POOL = """"ttir.{}"(%x) <{{{}, dilation = array<i32: 1, 1>, kernel = array<i32: 2, 3>,
  padding = array<i32: 0, 2, 0, 2>, stride = array<i32: 2, 3>}}> : (tensor<1x4x6x2xf32>) -> tensor<1x2x{}x2xf32>"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (READ["topk"][0].replace("largest = true", "largest = false"), "expected the largest along the last dim"),
        (READ["topk"][0].replace("dim = -1", "dim = 0"), "expected the largest along the last dim"),
        (POOL.format("avg_pool2d", "count_include_pad = false", 3), "padding that does not count"),
        (POOL.format("max_pool2d", "ceil_mode = true", 4), "expected result shape"),
    ],
)
def test_an_attribute_with_another_meaning_is_refused(line, expected):
    flatbuffer(POOL.format("avg_pool2d", "count_include_pad = true", 3))
    with pytest.raises((StageFailure, CompilerInputError), match=expected):
        flatbuffer(line)


def test_an_attribute_of_another_kind_is_refused_in_one_line(tmp_path):
    path = tmp_path / "scalar.mlir"
    path.write_text(
        module(POOL.format("max_pool2d", "ceil_mode = false", 3).replace("array<i32: 2, 3>}>", "2 : i32}>"))
    )
    result = CliRunner().invoke(opt, ["--ttir-to-ttnn-backend-pipeline", str(path)])
    assert result.exit_code == 2
    assert "ttir.max_pool2d: stride: expected array<i32>, got 2 : i32" in result.output

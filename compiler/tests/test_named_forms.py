"""tt-mlir's named ops: what each computes, held to NumPy and XLA, and the table beside lists of names."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from click.testing import CliRunner

from opscope.compiler import api
from opscope.compiler.commands.compile import opt
from opscope.compiler.commands.ops import ops
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir import text
from opscope.compiler.pipelines import pipeline
from opscope.compiler.tests import conformance, programs, tt_mlir_suite
from opscope.harness.backends.reference import Reference
from opscope.harness.record.result_options import ResultOptions
from opscope.simulator.api import Device

NAMES = Path(__file__).parent / "data" / "tt_mlir_op_names.json"
SUITE = Path(__file__).parents[2].parent / "shared" / "data" / "ttmlir_filecheck.zip"
LOWEST = 77
"""Tests of the suite that pass at least."""


def randoms(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


X, IMAGE, LINE = randoms(4, 6) * 3, randoms(2, 4, 5, 7), randoms(2, 9, 4)
ROWS = np.array([2, 0, 2], np.int32)
PLACES = np.random.default_rng(1).integers(0, 4, (3, 6)).astype(np.int32)
UPDATES = randoms(3, 6, seed=2)
KERNEL, KERNEL_1D, TURNED = randoms(6, 2, 3, 3, seed=3), randoms(6, 4, 3, seed=4), randoms(4, 6, 3, 2, seed=5)
LINES = [abs(randoms(4, seed=seed)) + 0.1 for seed in range(6, 10)]
SAME = "(tensor<4x6xf32>) -> tensor<4x6xf32>"
NCHW = "batch_dim = 0 : i64, channel_dim = 1 : i64, height_dim = 2 : i64, width_dim = 3 : i64"


def along(line: np.ndarray) -> np.ndarray:
    return line.reshape(1, 4, 1, 1)


def normal(mean: np.ndarray, variance: np.ndarray, epsilon: float) -> np.ndarray:
    scale, offset = LINES[:2]
    return (IMAGE - along(mean)) / np.sqrt(along(variance) + epsilon) * along(scale) + along(offset)


def added(base: np.ndarray, places: np.ndarray, updates: np.ndarray) -> np.ndarray:
    result = base.copy()
    for (i, j), place in np.ndenumerate(places):
        result[place, j] += updates[i, j]
    return result


def group_norm() -> np.ndarray:
    flat = IMAGE.reshape(2, 2, -1)
    flat = (flat - flat.mean(-1, keepdims=True)) / np.sqrt(flat.var(-1, keepdims=True) + 1e-5)
    return flat.reshape(IMAGE.shape) * along(LINES[0]) + along(LINES[1])


def transposed() -> np.ndarray:
    """The gradient of the convolution that it turns around, by XLA."""
    wide = np.zeros((2, 6, 10, 14), np.float32)
    conv = lambda image: jax.lax.conv_general_dilated(image, TURNED, (2, 2), ((1, 1), (0, 0)))  # noqa: E731
    return np.asarray(jax.vjp(conv, wide)[1](IMAGE)[0])


def derivative(approximate: bool) -> np.ndarray:
    """Of gelu, by hand: x * share(x), where the share is a normal distribution's, or what stands for it."""
    if approximate:
        inner = np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3))
        share, density = (1 + inner) / 2, (1 - inner**2) / 2 * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * X**2)
    else:
        share, density = (1 + np.vectorize(math.erf)(X / np.sqrt(2))) / 2, np.exp(-(X**2) / 2) / np.sqrt(2 * np.pi)
    return (share + X * density) * X[::-1]


BATCH = "tensor<2x4x5x7xf32>, tensor<4xf32>, tensor<4xf32>"
CASES = {
    **{
        f'"ttir.{name}"(%a) : {SAME}': ([X], wanted)
        for name, wanted in {
            "exp2": np.exp2(X),
            "trunc": np.trunc(X),
            "frac": X - np.trunc(X),
            "mish": X * np.tanh(np.log1p(np.exp(X))),
            "relu6": np.clip(X, 0, 6),
            "selu": lambda: jax.nn.selu(X),
            "softsign": X / (1 + abs(X)),
            "hardsigmoid": np.clip(X / 6 + 0.5, 0, 1),
            "square": X * X,
            "signbit": np.signbit(X),
        }.items()
    },
    f'"ttir.leaky_relu"(%a) <{{parameter = 0.1 : f32}}> : {SAME}': ([X], np.where(X > 0, X, 0.1 * X)),
    f'"ttir.clamp_scalar"(%a) <{{min = -0.5 : f32, max = 0.25 : f32}}> : {SAME}': ([X], np.clip(X, -0.5, 0.25)),
    '"ttir.gelu_bw"(%a, %b) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>': (
        [X[::-1].copy(), X],
        derivative(False),
    ),
    '"ttir.gelu_bw"(%a, %b) <{approximate = "tanh"}> : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>': (
        [X[::-1].copy(), X],
        derivative(True),
    ),
    f'"ttir.cumsum"(%a) <{{dim = 0 : i64}}> : {SAME}': ([X], np.cumsum(X, 0)),
    f'"ttir.cumprod"(%a) <{{dim = 1 : i64}}> : {SAME}': ([X / 3], np.cumprod(X / 3, 1)),
    '"ttir.argmax"(%a) <{dim_arg = [1 : i32], keep_dim = false}> : (tensor<4x6xf32>) -> tensor<4xi32>': (
        [X],
        X.argmax(1),
    ),
    '"ttir.argmax"(%a) <{keep_dim = false}> : (tensor<4x6xf32>) -> tensor<i32>': ([X], X.argmax()),
    '"ttir.sort"(%a) <{dim = -1 : si32, descending = true, stable = false}> : (tensor<4x6xf32>)'
    " -> (tensor<4x6xf32>, tensor<4x6xi32>)": ([X], (-np.sort(-X, 1), np.argsort(-X, 1))),
    '"ttir.get_dimension_size"(%a) <{dimension = 1 : i32}> : (tensor<4x6xf32>) -> tensor<i32>': ([X], 6),
    '"ttir.transpose"(%a) <{dim0 = -1 : si32, dim1 = 0 : si32}> : (tensor<4x6xf32>) -> tensor<6x4xf32>': ([X], X.T),
    '"ttir.repeat"(%a) <{repeat_dimensions = array<i64: 2, 3>}> : (tensor<4x6xf32>) -> tensor<8x18xf32>': (
        [X],
        np.tile(X, (2, 3)),
    ),
    '"ttir.repeat_interleave"(%a) <{repeats = 2 : ui32, dim = 0 : si32}> : (tensor<4x6xf32>) -> tensor<8x6xf32>': (
        [X],
        np.repeat(X, 2, 0),
    ),
    '"ttir.index_select"(%a) <{dim = 1 : si32, begin = 1 : si32, length = 1 : si32, stride = 2 : si32}>'
    " : (tensor<4x6xf32>) -> tensor<4x3xf32>": ([X], X[:, 1::2]),
    '"ttir.index"(%a) <{dim = 1 : i32, begin = 1 : i32, end = 5 : i32, step = 2 : i32}>'
    " : (tensor<4x6xf32>) -> tensor<4x2xf32>": ([X], X[:, 1:5:2]),
    '"ttir.embedding"(%a, %b) : (tensor<3xi32>, tensor<4x6xf32>) -> tensor<3x6xf32>': ([ROWS, X], X[ROWS]),
    '"ttir.gather"(%a, %b) <{dim = 0 : i32}> : (tensor<4x6xf32>, tensor<3x6xi32>) -> tensor<3x6xf32>': (
        [X, PLACES],
        np.take_along_axis(X, PLACES, 0),
    ),
    '"ttir.scatter"(%a, %b, %c) <{dim = 0 : i32, scatter_reduce_type = #ttcore.reduce_type<sum>}>'
    " : (tensor<4x6xf32>, tensor<3x6xi32>, tensor<3x6xf32>) -> tensor<4x6xf32>": (
        [X, PLACES, UPDATES],
        added(X, PLACES, UPDATES),
    ),
    '"ttir.embedding_backward"(%a, %b, %c) : (tensor<1x3x1xi32>, tensor<4x6xf32>, tensor<1x3x6xf32>)'
    " -> tensor<4x6xf32>": (
        [ROWS.reshape(1, 3, 1), X, UPDATES[None]],
        added(0 * X, np.repeat(ROWS[:, None], 6, 1), UPDATES),
    ),
    '"ttir.slice_dynamic"(%a, %b, %c) : (tensor<4x6xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x3xf32>': (
        [X, np.array([1, 2], np.int32), np.array([3, 5], np.int32)],
        X[1:3, 2:5],
    ),
    '"ttir.upsample2d"(%a) <{scale_factor = 2 : si32, mode = "nearest"}> : (tensor<2x4x5x7xf32>)'
    " -> tensor<2x8x10x7xf32>": ([IMAGE], IMAGE.repeat(2, 1).repeat(2, 2)),
    '"ttir.global_avg_pool2d"(%a) : (tensor<2x4x5x7xf32>) -> tensor<2x1x1x7xf32>': (
        [IMAGE],
        IMAGE.mean((1, 2), keepdims=True),
    ),
    f'"ttir.conv2d"(%a, %b) <{{{NCHW}, dilation = array<i32: 1, 1>, groups = 2 : i32,'
    " padding = array<i32: 1, 2, 0, 1>, stride = array<i32: 1, 2>}>"
    " : (tensor<2x4x5x7xf32>, tensor<6x2x3x3xf32>) -> tensor<2x6x4x4xf32>": (
        [IMAGE, KERNEL],
        lambda: jax.lax.conv_general_dilated(IMAGE, KERNEL, (1, 2), ((1, 0), (2, 1)), feature_group_count=2),
    ),
    '"ttir.conv1d"(%a, %b) <{dilation = array<i32: 1>, groups = 1 : i32, padding = array<i32: 1, 0>,'
    " stride = array<i32: 2>}> : (tensor<2x9x4xf32>, tensor<6x4x3xf32>) -> tensor<2x4x6xf32>": (
        [LINE, KERNEL_1D],
        lambda: jax.lax.conv_general_dilated(LINE, KERNEL_1D, (2,), ((1, 0),), dimension_numbers=("NWC", "OIW", "NWC")),
    ),
    f'"ttir.conv_transpose2d"(%a, %b) <{{{NCHW}, dilation = array<i32: 1, 1>, groups = 1 : i32,'
    " padding = array<i32: 1, 0, 1, 0>, output_padding = array<i32: 1, 0>, stride = array<i32: 2, 2>}>"
    " : (tensor<2x4x5x7xf32>, tensor<4x6x3x2xf32>) -> tensor<2x6x10x14xf32>": ([IMAGE, TURNED], transposed),
    f'"ttir.batch_norm_inference"(%a, %b, %c, %d, %e) <{{dimension = 1 : i32, epsilon = 1.0e-3 : f32}}>'
    f" : ({BATCH}, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x5x7xf32>": (
        [IMAGE, *LINES],
        normal(LINES[2], LINES[3], 1e-3),
    ),
    f'"ttir.batch_norm_training"(%a, %b, %c, %d, %e) <{{dimension = 1 : i32, epsilon = 1.0e-3 : f32,'
    f" momentum = 0.1 : f32}}> : ({BATCH}, tensor<4xf32>, tensor<4xf32>)"
    " -> (tensor<2x4x5x7xf32>, tensor<4xf32>, tensor<4xf32>)": (
        [IMAGE, *LINES],
        (
            normal(IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3)), 1e-3),
            0.9 * LINES[2] + 0.1 * IMAGE.mean((0, 2, 3)),
            0.9 * LINES[3] + 0.1 * IMAGE.var((0, 2, 3)),
        ),
    ),
    f'"ttir.group_norm"(%a, %b, %c) <{{num_groups = 2 : i64, epsilon = 1.0e-5 : f32, channel_dim = 1 : i64}}>'
    f" : ({BATCH}) -> tensor<2x4x5x7xf32>": ([IMAGE, *LINES[:2]], group_norm()),
}
"""A line of text in tt-mlir's words -> what goes in, what comes out (a function where XLA computes it)."""


def compiled(source: str) -> bytes:
    module = text.parse(source)
    pipeline.run(pipeline.parse("ttir-to-ttnn-backend-pipeline"), module)
    return api.ttnn_to_flatbuffer(module, programs.BOARD)


def module_of(line: str) -> str:
    operands, results = re.findall(r" : \((.*?)\) -> (.*)$", line, re.DOTALL)[0]
    kinds = re.split(r", (?=tensor)", results.strip("()"))
    arguments = ", ".join(f"%{name}: {kind}" for name, kind in zip("abcdef", operands.split(", "), strict=False))
    names = ", ".join(f"%r{at}" for at in range(len(kinds)))
    returned = ", ".join(kinds)
    return f"func.func @main({arguments}) -> ({returned}) {{\n{names} = {line}\nreturn {names} : {returned}\n}}"


@pytest.mark.parametrize("line", CASES, ids=lambda line: line.split('"')[1].removeprefix("ttir."))
def test_a_named_op_computes_what_its_name_says(line):
    inputs, wanted = CASES[line]
    wanted = wanted() if callable(wanted) else wanted
    outputs = Device("n150").load(compiled(module_of(line))).run(inputs).outputs
    for got, want in zip(outputs, wanted if isinstance(wanted, tuple) else (wanted,), strict=False):
        np.testing.assert_allclose(np.asarray(got, np.float32), want, rtol=1e-2, atol=1e-2)


FORMS = (Path(__file__).parent / "filecheck" / "tt_mlir_forms.mlir").read_text()


@pytest.mark.parametrize("name", ["block", "rows", "keys", "spread"])
def test_tt_mlir_s_forms_of_moved_elements_compute_what_the_module_says(name):
    a, line, rows = randoms(5, 4), randoms(3, 2, seed=1), randoms(6, 4, seed=2)
    places, starts = np.array([[0, 3], [0, 5], [0, 1]], np.int32), np.array([[0], [4], [2]], np.int32)
    block, spread = a.copy(), np.full((3, 4), 2, np.float32)
    block[1:4, 2:4], spread[:, ::3] = line, line
    keys, moved = a[:, :3], randoms(5, 3, seed=3)
    order = np.argsort(-keys, axis=0, kind="stable")
    inputs, wanted = {
        "block": ((a, np.array([1, 2], np.int32), line), (block,)),
        "rows": (
            (rows[None], rows, places, starts),
            (rows[places[:, 1]], np.stack([rows[i : i + 2] for (i,) in starts])),
        ),
        "keys": ((keys, moved), tuple(np.take_along_axis(x, order, 0) for x in (keys, moved))),
        "spread": ((line,), (spread,)),
    }[name]
    function = re.search(rf"func\.func @{name}\(.*?\n}}\n", FORMS, re.DOTALL)[0].replace(f"@{name}", "@main")
    written = CliRunner().invoke(opt, ["--stablehlo-to-ttir-pipeline"], input=function).output
    outputs = Device("n150").load(compiled(written)).run(list(inputs)).outputs
    for got, want in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_what_was_compiled_for_another_board_runs_after_the_fallback():
    source = "func.func @main(%a: tensor<3520x32xf32>) -> tensor<3520x32xf32> {"
    for at, name in enumerate(("exp", "abs", "neg")):
        source += f'%{at} = "ttir.{name}"(%{at - 1 if at else "a"}) : (tensor<3520x32xf32>) -> tensor<3520x32xf32>\n'
    module = text.parse(source + "return %2 : tensor<3520x32xf32> }")
    made = 'ttir-to-ttnn{board="p150"},ttnn-compute-config{board="p150"},ttnn-optimizer{board="p150"}'
    pipeline.run(pipeline.parse(made), module)
    pipeline.run(pipeline.parse("ttnn-operation-validation-and-fallback"), module)
    assert str(module).count("ttnn.fallback") == 2
    value = randoms(3520, 32)
    (got,) = Device("n150").load(api.ttnn_to_flatbuffer(module, programs.BOARD)).run([value]).outputs
    np.testing.assert_allclose(got, -np.exp(value), rtol=1e-4)


def test_integers_that_a_board_cannot_hold_are_refused():
    module = text.parse(
        "func.func @main(%a: tensor<32x32xi32>) -> tensor<32x32xi32> {"
        '%0 = "ttir.abs"(%a) : (tensor<32x32xi32>) -> tensor<32x32xi32>\nreturn %0 : tensor<32x32xi32> }'
    )
    pipeline.run(pipeline.parse("ttir-to-ttnn"), module)
    with pytest.raises(StageFailure, match="Dst of e150 holds no Int32") as refused:
        pipeline.run(pipeline.parse('ttnn-operation-validation-and-fallback{board="e150"}'), module)
    assert refused.value.kind == "never"


def test_the_table_has_every_name_of_the_list(tmp_path):
    result = CliRunner().invoke(ops, ["--against", str(NAMES), "--json"])
    compared = json.loads(result.output)
    assert not [each["op"] for each in compared if each["difference"] == "missing"]
    assert all(each["words"] for each in compared if each["kind"] in ("notimpl", "notyet", "never", "decomposed"))
    listed = {"ttir": {"cumsum": ["dim"], "sort": ["dim", "order"], "gather_dim": None, "frobnicate": None}}
    path = tmp_path / "list.json"
    path.write_text(json.dumps(listed))
    result = CliRunner().invoke(ops, ["--against", str(path), "--json"])
    differences = {each["op"]: (each["difference"], each["words"]) for each in json.loads(result.output)}
    assert differences["ttir.cumsum"][0] == "same"
    assert differences["ttir.sort"] == ("attributes", "lacks order; adds descending, programs, stable")
    assert differences["ttir.gather_dim"] == ("renamed", "here ttir.gather")
    assert differences["ttir.frobnicate"][0] == "missing"


@pytest.mark.parametrize("words", ["[]", "{", '{"ttir": 3}', '{"ttir": {"abs": 3}}'])
def test_a_list_that_is_none_is_one_line(tmp_path, words):
    path = tmp_path / "list.json"
    path.write_text(words)
    result = CliRunner().invoke(ops, ["--against", str(path)])
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert "expected" in result.output


@pytest.mark.slow
def test_cases_of_the_specification_are_right_or_refused_in_tt_mlir_s_words(monkeypatch):
    """A quarter of the cases of real types: through the named forms and back, no result is another one."""

    def named(source, board, options=None):
        from opscope.compiler.ir import guard

        module = guard.read(source)
        pipeline.run(pipeline.parse("stablehlo-to-ttir-pipeline,ttir-to-ttnn-backend-pipeline"), module)
        return api.ttnn_to_flatbuffer(module, board, options)

    monkeypatch.setattr(conformance.api, "compile", named)
    device, target = Device("n150"), Reference().target(ResultOptions(arch="n150"))
    rated = [
        conformance.score_of(case, source, inputs, expected, device, target, 0)
        for case, source, inputs, expected in programs.conformance()
        if case["n"] % 4 == 0 and "complex" not in source
    ]
    refused = [score for score in rated if not score.right and score.why.startswith(("stablehlo-to-", "ttir-to-"))]
    assert sum(score.right for score in rated) > 200
    assert [score for score in rated if not score.right and score.kind != "never" and score not in refused] == []


@pytest.mark.slow
def test_tests_that_were_written_for_ttmlir_opt_pass(tmp_path):
    if not SUITE.exists():
        pytest.skip("the FileCheck tests of tt-mlir are not in ../shared/data")
    import zipfile

    zipfile.ZipFile(SUITE).extractall(tmp_path)
    done = list(tt_mlir_suite.outcomes(tmp_path))
    failed = [f"{each.cause}: {each.name}: {each.words}" for each in done if not each.passes]
    assert len(done) - len(failed) >= LOWEST, "\n".join(failed)

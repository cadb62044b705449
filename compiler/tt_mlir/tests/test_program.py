"""What tt-mlir emits becomes a program of its own layouts, formats and functions; nothing is left out in silence."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.tt_mlir.tests.emitted import NO_FUNCTIONS, Text, X, entry_output, one_op, program
from opscope.compiler.tt_mlir.values import constant
from opscope.simulator.api import Device

HIFI4 = "compute_config = #ttnn.device_compute_kernel_config<math_fidelity = hifi4, fp32_dest_acc_en = true>"


def run(text: str, *values: np.ndarray) -> np.ndarray:
    made = program(text)
    (result,) = Device("n150").load_decoded(made.binary).run(made.inputs_of(values)).outputs
    return result


def test_an_op_runs_in_its_own_layouts() -> None:
    text = one_op("ttnn.add", NO_FUNCTIONS, [((2, 3, 4), "f32"), ((4,), "f32")], ((2, 3, 4), "f32"))
    assert_array_equal(run(text, X, X[0, 0]), X + X[0, 0])
    made = program(text)
    layouts = [(t.layout, t.buffer_type) for t in made.binary.programs[0].tensors]
    assert ("row_major", "dram") in layouts
    assert ("tile", "dram") in layouts
    assert (made.float_format, made.math_fidelity, made.narrow_dst, made.narrowed) == (None, "HiFi4", False, ())


def test_functions_before_and_after_an_op_are_applied() -> None:
    words = (
        "activations = [#ttnn.unary_with_param<op_type = sqrt>, #ttnn.unary_with_param<op_type = neg>], "
        "input_tensor_a_activations = [#ttnn.unary_with_param<op_type = abs>], "
        "input_tensor_b_activations = [#ttnn.unary_with_param<op_type = floor>, #ttnn.unary_with_param<op_type = abs>]"
    )
    text = one_op("ttnn.add", words, [((2, 3, 4), "f32"), ((2, 3, 4), "f32")], ((2, 3, 4), "f32"))
    assert_allclose(run(text, X, X + 5), -np.sqrt(np.abs(X) + np.abs(np.floor(X + 5))), rtol=1e-6)


def test_a_constant_function_is_a_program_of_its_own() -> None:
    text = Text()
    x, one = text.kind((2, 3), "f32"), text.kind((), "f32")
    text.function(
        [
            '%0 = "ttnn.get_device"() <{mesh_shape = #ttnn<mesh_shape 1x1>}> : () -> !ttnn.device',
            '%1 = "ttnn.full"(%0) <{fill_value = 2.5 : f32, shape = #ttnn.shape<>}> : (!ttnn.device) -> ' + one,
        ],
        [],
        [one],
        "%1",
        name="main_const_eval_0",
    )
    text.function(
        [
            f"%0 = ttcore.load_cached(@main_const_eval_0, []) : () -> {one}",
            f'%1 = "ttnn.multiply"(%arg0, %0) <{{{NO_FUNCTIONS}}}> : ({x}, {one}) -> {x}',
            f'"ttnn.deallocate"(%0) <{{force = false}}> : ({one}) -> ()',
        ],
        [x],
        [x],
        "%1",
    )
    words = text.written()
    assert [p.name for p in program(words).binary.programs] == ["main", "main_const_eval_0"]
    assert_array_equal(run(words, X[0, :2, :3]), X[0, :2, :3] * np.float32(2.5))


@pytest.mark.parametrize("generic", [False, True])
def test_the_ops_of_a_subgraph_stand_in_its_place(generic: bool) -> None:
    """Before tt-mlir makes kernels of it, its function has ops of ttnn; it may stand in several places."""
    text = Text()
    x = text.kind((2, 3), "f32")
    body = [
        f'%0 = "ttnn.exp"(%arg0) : ({x}) -> {x}',
        f'%1 = "ttnn.subtract"(%0, %arg1) <{{{NO_FUNCTIONS}}}> : ({x}, {x}) -> {x}',
    ]
    text.function(body, [x, x], [x], "%1", name="d2m_subgraph_0")

    def subgraph(result: str, one: str, two: str) -> str:
        if generic:
            sizes = "operandSegmentSizes = array<i32: 2, 1>"
            names = f'"ttnn.d2m_subgraph"({one}, {two}, %arg0) <{{d2m_func = @d2m_subgraph_0, {sizes}}}>'
            return f"{result} = {names} : ({x}, {x}, {x}) -> {x}"
        ins, outs = f"ins({one}, {two} : {x}, {x})", f"outs(%arg0 : {x}) : {x}"
        return f"{result} = ttnn.d2m_subgraph @d2m_subgraph_0 \n            {ins} \n            {outs}"

    text.function([subgraph("%0", "%arg0", "%arg1"), subgraph("%1", "%arg1", "%0")], [x, x], [x], "%1")
    words, (a, b) = text.written(), (X[0, :2, :3], X[1, :2, :3])
    assert [p.name for p in program(words).binary.programs] == ["main"]
    assert_allclose(run(words, a, b), np.exp(b) - (np.exp(a) - b), rtol=1e-5)
    for name, got in (("gone", "none of gone"), ("d2m_subgraph_0", "d2m_subgraph_0 in itself")):
        call = f'"ttnn.d2m_subgraph"(%arg0, %arg1) <{{d2m_func = @{name}}}> : ({x}, {x}) -> {x}'
        other = words.replace(f'"ttnn.exp"(%arg0) : ({x}) -> {x}', call)
        with pytest.raises(StageFailure, match=f"expected a function of the types that it is given, got {got}"):
            program(other)


def test_a_function_that_is_not_there_is_refused() -> None:
    text = Text()
    one = text.kind((), "f32")
    text.function([f"%0 = ttcore.load_cached(@gone, []) : () -> {one}"], [], [one], "%0")
    with pytest.raises(StageFailure, match="expected a function gone, got none"):
        program(text.written())


@pytest.mark.parametrize("dim", [1, -1])
def test_elements_are_taken_along_a_dim(dim: int) -> None:
    shape = [2, 3, 4]
    shape[dim] = 2
    text = one_op("ttnn.gather", f"dim = {dim} : si32", [((2, 3, 4), "f32"), (shape, "ui32")], (shape, "f32"))
    places = np.arange(np.prod(shape), dtype=np.uint32).reshape(shape) % 3
    assert_array_equal(run(text, X, places), np.take_along_axis(X, places.astype(np.int64), dim))
    with pytest.raises(StageFailure, match=r"expected indices of \(2, 3, 4\) but in dim 0, got"):
        program(one_op("ttnn.gather", "dim = 0 : si32", [((2, 3, 4), "f32"), (shape, "ui32")], (shape, "f32")))


@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_is_turned_as_its_attributes_say(transposed: bool) -> None:
    left, right = X[0], np.ascontiguousarray(X[1].T)
    words = f"{HIFI4}, transpose_a = false, transpose_b = {str(transposed).lower()}"
    shape = (3, 4) if transposed else (4, 3)
    text = one_op("ttnn.matmul", words, [((3, 4), "f32"), (shape, "f32")], ((3, 3), "f32"))
    got = run(text, left, np.ascontiguousarray(right.T) if transposed else right)
    assert_allclose(got, left @ right, rtol=2e-3)


def test_a_program_states_its_lowest_fidelity_and_a_narrow_dst() -> None:
    words = "transpose_a = false, transpose_b = false, compute_config = #ttnn.device_compute_kernel_config<"
    words += "math_fidelity = hifi2, fp32_dest_acc_en = false>"
    made = program(one_op("ttnn.matmul", words, [((3, 4), "bf16"), ((4, 3), "bf16")], ((3, 3), "bf16")))
    assert (made.math_fidelity, made.narrow_dst, made.computes) == ("HiFi2", True, ("matmul",))


def test_a_product_without_a_configuration_computes_as_ttnn_does() -> None:
    words = "transpose_a = false, transpose_b = false"
    made = program(one_op("ttnn.matmul", words, [((3, 4), "bf16"), ((4, 3), "bf16")], ((3, 3), "bf16")))
    assert (made.math_fidelity, made.narrow_dst) == ("HiFi2", True)
    made = program(one_op("ttnn.matmul", words, [((3, 4), "f32"), ((4, 3), "f32")], ((3, 3), "f32")))
    assert (made.math_fidelity, made.narrow_dst) == ("HiFi4", False)


def test_a_convolution_reads_rows_of_pixels() -> None:
    rng = np.random.default_rng(5)
    image = rng.standard_normal((1, 1, 20, 3)).astype(np.float32)
    weight = rng.standard_normal((2, 3, 2, 2)).astype(np.float32)
    text = Text()
    x, w = text.kind((1, 1, 20, 3), "f32", tile=False), text.kind((2, 3, 2, 2), "f32", tile=False)
    y = text.kind((1, 1, 5 * 5, 2), "f32")
    words = (
        "batch_size = 1 : i32, conv2d_config = #ttnn.conv2d_config<enable_kernel_stride_folding = false>, "
        f"{HIFI4}, dilation = array<i32: 1, 1>, groups = 1 : i32, in_channels = 3 : i32, input_height = 4 : i32, "
        "input_width = 5 : i32, kernel_size = array<i32: 2, 2>, out_channels = 2 : i32, "
        "padding = array<i32: 2, 0, 1, 0>, stride = array<i32: 1, 1>"
    )
    text.function([f'%0 = "ttnn.conv2d"(%arg0, %arg1) <{{{words}}}> : ({x}, {w}) -> {y}'], [x, w], [y], "%0")
    padded = np.pad(image.reshape(1, 4, 5, 3), ((0, 0), (2, 0), (1, 0), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (2, 2), axis=(1, 2))
    want = np.einsum("nhwcij,ocij->nhwo", views, weight).reshape(1, 1, 25, 2)
    assert_allclose(run(text.written(), image, weight), want, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("name", "attributes", "result", "want"),
    [
        ("ttnn.sum", f"{HIFI4}, dim_arg = [1 : i32], keep_dim = true", (2, 1, 4), X.sum(1, keepdims=True)),
        ("ttnn.max", f"{HIFI4}, dim_arg = [-1 : i32, 0 : i32], keep_dim = false", (3,), X.max((0, 2))),
        ("ttnn.prod", "dim_arg = 2 : si32, keep_dim = false", (2, 3), X.prod(2)),
        ("ttnn.permute", "permutation = array<i64: 2, 0, 1>", (4, 2, 3), X.transpose(2, 0, 1)),
        ("ttnn.transpose", "dim0 = -3 : si32, dim1 = 2 : si32", (4, 3, 2), X.swapaxes(0, 2)),
        ("ttnn.argmax", "dim = 1 : si32, keep_dim = false", (2, 4), np.argmax(X, 1)),
        ("ttnn.hardsigmoid", "", (2, 3, 4), np.clip(X + 3, 0, 6) / 6),
        ("ttnn.reshape", "shape = [4 : i32, 6 : i32]", (4, 6), X.reshape(4, 6)),
        (
            "ttnn.slice_static",
            "begins = [0 : i32, 1 : i32, 0 : i32], ends = [2 : i32, 3 : i32, 4 : i32], "
            "step = [1 : i32, 1 : i32, 3 : i32]",
            (2, 2, 2),
            X[0:2, 1:3, ::3],
        ),
        (
            "ttnn.pad",
            "padding = array<i32: 0, 1, 0, 0, 2, 0>, use_multicore = true, value = 7.000000e+00 : f32",
            (3, 3, 6),
            np.pad(X, ((0, 1), (0, 0), (2, 0)), constant_values=7),
        ),
        ("ttnn.leaky_relu", "parameter = 2.500000e-01 : f32", (2, 3, 4), np.where(X > 0, X, X / 4)),
        (
            "ttnn.softmax",
            "dimension = 2 : si32, numericStable = true",
            (2, 3, 4),
            np.exp(X) / np.exp(X).sum(2, keepdims=True),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("ttnn.") else "",
)
def test_attributes_say_what_an_op_does(name: str, attributes: str, result: tuple[int, ...], want: np.ndarray) -> None:
    text = one_op(name, attributes, [((2, 3, 4), "f32")], (result, "f32"))
    assert_allclose(run(text, X), want, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "attributes", "why"),
    [
        ("ttnn.nonesuch", "", "the simulator has no kernel for it"),
        ("ttnn.generic", "", "its kernels are generated by tt-mlir"),
        ("ttnn.upsample", 'mode = "bilinear", scale_factor = 2 : si32', "expected the nearest pixel, got bilinear"),
    ],
)
def test_what_no_kernel_computes_is_refused_by_name(name: str, attributes: str, why: str) -> None:
    text = one_op(name, attributes, [((1, 3, 4, 8), "f32")], ((1, 6, 8, 8), "f32"))
    with pytest.raises(StageFailure, match=why) as caught:
        program(text)
    failure = caught.value
    assert (failure.stage, failure.op, failure.kind) == ("run", name, "notimpl")


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        ("ttnn.exp", "parameter = 1 : i32", "expected attributes that are understood, got parameter"),
        ("ttnn.permute", "permutation = array<i64: 2, 0, 1>, order = 3 : i32", "got order"),
        ("ttnn.neg", "compute_config = #ttnn.device_compute_kernel_config<fast = true>", "got fast"),
        ("ttnn.permute", "", "expected an attribute permutation"),
        ("ttnn.repeat", "repeat_dims = #ttnn.shape<2x1>", "expected attributes and shapes that go together"),
    ],
)
def test_an_attribute_that_nobody_understands_is_refused(name: str, attributes: str, message: str) -> None:
    with pytest.raises(StageFailure, match=message):
        program(one_op(name, attributes, [((2, 3, 4), "f32")], ((4, 2, 3), "f32")))


def test_an_activation_without_a_kernel_is_refused() -> None:
    words = NO_FUNCTIONS.replace("activations = []", "activations = [#ttnn.unary_with_param<op_type = xielu>]", 1)
    with pytest.raises(StageFailure, match="expected an activation that a kernel has"):
        program(one_op("ttnn.add", words, [((2, 3), "f32")] * 2, ((2, 3), "f32")))


def test_a_fused_activation_of_a_product_is_not_lost() -> None:
    config = "#ttnn.matmul_multi_core_reuse_program_config<in0_block_w = 1, fused_activation = "
    words = f"{HIFI4}, transpose_a = false, transpose_b = false, matmul_program_config = {config}%s>"
    shapes = [((3, 4), "f32"), ((4, 3), "f32")]
    text = one_op("ttnn.matmul", words % "#ttnn.unary_with_param<op_type = relu>", shapes, ((3, 3), "f32"))
    got = run(text, X[0], np.ascontiguousarray(X[1].T))
    assert_allclose(got, np.maximum(X[0] @ X[1].T, 0), rtol=2e-3)
    with pytest.raises(StageFailure, match="expected one activation"):
        program(one_op("ttnn.matmul", words % "#ttnn.unary_with_param<op_type = xielu>", shapes, ((3, 3), "f32")))


def test_shards_and_block_formats_are_kept() -> None:
    text = one_op("ttnn.exp", "", [((32, 64), "bf16")], ((32, 64), "bf16"))
    old = "<1x1>, memref<1x1x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>"
    new = "<1x2>, memref<1x1x!ttcore.tile<32x32, bfp_bf8>, #ttnn.buffer_type<l1>>, <width_sharded>, core_ranges = <[]>>"
    assert old in text
    made = program(text.replace(old, new))
    in_l1 = [t for t in made.binary.programs[0].tensors if t.buffer_type == "l1"]
    assert {(t.data_format, t.memory_layout, t.grid) for t in in_l1} == {("Bfp8_b", "width_sharded", (1, 2))}


def test_booleans_wide_integers_and_complex_numbers_are_converted() -> None:
    text = one_op("ttnn.neg", "", [((2, 3), "si32")], ((2, 3), "si32"), ["i64", "i64"])
    values = np.array([[1, -2, 3], [2**40, -(2**40), 0]])
    made = program(text)
    assert made.narrowed == ("i64 -> si32 at argument 0",)
    (declared,) = made.inputs_of([values])
    assert declared.tolist() == [[1, -2, 3], [2**31 - 1, -(2**31), 0]]
    (back,) = made.outputs_as([declared], [(np.dtype(np.int64), (2, 3))])
    assert back.dtype == np.int64
    pairs = program(one_op("ttnn.neg", "", [((3, 2), "f32")], ((3, 2), "f32")))
    numbers = np.array([1 + 2j, 3 - 4j, 0], np.complex64)
    (parts,) = pairs.inputs_of([numbers])
    assert parts.tolist() == [[1, 2], [3, -4], [0, 0]]
    (same,) = pairs.outputs_as([parts], [(np.dtype(np.complex64), (3,))])
    assert_array_equal(same, numbers)
    truth = program(one_op("ttnn.logical_not", "", [((2,), "bf16")], ((2,), "bf16"), ["i1", "i1"]))
    assert truth.outputs_as(truth.inputs_of([np.array([True, False])]), [(np.dtype(bool), (2,))])[0].tolist() == [
        True,
        False,
    ]


def test_the_wrong_number_of_inputs_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 1, got 2"):
        program(one_op("ttnn.neg", "", [((2,), "f32")], ((2,), "f32"))).inputs_of([X, X])


@pytest.mark.parametrize(
    ("words", "want"),
    [
        ("dense<[1, -2, 3]> : tensor<3xsi32>", np.array([1, -2, 3], np.int32)),
        ("dense<[[1.5], [0xFF800000]]> : tensor<2x1xf32>", np.array([[1.5], [-np.inf]], np.float32)),
        ("dense<7> : tensor<2x2xui32>", np.full((2, 2), 7, np.uint32)),
        ('dense<"0x0100000002000000"> : tensor<2xsi32>', np.array([1, 2], np.int32)),
        ('dense<"0x803F"> : tensor<3xbf16>', np.ones(3)),
        ("dense<[true, false]> : tensor<2xi1>", np.array([True, False])),
    ],
)
def test_elements_of_constants(words: str, want: np.ndarray) -> None:
    got = constant(words)
    assert got.shape == want.shape
    assert_array_equal(got.astype(want.dtype), want)


def test_constants_keep_their_elements() -> None:
    text = Text()
    y = text.kind((3,), "si32")
    words = '%0 = "ttnn.constant"() <{value = dense<[4, -5, 6]> : tensor<3xsi32>}> : () -> '
    text.function([f"{words}{y}"], [], [y], "%0")
    assert run(text.written()).tolist() == [4, -5, 6]


def test_a_full_tensor_of_a_negative_number_wraps_in_unsigned_integers() -> None:
    text = Text()
    y = text.kind((2,), "ui32")
    words = '%0 = "ttnn.full"() <{fill_value = -1 : i32, shape = #ttnn.shape<2>}> : () -> '
    text.function([f"{words}{y}"], [], [y], "%0")
    assert run(text.written()).tolist() == [2**32 - 1] * 2


def test_outputs_come_back_in_the_type_that_is_declared() -> None:
    made = program(one_op("ttnn.gt", NO_FUNCTIONS, [((2, 3), "f32")] * 2, ((2, 3), "bf16"), ["f32", "f32", "i1"]))
    (output,) = made.outputs_as([np.ones((2, 3), np.float32)], [(np.dtype(bool), (2, 3))])
    assert output.dtype == bool
    assert entry_output(made).buffer_type == "system_memory"
    assert made.narrowed == ()


def test_a_program_for_another_architecture_is_refused() -> None:
    text = one_op("ttnn.neg", "", [((2, 3), "f32")], ((2, 3), "f32"))
    text = f"#system_desc = #ttcore.system_desc<[{{arch = <blackhole>, grid = 8x8}}]>\n{text}"
    assert program(text, "p150").binary.board == "p150"
    with pytest.raises(
        CompilerInputError, match="expected a program for wormhole_b0, as n150 is, got one for blackhole"
    ):
        program(text, "n150")


def test_a_program_for_several_chips_is_refused() -> None:
    text = Text()
    y = text.kind((2,), "f32")
    device = '%0 = "ttnn.get_device"() <{mesh_shape = #ttnn<mesh_shape 1x2>}> : () -> !ttnn.device'
    made = f'%1 = "ttnn.zeros"(%0) <{{shape = #ttnn.shape<2>}}> : (!ttnn.device) -> {y}'
    text.function([device, made], [], [y], "%1")
    with pytest.raises(StageFailure, match="expected the module's mesh 1x1, got #ttnn<mesh_shape 1x2>"):
        program(text.written())


def test_a_view_costs_nothing() -> None:
    text = Text()
    x, y = text.kind((1, 1, 4, 4), "f32"), text.kind((1, 1, 4, 4), "f32")
    words = (
        "batch_size = 1 : i32, dilation = array<i32: 1, 1>, groups = 1 : i32, in_channels = 4 : i32, "
        "input_height = 2 : i32, input_width = 2 : i32, kernel_size = array<i32: 1, 1>, out_channels = 4 : i32, "
        "padding = array<i32: 0, 0, 0, 0>, stride = array<i32: 1, 1>"
    )
    weight = text.kind((4, 4, 1, 1), "f32", tile=False)
    text.function([f'%0 = "ttnn.conv2d"(%arg0, %arg1) <{{{words}}}> : ({x}, {weight}) -> {y}'], [x, weight], [y], "%0")
    loaded = Device("n150").load_decoded(program(text.written()).binary)
    cycles = {cost.kernel: cost.cycles for cost in loaded.costs(loaded.program)}
    assert cycles["view"] == 0
    assert cycles["conv2d"] > 0

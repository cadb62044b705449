"""Each op of TT-Buda against NumPy, which knows nothing of ours; windows against PyTorch, where it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
import pytest

from opscope.compiler.tests import programs
from opscope.simulator.host import op
from opscope.simulator.host.errors import PyBudaError

RNG = np.random.default_rng(15)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


A, B = normal(1, 2, 4, 6), normal(1, 2, 4, 6)
POSITIVE = np.abs(A) + np.float32(0.5)
WHOLE = np.round(A * 2)
MATRIX, VECTOR = normal(6, 5), normal(6)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x.astype(np.float64))
    return e / e.sum(axis=axis, keepdims=True)


def erf(x: np.ndarray) -> np.ndarray:
    import math

    return np.vectorize(math.erf)(x.astype(np.float64))


SIGMOID = 1 / (1 + np.exp(-A.astype(np.float64)))

CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any], Any]] = {
    "Add": ((A, B), {}, A + B),
    "Subtract": ((A, B[..., :1]), {}, A - B[..., :1]),
    "Multiply": ((A, B), {}, A * B),
    "Divide": ((A, POSITIVE), {}, A / POSITIVE),
    "Max": ((A, B), {}, np.maximum(A, B)),
    "Min": ((A, B), {}, np.minimum(A, B)),
    "Heaviside": ((WHOLE, B), {}, np.heaviside(WHOLE, B)),
    "Power": ((POSITIVE, B), {}, POSITIVE**B),
    "Equal": ((WHOLE, WHOLE[..., ::-1]), {}, WHOLE[..., ::-1] == WHOLE),
    "NotEqual": ((WHOLE, WHOLE[..., ::-1]), {}, WHOLE[..., ::-1] != WHOLE),
    "Greater": ((A, B), {}, A > B),
    "GreaterEqual": ((WHOLE, np.zeros_like(A)), {}, WHOLE >= 0),
    "Less": ((A, B), {}, A < B),
    "LessEqual": ((WHOLE, np.zeros_like(A)), {}, WHOLE <= 0),
    "LogicalAnd": ((WHOLE, B), {}, (WHOLE != 0) & (B != 0)),
    "BinaryStack": ((A, B), {"dim": -1}, np.stack([A, B], -1).reshape(1, 2, 4, 12)),
    "Abs": ((A,), {}, np.abs(A)),
    "Exp": ((A,), {}, np.exp(A)),
    "Log": ((POSITIVE,), {}, np.log(POSITIVE)),
    "Pow": ((POSITIVE, 3), {}, POSITIVE**3),
    "Identity": ((A,), {"unsqueeze": "unsqueeze", "unsqueeze_dim": 1}, A[:, None]),
    "Buffer": ((A,), {}, A),
    "Tilize": ((A,), {}, A),
    "Reciprocal": ((POSITIVE,), {}, 1 / POSITIVE),
    "Sqrt": ((POSITIVE,), {}, np.sqrt(POSITIVE)),
    "Relu": ((A,), {"threshold": 0.3}, np.where(A >= 0.3, A, 0)),
    "LeakyRelu": ((A, 0.1), {}, np.where(A > 0, A, 0.1 * A)),
    "Gelu": ((A,), {}, A * (1 + erf(A / np.sqrt(2))) / 2),
    "Sigmoid": ((A,), {}, SIGMOID),
    "Sine": ((A,), {}, np.sin(A)),
    "Cosine": ((A,), {}, np.cos(A)),
    "Tanh": ((A,), {}, np.tanh(A)),
    "LogicalNot": ((WHOLE,), {}, WHOLE == 0),
    "Clip": ((A, -0.2, 0.4), {}, np.clip(A, -0.2, 0.4)),
    "Argmax": ((A,), {"dim": -2}, A.argmax(-2)[..., None, :]),
    "CumSum": ((A, 2), {"exclusive": True}, np.cumsum(A, 2) - A),
    "Dropout": ((A,), {"training": False}, A),
    "Concatenate": ((A, B), {"axis": -3}, np.concatenate([A, B], 1)),
    "Stack": ((A, B), {"axis": 1}, np.stack([A, B], 1)),
    "Interleave": ((A, B), {"axis": -3, "stride": 1}, np.stack([A[0, 0], B[0, 0], A[0, 1], B[0, 1]])[None]),
    "Where": ((WHOLE, A, B), {}, np.where(WHOLE != 0, A, B)),
    "ReduceSum": ((A, -1), {}, A.sum(-1, keepdims=True)),
    "ReduceAvg": ((A, 2), {}, A.mean(2, keepdims=True)),
    "ReduceMax": ((A, -1), {"stride": 3}, A.reshape(1, 2, 4, 2, 3).max(-1)),
    "GroupedReduceAvg": (
        (A, -1, 2),
        {"keep_dims": True},
        A.reshape(1, 2, 4, 2, 3).mean(-1, keepdims=True).repeat(3, -1).reshape(A.shape),
    ),
    "Matmul": ((A, MATRIX, normal(5) * 0 + 1), {}, A @ MATRIX + 1),
    "SparseMatmul": ((np.eye(4, dtype=np.float32)[::-1].copy(), A), {}, A[:, :, ::-1]),
    "Embedding": ((MATRIX, np.array([[3, 1, 1]], np.int32)), {}, MATRIX[[[3, 1, 1]]]),
    "Constant": ((), {"constant": 2.5}, np.array([2.5])),
    "DRAMQueue": ((A,), {"num_entries": 2}, A),
    "HSlice": ((A, 3), {}, np.stack([A[0, z, :, 2 * i : 2 * i + 2] for z in range(2) for i in range(3)])[None]),
    "HStack": ((A,), {}, np.concatenate([A[:, :1], A[:, 1:]], -1)),
    "VSlice": ((A, 2), {}, A.reshape(1, 4, 2, 6)),
    "VStack": ((A,), {}, A.reshape(1, 1, 8, 6)),
    "Transpose": ((A, -1, -2), {}, A.swapaxes(-1, -2)),
    "Reshape": ((A, (1, 1, 8, -1)), {}, A.reshape(1, 1, 8, 6)),
    "Index": ((A, -1, 1, -1, 2), {}, A[..., 1:5:2]),
    "AdvIndex": ((MATRIX, np.array([2, 0], np.int32)), {}, MATRIX[[2, 0]]),
    "Select": ((A, -1, (1, 2)), {"stride": 4}, np.concatenate([A[..., [1, 2, 5]], 0 * A[..., :1]], -1)),
    "Pad": ((A, (1, 2, 3, 0)), {}, np.pad(A, ((0, 0), (0, 0), (3, 0), (1, 2)))),
    "PadTile": ((A, -1, 6), {}, np.pad(A, ((0, 0), (0, 0), (0, 0), (0, 26)))),
    "Broadcast": ((A[:, :1], -3, 5), {}, np.repeat(A[:, :1], 5, 1)),
    "Repeat": ((A, [1, 2, 1, 3]), {}, np.tile(A, (1, 2, 1, 3))),
    "Unsqueeze": ((A, 0), {}, A[None]),
    "Squeeze": ((A, 0), {}, A[0]),
    "Narrow": ((A, -1, 2, 3, 6), {}, A[..., 2:5]),
    "PixelShuffle": (
        (A.reshape(1, 4, 2, 6), 2),
        {},
        A.reshape(1, 1, 2, 2, 2, 6).transpose(0, 1, 4, 2, 5, 3).reshape(1, 1, 4, 12),
    ),
    "BudaPad": (
        (A, (1, 0), 7.0),
        {},
        np.pad(np.pad(A, ((0, 0), (0, 0), (0, 28), (0, 0))), ((0, 0), (0, 0), (0, 32), (0, 0)), constant_values=7),
    ),
    "BudaUnpad": ((np.pad(A, ((0, 0), (0, 0), (0, 60), (0, 0))), (4, 6), (1, 0)), {}, A),
    "Softmax": ((A,), {"dim": -1}, softmax(A, -1)),
    "LogSoftmax": ((A,), {"dim": 2, "stable": False}, np.log(softmax(A, 2))),
    "Layernorm": (
        (A, VECTOR, VECTOR),
        {},
        (A - A.mean(-1, keepdims=True)) / np.sqrt(A.var(-1, keepdims=True) + 1e-5) * VECTOR + VECTOR,
    ),
    "Batchnorm": (
        (A, normal(2) * 0 + 2, normal(2) * 0 + 1, A.mean((0, 2, 3)), A.var((0, 2, 3))),
        {},
        (A - A.mean((0, 2, 3), keepdims=True)) / np.sqrt(A.var((0, 2, 3), keepdims=True) + 1e-5) * 2 + 1,
    ),
    "Quantize": ((A, np.float32([0.1]), 3, -1, "int8"), {}, np.clip(np.round(A / np.float32(0.1)) + 3, -127, 127)),
    "Dequantize": ((WHOLE, np.float32([0.5]), 1), {}, (WHOLE - 1) * 0.5),
    "Requantize": ((WHOLE, np.float32([3.0]), np.float32([2.0]), 0, 1, "int8"), {}, np.round(WHOLE * 1.5 + 1)),
    "BudaRequantize": ((WHOLE, np.float32(0.25), 2, "uint8"), {}, np.clip(np.round(WHOLE * 0.25 + 2), 0, 255)),
}
WINDOWS = {
    "Conv2d",
    "Conv2dTranspose",
    "Conv3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "Resize2d",
    "Resize3d",
}
"""Ops that PyTorch judges."""
OTHER = {"IndexCopy"}


def test_every_op_has_a_case() -> None:
    modules = set(op.FAMILIES["nn_modules"])
    assert set(CASES) | WINDOWS | OTHER == set(op.MODULE_OF) - modules


@pytest.fixture(scope="module")
def computed() -> dict[str, Any]:
    """Every case in one program, which XLA compiles once: its arrays are arguments, so that nothing is folded."""
    arrays = {name: [a for a in args if isinstance(a, np.ndarray | np.generic)] for name, (args, _, _) in CASES.items()}

    def every(operands: dict[str, list[Any]]) -> dict[str, Any]:
        results = {}
        for name, (args, kwargs, _) in CASES.items():
            left = iter(operands[name])
            filled = [next(left) if isinstance(a, np.ndarray | np.generic) else a for a in args]
            results[name] = getattr(op, name)("", *filled, **kwargs)
        return results

    return programs.jit(every)(arrays)


@pytest.mark.parametrize("name", CASES)
def test_an_op_computes_what_numpy_computes(name: str, computed: dict[str, Any]) -> None:
    expected, got = CASES[name][2], np.asarray(computed[name])
    assert got.shape == np.shape(expected)
    assert np.allclose(got.astype(np.float64), np.asarray(expected, np.float64), rtol=2e-5, atol=2e-6)


def test_slices_are_copied_to_numbered_places() -> None:
    got = np.array(op.IndexCopy("", A, np.array([3, 0], np.int32), B[:, :, :2], 2))
    expected = A.copy()
    expected[:, :, [3, 0]] = B[:, :, :2]
    assert np.array_equal(got, expected)


def test_dropout_drops_a_share_and_keeps_the_mean() -> None:
    ones = np.ones((64, 64), np.float32)
    got = np.asarray(op.Dropout("", ones, p=0.25, seed=3))
    assert set(np.unique(got)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs(got.mean() - 1) < 0.05
    assert np.array_equal(got, np.asarray(op.Dropout("", ones, p=0.25, seed=3)))


def test_the_pad_modes_are_numpys() -> None:
    for mode, numpy_mode in (("replicate", "edge"), ("reflect", "reflect")):
        got = op.Pad("", A, (2, 1), mode=mode, channel_last=True)
        assert np.array_equal(got, np.pad(A, ((0, 0), (0, 0), (2, 1), (0, 0)), mode=numpy_mode))


class _Named:
    """A module, as far as an op looks at it."""

    def get_name(self) -> str:
        return "m"

    def get_device(self) -> None:
        return None


def test_the_module_in_front_is_ignored() -> None:
    assert np.array_equal(op.Add(_Named(), "sum", A, B), A + B)


def test_the_name_becomes_part_of_the_location() -> None:
    text = jax.jit(lambda x: op.Matmul("first", x, MATRIX)).lower(A).as_text(debug_info=True)
    assert "buda.op=first/" in text


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "no name": (lambda: op.Add(A, B), "Add: expected Add(name"),
    "a number as name": (lambda: op.Add(3, A, B), "Add: expected a name first, got int"),
    "shapes": (lambda: op.Matmul("mm", A, VECTOR[:3]), "mm: expected operands that fit Matmul, got"),
    "dim": (lambda: op.ReduceSum("s", A, 4), "s: expected a dim from -4 to 3, got 4"),
    "slices": (lambda: op.HSlice("h", A, 4), "h: expected a number of slices that divides 6 columns, got 4"),
    "mode": (lambda: op.Pad("p", A, (1, 1), mode="wrap"), "p: expected mode constant, replicate, reflect, got 'wrap'"),
    "method": (lambda: op.Resize2d("r", A, 8, method="cubic"), "r: expected method nearest"),
    "padding": (lambda: op.Conv2d("c", A, A, padding="valid"), "c: expected padding 'same', a number or a list"),
    "index": (lambda: op.Index("i", A, 2, 3, 9), "i: expected start, stop and stride within 4, got 3, 9, 1"),
    "none": (lambda: op.Concatenate("c", axis=0), "c: expected at least one operand, got none"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_operands_are_one_line(what: str) -> None:
    call, expected = BAD[what]
    with pytest.raises(PyBudaError) as error:
        call()
    assert str(error.value).startswith(expected), error.value
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("reduction", ["avg", "sum", "none"])
def test_losses_are_those_of_optax(reduction: str) -> None:
    predictions, labels = normal(1, 1, 4, 7), np.abs(normal(1, 1, 4, 7))
    labels /= labels.sum(-1, keepdims=True)
    entropy = op.loss.CrossEntropyLoss("entropy")(predictions, labels)
    expected = np.mean(programs.jit(optax.softmax_cross_entropy)(predictions, labels), -1)
    np.testing.assert_allclose(np.ravel(entropy), np.ravel(expected), rtol=1e-5)
    distance = np.abs(predictions - labels)
    whole = {"avg": distance.mean(), "sum": distance.sum(), "none": distance}[reduction]
    np.testing.assert_allclose(
        np.squeeze(op.loss.L1Loss("l1", reduction)(predictions, labels)), np.squeeze(whole), rtol=1e-5
    )
    with pytest.raises(PyBudaError, match="l1: reduction: expected one of none, avg, sum, got 'mean'"):
        op.loss.L1Loss("l1", "mean")
    with pytest.raises(AttributeError):
        _ = op.Frobnicate


# --- windows, against PyTorch

IMAGE, VOLUME = normal(2, 4, 9, 7), normal(1, 2, 5, 6, 7)


def _torch_cases(torch: Any) -> dict[str, tuple[Any, Any]]:
    f, t = torch.nn.functional, torch.from_numpy
    w, b, g, v = normal(6, 4, 3, 5), normal(6), normal(6, 2, 3, 3), normal(3, 2, 3, 3, 3)
    up = normal(4, 3, 3, 3)
    image, volume = t(IMAGE), t(VOLUME)
    last = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))
    return {
        "conv same": (op.Conv2d("", IMAGE, w, b), f.conv2d(image, t(w), t(b), padding=(1, 2))),
        "conv strided": (
            op.Conv2d("", IMAGE, w, stride=2, padding=[1, 2, 0, 1], dilation=1),
            f.conv2d(f.pad(image, (1, 2, 0, 1)), t(w), stride=2),
        ),
        "conv grouped": (
            op.Conv2d("", IMAGE, g, groups=2, dilation=2, padding=2),
            f.conv2d(image, t(g), groups=2, dilation=2, padding=2),
        ),
        "conv channel last": (
            op.Conv2d("", last, w, b, channel_last=True),
            f.conv2d(image, t(w), t(b), padding=(1, 2)).permute(0, 2, 3, 1),
        ),
        "transposed": (
            op.Conv2dTranspose("", IMAGE, up, stride=2, padding=1),
            f.conv_transpose2d(image, t(up), stride=2, padding=1),
        ),
        "transposed in groups": (
            op.Conv2dTranspose("", IMAGE, up, groups=2, padding=0, dilation=2),
            f.conv_transpose2d(image, t(up), groups=2, dilation=2),
        ),
        "conv of a volume": (op.Conv3d("", VOLUME, v, padding=1), f.conv3d(volume, t(v), padding=1)),
        "max 1d": (op.MaxPool1d("", IMAGE[0], 3, 2, 1), f.max_pool1d(image[0], 3, 2, 1)),
        "max 2d": (op.MaxPool2d("", IMAGE, 3, 2), f.max_pool2d(image, 3, 2, 1)),
        "max 2d, rounded up": (
            op.MaxPool2d("", IMAGE, 2, 2, padding=0, ceil_mode=True),
            f.max_pool2d(image, 2, 2, ceil_mode=True),
        ),
        "max 3d": (op.MaxPool3d("", VOLUME, 3, 2, padding=1), f.max_pool3d(volume, 3, 2, 1)),
        "mean 1d": (op.AvgPool1d("", IMAGE[0], 3, 2, padding=1), f.avg_pool1d(image[0], 3, 2, 1)),
        "mean 2d": (op.AvgPool2d("", IMAGE, (3, 2), 2, padding=0), f.avg_pool2d(image, (3, 2), 2)),
        "mean 2d, rounded up": (
            op.AvgPool2d("", IMAGE, 2, 2, padding=1, ceil_mode=True),
            f.avg_pool2d(image, 2, 2, 1, ceil_mode=True),
        ),
        "mean 2d without padding": (
            op.AvgPool2d("", IMAGE, 3, 1, padding=1, count_include_pad=False),
            f.avg_pool2d(image, 3, 1, 1, count_include_pad=False),
        ),
        "nearest": (op.Resize2d("", IMAGE, (18, 14)), f.interpolate(image, (18, 14))),
        "bilinear": (op.Resize2d("", IMAGE, (18, 14), "bilinear"), f.interpolate(image, (18, 14), mode="bilinear")),
        "bilinear to the corners": (
            op.Resize2d("", IMAGE, (18, 14), "bilinear", True),
            f.interpolate(image, (18, 14), mode="bilinear", align_corners=True),
        ),
        "nearest of a volume": (op.Resize3d("", VOLUME, (10, 12, 14)), f.interpolate(volume, (10, 12, 14))),
    }


@pytest.mark.slow
def test_windows_are_pytorchs() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for name, (got, expected) in _torch_cases(torch).items():
        a, b = np.asarray(got), expected.numpy()
        assert a.shape == b.shape, name
        assert np.allclose(a, b, rtol=1e-4, atol=1e-5), name


def test_windows_of_small_images_are_counted_by_hand() -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    assert np.array_equal(op.MaxPool2d("", x, 2, 2, padding=0), [[[[5, 7], [13, 15]]]])
    assert np.array_equal(op.AvgPool2d("", x, 2, 2, padding=0), [[[[2.5, 4.5], [10.5, 12.5]]]])
    assert np.array_equal(op.Resize2d("", x, (8, 8))[0, 0, :2, :4], [[0, 0, 1, 1], [0, 0, 1, 1]])
    ones = np.ones((1, 1, 3, 3), np.float32)
    assert np.array_equal(op.Conv2d("", x, ones, padding=0), [[[[45, 54], [81, 90]]]])
    assert op.Conv2dTranspose("", x, ones, stride=2, padding=0).shape == (1, 1, 9, 9)

"""Device cases of our own, by op: for each op of which the specification's stored cases have none for the device."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.compiler.tests import programs


@dataclass(frozen=True)
class OwnCase:
    """A module of one function, what goes in, and a formula of what comes out."""

    signature: str
    body: str
    inputs: tuple[np.ndarray, ...]
    formula: Callable[..., Any]
    """Of the inputs; a tuple where the function has several results."""
    functions: str = ""
    """Beside `main`."""

    def source(self) -> str:
        """The module as text."""
        return self.functions + programs.module(self.body, self.signature)


X = programs.random((2, 3))
POSITIVE = np.abs(X) + 0.5
INSIDE = X / 2.5
HALVES = np.array([0.5, 1.5, -0.5, -2.5, 2.4], np.float32)
N = np.array([0, 1, 255, -1, 2**30], np.int32)
IMAGES, SCALE, SHIFT = programs.random((4, 2, 3), 1), programs.random((3,), 2), programs.random((3,), 3)
MEAN, VARIANCE = programs.random((3,), 4), np.abs(programs.random((3,), 5)) + 0.5
SYMMETRIC = np.array([[4, 1, 0.5], [1, 3, 1], [0.5, 1, 2]], np.float32)
SHAPE = "%s = stablehlo.constant dense<[2, 4, 3]> : tensor<3xi32>\n"
EPSILON = "epsilon = 1.0e-3 : f32, feature_index = 2 : i64"
BATCH, CHANNELS = "tensor<4x2x3xf32>", "tensor<3xf32>"
QUANTISED = "tensor<2x3x!quant.uniform<i8:f32, 0.05:3>>"


def unary(op: str, formula: Callable[[Any], Any], x: np.ndarray = X) -> OwnCase:
    """One operand and a result of its shape; chlo writes its types as a function's."""
    kind = f"tensor<{'x'.join(map(str, x.shape))}x{'i32' if x.dtype == np.int32 else 'f32'}>"
    types = f"{kind} -> {kind}" if op.startswith("chlo.") else kind
    return OwnCase(f"(%x: {kind}) -> {kind}", f"%0 = {op} %x : {types}\nreturn %0 : {kind}", (x,), formula)


def each(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    """A function of one number, on arrays."""
    return np.vectorize(function, otypes=[np.float32])


def erf_inv(y: np.ndarray) -> np.ndarray:
    """By Newton's method on `math.erf`."""
    x = np.zeros(y.shape)
    for _ in range(40):
        x -= (each(math.erf)(x) - y) / (2 / math.sqrt(math.pi) * np.exp(-x * x))
    return x


def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each channel."""
    return x.mean((0, 1)), x.var((0, 1))


def normalised(x: np.ndarray, scale: Any, shift: Any, mean: Any, variance: Any) -> np.ndarray:
    """A batch norm."""
    return (x - mean) / np.sqrt(variance + 1e-3) * scale + shift


def batch_norm_grad(x: Any, scale: Any, mean: Any, variance: Any, grad: Any) -> tuple[Any, ...]:
    """As the specification has it."""
    size = x[..., 0].size
    inverse = 1 / np.sqrt(variance + 1e-3)
    hat = (x - mean) * inverse
    total, along = grad.sum((0, 1)), (grad * hat).sum((0, 1))
    return scale * inverse / size * (size * grad - total - hat * along), along, total


def quantised(x: np.ndarray) -> np.ndarray:
    """What 8 bits keep of it."""
    return (np.clip(np.rint(x / np.float32(0.05)) + 3, -128, 127) - 3) * 0.05


CASES: dict[str, OwnCase] = {
    "chlo.acos": unary("chlo.acos", np.arccos, INSIDE),
    "chlo.acosh": unary("chlo.acosh", np.arccosh, POSITIVE + 1),
    "chlo.asin": unary("chlo.asin", np.arcsin, INSIDE),
    "chlo.atan": unary("chlo.atan", np.arctan),
    "chlo.atanh": unary("chlo.atanh", np.arctanh, INSIDE),
    "chlo.erf_inv": unary("chlo.erf_inv", erf_inv, INSIDE),
    "chlo.square": unary("chlo.square", np.square),
    "stablehlo.logistic": unary("stablehlo.logistic", lambda x: 1 / (1 + np.exp(-x))),
    "stablehlo.round_nearest_even": unary("stablehlo.round_nearest_even", np.rint, HALVES),
    "stablehlo.rsqrt": unary("stablehlo.rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE),
    "stablehlo.sqrt": unary("stablehlo.sqrt", np.sqrt, POSITIVE),
    "stablehlo.tan": unary("stablehlo.tan", np.tan, INSIDE),
    "stablehlo.real": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<2x3xf32>",
        "%0 = stablehlo.real %x : (tensor<2x3xf32>) -> tensor<2x3xf32>\nreturn %0 : tensor<2x3xf32>",
        (X,),
        lambda x: x,
    ),
    "stablehlo.imag": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<2x3xf32>",
        "%0 = stablehlo.imag %x : (tensor<2x3xf32>) -> tensor<2x3xf32>\nreturn %0 : tensor<2x3xf32>",
        (X,),
        np.zeros_like,
    ),
    "stablehlo.count_leading_zeros": unary(
        "stablehlo.count_leading_zeros",
        lambda n: np.array([32 - int(v).bit_length() for v in n.view(np.uint32)], np.int32),
        N,
    ),
    "stablehlo.cholesky": OwnCase(
        "(%x: tensor<3x3xf32>) -> tensor<3x3xf32>",
        """%0 = "stablehlo.cholesky"(%x) <{lower = true}> : (tensor<3x3xf32>) -> tensor<3x3xf32>
           %z = stablehlo.constant dense<0.0> : tensor<3x3xf32>
           %i = stablehlo.iota dim = 0 : tensor<3x3xi32>
           %j = stablehlo.iota dim = 1 : tensor<3x3xi32>
           %m = stablehlo.compare GE, %i, %j : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
           %1 = stablehlo.select %m, %0, %z : tensor<3x3xi1>, tensor<3x3xf32>
           return %1 : tensor<3x3xf32>""",
        (SYMMETRIC,),
        np.linalg.cholesky,
    ),
    "stablehlo.broadcast": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<4x2x3xf32>",
        """%0 = "stablehlo.broadcast"(%x) <{broadcast_sizes = array<i64: 4>}> : (tensor<2x3xf32>) -> tensor<4x2x3xf32>
           return %0 : tensor<4x2x3xf32>""",
        (X,),
        lambda x: np.broadcast_to(x, (4, 2, 3)),
    ),
    "stablehlo.dot": OwnCase(
        "(%x: tensor<2x3xf32>, %y: tensor<3x3xf32>) -> tensor<2x3xf32>",
        """%0 = "stablehlo.dot"(%x, %y) : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
           return %0 : tensor<2x3xf32>""",
        (X, SYMMETRIC),
        np.matmul,
    ),
    "stablehlo.map": OwnCase(
        "(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32>",
        """%0 = "stablehlo.map"(%x, %y) <{dimensions = array<i64: 0, 1>}> ({
             ^bb0(%a: tensor<f32>, %b: tensor<f32>):
               %s = stablehlo.subtract %a, %b : tensor<f32>
               %m = stablehlo.multiply %s, %a : tensor<f32>
               stablehlo.return %m : tensor<f32>
           }) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
           return %0 : tensor<2x3xf32>""",
        (X, POSITIVE),
        lambda x, y: (x - y) * x,
    ),
    "stablehlo.if": OwnCase(
        "(%p: tensor<i1>, %x: tensor<2x3xf32>) -> tensor<2x3xf32>",
        """%0 = "stablehlo.if"(%p) ({
             %a = stablehlo.add %x, %x : tensor<2x3xf32>
             stablehlo.return %a : tensor<2x3xf32>
           }, {
             stablehlo.return %x : tensor<2x3xf32>
           }) : (tensor<i1>) -> tensor<2x3xf32>
           return %0 : tensor<2x3xf32>""",
        (np.array(True), X),
        lambda p, x: x + x if p else x,
    ),
    "stablehlo.case": OwnCase(
        "(%i: tensor<i32>, %x: tensor<2x3xf32>) -> tensor<2x3xf32>",
        """%0 = "stablehlo.case"(%i) ({
             stablehlo.return %x : tensor<2x3xf32>
           }, {
             %a = stablehlo.negate %x : tensor<2x3xf32>
             stablehlo.return %a : tensor<2x3xf32>
           }, {
             %a = stablehlo.add %x, %x : tensor<2x3xf32>
             stablehlo.return %a : tensor<2x3xf32>
           }) : (tensor<i32>) -> tensor<2x3xf32>
           return %0 : tensor<2x3xf32>""",
        (np.array(1, np.int32), X),
        lambda i, x: (x, -x, x + x)[int(i)],
    ),
    "stablehlo.batch_norm_inference": OwnCase(
        f"(%x: {BATCH}, %s: {CHANNELS}, %o: {CHANNELS}, %m: {CHANNELS}, %v: {CHANNELS}) -> {BATCH}",
        f"""%0 = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) <{{{EPSILON}}}>
              : ({BATCH}, {CHANNELS}, {CHANNELS}, {CHANNELS}, {CHANNELS}) -> {BATCH}
            return %0 : {BATCH}""",
        (IMAGES, SCALE, SHIFT, MEAN, VARIANCE),
        normalised,
    ),
    "stablehlo.batch_norm_training": OwnCase(
        f"(%x: {BATCH}, %s: {CHANNELS}, %o: {CHANNELS}) -> ({BATCH}, {CHANNELS}, {CHANNELS})",
        f"""%0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) <{{{EPSILON}}}>
              : ({BATCH}, {CHANNELS}, {CHANNELS}) -> ({BATCH}, {CHANNELS}, {CHANNELS})
            return %0#0, %0#1, %0#2 : {BATCH}, {CHANNELS}, {CHANNELS}""",
        (IMAGES, SCALE, SHIFT),
        lambda x, s, o: (normalised(x, s, o, *moments(x)), *moments(x)),
    ),
    "stablehlo.batch_norm_grad": OwnCase(
        f"(%x: {BATCH}, %s: {CHANNELS}, %m: {CHANNELS}, %v: {CHANNELS}, %g: {BATCH})"
        f" -> ({BATCH}, {CHANNELS}, {CHANNELS})",
        f"""%0:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) <{{{EPSILON}}}>
              : ({BATCH}, {CHANNELS}, {CHANNELS}, {CHANNELS}, {BATCH}) -> ({BATCH}, {CHANNELS}, {CHANNELS})
            return %0#0, %0#1, %0#2 : {BATCH}, {CHANNELS}, {CHANNELS}""",
        (IMAGES, SCALE, *moments(IMAGES), programs.random((4, 2, 3), 6)),
        batch_norm_grad,
    ),
    "stablehlo.uniform_quantize": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<2x3xf32>",
        f"""%0 = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> {QUANTISED}
            %1 = stablehlo.uniform_dequantize %0 : ({QUANTISED}) -> tensor<2x3xf32>
            return %1 : tensor<2x3xf32>""",
        (X,),
        quantised,
    ),
    "stablehlo.optimization_barrier": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<2x3xf32>",
        """%0:2 = stablehlo.optimization_barrier %x, %x : tensor<2x3xf32>, tensor<2x3xf32>
           %1 = stablehlo.add %0#0, %0#1 : tensor<2x3xf32>
           return %1 : tensor<2x3xf32>""",
        (X,),
        lambda x: x + x,
    ),
    "stablehlo.after_all": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<2x3xf32>",
        """%t = stablehlo.create_token : !stablehlo.token
           %u = stablehlo.after_all %t, %t : !stablehlo.token
           %0 = stablehlo.add %x, %x : tensor<2x3xf32>
           return %0 : tensor<2x3xf32>""",
        (X,),
        lambda x: x + x,
    ),
    "stablehlo.tuple": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<2x3xf32>",
        """%n = stablehlo.negate %x : tensor<2x3xf32>
           %t = stablehlo.tuple %x, %n : tuple<tensor<2x3xf32>, tensor<2x3xf32>>
           %0 = stablehlo.get_tuple_element %t[1] : (tuple<tensor<2x3xf32>, tensor<2x3xf32>>) -> tensor<2x3xf32>
           return %0 : tensor<2x3xf32>""",
        (X,),
        np.negative,
    ),
    "stablehlo.async_start": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<2x3xf32>",
        """%0 = "stablehlo.async_start"(%x) ({
             ^bb0(%a: tensor<2x3xf32>):
               %2 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64,
                 replica_groups = dense<[[0]]> : tensor<1x1xi64>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
               stablehlo.return %2 : tensor<2x3xf32>
           }) : (tensor<2x3xf32>) -> !stablehlo.future<tensor<2x3xf32>>
           %1 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<2x3xf32>>) -> tensor<2x3xf32>
           %3 = stablehlo.add %1, %x : tensor<2x3xf32>
           return %3 : tensor<2x3xf32>""",
        (X,),
        lambda x: x + x,
    ),
    "stablehlo.composite": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<2x3xf32>",
        """%0 = stablehlo.composite "mine.twice" %x {decomposition = @twice} : (tensor<2x3xf32>) -> tensor<2x3xf32>
           return %0 : tensor<2x3xf32>""",
        (X,),
        lambda x: x + x,
        """func.func private @twice(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
             %0 = stablehlo.add %x, %x : tensor<2x3xf32>
             return %0 : tensor<2x3xf32>
           }\n""",
    ),
    "stablehlo.custom_call": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<2x2xf32>",
        """%0:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = true}}
             : (tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
           return %0#0 : tensor<2x2xf32>""",
        (X,),
        lambda x: -np.sort(-x)[:, :2],
    ),
    "stablehlo.get_dimension_size": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<i32>",
        """%0 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
           return %0 : tensor<i32>""",
        (X,),
        lambda x: np.array(3, np.int32),
    ),
    "stablehlo.rng": OwnCase(
        "() -> tensor<64xf32>",
        """%l = stablehlo.constant dense<2.0> : tensor<f32>
           %h = stablehlo.constant dense<5.0> : tensor<f32>
           %s = stablehlo.constant dense<64> : tensor<1xi64>
           %0 = stablehlo.rng %l, %h, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>)
             -> tensor<64xf32>
           %1 = stablehlo.clamp %l, %0, %h : (tensor<f32>, tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
           %2 = stablehlo.compare EQ, %0, %1 : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xi1>
           %3 = stablehlo.convert %2 : (tensor<64xi1>) -> tensor<64xf32>
           return %3 : tensor<64xf32>""",
        (),
        lambda: np.ones(64, np.float32),
    ),
    "stablehlo.dynamic_broadcast_in_dim": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<?x?x?xf32>",
        SHAPE
        + """%0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 2]
             : (tensor<2x3xf32>, tensor<3xi32>) -> tensor<?x?x?xf32>
           return %0 : tensor<?x?x?xf32>""",
        (X,),
        lambda x: np.broadcast_to(x[:, None], (2, 4, 3)),
    ),
    "stablehlo.dynamic_iota": OwnCase(
        "() -> tensor<?x?x?xi32>",
        SHAPE + "%0 = stablehlo.dynamic_iota %s, dim = 1 : (tensor<3xi32>) -> tensor<?x?x?xi32>\n"
        "return %0 : tensor<?x?x?xi32>",
        (),
        lambda: np.broadcast_to(np.arange(4, dtype=np.int32)[:, None], (2, 4, 3)),
    ),
    "stablehlo.dynamic_reshape": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<?x?xf32>",
        """%s = stablehlo.constant dense<[3, 2]> : tensor<2xi32>
           %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<?x?xf32>
           return %0 : tensor<?x?xf32>""",
        (X,),
        lambda x: x.reshape(3, 2),
    ),
    "stablehlo.real_dynamic_slice": OwnCase(
        "(%x: tensor<2x3xf32>, %b: tensor<2xi32>, %e: tensor<2xi32>) -> tensor<2x2xf32>",
        """%i = stablehlo.constant dense<1> : tensor<2xi32>
           %0 = stablehlo.real_dynamic_slice %x, %b, %e, %i
             : (tensor<2x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x2xf32>
           return %0 : tensor<2x2xf32>""",
        (X, np.array([0, 1], np.int32), np.array([2, 3], np.int32)),
        lambda x, b, e: x[b[0] : e[0], b[1] : e[1]],
    ),
    "stablehlo.dynamic_pad": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<?x?xf32>",
        """%l = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
           %h = stablehlo.constant dense<[0, 2]> : tensor<2xi32>
           %i = stablehlo.constant dense<0> : tensor<2xi32>
           %v = stablehlo.constant dense<7.0> : tensor<f32>
           %0 = stablehlo.dynamic_pad %x, %v, %l, %h, %i
             : (tensor<2x3xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
           return %0 : tensor<?x?xf32>""",
        (X,),
        lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=7),
    ),
    "stablehlo.dynamic_gather": OwnCase(
        "(%x: tensor<2x3xf32>) -> tensor<3x3xf32>",
        """%i = stablehlo.constant dense<[[1], [0], [1]]> : tensor<3x1xi32>
           %z = stablehlo.constant dense<[1, 3]> : tensor<2xi32>
           %0 = "stablehlo.dynamic_gather"(%x, %i, %z) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
             collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}>
             : (tensor<2x3xf32>, tensor<3x1xi32>, tensor<2xi32>) -> tensor<3x3xf32>
           return %0 : tensor<3x3xf32>""",
        (X,),
        lambda x: x[[1, 0, 1]],
    ),
    "stablehlo.dynamic_conv": OwnCase(
        "(%a: tensor<1x5x1xf32>, %k: tensor<3x1x1xf32>) -> tensor<1x5x1xf32>",
        """%p = stablehlo.constant dense<[[1, 1]]> : tensor<1x2xi32>
           %0 = "stablehlo.dynamic_conv"(%a, %k, %p) <{
               batch_group_count = 1 : i64, feature_group_count = 1 : i64,
               dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>}>
             : (tensor<1x5x1xf32>, tensor<3x1x1xf32>, tensor<1x2xi32>) -> tensor<1x5x1xf32>
           return %0 : tensor<1x5x1xf32>""",
        (programs.random((1, 5, 1), 1), programs.random((3, 1, 1), 2)),
        lambda a, k: np.correlate(a.ravel(), k.ravel(), "same").reshape(1, 5, 1),
    ),
}
"""The op that a case is for -> the case."""

"""Elementwise kernels: one row per name with its float and its integer function.

Float32 operands are unpacked straight to Dst and computed by the SFPU in float32; narrower floats are computed in
float32 too and rounded when packed. Multiplication of formats narrower than bfloat16 runs on the matrix unit
(ELWMUL), where the fidelity's phases read the mantissas in parts; of bfloat16 on the vector unit, as ttnn's does.
Integers are computed exactly in the element
type's own width. Operands broadcast as in NumPy. Error bounds are measured against float64 (tests/test_eltwise.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opscope.compiler.target.formats import FORMATS, host_dtype
from opscope.compiler.target.program import EltwiseParams, Numerics, TensorDesc
from opscope.compiler.target.rare_values import has_nan, has_special, has_tiny, once
from opscope.compiler.target.rounding import as_number, bits, flush, keep_bits, to_mantissa
from opscope.simulator.kernels import integer, special
from opscope.simulator.kernels.addition_order import PHASES, aligned, elementwise_product, overflowed
from opscope.simulator.kernels.approximate import approximation
from opscope.simulator.kernels.real import functions, powers, trigonometry, vector_unit
from opscope.simulator.kernels.registry import MEASURED, PASS, Call, Images, keeps_bits, kernel, params_of

Function = Callable[..., Any]

SRC_A_HIGH, SRC_A_FULL = 0xFFF80000, 0xFFFFC000
"""Bits of a float32 image that SrcA's first phase reads, and all its phases together (TF32's last bit: never)."""
SRC_B_HIGH, SRC_B_FULL = 0xFFFE0000, 0xFFFFE000
"""The same for SrcB (tt-isa-documentation, WormholeB0, ELWMUL.md)."""


ROUNDS_BEFORE_STORE = frozenset(
    (
        "exp",
        "expm1",
        "tanh",
        "sigmoid",
        "silu",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "pow_tensor",
        "atan2",
        "divide",
        "reciprocal",
        "sqrt",
        "rsqrt",
        "log",
        "log1p",
        "log2",
        "gelu",
        "sin",
        "cos",
        "tan",
        "cbrt",
        "asinh",
        "acosh",
        "exp2",
        "square",
        "atanh",
    )
)
"""Functions that tt-metal's kernels round to bfloat16 themselves where Dst has 16 bits (`float_to_fp16b`: nearest,
ties away), because SFPSTORE would cut them (SFPSTORE.md). Results of all others are cut."""
INVALID = frozenset(
    ("sqrt", "rsqrt", "log", "log1p", "log2", "asin", "acos", "acosh", "atanh", "sin", "cos", "tan", "erfinv", "divide")
)
"""Functions that make a NaN of numbers: the vector unit's is positive, the host's processor's may be negative."""
ADDING = frozenset(("add", "subtract", "frac"))
"""The same of those that make it of infinities alone, or take an operand's: seen to in exact order."""


SHOWING = frozenset(("add", "subtract", "maximum", "minimum"))
"""Functions whose results show where an operand was a denormal or -0 (`_as_they_are`)."""
SMALL = 27 << 23
"""Bit pattern of 2^-100."""
ON_TRUTH = frozenset(("logical_and", "logical_or", "logical_xor"))
ROW = 1 << 10
PART = 1 << 15
"""Elements that the device's own functions are computed of together."""


def operands(images: Images, call: Call) -> Images:
    """The inputs as the unit sees them: floats with denormals flushed, integers in the element type's own width."""
    return [_operand(image, desc, call) for image, desc in zip(images, call.inputs, strict=True)]


def _operand(image: np.ndarray, desc: TensorDesc, call: Call) -> np.ndarray:
    data_format = FORMATS[desc.data_format]
    if data_format.is_float:
        if data_format.exponent_bits < 8 and np.isnan(image).any():
            # A host's NaN in a format that has none is a number of the highest binade.
            image = np.where(np.isnan(image), as_number(image, data_format).astype(np.float32), image)
        if data_format.exponent_bits < 8 and data_format.kind == "float":
            # Their denormals are none of float32.
            image = np.where(np.abs(image) < 2.0 ** (2 - 2 ** (data_format.exponent_bits - 1)), np.float32(0), image)
        return call.arithmetic.operand(image)
    if desc.element_type == "i1":
        return image
    return image.astype(host_dtype(desc.element_type), copy=False)


def _register(
    name: str,
    functions: tuple[Function | None, Function | None],
    arity: int,
    max_ulp: float,
    unit: str,
    cycles: tuple[str, ...],
) -> None:
    """Registers a kernel that applies its function of floats or that of integers, by the type of its last operand."""
    on_float, on_int = functions

    def run(images: Images, call: Call) -> np.ndarray:
        if name in SHOWING and on_float is not None and (result := _as_they_are(on_float, images, call)) is not None:
            if name in ADDING and call.arithmetic.exact_order:
                result = with_positive_nan(result)
            return _without_nan(result, on_float, images, call) if unit == "fpu" else result
        args = images if keeps_bits(name, call) else operands(images, call)
        function = on_float if args[-1].dtype.kind == "f" else on_int
        if function is None:
            kind = "floats" if args[-1].dtype.kind == "f" else "integers"
            raise TypeError(f"{name}: expected operands of a type it has, got {kind}")
        if call.numerics.math_approx and args[-1].dtype.kind == "f":
            function = approximation(name, call.arithmetic.arch) or function
        is_exact = call.arithmetic.exact_order and args[-1].dtype.kind == "f"
        if unit == "fpu" and is_exact and on_float is function and _is_narrow(call):
            function = functools.partial(aligned, function)
        elif is_exact and function is on_float:
            if (real := _real(name, call)) is not None:
                return real(*images)
            function = EXTREMES.get(name, function)
            args = images if name in ON_TRUTH else args  # a denormal is not 0
        result = function(*args)
        if args[-1].dtype.kind == "f" and (name in INVALID or (name in ADDING and call.arithmetic.exact_order)):
            result = with_positive_nan(result)
        return _without_nan(result, function, images, call) if unit == "fpu" else result

    run.__name__ = name
    rounds = unit != "sfpu" or name in ROUNDS_BEFORE_STORE
    kernel(name, EltwiseParams, arity=arity, max_ulp=max_ulp, unit=unit, rounds=rounds, cycles=cycles)(run)


REAL: dict[str, Function] = {**functions.FUNCTIONS, **powers.FUNCTIONS, **trigonometry.FUNCTIONS}
"""The device's own functions of float32 and bfloat16, by the kernel's name."""


def _real(name: str, call: Call) -> Function | None:
    """The device's own function of operands as they are, if it is known and they have float32's exponents."""
    known = [real_function(name, desc.data_format, call.numerics) for desc in call.inputs]
    return known[0] if all(known) else None


def real_function(name: str, data_format: str, numerics: Numerics) -> Function | None:
    """The device's own function of values of a format, if it is known and they have float32's exponents."""
    if name not in REAL or FORMATS[data_format].exponent_bits != 8:
        return None
    function = functools.partial(REAL[name], wide=numerics.dst_format == "Float32")
    return lambda *images: _in_parts(function, images)


def _in_parts(function: Function, images: Sequence[np.ndarray]) -> np.ndarray:
    """`function` of parts that fit a cache, of which it goes through dozens of steps: a third of the time."""
    size, shape = images[0].size, images[0].shape
    if size <= PART or any(image.shape != shape for image in images):
        return function(*images)
    flat = [np.ascontiguousarray(image).reshape(-1) for image in images]
    out = np.empty(shape, np.float32)
    whole = out.reshape(-1)
    for start in range(0, size, PART):
        whole[start : start + PART] = function(*(x[start : start + PART] for x in flat))
    return out


def with_positive_nan(x: np.ndarray) -> np.ndarray:
    """`x` with the NaN that the vector unit makes of numbers without one."""
    return np.where(np.isnan(x), np.float32(np.nan), x) if has_nan(bits(x)) else x


def _is_narrow(call: Call) -> bool:
    """Whether no operand has 32 bits, so that the matrix unit adds."""
    return all(desc.data_format != "Float32" for desc in call.inputs)


def _of_patterns(choose: Function) -> Function:
    """The larger or smaller of two in the order of their bit patterns, as SFPSWAP compares: NaN is above Inf."""

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = np.broadcast_arrays(a, b)
        first, second = (np.where(x < 0, x ^ np.int32(0x7FFFFFFF), x) for x in (bits(v).view(np.int32) for v in (a, b)))
        return np.where(choose(first, second), a, b)

    return run


EXTREMES: dict[str, Function] = {"maximum": _of_patterns(np.greater_equal), "minimum": _of_patterns(np.less_equal)}
"""The two as the device has them for NaN and zeros too."""


def _as_they_are(function: Function, images: Images, call: Call) -> np.ndarray | None:
    """The result of operands in which no denormal is looked for, or None where one could have made a difference.

    One look at the result stands for a look at each operand: a denormal shows in a sum as a number below 2^-100, since
    to a larger one it adds less than half a unit, in the larger of two as itself, and -0 as -0.
    """
    formats = [FORMATS[desc.data_format] for desc in call.inputs]
    if call.arithmetic.keeps_sign_of_zero or not all(f.is_float and f.exponent_bits == 8 for f in formats):
        return None
    result = function(*images)
    return None if has_tiny(bits(result), SMALL) else result


def _by_rows(function: Function) -> Function:
    """`function` of an array and a scalar by rows: NumPy's loop for scalars takes three times as long."""

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        pair = [once(np.asarray(x)) for x in (a, b)]
        whole = next((x for x in pair if x.size > ROW and x.size % ROW == 0 and x.flags.c_contiguous), None)
        if (
            whole is None
            or min(x.size for x in pair) != 1
            or whole.shape != np.broadcast_shapes(np.shape(a), np.shape(b))
        ):
            return function(a, b)
        rows = [x.reshape(-1, ROW) if x.size > 1 else np.full(ROW, x.reshape(-1)[0], x.dtype) for x in pair]
        out = np.empty(whole.shape, whole.dtype)  # an array of its own, no view: it is handed over uncopied
        function(*rows, out=out.reshape(-1, ROW))
        return out

    return run


def _without_nan(result: np.ndarray, function: Function, images: Images, call: Call) -> np.ndarray:
    """`result`, computed again where it is not finite and its operands are narrower than 32 bits: these the matrix unit
    computes, for which exponent 255 is a number and a result too large is Inf (FloatBitPatterns.md).
    """
    formats = [FORMATS[desc.data_format] for desc in call.inputs]
    if result.dtype.kind != "f" or any(f.name == "Float32" for f in formats) or not has_special(bits(result)):
        return result
    total = function(*(as_number(flush(image), f) for image, f in zip(images, formats, strict=True)))
    return np.where(np.isfinite(result), result, overflowed(total))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.float32(1) / (np.float32(1) + np.exp(-x))


def _round_afz(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= np.float32(0.5), whole + np.sign(x), whole)


def _on_truth_values(function: Function) -> Function:
    return lambda *args: function(*(arg != 0 for arg in args))


_larger, _smaller = _by_rows(np.maximum), _by_rows(np.minimum)

UNARY: tuple[tuple[str, Function | None, Function | None, float, tuple[str, ...]], ...] = (
    ("abs", np.abs, np.abs, 0, MEASURED),
    ("neg", np.negative, np.negative, 0, PASS),
    ("sign", np.sign, np.sign, 0, PASS),
    ("ceil", np.ceil, None, 0, PASS),
    ("floor", np.floor, None, 0, PASS),
    ("trunc", np.trunc, None, 0, PASS),
    ("frac", lambda x: x - np.trunc(x), None, 0, PASS),
    ("round_even", np.rint, None, 0, PASS),
    ("round_afz", _round_afz, None, 0, PASS),
    ("exp", np.exp, None, 4, MEASURED),
    ("exp2", np.exp2, None, 4, ("exp",)),
    ("expm1", np.expm1, None, 4, ("exp",)),
    ("log", np.log, None, 4, MEASURED),
    ("log1p", np.log1p, None, 4, ("log",)),
    ("log2", np.log2, None, 4, ("log",)),
    ("sqrt", np.sqrt, None, 1, MEASURED),
    ("rsqrt", lambda x: np.float32(1) / np.sqrt(x), None, 2, ("sqrt", "reciprocal")),
    ("cbrt", np.cbrt, None, 2, ("log", "exp")),
    ("reciprocal", lambda x: np.float32(1) / x, None, 1, MEASURED),
    ("square", np.square, np.square, 1, MEASURED),
    ("sin", np.sin, None, 4, MEASURED),
    ("cos", np.cos, None, 4, MEASURED),
    ("tan", np.tan, None, 4, ("sin",)),
    ("asin", np.arcsin, None, 4, PASS),
    ("acos", np.arccos, None, 4, PASS),
    ("atan", np.arctan, None, 4, PASS),
    ("sinh", np.sinh, None, 4, PASS),
    ("cosh", np.cosh, None, 4, PASS),
    ("asinh", np.arcsinh, None, 4, PASS),
    ("acosh", np.arccosh, None, 4, PASS),
    ("atanh", np.arctanh, None, 4, PASS),
    ("tanh", np.tanh, None, 4, MEASURED),
    ("sigmoid", _sigmoid, None, 4, MEASURED),
    ("silu", lambda x: x * _sigmoid(x), None, 6, ("sigmoid", "maximum")),
    ("relu", lambda x: _larger(x, np.float32(0)), lambda x: np.maximum(x, x.dtype.type(0)), 0, ("maximum",)),
    ("relu6", lambda x: np.clip(x, np.float32(0), np.float32(6)), None, 0, PASS),
    ("hardsigmoid", lambda x: np.clip(x + np.float32(3), np.float32(0), np.float32(6)) / np.float32(6), None, 2, PASS),
    ("erf", special.erf, None, 4, ("exp", "reciprocal")),
    ("erfc", special.erfc, None, 4, ("exp", "reciprocal")),
    ("erfinv", special.erfinv, None, 4, ("log", "sqrt")),
    ("softsign", lambda x: x / (np.float32(1) + np.abs(x)), None, 2, PASS),
    ("isfinite", np.isfinite, None, 0, PASS),
    ("signbit", np.signbit, None, 0, PASS),
    ("logical_not", _on_truth_values(np.logical_not), _on_truth_values(np.logical_not), 0, PASS),
    ("popcnt", None, integer.popcnt, 0, PASS),
    ("count_leading_zeros", None, integer.count_leading_zeros, 0, PASS),
)
"""Name, float function, integer function, error bound in ulp, kernels that it costs as much as."""

BINARY: tuple[tuple[str, Function | None, Function | None, float, str, tuple[str, ...]], ...] = (
    ("add", np.add, np.add, 0.5, "fpu", MEASURED),
    ("subtract", np.subtract, np.subtract, 0.5, "fpu", MEASURED),
    ("divide", np.divide, integer.divide, 1, "sfpu", ("reciprocal", "maximum")),
    ("remainder", np.fmod, integer.remainder, 1, "sfpu", ("reciprocal", "maximum")),
    ("maximum", _larger, np.maximum, 0, "sfpu", MEASURED),
    ("minimum", _smaller, np.minimum, 0, "sfpu", ("maximum",)),
    ("pow_tensor", np.power, integer.power, 4, "sfpu", ("pow_scalar",)),
    ("atan2", np.arctan2, None, 4, "sfpu", ("reciprocal", "sin")),
    ("eq", np.equal, np.equal, 0, "sfpu", PASS),
    ("ne", np.not_equal, np.not_equal, 0, "sfpu", PASS),
    ("lt", np.less, np.less, 0, "sfpu", PASS),
    ("le", np.less_equal, np.less_equal, 0, "sfpu", PASS),
    ("gt", np.greater, np.greater, 0, "sfpu", PASS),
    ("ge", np.greater_equal, np.greater_equal, 0, "sfpu", PASS),
    ("logical_and", _on_truth_values(np.logical_and), _on_truth_values(np.logical_and), 0, "sfpu", PASS),
    ("logical_or", _on_truth_values(np.logical_or), _on_truth_values(np.logical_or), 0, "sfpu", PASS),
    ("logical_xor", _on_truth_values(np.logical_xor), _on_truth_values(np.logical_xor), 0, "sfpu", PASS),
    ("bitwise_and", None, np.bitwise_and, 0, "sfpu", PASS),
    ("bitwise_or", None, np.bitwise_or, 0, "sfpu", PASS),
    ("bitwise_xor", None, np.bitwise_xor, 0, "sfpu", PASS),
    ("mulhi", None, integer.multiply_high, 0, "sfpu", PASS),
    ("logical_left_shift", None, integer.shift_left, 0, "sfpu", PASS),
    ("logical_right_shift", None, integer.shift_right_logical, 0, "sfpu", PASS),
    ("right_shift", None, integer.shift_right_arithmetic, 0, "sfpu", PASS),
    ("bitwise_right_shift", None, integer.shift_right_bounded, 0, "sfpu", PASS),
)
"""Name, float function, integer function, error bound in ulp, unit, kernels that it costs as much as."""

for _name, _on_float, _on_int, _ulp, _cycles in UNARY:
    _register(_name, (_on_float, _on_int), 1, _ulp, "sfpu", _cycles)
for _name, _on_float, _on_int, _ulp, _unit, _cycles in BINARY:
    _register(_name, (_on_float, _on_int), 2, _ulp, _unit, _cycles)


@kernel("gelu", EltwiseParams, max_ulp=4)
def gelu(images: Images, call: Call) -> np.ndarray:
    """x Phi(x); with a scalar that is not 0 the approximation by tanh, with `math_approx` that by lines."""
    (x,) = operands(images, call)
    lines = approximation("gelu", call.arithmetic.arch) if call.numerics.math_approx else None
    if lines is not None:
        return lines(x)
    name = "gelu_tanh" if any(params_of(call, EltwiseParams).scalars) else "gelu"
    real = _real(name, call) if call.arithmetic.exact_order else None
    return real(*images) if real is not None else ACTIVATIONS[name](x)


ACTIVATIONS: dict[str, Function] = {
    "relu": lambda x: _larger(x, np.float32(0)),
    "gelu": special.gelu,
    "gelu_tanh": special.gelu_tanh,
    "silu": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
}
"""What a product's results may pass while they are in Dst, by the kernel's name."""


@kernel("bitwise_not", EltwiseParams, cycles=PASS)
def bitwise_not(images: Images, call: Call) -> np.ndarray:
    """All bits inverted; of booleans: the other one."""
    if call.inputs[0].element_type == "i1":
        return images[0] == 0
    return np.invert(operands(images, call)[0])


@kernel("multiply", EltwiseParams, unit="fpu", arity=2, max_ulp=0.5)
def multiply(images: Images, call: Call) -> np.ndarray:
    """Product. Of bfloat16 it is the vector unit's, rounded to the nearest even where Dst has 16 bits; +0 times Inf or
    NaN is 0. Narrower floats have the phases of the fidelity (first operand in SrcA, second in SrcB)."""
    a, b = operands(images, call)
    if a.dtype.kind != "f":
        return np.multiply(a, b)
    if any(desc.data_format == "Float32" for desc in call.inputs):
        return vector_unit.multiply(a, b) if call.arithmetic.exact_order else np.multiply(a, b)
    if all(desc.data_format == "Float16_b" for desc in call.inputs):
        result = np.multiply(a, b)
        if has_nan(bits(result)):
            zeros = np.logical_or(*(bits(image) == 0 for image in images))
            result = np.where(zeros, np.float32(0), with_positive_nan(result))
        return to_mantissa(result, 7, "even") if call.numerics.dst_format == "Float16_b" else result
    if call.arithmetic.exact_order and all(FORMATS[desc.data_format].exponent_bits == 8 for desc in call.inputs):
        return elementwise_product(a, b, PHASES[call.numerics.fidelity], call.numerics.dst_format)
    function = functools.partial(_by_phases, call.numerics.fidelity)
    return _without_nan(function(a, b), function, images, call)


def _by_phases(fidelity: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of what the phases of a fidelity read of either operand; NaN or Inf where one is not finite."""
    a = _leading(a, SRC_A_FULL)
    if fidelity == "HiFi4":
        return a * b
    if fidelity == "HiFi2_B":
        return _leading(a, SRC_A_HIGH) * b
    high_b = _leading(b, SRC_B_HIGH)
    if fidelity == "LoFi":
        return _leading(a, SRC_A_HIGH) * high_b
    product = a * high_b
    return product + _leading(a, SRC_A_HIGH) * (b - high_b) if fidelity == "HiFi3" else product


def _leading(x: np.ndarray, mask: int) -> np.ndarray:
    """`x` with the bits of a mask of float32; of float64 with as many fraction bits."""
    if x.dtype == np.float32:
        return keep_bits(x, mask)
    wide = np.ascontiguousarray(x).view(np.uint64)
    return (wide & np.uint64(2**64 - (~mask & 0x7FFFFF) * 2**29 - 2**29)).view(np.float64)


@kernel("where", EltwiseParams, arity=3, cycles=PASS)
def where(images: Images, call: Call) -> np.ndarray:
    """The second operand where the first is not 0, else the third."""
    return np.where(images[0] != 0, images[1], images[2])


@kernel("clamp_tensor", EltwiseParams, arity=3, cycles=PASS)
def clamp_tensor(images: Images, call: Call) -> np.ndarray:
    """min(max(x, low), high) of operands (x, low, high); NaN stays."""
    x, low, high = operands(images, call)
    return np.minimum(np.maximum(x, low), high)


@kernel("clamp_scalar", EltwiseParams, cycles=PASS)
def clamp_scalar(images: Images, call: Call) -> np.ndarray:
    """min(max(x, low), high) with scalars (low, high)."""
    (x,) = operands(images, call)
    low, high = params_of(call, EltwiseParams).scalars
    if call.arithmetic.exact_order and x.dtype.kind == "f":
        return vector_unit.smaller(vector_unit.larger(x, np.float32(low)), np.float32(high))
    return np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))


@kernel("pow_scalar", EltwiseParams, max_ulp=4)
def pow_scalar(images: Images, call: Call) -> np.ndarray:
    """x to the power of a scalar."""
    (x,), scalar = operands(images, call), params_of(call, EltwiseParams).scalars[0]
    if call.arithmetic.exact_order and FORMATS[call.inputs[0].data_format].exponent_bits == 8:
        return powers.pow_scalar(images[0], scalar, wide=call.numerics.dst_format == "Float32")
    exponent = x.dtype.type(scalar)
    return np.power(x, exponent) if x.dtype.kind == "f" else integer.power(x, np.full_like(x, exponent))


@kernel("leaky_relu", EltwiseParams, max_ulp=0.5)
def leaky_relu(images: Images, call: Call) -> np.ndarray:
    """x where positive, else x times the scalar."""
    (x,) = operands(images, call)
    result = np.where(x > 0, x, x * np.float32(params_of(call, EltwiseParams).scalars[0]))
    is_cut = call.arithmetic.exact_order and call.numerics.dst_format == "Float16_b"
    return to_mantissa(result, 7, "truncate") if is_cut else result

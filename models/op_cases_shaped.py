"""Cases of `suite:ops` whose attributes matter: moved data, reductions, products, windows, control flow, and others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

from opscope.models.op_cases import FLOAT, FLOATS, INTS, Case, case

PLAIN = (FLOAT, "float16", "int32", "int8", "bool")


def moves(lax: Any, numpy: Any) -> Iterator[Case]:
    """Ops that compute nothing."""
    x = (3, 5, 40)

    def take(x: Any, *at: Any) -> Any:
        return lax.dynamic_slice(x, at, (2, 3, 32))

    def put(x: Any, y: Any, *at: Any) -> Any:
        return lax.dynamic_update_slice(x, y, at)

    def convert(x: Any, like: Any) -> Any:
        return lax.convert_element_type(x, like.dtype)

    one = {
        "transpose.inner": lambda x: lax.transpose(x, (0, 2, 1)),
        "transpose.outer": lambda x: lax.transpose(x, (1, 0, 2)),
        "transpose.all": lambda x: lax.transpose(x, (2, 1, 0)),
        "reshape.merge": lambda x: lax.reshape(x, (15, 40)),
        "reshape.split": lambda x: lax.reshape(x, (3, 5, 8, 5)),
        "reshape.flat": lambda x: lax.reshape(x, (600,)),
        "broadcast.new": lambda x: lax.broadcast_in_dim(x, (2, 3, 5, 40), (1, 2, 3)),
        "broadcast.size_one": lambda x: lax.broadcast_in_dim(x[:, :, :1], (3, 5, 7), (0, 1, 2)),
        "slice.plain": lambda x: lax.slice(x, (1, 0, 3), (3, 4, 36)),
        "slice.strided": lambda x: lax.slice(x, (0, 0, 1), (3, 5, 40), (2, 2, 3)),
        "concatenate.first": lambda x: lax.concatenate([x, x], 0),
        "concatenate.last": lambda x: lax.concatenate([x, x, x], 2),
        "reverse.one": lambda x: lax.rev(x, (2,)),
        "reverse.two": lambda x: lax.rev(x, (0, 1)),
        "gather.rows": lambda x: numpy.take(x, numpy.array([2, 0, 1, 1]), axis=0),
        "gather.last": lambda x: numpy.take(x, numpy.array([39, 0, 7]), axis=2),
        "gather.points": lambda x: x[numpy.array([2, 0]), numpy.array([4, 1])],
        "sort.last": lambda x: lax.sort(x, dimension=2),
        "sort.first": lambda x: lax.sort(x, dimension=0),
        "optimization_barrier": lax.optimization_barrier,
        "composite": lax.composite(lambda x: lax.rev(x, (1,)), "suite.reversed"),
    }
    for dtype, (name, function) in itertools.product(PLAIN, one.items()):
        yield case(f"{name}.{dtype}", function, (x, dtype))
    for dtype in PLAIN:
        for name, config in {
            "edge": ((1, 2, 0), (0, 1, 0), (2, 0, 0)),
            "interior": ((0, 0, 1), (0, 0, 0), (1, 1, 2)),
            "negative": ((-1, 0, 0), (0, -2, 0), (0, -3, 0)),
        }.items():
            yield case(f"pad.{name}.{dtype}", partial(lax.pad, padding_config=config), (x, dtype), ((), dtype))
        places = (((), "int32", "int:0:2"), ((), "int32", "int:0:3"), ((), "int32", "int:0:9"))
        yield case(f"dynamic_slice.{dtype}", take, (x, dtype), *places)
        yield case(f"dynamic_update_slice.{dtype}", put, (x, dtype), ((2, 3, 32), dtype), *places)
        for other in PLAIN:
            if other != dtype:
                distribution = "uniform:0:100" if dtype in FLOATS else ""
                yield case(f"convert.{dtype}.{other}", convert, (x, dtype, distribution), ((1,), other))
    for dtype, dimension in itertools.product(("float32", "int32"), (0, 1)):
        yield case(f"iota.{dtype}.{dimension}", lambda d=dtype, n=dimension: lax.broadcasted_iota(d, (5, 40), n))
    yield case("bitcast.to_int", lambda x: lax.bitcast_convert_type(x, "int32"), (x, "float32"))
    yield case("bitcast.to_float", lambda x: lax.bitcast_convert_type(x, "float32"), (x, "int32", "int:1:1000000000"))
    yield case("sort.pairs", lambda k, v: lax.sort((k, v), num_keys=1), ((7, 33), FLOAT), ((7, 33), "int32"))
    for dtype in (FLOAT, "int32"):
        yield case(f"top_k.{dtype}", lambda x: lax.top_k(x, 5), ((7, 33), dtype, "range"))


def _update(how: str, x: Any, at: Any, updates: Any) -> Any:
    """Rows of `x` at `at`, combined with `updates`."""
    return getattr(x.at[at], how)(updates, mode="drop", unique_indices=how == "set")


def reductions(lax: Any, numpy: Any) -> Iterator[Case]:
    """Reductions and windows."""
    names = {
        "sum": (FLOAT, "float16", "int32"),
        "max": (*FLOATS, *INTS),
        "min": (*FLOATS, *INTS),
        "prod": (FLOAT, "int32"),
    }
    names |= {"any": ("bool",), "all": ("bool",), "argmax": (FLOAT, "int32"), "argmin": (FLOAT, "int32")}
    for name, types in names.items():
        axes = (0, 1, 2) if name.startswith("arg") else (0, 2, (0, 1), (0, 1, 2))
        for dtype, axis in ((dtype, axis) for dtype in types for axis in axes):
            distribution = (
                "uniform:0.5:1.5" if name == "prod" and dtype == FLOAT else "int:1:3" if name == "prod" else ""
            )
            size = (3, 2, 5) if name == "prod" else (3, 5, 40)
            reduce = partial(getattr(numpy, name), axis=axis)
            label = "".join(map(str, axis)) if isinstance(axis, tuple) else str(axis)
            if name == "sum" and dtype == "int32":
                reduce = partial(numpy.sum, axis=axis, dtype="int32")
            yield case(f"{name}.{label}.{dtype}", reduce, (size, dtype, distribution))
    for name, body, start in (("max", lax.max, -numpy.inf), ("min", lax.min, numpy.inf), ("sum", lax.add, 0.0)):
        for kind, (window, strides, pads) in {
            "plain": ((1, 2, 2, 1), (1, 2, 2, 1), ((0, 0),) * 4),
            "padded": ((1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0))),
            "overlap": ((1, 3, 2, 1), (1, 1, 1, 1), ((0, 0),) * 4),
        }.items():

            def pool(x: Any, body: Any = body, start: Any = start, rest: Any = (window, strides, pads)) -> Any:
                return lax.reduce_window(x, numpy.array(start, x.dtype), body, *rest)

            yield case(f"window.{name}.{kind}", pool, ((1, 9, 8, 33), FLOAT))
    yield case("cumsum", lambda x: lax.cumsum(x, axis=1), ((3, 17), FLOAT))
    yield case("cummax", lambda x: lax.cummax(x, axis=1), ((3, 17), FLOAT))
    for name in ("add", "multiply", "max", "min", "set"):
        for dtype in (FLOAT, "int32"):
            distribution = "uniform:0.5:1.5" if name == "multiply" and dtype == FLOAT else ""
            update = partial(_update, name)
            at = ((6,), "int32", "range" if name == "set" else "int:0:20")
            yield case(f"scatter.{name}.{dtype}", update, ((20, 33), dtype), at, ((6, 33), dtype, distribution))


def products(lax: Any) -> Iterator[Case]:
    """Matrix products and convolutions."""
    dots = {
        "plain": ((5, 40), (40, 33), (((1,), (0,)), ((), ()))),
        "turned": ((40, 5), (33, 40), (((0,), (1,)), ((), ()))),
        "batch": ((3, 5, 40), (3, 40, 33), (((2,), (1,)), ((0,), (0,)))),
        "two_batches": ((2, 3, 5, 8), (2, 3, 8, 7), (((3,), (2,)), ((0, 1), (0, 1)))),
        "two_sums": ((5, 4, 8), (4, 8, 7), (((1, 2), (0, 1)), ((), ()))),
        "vector": ((40,), (40,), (((0,), (0,)), ((), ()))),
        "outer": ((5,), (7,), (((), ()), ((), ()))),
    }
    for (name, (left, right, numbers)), dtype in itertools.product(dots.items(), (FLOAT, "float16", "int32")):
        yield case(
            f"dot.{name}.{dtype}", partial(lax.dot_general, dimension_numbers=numbers), (left, dtype), (right, dtype)
        )
    image, flat = (1, 9, 8, 6), ("NHWC", "HWIO", "NHWC")
    convs = {
        "plain": (image, (3, 3, 6, 7), ((1, 1), "VALID"), {}),
        "one": (image, (1, 1, 6, 7), ((1, 1), "VALID"), {}),
        "strided": (image, (3, 3, 6, 7), ((2, 2), ((1, 1), (1, 1))), {}),
        "uneven": (image, (3, 2, 6, 7), ((2, 1), ((0, 1), (2, 0))), {}),
        "dilated": (image, (3, 3, 6, 7), ((1, 1), "SAME"), {"rhs_dilation": (2, 2)}),
        "transposed": (image, (2, 2, 6, 7), ((1, 1), ((1, 1), (1, 1))), {"lhs_dilation": (2, 2)}),
        "grouped": (image, (3, 3, 3, 8), ((1, 1), "SAME"), {"feature_group_count": 2}),
        "depthwise": (image, (3, 3, 1, 6), ((1, 1), "SAME"), {"feature_group_count": 6}),
    }
    for name, (left, right, rest, more) in convs.items():
        conv = partial(
            lax.conv_general_dilated, window_strides=rest[0], padding=rest[1], dimension_numbers=flat, **more
        )
        yield case(f"conv.{name}", conv, (left, FLOAT), (right, FLOAT))
    line = partial(
        lax.conv_general_dilated, window_strides=(2,), padding="SAME", dimension_numbers=("NWC", "WIO", "NWC")
    )
    yield case("conv.1d", line, ((2, 17, 6), FLOAT), ((3, 6, 7), FLOAT))
    channels = partial(
        lax.conv_general_dilated, window_strides=(1, 1), padding="SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")
    )
    yield case("conv.channels_first", channels, ((1, 6, 9, 8), FLOAT), ((7, 6, 3, 3), FLOAT))
    solid = partial(
        lax.conv_general_dilated,
        window_strides=(1, 1, 1),
        padding="VALID",
        dimension_numbers=("NDHWC", "DHWIO", "NDHWC"),
    )
    yield case("conv.3d", solid, ((1, 4, 5, 6, 3), FLOAT), ((2, 2, 3, 3, 4), FLOAT))


def rest(lax: Any, numpy: Any) -> Iterator[Case]:
    """Control flow, random bits, complex numbers."""
    x = ((5, 40), FLOAT)
    yield case("while", lambda x: lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * 0.5), (0, x)), x)
    yield case("cond", lambda p, x: lax.cond(p, lambda y: y + 1, lambda y: y * 2, x), ((), "bool"), x)
    branches = [lambda y: y + 1, lambda y: y * 2, lambda y: -y]
    yield case("switch", lambda i, x: lax.switch(i, branches, x), ((), "int32", "int:0:3"), x)
    for name, (exponent, mantissa) in {"bfloat16": (8, 7), "half": (5, 10), "eight": (4, 3)}.items():
        yield case(
            f"reduce_precision.{name}", partial(lax.reduce_precision, exponent_bits=exponent, mantissa_bits=mantissa), x
        )
    for algorithm in (lax.RandomAlgorithm.RNG_THREE_FRY, lax.RandomAlgorithm.RNG_PHILOX):
        bits = partial(lax.rng_bit_generator, shape=(5, 40), dtype="uint32", algorithm=algorithm)
        yield case(f"random_bits.{algorithm.name}", bits, ((4,), "uint32", "int:0:1000000"))
    yield case("complex", lambda a, b: lax.real(lax.complex(a, b)), ((5, 40), "float32"), ((5, 40), "float32"))
    yield case("imaginary", lambda a, b: lax.imag(lax.complex(a, b)), ((5, 40), "float32"), ((5, 40), "float32"))
    yield case("fft", lambda a: lax.real(numpy.fft.rfft(a)), ((5, 32), "float32"))


def cases(lax: Any, numpy: Any) -> Iterator[Case]:
    """All cases of this module."""
    yield from moves(lax, numpy)
    yield from reductions(lax, numpy)
    yield from products(lax)
    yield from rest(lax, numpy)

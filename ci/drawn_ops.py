"""`python -m ci.drawn_ops [--count 300] [--seed 0] > FILE.mlir`: single ops of StableHLO that nobody has chosen.

A module that calls each op on arguments of its own. Op, type, shapes and attributes are drawn by the seed, so that a
comparison over them (`make tt-mlir-page`) says what one over chosen cases cannot.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from opscope.base import jax_plugins

SIDES = (1, 2, 3, 5, 8, 17, 31, 32, 33, 64, 100)
FLOATS, INTEGERS = ("float32", "float32", "bfloat16"), ("int32", "int32", "uint32", "int16", "int8", "uint8")
UNARY = (
    "abs neg sign floor ceil round exp expm1 tanh sin cos tan is_finite cbrt square erf erfc erf_inv asin acos atan "
    "sinh cosh asinh acosh atanh log log1p sqrt rsqrt logistic lgamma digamma"
)
BINARY = "add sub mul div rem max min pow atan2 eq ne lt le gt ge"
OF_INTEGERS = (
    "add sub mul div rem max min bitwise_and bitwise_or bitwise_xor shift_left shift_right_logical "
    "shift_right_arithmetic eq ne lt le gt ge"
)
IN_BOUNDS: dict[str, Any] = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
"""Indices as they are: without it JAX writes ops beside the drawn one."""
Draw = tuple[Callable[..., Any], list[jax.ShapeDtypeStruct]]


class Ops:
    """Draws calls: each method without arguments is one kind, a function and the types of its arguments."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        """Sides of a tensor of at most 64 Ki elements."""
        sides: list[int] = []
        for _ in range(self.rng.randint(least, most)):
            sides.append(self.rng.choice([side for side in SIDES if side * math.prod(sides) <= 1 << 16]))
        return tuple(sides)

    def dtype(self) -> str:
        """A type of numbers, of floats more often."""
        return self.rng.choice(FLOATS if self.rng.random() < 0.7 else INTEGERS)

    def tensor(self, shape: tuple[int, ...], dtype: str | None = None) -> jax.ShapeDtypeStruct:
        """An argument."""
        return jax.ShapeDtypeStruct(shape, dtype or self.dtype())

    def axes(self, rank: int) -> tuple[int, ...]:
        """One or more of the dims."""
        return tuple(sorted(self.rng.sample(range(rank), self.rng.randint(1, rank))))

    def _unary(self) -> Draw:
        return getattr(lax, self.rng.choice(UNARY.split())), [self.tensor(self.shape(), self.rng.choice(FLOATS))]

    def _binary(self) -> Draw:
        dtype = self.dtype()
        name = self.rng.choice((BINARY if dtype in FLOATS else OF_INTEGERS).split())
        return getattr(lax, name), [self.tensor(self.shape(), dtype)] * 2

    def _unary_of_integers(self) -> Draw:
        name = self.rng.choice(("neg", "sign", "bitwise_not", "population_count", "clz"))
        return getattr(lax, name), [self.tensor(self.shape(), self.rng.choice(INTEGERS))]

    def _logical(self) -> Draw:
        name = self.rng.choice(("bitwise_and", "bitwise_or", "bitwise_xor"))
        return getattr(lax, name), [self.tensor(self.shape(), "bool")] * 2

    def _select(self) -> Draw:
        shape, dtype = self.shape(), self.dtype()
        return lax.select, [self.tensor(shape, "bool"), self.tensor(shape, dtype), self.tensor(shape, dtype)]

    def _clamp(self) -> Draw:
        shape, dtype = self.shape(), self.dtype()
        bound = shape if self.rng.random() < 0.5 else ()
        return lax.clamp, [self.tensor(bound, dtype), self.tensor(shape, dtype), self.tensor(bound, dtype)]

    def _convert(self) -> Draw:
        goal = self.rng.choice([*FLOATS, *INTEGERS, "bool"])
        dtype = self.rng.choice([each for each in [*FLOATS, *INTEGERS, "bool"] if each != goal])
        return lambda x: lax.convert_element_type(x, goal), [self.tensor(self.shape(), dtype)]

    def _reduce(self) -> Draw:
        shape = self.shape(1)
        axes, dtype = self.axes(len(shape)), self.dtype()
        name = self.rng.choice(("reduce_sum", "reduce_max", "reduce_min", "reduce_prod"))
        return lambda x: getattr(lax, name)(x, axes=axes), [self.tensor(shape, dtype)]

    def _reduce_of_booleans(self) -> Draw:
        shape, name = self.shape(1), self.rng.choice(("reduce_and", "reduce_or"))
        axes = self.axes(len(shape))
        return lambda x: getattr(lax, name)(x, axes=axes), [self.tensor(shape, "bool")]

    def _argument_of_extreme(self) -> Draw:
        shape, call = self.shape(1), self.rng.choice((lax.argmax, lax.argmin))
        axis = self.rng.randrange(len(shape))
        return lambda x: call(x, axis, jnp.int32), [self.tensor(shape)]

    def _cumulative(self) -> Draw:
        shape, call = self.shape(1), self.rng.choice((lax.cumsum, lax.cumprod, lax.cummax, lax.cummin))
        axis, reverse = self.rng.randrange(len(shape)), self.rng.random() < 0.3
        return lambda x: call(x, axis=axis, reverse=reverse), [self.tensor(shape)]

    def _dot(self) -> Draw:
        batch, (m, k, n) = self.shape(0, 2), (self.rng.choice(SIDES) for _ in range(3))
        left = (m, k) if self.rng.random() < 0.5 else (k, m)
        right = (k, n) if self.rng.random() < 0.5 else (n, k)
        both = tuple(range(len(batch)))
        contracted = (len(batch) + (left == (m, k)),), (len(batch) + (right != (k, n)),)
        dtype = self.rng.choice(FLOATS)
        shapes = [self.tensor((*batch, *left), dtype), self.tensor((*batch, *right), dtype)]
        return lambda x, y: lax.dot_general(x, y, (contracted, (both, both))), shapes

    def _convolution(self) -> Draw:
        spatial, groups = self.rng.choice((1, 2, 2, 2, 3)), self.rng.choice((1, 1, 1, 2, 4))
        inputs, outputs = groups * self.rng.choice((1, 2, 8)), groups * self.rng.choice((1, 3, 8))
        window = tuple(self.rng.choice((1, 2, 3)) for _ in range(spatial))
        sides = tuple(self.rng.choice((8, 9, 14)) for _ in range(spatial))
        strides = tuple(self.rng.choice((1, 1, 2)) for _ in range(spatial))
        padding = [(self.rng.randint(0, 2), self.rng.randint(0, 2)) for _ in range(spatial)]
        spread = (1,) * spatial if self.rng.random() < 0.7 else (2,) * spatial
        dilation: dict[str, Any] = {self.rng.choice(("rhs_dilation", "lhs_dilation")): spread}
        letters, last = "DHW"[3 - spatial :], self.rng.random() < 0.5
        layout = (
            (f"N{letters}C", f"{letters}IO", f"N{letters}C")
            if last
            else (f"NC{letters}", f"OI{letters}", f"NC{letters}")
        )
        image = (2, *sides, inputs) if last else (2, inputs, *sides)
        weight = (*window, inputs // groups, outputs) if last else (outputs, inputs // groups, *window)
        dtype = self.rng.choice(FLOATS)

        def convolved(x: Any, w: Any) -> Any:
            return lax.conv_general_dilated(
                x, w, strides, padding, dimension_numbers=layout, feature_group_count=groups, **dilation
            )

        return convolved, [self.tensor(image, dtype), self.tensor(weight, dtype)]

    def _pooling(self) -> Draw:
        window, strides = self.rng.choice((2, 3)), self.rng.choice((1, 2))
        start, call = self.rng.choice(((-jnp.inf, lax.max), (0.0, lax.add)))
        padding = [(0, 0), *[(self.rng.randint(0, window - 1), self.rng.randint(0, window - 1)) for _ in "HW"], (0, 0)]
        dtype, channels = self.rng.choice(FLOATS), self.rng.choice(SIDES)

        def pooled(x: Any) -> Any:
            first = jnp.asarray(start, x.dtype)[()] if start == 0 else start
            return lax.reduce_window(x, first, call, (1, window, window, 1), (1, strides, strides, 1), padding)

        return pooled, [self.tensor((2, 9, 12, channels), dtype)]

    def _pad(self) -> Draw:
        shape, kind = self.shape(1), self.rng.random()
        inner = 2 if kind < 0.2 else 0
        least = -1 if kind > 0.85 else 0
        widths = [
            (self.rng.randint(low, 3), self.rng.randint(low, 3), self.rng.randint(0, inner))
            for low in (least if side > 2 else 0 for side in shape)
        ]
        dtype = self.dtype()
        return lambda x: lax.pad(x, jnp.zeros((), dtype), widths), [self.tensor(shape, dtype)]

    def _slice(self) -> Draw:
        shape = self.shape(1)
        starts = [self.rng.randint(0, side - 1) for side in shape]
        ends = [self.rng.randint(start + 1, side) for start, side in zip(starts, shape, strict=True)]
        steps = [self.rng.choice((1, 1, 2, 3)) for _ in shape]
        return lambda x: lax.slice(x, starts, ends, steps), [self.tensor(shape)]

    def _dynamic_slice(self) -> Draw:
        shape = self.shape(1, 3)
        sizes = [self.rng.randint(1, side) for side in shape]
        starts = [self.tensor((), "int32")] * len(shape)
        return lambda x, *at: lax.dynamic_slice(x, at, sizes, allow_negative_indices=False), [
            self.tensor(shape),
            *starts,
        ]

    def _dynamic_update_slice(self) -> Draw:
        shape, dtype = self.shape(1, 3), self.dtype()
        update = tuple(self.rng.randint(1, side) for side in shape)
        starts = [self.tensor((), "int32")] * len(shape)
        return lambda x, u, *at: lax.dynamic_update_slice(x, u, at, allow_negative_indices=False), [
            self.tensor(shape, dtype),
            self.tensor(update, dtype),
            *starts,
        ]

    def _concatenate(self) -> Draw:
        shape, dtype = self.shape(1, 3), self.dtype()
        axis = self.rng.randrange(len(shape))
        sides = [self.rng.choice(SIDES[:6]) for _ in range(self.rng.randint(2, 4))]
        parts = [self.tensor((*shape[:axis], side, *shape[axis + 1 :]), dtype) for side in sides]
        return lambda *x: lax.concatenate(x, axis), parts

    def _transpose(self) -> Draw:
        shape = self.shape(2)
        order = self.rng.sample(range(len(shape)), len(shape))
        return lambda x: lax.transpose(x, order), [self.tensor(shape)]

    def _reshape(self) -> Draw:
        shape = self.shape(1)
        at = self.rng.randrange(len(shape))
        merged = (*shape[:at], math.prod(shape[at:]))
        goal = self.rng.choice((merged, (1, *shape), (*shape, 1), (math.prod(shape),)))
        return lambda x: lax.reshape(x, goal), [self.tensor(shape)]

    def _broadcast(self) -> Draw:
        goal = self.shape(1)
        dims = self.axes(len(goal))
        shape = tuple(self.rng.choice((1, goal[dim])) for dim in dims)
        return lambda x: lax.broadcast_in_dim(x, goal, dims), [self.tensor(shape)]

    def _reverse(self) -> Draw:
        shape = self.shape(1)
        axes = self.axes(len(shape))
        return lambda x: lax.rev(x, axes), [self.tensor(shape)]

    def _iota(self) -> Draw:
        shape, dtype = self.shape(1), self.dtype()
        axis = self.rng.randrange(len(shape))
        return lambda: lax.broadcasted_iota(dtype, shape, axis), []

    def _take(self) -> Draw:
        shape, count = self.shape(1, 3), self.shape(0, 2)
        axis = self.rng.randrange(len(shape))
        before = (slice(None),) * axis

        def taken(x: Any, at: Any) -> Any:
            return x.at[(*before, at)].get(**IN_BOUNDS)

        return taken, [self.tensor(shape), self.tensor(count, "int32")]

    def _take_along(self) -> Draw:
        shape = self.shape(1, 3)
        axis = self.rng.randrange(len(shape))
        return lambda x, at: jnp.take_along_axis(x, at, axis, **IN_BOUNDS), [
            self.tensor(shape),
            self.tensor(shape, "int32"),
        ]

    def _scatter(self) -> Draw:
        shape, dtype = (self.rng.choice(SIDES[3:]), *self.shape(0, 2)), self.dtype()
        count, kind = self.rng.choice(SIDES[:5]), self.rng.choice(("set", "add", "max"))

        def scattered(x: Any, at: Any, u: Any) -> Any:
            return getattr(x.at[at], kind)(u, **IN_BOUNDS)

        return scattered, [
            self.tensor(shape, dtype),
            self.tensor((count,), "int32"),
            self.tensor((count, *shape[1:]), dtype),
        ]

    def _sort(self) -> Draw:
        shape = self.shape(1, 3)
        axis = self.rng.randrange(len(shape))
        return lambda x: lax.sort(x, axis, is_stable=True), [self.tensor(shape)]

    def _top_k(self) -> Draw:
        shape = self.shape(1, 3)
        count = self.rng.randint(1, shape[-1])
        return lambda x: lax.top_k(x, count), [self.tensor(shape, self.rng.choice(FLOATS))]


WEIGHTS = {"unary": 5, "binary": 5, "convert": 3, "reduce": 3, "dot": 3, "convolution": 3}
"""How often kinds are drawn that stand for many ops or attributes, against one for the others."""
KINDS = tuple(name for name in vars(Ops) if re.match("_[a-z]", name))


def module(count: int, seed: int) -> str:
    """Returns StableHLO of so many calls, each on arguments of its own."""
    ops = Ops(seed)
    kinds = ops.rng.choices(KINDS, [WEIGHTS.get(kind[1:], 1) for kind in KINDS], k=count)
    drawn = [getattr(ops, kind)() for kind in kinds]

    def main(*arguments: Any) -> list[Any]:
        left = iter(arguments)
        return [call(*(next(left) for _ in types)) for call, types in drawn]

    types = [each for _, arguments in drawn for each in arguments]
    return jax.jit(main).lower(*types).as_text()


def main(argv: list[str] | None = None) -> int:
    """Prints the module. Returns 0."""
    parser = argparse.ArgumentParser(prog="python -m ci.drawn_ops", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    jax_plugins.keep_out()  # the plugin whose compiler is compared looks for a card
    sys.stdout.write(module(options.count, options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())

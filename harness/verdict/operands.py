"""What an op's operands have to do with the size of its errors: evaluated by XLA on the op itself, where it decides.

Most verdicts need only the golden, and for sums the sizes kept beside it. Here is the rest: how far each result moves
where each operand is off by what storing it costs, for whichever op, by running the op's own executable on such
operands. Imports JAX where it is called, not before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from opscope.base.op_families import DATA_MOVEMENT, op_family
from opscope.harness.prepare.operand_sizes import is_float, sums_terms
from opscope.harness.verdict import tolerance as table
from opscope.harness.verdict.places import blocks_of
from opscope.harness.verdict.rounding import cut_to
from opscope.harness.verdict.steps import FLOAT32, FRACTION_BITS, Steps

if TYPE_CHECKING:
    from opscope.harness.prepare.golden import Executable

STEP = 2.0**-10
"""Relative step of a difference quotient: small beside curvature, large beside the noise of float32."""
LOST = 1.25
"""How many times what its operands lose by themselves a sum may be too short on the mean: elements weigh otherwise."""
ROUNDED = 1.01
"""How much larger a figure may be than another that is made of the same count by float32."""
SAMPLES = 4
"""Random perturbations of an op that is neither elementwise nor a sum."""


class NotEvaluatedError(Exception):
    """XLA does not run the op on other inputs, so that the golden alone has to say how large an error may be."""


@dataclass
class Operands:
    """The operands of one op: its module, its inputs, and the sizes that the walk kept."""

    op_name: str
    module: bytes
    load: Callable[[], Sequence[np.ndarray]]
    """Returns the inputs; called at most once."""
    body: str | None = None
    kept: Callable[[], Sequence[np.ndarray]] | None = None
    """Returns the root sums of squares that the walk stored, per result; None if it stored none."""
    caches: Callable[[], Path | None] = lambda: None
    """Returns the folder of all caches; called where something is compiled, since it is looked at each time."""
    _executable: Executable | None = field(default=None, repr=False)

    @cached_property
    def inputs(self) -> Sequence[np.ndarray]:
        """The inputs of the op."""
        return self.load()

    @property
    def sums(self) -> bool:
        """Whether the results are sums of terms."""
        return sums_terms(self.op_name, self.body)

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The op on other inputs. Raises NotEvaluatedError if XLA refuses."""
        from opscope.harness.prepare.golden import GoldenError

        try:
            return self._compiled()(inputs)
        except GoldenError as error:
            raise NotEvaluatedError(str(error)) from error

    def run_wide(self) -> list[np.ndarray]:
        """The op on its own inputs, floats narrower than float32 computed there and not rounded afterwards.

        Raises NotEvaluatedError if XLA refuses.
        """
        from opscope.harness.prepare.golden import GoldenError, compile_module

        if self.op_name in _EXACT and len(self.inputs) == 2:
            with np.errstate(all="ignore"):
                return [_EXACT[self.op_name](*(wide(x) for x in self.inputs))]
        try:
            return compile_module(self.module, self.caches(), widen=True, rounded=False)(self.inputs)
        except GoldenError as error:
            raise NotEvaluatedError(str(error)) from error

    def in_order(self, results: Sequence[np.ndarray]) -> bool:
        """Whether the comparator of a sort takes results as they stand; also where it is not known here."""
        from opscope.harness.prepare.mlir import sorts

        try:
            return sorts.in_order(self.module, self.inputs, results)
        except sorts.UnknownOrderError:
            return True

    def run_stored(self, number_format: str) -> list[np.ndarray]:
        """The op on its inputs as they are stored in a format. Raises NotEvaluatedError if XLA refuses."""
        return self.run(
            [as_stored(x, number_format) if is_float(x) and x.dtype.kind != "c" else x for x in self.inputs]
        )

    def off_in_blocks(self, number_format: str, golden: np.ndarray, index: int) -> tuple[np.ndarray, ...]:
        """By how much a result moves where its operands are stored in blocks, cut or rounded, and where it is
        itself besides, flat, float64; 0 where it is no number. Raises NotEvaluatedError if XLA refuses."""
        found, ways = [], (0.0, 0.5)
        for lift in ways:
            known = [is_float(x) and x.dtype.kind != "c" for x in self.inputs]
            stored = [
                as_stored(x, number_format, lift) if each else x for x, each in zip(self.inputs, known, strict=True)
            ]
            result = self.run(stored)[index]
            for each in (result, *(as_stored(result, number_format, way) for way in ways)):
                with np.errstate(invalid="ignore"):
                    off = np.ravel(wide(each) - wide(golden))
                found.append(np.where(np.isfinite(off), off, 0.0))
        return tuple(found)

    def run_as_written(self) -> list[np.ndarray]:
        """The op on its own inputs as XLA computes it, with its initial value as often as XLA takes it.

        Raises NotEvaluatedError if XLA refuses.
        """
        from opscope.harness.prepare.golden import GoldenError, compile_module

        try:
            return compile_module(self.module)(self.inputs)
        except GoldenError as error:
            raise NotEvaluatedError(str(error)) from error

    def run_cut(self, kept: int) -> list[np.ndarray]:
        """The sum of its terms, each cut to so many fraction bits. Raises NotEvaluatedError if XLA refuses."""
        terms, *others = self.inputs
        mask = np.uint32(2**32 - 2 ** (FRACTION_BITS["Float32"] - kept))
        cut = (np.ascontiguousarray(terms, np.float32).view(np.uint32) & mask).view(np.float32)
        return self.run([cut.reshape(terms.shape).astype(terms.dtype), *others])

    def added_alike(self, steps: Steps, index: int) -> float:
        """Standard deviation of what additions round of equal terms, relative to their root sum of squares: what they
        lose of each alike grows with the number of terms, which ones in their place count."""
        terms, *others = self.inputs
        try:
            ones, zeros = (wide(self.run([np.full_like(terms, value), *others])[index]) for value in (1, 0))
        except NotEvaluatedError:
            return steps.added
        count = max(1.0, float(np.max(np.abs(ones - zeros), initial=1.0)))
        at_random = 2 * FLOAT32 * math.sqrt(count)
        return FLOAT32 * count**0.75 if steps.added <= ROUNDED * at_random else steps.added * math.sqrt(count)

    def lost(self, steps: Steps, golden: np.ndarray, index: int) -> float | None:
        """How much shorter a sum is on the mean, relative, where its operands are cut to what the matrix unit reads of
        either side; None where they are also stored in a narrower format. Raises NotEvaluatedError if XLA refuses."""
        if steps.stored:
            return None
        most = 0.0
        for cut in {steps.cut, steps.cut[::-1]} if len(self.inputs) > 1 else [(max(steps.cut),)]:
            sides = [*cut, *(0.0 for _ in self.inputs)]
            read = [
                cut_to(wide(x), steps.kept(each)).astype(x.dtype) if each and is_float(x) else x
                for x, each in zip(self.inputs, sides, strict=False)
            ]
            off = wide(self.run(read)[index]) - wide(golden)
            use = np.isfinite(off)
            size = float(np.square(magnitude(golden)[use]).sum())
            most = max(most, -float((off * wide(golden))[use].sum()) / size if size else 0.0)
        return LOST * most + steps.left_out

    def run_with_denormals(self) -> list[np.ndarray]:
        """The op on its own inputs, computed as IEEE 754 has it. Raises NotEvaluatedError if XLA refuses."""
        from opscope.harness.prepare.golden import GoldenError, compile_module

        try:
            return compile_module(self.module, widen=True, denormals=True)(self.inputs)
        except GoldenError as error:
            raise NotEvaluatedError(str(error)) from error

    def run_quantised(self, off: float, relative: float) -> list[np.ndarray]:
        """The op on its own inputs, with what it quantises moved by `off` steps and by `relative` of itself.

        Raises NotEvaluatedError if XLA refuses.
        """
        from opscope.harness.prepare import mlir
        from opscope.harness.prepare.golden import GoldenError, compile_module
        from opscope.harness.prepare.mlir.quantised import spelled_out

        try:
            return compile_module(spelled_out(mlir.load(self.module), wide=True, off=off, relative=relative))(
                self.inputs
            )
        except GoldenError as error:
            raise NotEvaluatedError(str(error)) from error

    def _compiled(self) -> Executable:
        """The op's executable, compiled once."""
        if self._executable is None:
            from opscope.harness.prepare.golden import compile_module

            self._executable = compile_module(self.module, self.caches(), widen=True)
        return self._executable

    @cached_property
    def term_sizes(self) -> list[np.ndarray]:
        """Root sum of squares of the terms of each element, per result; kept by the walk or computed."""
        if self.kept is not None:
            return [np.asarray(sizes, np.float32) for sizes in self.kept()]
        from opscope.harness.prepare.operand_sizes import root_sizes

        return root_sizes(self.op_name, self.run, self.inputs)

    def partial_sums(self, golden: np.ndarray) -> np.ndarray | None:
        """Root sum of squares of the partial sums of each element of a `reduce`, in the order of its operand: what each
        addition rounds. Where terms of one sign come first, these are far larger than the terms are by chance. None of
        other ops."""
        from opscope.harness.prepare import mlir

        if self.op_name != "stablehlo.reduce" or not is_float(golden) or golden.dtype.kind == "c":
            return None
        across = re.search(r"stablehlo.add across dimensions = \[([\d, ]+)\]", str(mlir.load(self.module)))
        if across is None or not is_float(self.inputs[0]):
            return None
        dims = [int(word) for word in across[1].split(",")]
        x = np.moveaxis(self.inputs[0], dims, range(-len(dims), 0)).reshape(*golden.shape, -1)
        return np.sqrt(np.square(np.cumsum(x, axis=-1, dtype=np.float64)).sum(axis=-1))

    def moved(self, steps: Steps, golden: Sequence[np.ndarray]) -> list[np.ndarray]:
        """How far each element of each result moves where operands are off by what `steps` says, float64.

        Of elementwise ops the sum over operands, which no error exceeds; of sums the root sum of squares.
        """
        kind = op_family(self.op_name)
        with np.errstate(all="ignore"):
            if kind in DATA_MOVEMENT or (kind in table.REDUCING_KINDS and table.chooses(kind, self.body)):
                return self._carried([self._off(x, steps) for x in self.inputs])
            if self.sums:
                summed = self._summed([self._off(x, steps) for x in self.inputs])
                return self._joined(summed, steps.joined, golden) if steps.joined else summed
            if steps.error_model == "bound":
                return self._differences(steps, golden)
            return self._sampled(steps, golden)

    @property
    def has_steps(self) -> bool:
        """Whether it is known how far the roundings of its steps move its results."""
        return False

    def within(self) -> list[np.ndarray] | None:
        """How far the roundings of the op's own steps may move each element of each result, float64; None of an op that
        is a single step, or whose steps nobody knows."""
        return None

    def usually(self) -> list[np.ndarray]:
        """How far those of the usual evaluation alone may; where `within` is known."""
        return []

    def leaning(self) -> list[np.ndarray]:
        """What steps that all lean one way move each element of each result by, float64; where `within` is known."""
        return []

    def _off(self, x: np.ndarray, steps: Steps) -> np.ndarray | None:
        """What storing `x` may cost each of its elements, float64; None for integers. A zero is stored as zero, also
        beside the largest value of its block."""
        if not is_float(x):
            return None
        return steps.stored * (np.where(x == 0, 0.0, block_largest(x)) if steps.block else magnitude(x))

    def _carried(self, widths: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Of an op that hands on its operands: it hands on how far they are off."""
        carried = [_size(array) for array in self.run(self._typed(widths, 1.0))]
        if op_family(self.op_name) in table.REDUCING_KINDS or self.op_name == "stablehlo.sort":
            lowered = [_size(array) for array in self.run(self._typed(widths, -1.0))]
            carried = [np.maximum(a, b) for a, b in zip(carried, lowered, strict=True)]
        if self.op_name == "stablehlo.sort":
            carried = [np.full(c.shape, np.max(c, initial=0.0)) for c in carried]
        return carried

    def _summed(self, widths: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Of a sum of products: the terms with each operand in turn replaced by how far it is off."""
        from opscope.harness.prepare.operand_sizes import squared

        plain = squared(self.op_name, self.inputs)
        total = [np.zeros(np.shape(size)) for size in self.term_sizes]
        for number, width in enumerate(widths):
            if width is None:
                continue
            changed = [*plain]
            scale = float(np.max(width, initial=0.0)) or 1.0
            changed[number] = np.square(width / scale).astype(self.inputs[number].dtype)
            parts = [magnitude(array) * scale**2 for array in self.run(changed)]
            total = [a + b for a, b in zip(total, parts, strict=True)]
        return [np.sqrt(part) for part in total]

    def _joined(self, moved: Sequence[np.ndarray], rate: float, golden: Sequence[np.ndarray]) -> list[np.ndarray]:
        """`moved`, and what rounding after each update may cost: as many roundings as there are updates of the element,
        each of a sum that is at most some root sum of squares of its terms, or where they have one sign the result."""
        kept = 1 if self.op_name == "stablehlo.select_and_scatter" else 0
        floats = [number >= kept and is_float(x) for number, x in enumerate(self.inputs)]

        def of(value: float) -> list[np.ndarray]:
            filled = [np.full_like(x, value) if f else x for x, f in zip(self.inputs, floats, strict=True)]
            return [wide(result) for result in self.run(filled)]

        # An operand that is a constant of the module is in both. The updates, which follow the indices, may be one:
        # then an element may get all of them.
        at = max((number for number, x in enumerate(self.inputs) if not is_float(x)), default=None)
        most = 0 if at is None or any(floats[at:]) else self.inputs[at].size
        counts = [most + np.abs(ones - zeros) for ones, zeros in zip(of(1.0), of(0.0), strict=True)]
        return [
            np.hypot(width, rate * np.sqrt(count) * np.maximum(size.astype(np.float64), magnitude(result)))
            for width, count, size, result in zip(moved, counts, self.term_sizes, golden, strict=True)
        ]

    def _differences(self, steps: Steps, golden: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Of an elementwise op: how far each operand moves the result, by running it with the operand off.

        The commonest ops need no running (`_WIDTHS`)."""
        # The function's own error is no operand's: a logarithm is steep near 1, and near 1 as exact as elsewhere.
        rate = max(steps.stored, steps.between)
        if self.op_name in _WIDTHS and all(is_float(x) and x.dtype.kind != "c" for x in self.inputs):
            sizes = [magnitude(x) for x in self.inputs]
            widths = [rate * (blocks_of(size) if steps.block else size) for size in sizes]
            if len(sizes) == 2:
                return [_WIDTHS[self.op_name](*sizes, *widths)]
            if self.op_name in _CHOOSING:
                return [widths[0] + self._constant(rate, golden[0])]
        step = max(rate, STEP)
        totals = [
            self._constant(rate, array) + _reduced(self.op_name, steps, array) + steps.cancelled for array in golden
        ]
        for number, x in enumerate(self.inputs):
            if not is_float(x):
                continue
            width = step * (block_largest(x) if steps.block else magnitude(x))
            largest = [np.zeros(array.shape) for array in golden]
            for sign in (1.0, -1.0):
                off = [*self.inputs]
                off[number] = (x.astype(off_type(x)) + sign * width).astype(x.dtype)
                for index, result in enumerate(self.run(off)):
                    change = np.abs(wide(result) - wide(golden[index]))
                    change = np.where(np.isfinite(change), change, 0.0)
                    largest[index] = np.maximum(largest[index], change)
            totals = [total + part * (rate / step) for total, part in zip(totals, largest, strict=True)]
        return totals

    def _constant(self, rate: float, golden: np.ndarray) -> np.ndarray:
        """How far the constant moves that one operand of a binary op may be: it is stored like the others."""
        if self.op_name not in BINARY or len(self.inputs) != 1:
            return np.zeros(golden.shape)
        beside = magnitude(self.inputs[0]) if self.op_name in ("stablehlo.add", "stablehlo.subtract") else 0.0
        return rate * (magnitude(golden) + beside)

    def _sampled(self, steps: Steps, golden: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Of any other op: the root mean square of the change by random perturbations of all operands at once.

        An element whose few samples are small by chance is taken for half of its row's root mean square.
        """
        rng = np.random.default_rng(0)
        rate = max(steps.stored, steps.function)
        squares = [np.zeros(array.shape) for array in golden]
        for _ in range(SAMPLES):
            off = []
            for x in self.inputs:
                if not is_float(x):
                    off.append(x)
                    continue
                width = rate * (block_largest(x) if steps.block else magnitude(x))
                off.append((x.astype(off_type(x)) + width * rng.choice((-1.0, 1.0), x.shape)).astype(x.dtype))
            for index, result in enumerate(self.run(off)):
                change = wide(result) - wide(golden[index]) if is_float(result) else np.zeros(result.shape)
                squares[index] += np.square(np.where(np.isfinite(change), np.abs(change), 0.0)) / SAMPLES
        return [np.sqrt(np.maximum(s, row_mean(s) / 4)) for s in squares]

    def _typed(self, widths: Sequence[np.ndarray | None], sign: float) -> list[np.ndarray]:
        return [
            x if width is None else (sign * width).astype(x.dtype) for x, width in zip(self.inputs, widths, strict=True)
        ]


def _reduced(op_name: str, steps: Steps, golden: np.ndarray) -> np.ndarray | float:
    """How far a periodic function moves where its operand is off by `steps.reduced`: by its derivative, at most 1 of a
    sine, 1 + y^2 of a tangent."""
    return steps.reduced * (1 + magnitude(golden) ** 2) if op_name.endswith(".tan") else steps.reduced


def _size(x: np.ndarray) -> np.ndarray:
    """How far floats are off that were carried; integers are not off."""
    return magnitude(x) if is_float(x) else np.zeros(x.shape)


def _added(a: np.ndarray, b: np.ndarray, off_a: np.ndarray, off_b: np.ndarray) -> np.ndarray:
    return off_a + off_b


def _multiplied(a: np.ndarray, b: np.ndarray, off_a: np.ndarray, off_b: np.ndarray) -> np.ndarray:
    return a * off_b + (b + off_b) * off_a


_EXACT: dict[str, Callable[..., np.ndarray]] = {
    "stablehlo.add": np.add,
    "stablehlo.subtract": np.subtract,
    "stablehlo.multiply": np.multiply,
}
"""Op -> the same in float64, where it is exact for operands of 16 bits, or as good as exact."""
_CHOOSING = ("stablehlo.maximum", "stablehlo.minimum")
_WIDTHS: dict[str, Callable[..., np.ndarray]] = {
    "stablehlo.add": _added,
    "stablehlo.subtract": _added,
    "stablehlo.multiply": _multiplied,
    **dict.fromkeys(_CHOOSING, lambda a, b, off_a, off_b: np.maximum(off_a, off_b)),
}
"""Op -> the most that a result moves, from the sizes of both operands and how far each is off."""

STORED_TYPES = {"Float16_b": ml_dtypes.bfloat16, "Float16": np.float16}
"""Format of 16 bits -> its type."""

BINARY = frozenset(
    f"stablehlo.{name}"
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder")
)
"""Ops whose second operand may be a constant inside the module."""


def as_stored(x: np.ndarray, number_format: str, lift: float = 0.5) -> np.ndarray:
    """Floats as the host stores them in a format of 16 bits or in blocks, in their own type. `lift`: part of a step by
    which a block's values are lifted before they are cut."""
    with np.errstate(over="ignore"):
        if number_format in STORED_TYPES:
            return x.astype(STORED_TYPES[number_format]).astype(x.dtype)
        _, exponents = np.frexp(block_largest(x))
        steps = np.ldexp(wide(x), FRACTION_BITS[number_format] + 1 - exponents)
        most = 2.0 ** (FRACTION_BITS[number_format] + 1) - 1
        steps = np.copysign(np.minimum(np.floor(np.abs(steps) + lift), most), steps)
        return np.ldexp(steps, exponents - FRACTION_BITS[number_format] - 1).astype(x.dtype)


def off_type(x: np.ndarray) -> type:
    """The type in which an operand is moved before it is rounded to its own."""
    return np.complex128 if x.dtype.kind == "c" else np.float64


def wide(x: np.ndarray) -> np.ndarray:
    """`x` in float64, or complex128."""
    return x.astype(off_type(x))


def magnitude(x: np.ndarray) -> np.ndarray:
    """|x| in float64, 0 where it is not finite."""
    size = np.abs(x).astype(np.float64) if x.dtype.kind == "c" else np.abs(x.astype(np.float64))
    return size if math.isfinite(size.sum()) else np.where(np.isfinite(size), size, 0.0)


def block_largest(x: np.ndarray) -> np.ndarray:
    """The largest |x| of each block of 16 along the last dim, in the shape of x, float64."""
    return blocks_of(magnitude(x))


def row_mean(x: np.ndarray) -> np.ndarray | float:
    """The mean along the last dim, kept as a dim."""
    return x.mean(axis=-1, keepdims=True) if x.ndim and x.size else 0.0

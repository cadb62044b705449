"""Single ops with their operands, and how they run: on this machine in IEEE arithmetic, or on the simulated card."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import ml_dtypes
import numpy as np

from opscope.base.op_families import op_family
from opscope.harness.backends.base import Job, Target, exact_host
from opscope.harness.backends.reference import Reference
from opscope.harness.formulas.pointwise import POINTWISE
from opscope.harness.formulas.stablehlo_body import composite
from opscope.harness.prepare.golden import compile_module
from opscope.harness.prepare.operand_sizes import is_float, root_sizes, stored, sums_terms
from opscope.harness.prepare.program import SingleOp
from opscope.harness.prepare.split import split_module
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.record.records import ResultCheck
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands, magnitude
from opscope.harness.verdict.steps import IEEE_ROUNDED, Steps, steps_of
from opscope.harness.verdict.tolerance import inner_size

Make = Callable[[np.random.Generator], list[np.ndarray]]
Exact = Callable[..., np.ndarray]
BF16 = ml_dtypes.bfloat16


@dataclass(frozen=True)
class Case:
    """One op on operands of a seed."""

    text: str
    make: Make
    exact: Exact | None = None
    """The op on operands in float64; None: the golden says what is right."""


@dataclass
class Ran:
    """An op as it ran, on the host or on the card: all that a verdict needs, and what a fault is made from."""

    op: SingleOp
    inputs: list[np.ndarray]
    golden: np.ndarray
    got: np.ndarray
    target: Target
    exact: np.ndarray
    """The result in float64 before it is rounded."""
    case: Case
    on_card: bool
    rng: np.random.Generator = field(repr=False)

    @property
    def known(self) -> bool:
        """Whether the result in double precision is the op's own, and not the golden."""
        return self.case.exact is not None

    @cached_property
    def operands(self) -> Operands:
        """The operands, with the sizes that a walk would have kept."""
        body = self.op.op_params.get("body")
        known = Operands(self.op.op_name, self.op.bytecode, lambda: self.inputs, body)
        if sums_terms(self.op.op_name, body):
            sizes = [stored(size) for size in root_sizes(self.op.op_name, known.run, self.inputs)]
            known.kept = lambda: sizes
        return known

    def verdict(self, got: np.ndarray) -> ResultCheck:
        """The verdict on a result, as a lane gives it."""
        return compare(
            [self.golden],
            [got],
            self.op.op_name,
            self.target,
            inputs=self.op.inputs,
            outputs=self.op.outputs,
            params=self.op.op_params,
            operands=self.operands,
        )[0]

    def hidden(self, got: np.ndarray) -> bool:
        """Whether the documented rounding could have made every element of a result, each in its own direction.

        On the card: what the matrix unit cuts off the terms, what the function's kernel may be off, and one rounding to
        nearest of each format that the result is packed in. On the host: four units of the type that it computes in,
        and one rounding. Both are measured from the result in double precision; without one nothing is hidden.
        """
        op = self.op
        if not self.known or not is_float(self.golden):
            return False
        size, body = magnitude(self.exact), op.op_params.get("body")
        terms: np.ndarray | float = 0.0
        if sums_terms(op.op_name, body):
            terms = magnitude(self.operands.run([np.abs(x) if is_float(x) else x for x in self.inputs])[0])
        inner = inner_size(op_family(op.op_name), op.inputs, op.outputs, op.op_params)
        unit = 2.0 ** (-53 if self.golden.dtype == np.float64 else -24)
        allowed = 0.5 * np.abs(np.spacing(self.exact.astype(self.golden.dtype)).astype(np.float64))
        allowed += inner * unit * terms + (
            0.0 if op.op_name in {*IEEE_ROUNDED, "stablehlo.convert"} else 8 * unit * size
        )
        if self.on_card and (steps := self._steps(inner)) is not None:
            lost = steps.cuts * (terms if isinstance(terms, np.ndarray) else size)
            allowed += lost + (steps.function + steps.short) * size
            allowed += steps.packed * size if steps.packed > steps.declared else 0.0
        with np.errstate(invalid="ignore"):
            off = np.abs(got.astype(np.float64) - self.exact)
            same = np.isfinite(self.exact) == np.isfinite(got.astype(np.float64))
        signs = np.signbit(got) == np.signbit(self.golden)
        return bool((same & signs).all() and not (np.nan_to_num(off) > allowed * (1 + 1e-6)).any())

    def _steps(self, inner: int) -> Steps | None:
        """What each step of the card costs."""
        op, ulp = self.op, self.target.error_bound(self.op.op_name) if self.target.error_bound else None
        return steps_of(
            self.target,
            op_family(op.op_name),
            op.outputs[0].data_type,
            inner,
            op_name=op.op_name,
            body=op.op_params.get("body"),
            ulp=ulp,
        )


Change = Callable[[Ran], np.ndarray]
"""Makes another result of what was computed."""


@dataclass(frozen=True)
class Changed:
    """A result to judge, wrong or honest: what is changed, of which op (`cases.CASES`)."""

    kind: str
    case: str
    change: Change


def of_each(kind: str, cases: str, change: Change) -> list[Changed]:
    """The same change of several ops."""
    return [Changed(kind, case.strip(), change) for case in cases.split(",")]


def run(case: Case, seed: int, place: str, options: ResultOptions | None = None) -> Ran | None:
    """The op on the host (`host`) or on the card (`card`); None if the card does not take it."""
    split = split_module(case.text, "case")
    (op,) = split.ops.values()
    rng = np.random.default_rng(seed)
    inputs = case.make(rng)
    golden = compile_module(op.bytecode, widen=True)(inputs)[0]
    options = options or ResultOptions(arch="n150", unsupported_types="fallback")
    on_card = False
    if place == "host":
        target, got = exact_host("xla", ResultOptions()), compile_module(op.bytecode)(inputs)[0]
    else:
        backend = Reference()
        job = Job(op.op_id, op.bytecode, [x.copy() for x in inputs], options, op.outputs)
        try:
            for stage in backend.stages:
                backend.climb(Stage(stage), job)
        except Exception:  # noqa: BLE001 - whatever the card refuses has no result to spoil
            return None
        on_card = job.ran_on != "host"
        target, got = job.target or backend.target(options), job.outputs[0]
    with np.errstate(all="ignore"):
        wide = (
            golden if case.exact is None else case.exact(*(x.astype(np.float64) if is_float(x) else x for x in inputs))
        )
    return Ran(
        op, inputs, golden, got, target, np.asarray(wide).astype(np.float64).reshape(golden.shape), case, on_card, rng
    )


# --- texts


def shape_of(sizes: Sequence[int], element: str) -> str:
    """A tensor type, `tensor<2x3xf32>`."""
    return f"tensor<{''.join(f'{size}x' for size in sizes)}{element}>"


def normal(*shapes: Sequence[int], element: str = "f32", scale: float = 1.0) -> Make:
    """Normal operands of these shapes."""
    kind = numpy_dtype(element)
    return lambda rng: [(scale * rng.standard_normal(shape)).astype(kind) for shape in shapes]


def spread(shape: Sequence[int], low: float, high: float, element: str = "f32") -> Make:
    """One operand, uniform between two ends."""
    return lambda rng: [rng.uniform(low, high, shape).astype(numpy_dtype(element))]


def fixed(*values: np.ndarray) -> Make:
    """Operands that no seed changes but in their order along the first dim."""
    return lambda rng: [value[rng.permutation(len(value))] for value in values]


def elementwise(
    name: str,
    make: Make,
    shape: Sequence[int],
    element: str,
    arity: int,
    exact: Exact | None,
    result: str | None = None,
) -> Case:
    """An elementwise op of so many operands of one type."""
    kind, out = shape_of(shape, element), shape_of(shape, result or element)
    arguments = ", ".join(f"%a{number}: {kind}" for number in range(arity))
    values = ", ".join(f"%a{number}" for number in range(arity))
    types = ", ".join([kind] * arity)
    return Case(
        f'func.func @main({arguments}) -> {out} {{\n  %0 = "{name}"({values}) : ({types}) -> {out}\n'
        f"  return %0 : {out}\n}}",
        make,
        exact,
    )


def binary(name: str, shape: Sequence[int], element: str, exact: Exact | None, make: Make | None = None) -> Case:
    """An elementwise op of two normal operands."""
    return elementwise(f"stablehlo.{name}", make or normal(shape, shape, element=element), shape, element, 2, exact)


def unary(name: str, make: Make, shape: Sequence[int], element: str, exact: Exact | None) -> Case:
    """An elementwise op of one operand."""
    return elementwise(name if "." in name else f"stablehlo.{name}", make, shape, element, 1, exact)


def convert(make: Make, shape: Sequence[int], before: str, after: str) -> Case:
    """A conversion."""
    return elementwise("stablehlo.convert", make, shape, before, 1, lambda x: x, result=after)


def composed(formula: str, element: str) -> Case:
    """A composite of a formula with the steps in which it is usually written, on values of deviation 3."""
    row, shape = POINTWISE[formula], (64, 64)
    text = composite(formula, row.steps, dict(row.attributes), (*shape, element), 1)
    return Case(
        text, normal(shape, element=element, scale=3.0), lambda x: np.asarray(row.exact(x, **dict(row.attributes)))
    )


def product(m: int, k: int, n: int, element: str, make: Make | None = None) -> Case:
    """A product of two matrices."""
    a, b, c = (shape_of(sizes, element) for sizes in ((m, k), (k, n), (m, n)))
    return Case(
        f"func.func @main(%a: {a}, %b: {b}) -> {c} {{\n"
        f"  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({a}, {b}) -> {c}\n  return %0 : {c}\n}}",
        make or normal((m, k), (k, n), element=element),
        np.matmul,
    )


def convolution(size: int, features: int, element: str) -> Case:
    """A 3x3 convolution of one image."""
    x, w = shape_of((1, size, size, features), element), shape_of((3, 3, features, features), element)

    def exact(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        padded = np.pad(image[0], ((1, 1), (1, 1), (0, 0)))
        parts = [padded[i : i + size, j : j + size] @ kernel[i, j] for i in range(3) for j in range(3)]
        return np.sum(parts, axis=0)[np.newaxis]

    return Case(
        f"func.func @main(%x: {x}, %w: {w}) -> {x} {{\n"
        "  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],\n"
        "    window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}\n"
        f"    : ({x}, {w}) -> {x}\n  return %0 : {x}\n}}",
        normal((1, size, size, features), (3, 3, features, features), element=element),
        exact,
    )


REDUCERS: dict[str, tuple[str, Callable[..., np.ndarray]]] = {
    "add": ("0.0", np.sum),
    "multiply": ("1.0", np.prod),
    "maximum": ("0xFF800000", np.max),
}


def reduction(body: str, shape: Sequence[int], dims: Sequence[int], element: str, make: Make | None = None) -> Case:
    """A reduction over some dims."""
    x = shape_of(shape, element)
    out = shape_of([size for dim, size in enumerate(shape) if dim not in dims], element)
    start, function = REDUCERS[body]
    if body == "maximum" and element != "f32":
        start = {"bf16": "0xFF80", "f64": "0xFFF0000000000000"}[element]
    return Case(
        f"func.func @main(%x: {x}) -> {out} {{\n  %i = stablehlo.constant dense<{start}> : tensor<{element}>\n"
        f"  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.{body} across dimensions = {list(dims)}\n"
        f"    : ({x}, tensor<{element}>) -> {out}\n  return %0 : {out}\n}}",
        make or normal(shape, element=element),
        lambda v: function(v, axis=tuple(dims)),
    )


def moved(line: str, before: Sequence[int], after: Sequence[int], element: str, make: Make, arity: int = 1) -> Case:
    """An op that only moves values: `line` is its text, with {x} and {y} for the types."""
    x, y = shape_of(before, element), shape_of(after, element)
    arguments = ", ".join(f"%a{number}: {x}" for number in range(arity))
    return Case(f"func.func @main({arguments}) -> {y} {{\n  %0 = {line.format(x=x, y=y)}\n  return %0 : {y}\n}}", make)


def with_negative_zeros(shape: Sequence[int], element: str = "f32") -> Make:
    """Normal values, a tenth of them -0 and a tenth 0."""

    def make(rng: np.random.Generator) -> list[np.ndarray]:
        x, draw = rng.standard_normal(shape), rng.random(shape)
        x[draw < 0.2] = 0.0
        x[draw < 0.1] = -0.0
        return [x.astype(numpy_dtype(element))]

    return make


def count(shape: Sequence[int]) -> int:
    """Number of elements."""
    return math.prod(shape)

"""What an op computes in exact arithmetic: a composite by its name, any other body of elementwise ops step by step.

A golden by XLA has the rounding of its own steps, which a composite's tail shows alone; and what the operands are off
by says little of steps between. So composites that have a meaning are held to it: the golden is the formula rounded
once, and an error may be as large as some roundings of the formula's steps make it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from opscope.base.op_families import op_family
from opscope.harness.formulas import attributes
from opscope.harness.formulas.elementwise import CHOICES, COMPARED
from opscope.harness.formulas.elementwise import FORMULAS as ELEMENTWISE
from opscope.harness.formulas.formula import SMALLEST, moved
from opscope.harness.formulas.nearest import PART, in_parts, precision, rounded
from opscope.harness.formulas.stepwise import BY_HOST, BY_KERNELS, evaluations
from opscope.harness.formulas.table import FORMULAS
from opscope.harness.formulas.traced import NotElementwiseError, Traced, step
from opscope.harness.prepare.operand_sizes import is_float
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.verdict import documented_steps, tails
from opscope.harness.verdict.check import element_type
from opscope.harness.verdict.documented_steps import one_step
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.rounding import cut_to
from opscope.harness.verdict.steps import FLOAT32, KEPT, Steps, cut_of
from opscope.harness.verdict.tails import Form
from opscope.harness.verdict.target import HOST, Target
from opscope.harness.verdict.tolerance import TABLE

Arrays = Sequence[np.ndarray]
ACTIVATION = 32.0
"""Half units of a body's size that its evaluation in float32 may be off: honest bodies of twelve activations stay
below, wrong tails come to 200 and more (docs/judge.md)."""
ROWS = 16.0
"""The same of what adds values up, besides two roundings for the root of their number."""
LEANS = 1.0
"""Units in the last place of float32 by which a composite of single elements may be off on the mean, where nothing
cancels: bodies of 90 formulas came to 0.29 on three libraries (docs/measurements.md), two units too large are 2."""
COARSE = 3.0
"""Half units of an op's own type of 16 bits that a body may be off which rounds each of its steps to that type."""
STEPWISE, ON_CARD = 1.25, 1.75
"""How much farther off an honest evaluation may be than the farthest of a few whose steps are at most a unit off: on a
host; on a card, whose kernels may be farther (docs/judge.md)."""
NARROW = 1 << 17
"""Elements from which it is cheaper to find the different numbers of 16 bits among them."""
STEPPED = 1 << 21
"""Numbers above which evaluations with rounded steps take seconds: a bound is taken."""
MOST = 1 << 24
"""Elements above which a formula takes seconds and gigabytes: its op is judged by XLA's golden."""
COMPOSITE = "stablehlo.composite"
TRAINING = "stablehlo.batch_norm_training"
CALL = "stablehlo.custom_call:"
COMPARE = "stablehlo.compare"


@dataclass(frozen=True)
class Meaning:
    """A computation on float64 arrays, and how far the rounding of its steps moves it."""

    by: str
    """Who says so, for flags and texts: `gelu`, `its body`."""
    evaluate: Callable[[Arrays], list[np.ndarray]]
    """Float64 operands -> float64 results."""
    sizes: Callable[[Arrays], list[np.ndarray]]
    """Float64 operands -> what one relative rounding of the steps moves each result by."""
    sizes_and_floors: Callable[[Arrays], tuple[list[Any], list[Any]]]
    """Float64 operands -> the same, and how far each result may be off absolutely."""
    roundings: float
    """Half units of float32 of a size that an honest evaluation may be off."""
    elementwise: bool = True
    alone: bool = False
    """Whether each element of a result is made of its operands' elements at its own place, so that any part of them may
    be asked for."""
    steps: Callable[..., Any] | None = None
    """The steps in which it is usually evaluated, of float64 operands that are traced or rounded; None: not known."""
    forms: tuple[Callable[..., Any], ...] = ()
    """All ways to write it that are known and honest; none where its steps are known."""
    other_sizes: Callable[[Arrays], Iterator[np.ndarray]] = lambda _: iter(())
    """Float64 operands -> what one relative rounding of other honest steps moves the first result by, each."""
    products: bool = False
    """Whether it multiplies matrices."""
    adds: bool = False
    """Whether it does nothing but add its operand's values up."""
    mistaken: Callable[[Arrays], list[np.ndarray]] | None = None
    """What it is computed as by mistake: float64 operands -> float64 results; None: nothing that its sizes hide."""
    grouped: Callable[[np.ndarray], np.ndarray] = lambda y: y.reshape(-1, 1)
    """A result with a row for each group of values that has a variance of its own."""
    own_body: bool = False
    """Whether it is what the op's own body says, and not a formula that the body has to agree with."""
    known_steps: bool = False
    """Whether its steps are those of the op's own body. Of another body they say only how far some steps are off."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The attributes of its formula."""


def of_formula(name: str, given: Mapping[str, Any], operands: int, terms: int | None = None) -> Meaning | None:
    """The meaning of a formula of the table, by its name and all its attributes; None for another number of operands.
    `terms` says how many values are added up; None: the formula's own count, of its operands."""
    formula = FORMULAS[name]
    if operands not in formula.operands:
        return None

    def results(of: Callable[..., Any]) -> Callable[[Arrays], Any]:
        def call(inputs: Arrays) -> Any:
            with np.errstate(all="ignore"):
                made = of(*inputs, **given)
            return made if isinstance(made, list | tuple) else [made]

        return call

    roundings = ACTIVATION if formula.elementwise else ROWS + 2 * math.sqrt(terms or 1)
    return Meaning(
        name,
        results(formula.exact),
        results(formula.sizes),
        results(formula.sizes_and_floors),
        roundings,
        elementwise=formula.elementwise,
        alone=formula.elementwise and (operands > 1 or "axis" not in given),
        steps=partial(formula.steps, **given),
        forms=tuple(partial(each, **given) for each in formula.forms),
        other_sizes=lambda inputs: formula.other_sizes(*inputs, **given),
        products=formula.products,
        adds=formula.adds,
        mistaken=None if formula.mistaken is None else results(formula.mistaken),
        grouped=partial(formula.grouped, **given),
        given=given,
    )


def _called(function: Callable[..., Any], inputs: Arrays) -> list[Any]:
    """The one result of a function of the operands, as `Meaning.evaluate` gives it."""
    return [function(*inputs)]


def of_function(function: Callable[..., Any], by: str) -> Meaning:
    """The meaning of a function of float64 arrays: elementwise if it is made of NumPy's functions of single elements;
    else its size is that of its results. Its steps are found by calling it."""

    def evaluate(inputs: Arrays) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            made = function(*inputs)
        return [np.asarray(each, np.float64) for each in (made if isinstance(made, list | tuple) else [made])]

    def sizes(inputs: Arrays) -> list[np.ndarray]:
        return [size for size, _ in moved(function, tuple(inputs))]

    return Meaning(by, evaluate, sizes, _with_floors(sizes), ACTIVATION, steps=function, forms=(function,))


def _with_floors(
    sizes: Callable[[Arrays], list[np.ndarray]],
) -> Callable[[Arrays], tuple[list[np.ndarray], list[Any]]]:
    return lambda inputs: (sizes(inputs), _float32_floors(inputs))


def _float32_floors(inputs: Arrays) -> list[Any]:
    """Where intermediate values may be below the smallest normal number, and are multiplied by an operand then."""
    return [SMALLEST * (1 + sum(np.abs(x) for x in inputs))]


def meaning_of(op_name: str, params: Mapping[str, str], operands: Operands, target: Target) -> Meaning | None:
    """The meaning of an op as a run has it; None if it has none, or none that says what is honest on its target.

    `operands` has the module, whose body is read where the name says nothing.
    """
    called = op_name.startswith(CALL)
    if (op_name not in (COMPOSITE, TRAINING) and not called) or target.float_format is not None:
        return None
    inputs = operands.inputs
    floats = [is_float(x) and x.dtype.kind != "c" and x.dtype.itemsize <= 4 for x in inputs]
    if not inputs or not all(floats) or sum(x.size for x in inputs) > MOST:
        return None
    meaning = _meaning(op_name, params, operands)
    if meaning is not None and meaning.elementwise and not meaning.own_body and not called:
        if all(x.dtype.itemsize == 4 for x in inputs):
            meaning = replace(meaning, other_sizes=partial(_beside, meaning, operands.module))
        elif (body := of_body(operands.module)) is not None:
            meaning = replace(meaning, steps=body.steps, forms=(), known_steps=True)
    return None if meaning is None or not decides(meaning, target, inputs) else meaning


def decides(meaning: Meaning, target: Target, inputs: Arrays) -> bool:
    """Whether the rounding of its steps says what is honest on a target: of what adds values up only where that is done
    in float32 or wider, not in 16 bits or in TF32."""
    narrow = target.narrow_dst or (target.sums_in_own_type and any(x.dtype.itemsize < 4 for x in inputs))
    return meaning.elementwise or not (narrow or (target.tf32_products and meaning.products))


def _meaning(op_name: str, params: Mapping[str, str], operands: Operands) -> Meaning | None:
    inputs = operands.inputs
    if op_name == TRAINING:
        given = {key: attributes.value(params[key]) for key in ("epsilon", "feature_index")}
        terms = FORMULAS["batch_norm_training"].terms(*inputs, **given)
        return of_formula("batch_norm_training", given, len(inputs), terms)
    if (known := attributes.of_composite(params)) is not None:
        name, given = known
        terms = FORMULAS[name].terms(*inputs, **given)
        return of_formula(name, given, len(inputs), terms)
    return None if op_name.startswith(CALL) else of_body(operands.module)


def of_body(module: bytes) -> Meaning | None:
    """The meaning of a composite's decomposition, if that is made of elementwise ops alone that have formulas; of its
    own constants, as they are rounded."""
    from opscope.harness.prepare.mlir.decomposition import decomposed
    from opscope.harness.prepare.split import split_module

    try:
        split = split_module(decomposed(module), "body")
    except Exception:  # noqa: BLE001  what MLIR refuses is judged by the golden that there is
        return None
    program, values = split.program, split.values
    shapes = {values[number].shape for number in (*program.arguments, *program.results)}
    if len(shapes) != 1 or len(program.results) != 1:
        return None
    alike = set[int]()  # numbers that are the same at all places: of constants, and of what is made of these alone
    fixed = set[int]()  # constants, which a conversion rounds once and for all
    for node in program.nodes:
        if node.kind == "constant" and node.value is not None:
            if node.value.size != 1 and any(node.value.strides):
                return None
            fixed.update(node.results)
            alike.update(node.results)
            continue
        if alike.issuperset(node.operands):
            alike.update(node.results)
        elif _keeps(node.name) and values[node.operands[0]].shape != values[node.results[0]].shape:
            return None
        if _keeps(node.name) and fixed.issuperset(node.operands):
            fixed.update(node.results)
        known = node.name in ELEMENTWISE or node.name in CHOICES or _keeps(node.name) or node.name == COMPARE
        kinds = [values[number].data_type for number in node.results]
        narrows = (
            node.name == "stablehlo.convert"
            and not fixed.issuperset(node.results)
            and node.results != program.results
            and kinds[0] not in ("f32", "f64")
        )
        real = len(kinds) == 1 and (node.name == COMPARE or kinds[0].startswith(("f", "bf")))
        if node.kind != "op" or not known or narrows or not real:
            return None

    if alike.issuperset(program.results):
        return None

    def run(inputs: Sequence[Any]) -> Any:
        found: dict[int, Any] = dict(zip(program.arguments, inputs, strict=True))
        for node in program.nodes:
            if node.value is not None:
                found[node.results[0]] = np.asarray(node.value.flat[0]).astype(np.float64)
                continue
            operands = [found[number] for number in node.operands]
            if _keeps(node.name):
                (value,) = operands
                if node.results[0] in fixed:
                    kind = values[node.results[0]].data_type
                    value = rounded(value, numpy_dtype(kind)).astype(np.float64)
                found[node.results[0]] = value
            else:
                direction = split.ops[node.op_id].op_params.get("comparison_direction", "")
                function = COMPARED.get(direction[-3:-1]) if node.name == COMPARE else ELEMENTWISE.get(node.name)
                found[node.results[0]] = step(function or CHOICES[node.name], *operands)
        return found[program.results[0]]

    def evaluate(inputs: Arrays) -> list[np.ndarray]:
        return [_plain(run(inputs))]

    def steps(*inputs: Any) -> Any:
        return run(inputs)

    def sizes(inputs: Arrays) -> list[np.ndarray]:
        made = run([Traced(x) for x in inputs])
        return [made.size() if isinstance(made, Traced) else np.abs(made)]

    return Meaning(
        "its body", evaluate, sizes, _with_floors(sizes), ACTIVATION, steps=steps, own_body=True, known_steps=True
    )


def _beside(meaning: Meaning, module: bytes, inputs: Arrays) -> Iterator[np.ndarray]:
    """What roundings of other honest steps than the usual ones move a formula's result by: also of its op's body, where
    this is the formula too."""
    yield from meaning.other_sizes(inputs)
    if (body := of_body(module)) is not None:
        size, (exact,), (written,) = body.sizes(inputs)[0], meaning.evaluate(inputs), body.evaluate(inputs)
        yield np.where(np.abs(written - exact) <= meaning.roundings * FLOAT32 * size + SMALLEST, size, 0.0)


def _keeps(op_name: str) -> bool:
    """Whether an op of a body hands its operand on, perhaps in all places or in another type."""
    return op_name in ("stablehlo.convert", "stablehlo.broadcast_in_dim", "stablehlo.reshape")


def _plain(value: Any) -> np.ndarray:
    return np.asarray(value.value if isinstance(value, Traced) else value, np.float64)


@dataclass
class ExactOperands(Operands):
    """The operands of an op that has a meaning: evaluated by that, without XLA."""

    meaning: Meaning | None = None
    types: tuple[np.dtype, ...] = ()
    """The types of the results."""
    target: Target = HOST
    """What computes."""
    in_registers: bool = False
    """Whether each operand and each step is read as a card's matrix unit reads it."""
    usual_alone: bool = False
    """Whether its steps are the usual ones, and no others are honest."""

    @property
    def has_body(self) -> bool:
        """Whether there is a body beside the formula, to be compared with it."""
        return bool(self.module) and self.meaning is not None and not self.meaning.own_body

    @property
    def has_kernels(self) -> bool:
        """Whether a card computes it that adds values up, in several steps, by kernels of its own."""
        return (
            self.target.tiled
            and self.meaning is not None
            and self.meaning.roundings > 0
            and not (self.meaning.elementwise or self.meaning.adds)
        )

    def read_by_the_matrix_unit(self) -> ExactOperands:
        """The same where what its steps hand on lies in registers of the matrix unit, which reads fewer bits."""
        return replace(self, in_registers=True)

    def by_usual_steps(self) -> ExactOperands | None:
        """The same where no other steps than the usual ones are honest, which are soon evaluated; None if it is so."""
        if self.usual_alone or self.meaning is None or not self.meaning.roundings:
            return None
        usual = replace(self, usual_alone=True)
        usual.__dict__ |= {name: self.__dict__[name] for name in ("inputs", "exact") if name in self.__dict__}
        return usual

    def in_documented_forms(self) -> Iterator[tuple[Form, ExactOperands]]:
        """The same where the target's kernels are documented to compute another function than the formula."""
        for form in self.target.forms:
            if self.meaning is not None and form.name == self.meaning.by and self.types[0].name in form.types:
                function = partial(form.function, **self.meaning.given)
                yield form, replace(self, meaning=replace(self.meaning, evaluate=partial(_called, function)))

    def stepwise(self) -> ExactOperands:
        """The same where each step may be rounded to the type of the results."""
        if self.target.rounds_steps or self.target.tiled:
            return self
        return replace(self, target=replace(self.target, rounds_steps=True))

    @cached_property
    def exact(self) -> list[np.ndarray]:
        """The results on the op's own inputs, not rounded, float64."""
        return self._evaluated(self.inputs)

    def _evaluated(self, inputs: Arrays) -> list[np.ndarray]:
        assert self.meaning is not None
        values, places = self.distinct(inputs)
        with np.errstate(all="ignore"):
            return [placed(y, places, inputs[0].shape) for y in self._in_parts(self.meaning.evaluate, values)]

    def _in_parts(self, of: Callable[[Arrays], list[Any]], inputs: Arrays) -> list[Any]:
        """A function of operands, part by part where its results are made element by element."""
        assert self.meaning is not None
        small = inputs[0].size <= PART
        if small or not self.meaning.alone or any(x.shape != inputs[0].shape for x in inputs):
            return of(inputs)
        return in_parts(lambda *part: of(part), *inputs)

    def distinct(self, inputs: Arrays) -> tuple[list[np.ndarray], np.ndarray | None]:
        """The operands in float64; of one operand of 16 bits, of which there are 65,536 numbers, each number once, and
        where it stands."""
        assert self.meaning is not None
        (x, *others) = inputs
        with np.errstate(invalid="ignore"):  # bfloat16 casts a NaN with a warning
            if others or not self.meaning.elementwise or x.dtype.itemsize > 2 or x.size <= NARROW:
                return [each.astype(np.float64) for each in inputs], None
            bits = np.ascontiguousarray(x).reshape(-1).view(f"u{x.dtype.itemsize}")
            seen = np.bincount(bits, minlength=1 << 8 * x.dtype.itemsize) > 0
            places = (np.cumsum(seen) - 1)[bits]
            return [np.flatnonzero(seen).astype(bits.dtype).view(x.dtype).astype(np.float64)], places

    @cached_property
    def mistaken(self) -> list[np.ndarray] | None:
        """What its formula gives where it is computed as by mistake, not rounded; None if there is no such mistake."""
        if self.meaning is None or self.meaning.mistaken is None:
            return None
        return self.meaning.mistaken([each.astype(np.float64) for each in self.inputs])

    @cached_property
    def golden(self) -> list[np.ndarray]:
        """The results on the op's own inputs, each rounded once."""
        return self._rounded(self.exact)

    def run(self, inputs: Arrays) -> list[np.ndarray]:
        """The op on other inputs, each result rounded once."""
        return self._rounded(self._evaluated(inputs))

    def _rounded(self, results: Arrays) -> list[np.ndarray]:
        return [rounded(y, dtype) for y, dtype in zip(results, self.types, strict=True)]

    def run_wide(self) -> list[np.ndarray]:
        """The op on its own inputs, not rounded."""
        return self.exact

    def run_with_denormals(self) -> list[np.ndarray]:
        """The op on its own inputs: float64 has room for denormals."""
        return self.golden

    def run_as_written(self) -> list[np.ndarray]:
        """The op on its own inputs: a formula has no initial values."""
        return self.golden

    def partial_sums(self, golden: np.ndarray) -> None:
        """None: a formula says nothing of the order in which a sum is added up."""

    def with_mean(self, steps: Steps, dtype: np.dtype) -> Steps:
        """The steps of a result with what it may be off on the mean, of single elements in float32 on a host. Those of
        rows are off together."""
        alone = self.meaning is not None and self.meaning.elementwise and self.meaning.roundings > 0
        if not alone or self.target.tiled or dtype != np.float32 or steps.stored or steps.packed:
            return steps
        return replace(steps, last_place=FLOAT32, leans=LEANS)

    @property
    def has_steps(self) -> bool:
        """Whether it is known how far the roundings of its steps move its results."""
        return self.meaning is not None and self.meaning.roundings != 0

    def within(self) -> list[np.ndarray] | None:
        """How far the roundings of its steps may move each element of each result, float64."""
        return [each.most for each in self._moves] if self.has_steps else None

    def within_at(self, places: np.ndarray, index: int) -> np.ndarray | None:
        """`within` of some elements of a result, by their places in the flat array; of these alone where no others
        have to be looked at."""
        shape = self.exact[index].shape
        few = self.meaning is not None and self.meaning.alone and 2 * places.size < self.exact[index].size
        if not few or "_moves" in self.__dict__ or any(x.shape != shape for x in self.inputs):
            return None if (within := self.within()) is None else np.ravel(within[index])[places]
        within = replace(self, load=lambda: [np.ravel(x)[places] for x in self.inputs]).within()
        return None if within is None else within[index]

    def usually(self) -> list[np.ndarray]:
        """How far roundings of the usual steps may move each element of each result, float64."""
        return [each.usual for each in self._moves]

    def in_wide_steps(self) -> list[np.ndarray]:
        """How far roundings of steps in float32 or wider may move each element of each result, float64."""
        return [each.wide for each in self._moves]

    def leaning(self) -> list[np.ndarray]:
        """What steps that all lean one way move each element of each result by, float64."""
        return [each.leaning for each in self._moves]

    @cached_property
    def _moves(self) -> list[_Moves]:
        assert self.meaning is not None
        meaning, (inputs, places) = self.meaning, self.distinct(self.inputs)
        widens = not (self.usual_alone or (self.target.tiled and self.types[0].itemsize <= 2))

        counts = 1 if places is None else np.bincount(places)
        on_card, shape, last = self.target.tiled, self.inputs[0].shape, len(inputs)
        rounds = [(self.target.rounds_steps or on_card) and dtype.itemsize <= 2 for dtype in self.types]
        alone = not (self.in_registers or any(rounds))

        def moved_by(inputs_and_exact: Arrays) -> list[Any]:
            """Of each result what it may move by in usual and in all steps, none of which is rounded to its type; then
            what it moves by where all lean one way, or else the sizes of both."""
            inputs, exact, made = inputs_and_exact[:last], inputs_and_exact[last:], []
            sizes, floors = meaning.sizes_and_floors(inputs)
            floors = floors * len(sizes) if len(floors) < len(sizes) else floors
            widest = sizes[0]
            for other in meaning.other_sizes(inputs) if widens else ():
                widest = np.maximum(widest, _finite(other))
            for index, (size, floor, right, dtype) in enumerate(zip(sizes, floors, exact, self.types, strict=True)):
                bits, least = precision(dtype)
                rate, large, wide = self._rate(dtype), np.abs(right), size if index else widest
                floor = floor * (2.0**least / SMALLEST) if rounds[index] else floor
                # A step that is lost makes no large number small: Infinity, if anything.
                floor = np.where((large > 1) & (floor > large / 8), 0.0, floor)
                usual = own = _finite(rate * size + floor + 2.0 ** (least - bits))
                if wide is not size:
                    own = _finite(rate * wide + floor + 2.0 ** (least - bits))
                made += [usual, own, *([np.copysign(own, _finite(right))] if alone else [size, wide])]
            return made

        with np.errstate(all="ignore"):
            exact = self.exact if places is None else meaning.evaluate(inputs)
            several, moves = iter(self._in_parts(moved_by, [*inputs, *exact])), list[_Moves]()
        if alone:
            for usual, own, leaning in zip(several, several, several, strict=True):
                moves.append(_Moves(*(placed(each, places, shape) for each in (own, leaning, usual, own))))
            return moves
        for index, (usual, own, size, widest) in enumerate(zip(several, several, several, several, strict=True)):
            dtype, right, apart = self.types[index], _finite(exact[index]), None
            most = own
            if rounds[index]:
                apart = self._apart(inputs, dtype, index, exact[index], counts, size, own)
            if rounds[index] and (apart is None or not meaning.elementwise):
                most = own + COARSE * 2.0 ** -(precision(dtype)[0] + 1) * _finite(widest)
            if apart is not None:
                most = np.maximum(most, own + (ON_CARD if on_card else STEPWISE) * apart.most)
            if self.in_registers:
                usual, most = (each + self._cut[index] for each in (usual, most))
            leaning = np.copysign(most, right) if apart is None else apart.leaning
            usual = most if rounds[index] else usual
            moves.append(_Moves(*(placed(each, places, shape) for each in (most, leaning, usual, own))))
        return moves

    def _rate(self, dtype: np.dtype) -> float:
        """How far one of a result's steps may be off, times how many of them may be alike, relative."""
        assert self.meaning is not None
        rate = self.meaning.roundings * (FLOAT32 if dtype.itemsize <= 4 else 2.0 ** -(precision(dtype)[0] + 1))
        if not self.target.tiled:
            return rate
        # Each step may be a kernel, whose functions are no better than XLA's row of float32.
        rate = max(rate, TABLE["Float32"].relative_l2)
        if dtype.itemsize <= 2 or not self.meaning.elementwise:
            multiplies = self.in_registers or self.meaning.products or self.meaning.elementwise
            rate += cut_of(self.target, "matmul" if multiplies else "reduce", element_type(dtype))
        return rate

    @cached_property
    def _cut(self) -> list[np.ndarray]:
        """How far each result moves where all its operands are cut to what the matrix unit reads of either side, or
        some values of them are."""
        farthest = [np.zeros(y.shape) for y in self.exact]
        few, rng = min(KEPT.get(self.target.math_fidelity, KEPT["HiFi4"])), np.random.default_rng(0)
        operands = [x.astype(np.float64) for x in self.inputs]
        for share in (1.0, 0.5, 0.5):
            off = [np.where(rng.random(x.shape) < share, cut_to(x, few), x) for x in operands]
            for index, result in enumerate(self._evaluated(off)):
                farthest[index] = np.maximum(farthest[index], np.abs(_finite(result - self.exact[index])))
        return [ON_CARD * each for each in farthest]

    def _apart(
        self,
        inputs: Arrays,
        dtype: np.dtype,
        index: int,
        exact: np.ndarray,
        counts: Any,
        size: np.ndarray,
        own: np.ndarray,
    ) -> _Moves | None:
        """How far off a result is in evaluations whose steps are rounded to its type, this way and that: the most, and
        what it is in the one whose mean is farthest off; None where its steps are not known, or too many."""
        assert self.meaning is not None
        if self.meaning.steps is None or sum(x.size for x in inputs) > STEPPED:
            return None
        farthest, leaning, along = np.zeros(exact.shape), np.zeros(exact.shape), 0.0
        with np.errstate(all="ignore"):
            weights = _finite(counts * exact / (np.square(exact) + np.square(size)))
        try:
            ways = BY_HOST if self.meaning.known_steps and not self.target.tiled else BY_KERNELS
            several = evaluations(self.meaning.steps, inputs, dtype, ways, flushes=self.target.tiled)
            for results in several:
                with np.errstate(invalid="ignore"):
                    off = _finite(results[index] - exact)
                farthest = np.maximum(farthest, np.abs(off))
                if abs(mean := float((off * weights).sum())) > abs(along):
                    leaning, along = off, mean
        except NotElementwiseError:
            return None
        # What roundings in float32 may lean besides leads the same way.
        leaning = leaning + np.copysign(own, exact * np.copysign(1.0, along))
        return _Moves(farthest, leaning, farthest, farthest)


@dataclass(frozen=True)
class _Moves:
    """What the roundings of an op's steps move one of its results by: each element at most, and all that lean alike."""

    most: np.ndarray
    leaning: np.ndarray
    usual: np.ndarray
    """`most` of the usual steps."""
    wide: np.ndarray
    """`most` where steps are in float32 or wider."""


def placed(values: np.ndarray, places: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    """Values of distinct numbers where these stand."""
    return values if places is None else np.broadcast_to(values, (places.max() + 1,))[places].reshape(shape)


def _finite(x: np.ndarray) -> np.ndarray:
    return x if np.isfinite(x).all() else np.where(np.isfinite(x), x, 0.0)


def meant(
    op_name: str, params: Mapping[str, str], target: Target, golden: Arrays, operands: Operands | None
) -> tuple[Arrays, Operands | None]:
    """Golden and operands by which an op is judged: its meaning's where it has one, else those given.

    What overflows in float32 inside a body, where its meaning does not, is as the body has it.
    """
    if operands is None or isinstance(operands, ExactOperands):
        return golden, operands
    meaning = meaning_of(op_name, params, operands, target)
    if meaning is None:
        return golden, operands
    types = tuple(g.dtype for g in golden)
    exact = ExactOperands(
        op_name, operands.module, lambda: operands.inputs, meaning=meaning, types=types, target=target
    )
    try:
        results = exact.golden
    except (NotElementwiseError, ValueError):  # the latter for operands of other shapes than the formula's
        return golden, operands
    if [y.shape for y in results] != [g.shape for g in golden]:
        return golden, operands
    return [_overflown(y, g) for y, g in zip(results, golden, strict=True)], exact


def _overflown(exact: np.ndarray, body: np.ndarray) -> np.ndarray:
    """Exact values, but those of the body where it alone is not finite."""
    apart = np.isfinite(exact.astype(np.float64)) & ~np.isfinite(body.astype(np.float64))
    return np.where(apart, body, exact) if apart.any() else exact


def family(op_name: str, operands: Operands | None) -> str:
    """The family that an op is judged as: an elementwise one if a formula of several steps says what it computes."""
    several = isinstance(operands, ExactOperands) and operands.meaning is not None and operands.meaning.roundings > 0
    return "eltwise" if several else op_family(op_name)


def name_of(op_name: str, operands: Operands | None) -> str:
    """What an op computes, in a word: the name of its formula, else its own without its dialect."""
    if isinstance(operands, ExactOperands) and operands.meaning is not None:
        return operands.meaning.by
    return op_name.rpartition(".")[2]


def as_documented(
    op_name: str, target: Target, golden: Arrays, got: Arrays, operands: Operands | None
) -> tuple[Arrays, set[int]]:
    """Results with the golden where they are what the target's kernels are documented to return instead, and which
    results that changes."""
    known = tails.of(target.tails, name_of(op_name, operands), target.float_format)
    if operands is None or not any(tails.may_be(known, g, d) for g, d in zip(golden, got, strict=False)):
        return got, set()  # without the operands, which lie in files
    return tails.as_documented(known, golden, got, operands.inputs)


def by_documented_steps(
    op_name: str, target: Target, golden: np.ndarray, got: np.ndarray, operands: Operands | None
) -> np.ndarray | None:
    """Which elements of a result that are not the golden's are what the steps of an elementwise op give on a card, of
    those that meet NaN, infinities or denormals; None if none is, or nothing is documented."""
    if operands is None or not set(tails.CARD) & set(target.tails) or target.float_format is not None:
        return None
    ways, alone = list[Callable[..., Any]](), True
    if isinstance(operands, ExactOperands) and (meaning := operands.meaning) is not None and meaning.elementwise:
        alone = meaning.alone
        ways = [one_step(lambda *x: meaning.evaluate(x)[0]), *([meaning.steps] if meaning.steps is not None else [])]
    elif (function := ELEMENTWISE.get(op_name) or CHOICES.get(op_name)) is not None:
        ways = [one_step(function)]
    if not ways or not is_float(got) or got.dtype.kind == "c" or got.dtype.itemsize not in (2, 4):
        return None
    if any(x.shape != got.shape or x.dtype != got.dtype for x in (golden, *operands.inputs)):
        return None
    other = (golden != got) & ~((golden != golden) & (got != got))
    # What is not made element by element has to have all of its operands.
    some = other if alone else np.ones_like(other)
    if not other.any() or np.count_nonzero(some) > documented_steps.MOST:
        return None
    cut = cut_of(target, "matmul", element_type(got.dtype)) if got.dtype == np.float16 else 0.0
    found = np.zeros(got.shape, bool)
    try:
        whole = some.all()
        inputs = [x if whole else x[some] for x in operands.inputs]
        found[some] = np.ravel(documented_steps.right(ways, inputs, got if whole else got[some], cut))
    except (NotElementwiseError, TypeError):  # of a constant of the module, which is no operand, nothing is known
        return None
    found &= other
    return found if found.any() else None

"""Python functions that a JAX program calls for a result (`pure_callback`, `io_callback`): they are evaluated here.

They live in the process that traced the program, and no other can call them. So a program without them is exported:
their results become arguments, with the values that the function gives here, on the model's own inputs. An argument
`python.5.1.0` is result 0 of the call at equation 1 of equation 5: of each iteration of a `scan` one, stacked. A
`while` whose steps call Python is such a call as a whole. A call in a branch that is not taken here gives zeros. Calls
without a result (`jax.debug.print`) stay; who reads the program leaves them out. Imports jax.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from opscope.models.arguments import ArgSpec, Built
from opscope.models.seeding import draw, dtype_of

Path = tuple[int, ...]
"""Where an equation stands: its number, in each equation that it is nested in."""
Results = tuple[Any, ...]

CALLS = frozenset({"pure_callback", "io_callback"})
"""The primitives that call Python for a result."""
PREFIX = "python."
LIBRARIES = {"equinox": "EQX_ON_ERROR=nan, with which Equinox leaves its error checks out"}
"""Package whose error checks are calls of Python -> how its programs are traced without them."""


@dataclass(frozen=True)
class Settled:
    """A model that calls no Python function any more."""

    built: Built
    values: Mapping[str, np.ndarray]
    """The arguments that are results of such calls."""
    notes: tuple[str, ...]
    """What became of the calls, in lines."""


def settled(built: Built, values: Mapping[str, Any]) -> Settled | None:
    """Evaluates the Python calls of a model on `values` (argument -> array; others are drawn by their law, seed 0).

    None if there are none with a result. Where a value is not known, they stay. Raises what the model or such a
    function raises.
    """
    traced = _Traced.of(built)
    calls = [call for equation in traced.closed.jaxpr.eqns for call in _calls_in(equation)]
    if not calls:
        return None
    known = dict(values)
    for index, spec in enumerate(built.arguments):
        if spec.name not in known and spec.law:
            known[spec.name] = draw(spec.law, spec.shape, dtype_of(spec.dtype), 0, index)
    live = _Live()
    complete = all(spec.name in known for spec in built.arguments)
    if complete:
        _interpret(traced.closed, [jnp.asarray(known[spec.name]) for spec in built.arguments], live, ())
    results = {
        _name(path, index): np.asarray(array)
        for path, arrays in live.given.items()
        for index, array in enumerate(arrays)
    }
    return Settled(with_results(built, results, traced, complete), results, tuple(_notes(calls, live, complete)))


def with_results(
    built: Built, values: Mapping[str, Any], traced: _Traced | None = None, complete: bool = True
) -> Built:
    """The model with the results of its Python calls, those of `values` with such a name, as further arguments."""
    whole = traced or _Traced.of(built)
    specs = [
        ArgSpec(name, array.shape, str(array.dtype), "", "input")
        for name, array in values.items()
        if name.startswith(PREFIX) and all(name != spec.name for spec in built.arguments)
    ]

    def forward(w: Mapping[str, Any]) -> Any:
        given: dict[Path, list[Any]] = {}
        for spec in specs:
            *path, _ = map(int, spec.name.removeprefix(PREFIX).split("."))
            given.setdefault(tuple(path), []).append(w[spec.name])
        how = _Given({path: tuple(arrays) for path, arrays in given.items()}, complete)
        return jax.tree.unflatten(
            whole.structure, _interpret(whole.closed, [w[spec.name] for spec in built.arguments], how, ())
        )

    return Built(forward, (*built.arguments, *specs), built.loss)


def _name(path: Path, index: int) -> str:
    return PREFIX + ".".join(map(str, (*path, index)))


@dataclass(frozen=True)
class _Traced:
    """A model as JAX has traced it."""

    closed: ClosedJaxpr
    structure: Any
    """Of its results."""

    @classmethod
    def of(cls, built: Built) -> _Traced:
        names = [spec.name for spec in built.arguments]
        structs = [jax.ShapeDtypeStruct(spec.shape, dtype_of(spec.dtype)) for spec in built.arguments]
        closed, results = jax.make_jaxpr(
            lambda *arrays: built.forward(dict(zip(names, arrays, strict=True))), return_shape=True
        )(*structs)
        return cls(closed, jax.tree.structure(results))


@dataclass
class _Live:
    """Equations are computed at once, and calls made."""

    given: dict[Path, Results] = field(default_factory=dict)
    """Call -> its results."""

    def call(self, equation: Any, values: Sequence[Any], path: Path) -> Sequence[Any]:
        results = _compute(equation, values)
        self.given[path] = tuple(map(np.asarray, results))
        return results

    def branch(self, equation: Any, values: Sequence[Any], path: Path) -> Sequence[Any]:
        branches = equation.params["branches"]
        chosen = int(np.clip(values[0], 0, len(branches) - 1))
        return _interpret(branches[chosen], values[1:], self, (*path, chosen))

    def scan(self, equation: Any, values: Sequence[Any], path: Path) -> Sequence[Any]:
        parts, length = _ScanParts.of(equation, values), equation.params["length"]
        carry, steps, stacked = list(parts.carry), [_Live() for _ in range(length)], [()] * length
        for step in reversed(range(length)) if equation.params["reverse"] else range(length):
            slices = [array[step] for array in parts.sequences]
            results = _interpret(equation.params["jaxpr"], [*parts.constants, *carry, *slices], steps[step], path)
            carry, stacked[step] = results[: len(carry)], tuple(results[len(carry) :])
        for site in dict.fromkeys(site for step in steps for site in step.given):
            zeros = next(tuple(map(np.zeros_like, step.given[site])) for step in steps if site in step.given)
            rows = [step.given.get(site, zeros) for step in steps]
            self.given[site] = tuple(np.stack(column) for column in zip(*rows, strict=True))
        return [*carry, *(jnp.stack(column) for column in zip(*stacked, strict=True))]


@dataclass(frozen=True)
class _Given:
    """Equations are traced, and calls have the results that are given."""

    given: Mapping[Path, Results]
    complete: bool
    """Whether calls without results were not made, because their branch was not taken; else they stay."""

    def call(self, equation: Any, values: Sequence[Any], path: Path) -> Sequence[Any]:
        if path in self.given:
            return self.given[path]
        if not self.complete:
            return _compute(equation, values)
        return [jnp.zeros(variable.aval.shape, variable.aval.dtype) for variable in equation.outvars]

    def branch(self, equation: Any, values: Sequence[Any], path: Path) -> Sequence[Any]:
        inner, arrays = self._below(path)

        def taken(number: int, closed: ClosedJaxpr) -> ClosedJaxpr:
            def run(*operands: Any) -> list[Any]:
                own, given = operands[: len(closed.in_avals)], operands[len(closed.in_avals) :]
                return _interpret(closed, own, inner(given), (*path, number))

            return jax.make_jaxpr(run)(*values[1:], *arrays)

        branches = tuple(taken(number, closed) for number, closed in enumerate(equation.params["branches"]))
        return equation.primitive.bind(*values, *arrays, **{**equation.params, "branches": branches})

    def scan(self, equation: Any, values: Sequence[Any], path: Path) -> Sequence[Any]:
        parts, (inner, arrays) = _ScanParts.of(equation, values), self._below(path)
        closed = equation.params["jaxpr"]

        def step(*operands: Any) -> list[Any]:
            own, given = operands[: len(closed.in_avals)], operands[len(closed.in_avals) :]
            return _interpret(closed, own, inner(given), path)

        slices = [jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in (*parts.sequences, *arrays)]
        params = {**equation.params, "jaxpr": jax.make_jaxpr(step)(*parts.constants, *parts.carry, *slices)}
        if "linear" in params:
            params["linear"] = (*params["linear"], *[False] * len(arrays))
        return equation.primitive.bind(*values, *arrays, **params)

    def _below(self, path: Path) -> tuple[Callable[[Sequence[Any]], _Given], list[Any]]:
        """What the calls within an equation are given: from the arrays as its body sees them, and the arrays."""
        sites = {site: len(arrays) for site, arrays in self.given.items() if site[: len(path)] == path}

        def inner(arrays: Sequence[Any]) -> _Given:
            rest = iter(arrays)
            return _Given({site: tuple(next(rest) for _ in range(n)) for site, n in sites.items()}, self.complete)

        return inner, [array for site in sites for array in self.given[site]]


@dataclass(frozen=True)
class _ScanParts:
    """What a scan takes."""

    constants: Sequence[Any]
    carry: Sequence[Any]
    sequences: Sequence[Any]

    @classmethod
    def of(cls, equation: Any, values: Sequence[Any]) -> _ScanParts:
        first = equation.params["num_consts"]
        then = first + equation.params["num_carry"]
        return cls(values[:first], values[first:then], values[then:])


def _interpret(closed: ClosedJaxpr, values: Sequence[Any], how: _Live | _Given, path: Path) -> list[Any]:
    """The results of a traced function, its calls of Python as `how` says."""
    jaxpr = closed.jaxpr
    env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *values), strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else env[atom]

    for index, equation in enumerate(jaxpr.eqns):
        operands, place = [read(atom) for atom in equation.invars], (*path, index)
        name = equation.primitive.name
        if not any(True for _ in _calls_in(equation)):
            results = _compute(equation, operands)
        elif name == "cond":
            results = how.branch(equation, operands, place)
        elif name == "scan":
            results = how.scan(equation, operands, place)
        elif (inner := _called(equation)) is not None:
            results = _interpret(inner, operands, how, place)
        else:
            results = how.call(equation, operands, place)
        env |= zip(equation.outvars, results, strict=True)
    return [read(atom) for atom in jaxpr.outvars]


def _compute(equation: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of one equation, with the place in the source that it has."""
    variables = {
        atom: value for atom, value in zip(equation.invars, operands, strict=True) if not isinstance(atom, Literal)
    }
    alone = Jaxpr((), list(variables), equation.outvars, [equation], equation.effects)
    return jaxpr_as_fun(ClosedJaxpr(alone, ()))(*variables.values())


def _called(equation: Any) -> ClosedJaxpr | None:
    """The function that an equation only calls (`jit`, `checkpoint`, `custom_jvp_call`); None for any other."""
    functions = _functions(equation)
    if equation.primitive.name == "while" or len(functions) != 1:
        return None
    [function] = functions
    return function if len(function.in_avals) == len(equation.invars) else None


def _functions(equation: Any) -> list[ClosedJaxpr]:
    """The traced functions among an equation's parameters."""
    found = []
    for value in equation.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, ClosedJaxpr):
                found.append(each)
            elif isinstance(each, Jaxpr):
                found.append(ClosedJaxpr(each, ()))
    return found


def _calls_in(equation: Any) -> Iterator[Any]:
    """The equations, from this one inwards, that call Python for a result."""
    if equation.primitive.name in CALLS and equation.outvars:
        yield equation
    for function in _functions(equation):
        for inner in function.jaxpr.eqns:
            yield from _calls_in(inner)


def _notes(calls: Sequence[Any], live: _Live, complete: bool) -> Iterator[str]:
    """What became of the Python calls of a model."""
    made = f"{len(live.given)} computed by Python and now inputs" if complete else "not computed: inputs have no values"
    yield f"calls Python, which no compiler can: {', '.join(dict.fromkeys(map(_words, calls)))}; {made}"
    for library, hint in LIBRARIES.items():
        if any(_module(call).partition(".")[0] == library for call in calls):
            yield f"calls Python to check for errors; try {hint}"


def _function(call: Any) -> Any:
    """The user's function behind a call."""
    function = call.params.get("callback")
    function = getattr(function, "callback_func", function)
    while isinstance(function, partial) or hasattr(function, "__wrapped__"):
        function = function.func if isinstance(function, partial) else function.__wrapped__
    return function


def _module(call: Any) -> str:
    return getattr(_function(call), "__module__", None) or ""


def _words(call: Any) -> str:
    """A call as its function's name and place."""
    function = _function(call)
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]
    return f"{name} ({inspect.getsourcefile(code)}:{code.co_firstlineno})" if code else name

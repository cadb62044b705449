"""Twenty-four ops, spoiled in 21 ways in three types, judged by name: `python -m ci.wrong_numbers.by_name host card`.

Unlike `ci.wrong_numbers`, which spoils ops of modules, this needs neither XLA nor a simulator: 1,417 wrong results, and
153 honest ones by float32 arithmetic, in another order, and rounded once. Prints those judged otherwise; ends with 1 if
an honest one is refused, or if fewer than 97 % of the wrong ones are. What a card's documented steps may make of every
element, be it by chance or not, no verdict on that card can refuse: it is counted apart.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from opscope import judge
from opscope.base.op_families import op_family
from opscope.harness.formulas.nearest import last_place, rounded
from opscope.harness.formulas.table import FORMULAS
from opscope.harness.judge.asked import asked
from opscope.harness.judge.promise import promised
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.verdict.check import element_type
from opscope.harness.verdict.meaning import ExactOperands
from opscope.harness.verdict.steps import steps_of
from opscope.harness.verdict.target import Target

TYPES = ("f32", "bf16", "f16")
TARGETS = {"host": "ieee", "card": "card"}
LEAST = 0.97
"""Share of the wrong results that must be refused."""
Rng = np.random.Generator
Draw = Callable[[Rng], list[np.ndarray]]
Lie = Callable[[np.ndarray, np.dtype, Rng], np.ndarray]
SHAPE = (64, 96)
IEEE = {"add", "subtract", "multiply", "maximum"}
"""Of these a host's float32 has one right answer; of others a library may round either way."""


def _normal(scale: float, *shapes: tuple[int, ...], mean: float = 0.0) -> Draw:
    return lambda rng: [mean + scale * rng.standard_normal(shape) for shape in shapes]


def _between(low: float, high: float, *shapes: tuple[int, ...]) -> Draw:
    return lambda rng: [rng.uniform(low, high, shape) for shape in shapes]


def _norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + x.dtype.type(1e-5))


def _root_norm(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(1e-6))


def _backwards(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for k in reversed(range(a.shape[1])):
        total = total + np.outer(a[:, k], b[k])
    return total


OPS: dict[str, tuple[str, Draw, Callable[..., np.ndarray]]] = {
    "add": ("add", _normal(1, SHAPE, SHAPE), np.add),
    "subtract": ("subtract", _normal(1, SHAPE, SHAPE), np.subtract),
    "multiply": ("multiply", _normal(1, SHAPE, SHAPE), np.multiply),
    "divide": (
        "divide",
        lambda rng: [*_normal(1, SHAPE)(rng), *_between(0.5, 4, SHAPE)(rng)],
        np.divide,
    ),
    "maximum": ("maximum", _normal(1, SHAPE, SHAPE), np.maximum),
    "exp": ("exp", _normal(3, SHAPE), np.exp),
    "log": ("log", _between(0.1, 20, SHAPE), np.log),
    "tanh": ("tanh", _normal(2, SHAPE), np.tanh),
    "sqrt": ("sqrt", _between(0.01, 20, SHAPE), np.sqrt),
    "rsqrt": ("rsqrt", _between(0.01, 20, SHAPE), lambda x: 1 / np.sqrt(x)),
    "sine": ("sine", _normal(3, SHAPE), np.sin),
    "logistic": ("logistic", _normal(4, SHAPE), lambda x: 1 / (1 + np.exp(-x))),
    "power": (
        "power",
        lambda rng: [*_between(0.3, 4, SHAPE)(rng), *_between(-3, 3, SHAPE)(rng)],
        np.power,
    ),
    "cbrt": ("cbrt", _normal(3, SHAPE), np.cbrt),
    "atan2": ("atan2", _normal(1, SHAPE, SHAPE), np.arctan2),
    "matmul": ("matmul", _normal(1, (64, 256), (256, 96)), np.matmul),
    "matmul of one sign": ("matmul", _between(0, 1, (64, 256), (256, 96)), np.matmul),
    "sum": ("sum(axis=-1)", _normal(1, (300, 500)), lambda x: x.sum(-1)),
    "mean": ("mean(axis=0)", _normal(1, (500, 300), mean=3), lambda x: x.mean(0)),
    "softmax": ("softmax", _normal(2, (64, 200)), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "rms_norm": ("rms_norm", _normal(1, (64, 200)), _root_norm),
    "layer_norm": ("layer_norm", _normal(1, (64, 200), mean=1), _norm),
    "gelu": ("gelu", _normal(2, SHAPE), FORMULAS["gelu"].exact),
    "silu": ("silu", _normal(2, SHAPE), FORMULAS["silu"].exact),
}
"""Name -> what the judge is asked, operands, and the function."""
OTHERWISE: dict[str, Callable[..., np.ndarray]] = {
    "matmul": _backwards,
    "matmul of one sign": _backwards,
    "sum": lambda x: np.cumsum(x, -1, dtype=x.dtype)[:, -1],
}
"""The same in another order."""


def _directed(to: Callable[[np.ndarray], np.ndarray | float]) -> Lie:
    """Each result rounded in one direction."""

    def of(y: np.ndarray, kind: np.dtype, _: Rng) -> np.ndarray:
        near, direction = rounded(y, kind).astype(np.float64), to(y)
        return np.where((near - y) * direction < 0, near + direction * last_place(y, kind), near)

    return of


def _one(y: np.ndarray, _: np.dtype, rng: Rng) -> np.ndarray:
    wrong = y.copy()
    at = tuple(int(rng.integers(0, size)) for size in y.shape)
    wrong[at] = wrong[at] * 1.3 + 0.01 * np.abs(y).max()
    return wrong


def _swapped(y: np.ndarray, *_: object) -> np.ndarray:
    wrong = y.copy()
    wrong.ravel()[:32], wrong.ravel()[32:64] = y.ravel()[32:64], y.ravel()[:32]
    return wrong


def _narrower(y: np.ndarray, kind: np.dtype, _: Rng) -> np.ndarray:
    return rounded(y, numpy_dtype("f8E4M3FN" if kind == numpy_dtype("bf16") else "bf16")).astype(np.float64)


def _size(y: np.ndarray, share: float) -> float:
    """What so many values are smaller than."""
    return float(np.quantile(np.abs(y), share))


DIRECTED: dict[str, Lie] = {
    "rounded down": _directed(lambda y: -1.0),
    "rounded up": _directed(lambda y: 1.0),
    "rounded to zero": _directed(lambda y: -np.sign(y)),
    "rounded away": _directed(np.sign),
}
LIES: dict[str, Lie] = DIRECTED | {
    "x 1.004": lambda y, *_: 1.004 * y,
    "x 0.997": lambda y, *_: 0.997 * y,
    "noise of 1 %": lambda y, _, rng: y * (1 + 0.01 * rng.standard_normal(y.shape)),
    "one element off": _one,
    "parts of a row swapped": _swapped,
    "zeros": lambda y, *_: 0 * y,
    "shifted by a row": lambda y, *_: np.roll(y, 1, 0),
    "reversed": lambda y, *_: y[::-1],
    "small ones zero": lambda y, *_: np.where(np.abs(y) < _size(y, 0.1), 0, y),
    "last row twice": lambda y, *_: np.concatenate([y[:-1], y[-2:-1]]),
    "offset": lambda y, *_: y + 0.01 * np.abs(y).mean(),
    "a tenth negated": lambda y, _, rng: np.where(rng.random(y.shape) < 0.1, -y, y),
    "clipped": lambda y, *_: np.clip(y, -_size(y, 0.97), _size(y, 0.97)),
    "through fewer bits": _narrower,
    "large ones 5 % too large": lambda y, *_: np.where(np.abs(y) > _size(y, 0.95), 1.05 * y, y),
    "one is NaN": lambda y, *_: np.where(np.arange(y.size).reshape(y.shape) == 7, np.nan, y),
    "their mean": lambda y, *_: np.full_like(y, y.mean()),
}
"""Fault -> what it makes of the exact result, in a type."""


def results(name: str, seed: int) -> Iterator[tuple[str, bool, list[np.ndarray], np.ndarray]]:
    """What is done, whether it is honest, operands and result of each way to compute or to spoil an op."""
    what, draw, function = OPS[name]
    rng = np.random.default_rng([seed, *name.encode()])
    for element in TYPES:
        kind = numpy_dtype(element)
        operands = [x.astype(kind) for x in draw(rng)]
        wide, single = ([x.astype(of) for x in operands] for of in (np.float64, np.float32))
        exact = np.asarray(function(*wide))
        near = rounded(exact, kind)
        yield f"{element} rounded once", True, operands, near
        for made in (function(*single), *((OTHERWISE[name](*single),) if name in OTHERWISE else ())):
            yield f"{element} in float32", True, operands, rounded(np.asarray(made, np.float64), kind)
        for lie, of in LIES.items():
            got = rounded(np.asarray(of(exact, kind, rng), np.float64), kind)
            if (lie in DIRECTED and element == "f32" and what not in IEEE) or np.array_equal(got, near):
                continue
            yield f"{element} {lie}", False, operands, got


def as_documented(what: str, operands: list[np.ndarray], got: np.ndarray, target: Target) -> bool:
    """Whether steps of a card may make every element of a result: what its matrix unit cuts off the terms, what the
    kernel of a function or of each step of a formula may be off, and one rounding to nearest."""
    op = asked(what, operands, [got], target)
    if not isinstance(known := op.operands, ExactOperands):
        return False
    exact, kind = known.exact[0], element_type(got.dtype)
    if (within := known.within()) is None:
        family = op_family(op.op_name)
        terms = known.run([np.abs(x) for x in operands])[0] if known.sums else np.abs(exact)
        steps = steps_of(target, family, kind, op_name=op.op_name, body=op.params.get("body"), operand_types=[kind])
        assert steps is not None
        within = [(steps.function + steps.short) * np.abs(exact) + steps.cuts * terms.astype(np.float64)]
    return bool((np.abs(got.astype(np.float64) - exact) <= last_place(exact, got.dtype) / 2 + within[0]).all())


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what is judged otherwise than it should be at each target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("targets", nargs="+", choices=TARGETS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="only these ops")
    options = parser.parse_args(arguments)
    enough, card = True, promised("card").target
    for target in options.targets:
        seen = Counter[str]()
        for name in options.only or OPS:
            for label, honest, operands, got in results(name, options.seed):
                verdict = judge(OPS[name][0], operands, got, target=TARGETS[target])
                seen[f"{honest} {verdict.answer}"] += 1
                if honest is bool(verdict):
                    continue
                what = "false alarm" if honest else "passes"
                if not honest and target == "card" and as_documented(OPS[name][0], operands, got, card):
                    what, seen["as documented"] = "as documented", seen["as documented"] + 1
                print(f"  {target}: {what}: {name} {label}: {verdict.reason}")
        made, honest_ones = (sum(n for key, n in seen.items() if key.startswith(of)) for of in ("False", "True"))
        refused, alarms, hidden = seen["False wrong"], honest_ones - seen["True right"], seen["as documented"]
        print(
            f"{target}: {refused} of {made - hidden} wrong results refused, {hidden} more as the documented rounding "
            f"has them; {alarms} of {honest_ones} honest ones",
            flush=True,
        )
        enough &= not alarms and refused >= LEAST * (made - hidden)
    return int(not enough)


if __name__ == "__main__":
    sys.exit(main())

"""Op forms whose golden by XLA is known to be wrong, each with its source: a second authority is always asked for them.

A release that errs for more than a form of an op is not for this table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opscope.harness.prepare.authorities import formulas
from opscope.harness.prepare.program import SingleOp
from opscope.harness.record.records import OpRow


@dataclass(frozen=True)
class KnownWrong:
    """One form."""

    what: str
    """What XLA makes of it."""
    source: str
    fits: Callable[[OpRow | SingleOp], bool]
    is_formula: bool
    """Whether the second authority is the formula of a function, and so the golden itself: nobody doubts it."""


FORMS = (
    KnownWrong(
        "XLA's log1p of f64 is off by up to 128 units in the last place",
        "jax#39707; in all releases of jaxlib from 0.5.3 to 0.10.2",
        lambda row: row.op_name == "stablehlo.log_plus_one" and _is_double(row),
        is_formula=True,
    ),
    KnownWrong(
        "XLA's atanh of f64, which is made of log1p, is off by up to 128 units in the last place",
        "measured with jaxlib 0.10.2 between -0.99 and 0.99; see jax#39707",
        lambda row: row.op_name == "chlo.atanh" and _is_double(row),
        is_formula=True,
    ),
    KnownWrong(
        "XLA's integer powers are wrong for exponents from 64 on, or of the upper half of types without a sign",
        "docs/found.md; measured with jaxlib 0.10.2",
        lambda row: row.op_name == "stablehlo.power" and formulas.of_integers(row),
        is_formula=True,
    ),
    KnownWrong(
        "XLA counts the bits of the sign of i4 and i2 up to 8 times",
        "docs/found.md; measured with jaxlib 0.10.2",
        lambda row: row.op_name == "stablehlo.popcnt" and row.outputs[0].data_type in ("i2", "i4"),
        is_formula=True,
    ),
    KnownWrong(
        "XLA gives result 0 of a scatter of several equal operands for all of its results",
        "openxla/xla#29362",
        lambda row: row.op_name == "stablehlo.scatter" and len(row.outputs) > 1,
        is_formula=False,
    ),
)


def _is_double(row: OpRow | SingleOp) -> bool:
    return [desc.data_type for desc in row.outputs] == ["f64"]


def form_of(row: OpRow | SingleOp) -> KnownWrong | None:
    """The form that an op has; None if its golden is not known to be wrong."""
    return next((form for form in FORMS if form.fits(row)), None)


def formula_of(op: SingleOp) -> KnownWrong | None:
    """The form of an op whose golden is a formula's; None if XLA, or another authority, has its golden."""
    form = form_of(op)
    takes = form is not None and form.is_formula and formulas.has_formula(op)
    return form if takes and formulas.steps(op) <= formulas.MOST_STEPS else None

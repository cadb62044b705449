"""An op that is compiled alone is that op at every optimization level: its verdict and its cycles are its own."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.ops.layout import MOVES
from opscope.compiler.ops.row import TABLE
from opscope.compiler.tests import programs

MOVING = frozenset({"creation", "data_movement"})
FEWER = {
    "stablehlo.batch_norm_training": "a sum over its count is a mean",
    "stablehlo.convert": "to its operand's own type, it is nothing",
    "stablehlo.reduce_window": "a sum of all that went before is a cumsum",
    "chlo.bessel_i1e": "a formula: it repeats itself",
    "chlo.digamma": "a formula: it repeats itself",
    "chlo.lgamma": "a formula: it repeats itself",
}
"""Op -> why fewer kernels may do for it, or one of another name."""


@cache
def groups() -> dict[str, str]:
    """ttnn op -> its family. Rows are registered by the dialects, which the first compilation imports."""
    return {row.ttnn_name: row.group for row in TABLE if row.ttnn_name}


def kernels(module: Any) -> Counter[str]:
    """What a ttnn module computes; of one that computes nothing, what it moves."""
    names = [name.partition(".")[2] for name in programs.op_names(module)]
    names = [name for name in names if name in groups() and name not in MOVES]
    return Counter([name for name in names if groups()[name] not in MOVING] or names)


def compiled(source: Any, level: int) -> Any:
    """The ttnn module of a source."""
    options = api.CompileOptions(optimization_level=level)
    return api.ttir_to_ttnn(api.stablehlo_to_ttir(source), programs.BOARD, options)


def changed(source: Any, level: int) -> str:
    """What a level changes of a module's kernels, if anything."""
    before, after = (kernels(compiled(source, at)) for at in (0, level))
    return "" if before == after else f"{dict(before - after)} became {dict(after - before)}"


def tempting(x, w, k):
    """Ops of which a rule looks for more, beside constants that rules know."""
    image = x.reshape(1, 16, 16, 32)
    zero, one, least = (np.full(x.shape, number, np.float32) for number in (0.0, 1.0, -np.inf))
    return (
        jnp.maximum(x, zero),
        jnp.maximum(x, least),
        x * one,
        x / one,
        one / x,
        -x,
        x @ w,
        jnp.exp(x),
        x.T,
        lax.reduce_sum(x, (1,)),
        jnp.arange(64),
        lax.reshape(x, (64, 128)),
        lax.select(x > k[0, 0, 0], x, x),
        lax.conv_general_dilated(image, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
    )


def singles(module: Any) -> list[Any]:
    """The unique ops of a module, each as a module of its own."""
    from opscope.harness.run.api import split

    return list(split(module))


def test_an_op_alone_is_that_op() -> None:
    shapes = ((256, 32), (32, 32), (3, 3, 32, 32))
    source = jax.jit(tempting).lower(*(jnp.zeros(shape) for shape in shapes)).as_text()
    ops = singles(source)
    assert len(ops) >= 15
    assert all(kernels(compiled(op.bytecode, 0)) for op in ops)
    changes = [f"{op.op_name}: {change}" for op in ops if (change := changed(op.bytecode, level=2))]
    assert not changes


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2])
def test_each_op_of_the_suite_alone_is_that_op(level: int) -> None:
    from opscope.harness.prepare.export import export_model
    from opscope.models import registry

    changes: dict[str, str] = {}
    tried = 0
    for op in singles(export_model(registry.get("suite:ops")).bytecode):
        try:
            change = changed(op.bytecode, level)
        except StageFailure:  # types that the device has not
            continue
        tried += 1
        if change:
            changes[op.op_name] = change
    assert tried > 900
    assert {name: change for name, change in changes.items() if name not in FEWER} == {}
    assert set(changes) == set(FEWER), "each exception is still one"

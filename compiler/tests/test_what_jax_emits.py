"""Every chlo op, custom call and composite that JAX's own functions become is lowered, or refused for good reason."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import jax.scipy.special
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.ops.custom_calls import find
from opscope.compiler.tests import programs

pytestmark = pytest.mark.slow

ROOMS = (jnp, jax.lax, jax.nn, jax.scipy.special, jnp.linalg, jax.scipy.linalg, jax.lax.linalg, jnp.fft)
EMITTED = re.compile(r'\b(chlo\.\w+)|custom_call @([\w.$]+)|composite "([\w.]+)"')
# Of NumPy: JAX would compile a program for each while pytest collects.
MATRIX, VECTOR = np.ones((4, 4), np.float32), np.ones((4,), np.float32)
WHOLE = np.ones((4, 4), np.int32)
ARGUMENTS: tuple[tuple[Any, ...], ...] = (
    (MATRIX,),
    (MATRIX, MATRIX),
    (WHOLE, WHOLE),
    (VECTOR, MATRIX),
    (VECTOR, VECTOR),
    (MATRIX, MATRIX, MATRIX),
    (VECTOR, VECTOR, VECTOR),
    (VECTOR, VECTOR, VECTOR, MATRIX),
)
BY_HAND = {
    "top_k": (lambda x: jax.lax.top_k(x, 2), (MATRIX,)),
    "approx_max_k": (lambda x: jax.lax.approx_max_k(x, 2), (MATRIX,)),
    "erf_inv": (lambda key: jax.random.normal(key, (4,)), (jax.eval_shape(lambda: jax.random.key(0)),)),
    "pivoted": (lambda x: jax.scipy.linalg.qr(x, pivoting=True), (MATRIX,)),
    "callback": (lambda x: jax.pure_callback(lambda y: y, x, x), (MATRIX,)),
    "composite": (jax.lax.composite(lambda x: x + 1, name="a.b"), (MATRIX,)),
    "complex": (jnp.linalg.svd, (MATRIX.astype(np.complex64),)),
}


def modules() -> Iterator[str]:
    """The StableHLO of each function on the first arguments that it takes, and of those that need more words."""
    named = ((name, getattr(room, name)) for room in ROOMS for name in sorted(dir(room)) if not name.startswith("_"))
    for name, function in named:
        if not callable(function) or inspect.isclass(function) or name in ("infeed", "outfeed", "save"):
            continue
        for args in ARGUMENTS:
            with contextlib.suppress(Exception):  # not what it takes
                yield programs.stablehlo(lambda *operands, function=function: function(*operands), *args)
                break
    for function, args in BY_HAND.values():
        yield programs.stablehlo(function, *args)


def test_nothing_that_jax_emits_is_unknown() -> None:
    first: dict[str, str] = {}
    for text in modules():
        for groups in EMITTED.findall(text):
            first.setdefault(next(filter(None, groups)), text)
    assert len(first) >= 40, sorted(first)
    unknown = {name for name in first if not name.startswith("chlo.") and name != "a.b" and find(name) is None}
    assert unknown <= {"xla.scaled_dot"}, "a composite: its decomposition is lowered"
    refused: dict[str, str] = {}
    for name, text in first.items():
        try:
            api.compile(text, programs.BOARD, api.CompileOptions(unsupported_types="fallback"))
        except StageFailure as failure:
            if failure.kind != "never":
                refused[name] = str(failure)
    assert not refused

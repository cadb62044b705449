"""Drawn single ops: what a seed draws is the same everywhere, and every kind can be drawn and lowered."""

from __future__ import annotations

import re

from ci.drawn_ops import KINDS, Ops, module


def test_a_seed_draws_the_same_ops_and_another_others() -> None:
    first = module(12, 5)
    assert module(12, 5) == first
    assert module(12, 6) != first
    assert len(re.findall(r"(?:stablehlo|chlo)\.\w+", first)) >= 12


def test_every_kind_has_arguments_that_its_function_takes() -> None:
    import jax

    for kind in KINDS:
        for seed in range(8):
            call, types = getattr(Ops(seed), kind)()
            assert jax.tree.leaves(jax.eval_shape(call, *types)), (kind, seed)

"""Drawn single ops: what a seed draws is the same everywhere, and every kind can be drawn and lowered."""

from __future__ import annotations

import re

import pytest

from ci import drawn_ops
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


def test_plugins_stay_out_before_the_first_op_is_traced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order: list[str] = []
    monkeypatch.setattr(drawn_ops.jax_plugins, "keep_out", lambda: order.append("kept out"))
    monkeypatch.setattr(drawn_ops, "module", lambda *_: order.append("traced") or "text")
    assert drawn_ops.main(["--count", "1"]) == 0
    assert order == ["kept out", "traced"]
    assert capsys.readouterr().out == "text"

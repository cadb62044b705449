"""Attributes of ops: what is known, what is refused, and the numbers that some ops take."""

from __future__ import annotations

from typing import Any

import pytest

from opscope.compiler.buda.netlist.attributes import check_attributes, kind_of, scalar_of
from opscope.compiler.errors import CompilerInputError

GOOD: list[tuple[str, dict[str, Any]]] = [
    ("exp", {}),
    ("exp", {"approximate_mode": True, "vector": "r", "m_k": 3}),
    ("matmul", {"accumulate": False, "z": 1, "requant": False, "dequant": False, "srnd_fpu_en": False}),
    ("matmul", {"stoch_rnd_mode": "none", "sfpu_op": "gelu"}),
    ("matmul", {"sfpu_op": "invalid", "u_kt": 4}),
    ("reduce", {"z": 7, "dim": "z"}),
    ("nop", {"relu_en": True}),
    ("nop", {"relu_en": True, "relu_mode": "min", "relu_threshold": 0}),
    ("nop", {"relu_en": True, "relu_threshold": "0.0"}),
    ("nop", {"relu_en": False, "relu_mode": "max", "relu_threshold": 3}),
]


@pytest.mark.parametrize(("kind", "attributes"), GOOD)
def test_what_a_kernel_has_is_taken(kind: str, attributes: dict[str, Any]) -> None:
    check_attributes("f", kind, attributes)


RELU = "expected a relu with mode min and threshold 0, got mode"
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("matmul", {"accumulate": True}, ".accumulate: expected False, got True"),
    ("matmul", {"z": 2}, ".z: expected 1, got 2"),
    ("matmul", {"z": 0}, ".z: expected 1, got 0"),
    ("reduce", {"accumulate": True}, ".accumulate: expected False, got True"),
    ("matmul", {"sfpu_op": "tanh"}, ".sfpu_op: expected invalid or gelu, got 'tanh'"),
    ("exp", {"wobble": 3}, ": expected an attribute that a kernel of the simulator has, got wobble: 3"),
    ("nop", {"relu_en": True, "relu_mode": "max"}, f": {RELU} max and threshold 0"),
    ("nop", {"relu_en": True, "relu_threshold": 1}, f": {RELU} min and threshold 1"),
    ("nop", {"relu_en": True, "relu_threshold": 0.5}, f": {RELU} min and threshold 0.5"),
]


@pytest.mark.parametrize(("kind", "attributes", "told"), BAD)
def test_what_would_change_a_result_is_refused(kind: str, attributes: dict[str, Any], told: str) -> None:
    with pytest.raises(CompilerInputError) as caught:
        check_attributes("f", kind, attributes)
    assert str(caught.value) == f"f.attributes{told}"


def test_some_ops_take_a_number() -> None:
    assert [scalar_of("f", kind, {"slope": 2, "exp": 3.5}) for kind in ("lrelu", "power", "exp")] == [2.0, 3.5, None]
    assert type(scalar_of("f", "lrelu", {"slope": 2})) is float
    for value in (True, "2", None):
        with pytest.raises(CompilerInputError) as caught:
            scalar_of("f", "power", {"exp": value})
        assert str(caught.value) == f"f.attributes.exp: expected a number, got {value!r}"
    assert [kind_of(kind) for kind in ("datacopy", "tilizer", "exp")] == ["nop", "nop", "exp"]

"""Attributes of ops: what is known, what is refused, and the numbers that some ops take."""

from __future__ import annotations

from typing import Any

import pytest

from opscope.compiler.buda.netlist.attributes import (
    check_attributes,
    kind_of,
    number_of,
    relu_of,
    scalar_of,
    zero_point_of,
)
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
    ("nop", {"relu_en": True, "relu_mode": "max", "relu_threshold": 0.5}),
    ("matmul", {"accumulate": True, "z": 14}),
    ("matmul", {"requant": True, "zero_point": 2.5}),
    ("splice", {"granularity": "t", "input0": [0, 1, 2], "input12": [1, 1, 1]}),
]


@pytest.mark.parametrize(("kind", "attributes"), GOOD)
def test_what_a_kernel_has_is_taken(kind: str, attributes: dict[str, Any]) -> None:
    check_attributes("f", kind, attributes)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("matmul", {"z": 2}, ".z: expected 1, got 2"),
    ("matmul", {"z": 0}, ".z: expected 1, got 0"),
    ("reduce", {"accumulate": True}, ".accumulate: expected False, got True"),
    ("matmul", {"sfpu_op": "tanh"}, ".sfpu_op: expected invalid or gelu, got 'tanh'"),
    ("exp", {"wobble": 3}, ": expected an attribute that a kernel of the simulator has, got wobble: 3"),
    ("matmul", {"accumulate": False, "z": 2}, ".z: expected 1, got 2"),
    ("exp", {"requant": True}, ".requant: expected False, got True"),
    ("topk", {"k": 4, "sort": "min"}, ".sort: expected max or argmax, got 'min'"),
    ("exp", {"input0": [0, 1, 1]}, ": expected an attribute that a kernel of the simulator has, got input0: [0, 1, 1]"),
]


@pytest.mark.parametrize(("kind", "attributes", "message"), BAD)
def test_what_would_change_a_result_is_refused(kind: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(CompilerInputError) as caught:
        check_attributes("f", kind, attributes)
    assert str(caught.value) == f"f.attributes{message}"


def test_a_step_of_a_fused_op_has_fewer() -> None:
    for name, value, off in (("bias", True, "False"), ("sfpu_op", "gelu", "invalid"), ("identity", True, "False")):
        check_attributes("f", "matmul", {name: value})
        with pytest.raises(CompilerInputError) as caught:
            check_attributes("f", "matmul", {name: value}, step=True)
        assert str(caught.value) == f"f.attributes.{name}: expected {off} inside a fused op, got {value!r}"
    with pytest.raises(CompilerInputError, match="accumulate: expected False, got True"):
        check_attributes("f", "matmul", {"accumulate": True}, step=True)


def test_relus_have_a_mode_and_a_threshold() -> None:
    assert relu_of("f", {"relu_mode": "max", "relu_threshold": 3}) == ("min", 0.0)
    assert relu_of("f", {"relu_en": True}) == ("min", 0.0)
    assert relu_of("f", {"relu_en": True, "relu_mode": "max", "relu_threshold": "0.5"}) == ("max", 0.5)
    for attributes, message in (
        ({"relu_mode": "most"}, "relu_mode: expected min or max, got 'most'"),
        ({"relu_threshold": "high"}, "relu_threshold: expected a number, got 'high'"),
    ):
        with pytest.raises(CompilerInputError) as caught:
            relu_of("f", {"relu_en": True, **attributes})
        assert str(caught.value) == f"f.attributes.{message}"


def test_numbers_are_whole_and_large_enough() -> None:
    assert number_of("f", {"k": 4}, "k", 1) == 4
    assert number_of("f", {}, "m_k", 1, 1) == 1
    assert zero_point_of("f", {"zero_point": -2}) == -2.0
    for value in (True, 0, 1.5, "3"):
        with pytest.raises(CompilerInputError) as caught:
            number_of("f", {"k": value}, "k", 1)
        assert str(caught.value) == f"f.attributes.k: expected a whole number from 1, got {value!r}"
    with pytest.raises(CompilerInputError, match="zero_point: expected a number, got 'none'"):
        zero_point_of("f", {"zero_point": "none"})


def test_some_ops_take_a_number() -> None:
    assert [scalar_of("f", kind, {"slope": 2, "exp": 3.5}) for kind in ("lrelu", "power", "exp")] == [2.0, 3.5, None]
    assert type(scalar_of("f", "lrelu", {"slope": 2})) is float
    for value in (True, "2", None):
        with pytest.raises(CompilerInputError) as caught:
            scalar_of("f", "power", {"exp": value})
        assert str(caught.value) == f"f.attributes.exp: expected a number, got {value!r}"
    assert [kind_of(kind) for kind in ("datacopy", "tilizer", "exp")] == ["nop", "nop", "exp"]

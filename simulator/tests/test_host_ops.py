"""Modules of host ops, which may be a stranger's: what ends XLA's parser is one error of the caller's."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.simulator import host_ops
from opscope.simulator.errors import HostOpError

TWICE = b"func.func @main(%a: tensor<2xf64>) -> tensor<2xf64> { %0 = stablehlo.add %a, %a : tensor<2xf64> return %0 : tensor<2xf64> }"  # noqa: E501
DEEP = b"func.func @main() attributes {a = " + b"[" * 200_000 + b"]" * 200_000 + b"} { return }"
"""Attributes so deep that the parser's own stack overflows."""


def test_a_module_that_ends_the_parser_is_an_error_and_the_next_one_runs() -> None:
    with pytest.raises(HostOpError, match=r"host_op: expected .* on the host, got: .* ended with SIGSEGV"):
        host_ops.run(DEEP, [])
    assert host_ops.run(TWICE, [np.array([1.0, 1e-300])])[0].tolist() == [2.0, 2e-300]

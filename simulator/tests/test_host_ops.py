"""Modules of host ops, which may be a stranger's: what ends XLA's parser is one error of the caller's."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from opscope.simulator import host_ops
from opscope.simulator.errors import HostOpError

TWICE = b"""func.func @main(%a: tensor<2xf64>) -> tensor<2xf64> {
  %0 = stablehlo.add %a, %a : tensor<2xf64>
  return %0 : tensor<2xf64>
}"""
DEEP = b"func.func @main() attributes {a = " + b"[" * 200_000 + b"]" * 200_000 + b"} { return }"
"""Attributes so deep that the parser's own stack overflows."""


def test_a_module_that_ends_the_parser_is_an_error_and_the_next_one_runs() -> None:
    with pytest.raises(HostOpError, match=r"host_op: expected .* on the host, got: .* ended with SIGSEGV"):
        host_ops.run(DEEP, [])
    assert host_ops.run(TWICE, [np.array([1.0, 1e-300])])[0].tolist() == [2.0, 2e-300]


@pytest.mark.slow
def test_jaxlib_alone_computes_what_calls_lapack() -> None:
    """An image says that it needs jaxlib, not JAX: here JAX cannot be imported."""
    import jax

    program = """
import json
import sys
sys.modules["jax"] = None
import numpy as np
from opscope.simulator import host_ops
results = host_ops.run(sys.stdin.buffer.read(), [np.array([[4.0, 1.0], [1.0, 3.0]])])
print(json.dumps([result.tolist() for result in results]))
"""
    with jax.enable_x64(True):
        module = jax.jit(jax.numpy.linalg.eigh).lower(np.zeros((2, 2))).as_text()
    assert "lapack_" in module
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, input=module, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    values, vectors = (np.array(result) for result in json.loads(done.stdout))
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, [[4, 1], [1, 3]], atol=1e-12)

"""Single ops of StableHLO in the words of those who do not read it: nodes of ONNX, calls of PyTorch.

What another has no word for, or another meaning, is declined with the reason.
"""

from __future__ import annotations


def onnx_graph(module: bytes) -> bytes:
    """The ONNX model of a single-op module. Raises Declined for an op that ONNX cannot say."""
    from opscope.harness.backends.translated.onnx_nodes import graph_of  # ONNX is an extra

    return graph_of(module)

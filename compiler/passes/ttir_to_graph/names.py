"""TTIR op -> TT-Buda ops. What is in no table is not lowered."""

from __future__ import annotations

UNARY = {
    "abs": ("abs",), "cos": ("cosine",), "exp": ("exp",), "gelu": ("gelu",), "log": ("log",),
    "reciprocal": ("reciprocal",), "relu": ("nop",), "rsqrt": ("sqrt", "reciprocal"), "sigmoid": ("sigmoid",),
    "sin": ("sine",), "sqrt": ("sqrt",), "tanh": ("tanh",), "erf": ("erf",), "typecast": ("nop",),
}  # fmt: skip
"""One after the other; a relu is done while packing, so that it costs a copy."""
BINARY = {"add": "add", "div": "multiply", "maximum": "maximum", "multiply": "multiply", "subtract": "subtract"}
"""A division multiplies by the reciprocal."""
REDUCE = frozenset({"sum", "max", "mean"})
MOVES = frozenset({"reshape", "permute", "broadcast", "slice_static", "typecast"})
"""Ops that keep what an argument is: a weight that is reshaped is a weight."""
HOST = frozenset({"gather"})
"""Ops that TT-Buda leaves to the host: embeddings."""

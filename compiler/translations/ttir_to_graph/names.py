"""TTIR op -> TT-Buda ops. Ops that are in no table are not lowered."""

from __future__ import annotations

UNARY = {
    "abs": ("abs",), "cos": ("cosine",), "exp": ("exp",), "gelu": ("gelu",), "log": ("log",),
    "reciprocal": ("reciprocal",), "relu": ("nop",), "sigmoid": ("sigmoid",),
    "sin": ("sine",), "sqrt": ("sqrt",), "tanh": ("tanh",), "erf": ("erf",), "typecast": ("nop",),
}  # fmt: skip
"""A relu is done while packing, so that it costs a copy. What is not here `ttir-decompose-buda` may have replaced."""
BINARY = {"add": "add", "div": "multiply", "maximum": "maximum", "multiply": "multiply", "subtract": "subtract"}
"""A division is by what the host has inverted; others are decomposed before."""
REDUCE = frozenset({"sum", "max", "mean"})
MOVES = frozenset({"reshape", "permute", "broadcast", "slice_static", "typecast"})
"""Ops that keep what an argument is: a weight that is reshaped is a weight."""
HOST = frozenset({"gather"})
"""Ops that TT-Buda leaves to the host: embeddings."""

"""TTIR op -> TT-Buda ops. Ops that are in none of these tables are not lowered."""

from __future__ import annotations

UNARY = {
    "abs": ("abs",),
    "cos": ("cosine",),
    "exp": ("exp",),
    "gelu": ("gelu",),
    "log": ("log",),
    "reciprocal": ("reciprocal",),
    "relu": ("nop",),
    "sigmoid": ("sigmoid",),
    "sin": ("sine",),
    "sqrt": ("sqrt",),
    "tanh": ("tanh",),
    "erf": ("erf",),
    "typecast": ("nop",),
}
"""A relu runs while packing, so it costs a copy. `ttir-decompose-buda` may have replaced ops that are missing here."""
BINARY = {"add": "add", "div": "multiply", "maximum": "maximum", "multiply": "multiply", "subtract": "subtract"}
"""A division multiplies by the host's reciprocal; other divisions are decomposed before."""
REDUCE = frozenset({"sum", "max", "mean"})
MOVES = frozenset({"reshape", "permute", "broadcast", "reverse", "slice_static", "typecast", "pad"})
"""Ops that keep the role of an argument: a reshaped weight is still a weight."""
HOST = frozenset({"gather"})
"""Ops that TT-Buda leaves to the host, such as embeddings."""
PICKER_FORMAT = "Bfp2_b"
"""Format of a sparse matmul's left operand, of zeros and ones."""
GATHER_FIDELITY = "HiFi2"
"""More phases would multiply by zeros, since the picker has no low bits (TT-Buda has the same limit)."""

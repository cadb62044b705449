"""Grayskull's constants.

Source: tenstorrent/tt-budabackend, perf_lib/op_model/params/grayskull/params_v2.yaml (fitted to measured runtimes of
single ops). Pairs are (cycles per ublock, cycles per tile).
"""

from __future__ import annotations

GRAYSKULL: dict[str, dict[str, tuple[float, ...]]] = {
    "nop": {"": (305, 56)},
    "exp": {"": (0, 2666), "approx": (31.07656877, 668.07644903)},
    "gelu": {"": (64, 286)},
    "gelu_derivative": {"": (0, 3116), "approx": (12.08514142, 822.24602774)},
    "log": {"": (0, 1413)},
    "power": {"": (140.92380467, 125.59285517)},
    "reciprocal": {"": (29, 915), "approx": (31.8097882, 905.52756067)},
    "sigmoid": {"": (84.15414291, 174.75984679)},
    "sqrt": {"": (195, 159)},
    "add": {"": (293.96263856, 50.43405251)},
    "subtract": {"": (293.60199392, 50.50601309)},
    "multiply": {"": (261.21061127, 54.83754362)},
    "maximum": {"": (30.74320292, 260.32786291)},
    "reduce": {"": (76, 59), "dim_c": (0, 91)},
    "reduce_z": {"": (0, 287, 268)},
    "splice": {"": (132, 69)},
    # (per inner step but the first, per ublock, per tile and phase)
    "matmul": {"": (1321, 56, 36)},
    # (math tile, spilled tile, unpacked ublock, unpacked tile)
    "depthwise": {"": (79, 0, 0, 0)},
    # (tile, reload, reload configuration, reload wait, pack wait, pack, ublock, non-zero ublock, non-zero tile)
    "matmul_sparse": {"": (36, 20, 20, 20, 25, 25, 8, 8, 12)},
}

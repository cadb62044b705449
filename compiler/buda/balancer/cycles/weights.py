"""Each op has sets of constants, and the most specific one whose conditions hold applies.

Source: tenstorrent/tt-budabackend, perf_lib/op_model/params/ (grayskull/params_v2.yaml, wormhole_b0/params_v3.yaml),
fitted to measured runtimes of single ops. Pairs are (cycles per ublock, cycles per tile).
"""

from __future__ import annotations

from collections.abc import Mapping

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


WORMHOLE_B0: dict[str, dict[str, tuple[float, ...]]] = {
    "nop": {"": (305, 56), "df_int8": (300.79518131, 31.63897553), "df_int32": (29.55958137, 282.23654481)},
    "abs": {
        "": (31.24416072, 171.49657174),
        "vector_r": (192.41205979, 73.14296983),
        "vector_c": (144.10986813, 96.42560487),
    },
    "cosine": {
        "": (13.26159625, 1547.50430493),
        "vector_r": (43.22677031, 220.56621403),
        "vector_c": (16.87871829, 793.94046552),
    },
    "dropout": {
        "": (19.46042892, 574.20859506),
        "vector_r": (155.95726047, 88.60592074),
        "vector_c": (26.95886664, 297.18496136),
    },
    "exp": {
        "": (9, 1771),
        "vector_r": (29.90928201, 255.08236601),
        "vector_c": (11.24436033, 906.00525761),
        "approx": (10.21444666, 812.81243288),
        "approx/vector_r": (94.65717034, 129.13225493),
        "approx/vector_c": (10.34437245, 426.86754794),
    },
    "gelu": {
        "": (7.92054741, 270.42409301),
        "vector_r": (195.86307849, 73.62086904),
        "vector_c": (73.39572549, 146.47760566),
    },
    "gelu_derivative": {
        "": (19.45022077, 2219.61394575),
        "vector_r": (15.23211471, 314.08627304),
        "vector_c": (14.2297065, 1130.11071918),
        "approx": (19.50433624, 383.7680148),
        "approx/vector_r": (194.15981081, 74.06959261),
        "approx/vector_c": (62.79386937, 193.23680864),
    },
    "log": {
        "": (7.97213543, 718.10157769),
        "vector_r": (118.0043758, 116.1974189),
        "vector_c": (12.83971158, 377.46528932),
    },
    "lrelu": {
        "": (19.46006499, 321.99155234),
        "vector_r": (195.13870072, 73.71327325),
        "vector_c": (73.99476199, 161.4029633),
    },
    "power": {
        "": (54.37282805, 200.43831604),
        "vector_r": (195.32026045, 73.59520611),
        "vector_c": (123.48177223, 112.28697842),
    },
    "reciprocal": {
        "": (7.94124729, 910.08949585),
        "vector_r": (79.75362031, 141.75666331),
        "vector_c": (11.30119706, 473.70558294),
        "approx": (10.22895156, 780.80678659),
        "approx/vector_r": (99.90575463, 125.12375352),
        "approx/vector_c": (10.30849821, 409.85895601),
    },
    "sigmoid": {
        "": (25.03534987, 266.46622969),
        "vector_r": (191.47945113, 73.6263498),
        "vector_c": (69.3604809, 146.80670281),
    },
    "sine": {
        "": (7.94372077, 910.08903091),
        "vector_r": (53.86667731, 253.53648977),
        "vector_c": (23.4269007, 874.37118935),
    },
    "sqrt": {
        "": (7.94372077, 910.08903091),
        "vector_r": (81.07405178, 139.17054171),
        "vector_c": (15.75346038, 459.31187532),
    },
    "square": {
        "": (20.07828434, 204.16453935),
        "vector_r": (192.39138458, 73.24656301),
        "vector_c": (120.05791667, 112.41486545),
    },
    "tanh": {
        "": (20.22655237, 204.14081969),
        "vector_r": (192.21845954, 73.25829843),
        "vector_c": (119.70512064, 112.44021298),
    },
    "add": {
        "": (234.25383456, 49.60218332),
        "df_int8": (295.72990124, 33.19176739),
        "df_int32": (40.37744841, 576.29703567),
    },
    "subtract": {"": (234.07853173, 49.68498286), "df_int8": (299.0009375, 32.39898438)},
    "multiply": {"": (222.04735499, 54.59673969), "df_int8": (295.99415537, 33.59153892)},
    "maximum": {
        "": (9.86461708, 333.84015239),
        "df_int8": (46.18805867, 339.95401238),
        "df_int32": (46.99187058, 599.91769458),
    },
    "quantization": {"": (45.73634434, 594.58858343)},
    "dequantization": {"": (60.10736733, 529.06521226), "df_int32": (67.85934404, 669.0903464)},
    "requantization": {"": (61.6907783, 489.35434847), "df_int32": (45.86787736, 632.18816185)},
    "reduce": {"": (76, 59), "dim_c": (0, 91)},
    "reduce_z": {"": (0, 287, 268)},
    "splice": {"": (132, 69)},
    # (math tile and phase, spilled tile, unpacked ublock, unpacked tile)
    "depthwise": {"": (79, 0, 0, 0)},
    "matmul": {
        "": (15.51611247, 47.70099138, 93.19695147, 3.33289517),
        "df_bfp": (14.16279724, 22.11293136, 192.76487862, 3.97228042),
        "df_int32": (17.00306137, 160.82002908, 152.6718432, 0),
        "l1_acc_en": (15.7398104, 0, 20.92264602, 3.39358452),
        "l1_acc_en/df_bfp": (14.03763588, 26.61864423, 70.0132778, 4.66421696),
    },
    # (tile, reload, reload configuration, reload wait, pack wait, pack, ublock, non-zero ublock, non-zero tile)
    "matmul_sparse": {"": (18, 20, 20, 20, 25, 25, 8, 8, 12)},
}


Weights = tuple[float, ...]
"""For most ops (per ublock, per tile); for others see the formula."""
WeightSets = Mapping[str, Mapping[str, Weights]]
"""Op -> conditions joined by `/` (empty: always) -> weights; later sets are more specific."""

BY_ARCH: Mapping[str, WeightSets] = {"grayskull": GRAYSKULL, "wormhole_b0": WORMHOLE_B0, "blackhole": WORMHOLE_B0}
"""Blackhole's constants in TT-Buda are a copy of Wormhole's and were never measured."""


def weights(arch: str, op: str, conditions: frozenset[str]) -> Weights:
    """Returns the weights of `op` under `conditions`; an op that was never measured counts as a copy (`nop`)."""
    sets = BY_ARCH[arch].get(op) or BY_ARCH[arch]["nop"]
    for key in reversed(list(sets)):
        if conditions.issuperset(part for part in key.split("/") if part):
            return sets[key]
    raise KeyError(f"{arch}: {op} has no set of weights that always applies")

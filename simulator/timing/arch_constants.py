"""The constants of each arch, in the order of the fields of `constants.py`, and which were never measured on it.

Source: fitted by `python -m ci.calibration.fit_cycles grayskull` (or `wormhole_b0`) to half of the cycles that
Tenstorrent measured on one core of a card (tt-budabackend, perf_lib/op_model/scripts/perf_data). The other half is what
`ci/calibration/bench_cycles.py` compares them with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from opscope.simulator.timing.constants import Constants, DataPath, Kernel, Product, Reduce, ReduceZ, Sparse

# fmt: off
GRAYSKULL = Constants(
    data={
        "1/16": DataPath(249.59, 71.41, 158.24),
        "1/8": DataPath(331.19, 39.28, 98.1),
        "2/8": DataPath(288.13, 38.01, 86.41),
    },
    kernels={
        "add": {"8": Kernel(408.84, 19.95, 84.16)},
        "exp": {"8": Kernel(7.67, 55.72, 2637.02, 2665.84)},
        "exp approx": {"16": Kernel(94.03, 22.86, 668.62), "8": Kernel(35.77, 24.3, 669.37)},
        "gelu": {"8": Kernel(264.78, 21.33, 292.95)},
        "gelu_derivative": {"8": Kernel(326.11, 13.96, 3107.47)},
        "gelu_derivative approx": {"16": Kernel(94.59, 9.79, 821.34), "8": Kernel(109.56, 5.93, 822.17)},
        "log": {"8": Kernel(243.94, -0.8, 1411.07)},
        "maximum": {"8": Kernel(-10.86, 44.27, 259.03)},
        "multiply": {"8": Kernel(334.14, 20.02, 84.56)},
        "pow_scalar": {"16": Kernel(207.64, 20, 153.24), "8": Kernel(97.59, 20.84, 137.75)},
        "reciprocal": {"8": Kernel(252.18, 18.43, 916.27)},
        "reciprocal approx": {"16": Kernel(92.22, 27.58, 905.6), "8": Kernel(93, 27.18, 905.16)},
        "sigmoid": {"16": Kernel(254.77, 5.06, 189.33), "8": Kernel(-29.9, 51.6, 180.15)},
        "sqrt": {"8": Kernel(24.05, 151.77, 169.94)},
        "subtract": {"8": Kernel(408.84, 19.95, 84.16)},
        "typecast": {"8": Kernel(-78.68, 0, 0)},
    },
    products={
        "8": Product(34.457, 2.765, 3.6, 38.971, 224.376, 52.266, 205.222, 44.011, 242.902, 114.232, 21.473,
        389.583, 30.124, 29.89),
    },
    sparse={
    },
    reduce={
    },
    reduce_z={
    },
)


WORMHOLE_B0 = Constants(
    data={
        "1/16": DataPath(215.31, 21.56, 144.23),
        "1/32": DataPath(142.07, 197.23, 288.86),
        "1/8": DataPath(213.72, 29.63, 79.8),
        "1/int8": DataPath(286.85, 31.17, 90),
        "2/32": DataPath(89.52, 450.88, 497.1),
        "2/8": DataPath(273.54, 30.64, 82.59),
        "2/int8": DataPath(288.05, 24.28, 90),
    },
    kernels={
        "abs": {"16": Kernel(45.12, -4.49, 181.68), "8": Kernel(18.36, 7.68, 171.86)},
        "add": {"32": Kernel(87.78, 119.73, 524.99, 589.94), "8": Kernel(34.53, 19.98, 81.27), "int8":
        Kernel(267.73, 20, 93.04)},
        "cos": {"16": Kernel(36.21, 10.42, 1549.85), "8": Kernel(26.68, 14.14, 1544.99)},
        "dequantization": {"32": Kernel(454.95, 159.37, 439.71, 542.09)},
        "dequantization int32": {"32": Kernel(327.17, 57.02, 661.61)},
        "dropout": {"16": Kernel(13.77, 13.94, 575.6), "8": Kernel(29.92, 23.91, 573.03)},
        "exp": {"16": Kernel(48.35, 5.86, 1774.3), "8": Kernel(47.09, 8.78, 1769.4)},
        "exp approx": {"16": Kernel(6.18, 7.65, 816.13), "8": Kernel(4.11, 7.78, 812.04)},
        "gelu": {"16": Kernel(34.47, 8.04, 272.12), "8": Kernel(12.96, 7.92, 267.85)},
        "gelu_derivative": {"16": Kernel(41.94, 6.96, 2224.18), "8": Kernel(38, 37.5, 2212.21, 2219.84)},
        "gelu_derivative approx": {"16": Kernel(69.56, 12.23, 384.69), "8": Kernel(142.67, 9.54, 384.35)},
        "leaky_relu": {"16": Kernel(42.14, 13.01, 322.96), "8": Kernel(27.87, 22.92, 321.03)},
        "log": {"16": Kernel(26.3, 8.94, 719.25), "8": Kernel(6.82, 7.79, 715.99)},
        "maximum": {"32": Kernel(193.43, 28.27, 601.93), "8": Kernel(3.18, 22.55, 326.01, 335.73), "int8":
        Kernel(38.06, 85.01, 314.15, 359.04)},
        "multiply": {"8": Kernel(178.18, 19.95, 77.28), "int8": Kernel(232.51, 19.82, 98.5)},
        "pow_scalar": {"16": Kernel(757.45, 17.92, 120.24, 211.72)},
        "quantization": {"32": Kernel(369.64, 20.23, 592.01)},
        "reciprocal": {"16": Kernel(5, 7.7, 912.12), "8": Kernel(4.96, 7.8, 908)},
        "reciprocal approx": {"16": Kernel(370.66, 27.54, 751.36, 785.91), "8": Kernel(4.76, 7.67, 780.04)},
        "requantization": {"32": Kernel(369.64, 20.23, 486.98)},
        "requantization int32": {"32": Kernel(135.92, 35.62, 633.29)},
        "sigmoid": {"16": Kernel(28.5, 79.71, 236.09, 274.72), "8": Kernel(49.82, 78.32, 232.05, 269.49)},
        "sin": {"16": Kernel(23.69, 7.39, 1712.01), "8": Kernel(34.69, 22.73, 1703.34, 1707.41)},
        "splice": {"8": Kernel(24.94, 5.8, 89.5)},
        "sqrt": {"16": Kernel(5.37, 7.65, 912.12), "8": Kernel(5, 7.73, 908.01)},
        "square": {"16": Kernel(-4.17, 13.33, 208.2), "8": Kernel(12.4, 8.08, 203.95)},
        "subtract": {"8": Kernel(34.53, 19.98, 81.27), "int8": Kernel(267.73, 20, 93.04)},
        "tanh": {"16": Kernel(42.08, 4.76, 208.92), "8": Kernel(28.44, 7.66, 203.68)},
        "typecast": {"16": Kernel(268.61, 0, 0), "32": Kernel(32.39, 19.93, 258.53), "8": Kernel(174.64, 0, 0),
        "int8": Kernel(154.52, 0, 0)},
    },
    products={
        "16": Product(17.146, 4.003, 4, 60.03, 22.639, 83.12, 139.508, 38.946, 0, 107.415, 14.781, 11.418,
        70.094, 69.939),
        "16 l1_acc": Product(17.021, 4.035, 4.013, 60.745, 33.927, 82.077, 0, 0, 111.497, 44.845, 48.774, 0,
        70.174, 70.01),
        "32": Product(17.47, 4.005, 4.002, 60.147, 482.831, 66.663, 284.689, 120.743, 601.76, 104.21, 65.754,
        33.274, 70.025, 70.021),
        "8": Product(20.549, 13.156, 1.636, 0, 206.527, 27.742, 220.437, 13.975, 214.811, 39.642, 73.959,
        180.459, 99.631, 84.614),
        "8 l1_acc": Product(20.721, 2.94, 3.535, 17.798, 207.904, 29.767, 28.112, 17.908, 26.947, 53.888,
        298.448, 311.717, 105.161, 79.039),
        "depthwise": Product(77.236, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16.145, 0, 0),
    },
    sparse={
        "16": Sparse(0, 49.206, 187.335, 14.614, 4.914, 10.392, 45.597, 6.963, 24.008, 145.948),
        "8": Sparse(8.036, 51.485, 190.175, 11.909, 3.937, 5.909, 44.422, 6.628, 22.979, 229.913),
    },
    reduce={
        "reduce c/8": Reduce(184.36, 10.153, 70.995, 65.497, 91.637),
        "reduce r/8": Reduce(130.668, 11.664, 35.252, 129.658, 65.998),
    },
    reduce_z={
        "16": ReduceZ(0, DataPath(55.563, 102.699, 143.719), 13.043, 338.938, 237.636),
        "8": ReduceZ(78.527, DataPath(173.896, 44.445, 90), 0, 318.593, 142.661),
    },
)
# fmt: on


def _filled(own: Constants, other: Constants) -> Constants:
    """Returns an arch's constants, with Wormhole's for what nobody published of it.

    A sparse product's math takes twice the cycles, as a dense one's: 32 instead of 16 for a product of tiles (tt-buda,
    pybuda/op/eval/buda/matmul.py).
    """

    def slower(entry: Sparse) -> Sparse:
        return replace(entry, column=2 * entry.column, phase=2 * entry.phase)

    depthwise = {"depthwise": replace(other.products["depthwise"], phase=2 * other.products["depthwise"].phase)}
    return Constants(
        own.data,
        {**other.kernels, **own.kernels},
        {**depthwise, **own.products},
        own.sparse or {width: slower(entry) for width, entry in other.sparse.items()},
        own.reduce or other.reduce,
        own.reduce_z or other.reduce_z,
    )


CONSTANTS: Mapping[str, Constants] = {
    "wormhole_b0": WORMHOLE_B0,
    "grayskull": _filled(GRAYSKULL, WORMHOLE_B0),
    # Nobody published Blackhole's: Wormhole's, whose instructions take as many cycles (tt-isa-documentation).
    "blackhole": WORMHOLE_B0,
}

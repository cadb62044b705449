"""Wormhole B0's constants, in the order of the fields of `constants.py`.

Source: fitted by `python -m ci.benchmarks.fit_cycles wormhole_b0` to half of the cycles that Tenstorrent measured on
one core of a card (tt-budabackend, perf_lib/op_model/scripts/perf_data/wormhole_b0). `ci/benchmarks/bench_cycles.py`
compares them with the other half.
"""

from opscope.simulator.timing.constants import Constants, DataPath, Kernel, Product, Reduce, ReduceZ, Sparse

# fmt: off
WORMHOLE_B0 = Constants(
    data={
        "1/16": DataPath(216.71, 21.28, 144.3),
        "1/32": DataPath(142.07, 197.23, 288.86),
        "1/8": DataPath(213.72, 29.63, 79.8),
        "1/int8": DataPath(286.85, 31.17, 90),
        "2/32": DataPath(109.02, 444.85, 498.03),
        "2/8": DataPath(274.15, 30.73, 82.69),
        "2/int8": DataPath(292.03, 21, 90),
    },
    kernels={
        "abs": {"16": Kernel(39.03, -4.17, 181.71), "8": Kernel(18.36, 7.68, 171.86)},
        "add": {"32": Kernel(792.61, -74.24, 577.93), "8": Kernel(35.5, 19.98, 81.45), "int8": Kernel(359.45,
        19.8, 95.68)},
        "cos": {"16": Kernel(36.21, 10.42, 1549.85), "8": Kernel(26.68, 14.14, 1544.99)},
        "dequantization": {"32": Kernel(865.85, -98.61, 550.24)},
        "dequantization int32": {"32": Kernel(327.17, 57.02, 661.61)},
        "dropout": {"16": Kernel(13.77, 13.94, 575.6), "8": Kernel(29.92, 23.91, 573.03)},
        "exp": {"16": Kernel(48.35, 5.86, 1774.3), "8": Kernel(47.09, 8.78, 1769.4)},
        "exp approx": {"16": Kernel(6.18, 7.65, 816.13), "8": Kernel(4.11, 7.78, 812.04)},
        "gelu": {"16": Kernel(34.47, 8.04, 272.12), "8": Kernel(12.96, 7.92, 267.85)},
        "gelu_derivative": {"16": Kernel(41.94, 6.96, 2224.18), "8": Kernel(33.31, 32.36, 2214.59)},
        "gelu_derivative approx": {"16": Kernel(69.56, 12.23, 384.69), "8": Kernel(142.67, 9.54, 384.35)},
        "leaky_relu": {"16": Kernel(42.14, 13.01, 322.96), "8": Kernel(27.87, 22.92, 321.03)},
        "log": {"16": Kernel(26.3, 8.94, 719.25), "8": Kernel(6.82, 7.79, 715.99)},
        "maximum": {"32": Kernel(193.43, 28.27, 601.93), "8": Kernel(11.01, 13.9, 332.64), "int8": Kernel(-21.19,
        51.85, 343.65)},
        "multiply": {"8": Kernel(168.58, 19.95, 77.58), "int8": Kernel(243.41, 19.81, 98.01)},
        "pow_scalar": {"16": Kernel(193.42, -2.71, 207.81)},
        "quantization": {"32": Kernel(58.38, 62.52, 588.96)},
        "reciprocal": {"16": Kernel(5, 7.7, 912.12), "8": Kernel(4.96, 7.8, 908)},
        "reciprocal approx": {"16": Kernel(146.51, 4.56, 782.06), "8": Kernel(4.76, 7.67, 780.04)},
        "requantization": {"32": Kernel(330.25, 20, 487.13)},
        "requantization int32": {"32": Kernel(135.92, 35.62, 633.29)},
        "sigmoid": {"16": Kernel(-121.01, 51.82, 267.51), "8": Kernel(39.2, 25.79, 263.7)},
        "sin": {"16": Kernel(23.69, 7.39, 1712.01), "8": Kernel(34.33, 20.92, 1704.14)},
        "splice": {"8": Kernel(24.94, 5.8, 89.5)},
        "sqrt": {"16": Kernel(5.37, 7.65, 912.12), "8": Kernel(5, 7.73, 908.01)},
        "square": {"16": Kernel(-12.61, 14.39, 208.18), "8": Kernel(12.4, 8.08, 203.95)},
        "subtract": {"8": Kernel(5.04, 20, 81.39), "int8": Kernel(153.7, 19.88, 93.65)},
        "tanh": {"16": Kernel(36.15, 5.07, 208.96), "8": Kernel(28.44, 7.66, 203.68)},
        "typecast": {"16": Kernel(262.15, 0, 0), "32": Kernel(32.39, 19.93, 258.53), "8": Kernel(174.64, 0, 0),
        "int8": Kernel(154.52, 0, 0)},
    },
    products={
        "16": Product(17.146, 4.002, 4, 60.035, 22.639, 83.12, 139.508, 38.946, 0, 107.415, 14.782, 11.415,
        70.074, 69.941),
        "16 l1_acc": Product(17.021, 4.027, 4.011, 60.736, 33.927, 82.077, 0, 0, 111.497, 44.845, 48.774, 0,
        70.177, 70.033),
        "32": Product(17.47, 4.007, 4.002, 60.125, 482.828, 66.663, 284.694, 120.741, 601.77, 104.208, 65.754,
        33.271, 70.014, 70.017),
        "8": Product(20.549, 13.156, 1.636, 0, 206.527, 27.742, 220.437, 13.975, 214.81, 39.642, 73.959, 180.459,
        99.631, 84.614),
        "8 l1_acc": Product(20.721, 2.941, 3.527, 17.732, 207.904, 29.767, 28.112, 17.908, 26.947, 53.888,
        298.448, 311.717, 105.161, 79.039),
        "depthwise": Product(77.236, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16.209, 0, 0),
    },
    sparse={
        "16": Sparse(0, 49.206, 187.335, 14.615, 4.913, 10.392, 45.597, 6.963, 24.008, 145.947),
        "8": Sparse(8.028, 51.486, 190.175, 11.909, 3.937, 5.909, 44.422, 6.628, 22.979, 229.922),
    },
    reduce={
        "reduce c/8": Reduce(262.902, 18.295, 88.428, -60.138),
        "reduce r/8": Reduce(-69.958, 7.207, 61.441, 130.623),
    },
    reduce_z={
        "16": ReduceZ(0, DataPath(55.563, 102.699, 143.719), 13.043, 338.938, 237.636),
        "8": ReduceZ(78.527, DataPath(173.896, 44.445, 90), 0, 318.593, 142.661),
    },
)

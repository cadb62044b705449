"""Grayskull's constants, in the order of the fields of `constants.py`.

Source: fitted by `python -m ci.calibration.fit_cycles grayskull` to half of the cycles that Tenstorrent measured on
one core of a card (tt-budabackend, perf_lib/op_model/scripts/perf_data/grayskull). `ci/calibration/bench_cycles.py`
compares them with the other half.
"""

from opscope.simulator.timing.constants import Constants, DataPath, Kernel, Product

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

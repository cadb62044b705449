"""TT-Buda's ops as JAX functions: what a module's `forward` calls, and what a trace of it is made of.

Names, order of parameters and defaults are TT-Buda's (pybuda/op). The module in front, as old programs have it
(`Matmul(self, "matmul", a, b)`), is taken and ignored. All ops keep their dimensions: a sum leaves a 1.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

FAMILIES = {
    "constant": ("Constant",),
    "convolution": ("Conv2d", "Conv2dTranspose", "Conv3d"),
    "dram_queue": ("DRAMQueue",),
    "eltwise_binary": (
        "Add",
        "BinaryStack",
        "Divide",
        "Equal",
        "Greater",
        "GreaterEqual",
        "Heaviside",
        "Less",
        "LessEqual",
        "LogicalAnd",
        "Max",
        "Min",
        "Multiply",
        "NotEqual",
        "Power",
        "Subtract",
    ),
    "eltwise_nary": ("Concatenate", "IndexCopy", "Interleave", "Stack", "Where"),
    "eltwise_unary": (
        "Abs",
        "Argmax",
        "Buffer",
        "Clip",
        "Cosine",
        "CumSum",
        "Dropout",
        "Exp",
        "Gelu",
        "Identity",
        "LeakyRelu",
        "Log",
        "LogicalNot",
        "Pow",
        "Reciprocal",
        "Relu",
        "Sigmoid",
        "Sine",
        "Sqrt",
        "Tanh",
        "Tilize",
    ),
    "embedding": ("Embedding",),
    "matmul": ("Matmul", "SparseMatmul"),
    "nn": ("Batchnorm", "Layernorm", "LogSoftmax", "Softmax"),
    "nn_modules": (
        "AvgPool2dModule",
        "Conv2dModule",
        "ConvTranspose2dModule",
        "Linear",
        "MaxPool1dModule",
        "MaxPool2dModule",
        "SparseMatmulModule",
    ),
    "pooling": ("AvgPool1d", "AvgPool2d", "MaxPool1d", "MaxPool2d", "MaxPool3d"),
    "quantize": ("BudaRequantize", "Dequantize", "Quantize", "Requantize"),
    "reduce": ("GroupedReduceAvg", "ReduceAvg", "ReduceMax", "ReduceSum"),
    "resize": ("Resize2d", "Resize3d"),
    "tm": (
        "AdvIndex",
        "Broadcast",
        "BudaPad",
        "BudaUnpad",
        "HSlice",
        "HStack",
        "Index",
        "Narrow",
        "Pad",
        "PadTile",
        "PixelShuffle",
        "Repeat",
        "Reshape",
        "Select",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
        "VSlice",
        "VStack",
    ),
}
"""File of this package -> the names that it defines."""
MODULE_OF = {name: family for family, names in FAMILIES.items() for name in names}
__all__ = sorted(MODULE_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Imports an op and returns it. Raises AttributeError for any other name."""
    if name == "loss":
        return import_module(f"{__name__}.loss")
    if name == "nn":
        return import_module(f"{__name__}.nn")
    if name not in MODULE_OF:
        raise AttributeError(f"module 'pybuda.op' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    """All ops."""
    return sorted({*globals(), *MODULE_OF})

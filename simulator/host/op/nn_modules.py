"""Modules of one op and its parameters. Values are drawn when they are first needed, unless they are set."""

from __future__ import annotations

from typing import Any

from opscope.simulator.host.modules.py_buda_module import PyBudaModule
from opscope.simulator.host.op.convolution import Conv2d, Conv2dTranspose
from opscope.simulator.host.op.matmul import Matmul, SparseMatmul
from opscope.simulator.host.op.pooling import AvgPool2d, MaxPool1d, MaxPool2d
from opscope.simulator.host.parameter import Parameter
from opscope.simulator.host.tensor import array_of


class _OfOneOp(PyBudaModule):
    """A module that calls an op, by its own name, on its operand and the arguments that it was made with."""

    op: Any
    options: tuple[Any, ...]

    def forward(self, activations: Any) -> Any:
        """Returns the op's result."""
        return type(self).op(self.get_name(), activations, *self.options)


class Linear(PyBudaModule):
    """y = x @ weights + bias."""

    def __init__(self, name: str, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(name)
        self.weights = Parameter(in_features, out_features)
        self.bias = Parameter(out_features) if bias else None

    def forward(self, activations: Any) -> Any:
        """Returns the product."""
        return Matmul(self.get_name(), activations, self.weights, self.bias)


class Conv2dModule(PyBudaModule):
    """A convolution over rows and columns."""

    def __init__(
        self,
        name: str,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int],
        stride: int = 1,
        padding: Any = "same",
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        t_stream_workaround: bool = False,
    ) -> None:
        """`t_stream_workaround` is ignored: convolutions stream here without it."""
        super().__init__(name)
        self.options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        self.weights = Parameter(out_channels, in_channels // groups, *kernel_size)
        self.bias = Parameter(out_channels) if bias else None

    def forward(self, activations: Any) -> Any:
        """Returns the convolution."""
        return Conv2d(self.get_name(), activations, self.weights, self.bias, **self.options)


class ConvTranspose2dModule(PyBudaModule):
    """A transposed convolution over rows and columns."""

    def __init__(
        self,
        name: str,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int],
        stride: int = 1,
        padding: Any = "same",
        output_padding: int = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int = 1,
        padding_mode: str = "zeros",
    ) -> None:
        super().__init__(name)
        if output_padding != 0 or padding_mode != "zeros":
            self.refuse("output_padding 0 and padding_mode 'zeros'", f"{output_padding} and {padding_mode!r}")
        self.options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        self.weights = Parameter(in_channels, out_channels // groups, *kernel_size)
        self.bias = Parameter(out_channels) if bias else None

    def forward(self, activations: Any) -> Any:
        """Returns the transposed convolution."""
        return Conv2dTranspose(self.get_name(), activations, self.weights, self.bias, **self.options)


class MaxPool1dModule(_OfOneOp):
    """Maxima of windows over columns."""

    op = MaxPool1d

    def __init__(
        self,
        name: str,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> None:
        super().__init__(name)
        self.options = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)


class MaxPool2dModule(_OfOneOp):
    """Maxima of windows over rows and columns."""

    op = MaxPool2d

    def __init__(
        self,
        name: str,
        kernel_size: Any,
        stride: int = 1,
        padding: Any = "same",
        dilation: int = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> None:
        super().__init__(name)
        self.options = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)


class AvgPool2dModule(_OfOneOp):
    """Means of windows over rows and columns."""

    op = AvgPool2d

    def __init__(
        self,
        name: str,
        kernel_size: Any,
        stride: int = 1,
        padding: Any = "same",
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: float | None = None,
    ) -> None:
        super().__init__(name)
        self.options = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


class SparseMatmulModule(PyBudaModule):
    """A product with a fixed left side."""

    def __init__(self, name: str, sparseA: Any) -> None:
        super().__init__(name)
        self.sparseA = Parameter(array_of(sparseA), requires_grad=False)

    def forward(self, denseB: Any) -> Any:
        """Returns the product."""
        return SparseMatmul(self.get_name(), self.sparseA, denseB)

"""One op on its way into a program, and the table of what makes kernel calls of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.ir import Operation

from opscope.compiler.errors import StageFailure
from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.program import EltwiseParams, Numerics, Params, ReshapeParams, TensorDesc
from opscope.compiler.target.program import Operation as Call
from opscope.compiler.tt_mlir.tensors import STAGE
from opscope.compiler.tt_mlir.values import Attributes, fields

FIDELITIES = {"lofi": "LoFi", "hifi2": "HiFi2", "hifi3": "HiFi3", "hifi4": "HiFi4"}
_CONFIG = frozenset(
    {"math_fidelity", "math_approx_mode", "fp32_dest_acc_en", "packer_l1_acc", "dst_full_sync_en", "throttle_level"}
)
"""Fields of a compute configuration; the last three are about time and memory, with a Dst of 32 bits about no value."""
WIDE = frozenset({"Float32", "Int32", "UInt32"})
"""Formats for which tt-metal's elementwise kernels take a Dst of 32 bits."""


class Emit:
    """One op: its operands and results as tensors of the program, and the calls that are made of it."""

    def __init__(
        self,
        op: Operation,
        name: str,
        inputs: Sequence[int],
        results: Sequence[int],
        tensors: list[TensorDesc],
        location: str,
        mesh: tuple[int, ...] = (1, 1),
    ) -> None:
        self.op, self.name, self.location = op, name, location
        self.inputs, self.results = tuple(inputs), tuple(results)
        self.mesh = mesh
        """How many chips lie along each axis of the program's mesh."""
        self.tensors = tensors
        """The table of the program, which grows by what stands between calls."""
        self.attributes = Attributes(op.properties)
        self.calls: list[Call] = []
        self.written: dict[int, int] = {}
        """Operands that the op writes into, and the tensors that hold what is there after it."""

    def desc(self, tensor: int) -> TensorDesc:
        """The description of a tensor."""
        return self.tensors[tensor]

    def tensor(self, desc: TensorDesc) -> int:
        """A new tensor between two calls."""
        self.tensors.append(desc)
        return len(self.tensors) - 1

    def call(
        self,
        kernel: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        params: Params,
        numerics: Numerics | None = None,
    ) -> None:
        """Adds a kernel call."""
        self.calls.append(Call(kernel, tuple(inputs), tuple(outputs), params, numerics or Numerics(), self.location))

    def refused(self, message: str) -> StageFailure:
        """The error of an op that the simulator has no way to run."""
        return StageFailure(STAGE, self.name, message, kind="notimpl")

    def only(self, condition: bool, message: str) -> None:
        """Raises StageFailure if the op is not of the form that its row knows."""
        if not condition:
            raise self.refused(message)

    def view(self, tensor: int, shape: Sequence[int]) -> int:
        """A tensor's elements in another shape, where an op takes it so without moving any."""
        desc = self.desc(tensor)
        if desc.shape == tuple(shape):
            return tensor
        other = self.tensor(replace(desc, shape=tuple(shape)))
        self.call("view", [tensor], [other], ReshapeParams(tuple(shape)))
        return other

    def onto(self, tensor: int, result: int) -> None:
        """Makes a result of a tensor of another shape, without moving an element."""
        self.call("view", [tensor], [result], ReshapeParams(self.desc(result).shape))

    def numerics(self, default: str | None = None) -> Numerics:
        """How the op computes: its compute configuration, else `default` fidelity and tt-metal's choice of Dst."""
        config = self.attributes.get("compute_config")
        formats = [self.desc(tensor).data_format for tensor in (*self.inputs, *self.results)]
        wide = any(name in WIDE for name in formats) or len(self._exponents(formats)) > 1
        fidelity, approximate = default or "HiFi4", False
        if config is not None:
            self.only(
                set(config) <= _CONFIG,
                f"expected a compute configuration of {', '.join(sorted(_CONFIG))}, got {', '.join(sorted(config))}",
            )
            fidelity = FIDELITIES[config.get("math_fidelity", "hifi4")]
            wide = config.get("fp32_dest_acc_en", str(wide).lower()) == "true"
            approximate = config.get("math_approx_mode") == "true"
        return Numerics(fidelity, "Float32" if wide else self._narrow(formats), math_approx=approximate)

    @staticmethod
    def _exponents(formats: Sequence[str]) -> set[int]:
        """Bits of exponent that registers of 16 bits would need: no such one holds two kinds of floats."""
        return {FORMATS[name].register_exponent_bits for name in formats if FORMATS[name].is_float}

    def _narrow(self, formats: Sequence[str]) -> str:
        """The format of a Dst of 16 bits."""
        return "Float16" if self._exponents(formats) == {5} else "Float16_b"

    def chain(self, tensor: int, activations: Sequence[dict[str, str]], result: int | None = None) -> int:
        """A tensor after elementwise functions; the last one writes `result`, if that is given."""
        for number, fields_of in enumerate(activations):
            kernel = activation(fields_of)
            self.only(kernel is not None, f"expected an activation that a kernel has, got {fields_of}")
            assert kernel is not None
            last = number == len(activations) - 1 and result is not None
            made = result if last and result is not None else self.tensor(self.desc(tensor))
            self.call(kernel, [tensor], [made], EltwiseParams(), self.numerics())
            tensor = made
        return tensor


FUNCTIONS = (
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "gelu",
    "hardsigmoid",
    "isfinite",
    "log",
    "log1p",
    "logical_not",
    "neg",
    "reciprocal",
    "relu",
    "relu6",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
)
"""Functions of one number, which are ops by themselves and activations of other ops."""
ACTIVATIONS = {name: name for name in (*FUNCTIONS, "frac", "log2", "softsign")}
ACTIVATIONS |= {"recip": "reciprocal", "logical_not_unary": "logical_not"}
"""Name in `op_type` -> kernel."""


def activation(config: dict[str, str]) -> str | None:
    """The kernel of `#ttnn.unary_with_param<op_type = log1p>`; None if it has parameters or there is no such kernel."""
    return ACTIVATIONS.get(config.get("op_type", "")) if set(config) == {"op_type"} else None


Row = Callable[[Emit], None]
TABLE: dict[str, Row] = {}
"""Name of an op -> what makes its kernel calls."""


def emits(*names: str) -> Callable[[Row], Row]:
    """Enters the decorated function for ops of these names of dialect ttnn. Raises ValueError for a second row."""

    def entered(function: Row) -> Row:
        for name in names:
            whole = name if "." in name else f"ttnn.{name}"
            if whole in TABLE:
                raise ValueError(f"{whole}: expected one row, got a second")
            TABLE[whole] = function
        return function

    return entered


__all__ = ["ACTIVATIONS", "FIDELITIES", "TABLE", "Emit", "Row", "activation", "emits", "fields"]

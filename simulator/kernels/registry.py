"""The registry of kernels: `@kernel("add", EltwiseParams)` makes a function callable by name from a program.

A kernel is a pure function of whole tensors. It gets the images of its inputs (float32 for every float format, the
integer itself for integers, uint8 0/1 for i1) and the `Call`; it returns the image of its result (or a list of them),
which the device then packs into the result's data format. Nothing here names a core.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opscope.compiler.target.program import Numerics, Operation, Params, Program, TensorDesc
from opscope.simulator.arithmetic import PLAIN, Arithmetic
from opscope.simulator.mesh import Chip
from opscope.simulator.timing.arch_constants import CONSTANTS

Images = list[np.ndarray]
Body = Callable[..., Images]
"""A program that a kernel calls, from images to images. A body of scalars takes whole arrays."""


@dataclass(frozen=True)
class Call:
    """One kernel call: parameters, numerics, and the declared types of its tensors."""

    params: Params
    numerics: Numerics
    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    bodies: tuple[Body, ...] = ()
    """The programs that the parameters name, in their order."""
    mesh: Chip = field(default_factory=Chip)
    """The chip that runs it, with its mesh; by default a mesh of one chip."""
    arithmetic: Arithmetic = PLAIN

    @classmethod
    def of(cls, op: Operation, program: Program, *rest: Any, **named: Any) -> Call:
        """Returns the call that an operation of a program is; the other arguments are this class's own."""
        inputs, outputs = (tuple(program.tensors[t] for t in tensors) for tensors in (op.inputs, op.outputs))
        return cls(op.params, op.numerics, inputs, outputs, *rest, **named)


KernelFunction = Callable[[Images, Call], "np.ndarray | Images"]


@dataclass(frozen=True)
class Kernel:
    """A kernel and its properties."""

    name: str
    function: KernelFunction
    params: type
    unit: str
    """Where it computes: `sfpu`, `fpu` (eltwise on the matrix unit), `matrix`, `move` (bits), `control`, `host`."""
    arity: tuple[int, int]
    """Fewest and most inputs."""
    max_ulp: float
    """Bound of its error against the true value, in units in the last place of float32; 0: exact.

    For the matrix unit it has no meaning: there the operands' formats and the fidelity decide."""
    l1_bytes: Callable[[Call], int] | None = None
    """Bytes of circular buffers per core, if they are not two tiles per operand."""
    rounds: bool = True
    """Whether it rounds its result to the 16 bits of a narrow Dst itself; otherwise SFPSTORE cuts them."""
    picks: bool = False
    """Whether it only picks and orders elements, of whatever type they are."""
    cycles: tuple[str, ...] = ()
    """The kernels that it costs as much as, one after another; none: its cycles were measured, or are its unit's."""


KERNELS: dict[str, Kernel] = {}
"""Every kernel by name."""
MEASURED: tuple[str, ...] = ()
"""`cycles` of a kernel of which somebody published cycles: `timing/constants_*.py` have them."""
PASS = ("abs",)
"""`cycles` of a few instructions per 32 lanes."""
ON_VALUES = frozenset({"sfpu", "fpu"})
"""Units on which the time of a kernel depends on its function."""


def kernel(
    name: str,
    params: type,
    *,
    unit: str = "sfpu",
    arity: int | tuple[int, int] = 1,
    max_ulp: float = 0.0,
    l1_bytes: Callable[[Call], int] | None = None,
    rounds: bool = True,
    picks: bool = False,
    cycles: tuple[str, ...] = MEASURED,
) -> Callable[[KernelFunction], KernelFunction]:
    """Registers the decorated function as kernel `name`. Raises ValueError if the name is taken, or has no cycles."""
    if name in KERNELS:
        raise ValueError(f"kernel {name!r}: expected a new name, got one that is registered; try another name")
    if unit in ON_VALUES and not cycles and not all(name in arch.kernels for arch in CONSTANTS.values()):
        expected = "cycles of its own in timing/constants_*.py, or the kernels that it costs as much as"
        raise ValueError(f"kernel {name!r}: expected {expected}, got neither; try cycles=PASS")
    bounds = (arity, arity) if isinstance(arity, int) else arity

    def register(function: KernelFunction) -> KernelFunction:
        KERNELS[name] = Kernel(name, function, params, unit, bounds, max_ulp, l1_bytes, rounds, picks, cycles)
        return function

    return register


def bodies_of(call: Call, images: Images, own: int) -> tuple[Body, ...]:
    """Returns the call's bodies, each called with the scalars that follow the kernel's first `own` inputs."""
    around = images[own:]
    return tuple(lambda *args, body=body: body(*args, *around) for body in call.bodies)


def params_of(call: Call, cls: type) -> Any:
    """Returns the call's parameters as `cls`. Raises TypeError if they are of another class."""
    if not isinstance(call.params, cls):
        raise TypeError(f"params: expected {cls.__name__}, got {type(call.params).__name__}")
    return call.params


def keeps_bits(name: str, call: Call) -> bool:
    """Whether the vector unit hands on its operands' bits, -0 and denormals too: it loads, moves and stores Float32 as
    it is, and the packer leaves it so (SFPLOAD.md, SFPMOV.md, SFPSTORE.md, Packers/FormatConversion.md)."""
    values = call.inputs[1:] if name == "where" else call.inputs
    return name in ("neg", "where") and all(desc.data_format == "Float32" for desc in (*values, *call.outputs))

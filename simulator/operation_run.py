"""Executes one operation of a program: its kernel on the images of its operands, and its results packed."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.plan import PlacedOp
from opscope.compiler.target.program import EltwiseParams, Operation, Program, TensorDesc
from opscope.compiler.target.rounding import block_product
from opscope.compiler.target.system_desc import Profile as CoreProfile
from opscope.simulator.arithmetic import PLAIN, Arithmetic
from opscope.simulator.by_pattern import by_pattern
from opscope.simulator.errors import DeviceError, KernelError
from opscope.simulator.images import is_held, pack, widened
from opscope.simulator.kernels import KERNELS
from opscope.simulator.kernels.registry import Body, Call, Images, Kernel, keeps_bits
from opscope.simulator.mesh import Chip
from opscope.simulator.per_core import run_per_core
from opscope.simulator.placed import run_placed
from opscope.simulator.plain import plain

MOVING = ("move", "control", "host")
"""Units that pass data on unchanged, or compute it elsewhere."""


def execute(
    op: Operation,
    program: Program,
    values: dict[int, np.ndarray],
    cores: CoreProfile | None = None,
    bodies: tuple[Body, ...] = (),
    placed: PlacedOp | None = None,
    chip: Chip | None = None,
    arithmetic: Arithmetic = PLAIN,
    *,
    halves: bool = False,
) -> Images:
    """Executes one operation and returns the images of its results; with `halves`, large bfloat16 as their bits.

    They are computed core by core if `cores` is given, and by the cores of the plan if it is `placed`. Raises
    KernelError if they are not what the program declares.
    """
    where = named(op)
    call = Call.of(op, program, bodies, replace(chip or Chip(), at=where), arithmetic)
    kernel = KERNELS[op.kernel]
    images = [value_of(values, t, where) for t in op.inputs]
    on_bits = kernel.picks and placed is None and cores is None and _all_held(images, call)
    halves = halves and placed is None and cores is None
    dst = "Float32" if kernel.unit in MOVING else op.numerics.dst_format
    approximate = op.numerics.math_approx and kernel.unit == "sfpu" and kernel.params is EltwiseParams
    rounds = kernel.rounds and not approximate
    packer = functools.partial(pack, dst_format=dst, rounds=rounds, arithmetic=arithmetic, halves=halves)
    try:
        if halves and (result := plain(kernel, images, call, dst)) is not None:
            return [result]
        if halves and (result := by_pattern(kernel, images, call, packer)) is not None:
            return [result]
        if not on_bits:
            images = [widened(i) if is_held(i, desc) else i for i, desc in zip(images, call.inputs, strict=True)]
        if placed is not None:
            result = run_placed(kernel, images, call, placed)
        else:
            result = kernel.function(images, call) if cores is None else run_per_core(kernel, images, call, cores)
    except DeviceError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, ZeroDivisionError, OverflowError) as error:
        raise KernelError(f"{where}: expected operands that go together, got {error}; try to compile again") from error
    results = result if isinstance(result, list) else [result]
    if len(results) != len(op.outputs):
        raise KernelError(f"{where}: expected {len(op.outputs)} results, got {len(results)}; try to compile again")
    packed: Images = []
    for number, (value, desc) in enumerate(zip(results, call.outputs, strict=True)):
        if np.shape(value) != desc.shape:
            raise KernelError(f"{where}: expected a result of shape {desc.shape}, got {np.shape(value)}")
        source = call.inputs[number : number + 1]
        moved = kernel.unit in MOVING and all(d.data_format == desc.data_format for d in source)
        moved |= kernel.unit in ("control", "host") or keeps_bits(kernel.name, call)
        if _packs_as_blocks(kernel, call, desc):
            value = block_product(value)
        if on_bits:
            if moved:
                packed.append(np.asarray(value))
                continue
            value = widened(np.asarray(value))
        packed.append(packer(value, desc, moved=moved))
    return packed


def named(op: Operation) -> str:
    """An operation as errors name it."""
    return f"{op.kernel} ({op.location})" if op.location else op.kernel


def _all_held(images: Images, call: Call) -> bool:
    """Whether there are floats in a call, and all are bfloat16's bits and stay so."""
    floats = [is_held(i, d) for i, d in zip(images, call.inputs, strict=True) if FORMATS[d.data_format].is_float]
    return any(floats) and all(floats) and all(desc.data_format == "Float16_b" for desc in call.outputs)


def _packs_as_blocks(kernel: Kernel, call: Call, desc: TensorDesc) -> bool:
    """Whether the packer reads 6 bits of fraction of a result: of a product of block floats to be one, and of what is
    converted to block floats narrower than BFP8."""
    if kernel.name == "typecast":
        return desc.data_format in ("Bfp4_b", "Bfp2_b")
    return kernel.unit == "matrix" and all(FORMATS[d.data_format].kind == "block" for d in (*call.inputs, desc))


def value_of(values: dict[int, np.ndarray], tensor: int, where: str) -> np.ndarray:
    """The image of a tensor. Raises KernelError if no operation has written it, or one has freed it."""
    if tensor not in values:
        raise KernelError(f"{where}: expected tensor {tensor} to be written and not freed, got none")
    return values[tensor]

"""Executes one operation of a program: its kernel on the images of its operands, and its results packed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.plan import PlacedOp
from opscope.compiler.target.program import (
    CollectiveParams,
    EltwiseParams,
    Operation,
    Program,
    TensorDesc,
    programs_of,
)
from opscope.compiler.target.system_desc import Profile as CoreProfile
from opscope.simulator.arithmetic import PLAIN, Arithmetic
from opscope.simulator.by_pattern import by_pattern, may_be_by_pattern
from opscope.simulator.errors import DeviceError, KernelError
from opscope.simulator.images import pack, packer, widened
from opscope.simulator.kernels import KERNELS
from opscope.simulator.kernels.registry import Body, Call, Images, Kernel, keeps_bits
from opscope.simulator.mesh import Chip
from opscope.simulator.per_core import run_per_core
from opscope.simulator.placed import run_placed
from opscope.simulator.plain import may_be_plain, plain

MOVING = ("move", "control", "host")
"""Units that pass data on unchanged, or compute it elsewhere."""


@dataclass(frozen=True)
class _Result:
    """How one result is packed."""

    shape: tuple[int, ...]
    moved: bool
    pack: Callable[[np.ndarray], np.ndarray]


class PreparedOperation:
    """An operation, with what is known of it before it runs: to look that up takes longer than to compute a tile."""

    def __init__(
        self, op: Operation, program: Program, arithmetic: Arithmetic = PLAIN, *, halves: bool = False
    ) -> None:
        """With `halves`, large bfloat16 results stay as their bits."""
        kernel, call = KERNELS[op.kernel], Call.of(op, program, arithmetic=arithmetic)
        self.op, self.call, self.where = op, call, named(op)
        self.programs = programs_of(op.params)
        self._is_joint = kernel.params is CollectiveParams
        self._halves = tuple(i for i, desc in enumerate(call.inputs) if desc.data_format == "Float16_b")
        """The operands that may be held as their bits."""
        floats = sum(FORMATS[desc.data_format].is_float for desc in call.inputs)
        only_halves = 0 < floats == len(self._halves) and all(desc.data_format == "Float16_b" for desc in call.outputs)
        self._picks_bits = kernel.picks and only_halves
        dst = "Float32" if kernel.unit in MOVING else op.numerics.dst_format
        approximate = op.numerics.math_approx and kernel.unit == "sfpu" and kernel.params is EltwiseParams
        rounds = kernel.rounds and not approximate
        packing: dict[str, Any] = {"dst_format": dst, "rounds": rounds, "arithmetic": arithmetic, "halves": halves}
        self._pack = functools.partial(pack, **packing)
        self._is_plain = halves and may_be_plain(kernel, call, dst)
        self._is_by_pattern = halves and may_be_by_pattern(kernel, call)
        computes_nothing = call.outputs and not any(math.prod(desc.shape) for desc in call.outputs)
        self._is_empty = computes_nothing and kernel.unit not in ("control", "host") and not self._is_joint
        self._results: list[_Result] = []
        for number, desc in enumerate(call.outputs):
            source = call.inputs[number : number + 1]
            moved = kernel.unit in MOVING and all(d.data_format == desc.data_format for d in source)
            moved |= kernel.unit in ("control", "host") or keeps_bits(kernel.name, call)
            in_blocks = _packs_as_blocks(kernel, desc)
            self._results.append(_Result(desc.shape, moved, packer(desc, moved=moved, as_blocks=in_blocks, **packing)))

    def run(
        self,
        values: dict[int, np.ndarray],
        cores: CoreProfile | None = None,
        bodies: tuple[Body, ...] = (),
        placed: PlacedOp | None = None,
        chip: Chip | None = None,
    ) -> Images:
        """Returns the images of the results, computed core by core if `cores` is given, and by the cores of the plan if
        it is `placed`: then it was prepared without `halves`.

        Raises KernelError if they are not what the program declares.
        """
        call, kernel, where = self.call, KERNELS[self.op.kernel], self.where
        if bodies:
            call = replace(call, bodies=bodies)
        if self._is_joint:
            call = replace(call, mesh=replace(chip or Chip(), at=where))
        images = [value_of(values, tensor, where) for tensor in self.op.inputs]
        if self._is_empty:  # no core has a tile to make
            return [packer(desc, moved=True)(np.zeros(desc.shape)) for desc in call.outputs]
        held = [i for i in self._halves if images[i].dtype == np.uint16]
        on_bits = self._picks_bits and len(held) == len(self._halves) and placed is None and cores is None
        try:
            if self._is_plain and (result := plain(kernel, images, call)) is not None:
                return [result]
            if self._is_by_pattern and (result := by_pattern(kernel, images, call, self._pack)) is not None:
                return [result]
            for i in held if not on_bits else ():
                images[i] = widened(images[i])
            if placed is not None:
                result = run_placed(kernel, images, call, placed)
            else:
                result = kernel.function(images, call) if cores is None else run_per_core(kernel, images, call, cores)
        except DeviceError:
            raise
        except (ValueError, TypeError, IndexError, KeyError, ZeroDivisionError, OverflowError) as error:
            expected = f"{where}: expected operands that go together"
            raise KernelError(f"{expected}, got {error}; try to compile again") from error
        results = result if isinstance(result, list) else [result]
        if len(results) != len(self._results):
            raise KernelError(
                f"{where}: expected {len(self._results)} results, got {len(results)}; try to compile again"
            )
        packed: Images = []
        for value, made in zip(results, self._results, strict=True):
            if np.shape(value) != made.shape:
                raise KernelError(f"{where}: expected a result of shape {made.shape}, got {np.shape(value)}")
            if on_bits:
                value = np.asarray(value)
                if made.moved:
                    packed.append(value)
                    continue
                value = widened(value)
            packed.append(made.pack(value))
        return packed


def named(op: Operation) -> str:
    """An operation as errors name it."""
    return f"{op.kernel} ({op.location})" if op.location else op.kernel


def _packs_as_blocks(kernel: Kernel, desc: TensorDesc) -> bool:
    """Whether the packer reads 6 bits of fraction of a result that is to be block floats; what is converted to BFP8
    comes from bfloat16 as it is."""
    if kernel.name == "typecast":
        return desc.data_format in ("Bfp4_b", "Bfp2_b")
    return kernel.unit not in MOVING and FORMATS[desc.data_format].kind == "block"


def value_of(values: dict[int, np.ndarray], tensor: int, where: str) -> np.ndarray:
    """The image of a tensor. Raises KernelError if no operation has written it, or one has freed it."""
    if tensor not in values:
        raise KernelError(f"{where}: expected tensor {tensor} to be written and not freed, got none")
    return values[tensor]

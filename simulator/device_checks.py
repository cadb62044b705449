"""What a device refuses before it runs: binaries for another board, and inputs that are not what these declare."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.compiler.target.formats import FORMATS, host_dtype
from opscope.compiler.target.program import Binary, ControlParams, Program, TensorDesc, programs_of
from opscope.compiler.target.system_desc import SystemDesc, base_and_mask, holds_rows
from opscope.simulator.errors import BadInput, UnsupportedFormat, UnsupportedKernel, WrongBoard
from opscope.simulator.kernels import KERNELS
from opscope.simulator.kernels.matmul import FIDELITIES
from opscope.simulator.operation_run import MOVING
from opscope.simulator.scalar import applies_to_scalars


def check_board(binary: Binary, system: SystemDesc) -> None:
    """Checks that a board is the one of a program, or has all rows of cores of the one of a plan. Raises WrongBoard."""
    if binary.board == system.board:
        return
    try:
        (board, wanted), (own, switched_off) = base_and_mask(binary.board), base_and_mask(system.board)
    except ValueError as error:
        raise WrongBoard(f"load: expected a program for {system.board}, got one for {binary.board!r}") from error
    masks = [wanted | mask for mask in binary.harvested or (0,)]
    if board != own or not binary.plan.ops or not all(holds_rows(system.arch, switched_off, mask) for mask in masks):
        raise WrongBoard(
            f"load: expected a program for {system.board}, got one for {binary.board}"
            f"{f' without the rows of {list(masks)}' if any(masks) else ''}; "
            f"try to compile with --arch {system.board}"
        )


def check_program(program: Program, system: SystemDesc) -> None:
    """Checks that the board can run a program. Raises UnsupportedKernel or UnsupportedFormat."""
    for desc in program.tensors:
        _check_tensor(desc, system)
    for op in program.operations:
        kernel = KERNELS.get(op.kernel)
        if kernel is None:
            raise UnsupportedKernel(f"load: expected a kernel that {system.board} has, got {op.kernel!r}")
        low, high = kernel.arity
        if not low <= len(op.inputs) <= high or not isinstance(op.params, kernel.params):
            raise UnsupportedKernel(
                f"load: expected {op.kernel} of {low} to {high} inputs with {kernel.params.__name__}, "
                f"got {len(op.inputs)} inputs with {type(op.params).__name__}"
            )
        computes = kernel.unit not in MOVING and any(
            FORMATS[program.tensors[t].data_format].is_float for t in (*op.inputs, *op.outputs)
        )
        if computes and op.numerics.dst_format not in system.dst_formats:
            raise UnsupportedFormat(
                f"load: expected a Dst of {', '.join(system.dst_formats)} on {system.board}, "
                f"got {op.numerics.dst_format} for {op.kernel}; try --data-format Float16_b"
            )
        if op.numerics.fidelity not in FIDELITIES:
            raise UnsupportedFormat(
                f"load: expected a fidelity of {', '.join(FIDELITIES)}, got {op.numerics.fidelity!r} for {op.kernel}"
            )
        if not op.outputs and op.kernel != "deallocate":
            raise UnsupportedKernel(f"load: expected {op.kernel} to have results, got none; try to compile again")


def check_bodies(programs: Sequence[Program]) -> None:
    """Checks that kernels apply only elementwise programs. Raises UnsupportedKernel."""
    by_name = {program.name: program for program in programs}
    for program in programs:
        for op in program.operations:
            if isinstance(op.params, ControlParams):
                continue
            for body in (by_name[name] for name in programs_of(op.params)):
                for step in body.operations:
                    if not applies_to_scalars(step):
                        raise UnsupportedKernel(
                            f"load: expected a body of elementwise kernels for {op.kernel}, got {step.kernel!r}"
                        )


def _check_tensor(desc: TensorDesc, system: SystemDesc) -> None:
    known = FORMATS.get(desc.data_format)
    if known is None or (desc.buffer_type != "system_memory" and desc.data_format not in system.formats):
        raise UnsupportedFormat(
            f"load: expected a format of {', '.join(system.formats)} on {system.board}, got {desc.data_format!r}"
        )
    if known.kind == "block" and desc.layout != "tile":
        raise UnsupportedFormat(f"load: expected layout tile for {desc.data_format}, got {desc.layout}")
    if desc.buffer_type not in ("dram", "l1", "system_memory") or desc.layout not in ("tile", "row_major"):
        raise UnsupportedFormat(f"load: expected dram, l1 or system_memory in tile or row_major, got {desc}")


def check_inputs(program: Program, inputs: Sequence[np.ndarray]) -> None:
    """Checks that arrays are what a program declares as its inputs. Raises BadInput."""
    if not isinstance(inputs, Sequence):
        raise BadInput(f"run: expected a list of arrays, got {type(inputs).__name__}; try run([x, y])")
    if len(inputs) != len(program.inputs):
        raise BadInput(f"run: expected {len(program.inputs)} inputs, got {len(inputs)}")
    for index, (tensor, array) in enumerate(zip(program.inputs, inputs, strict=True)):
        check_array(f"run: expected input {index}", program.tensors[tensor], array)


def check_array(where: str, desc: TensorDesc, array: np.ndarray) -> None:
    """Raises BadInput if an array is not what a program declares for a tensor of the host."""
    dtype = host_dtype(desc.element_type)
    if isinstance(array, np.ndarray) and array.shape == desc.shape and array.dtype == dtype:
        return
    if not hasattr(array, "dtype"):
        raise BadInput(f"{where} to be an array, got {type(array).__name__}; try np.asarray")
    if np.shape(array) != desc.shape or np.asarray(array).dtype != dtype:
        raise BadInput(f"{where} of {dtype}{list(desc.shape)}, got {array.dtype}{list(array.shape)}")

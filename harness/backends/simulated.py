"""What backends that run programs on the simulated device have in common: its refusals, and what it counts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.base.mesh import partition
from opscope.harness.backends.base import Declined, Job, StageError
from opscope.harness.record.errors import InputError
from opscope.harness.record.structure import CALLS
from opscope.harness.verdict.tails import TTNN, by_kernels

if TYPE_CHECKING:
    from opscope.compiler.api import SystemDesc

MOST_FLOPS = 6e12
"""Floating point operations of one op above which it is not run: the simulator makes some 6e10 a second on one core
(a product of 8192 x 8192 took 18 s), so that such an op would meet its time limit, with gigabytes of its values."""
LIMIT = f"an op above {MOST_FLOPS:.0e} floating point operations (a product of 14,400 x 14,400) is not run"
"""The same in words."""


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turns what the compiler or the device raises of an op into a StageError with its own message."""
    from opscope.compiler.api import CompilerInputError, StageFailure
    from opscope.simulator.api import DeviceError, OutOfMemory

    try:
        yield
    except StageFailure as failure:
        message = failure.message if failure.op == "module" else f"{failure.op}: {failure.message}"
        raise StageError(message, failure.diagnostic or str(failure)) from failure
    except OutOfMemory as failure:
        drawing = {".memory.svg": failure.map.svg()}
        raise StageError(f"OutOfMemory: {failure}", failure.map.text(), files=drawing) from failure
    except (CompilerInputError, DeviceError) as failure:
        kind = "" if isinstance(failure, CompilerInputError) else f"{type(failure).__name__}: "
        raise StageError(f"{kind}{failure}") from failure


def decline_large(executable: Any) -> None:
    """Raises Declined if an op of what is to run is above MOST_FLOPS."""
    from opscope.simulator.api import flops_of

    for program in executable.programs.values():
        for op in program.operations:
            if (flops := flops_of(op, program)) > MOST_FLOPS:
                raise Declined(
                    f"too large for the simulator: {op.kernel} of {flops:.1e} floating point operations; {LIMIT}"
                )


def count(job: Job, result: Any, executable: Any) -> None:
    """Puts what the device has counted during a run into the job."""
    from opscope.simulator.api import counters

    profile = result.profile
    job.cycles, job.device_ns = profile.total_cycles, profile.device_ns
    job.l1_peak_bytes, job.dram_peak_bytes = profile.l1_peak_bytes, profile.dram_peak_bytes
    counted = counters(profile, executable.device.system, executable.cores)
    job.cycles_error = counted.cycles_error
    job.limiter, job.utilisation = counted.limiter, counted.utilisation
    job.dram_bytes, job.noc_bytes = counted.dram_bytes, counted.noc_bytes
    if job.ir_dir is not None:
        calls = [(op.kernel, op.cycles) for op in profile.ops]
        (job.ir_dir / CALLS).write_text(json.dumps(calls), encoding="utf-8")


@cache
def board_of(arch: str) -> SystemDesc:
    """The board of that name, or the default board of an arch. Raises InputError if there is none."""
    from opscope.compiler.api import load_board

    try:
        return load_board(arch)
    except ValueError as error:
        raise as_input_error("--arch", error, "a board or an arch") from error


def check_mesh(mesh: str | None, arch: str) -> None:
    """Raises InputError for a mesh of more devices than the board has chips."""
    devices = partition.devices_of(mesh) if mesh else 1
    board = board_of(arch)
    if devices > board.chips:
        larger = board_for(devices, arch)
        hint = f"--arch {larger}" if larger != arch else "a smaller mesh"
        raise InputError("--mesh", f"a mesh of at most {board.chips} devices on {board.board}", repr(mesh), hint)


def board_for(devices: int, arch: str) -> str:
    """`arch` if its board has so many chips, else the smallest board that has; `arch` where none has."""
    from opscope.compiler.api import board_with

    return arch if board_of(arch).chips >= devices else board_with(devices) or arch


def run_together(
    job: Job,
    executable: Any,
    takes: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]],
    gives: Callable[[Sequence[np.ndarray]], list[np.ndarray]],
) -> Any:
    """Runs an op on all chips of its mesh, and returns the first one's result; `takes` and `gives` are its inputs and
    results in the types of the program and of the op."""
    together = executable.run_mesh([takes(inputs) for inputs in job.mesh_inputs])
    job.mesh_outputs = [gives(each.outputs) for each in together]
    job.link_bytes = max(each.link_bytes for each in together)
    job.link_ns = max((each.link_ns for each in together if each.link_ns is not None), default=None)
    return together[0]


def as_input_error(where: str, error: Exception, expected: str) -> InputError:
    """The compiler's own line, `PLACE: expected X, got Y; try Z`, as the harness's error; `expected` if it is no such
    line."""
    own, _, rest = str(error).partition(": expected ")[2].partition(", got ")
    got, _, hint = rest.partition("; try ")
    return InputError(where, own or expected, got or str(error), hint)


@cache
def error_bound(op_name: str) -> float | None:
    """Returns the error bound of the kernel that computes the floats of an op; None if several kernels do."""
    from opscope.simulator.api import error_bound as bound_of

    kernel = _kernel_of(op_name)
    return None if kernel is None else bound_of(kernel)


@cache
def cuts_result(op_name: str) -> bool:
    """Whether the one kernel that computes the floats of an op leaves rounding to the store into Dst, which cuts."""
    from opscope.simulator.api import cuts_result as cuts

    kernel = _kernel_of(op_name)
    return kernel is not None and cuts(kernel)


def _gives(kernel: str, result: str, *operands: np.ndarray) -> list[np.ndarray]:
    """What ttnn's own kernel returns of float64 operands, by the type of its result: of bfloat16 with a Dst of 32 bits,
    and of 16."""
    from opscope.simulator.api import as_ttnn

    data_format = {"bfloat16": "Float16_b", "float32": "Float32"}[result]
    with np.errstate(all="ignore"):
        narrow = [x.astype(np.float32) for x in operands]
        return [as_ttnn(kernel, narrow, data_format, dst) for dst in dict.fromkeys(("Float32", data_format))]


TAILS = by_kernels(TTNN, _gives)
"""What ttnn's own kernels return in place of a function's value."""


def _kernel_of(op_name: str) -> str | None:
    """The kernel outside the matrix unit that computes the floats of an op; None if several kernels do."""
    from opscope.compiler.api import op_table

    for row in op_table():
        if row.stablehlo == op_name and "float" in row.dtypes:
            return row.kernel_name if row.lowering == "row" and not row.matrix else None
    return None

"""`python -m opscope.simulator FILE.ttnn --inputs x.npz --outputs y.npz`: runs a device binary with nothing but NumPy.

Inputs are the archive's arrays in their stored order; outputs are stored as `output_0`, `output_1`, ... Types that
NumPy has not (bfloat16) are stored as raw two-byte elements and read back by the program's declared type.

With `--steps FILE.json` the programs of a plan are run as its host would: a list of `["push", QUEUE, ARRAY]` (a name in
the archive of inputs), `["run", PROGRAM]` or `["run", PROGRAM, {PARAMETER: NUMBER}]` (1 where it is not given), and
`["pop", QUEUE]`; outputs are what was popped, in order.
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.array_bits import as_type
from opscope.compiler.target.binary import BinaryError, read
from opscope.compiler.target.formats import host_dtype
from opscope.simulator.device import Device, Executable
from opscope.simulator.errors import BadInput, DeviceError, OutOfMemory
from opscope.simulator.program_run import ProgramRun


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m opscope.simulator", description="Run a device binary on a simulated card."
    )
    parser.add_argument("binary", type=Path, help="program written by the compiler (.ttnn)")
    parser.add_argument("--inputs", type=Path, help=".npz with the inputs, in order")
    parser.add_argument("--outputs", type=Path, help=".npz to write")
    parser.add_argument("--steps", type=Path, help=".json with what the host does: push, run a program, pop")
    parser.add_argument("--board", help="board to simulate; default: the one that the program was compiled for")
    parser.add_argument("--profile", choices=("ttnn", "buda"), help="whose figures of grid, L1 and DRAM hold")
    parser.add_argument("--per-core", action="store_true", help="make each result core by core, by the plan if any")
    parser.add_argument("--exact-order", action="store_true", help="compute in the steps of ttnn's own kernels (slow)")
    parser.add_argument("--stochastic-rounding", type=int, metavar="SEED", help="round results by random bits")
    parser.add_argument(
        "--memory-map",
        type=Path,
        metavar="STEM",
        help="if it does not fit: write STEM.txt and STEM.svg, what lies where",
    )
    parser.add_argument("--json", action="store_true", help="print the profile as JSON")
    return parser.parse_args(argv)


def load_arrays(path: Path | None, executable: Executable) -> list[np.ndarray]:
    """Returns the archive's arrays; raw elements are read as the program's declared types."""
    if path is None:
        return []
    with np.load(path, allow_pickle=False) as archive:
        arrays = [archive[name] for name in archive.files]
    types = [host_dtype(executable.program.tensors[t].element_type) for t in executable.program.inputs]
    return [
        as_type(array, dtype)
        for array, dtype in zip(arrays, [*types, *[np.dtype(np.void)] * (len(arrays) - len(types))], strict=False)
    ]


def run_programs(path: Path, inputs: Path | None, executable: Executable, per_core: bool) -> ProgramRun:
    """Does the steps of a JSON file and returns the run, with what was popped. Raises BadInput for what is no step."""
    steps = json.loads(path.read_bytes())
    if not isinstance(steps, list) or not all(map(_is_step, steps)):
        raise BadInput(
            f'{path}: expected a list of ["push", QUEUE, ARRAY], ["run", PROGRAM, {{PARAMETER: NUMBER}}], '
            '["pop", QUEUE], got other'
        )
    arrays: dict[str, np.ndarray] = {}
    if inputs is not None:
        with np.load(inputs, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    for step in steps:
        if len(step) == 3 and isinstance(step[2], str) and step[2] not in arrays:
            raise BadInput(f"{path}: expected an array of --inputs ({', '.join(arrays) or 'none'}), got {step[2]!r}")
    run = ProgramRun(executable, per_core=per_core)
    values = {
        number: arrays[step[2]] if isinstance(step[2], str) else step[2]
        for number, step in enumerate(steps)
        if step[2:]
    }
    run.do((step[0], step[1], values.get(number)) for number, step in enumerate(steps))
    return run


def _is_step(step: Any) -> bool:
    if not isinstance(step, list) or len(step) not in (2, 3) or not all(isinstance(word, str) for word in step[:2]):
        return False
    if len(step) == 3 and isinstance(step[2], dict):
        return step[0] == "run" and all(isinstance(number, int) for number in step[2].values())
    return len(step) == 2 or isinstance(step[2], str)


def _save(path: Path, outputs: list[np.ndarray]) -> None:
    named: dict[str, Any] = {f"output_{i}": array for i, array in enumerate(outputs)}
    np.savez(path, **named)


def write_map(stem: Path, error: OutOfMemory) -> str:
    """Writes what lies where, as text and as a drawing. Returns what a disk that refuses says, else nothing."""
    try:
        stem.with_suffix(".txt").write_text(error.map.text(), encoding="utf-8")
        stem.with_suffix(".svg").write_text(error.map.svg(), encoding="utf-8")
    except OSError as refused:
        return f"{stem}: expected a place for files, got {refused.strerror}"
    return ""


def main(argv: list[str] | None = None) -> int:
    """Runs the command. Returns 0, or 2 with one line on standard error if the device or a file gives an error."""
    args = _arguments(argv)
    try:
        data = args.binary.read_bytes()
        device = Device(
            args.board or read(data).board,
            profile=args.profile,
            exact_order=args.exact_order,
            stochastic_seed=args.stochastic_rounding,
        )
        executable = device.load(data)
        if args.steps:
            result = run_programs(args.steps, args.inputs, executable, args.per_core)
            outputs = result.popped
        else:
            result = executable.run(load_arrays(args.inputs, executable), per_core=args.per_core)
            outputs = result.outputs
        if args.outputs:
            _save(args.outputs, outputs)
    except OutOfMemory as error:
        if args.memory_map is not None and (refused := write_map(args.memory_map, error)):
            print(f"simulator: {refused}", file=sys.stderr)
        print(f"simulator: {error}", file=sys.stderr)
        return 2
    except (DeviceError, BinaryError, ValueError, OSError, zipfile.BadZipFile) as error:
        print(f"simulator: {error}", file=sys.stderr)
        return 2
    profile = result.profile
    summary = {
        "card_type": device.card_type,
        "cycles": profile.total_cycles,
        "device_ns": profile.device_ns,
        "l1_peak_bytes": profile.l1_peak_bytes,
        "dram_peak_bytes": profile.dram_peak_bytes,
    }
    if args.json:
        summary["ops"] = [{"kernel": op.kernel, "cycles": op.cycles, "location": op.location} for op in profile.ops]
        print(json.dumps(summary))
    else:
        print(
            "  ".join(
                f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}" for key, value in summary.items()
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

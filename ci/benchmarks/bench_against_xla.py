"""How long the simulator computes single ops, against XLA on the host: unique ops of models, one thread each.

`python -m ci.benchmarks.bench_against_xla [--models M ...] [--dtypes float32 ...]` prints, for each model and element
type, the geometric mean of the ratio for ops that take XLA a millisecond or more, the worst of them, how many smaller
ones take the simulator more than a millisecond, and what an op costs that has nearly nothing to compute. Times are of
the processor, the least of several runs; compiling is not counted. An op that the simulator's board does not compile
is counted apart. Both sides have one thread, and NumPy's BLAS chooses its loops as XLA does, by the processor: where
the environment says otherwise (`OPENBLAS_CORETYPE`), the command starts itself again without that.

With `--bits` each op is not timed but run by the compiled passes (opscope/base/passes) and by NumPy's, with its
inputs as they are and with Inf, NaN, denormals and -0 put in; printed are the ops whose results have other bits.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base import passes
from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.harness.engine import model_jobs
from opscope.harness.prepare import golden
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.prepare.preparation import Preparation
from opscope.simulator.api import Device
from opscope.simulator.device import Executable

MODELS = ("mnist_mlp", "resnet50", "bert_base", "vit_base", "gpt2_small")
BOARD = "n150"
RUNS, ENOUGH = 25, 0.3
"""Most runs of an op, and seconds after which no other one begins."""
TINY = 4096
"""Elements of all operands and results of an op whose time is what any op costs."""
MILLISECOND = 1e-3
RARE = (np.inf, -np.inf, np.nan, 1e-39, -1e-39, -0.0)


@dataclass(frozen=True)
class Timed:
    """One op."""

    name: str
    operands: str
    elements: int
    xla: float
    ours: float
    """Seconds."""

    @property
    def ratio(self) -> float:
        """Times as long as XLA."""
        return self.ours / self.xla


def least(run: Callable[[], object]) -> float:
    """Returns the least processor time of several runs, after one that counts for nothing."""
    run()
    seconds: list[float] = []
    while len(seconds) < RUNS and (not seconds or sum(seconds) < ENOUGH):
        begin = time.process_time()
        run()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def loaded(model: str, dtype: str, refused: list[str]) -> Iterator[tuple[str, bytes, list[np.ndarray], Executable]]:
    """Yields name, module, inputs and loaded program of each unique op; appends those that do not compile."""
    header, rows = model_jobs.prepare(Preparation((model,), dtype=dtype))
    folder, device, board = Path(header.export_dirs[0]), Device(BOARD), api.load_board(BOARD)
    for row in rows:
        if row.module is None or not row.golden:
            continue
        module = (folder / row.module).read_bytes()
        arrays = row_inputs(row, folder)
        try:
            executable = device.load(api.compile(module, board, api.CompileOptions()))
        except StageFailure:
            refused.append(row.op_name)
            continue
        yield row.op_name, module, arrays, executable


def timed(model: str, dtype: str, refused: list[str]) -> Iterator[Timed]:
    """Yields the times of each unique op of a model; appends those that do not compile to `refused`."""
    for name, module, arrays, executable in loaded(model, dtype, refused):
        reference = golden.compile_module(module)
        buffers = [golden.put(array) for array in arrays]

        def by_xla(reference: golden.Executable = reference, buffers: list[Any] = buffers) -> None:
            for result in reference.run(buffers):
                golden.view(result)  # waits for it

        def by_us(executable: Executable = executable, arrays: list[np.ndarray] = arrays) -> None:
            executable.run(arrays)

        program = executable.program
        elements = sum(math.prod(program.tensors[tensor].shape) for tensor in (*program.inputs, *program.outputs))
        yield Timed(name, " ".join(map(_shape, arrays)), elements, least(by_xla), least(by_us))


def _spoiled(array: np.ndarray) -> np.ndarray:
    """An array with rare values here and there, if it holds floats."""
    if array.size == 0 or array.dtype.kind not in "fV":
        return array
    spoiled = array.copy()
    flat = spoiled.reshape(-1)
    for number, value in enumerate(RARE):
        flat[number * 7919 % flat.size :: max(flat.size // 3, 1)] = value
    return spoiled


def _compare_bits(models: Sequence[str], dtypes: Sequence[str]) -> int:
    """Prints how many ops have the same bits by both kinds of passes; 1 if one has not, 2 if there is one kind."""
    compiled = passes.compiled
    if compiled is None:
        print(f"expected compiled passes, got {passes.state}", file=sys.stderr)
        return 2
    count, differing = 0, 0
    for dtype in dtypes:
        for model in models:
            for name, _, arrays, executable in loaded(model, dtype, []):
                count += 1
                for inputs in (arrays, [_spoiled(array) for array in arrays]):
                    results = []
                    for passes.compiled in (compiled, None):
                        executable.kept.clear()
                        results.append([result.tobytes() for result in executable.run(inputs).outputs])
                    passes.compiled = compiled
                    if results[0] != results[1]:
                        differing += 1
                        print(f"{model} {dtype}: {name} {' '.join(map(_shape, arrays))}", flush=True)
    print(f"{count} ops, each with its inputs and with rare values in them: {differing} times other bits")
    return int(differing > 0)


def _shape(array: np.ndarray) -> str:
    return f"{array.dtype}{list(array.shape)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 1 if bits differ, 2 if there is nothing to compare them with."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--bits", action="store_true", help="compare compiled passes with NumPy's instead")
    parser.add_argument("--worst", type=int, default=5, help="how many of the slowest to name")
    options = parser.parse_args(arguments)
    if options.bits:
        return _compare_bits(options.models, options.dtypes)
    large: list[Timed] = []
    small: list[Timed] = []
    for dtype in options.dtypes:
        for model in options.models:
            refused: list[str] = []
            ops = list(timed(model, dtype, refused))
            own = [op for op in ops if op.xla >= MILLISECOND]
            rest = [op for op in ops if op.xla < MILLISECOND]
            print(f"{model} {dtype}: {_line(own, rest)}; {len(refused)} not compiled", flush=True)
            for op in sorted(own, key=lambda op: -op.ratio)[: options.worst]:
                print(f"  {op.ratio:5.1f}x {1e3 * op.ours:8.2f} ms, XLA {1e3 * op.xla:8.2f}: {op.name} {op.operands}")
            for op in sorted(rest, key=lambda op: -op.ours)[: options.worst]:
                print(f"         {1e3 * op.ours:8.2f} ms, XLA {1e3 * op.xla:8.2f}: {op.name} {op.operands}")
            large += own
            small += rest
    print(f"all: {_line(large, small)}")
    return 0


def _line(large: Sequence[Timed], small: Sequence[Timed]) -> str:
    parts = []
    if large:
        mean = math.exp(statistics.fmean(math.log(op.ratio) for op in large))
        worst = max(op.ratio for op in large)
        parts.append(
            f"{len(large)} ops of 1 ms: geometric mean {mean:.2f}x, worst {worst:.1f}x, "
            f"{sum(op.ratio > 5 for op in large)} over 5x"
        )
    if small:
        slow = sum(op.ours > MILLISECOND for op in small)
        middle = 1e3 * statistics.median(op.ours for op in small)
        parts.append(f"{len(small)} smaller: {slow} over 1 ms, median {middle:.3f} ms")
    if tiny := [1e6 * op.ours for op in small if op.elements <= TINY]:
        parts.append(
            f"{len(tiny)} of {TINY:,} elements or fewer: median {statistics.median(tiny):.0f} us, worst {max(tiny):.0f}"
        )
    if gathers := [1e6 * op.ours for op in small if op.name.endswith(".gather")]:
        parts.append(f"{len(gathers)} gathers: worst {max(gathers):.0f} us")
    return "; ".join(parts)


def _fair_environment() -> dict[str, str]:
    """This process's environment with one thread, and without what chooses BLAS's loops."""
    chosen = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    return {**chosen, "OPENBLAS_NUM_THREADS": "1"}


if __name__ == "__main__":
    if (fair := _fair_environment()) != dict(os.environ):
        os.execve(sys.executable, [sys.executable, "-m", "ci.benchmarks.bench_against_xla", *sys.argv[1:]], fair)
    sys.exit(main())

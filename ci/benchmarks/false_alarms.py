"""Does a verdict refuse what the requested target may honestly compute? Every op of models on the simulated boards.

`python -m ci.benchmarks.false_alarms --models mnist_mlp --formats f32 Bfp8_b --fidelities HiFi4 LoFi --boards n150` has
a line for each setting, with the processor time of its comparisons, and a line for each result that is refused. It ends
with 1 if there is one; what a board has no type for (`compile_failed`) has no verdict and is only counted. Everything
runs in this process: nothing is isolated, nothing is kept.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from opscope.harness.backends import registry
from opscope.harness.engine import model_jobs
from opscope.harness.lanes.ladder import Listener, climb
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpTest
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Status


class Clock:
    """Processor time from the call before a comparison to the end of its op."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since: float | None = None

    def start(self) -> None:
        """A comparison begins."""
        self._since = time.process_time()

    def stop(self) -> None:
        """The op has its verdict."""
        if self._since is not None:
            self.seconds += time.process_time() - self._since
        self._since = None


def verdicts(model: str, backend: str, context: RunContext, dtype: str, clock: Clock) -> Iterator[OpTest]:
    """The records of all unique ops of a model."""
    header, rows = model_jobs.prepare(Preparation((model,), dtype=dtype))
    loaded = registry.load(backend)
    for row in rows:
        export_dir, listener = Path(header.export_dirs[0]), Listener(before_compare=clock.start)
        test = climb(row, loaded, context=context, export_dir=export_dir, listener=listener)
        clock.stop()
        yield test


def settings(options: argparse.Namespace) -> Iterator[ResultOptions]:
    """The result options that are asked for; a backend without number formats has one."""
    for board, level, name, fidelity in itertools.product(
        options.boards, options.levels, options.formats, options.fidelities
    ):
        if options.backend != "reference":
            yield ResultOptions()
            return
        yield ResultOptions(
            arch=board, optimization_level=level, data_format=None if name == "f32" else name, math_fidelity=fidelity
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each model and setting; 1 if a result is refused."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", default=["mnist_mlp"])
    parser.add_argument("--formats", nargs="+", default=["f32"], help="f32: the model's own types")
    parser.add_argument("--fidelities", nargs="+", default=["HiFi4"])
    parser.add_argument("--boards", nargs="+", default=["n150"])
    parser.add_argument("--levels", nargs="+", type=int, default=[0])
    parser.add_argument("--dtype", default="float32", help="element type of the models")
    parser.add_argument("--backend", default="reference")
    options = parser.parse_args(arguments)
    alarms = 0
    with tempfile.TemporaryDirectory(prefix="opscope-alarms-") as scratch:
        for model, asked in itertools.product(options.models, settings(options)):
            context = RunContext(run_id="alarms", run_dir=scratch, backend=options.backend, options=asked)
            clock = Clock()
            tests = list(verdicts(model, options.backend, context, options.dtype, clock))
            counts = ", ".join(f"{count} {status}" for status, count in Counter(test.status for test in tests).items())
            words = [model, options.dtype, options.backend]
            if options.backend == "reference":
                words += [asked.arch, f"level {asked.optimization_level}", asked.data_format or "own types"]
                words.append(asked.math_fidelity or "")
            print(f"{' '.join(words)}: {counts}; compared in {clock.seconds:.2f} s", flush=True)
            for test in tests:
                if test.status == Status.WRONG_RESULT:
                    alarms += 1
                    print(f"  {test.op_name} [{test.op_id}]: {test.error_message}", flush=True)
    return int(alarms > 0)


if __name__ == "__main__":
    sys.exit(main())

"""What the harness itself costs: a sweep of synthetic ops on the backend that does nothing, timed and weighed.

    python ci/benchmarks/overhead.py --ops 20000 --uses 200000

The export folders are written here, so that export, compiler, simulator and goldens take no time: all that the command
takes is overhead, including report and database. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from opscope.harness.cache import export_folder
from opscope.harness.prepare.inputs import drawn
from opscope.harness.prepare.preparation import Preparation, tasks
from opscope.harness.record.records import ManifestHeader, OpRow, TensorDesc, Use

MODULE = "func.func @main(%x: tensor<{n}xf32>) -> tensor<{n}xf32> {{ return %x : tensor<{n}xf32> }}"
KINDS = ("add", "multiply", "dot_general", "reshape", "reduce", "convolution", "exponential", "select")
BIN = Path(sys.executable).parent


def rows(model: str, first: int, ops: int, uses: int) -> list[OpRow]:
    """`ops` rows of one model with `uses` uses each, with all the fields of a real export."""
    rows_of_model = []
    for n in range(first, first + ops):
        shape = (1 + n % 61, 1 + n // 61)
        desc = TensorDesc(shape=shape, data_type="f32")
        rows_of_model.append(
            OpRow(
                op_id=f"{n * 0x9E3779B97F4A7C15 % 2**64:016x}",
                op_name=f"stablehlo.{KINDS[n % len(KINDS)]}",
                module="ops/op.mlirbc",
                inputs=(desc, desc),
                outputs=(desc,),
                sources=(drawn("random", "normal:1", 0, 0),) * 2,
                no_golden="synthetic",
                op_params={"dimension_numbers": "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "padding": "dense<0>"},
                uses=tuple(
                    Use(
                        model=model,
                        path=f"main/{n * uses + k}",
                        location=f"layer_{k}/block_{n % 12}/op (models/jax/{model}.py:{n % 400})",
                        framework_op=KINDS[n % len(KINDS)],
                    )
                    for k in range(uses)
                ),
                provenance=f"random:{n}",
                frontend="jax",
            )
        )
    return rows_of_model


def export(folder: Path, cache: Path, models: int, ops: int, uses: int) -> None:
    """Writes the files of `models` models, and the finished export folder of each, as an earlier export would."""
    for index in range(models):
        path = folder / f"synthetic{index:02d}.mlir"
        path.write_text(MODULE.format(n=index + 1))
        (task,) = tasks(Preparation((str(path),), cache_dir=str(cache)))
        finished = Path(task.folder)
        target = finished.with_name("unfinished")
        (target / "ops").mkdir(parents=True)
        (target / "ops" / "op.mlirbc").write_bytes(path.read_bytes())
        share = ops // models
        header = ManifestHeader(
            models=(task.name,),
            export_dirs=(task.folder,),
            module_ops={task.name: share * (uses // ops)},
            structural={task.name: 0},
        )
        export_folder.write_manifest(target, header, rows(task.name, index * share, share, uses // ops))
        export_folder.publish(target, finished)


def run(folder: Path, cache: Path, *options: str) -> dict[str, float]:
    """Runs the sweep; returns its wall time and processor time in seconds, and the peak memory of its processes and of
    the controller alone."""
    command = [
        BIN / "pytest",
        "-p",
        "no:benchmark",
        "--model",
        str(folder / "*.mlir"),
        "--op-by-op",
        "-q",
        "--backend",
        "null",
        *options,
    ]
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(cache)}
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    child = psutil.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    most = most_of_controller = 0
    while child.poll() is None:
        resident = 0
        for process in (child, *_children(child)):
            try:
                rss = process.memory_info().rss
            except psutil.Error:  # the process has ended
                continue
            resident += rss
            if process is child:
                most_of_controller = max(most_of_controller, rss)
        most = max(most, resident)
        time.sleep(0.1)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "seconds": time.monotonic() - started,
        "cpu_seconds": cpu,
        "bytes": most,
        "exit": child.returncode,
        "controller_bytes": most_of_controller,
    }


STORED = {
    "manifest": "**/manifest.jsonl",
    "journal": "**/journal/*.jsonl",
    "database": "**/*.sqlite",
    "report": "**/report.html",
}
"""What a sweep leaves below its folder -> the files."""


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of what a sweep has left."""
    return {
        f"{name}_bytes": sum(path.stat().st_size for path in (folder / ".opscope").glob(pattern))
        for name, pattern in STORED.items()
    }


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def main(arguments: list[str] | None = None) -> int:
    """Measures one sweep; options after `--` go to pytest."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ops", type=int, default=20_000, help="unique ops")
    parser.add_argument("--uses", type=int, default=200_000, help="uses of them, a multiple of the former")
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--again", action="store_true", help="run a second time, on kept verdicts")
    parser.add_argument("rest", nargs="*", help="options of the sweep")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder, cache = Path(scratch) / "here", Path(scratch) / "cache"
        folder.mkdir()
        export(folder, cache, options.models, options.ops, options.uses)
        figures = run(folder, cache, *options.rest) | sizes(folder)
        if options.again:
            figures["again"] = run(folder, cache, *options.rest)["seconds"]
    print(json.dumps({"ops": options.ops, "uses": options.uses, "models": options.models, **figures}))
    return 0 if figures["exit"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())

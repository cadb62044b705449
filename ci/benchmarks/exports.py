"""What exporting models takes, without split, goldens and ops: `python -m ci.benchmarks.exports --framework torch`.

Exports the models twice, each way in a process of its own: every exporter importing its framework, and, as a sweep does
it, all but the first as forks of a process that has imported it. Prints the processor time of both, with all processes,
and compares the modules, bit by bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from opscope.harness.prepare import exporting
from opscope.harness.prepare.allowance import Allowance
from opscope.harness.prepare.preparation import Preparation, tasks
from opscope.models import registry
from opscope.models.frontends import packages_ahead

WAYS = ("alone", "forks")


def export_all(models: list[str], way: str) -> dict[str, tuple[float, str]]:
    """Seconds by the clock and the digest of the module, by model."""
    exported = {}
    for task in tasks(Preparation(tuple(models))):
        assert task.export is not None
        if task.missing:
            continue
        if way == "alone":
            packages_ahead.forget()
        with tempfile.TemporaryDirectory() as folder:
            begun = time.monotonic()
            exporting.run_exporter(task.export, Path(folder), Allowance())
            exported[task.name] = (round(time.monotonic() - begun, 2), _digest(Path(folder) / "module.mlirbc"))
    return exported


def _digest(module: Path) -> str:
    """The digest of a module but for the names of files that torch_geometric writes for itself, in its locations."""
    return hashlib.sha256(re.sub(rb"propagate_\w{8}[.]py", b"propagate.py", module.read_bytes())).hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Exports both ways; returns 1 if a module differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--framework", default="torch")
    parser.add_argument("--models", nargs="+", help="default: all of the framework")
    parser.add_argument("--way", choices=WAYS, help="only this way, as JSON")
    options = parser.parse_args(arguments)
    models = options.models or [m.name for m in registry.match("all") if m.framework == options.framework]
    if options.way:
        print(json.dumps(export_all(models, options.way)))
        return 0
    exported: dict[str, dict[str, tuple[float, str]]] = {}
    print("| exporters | models | processor time | per model | clock, median |\n|---|---|---|---|---|")
    for way in WAYS:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "ci.benchmarks.exports", "--way", way, "--models", *models]
        exported[way] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        times = sorted(seconds for seconds, _ in exported[way].values())
        print(
            f"| {way} | {len(times)} | {cpu:.0f} s | {cpu / len(times):.1f} s | {times[len(times) // 2]:.1f} s |",
            flush=True,
        )
    differ = [name for name, (_, digest) in exported["alone"].items() if exported["forks"][name][1] != digest]
    print(f"modules that differ: {', '.join(differ) or 'none'}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

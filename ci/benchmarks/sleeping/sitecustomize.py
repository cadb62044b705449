"""Makes a sweep sleep in place of its work. Python imports this at the start of each process that has its folder on
PYTHONPATH; `ci/benchmarks/scaling.py` does that.

What is replaced is only what takes the time of a real sweep: exporting and splitting a model (before the split of its
tiny module), evaluating a golden, an op's stages on the backend `null`. How long each takes is in the file that SLEEPS
names. Each sleep is a line in a file of its process below SLEEPS.log: kind, what, begin and end (monotonic, one clock
for all processes of the machine).
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

SLEEPS = "OPSCOPE_BENCHMARK_SLEEPS"


@cache
def table() -> dict[str, Any]:
    """`models`: seconds of export and split, and of the split, by model; `ops`: of golden and stages, by shape."""
    with open(os.environ[SLEEPS], encoding="utf-8") as file:  # noqa: PTH123  every process starts with this module
        return json.load(file)


def sleep(kind: str, what: str, seconds: float) -> None:
    """Sleeps, and notes it."""
    begin = time.monotonic()
    time.sleep(seconds)
    line = f"{kind} {what} {begin:.4f} {time.monotonic():.4f}\n"
    with open(f"{os.environ[SLEEPS]}.log/{os.getpid()}", "a", encoding="utf-8") as log:  # noqa: PTH123
        log.write(line)


def shape_text(array: Any) -> str:
    """The shape by which the table knows an op: `3x14`."""
    return "x".join(map(str, array.shape))


def sleeping_split(module: Any) -> None:
    """Has `split_module` take the time of the model's export and split, and if it is called again, of the split."""
    split = module.split_module

    def split_module(bytecode: bytes, name: str, *rest: Any, **options: Any) -> Any:
        whole, again = table()["models"][name]
        try:
            os.close(os.open(f"{os.environ[SLEEPS]}.{name}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            sleep("split_again", name, again)
        else:
            sleep("prepare", name, whole)
        return split(bytecode, name, *rest, **options)

    module.split_module = split_module


def sleeping_goldens(module: Any) -> None:
    """Has a golden take the time that it took, without XLA: zeros of the operand's shape, which is the result's."""
    import numpy as np

    class Sleeping(module.Executable):
        def __init__(self) -> None:
            """Loads nothing."""

        def run(self, buffers: Any) -> list[Any]:
            what = shape_text(buffers[-1])  # the first may be what ops have in common
            sleep("golden", what, table()["ops"][what][0])
            return [np.zeros_like(buffers[-1])]

    module.begin_compiling = lambda *words, **options: Sleeping
    module.put = module.view = lambda array: array
    module.take = lambda array: np.array(array, copy=True, order="C")


def sleeping_stages(module: Any) -> None:
    """Has stage `run` of the backend `null` take the time that all stages of the op took."""

    def climb(self: Any, stage: str, job: Any) -> None:
        if stage == "run":
            what = shape_text(job.inputs[-1])
            sleep("op", what, table()["ops"][what][1])

    module.Null.climb = climb


REPLACED: dict[str, Callable[[Any], None]] = {
    "opscope.harness.prepare.split": sleeping_split,
    "opscope.harness.prepare.golden": sleeping_goldens,
    "opscope.harness.backends.null": sleeping_stages,
}
"""Module -> what is done to it once it has been imported."""


class Replacing(MetaPathFinder):
    """Finds the modules of REPLACED as all others do, and changes them when they are loaded."""

    def __init__(self) -> None:
        self._finding = ""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module that is replaced; None for all others."""
        if name not in REPLACED or self._finding == name:
            return None
        self._finding = name
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._finding = ""
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            REPLACED[name](module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if os.environ.get(SLEEPS):
    sys.meta_path.insert(0, Replacing())

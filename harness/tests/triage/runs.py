"""Real runs of small modules on backends with bugs, in folders of their own: what triage starts from."""

from __future__ import annotations

from pathlib import Path

from opscope.harness.record.records import OpTest
from opscope.harness.run.api import run_op_by_op


def run(folder: Path, module: str, backend: str, **options) -> tuple[Path, list[OpTest]]:
    """A run of a module's ops with one attempt each and no folders of failures, unless `options` say otherwise."""
    options = {"reruns": 0, "repro_size": 0, "cache_dir": folder / "cache", **options}
    tests = run_op_by_op(module, backend=backend, run_dir=folder / "run", name="net", **options)
    return folder / "run", tests


def unary(op: str, shape: str) -> str:
    """A module of one op with one argument and a result of its type."""
    return (
        f"func.func @main(%a: tensor<{shape}>) -> tensor<{shape}> {{\n  %0 = {op}\n  return %0 : tensor<{shape}>\n}}\n"
    )


def binary(name: str, shape: str) -> str:
    """A module of one elementwise op with two arguments."""
    return (
        f"func.func @main(%a: tensor<{shape}>, %b: tensor<{shape}>) -> tensor<{shape}> {{\n"
        f"  %0 = stablehlo.{name} %a, %b : tensor<{shape}>\n  return %0 : tensor<{shape}>\n}}\n"
    )

"""StableHLO modules for the tests, made by JAX or written out, and how to run what we compile of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope.base.xla import xla_releases
from opscope.compiler import api
from opscope.simulator.api import Device

BOARD = api.load_board("n150")
CASES = Path(__file__).parents[3] / "shared" / "data"

QUICKLY: dict[str, str | bool | int] = {
    "xla_backend_optimization_level": 0,
    **xla_releases.quick_options(),
    "xla_cpu_parallel_codegen_split_count": 1,
}
"""XLA's options for a program that runs once, on small inputs: compiling takes longer than anything else here."""


def stablehlo(function: Callable[..., Any], *args: Any) -> str:
    """StableHLO text of a jitted function."""
    import jax

    return str(jax.jit(function, keep_unused=True).lower(*args).compiler_ir("stablehlo"))


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` for a golden: compiled in a fraction of the time."""
    import jax

    return jax.jit(function, compiler_options=QUICKLY)


def fused_names(source: str | bytes) -> list[str]:
    """Names of a module's ttir ops after the passes of level 1."""
    from opscope.compiler.pipelines.pipeline import graph_passes, run

    ttir = api.stablehlo_to_ttir(source)
    run(graph_passes(), ttir)
    return [name.removeprefix("ttir.") for name in op_names(ttir)]


def jaxlib_parses(source: str) -> bool:
    """Whether jaxlib reads a text, which knows none of our dialects. Raises MLIRError where it does not."""
    from jaxlib.mlir import ir

    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        ir.Module.parse(source)
    return True


def module(body: str, signature: str) -> str:
    """A module with one function: `module("%0 = ... return %0", "(%a: ...) -> ...")`."""
    return f"func.func @main{signature} {{\n{body}\n}}"


def simulate(source: str | bytes, *inputs: Any, **options: Any) -> list[np.ndarray]:
    """Outputs of the compiled module on a simulated n150."""
    data = api.compile(source, BOARD, api.CompileOptions(**options))
    return Device("n150").load(data).run([np.asarray(i) for i in inputs]).outputs


@lru_cache(maxsize=4)
def _by_xla(source: str) -> Any:
    """The module, compiled by XLA: once for a test that runs it on several inputs."""
    import jax
    from jaxlib import xla_client

    device = jax.devices("cpu")[0]
    options = xla_client.CompileOptions()
    options.env_option_overrides = list(QUICKLY.items())
    return device.client.compile_and_load(source, (device,), options)


def xla(source: str, *inputs: Any) -> list[np.ndarray]:
    """Outputs of the module on XLA's CPU."""
    import jax

    device, program = jax.devices("cpu")[0], _by_xla(source)
    with jax.enable_x64(True):
        placed = [jax.device_put(np.asarray(i), device) for i in inputs]
    return [np.asarray(o[0]) for o in program.execute_sharded(placed).disassemble_into_single_device_arrays()]


def op_names(ir: Any) -> list[str]:
    """Names of all ops but module, function and return."""
    return [op.name for op in ir.walk() if op.name.split(".")[0] not in ("builtin", "func")]


def random(
    shape: tuple[int, ...], seed: int = 0, dtype: Any = np.float32, low: float = -2, high: float = 2
) -> np.ndarray:
    """Seeded values, uniform in [low, high)."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def has_conformance() -> bool:
    """Whether the stored StableHLO conformance cases lie beside this checkout."""
    return (CASES / "stablehlo_cases.zip").exists()


def conformance() -> Iterator[Any]:
    """The stored StableHLO conformance cases. Skips the test where this checkout has none beside it."""
    if not has_conformance():
        pytest.skip("no stablehlo_cases.zip beside the checkout")
    spec = importlib.util.spec_from_file_location("read_cases", CASES / "read_cases.py")
    assert spec is not None
    assert spec.loader is not None
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    yield from reader.load(str(CASES / "stablehlo_cases.zip"))

"""Goldens by XLA on the host: single-op modules compiled once, kept as serialised executables, run on one thread."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base import damage, stored
from opscope.base.damage import Damaged
from opscope.base.digest import words_digest
from opscope.base.mesh.shardings import collective_in
from opscope.base.op_families import DATA_MOVEMENT, op_family
from opscope.base.quantised.types import PREFIX
from opscope.base.stablehlo.python_calls import why_not_run
from opscope.base.xla import ieee_denormals, xla_releases
from opscope.harness.cache import export_folder
from opscope.harness.prepare import mlir
from opscope.harness.prepare.pjrt import client as pjrt_client
from opscope.harness.prepare.pjrt.client import Client, ClientError, Executable, short

VERSION = 3
"""Raised when the same module must be compiled differently than before."""


_ONE_ROUNDING = (
    "abs add and ceil clamp compare convert count_leading_zeros divide floor is_finite maximum minimum multiply negate "
    "not or popcnt reduce_precision remainder round_nearest_afz round_nearest_even select shift_left "
    "shift_right_arithmetic shift_right_logical sign sqrt subtract xor"
)
_STEPS = "atan2 cosine exponential exponential_minus_one log log_plus_one logistic power rsqrt sine tanh"
_CHLO_STEPS = "acos acosh asin asinh atanh bessel_i1e cosh digamma erf erf_inv erfc lgamma sinh"
ONE_ROUNDING = frozenset(
    [*(f"stablehlo.{name}" for name in _ONE_ROUNDING.split()), "chlo.mulhi", "chlo.next_after", "chlo.square"]
)
"""Ops each of whose results is one operation of IEEE 754 or of integers, rounded once."""
STEPS = frozenset(
    [*(f"stablehlo.{name}" for name in _STEPS.split()), *(f"chlo.{name}" for name in _CHLO_STEPS.split())]
)
"""Functions in several steps that XLA's older emitter writes like its own one, and whose sums and products LLVM joins
alike from level 1 on. Found by comparing bits: `atan`, `cbrt` and `tan` have others."""

SMALL = {0: 16 << 20, 1: 1 << 20}
"""Bytes of operands and results up to which compiling takes longer than running what is optimised less, by level."""


class GoldenError(ClientError):
    """XLA did not compile or did not run a module; the text is its first line."""


@functools.cache
def _cpu() -> Client:
    """The client of this process: the host, synchronous."""
    return pjrt_client.host_client(GoldenError)


def load_ahead(op_names: Iterable[str]) -> None:
    """Loads what ops of these names need, so that no fork has to. Makes no client, which has threads."""
    pjrt_client.load_ahead()
    if any("custom_call" in name for name in op_names):
        import jax  # noqa: F401 - registers the functions behind its custom calls


def put(array: np.ndarray) -> Any:
    """A buffer with the value of `array`, in its own type (64-bit types stay); the array must not change after."""
    return _cpu().put(array)


def view(buffer: Any) -> np.ndarray:
    """The value of a buffer, without a copy where the type allows; not to be written to."""
    return _cpu().view(buffer)


def take(buffer: Any) -> np.ndarray:
    """The value of a buffer as a fresh array."""
    return _cpu().take(buffer)


def compile_module(
    module: mlir.Module | bytes | str,
    cache_dir: Path | None = None,
    *,
    widen: bool = False,
    rounded: bool = True,
    denormals: bool = False,
    tested: bool = False,
) -> Executable:
    """Compiles a StableHLO module for the host; with `cache_dir`, executables are kept there and loaded again (1 ms).

    If `widen` is set, as for goldens, initial values of sums and products are taken once
    (harness/prepare/mlir/initial_values.py), and narrow floats are computed in float32 and results are rounded
    (harness/prepare/mlir/upcast.py), or not if `rounded` is off. If `denormals` is set, they are kept, as in IEEE 754;
    XLA makes them zero. If `tested` is set, XLA is what is tested: it compiles with the user's own flags, without those
    of goldens.
    Raises GoldenError if XLA refuses the module, or if several devices compute it together.
    """
    return begin_compiling(module, cache_dir, widen=widen, rounded=rounded, denormals=denormals, tested=tested)()


def level_of(op_name: str, element_types: Iterable[str], size: int) -> int | None:
    """The level of optimisation at which an op of so many bytes is made fastest; None is XLA's own.

    It has the same bits at all of them. Level 0 is for those none of whose operations can be joined: one of complex
    numbers is several. What sorts is slow unless it is optimised.
    """
    if any(name.startswith("complex") for name in element_types) or op_name in ("stablehlo.sort", "chlo.top_k"):
        return None
    if op_name in ONE_ROUNDING or op_family(op_name) in DATA_MOVEMENT:
        return 0 if size <= SMALL[0] else None
    return 1 if op_name in STEPS and size <= SMALL[1] else None


def begin_compiling(
    module: mlir.Module | bytes | str,
    cache_dir: Path | None = None,
    *,
    widen: bool = False,
    rounded: bool = True,
    denormals: bool = False,
    level: int | None = None,
    tested: bool = False,
) -> Callable[[], Executable]:
    """The half of `compile_module` that needs Python; returns the other, which any thread may call.

    At a `level` below its own, XLA's backend leaves out what makes the program faster: an elementwise op compiles in
    11 ms at level 0, in 20 at 1, in place of 37.
    """
    loaded = mlir.load(module)
    if not tested:
        from opscope.harness.prepare import by_formula
        from opscope.harness.prepare.mlir import named_calls

        loaded = named_calls.as_ops(loaded)
        if (known := by_formula.of_module(loaded, _cpu)) is not None:
            return lambda: known
    if widen:
        loaded = widened(_started_once(loaded), rounded)
    if denormals:
        from opscope.harness.prepare.mlir.denormals import keeping_denormals

        loaded = keeping_denormals(loaded)
    path = None
    text = str(loaded.operation.get_asm(enable_debug_info=False))
    if reason := why_not_run(text.encode()):
        raise GoldenError(f"it {reason}")
    if PREFIX in text:
        loaded = _spelled_out(loaded, widen)
        text = str(loaded.operation.get_asm(enable_debug_info=False))
    if ("replica_groups" in text or "source_target_pairs" in text) and (joint := collective_in(loaded.operation)):
        raise GoldenError(f"{joint}: expected an op of one device, got one that several compute together")
    if "stablehlo.bitcast_convert" in text:
        loaded = _with_single_bits(loaded)
        text = str(loaded.operation.get_asm(enable_debug_info=False))
    if "stablehlo.rng_bit_generator" in text:
        loaded = _with_declared_bits(loaded)
        text = str(loaded.operation.get_asm(enable_debug_info=False))
    if text.count("stablehlo.custom_call") > text.count(f"@{ieee_denormals.TARGET}"):
        import jax  # noqa: F401 - registers the functions behind its custom calls
    if "@cpu_csr_" in text:
        from jax.experimental import sparse  # noqa: F401 - registers those of sparse matrices
    if "@lapack_" in text:
        _initialise_lapack()
    if cache_dir is not None:
        path = cache_dir / "executables" / _key(text, level, tested)
        if path.is_file() and (executable := _deserialise(path, tested)) is not None:
            export_folder.mark_used(path)
            return lambda: executable
    _cpu()  # made by one thread, however many compile
    if "f16" in text and not tested and not _converts_halves():
        loaded = _without_halves(loaded)
    return functools.partial(_compile, mlir.to_bytecode(loaded), path, level, tested)


def widened(module: mlir.Module, rounded: bool = True) -> mlir.Module:
    """The widened module, or the module itself if nothing is to be widened or its op needs its own type."""
    from opscope.harness.prepare.mlir import upcast

    try:
        return upcast.widened(module, rounded) or module
    except Exception:  # noqa: BLE001 - MLIR's verifier: this op has no float32 form
        return module


def _started_once(module: mlir.Module) -> mlir.Module:
    """The module with the initial values of its sums and products taken once."""
    from opscope.harness.prepare.mlir.initial_values import with_initial_values_once

    return with_initial_values_once(module)


def _spelled_out(module: mlir.Module, wide: bool) -> mlir.Module:
    """A module of quantised tensors on their integers. Raises GoldenError if an op of them has no such form."""
    from opscope.harness.prepare.mlir.quantised import spelled_out

    try:
        return spelled_out(module, wide=wide)
    except Exception as error:  # MLIR's own type, which only its door names
        raise GoldenError(short(error)) from error


def _with_single_bits(module: mlir.Module) -> mlir.Module:
    """The module with conversions of bits from and to i1 spelled out."""
    from opscope.harness.prepare.mlir.single_bits import with_single_bits

    return with_single_bits(module)


def _with_declared_bits(module: mlir.Module) -> mlir.Module:
    """The module with random bits in the types that it declares."""
    from opscope.harness.prepare.mlir.generated_bits import in_declared_types

    return in_declared_types(module)


@functools.cache
def _converts_halves() -> bool:
    """Whether XLA compiles conversions of f16 on this processor, by its flags."""
    from opscope.harness.prepare.mlir import halves

    try:
        _cpu().compile(mlir.to_bytecode(mlir.load(halves.CONVERSION)), _options(level=0))
    except GoldenError:
        return False
    return True


def _without_halves(module: mlir.Module) -> mlir.Module:
    """The module with f16 computed by integer operations and in float32; itself if an op of it has no such form."""
    from opscope.harness.prepare.mlir import halves

    try:
        return halves.spelled_out(module)
    except Exception:  # noqa: BLE001 - MLIR's verifier; XLA says then what it lacks
        return module


@functools.cache
def _initialise_lapack() -> None:
    """Loads the functions behind `lapack_*` custom calls; without them such a call ends the process."""
    from jaxlib.cpu import _lapack

    _lapack.initialize()


def _key(text: str, level: int | None, tested: bool) -> str:
    """File name of a module's executable: what is compiled (without locations), by which compiler, for which CPU."""
    flags = os.environ.get(xla_releases.XLA_FLAGS, "") if tested else xla_releases.flags()
    words = (_compiler(), flags, text, *([] if level is None else [f"level {level}"]))
    return words_digest(*words, digits=32)


@functools.cache
def _compiler() -> str:
    from importlib import metadata

    return f"{VERSION};{metadata.version('jaxlib')};{export_folder.cpu_fingerprint()}"


def _options(level: int | None = None, tested: bool = False) -> Any:
    """Compile options: one device, a level of optimisation or XLA's own, and what keeps known bugs out of goldens."""
    debug: dict[str, Any] = {"xla_cpu_enable_fast_math": False}
    options: list[pjrt_client.Option] = [] if tested else [*xla_releases.OPTIONS.items()]
    if level is not None:
        debug["xla_backend_optimization_level"] = level
        options.extend(xla_releases.quick_options().items())
    return pjrt_client.compile_options(options, debug)


def _deserialise(path: Path, tested: bool) -> Executable | None:
    """The executable kept at `path`; None if it cannot be read (it is compiled anew then)."""
    try:
        return _cpu().deserialise(stored.read_bytes(path), _options(tested=tested))
    except Damaged as error:
        damage.say(f"{path}: {error.state}; it is compiled again")
    except Exception:  # noqa: BLE001 - what XLA no longer takes is only a miss
        pass
    return None


def _compile(module: bytes, path: Path | None, level: int | None, tested: bool) -> Executable:
    """Compiles, and keeps the result at `path`; what cannot be kept is compiled again next time."""
    executable = _cpu().compile(module, _options(level, tested))
    if path is not None:
        try:
            serialised = executable.serialise()
        except Exception:  # noqa: BLE001 - custom calls cannot be serialised
            return executable
        _keep(path, serialised)
    return executable


def _keep(path: Path, data: bytes) -> None:
    """Writes a file of the cache. A full or read-only disk costs only time, so it is no error."""
    with contextlib.suppress(OSError):
        stored.write_bytes(path, data)

"""Runs host ops: StableHLO modules on XLA's CPU, with 64-bit types as they are.

The only file of the simulator that imports XLA, and only if a program with a host op runs. It takes jaxlib alone: an
image says that it needs jaxlib, and JAX is not there where only that was installed. A fork reads each module first: a
binary may be a stranger's, and XLA's parser ends the process on some of what it is given.
"""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from opscope.base.children.ending import Cause, signal_name
from opscope.base.children.forks import WarmFork
from opscope.base.children.inside import is_child
from opscope.base.machine import memory_limit
from opscope.base.xla import ieee_denormals
from opscope.simulator.errors import HostOpError

READING_SECONDS = 60.0
"""Time limit for reading one module in the fork."""


@functools.cache
def _client() -> Any:
    """Returns the XLA client of this process: the host, synchronous, one thread unless NPROC is set."""
    os.environ.setdefault("NPROC", "1")
    from jaxlib import xla_client

    ieee_denormals.register(xla_client)
    return xla_client.make_cpu_client(asynchronous=False)


@functools.cache
def _initialise_lapack() -> None:
    """Loads the functions behind `lapack_*` custom calls; without them such a call ends the process.

    JAX registers their names when it is imported, and the same function may be registered again.
    """
    from jaxlib import lapack, xla_client
    from jaxlib.cpu import _lapack

    _lapack.initialize()
    for platform, targets in lapack.registrations().items():
        for name, function, version in targets:
            xla_client.register_custom_call_target(name, function, platform=platform, api_version=version)


def _read(module: bytes) -> None:
    """Reads a module as compiling does, in the fork."""
    from jaxlib import xla_client

    xla_client._xla.mlir.mlir_module_to_xla_computation(module)  # pyright: ignore[reportPrivateImportUsage]


@functools.cache
def _reader() -> WarmFork:
    import_module("jaxlib.xla_client")  # loaded once here, and not once in each fork
    fork = WarmFork(_read)
    atexit.register(fork.close)
    return fork


def _vet(module: bytes) -> None:
    """Raises ValueError if a process that reads the module does not survive it. An error of the parser is no crash."""
    ending = _reader().run(module, seconds=READING_SECONDS, memory=memory_limit(None))
    if not ending.ok:
        how = signal_name(ending.code) if ending.cause is Cause.SIGNAL else ending.text
        raise ValueError(f"one whose reading ended with {how}")


@functools.lru_cache(maxsize=256)
def _compiled(module: bytes) -> Any:
    from jaxlib import xla_client

    if not is_child():  # the parent of a child records how it ends
        _vet(module)
    if b"lapack_" in module:
        _initialise_lapack()
    client = _client()
    return client.compile_and_load(module, xla_client.DeviceList((client.devices()[0],)), _options())


def _options() -> Any:
    from jaxlib import xla_client

    options = xla_client.CompileOptions()
    options.executable_build_options.debug_options.xla_cpu_enable_fast_math = False
    return options


@dataclass(frozen=True)
class _Form:
    """What XLA asks of an array's abstract value."""

    shape: tuple[int, ...]
    dtype: np.dtype
    weak_type: bool = False


@functools.cache
def _host() -> Any:
    """Returns the sharding of an array that lies on the host's one device, as XLA asks it of JAX."""
    from jaxlib import xla_client

    device = _client().devices()[0]

    class OnTheHost(xla_client._xla.SingleDeviceSharding):  # pyright: ignore[reportPrivateImportUsage]
        _device_assignment = _addressable_device_assignment = (device,)
        memory_kind = None

        def _to_xla_hlo_sharding(self, _ndim: int) -> Any:
            return xla_client.HloSharding.replicate()

    return OnTheHost(device)


def _put(array: np.ndarray) -> Any:
    from jaxlib import xla_client

    array = np.ascontiguousarray(array).reshape(array.shape)
    form, devices = _Form(array.shape, array.dtype), [_client().devices()[0]]
    return xla_client.batched_device_put(form, _host(), [array], devices, True, enable_x64=True)


def _copied(array: Any) -> np.ndarray:
    """Returns a copy of XLA's array; it has no other way to NumPy where JAX has not given it one."""
    return np.array(array._single_device_array_to_np_array_did_copy()[0], copy=True, order="C")


def run(module: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Runs `module` (MLIR bytecode) on `inputs` and returns fresh arrays. Raises HostOpError if XLA refuses it."""
    try:
        results = _compiled(module).execute_sharded([_put(array) for array in inputs])
        shards = results.disassemble_into_single_device_arrays()
        return [_copied(parts[0]) for parts in shards]
    except Exception as error:  # the client raises many types
        text = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise HostOpError(f"host_op: expected a module that XLA computes on the host, got: {text}") from error

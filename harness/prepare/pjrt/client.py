"""jaxlib's private client: makes one of a PJRT plugin or of XLA on the host, and puts, compiles, executes and takes.

The only file that knows it. It names shapes and devices itself and never imports JAX, since to load the half of JAX
that does would take each child longer than its work, and would load every plugin that is installed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from opscope.base.xla import ieee_denormals
from opscope.harness.prepare.pjrt.c_interface import ApiVersion, PluginError, read_api
from opscope.harness.prepare.pjrt.host_copy import host_copy

_NO_CHECKS_TO_SKIP = 489
"""The version of jaxlib's extension (0.11.2 has it) from which on a handler of results takes no `_skip_checks`."""

_MANUAL = b"manual_computation"
"""Names of ops stand in bytecode as they are."""
Option = tuple[str, "str | bool | int | float"]


class ClientError(Exception):
    """A client refused; the text is its first line, `full` all that it said."""

    def __init__(self, message: str, full: str = "") -> None:
        super().__init__(message)
        self.full = full or message


class TensorType(NamedTuple):
    """The type of a buffer, as the client asks for it."""

    shape: tuple[int, ...]
    dtype: np.dtype
    weak_type: bool = False


def short(error: BaseException) -> str:
    """The first line of an error of the client, at most 200 characters."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


# --- plugins


def load_plugin(name: str, library: Path) -> ApiVersion:
    """Loads a plugin under a name of this process, once; makes no client, so the process may still fork.

    Raises PluginError for what is no plugin or of another version.
    """
    version = read_api(library)
    from jaxlib import xla_client

    try:
        if not xla_client.pjrt_plugin_loaded(name):
            xla_client.load_pjrt_plugin_dynamically(name, str(library))
        if not xla_client.pjrt_plugin_initialized(name):
            xla_client.initialize_pjrt_plugin(name)
    except Exception as error:  # the client raises many types
        raise PluginError("a PJRT plugin that jaxlib takes", short(error)) from error
    return version


# --- clients


class Client:
    """A client with its first device, on which everything is computed."""

    def __init__(self, raw: Any, error: type[ClientError] = ClientError) -> None:
        """`error` is what its methods raise."""
        self.raw, self.error = raw, error
        self.device = raw.devices()[0]

    @property
    def platform(self) -> str:
        """The name of what computes: `cpu`, `cuda`, `rocm`, `tt`. A GPU's client calls all of them `gpu`."""
        name = str(self.raw.platform)
        return (self.platform_version.split() or [name])[0] if name == "gpu" else name

    @property
    def platform_version(self) -> str:
        """What the plugin says of its own version; often nothing but its kind."""
        return " ".join(str(self.raw.platform_version).split())

    @property
    def device_kind(self) -> str:
        """The device's name, as `NVIDIA H100 80GB HBM3`."""
        return str(self.device.device_kind)

    @functools.cached_property
    def place(self) -> Any:
        """Where every buffer lies, as the client asks for it."""
        from jaxlib import xla_client

        class Place(xla_client.SingleDeviceSharding):
            memory_kind = None
            _device_assignment = (self.device,)

            def _to_xla_hlo_sharding(self, rank: int) -> Any:
                return xla_client.HloSharding.replicate()

        return Place(self.device)

    @functools.cached_property
    def devices(self) -> Any:
        """The list of the one device."""
        from jaxlib import xla_client

        return xla_client.DeviceList((self.device,))

    def put(self, array: np.ndarray) -> Any:
        """A buffer with the value of `array`, in its own type (64-bit types stay); the array must not change after."""
        from jaxlib import xla_client

        array = np.ascontiguousarray(array).reshape(array.shape)
        kind = TensorType(array.shape, array.dtype)
        return xla_client.batched_device_put(kind, self.place, [array], [self.device], True, enable_x64=True)

    def view(self, buffer: Any) -> np.ndarray:
        """The value of a buffer, without a copy where the type allows; not to be written to."""
        try:
            try:
                return np.asarray(memoryview(buffer))
            except Exception:  # noqa: BLE001 - of a type that Python's buffers lack, such as bf16, or on a device
                if self.platform == "cpu":
                    buffer.block_until_ready()
                    with contextlib.suppress(Exception):
                        extension: Any = sys.modules[type(buffer).__module__]
                        capsule = extension.buffer_to_dlpack_managed_tensor(buffer)
                        return host_copy(capsule, np.dtype(buffer.aval.dtype))
                return buffer._single_device_array_to_np_array_did_copy()[0]
        except Exception as error:  # a failed computation is reported here
            raise self.refusal(error) from error

    def take(self, buffer: Any) -> np.ndarray:
        """The value of a buffer as a fresh array."""
        return np.array(self.view(buffer), copy=True, order="C")

    def compile(self, module: bytes, options: Any, results: Sequence[TensorType] | None = None) -> Executable:
        """Compiles a module in bytecode. `results` are its types where the client cannot tell them."""
        try:
            return Executable(self.raw.compile_and_load(module, self.devices, options), self, results)
        except Exception as error:  # the client raises many types
            raise self.refusal(error) from error

    def deserialise(self, data: bytes, options: Any) -> Executable:
        """The executable that `Executable.serialise` made bytes of. Raises whatever the client raises."""
        return Executable(self.raw.deserialize_executable(data, self.devices, options), self)

    def refusal(self, error: BaseException) -> ClientError:
        """An exception of the client as one of ours."""
        return self.error(short(error), str(error))


class Executable:
    """A compiled module: takes and returns buffers of its client's device."""

    def __init__(self, loaded: Any, client: Client, results: Sequence[TensorType] | None = None) -> None:
        self.loaded, self.client, self._types = loaded, client, results

    def run(self, buffers: Sequence[Any]) -> list[Any]:
        """The results as buffers. Raises ClientError if the client refuses to run."""
        try:
            return self.loaded.execute_sharded(list(buffers)).consume_with_handlers(self._results)
        except Exception as error:  # the client raises many types
            raise self.client.refusal(error) from error

    @functools.cached_property
    def _results(self) -> list[Any]:
        """What makes a buffer of each result."""
        from jaxlib import xla_client

        types = self._types if self._types is not None else self._told_types()
        checks = () if xla_client._version >= _NO_CHECKS_TO_SKIP else (True,)
        return [xla_client.array_result_handler(kind, self.client.place, True, *checks) for kind in types]

    def _told_types(self) -> list[TensorType]:
        from jaxlib import xla_client

        [module] = self.loaded.hlo_modules()
        shape = xla_client.XlaComputation(module.as_serialized_hlo_module_proto()).program_shape().result_shape()
        return [
            TensorType(result.dimensions(), result.numpy_dtype())
            for result in (shape.tuple_shapes() if shape.is_tuple() else [shape])
        ]

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results as fresh arrays."""
        return [self.client.take(buffer) for buffer in self.run([self.client.put(array) for array in arrays])]

    def wait(self, buffers: Iterable[Any]) -> None:
        """Returns once the results are there. Raises ClientError if they could not be computed."""
        try:
            for buffer in buffers:
                buffer.block_until_ready()
        except Exception as error:  # the client raises many types
            raise self.client.refusal(error) from error

    def serialise(self) -> bytes:
        """The executable as bytes. Raises whatever the client raises: custom calls cannot be serialised."""
        return self.loaded.serialize()

    def costs(self) -> Mapping[str, float]:
        """What the client says of one execution (`flops`, `bytes accessed`); empty where it says nothing."""
        try:
            statistics = self.loaded.cost_analysis()
            return dict(statistics[0] if isinstance(statistics, list) else statistics or {})
        except Exception:  # noqa: BLE001 - plugins need not have it
            return {}

    def memory(self) -> Mapping[str, int]:
        """The bytes that an execution needs on the device (`argument_size_in_bytes`); empty where it is not known."""
        try:
            statistics = self.loaded.get_compiled_memory_stats()
        except Exception:  # noqa: BLE001 - plugins need not have it
            return {}
        names = [name for name in dir(statistics) if name.endswith("_in_bytes") and not name.startswith(("_", "host_"))]
        return {name: int(getattr(statistics, name)) for name in names}

    def optimised(self) -> str:
        """The program that the client made of the module, as it prints it; empty where it does not."""
        try:
            return "\n".join(module.to_string() for module in self.loaded.hlo_modules())
        except Exception:  # noqa: BLE001 - plugins need not have it
            return ""


def host_client(error: type[ClientError]) -> Client:
    """XLA on the host, synchronous."""
    # Read when the client makes its thread pool; a process that set it keeps its own.
    os.environ.setdefault("NPROC", "1")
    from jaxlib import xla_client

    ieee_denormals.register(xla_client)
    return Client(xla_client.make_cpu_client(asynchronous=False), error)


def plugin_client(name: str, options: Mapping[str, Any]) -> Client:
    """A client of a loaded plugin. It has threads: no process may fork after it. Raises ClientError."""
    os.environ.setdefault("NPROC", "1")
    from jaxlib import xla_client

    try:
        raw = xla_client.make_c_api_client(name, dict(options), None)
        if not raw.devices():
            raise ClientError("the client has no device")
        return Client(raw)
    except ClientError:
        raise
    except Exception as error:  # the client raises many types
        raise ClientError(short(error), str(error)) from error


def compile_options(options: Sequence[Option] = (), debug: Mapping[str, Any] | None = None) -> Any:
    """Options of one compilation for one device: a plugin's own by name, and fields of XLA's own."""
    from jaxlib import xla_client

    made = xla_client.CompileOptions()
    fields = made.executable_build_options.debug_options
    for name, value in (debug or {}).items():
        setattr(fields, name, value)
    if options:
        made.env_option_overrides = list(options)
    return made


def portable(module: bytes, version: str) -> bytes:
    """A module as an artifact of that version of StableHLO, with `chlo` ops legalised as for any plugin.

    Shardy's computations over a mesh by name stay as they are, which XLA would write as calls. Raises ValueError if it
    cannot be read or has an op that the version lacks.
    """
    from jaxlib import xla_client

    try:
        if _MANUAL in module:
            from opscope.harness.prepare.mlir.door import artifact_with_other_dialects

            return artifact_with_other_dialects(module, version)
        return xla_client._xla.mlir.serialize_portable_artifact(module, version)  # pyright: ignore[reportPrivateImportUsage]
    except Exception as error:  # jaxlib raises many types
        raise ValueError(str(error)) from error


def load_ahead() -> None:
    """Loads what a client needs, so that no fork has to. Makes none, which has threads."""
    from jaxlib import xla_client  # noqa: F401

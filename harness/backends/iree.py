"""IREE on this machine's processor: runs its compiler phase by phase, then its runtime, in the lane's process."""

from __future__ import annotations

import ctypes
import os
from dataclasses import replace
from functools import cache
from importlib import import_module, metadata, util
from typing import Any

import numpy as np

from opscope.base.installing import install_command
from opscope.harness.backends.base import Backend, Job, StageError, Target, exact_host
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage

FLAGS = (
    "--iree-input-type=stablehlo",
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-input-demote-f64-to-f32=false",  # else the answer is of another type than the op's
)
DRIVER = "local-sync"
"""Runs on the calling thread, so that results and times are reproducible."""

PHASES = {Stage.INPUT: "input", Stage.FLOW: "flow", Stage.STREAM: "stream", Stage.EXECUTABLE: "hal", Stage.VM: "vm"}
"""Stage -> the phase of `iree-compile --compile-to` that ends it. Device code is generated on the way to `hal`."""

BUFFERS = {
    "i1": "BOOL_8",
    "i8": "INT_8",
    "i16": "INT_16",
    "i32": "INT_32",
    "i64": "INT_64",
    "ui8": "UINT_8",
    "ui16": "UINT_16",
    "ui32": "UINT_32",
    "ui64": "UINT_64",
    "f16": "FLOAT_16",
    "bf16": "BFLOAT_16",
    "f32": "FLOAT_32",
    "f64": "FLOAT_64",
    "complex<f32>": "COMPLEX_64",
    "complex<f64>": "COMPLEX_128",
    "f8E4M3FN": "FLOAT_8_E4M3_FN",
    "f8E4M3FNUZ": "FLOAT_8_E4M3_FNUZ",
    "f8E5M2": "FLOAT_8_E5M2",
    "f8E5M2FNUZ": "FLOAT_8_E5M2_FNUZ",
    "f8E8M0FNU": "FLOAT_8_E8M0_FNU",
}
"""MLIR's element types -> the runtime's: all types of the runtime whose elements take whole bytes."""

_ERROR = 2
"""Severity of an error among the compiler's diagnostics."""
_LISTENER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class Iree(Backend):
    """IREE's CPU code in IREE's runtime. It ignores `arch`, and refuses number formats other than the module's own."""

    name = "iree"
    packages = "iree-base-compiler iree-base-runtime"
    lasting = True
    repeats = True
    ignores_board = True
    stages = (*PHASES, Stage.RUN)

    def __init__(self) -> None:
        self._invocation: _Invocation | None = None

    def target(self, options: ResultOptions) -> Target:
        """The host in exact IEEE arithmetic. Raises InputError if the options ask for a device's number formats."""
        return replace(exact_host(self.name, options), sums_in_own_type=True)

    def fingerprint(self, options: ResultOptions | None = None) -> str:
        """The versions of compiler and runtime, and the flags with which they are called."""
        versions = "-".join(metadata.version(package) for package in self.packages.split())
        return f"iree-{versions}-{DRIVER} {' '.join(FLAGS)}"

    def climb(self, stage: Stage, job: Job) -> None:
        """Runs one phase of the compiler, or the program. Raises StageError with IREE's own diagnostics."""
        if stage is Stage.RUN:
            _run(job, job.state.pop(Stage.VM))
            return
        if stage is Stage.INPUT:
            self._close()  # the invocation of an op that did not reach the last stage
            self._invocation = _Invocation(job.module)
        assert self._invocation is not None
        try:
            self._invocation.advance(PHASES[stage])
            if job.ir_dir is not None and stage is not Stage.VM:
                self._invocation.write_ir(str(job.ir_dir / f"{stage}.mlir"))
            if stage is Stage.VM:
                job.state[stage] = self._invocation.program()
                job.pipeline = " ".join(FLAGS)
                self._close()
        except BaseException:
            self._close()
            raise

    def warm_up(self, options: ResultOptions | None = None) -> None:
        """Loads both libraries, and has the compiler open a file, at which it takes signals that it would else take in
        the midst of an op. To compile an op here would cost ten times what it saves the first one, 25 ms."""
        _compiler()
        _runtime()
        with _api().Output.open_file(os.devnull) as output:
            output.keep()

    def available(self) -> str | None:
        """Returns None if compiler and runtime are installed."""
        # `find_spec` of a submodule imports its parent, which is missing if neither is installed.
        packages_found = util.find_spec("iree") and util.find_spec("iree.compiler") and util.find_spec("iree.runtime")
        return None if packages_found else install_command("iree")

    def _close(self) -> None:
        if self._invocation is not None:
            self._invocation.close()
            self._invocation = None


class _Invocation:
    """One module in the compiler. It must be closed, because the session holds it until then."""

    def __init__(self, module: bytes) -> None:
        """Parses the module. Raises StageError if IREE cannot read it."""
        library, session = _compiler()
        self._library, self._messages = library, []
        self._phase: str | None = None
        self._listener = _LISTENER(self._collect_message)
        self._invocation = session.invocation()
        library.ireeCompilerInvocationEnableCallbackDiagnostics(self._invocation._inv_p, 0, self._listener, None)
        if not self._invocation.parse_source(_api().Source.wrap_buffer(session, module, buffer_name="op.mlirbc")):
            error = self._refusal("the module cannot be read")
            self.close()
            raise error

    def advance(self, phase: str) -> None:
        """Compiles from the current phase to the end of `phase`. Raises StageError if the compiler refuses it."""
        if self._phase is not None:
            self._library.ireeCompilerInvocationSetCompileFromPhase(self._invocation._inv_p, self._phase.encode())
        self._library.ireeCompilerInvocationSetCompileToPhase(self._invocation._inv_p, phase.encode())
        if not self._invocation.execute():
            raise self._refusal(f"phase {phase} failed without a word")
        self._phase = phase

    def write_ir(self, path: str) -> None:
        """Writes the module as it is now."""
        with _api().Output.open_file(path) as output:
            self._invocation.output_ir(output)
            output.keep()

    def program(self) -> bytes:
        """The compiled module, for the runtime."""
        with _api().Output.open_membuffer() as output:
            self._invocation.output_vm_bytecode(output)
            return bytes(output.map_memory())

    def close(self) -> None:
        """Frees the module."""
        self._invocation.close()

    def _collect_message(self, severity: int, message: int, size: int, _: Any) -> None:
        self._messages.append((severity, ctypes.string_at(message, size).decode(errors="replace")))

    def _refusal(self, otherwise: str) -> StageError:
        """The compiler's messages as an error: the first error for the record, all messages for the artifact."""
        errors = [text for severity, text in self._messages if severity == _ERROR] or [otherwise]
        first = errors[0].partition("\n")[0]
        return StageError(first.partition("op.mlirbc:")[2] or first, "\n".join(text for _, text in self._messages))


@cache
def _api(part: str = "compiler.api") -> Any:
    """Returns a package of the extra `iree`, imported at its first use."""
    return import_module(f"iree.{part}")


@cache
def _compiler() -> tuple[Any, Any]:
    """The compiler's library, with the three functions that its Python does not wrap, and this process's session."""
    library = _api().ctypes_dl._dylib
    for name in ("ireeCompilerInvocationSetCompileFromPhase", "ireeCompilerInvocationSetCompileToPhase"):
        function = getattr(library, name)
        function.restype, function.argtypes = None, [ctypes.c_void_p, ctypes.c_char_p]
    set_listener = library.ireeCompilerInvocationEnableCallbackDiagnostics
    set_listener.restype, set_listener.argtypes = None, [ctypes.c_void_p, ctypes.c_int, _LISTENER, ctypes.c_void_p]
    session = _api().Session()
    session.set_flags(*FLAGS)
    return library, session


@cache
def _runtime() -> tuple[Any, Any, Any]:
    """Returns the runtime's instance, its device, and the module that represents the device in every program."""
    runtime = _api("runtime")
    instance, device = runtime.VmInstance(), runtime.get_device(DRIVER)
    return instance, device, runtime.create_hal_module(instance, device)


def _run(job: Job, program: bytes) -> None:
    """Loads the program and calls it once, on fresh buffers. Raises StageError with the runtime's own message."""
    runtime = _api("runtime")
    instance, device, hal = _runtime()
    arguments, results = runtime.VmVariantList(len(job.inputs)), runtime.VmVariantList(len(job.results))
    views = [_put(array, device) for array in job.inputs]
    for view in views:
        arguments.push_ref(view)
    try:
        module = runtime.VmModule.copy_buffer(instance, program)
        context = runtime.VmContext(instance, modules=[hal, module])
        context.invoke(module.lookup_function("main"), arguments, results)
    except (RuntimeError, ValueError) as error:
        raise StageError(str(error).partition("\n")[0], str(error)) from error
    result_views = [results.get_as_object(index, runtime.HalBufferView) for index in range(results.size)]
    job.outputs = [
        _take(view, numpy_dtype(desc.data_type)) for view, desc in zip(result_views, job.results, strict=True)
    ]
    # IREE may compute in place, in the buffers of its inputs.
    job.inputs_after = [_take(view, array.dtype) for view, array in zip(views, job.inputs, strict=True)]
    job.ran_on = "host"


@cache
def _buffer_types() -> dict[np.dtype, Any]:
    """NumPy's types -> the runtime's."""
    runtime = _api("runtime")
    return {numpy_dtype(name): getattr(runtime.HalElementType, word) for name, word in BUFFERS.items()}


def _put(array: np.ndarray, device: Any) -> Any:
    """Returns a view of a fresh buffer with the value of `array`. Raises StageError if no buffer has its type."""
    runtime = _api("runtime")
    kind = _buffer_types().get(array.dtype)
    if kind is None:
        raise StageError(f"the runtime has no buffer of {array.dtype}")
    # Types that Python's buffer protocol cannot name (bf16, f8, booleans) are passed as their bits.
    plain = array.dtype.kind in "iufc" and array.dtype.isbuiltin == 1
    return device.allocator.allocate_buffer_copy(
        memory_type=runtime.MemoryType.DEVICE_LOCAL,
        allowed_usage=runtime.BufferUsage.DEFAULT | runtime.BufferUsage.MAPPING,
        device=device,
        buffer=np.ascontiguousarray(array if plain else array.view(f"u{array.dtype.itemsize}")).reshape(array.shape),
        element_type=kind,
    )


def _take(view: Any, dtype: np.dtype) -> np.ndarray:
    """Returns the value of a buffer view as a fresh array. Raises StageError if its elements have another width."""
    shape = tuple(view.shape)
    bits = int(view.element_type) & 0xFF
    if bits != 8 * dtype.itemsize:
        raise StageError(f"a result of {bits} bits an element, where {dtype} is declared")
    return np.array(view.map().asarray(shape, np.dtype(f"V{dtype.itemsize}")), copy=True).view(dtype).reshape(shape)

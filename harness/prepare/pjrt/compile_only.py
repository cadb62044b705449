"""A plugin that only compiles, by PJRT's C interface: nothing is put, run or taken.

jaxlib's own client asks the plugin for the compiled program five times for each module, to learn of shardings and
layouts that only an execution needs: 17 of 34 ms that a small op takes with tt-mlir (jaxlib 0.10.2, measured).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from opscope.harness.prepare.pjrt.c_interface import CallError, Calls
from opscope.harness.prepare.pjrt.client import Client, ClientError, Executable, TensorType, portable, short

_CURRENT = "stablehlo_current_version"
"""The attribute with the newest version of StableHLO's portable artifacts that a plugin reads."""
_OLDEST = (1, 0, 0)
"""What a plugin is taken to read that does not say."""
_FORMAT = b"mlir"


class CompileOnlyClient(Client):
    """A client that compiles for its first device, and refuses everything else."""

    def __init__(self, library: Path) -> None:
        """`library` is loaded and initialised in this process. Raises ClientError if it cannot make a client."""
        self.error = ClientError
        self._calls = Calls(library)
        try:
            self._client = self._calls("PJRT_Client_Create", *[None] * 9)[6]
            devices, count = self._calls("PJRT_Client_Devices", self._client, None, None)[1:]
            if not count:
                raise ClientError("the client has no device")
            device = ctypes.c_void_p.from_address(devices).value
            description = self._calls("PJRT_Device_GetDescription", device, None)[1]
            self._device_kind = self._text("PJRT_DeviceDescription_Kind", description)
            self._platform = self._text("PJRT_Client_PlatformName", self._client)
            self._platform_version = self._text("PJRT_Client_PlatformVersion", self._client)
            version = self._calls.versions().get(_CURRENT, _OLDEST)
        except CallError as error:
            raise self.refusal(error) from error
        self._version = ".".join(str(number) for number in version)

    @property
    def platform(self) -> str:
        """The name of what it compiles for."""
        return self._platform

    @property
    def platform_version(self) -> str:
        """What the plugin says of its own version."""
        return " ".join(self._platform_version.split())

    @property
    def device_kind(self) -> str:
        """The name of the device that it compiles for."""
        return self._device_kind

    def put(self, array: np.ndarray) -> NoReturn:
        """Raises ClientError: what such a client gives back is not what it was given."""
        raise ClientError("this client only compiles")

    def view(self, buffer: Any) -> NoReturn:
        """Raises ClientError: what such a client gives back is zeros."""
        raise ClientError("this client only compiles")

    def compile(self, module: bytes, options: Any, results: Sequence[TensorType] | None = None) -> CompiledProgram:
        """Compiles a module in bytecode. Raises ClientError with the plugin's own message."""
        try:
            code, asked = portable(module, self._version), options.SerializeAsString()
            program = (ctypes.c_void_p * 6)(48, None, _address(code), len(code), _address(_FORMAT), len(_FORMAT))
            fields = self._client, ctypes.addressof(program), _address(asked), len(asked), None
            loaded = self._calls("PJRT_Client_Compile", *fields)[4]
            try:
                return CompiledProgram(self._serialised(loaded), self)
            finally:
                self._calls("PJRT_LoadedExecutable_Destroy", loaded)
        except (CallError, ValueError) as error:
            raise ClientError(short(error), str(error)) from error

    def _serialised(self, loaded: int) -> bytes:
        """The bytes of a loaded executable."""
        executable = self._calls("PJRT_LoadedExecutable_GetExecutable", loaded, None)[1]
        try:
            start, size, owner, free = self._calls("PJRT_Executable_Serialize", executable, *[None] * 4)[1:]
            content = ctypes.string_at(start, size)
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(free)(owner)
            return content
        finally:
            self._calls("PJRT_Executable_Destroy", executable)

    def _text(self, function: str, of: int) -> str:
        start, size = self._calls(function, of, None, None)[1:]
        return ctypes.string_at(start, size).decode()


class CompiledProgram(Executable):
    """The bytes of a compiled program, which are all that is kept of it."""

    def __init__(self, content: bytes, client: CompileOnlyClient) -> None:
        super().__init__(None, client)
        self._content = content

    def run(self, buffers: Sequence[Any]) -> NoReturn:
        """Raises ClientError."""
        raise ClientError("this client only compiles")

    def serialise(self) -> bytes:
        """The executable as the plugin writes it."""
        return self._content


def _address(content: bytes) -> int:
    """Where the bytes lie; they must outlive the call that reads them."""
    return ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p).value or 0

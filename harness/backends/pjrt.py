"""Any PJRT plugin: a compiler and what it runs on behind PJRT's C interface, loaded by jaxlib alone."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.harness.backends import plugin_libraries, plugin_library
from opscope.harness.backends.base import (
    SMALLEST,
    Backend,
    BackendError,
    Job,
    StageError,
    Target,
    climb_smallest,
    exact_host,
)
from opscope.harness.backends.plugin_library import Library
from opscope.harness.backends.warm_runs import timed
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage
from opscope.harness.record.structure import COSTS

if TYPE_CHECKING:
    from opscope.harness.prepare.pjrt.client import ApiVersion, Client, Executable, Option


_ALONE = """from pathlib import Path
from jaxlib import xla_client
xla_client.load_pjrt_plugin_dynamically("plugin", {file!r})
xla_client.initialize_pjrt_plugin("plugin")
client = xla_client.make_c_api_client("plugin", {client}, None)
devices = xla_client.DeviceList((client.devices()[0],))
options = xla_client.CompileOptions()
options.env_option_overrides = {options}
client.compile_and_load(Path("module.mlirbc").read_bytes(), devices, options)
print("it compiles")"""

HOST = "cpu"
"""The platform that is this machine's processor."""
_EXACT = Target(card_type="", float_format=None, math_fidelity="exact", rounds_steps=True)
_TARGETS: Mapping[str, Target] = {
    # XLA multiplies float32 matrices in TF32 unless it is asked not to.
    "cuda": replace(_EXACT, tf32_products=True)
}
"""Platform -> what it computes in; any other computes in each tensor's own type."""


class Pjrt(Backend):
    """One plugin: `pjrt:NAME` of an installed package, or `pjrt:FILE.so`. It ignores `arch`.

    A compiler with stages of its own behind the same interface is a subclass: it says where its library is, what its
    client and its compilations are asked for, and which stage an error is of.
    """

    name = "pjrt"
    takes_argument = True
    needs_argument = True
    lasting = True
    forkable = True
    ignores_board = True
    stages = (Stage.COMPILE, Stage.RUN)

    def __init__(self, plugin: str = "") -> None:
        """`plugin` is what stands after the colon."""
        self.plugin = plugin
        self._client: Client | None = None

    # --- what a subclass may have otherwise

    def library(self) -> Library:
        """Where the plugin is. Raises InputError if there is none."""
        return plugin_libraries.find(self.label(), self.plugin)

    def environment(self, options: ResultOptions) -> Mapping[str, str]:
        """Variables that the plugin reads when its client is made."""
        return {}

    def client_options(self, options: ResultOptions) -> Mapping[str, Any]:
        """What the client is made with: an NVIDIA GPU is shared by the lanes, so none takes all its memory."""
        if plugin_library.short_name(self.library().name) != "cuda":
            return {}
        return {"platform_name": "cuda", "preallocate": False, "visible_devices": [0]}

    def made_client(self, library: Library, options: ResultOptions) -> Client:
        """A client of the loaded library. Raises ClientError."""
        from opscope.harness.prepare.pjrt import client as pjrt_client

        return pjrt_client.plugin_client(self._name_of(library), self.client_options(options))

    def executes(self) -> bool:
        """Whether the client truly runs programs here, so that what it gives back may be a result."""
        return True

    def compile_options(self, job: Job) -> Sequence[Option]:
        """The plugin's own options of a compilation, by name."""
        return ()

    def module_of(self, job: Job) -> bytes:
        """The op as the client is given it."""
        from opscope.harness.prepare.mlir.arith_constants import with_stablehlo_constants

        return with_stablehlo_constants(job.module)

    def compiled(self, job: Job) -> Executable:
        """Compiles the op. Raises ClientError with the plugin's own message."""
        from opscope.harness.prepare.pjrt import client as pjrt_client

        client = self.client(job.options)
        types = None
        with contextlib.suppress(ValueError):  # of a type that NumPy lacks the client itself knows what it returns
            types = [pjrt_client.TensorType(tuple(d.shape), numpy_dtype(d.data_type)) for d in job.results] or None
        options = pjrt_client.compile_options(self.compile_options(job), _debug_fields(client))
        return client.compile(self.module_of(job), options, types)

    # --- its life

    def label(self) -> str:
        """How an error names it."""
        return f"--backend {self.name}:{self.plugin}" if self.plugin else f"--backend {self.name}"

    def available(self) -> str | None:
        """Returns None if jaxlib is installed, and the plugin is there."""
        if not util.find_spec("jaxlib"):
            return "pip install jax jaxlib"
        try:
            self.library()
        except InputError as error:
            return error.hint or str(error)
        return None

    def remark(self) -> str:
        """The plugin's file, and the package that it is of."""
        library = self.library()
        package = f"{library.distribution} {library.version}, " if library.distribution else ""
        return f"{package}{library.path}"

    def load(self) -> None:
        """Loads the library and reads its digest. Raises BackendError for what is no plugin that jaxlib takes."""
        library = self.library()
        _loaded(self._name_of(library), library)
        library.digest()

    def open(self, options: ResultOptions) -> None:
        """Makes the client. Raises BackendError if the plugin cannot: no device, no driver, no memory."""
        from opscope.harness.prepare.pjrt import client as pjrt_client

        if self._client is not None:
            return  # made for `target`
        library = self.library()
        _loaded(self._name_of(library), library)
        os.environ.update(self.environment(options))
        try:
            self._client = self.made_client(library, options)
            if self.executes():
                _check_memory(self._client, library)
        except pjrt_client.ClientError as error:
            raise BackendError(str(error), f"a client of {library.path.name}", "opscope doctor") from error

    def client(self, options: ResultOptions) -> Client:
        """The client, which is made now if `open` has not been called."""
        if self._client is None:
            self.open(options)
        assert self._client is not None
        return self._client

    def close(self) -> None:
        """Lets go of the client."""
        self._client = None

    def target(self, options: ResultOptions) -> Target:
        """What the plugin's platform computes in. Raises InputError for options that ask for a board's formats."""
        host = exact_host(self.name, options)
        client = self.client(options)
        if client.platform == HOST:
            return host
        card = "-".join(client.device_kind.lower().split()) or client.platform
        return replace(_TARGETS.get(client.platform, _EXACT), card_type=card)

    def fingerprint(self, options: ResultOptions) -> str:
        """The library's digest, what it says of itself and of its device, jaxlib, and the version of our client."""
        client = self.client(options)
        facts = ", ".join(f"{part} {version}" for part, version in self.versions().items())
        return f"{self.name}: {facts}; {client.device_kind}, {client.platform_version}"

    def versions(self) -> Mapping[str, str]:
        """The plugin's package, the digest of its library and its version of PJRT's interface, and jaxlib."""
        library = self.library()
        package = {library.distribution: library.version} if library.distribution else {}
        return {
            **package,
            library.path.name: f"sha256 {library.digest()}",
            "PJRT API": str(_loaded(self._name_of(library), library)),
            "jaxlib": metadata.version("jaxlib"),
        }

    def warm_up(self, options: ResultOptions) -> None:
        """Compiles and runs one small op."""
        climb_smallest(self, options)

    # --- ops

    def climb(self, stage: Stage, job: Job) -> None:
        """Compiles, or runs the compiled program. Raises StageError with the plugin's own message."""
        from opscope.harness.prepare.pjrt.client import ClientError

        try:
            if stage is Stage.RUN:
                self._run(job, job.state[Stage.COMPILE])
            else:
                job.state[stage] = executable = self.compiled(job)
                _describe(job, executable)
        except ClientError as error:
            if stage is Stage.RUN:
                self._check_device(job.options, error)
            raise StageError(str(error), error.full) from error

    def repro_lines(self, job: Job) -> Sequence[str]:
        """A program that compiles the op with jaxlib and the plugin alone; the environment is what the client reads."""
        variables = [f"export {name}={shlex.quote(value)}" for name, value in self.environment(job.options).items()]
        program = _ALONE.format(
            file=str(self.library().path),
            client=dict(self.client_options(job.options)),
            options=list(self.compile_options(job)),
        )
        return [*variables, "python3 - <<'END'", *program.splitlines(), "END"]

    def _run(self, job: Job, executable: Executable) -> None:
        """Runs once for the result, and then some times more for how long it takes."""
        from opscope.harness.prepare.pjrt.client import ClientError

        client = self.client(job.options)
        buffers = [client.put(array) for array in job.inputs]
        results = executable.run(buffers)
        job.outputs = [client.take(result) for result in results]
        job.ran_on = "host" if client.platform == HOST else "silicon"
        with contextlib.suppress(ClientError):  # of a program that takes its operands' memory and so runs once
            job.run_ns, job.run_spread_ns = timed(lambda: executable.wait(executable.run(buffers)))

    def _check_device(self, options: ResultOptions, error: Exception) -> None:
        """Ends the lane if the device is of no use after an op's error: the next op would get that error too."""
        from opscope.harness.prepare.pjrt.client import ClientError, compile_options

        client = self.client(options)
        if client.platform == HOST:
            return
        try:
            client.compile(SMALLEST, compile_options(debug=_debug_fields(client)))([np.ones((2, 2), np.float32)])
        except ClientError:
            print(f"the device is lost: {error}", file=sys.stderr, flush=True)
            os.abort()

    def _name_of(self, library: Library) -> str:
        """The name under which jaxlib keeps the plugin in this process."""
        return f"{plugin_library.short_name(library.name)}_{library.digest()[:12]}"


@cache
def _loaded(name: str, library: Library) -> ApiVersion:
    """Loads a library once in a process. Raises BackendError."""
    from opscope.harness.prepare.pjrt import client as pjrt_client

    try:
        return pjrt_client.load_plugin(name, library.path)
    except pjrt_client.PluginError as error:
        hint = f"a plugin that jaxlib {metadata.version('jaxlib')} takes, or another jaxlib"
        got = error.got if str(library.path) in error.got else f"{error.got} ({library.path})"
        raise BackendError(got, error.expected, hint) from error


def _check_memory(client: Client, library: Library) -> None:
    """Raises BackendError if the client does not give back what was put: one that only compiles gives zeros, and these
    would be taken for results."""
    value = np.arange(1, 5, dtype=np.float32)
    if not np.array_equal(client.take(client.put(value)), value):
        raise BackendError(
            "a client that gives back other values than it was given, as one does that only compiles",
            f"a client of {library.path.name} that computes",
            "--backend tt for tt-mlir without a card",
        )


def _describe(job: Job, executable: Executable) -> None:
    """Puts what the plugin says of a compiled op into its record, and keeps its program."""
    memory, costs = executable.memory(), executable.costs()
    if peak := memory.get("peak_memory_in_bytes", 0):
        job.dram_peak_bytes = peak
    if moved := costs.get("bytes accessed", 0):
        job.dram_bytes = int(moved)
    keep_program(job, executable)


def keep_program(job: Job, executable: Executable) -> None:
    """Puts what the client made of an op, and what it says of that, into the folder for IR, if there is one."""
    if job.ir_dir is None:
        return
    if text := executable.optimised():
        (job.ir_dir / "optimised.hlo").write_text(text, encoding="utf-8")
    report = {"memory": dict(executable.memory()), "costs": dict(executable.costs())}
    (job.ir_dir / COSTS).write_text(f"{json.dumps(report, indent=1, sort_keys=True)}\n", encoding="utf-8")


def _debug_fields(client: Client) -> Mapping[str, Any]:
    """Fields of XLA's own: where CUDA's tools are, which XLA for an NVIDIA GPU needs and a wheel of NVIDIA's holds."""
    folder = _cuda_folder() if client.platform == "cuda" else None
    return {} if folder is None else {"xla_gpu_cuda_data_dir": str(folder)}


@cache
def _cuda_folder() -> Path | None:
    if root := os.environ.get("CUDA_ROOT"):
        return Path(root)
    spec = util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        for name in ("cu13", "cuda_nvcc"):
            if (Path(place) / name / "bin" / "ptxas").is_file():
                return Path(place) / name
    return None

"""tt-mlir itself, as a PJRT plugin that needs no card: StableHLO -> TTIR -> TTNN -> flatbuffer, then our simulator.

The plugin compiles in one call: stage `stablehlo-to-ttir` makes it, those after it report how far it came. Without a
card it compiles for a system descriptor, and what it executes then gives zeros: nothing of that is ever a result. What
runs is the TTNN of its executable, on this project's simulated device. With a card the plugin itself executes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module, util
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from opscope.base.digest import words_digest
from opscope.base.installing import install_command
from opscope.base.plugins import version
from opscope.harness.backends import plugin_libraries, simulated, tt_executable, tt_repro
from opscope.harness.backends.base import BackendError, Job, StageError, Target, refuse
from opscope.harness.backends.pjrt import Pjrt
from opscope.harness.backends.plugin_library import Library
from opscope.harness.backends.reference import Reference
from opscope.harness.cache import export_folder
from opscope.harness.record import lowered_ir
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.record.errors import InputError
from opscope.harness.record.option_types import path_of
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage
from opscope.harness.verdict.tails import CARD, TTNN_FORMS

if TYPE_CHECKING:
    from opscope.compiler.api import SystemDesc, TtMlirProgram
    from opscope.harness.prepare.pjrt.client import Client, Option

DISTRIBUTIONS = ("jax-tt-plugin", "pjrt-plugin-tt")
"""The packages that hold tt-mlir as a plugin: a third party's build, and Tenstorrent's own."""
PLUGINS = ("tt", "pjrt_plugin_tt")
BOARDS = ("n150", "n300", "p100", "p150", "p300", "t3000", "galaxy")
"""The boards of `compiler/target/boards` whose chips tt-mlir knows."""
LACKS = "levels 1 and 2 on Blackhole alone (p100, p150, p300), as it has no firmware for Wormhole"
DEFAULT_FIDELITY = "HiFi4"
_ASSETS = "libtt-tt-metal-runtime-assets-*"
"""What the library unpacks when it is loaded; only kernels are compiled from it, at level 1 and above."""
_READ_AND_RUN = ("opscope.compiler.tt_mlir.program", "opscope.simulator.api")
"""What reads its programs and runs them: imported before lanes are forked, and each rerun is a fork."""
_FOLDER = "op"
"""Where the plugin writes the IR of the op in flight: a folder of the lane's own."""
_FAILURE = "failure"
"""Key of a job's state: the stage at which it failed, and how."""


class Tt(Pjrt):
    """tt-mlir of an installed package, `tt@0.1.2`, another release, or `tt:FILE.so`, a build of one's own."""

    name = "tt"
    distribution = "jax-tt-plugin"
    needs_argument = False
    has_levels = True
    ignores_board = False
    device_path = "/dev/tenstorrent"
    scratch_bytes = 440 << 20
    stages = (*tt_executable.STAGES, Stage.RUN)
    stage_files = MappingProxyType({stage: f"{_FOLDER}/{file}" for stage, file in tt_executable.WRITTEN.items()})
    writes_diagnostics = True
    acts_elsewhere = True
    runs_meshes = True
    refuses_gspmd = True

    def __init__(self, plugin: str = "") -> None:
        super().__init__(plugin)
        self._unpacked: list[Path] = []
        self._library: Library | None = None

    # --- its library, and what that is asked for

    def library(self) -> Library:
        """The build of one's own, or that of the package that is installed. Raises InputError if there is none."""
        if self._library is None:
            self._library = super().library() if self.plugin else self._installed()
        return self._library

    def elsewhere(self) -> tuple[str, str] | None:
        """JAX loads each plugin that is installed; runs keep it from that, other programs do not."""
        with contextlib.suppress(PackageNotFoundError):
            plugin = f"{self.distribution} {version(self.distribution)}"
            if not _has_card():
                text = f"JAX tries {plugin} first and ends where it finds no card (jax.numpy.ones(3): TT_FATAL)"
                return text, "export JAX_PLATFORMS=cpu"
        return None

    def label(self) -> str:
        """How an error names it: a release as it was asked for."""
        return super().label().replace(f":{self.distribution}@", "@")

    def _installed(self) -> Library:
        for name in PLUGINS:
            try:
                return plugin_libraries.find(self.label(), name)
            except InputError:
                continue
        raise InputError(self.label(), f"one of {' or '.join(DISTRIBUTIONS)}", "neither", install_command("tt"))

    def available(self) -> str | None:
        """Returns None if there is a library that can be loaded."""
        if not self.plugin and all(util.find_spec(name) is None for name in ("jax_plugins", "pjrt_plugin_tt")):
            return install_command("tt")
        return super().available()

    def remark(self) -> str:
        """The build, the boards it compiles for here, and what it lacks."""
        where = "executes on the card" if _has_card() else "compiles without a card; its programs run on the simulator"
        return f"{super().remark()}; {where}; boards {', '.join(BOARDS)}; {LACKS}"

    def load(self) -> None:
        """Loads the library, which unpacks what kernels are compiled from, and what reads and runs its programs.

        Raises BackendError for what is no such plugin.
        """
        super().load()
        self._unpacked = sorted(Path(tempfile.gettempdir()).glob(_ASSETS))
        Reference().fingerprint()  # reads the sources of compiler and simulator, once for all lanes
        for module in _READ_AND_RUN:
            import_module(module)
        simulated.board_of(BOARDS[0])  # and with it what reads any board

    def open(self, options: ResultOptions) -> None:
        """Makes the client, for the board of this run. Level 0 compiles no kernel, so what was unpacked goes."""
        if options.optimization_level and self._unpacked:
            # Kernels that are kept name the files that they were compiled from: from a folder of this run, none would
            # fit the next one.
            with contextlib.suppress(OSError):
                os.environ["TT_METAL_RUNTIME_ROOT"] = str(_kept(self._unpacked[-1], self._kernels() / "assets"))
        super().open(options)
        if not options.optimization_level and not _has_card():
            for folder in self._unpacked:
                _remove_once(folder)

    def _kernels(self) -> Path:
        """Where the kernels of this build are kept."""
        folder = export_folder.cache_dir() / "tt-metal" / self.library().digest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def environment(self, options: ResultOptions) -> Mapping[str, str]:
        """The descriptor that it compiles for, where it keeps kernels, and a log of nothing but what matters."""
        values = {"TTXLA_LOGGER_LEVEL": os.environ.get("TTXLA_LOGGER_LEVEL", "WARNING")}
        if not _has_card():
            values["TT_COMPILE_ONLY_SYSTEM_DESC"] = str(self._descriptor(options))
        if options.optimization_level:
            values["TT_METAL_CACHE"] = str(self._kernels())
        return values

    def client_options(self, options: ResultOptions) -> Mapping[str, Any]:
        """None: everything is in the environment."""
        return {}

    def made_client(self, library: Library, options: ResultOptions) -> Client:
        """Returns jaxlib's client; without a card, a client that only compiles."""
        if _has_card():
            return super().made_client(library, options)
        from opscope.harness.prepare.pjrt.compile_only import CompileOnlyClient

        return CompileOnlyClient(library.path)

    def executes(self) -> bool:
        """Whether there is a card. Without one nothing that the client gives back is read."""
        return _has_card()

    def compile_options(self, job: Job) -> Sequence[Option]:
        """Level, fidelity and --backend-option, and where the IR of each stage goes."""
        level, *others = self._asked(job)
        return [level, ("export_path", str(_export_folder())), *others]

    def _asked(self, job: Job) -> Sequence[Option]:
        """The options that the user chose, level first."""
        asked = job.options.of_backend(self.name)
        if job.options.math_fidelity is not None:
            asked.setdefault("math_fidelity", job.options.math_fidelity.lower())
        return [("optimization_level", str(job.options.optimization_level)), *asked.items()]

    def repro_lines(self, job: Job) -> Sequence[str]:
        """A program with jaxlib and the plugin alone, and `ttmlir-opt`; none for an op of several devices, of which
        jaxlib would give the plugin another form."""
        if job.several_devices:
            return ()
        return tt_repro.lines(simulated.board_of(job.options.arch).arch, job.options.optimization_level)

    def repro_files(self, job: Job) -> Mapping[str, bytes]:
        """The program of `repro_lines`, and the descriptor that it compiles for. Raises as `_descriptor` does."""
        if job.several_devices:
            return {}
        name = self._descriptor_name(job.options)
        program = tt_repro.program(self.library(), name, self._asked(job))
        return {tt_repro.PROGRAM: program.encode(), name: self._descriptor_content(job.options)}

    def build_note(self) -> str:
        """Says that `jax-tt-plugin` is a third party's build, with patches of its own."""
        return tt_repro.build_note(self.library())

    def _descriptor(self, options: ResultOptions) -> Path:
        """Writes the system descriptor that a lane compiles for into its own folder.

        Raises BackendError for a build whose schema is not known, InputError for a file that is none or of another one.
        """
        place = Path(tempfile.gettempdir()) / self._descriptor_name(options)
        place.write_bytes(self._descriptor_content(options))
        return place

    def _descriptor_name(self, options: ResultOptions) -> str:
        return f"{simulated.board_of(options.arch).board}.ttsys"

    def _descriptor_content(self, options: ResultOptions) -> bytes:
        """What that file holds. Raises as `_descriptor` does."""
        from opscope.compiler.api import CompilerInputError, read_system_desc, schema_hash_of, system_desc_file

        library = self.library()
        board = simulated.board_of(options.arch)
        place = Path(self._descriptor_name(options))
        try:
            schema = schema_hash_of(library.distribution or library.path.name, library.version)
        except CompilerInputError as error:
            if options.system_desc is None:
                refused = simulated.as_input_error(self.label(), error, "a build whose descriptors can be written")
                raise BackendError(refused.got, refused.expected, refused.hint) from error
            schema = None
        try:
            if options.system_desc is None:
                content = system_desc_file(board, schema or "")
            else:
                place = path_of(options.system_desc)
                content = place.read_bytes()
            _check_descriptor(read_system_desc(content, place.name, schema), board)
        except OSError as error:
            raise InputError("--system-desc", "a file that can be read", f"{place}: {error.strerror}") from error
        except CompilerInputError as error:
            where = "--arch" if options.system_desc is None else "--system-desc"
            raise simulated.as_input_error(where, error, "a system descriptor") from error
        return content

    # --- its life

    def target(self, options: ResultOptions) -> Target:
        """What a program for the board computes in, unless its TTNN says otherwise. Raises InputError."""
        refuse(self.name, options, "data_format", "amp_level", "numerics")
        self.check_mesh(options)
        board = simulated.board_of(options.arch)
        if options.optimization_level and board.arch != "blackhole" and not _has_card():
            raise InputError(
                "--optimization-level",
                f"0 on {board.board}: without a card, levels 1 and 2 are for Blackhole",
                str(options.optimization_level),
                "--arch p150",
            )
        return Target(
            card_type=board.board if _has_card() else f"sim-{board.board}",
            float_format=None,
            math_fidelity=options.math_fidelity or DEFAULT_FIDELITY,
            matrix_format="Tf32",
            narrow_dst=not board.has_fp32_dst,
            exact_order=options.exact_order,
            error_bound=simulated.error_bound,
            cuts_result=simulated.cuts_result,
            tails=simulated.TAILS if options.exact_order or _has_card() else CARD,
            forms=TTNN_FORMS if options.exact_order or _has_card() else (),
        )

    def check_mesh(self, options: ResultOptions) -> None:
        """Raises InputError for a mesh of more devices than the board has chips, and for any on cards."""
        if options.mesh is not None and _has_card():
            raise InputError(
                "--mesh", f"no mesh with --backend {self.name} on a card", options.mesh, "--backend reference"
            )
        simulated.check_mesh(options.mesh, options.arch)

    def board_for(self, devices: int, board: str) -> str:
        """`board` if it has so many chips, else the smallest that has; `board` where none has."""
        return simulated.board_for(devices, board)

    def fingerprint(self, options: ResultOptions) -> str:
        """The library's digest, the descriptor's, and the reader and simulator that run its programs."""
        described = "" if _has_card() else hashlib.sha256(self._descriptor_content(options)).hexdigest()[:16]
        return f"{super().fingerprint(options)}-{described}-{Reference().fingerprint(options)}"

    # --- ops

    def module_of(self, job: Job) -> bytes:
        """The op as the client is given it; what several devices compute together is over the run's mesh."""
        module = super().module_of(job)
        if not job.several_devices:
            return module
        from opscope.harness.prepare.mlir.over_mesh import over_mesh

        return over_mesh(module, tuple(map(int, (job.options.mesh or "").split("x"))))

    def climb(self, stage: Stage, job: Job) -> None:
        """Compiles at the first stage, and reports at those after it. Raises StageError with the first diagnostic."""
        if stage is tt_executable.STAGES[0]:
            self._compile(job)
        failed, error = job.state.get(_FAILURE, (None, None))
        if failed is stage:
            raise error
        if stage is Stage.RUN:
            self._run_program(job)

    def _compile(self, job: Job) -> None:
        """Compiles the op and keeps its executable, or at which stage it failed and how."""
        from opscope.harness.prepare.pjrt.client import ClientError

        folder = _export_folder()
        shutil.rmtree(folder, ignore_errors=True)
        began = time.perf_counter()
        try:
            executable = self.compiled(job)
            job.state[Stage.COMPILE] = executable
            job.state[Stage.TTNN_TO_FLATBUFFER] = tt_executable.parts(executable.serialise())
        except ClientError as error:
            stage = tt_executable.failed_stage(error.full, folder)
            job.state[_FAILURE] = stage, StageError(tt_executable.first_diagnostic(error.full), error.full)
        except ValueError as error:
            job.state[_FAILURE] = Stage.TTNN_TO_FLATBUFFER, StageError(str(error))
        job.stage_seconds = tt_executable.seconds(folder, time.perf_counter() - began)
        kept = job.ir_dir or folder.with_name("kept")
        shutil.rmtree(folder.with_name("kept"), ignore_errors=True)
        tt_executable.keep(folder, kept)
        job.kept_ir = None if job.ir_dir else kept
        job.pipeline = " ".join(f"{name}={value}" for name, value in self.compile_options(job) if name != "export_path")
        library = self.library()
        job.compiled_by = f"{library.distribution} {library.version}" if library.distribution else ""
        job.compiled_by += f"{', ' if job.compiled_by else ''}{library.path.name} sha256 {library.digest()[:16]}"

    def program(self, job: Job) -> str:
        """Its TTNN, and the simulated device that runs it; empty with a card, on which a release itself runs it."""
        if _has_card():
            return ""
        text = lowered_ir.plain(job.state[Stage.TTNN_TO_FLATBUFFER].ttnn)
        board = simulated.board_of(job.options.arch).board
        return words_digest(text, board, Reference().fingerprint(job.options))

    def _run_program(self, job: Job) -> None:
        """Runs the program on the card, or its TTNN on the simulated device, in the types that it has there."""
        if _has_card():
            self._run(job, job.state[Stage.COMPILE])
            return
        from opscope.compiler.api import tt_mlir_program
        from opscope.simulator.api import Device

        board = simulated.board_of(job.options.arch)
        with simulated.refusals():
            program = tt_mlir_program(job.state[Stage.TTNN_TO_FLATBUFFER].ttnn, board)
            executable = Device(board.board, exact_order=job.options.exact_order).load_decoded(program.binary)
            simulated.decline_large(executable)
            types = [(numpy_dtype(desc.data_type), desc.shape) for desc in job.results]
            if job.several_devices:
                gives = partial(program.outputs_as, types=types)
                result = simulated.run_together(job, executable, program.inputs_of, gives)
            else:
                result = executable.run(program.inputs_of(job.inputs))
                job.outputs = program.outputs_as(result.outputs, types)
        job.ran_on = "simulator"
        job.narrowed = program.narrowed
        job.target = _target_of(self.target(job.options), program)
        simulated.count(job, result, executable)


def _target_of(board: Target, program: TtMlirProgram) -> Target:
    """What a program computes in: its TTNN says so, not the board."""
    own = program.float_format
    if own is None and any(words.startswith("f64 -> f32") for words in program.narrowed):
        own = "Float32"
    alone = program.computes[0] if len(program.computes) == 1 else None
    return replace(
        board,
        float_format=own,
        math_fidelity=program.math_fidelity,
        matrix_format=program.matrix_format,
        narrow_dst=program.narrow_dst,
        error_bound=partial(_bound_of, alone),
        cuts_result=partial(_cuts, alone),
    )


def _bound_of(kernel: str | None, op_name: str) -> float | None:
    """The bound of the error of an op's results: that of the one kernel that computes floats; None if several do."""
    from opscope.simulator.api import error_bound

    return None if kernel is None else error_bound(kernel)


def _cuts(kernel: str | None, op_name: str) -> bool:
    from opscope.simulator.api import cuts_result

    return kernel is not None and cuts_result(kernel)


def _check_descriptor(described: Any, board: SystemDesc) -> None:
    """Raises InputError if a descriptor is of another chip than the board whose simulator will run the program."""
    archs = sorted({chip.arch_name for chip in described.chips})
    if archs != [board.arch]:
        raise InputError(
            "--system-desc",
            f"a descriptor of {board.arch}, as --arch {board.board} is",
            ", ".join(archs),
            f"--arch {archs[0]}",
        )


def _kept(folder: Path, place: Path) -> Path:
    """`place`, a copy of a folder that the first run makes. Raises OSError."""
    if not place.is_dir():
        with tempfile.TemporaryDirectory(dir=place.parent) as fresh:
            copy = shutil.copytree(folder, Path(fresh) / place.name, symlinks=True)
            with contextlib.suppress(OSError):
                copy.rename(place)
    if not place.is_dir():
        raise NotADirectoryError(place)
    return place


def _remove_once(folder: Path) -> None:
    """Removes a folder that other lanes may be removing too: whoever renames it first does."""
    gone = folder.with_name(f"{folder.name}.gone")
    with contextlib.suppress(OSError):
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _has_card() -> bool:
    return Path(Tt.device_path).exists()


def _export_folder() -> Path:
    return Path(tempfile.gettempdir()) / _FOLDER

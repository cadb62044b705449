"""The compiler's public interface: StableHLO in, TTIR, TTNN or a flatbuffer out, one step at a time or all at once.

If the compiler refuses an op, it raises `StageFailure` with stage, op, kind and diagnostic. Bad input (not StableHLO,
an unknown option) raises `CompilerInputError`.
"""

from __future__ import annotations

import io
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from xdsl.utils.exceptions import VerifyException

from opscope.base import regular_file
from opscope.base.digest import digest_of_sources, source_files
from opscope.base.places import HOME, room
from opscope.compiler.errors import CompilerInputError, StageFailure, noted
from opscope.compiler.ops.layout import MOVES
from opscope.compiler.ops.row import TABLE, OpRow, register
from opscope.compiler.options import CompileOptions
from opscope.compiler.planned import PlannedModule, PlannedParts
from opscope.compiler.target.queue_content import QueueContent
from opscope.compiler.target.system_desc import SystemDesc, board_with, load_board, load_board_file

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from opscope.compiler.buda.configuration import OPTIONS, Configuration, NoEffect
    from opscope.compiler.buda.mixed_precision import FORMATS as MIXED_PRECISION
    from opscope.compiler.buda.nops import Nop
    from opscope.compiler.buda.op_precision import OpPrecision
    from opscope.compiler.depths import Compilation, CompileDepth, compile_to
    from opscope.compiler.depths import step as take_step
    from opscope.compiler.pieces.pieces import Pieces
    from opscope.compiler.pipelines.verification import Verification
    from opscope.compiler.target.program import Binary, Program, TensorDesc
    from opscope.compiler.target.tt_system_desc.fields import SystemDescriptor
    from opscope.compiler.tt_mlir.module import TtMlirModule
    from opscope.compiler.tt_mlir.program import TtMlirProgram

_OF_PLANS = {
    "OPTIONS": "buda.configuration:OPTIONS",
    "Configuration": "buda.configuration:Configuration",
    "NoEffect": "buda.configuration:NoEffect",
    "Nop": "buda.nops:Nop",
    "OpPrecision": "buda.op_precision:OpPrecision",
    "MIXED_PRECISION": "buda.mixed_precision:FORMATS",
    "Compilation": "depths:Compilation",
    "CompileDepth": "depths:CompileDepth",
    "compile_to": "depths:compile_to",
    "take_step": "depths:step",
}
"""Public name -> its place in what plans programs, loaded on first use: every lane would wait for what few need."""


def __getattr__(name: str) -> Any:
    """Imports a name that has to do with plans. Raises AttributeError for any other name."""
    if name not in _OF_PLANS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, there = _OF_PLANS[name].partition(":")
    return getattr(import_module(f"opscope.compiler.{module}"), there)


Source: TypeAlias = "bytes | str | Path | Any"
"""StableHLO as bytecode, portable artifact, text, the path of such a file, `jax.stages.Lowered`, or an MLIR module."""

STAGES = ("stablehlo-to-ttir", "ttir-to-ttnn", "ttnn-to-flatbuffer")
"""The steps, in order."""


@dataclass(frozen=True)
class IoDesc:
    """Inputs and outputs of a compiled function, as they lie on the device."""

    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]


def stablehlo_to_ttir(
    module: Source, options: CompileOptions | None = None, system_desc: SystemDesc | None = None
) -> ModuleOp:
    """Compiles a StableHLO module to TTIR. Raises StageFailure, CompilerInputError.

    The board only decides what is left to the host, where `options` allow that (n150 by default). Text, bytes and files
    are read in a fork first: what crashes the parser is ParserCrashed, a CompilerInputError.
    """
    from opscope.compiler.pipelines.pipeline import run, ttir_passes

    options = options or CompileOptions()
    with _stage(STAGES[0]):
        parsed = _read(module)
        _dump(options, "0-stablehlo", lambda: parsed)
        board = (system_desc or load_board("n150")).board
        _verified[parsed] = run(ttir_passes(options.unsupported_types, board), parsed)
        _dump(options, "1-ttir", lambda: parsed)
        return parsed


def _read(module: Source) -> ModuleOp:
    """Reads a module with its locations. Raises CompilerInputError for anything else.

    Bytes, text and files are read in a fork first, as the native parser may crash on them. An object of MLIR has been
    parsed in this process before.
    """
    from opscope.compiler.ir import door, guard

    if isinstance(module, Path):
        try:
            module = regular_file.read_bytes(module)
        except OSError as error:
            raise CompilerInputError(f"{module}: expected a readable StableHLO file, got {error.strerror}") from error
    if isinstance(module, bytes | str):
        return guard.read(module)
    source: Any = module
    if hasattr(source, "compiler_ir"):  # jax.stages.Lowered
        source = source.compiler_ir(dialect="stablehlo")
    if not hasattr(source, "operation"):
        got = type(source).__name__
        raise CompilerInputError(f"module: expected StableHLO text, bytecode or a module object, got {got}; try str()")
    data = io.BytesIO()
    source.operation.write_bytecode(data)
    return door.read(data.getvalue())


_verified: WeakKeyDictionary[ModuleOp, Verification] = WeakKeyDictionary()
"""TTIR modules, and what was verified of them when they were made; whatever has changed since is verified again."""


def ttir_to_ttnn(
    ttir: ModuleOp, system_desc: SystemDesc, options: CompileOptions | None = None, keep: bool = True
) -> ModuleOp:
    """Compiles a TTIR module to TTNN. Raises StageFailure, CompilerInputError.

    The module is not changed; without `keep` it becomes the TTNN module, which saves copying and verifying it.
    """
    from opscope.compiler.pipelines.pipeline import run, ttir_passes, ttnn_passes

    options = options or CompileOptions()
    with _stage(STAGES[1]):
        module = ttir.clone() if keep else ttir
        run(
            ttnn_passes(system_desc.board, options),
            module,
            before=ttir_passes(options.unsupported_types, system_desc.board),
            verify=None if keep else _verified.pop(ttir, None),
        )
        _dump(options, "2-ttnn", lambda: module)
        return module


def ttnn_to_flatbuffer(ttnn: ModuleOp, system_desc: SystemDesc, options: CompileOptions | None = None) -> bytes:
    """Writes the binary of a TTNN module. Raises StageFailure."""
    from opscope.compiler.target import binary
    from opscope.compiler.translations.ttnn_to_flatbuffer import to_binary

    options = options or CompileOptions()
    with _stage(STAGES[2]), noted(lambda: _repro_note(system_desc, options)):
        data = binary.write(to_binary(ttnn, system_desc, _version()))
        if options.dump_dir is not None:
            (Path(options.dump_dir) / "3-program.ttnn").write_bytes(data)
        return data


def _repro_note(board: SystemDesc, options: CompileOptions) -> str:
    words = [f"--arch {board.board}", f"--math-fidelity {options.math_fidelity or 'HiFi4'}"]
    words += [f"--numerics {options.numerics}"] if options.numerics != "hifi4" else []
    words += [f"--data-format {options.data_format}"] if options.data_format else []
    words += ["--unsupported-types fallback"] if options.unsupported_types == "fallback" else []
    words += [f"--optimization-level {options.optimization_level}"] if options.optimization_level else []
    words += ["--math-approx"] if options.math_approx else []
    return f"stage {STAGES[2]} failed; to reproduce: opscope compile {' '.join(words)} FILE"


def take_apart(ttnn: ModuleOp, system_desc: SystemDesc) -> Pieces:
    """Splits a ttnn module: each op that computes becomes a module of its own. Raises StageFailure."""
    from opscope.compiler.pieces.pieces import take_apart as pieces_of

    with _stage(STAGES[2]):
        return pieces_of(ttnn, system_desc)


def piece_module(text: str) -> ModuleOp:
    """Parses the text of a piece's ttnn module. Raises StageFailure, CompilerInputError."""
    from opscope.compiler.pieces.pieces import module_of

    with _stage(STAGES[2]):
        return module_of(text)


def read_tt_mlir(text: str, name: str = "<input>") -> TtMlirModule:
    """Reads a TTNN module as tt-mlir prints it and its executables hold it. Raises CompilerInputError."""
    from opscope.compiler.tt_mlir.reader import read_tt_mlir as read

    return read(text, name)


def tt_mlir_program(text: str, board: SystemDesc) -> TtMlirProgram:
    """Makes a program for the simulator of a TTNN module of tt-mlir, with its layouts, formats and configurations.

    Raises CompilerInputError for other text, StageFailure of stage `run` for an op that the simulator lacks.
    """
    from opscope.compiler.tt_mlir.program import tt_mlir_program as program_of

    with _stage("run"):
        return program_of(text, board)


def compile(module: Source, system_desc: SystemDesc, options: CompileOptions | None = None) -> bytes:
    """Compiles a StableHLO module to a binary, in all three steps. Raises StageFailure, CompilerInputError."""
    ttir = stablehlo_to_ttir(module, options, system_desc)
    return ttnn_to_flatbuffer(ttir_to_ttnn(ttir, system_desc, options), system_desc, options)


def partitioned(module: bytes | str, mesh: str) -> bytes:
    """Returns the program that each device of a mesh such as `2x4` runs for a sharded module, as StableHLO bytecode.

    Its collectives name devices by their place in the mesh, row by row. Raises StageFailure, CompilerInputError.
    """
    from opscope.base.mesh import partition

    try:
        return partition.partitioned(module, partition.devices_of(mesh)).bytecode
    except partition.WrongInput as error:
        raise CompilerInputError(str(error)) from None
    except partition.NotPartitioned as error:
        raise StageFailure(STAGES[0], "module", str(error)[:300], kind="notimpl", diagnostic=str(error)) from error


def pipeline(options: CompileOptions | None = None, system_desc: SystemDesc | None = None) -> str:
    """Returns the passes that `options` select, as a pipeline string for `opscope opt -p`."""
    options = options or CompileOptions()
    hashable = replace(options, argument_types=tuple(options.argument_types))
    return _spelled((system_desc or load_board("n150")).board, hashable)


@lru_cache(maxsize=64)  # the same for each op of a run
def _spelled(board: str, options: CompileOptions) -> str:
    from opscope.compiler.pipelines.pipeline import spell, ttir_passes, ttnn_passes

    return spell((*ttir_passes(options.unsupported_types, board), *ttnn_passes(board, options)))


def planned_binaries(compilation: Compilation, fallback: bool = False) -> tuple[bytes, bytes]:
    """Returns two binaries for a compilation that has a netlist: the host's part and the placed program.

    The host's part is compiled for the board `n150`, whose formats hold float32 and integers. With `fallback`, as in an
    image, it may have ops of other types, which XLA computes where it runs, and has no places in sources; otherwise
    such ops raise StageFailure.
    """
    from opscope.compiler.dialects.locations import without_places

    assert compilation.host is not None
    part = without_places(compilation.host.module) if fallback else compilation.host.module
    board = load_board("n150")
    options = CompileOptions(unsupported_types="fallback" if fallback else "fail")
    host = ttnn_to_flatbuffer(ttir_to_ttnn(part, board, options), board, options)
    return host, _placed_binary(compilation)


def _placed_binary(compilation: Compilation) -> bytes:
    """Returns the binary of a netlist, on the chips of its plan."""
    from opscope.compiler.buda.netlist.to_binary import to_binary
    from opscope.compiler.target import binary

    assert compilation.netlist is not None
    made, planned = to_binary(compilation.netlist, compilation.board).binary, compilation.program
    assert planned is not None
    return binary.write(replace(made, harvested=planned.binary.harvested, chip_ids=planned.binary.chip_ids))


def planned_module(compilation: Compilation) -> PlannedModule:
    """Returns a compilation that has a netlist as what runs without the compiler. Raises StageFailure."""
    from opscope.compiler.buda.backend_output import files
    from opscope.compiler.ir import door
    from opscope.compiler.ir.functions import functions

    c = compilation
    assert c.host is not None
    assert c.initial is not None
    assert c.plan is not None
    assert c.program is not None
    if refused := sorted({op.name for op in c.lowering.refused}):
        message = f"the host would compute it after the device, which no image holds: {', '.join(refused)}"
        raise StageFailure("pre-lowering-pass", refused[0], message, kind="host")
    host, program = planned_binaries(c, fallback=True)
    entry = functions(c.initial)[0].function_type
    saved = _saved(c)
    behind = range(len(entry.outputs), len(entry.outputs) + len(saved))
    return PlannedModule(
        c.name,
        host,
        program,
        tuple(content.layout for content in c.host.contents),
        tuple(c.program.graph.sources),
        tuple(map(_described, entry.inputs)),
        (*map(_described, entry.outputs), *((shape, kind) for _, shape, kind in saved)),
        tuple(name for name, _, _ in saved),
        (*(number for number, _, _ in c.lowering.results), *behind),
        c.host.outputs,
        c.netlist_text,
        c.configuration.described(),
        door.portable(c.source),
        dict(files(c.plan, c.program, c.netlist_text)),
    )


def _saved(c: Compilation) -> list[tuple[str, tuple[int, ...], str]]:
    """Returns name, shape and element type of the results of ops that `op_intermediates_to_save` adds."""
    from opscope.compiler.target.queue_content import SAVED

    assert c.program is not None
    assert c.graph is not None
    return [(name, c.graph.node(name).extent, "f32") for name in c.program.graph.outputs if name.endswith(SAVED)]


def argument_types(source: bytes) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Returns shape and MLIR element type of each argument of a StableHLO module. Raises CompilerInputError."""
    from opscope.compiler.ir import guard
    from opscope.compiler.ir.functions import functions

    return tuple(map(_described, functions(guard.read(source))[0].function_type.inputs))


def result_types(source: bytes) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Returns shape and MLIR element type of each result of a StableHLO module. Raises CompilerInputError."""
    from opscope.compiler.ir import guard
    from opscope.compiler.ir.functions import functions

    return tuple(map(_described, functions(guard.read(source))[0].function_type.outputs))


def _described(kind: Any) -> tuple[tuple[int, ...], str]:
    return tuple(kind.get_shape()), str(kind.element_type)


def planned_parts(compilation: Compilation) -> PlannedParts:
    """Returns the binaries of a compilation that has a netlist. Raises StageFailure."""
    from opscope.compiler.ops.shapes import shape_of
    from opscope.compiler.translations.ttir_to_graph.host import host_part

    assert compilation.program is not None
    lowering, entry, board = compilation.lowering, compilation.entry, load_board("n150")
    resident = {name for name, node in lowering.builder.nodes.items() if node.kind.is_resident}
    contents = lowering.contents
    once = host_part(entry, {name: content for name, content in contents.items() if name in resident}, {})
    inputs = {name: content for name, content in contents.items() if name not in resident}
    each = host_part(entry, inputs, lowering.host_results)

    def on_host(module: ModuleOp) -> bytes:
        return ttnn_to_flatbuffer(ttir_to_ttnn(module, board), board)

    last = entry.body.block.last_op
    assert last is not None
    made = {number: name for number, name, _ in lowering.results}

    def described(name: str, value: Any) -> tuple[str, tuple[int, ...], str]:
        return name, tuple(shape_of(value)), str(value.type.element_type)

    rest = compilation.rest
    return PlannedParts(
        on_host(once.module),
        on_host(each.module),
        _placed_binary(compilation),
        on_host(rest.module) if rest is not None else None,
        once,
        each,
        tuple(compilation.program.graph.sources),
        tuple(compilation.program.graph.outputs),
        (*(described(made.get(i, ""), value) for i, value in enumerate(last.operands)), *_saved(compilation)),
        len(_saved(compilation)),
        tuple(lowering.rest_results),
        tuple(described(name, value) for value, name in lowering.rest_inputs.items()),
    )


def system_desc_file(board: SystemDesc, schema_hash: str) -> bytes:
    """Returns tt-mlir's system descriptor of a board, as a file for the build with a schema hash.

    Raises CompilerInputError for a board that tt-mlir does not know, or one whose figures no descriptor can hold.
    """
    from opscope.compiler.target.tt_system_desc.of_board import system_desc_bytes

    with _as_input_error():
        return system_desc_bytes(board, schema_hash)


def read_system_desc(data: bytes, name: str, schema_hash: str | None = None) -> SystemDescriptor:
    """Returns a verified system descriptor of tt-mlir; `name` is the file's, for messages.

    With `schema_hash` it has to be one for the build with that hash. Raises CompilerInputError for any other bytes.
    """
    from opscope.compiler.target.tt_system_desc.read import read_descriptor

    with _as_input_error():
        return read_descriptor(data, name, schema_hash)


def schema_hash_of(distribution: str, version: str) -> str:
    """Returns the schema hash of a build of tt-mlir, such as `jax-tt-plugin`, `0.1.3`, which its descriptors carry.

    Raises CompilerInputError for an unknown build, and for one whose descriptors have other tables.
    """
    from opscope.compiler.target.tt_system_desc.schema_hashes import schema_hash_of as known_hash

    with _as_input_error():
        return known_hash(distribution, version)


@contextmanager
def _as_input_error() -> Iterator[None]:
    """Turns a ValueError of `target`, which knows no errors of the compiler, into a CompilerInputError."""
    try:
        yield
    except ValueError as error:
        raise CompilerInputError(str(error)) from None


def decode(compiled: bytes) -> Binary:
    """Returns the programs in the bytes of a binary. Raises BinaryError, a ValueError, if they are none."""
    from opscope.compiler.target import binary

    return binary.read(compiled)


def describe_io(compiled: ModuleOp | bytes | Binary) -> IoDesc:
    """Describes where and how the inputs and outputs of a ttnn module, or of a binary's entry, lie on the device.

    An input that no kernel reads stays on the host and is described there.
    """
    from opscope.compiler.target.program import Binary

    if isinstance(compiled, bytes):
        compiled = decode(compiled)
    if isinstance(compiled, Binary):
        program = compiled.programs[0]
    else:
        from opscope.compiler.translations.ttnn_to_flatbuffer import to_binary

        program = to_binary(compiled, load_board("n150")).programs[0]
    moves = [op for op in program.operations if op.kernel in ("to_layout", "to_device", "from_device")]
    forward = {op.inputs[0]: op.outputs[0] for op in moves if op.kernel != "from_device"}
    back = {op.outputs[0]: op.inputs[0] for op in moves if op.kernel != "to_device"}
    return IoDesc(
        tuple(_follow(program, forward, i) for i in program.inputs),
        tuple(_follow(program, back, i) for i in program.outputs),
    )


def _follow(program: Program, moves: dict[int, int], tensor: int) -> TensorDesc:
    while tensor in moves and program.tensors[tensor].buffer_type == "system_memory":
        tensor = moves[tensor]
    return program.tensors[tensor]


def matrix_numerics(programs: Iterable[Program]) -> tuple[str, bool]:
    """Returns the lowest fidelity of programs' products and sums of floats, and whether a Dst of theirs is narrow."""
    from opscope.compiler.target.formats import FORMATS
    from opscope.compiler.target.numerics import MATRIX, lowest

    return lowest(
        op.numerics
        for program in programs
        for op in program.operations
        if op.kernel in MATRIX and FORMATS[program.tensors[op.outputs[0]].data_format].is_float
    )


def ran_on(compiled: bytes | Iterable[Program]) -> str:
    """Returns where a binary (or its programs) computes: `simulator`, `host` (host ops alone) or `mixed`."""
    programs = decode(compiled).programs if isinstance(compiled, bytes) else compiled
    kernels = {op.kernel for program in programs for op in program.operations}
    if kernels and "host_op" not in kernels:
        return "simulator"
    return "mixed" if kernels - MOVES - {"host_op"} else "host"


def op_table() -> tuple[OpRow, ...]:
    """Returns every row of the op table."""
    from opscope.compiler.ops import families  # which fills the table, if nothing was compiled before

    return tuple(TABLE)


@cache
def fingerprint() -> str:
    """Returns a SHA-256 over the compiler's sources and the versions of its dependencies.

    It changes whenever the compiler's output could change.
    """
    versions = (f"{name}={metadata.version(name)}" for name in ("xdsl", "jaxlib"))
    tables = (room(f"base/{name}.py") for name in ("number_formats", "stablehlo/attribute_fields"))
    sources = (*source_files(HOME / "compiler"), *tables)
    return digest_of_sources(sources, *versions, root=HOME)


@cache
def _version() -> str:
    try:
        return metadata.version("opscope")
    except metadata.PackageNotFoundError:
        return "0"


def _dump(options: CompileOptions, name: str, module: Callable[[], ModuleOp]) -> None:
    if options.dump_dir is None:
        return
    from opscope.compiler.ir.text import to_text

    folder = Path(options.dump_dir)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.mlir").write_text(to_text(module(), locations=True), encoding="utf-8")


@contextmanager
def _stage(stage: str) -> Iterator[None]:
    """Turns any exception inside into a StageFailure of this stage.

    Its diagnostic is the traceback, if any, and the notes: the pass that failed, and the command that reproduces it.
    """
    try:
        yield
    except (CompilerInputError, ImportError):  # a library that cannot be loaded says nothing of the module
        raise
    except StageFailure as error:
        error.diagnostic = "\n".join([error.diagnostic or str(error), *getattr(error, "__notes__", ())])
        raise
    except VerifyException as error:
        message = str(error).strip().splitlines()[0] if str(error).strip() else "verification failed"
        raise StageFailure(stage, "module", message, diagnostic=traceback.format_exc()) from error
    except OSError as error:
        raise CompilerInputError(f"{error.filename}: expected a writable folder, got: {error.strerror}") from error
    except Exception as error:
        message = f"internal error: {type(error).__name__}: {error}"
        raise StageFailure(stage, "module", message[:300], diagnostic=traceback.format_exc()) from error

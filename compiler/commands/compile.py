"""Command lines of the compiler: `opscope compile` and `opscope opt`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from opscope.base import regular_file
from opscope.base.file_names import resolved
from opscope.base.model_files import ModelFiles
from opscope.compiler import passes
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.target.numerics import PROFILES

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

TARGETS = ("ttir", "ttnn", "flatbuffer")
PIPELINE_NAMES = (
    "stablehlo-to-ttir-pipeline",
    "convert-stablehlo-to-ttir",
    "stablehlo-pipeline",
    "ttir-to-ttnn-backend-pipeline",
)
"""What tt-mlir calls the passes of the first stage, one of them, those of shardings, and those of the second stage."""
STABLEHLO_NAMES = ("flatten-or-convert-composites", "reoutline-composite", "shardy-ccl-canonicalization")
"""tt-mlir's passes from StableHLO to StableHLO, which run before all others."""
NAMED = ("stablehlo-to-ttir-pipeline", "convert-stablehlo-to-ttir")
"""Those that write ttir in tt-mlir's own forms, quantised types included."""
TT_MLIR_PASSES = {"legalize-stablehlo-composite-to-ttir": "named=true"}
"""A pass of ours that `--NAME` asks for in tt-mlir's form -> the option that says so."""
IGNORED = frozenset({"--allow-unregistered-dialect", "--mlir-print-local-scope", "--mlir-disable-threading"})
"""Options of MLIR's tools that change nothing here."""
DIALECTS = ("builtin", "chlo", "func", "quant", "sdy", "sparse_tensor", "stablehlo", "ttcore", "ttir", "ttnn", "vhlo")
"""The dialects that `opscope opt` reads: jaxlib's that StableHLO's files have, and ours."""
_SPLIT = re.compile(rb"^// -----[^\n]*\n", re.MULTILINE)
_COMMENT = re.compile(rb"//[^\n]*")


class InputProblem(click.ClickException):
    """Bad input: one line, exit code 2."""

    exit_code = 2


@click.command("compile", short_help="Compile a StableHLO file to ttir, ttnn or a flatbuffer.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--shape",
    multiple=True,
    metavar="NAME=SIZE",
    help="A size for an open dimension (batch=4), or all sizes of an argument (arg0=4x16); several, or as a,b.",
)
@click.option(
    "--to", "target", type=click.Choice(TARGETS), default="flatbuffer", show_default=True, help="Stage to stop after."
)
@click.option("--arch", default="n150", show_default=True, help="A board, or an arch, which means its default board.")
@click.option("--mesh", help="Partition a sharded module over a mesh such as 2x4; each device's program is compiled.")
@click.option("--data-format", help="Number format of all floats, such as Bfp8_b; default: each tensor's own type.")
@click.option(
    "--math-fidelity",
    help="LoFi, HiFi2, HiFi3 or HiFi4; default: HiFi4, with --numerics ttnn that of each op.",
)
@click.option(
    "--numerics",
    type=click.Choice(PROFILES),
    default="hifi4",
    show_default=True,
    help="How ops compute where nothing else is asked for: hifi4, or ttnn as ttnn without a compute configuration.",
)
@click.option(
    "--unsupported-types",
    type=click.Choice(("fail", "fallback")),
    default="fail",
    show_default=True,
    help="Refuse ops of types that the device lacks (f64, i64, complex, ...), or compute them on the host.",
)
@click.option(
    "--optimization-level",
    type=click.Choice(("0", "1", "2")),
    default="0",
    show_default=True,
    help="0: compile each op by itself; 1: simplify and fuse ops; 2: also keep tensors in L1 if they fit.",
)
@click.option(
    "--amp-level",
    type=click.Choice(("0", "1", "2")),
    default="0",
    show_default=True,
    help="Mixed precision: 0: none; 1: products in Bfp8_b; 2: products in Bfp8, everything else in Float16.",
)
@click.option(
    "--math-approx",
    is_flag=True,
    help="Compute tanh, sigmoid, gelu and exp by the vector unit's approximations (tt-mlir: math-approx-mode).",
)
@click.option(
    "--argument-types",
    help="With --optimization-level 1 or 2: input, parameter or constant for each argument; values that depend on no "
    "input are computed once.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write; default: standard output, FILE.ttnn for a binary.",
)
@click.option(
    "--dump-ir", type=click.Path(path_type=Path), help="Folder for the IR before the first stage and after each stage."
)
@click.pass_context
def compile_command(
    ctx: click.Context, file: Path, shape: tuple[str, ...], target: str, output: Path | None, **words: Any
) -> None:
    """Compile a StableHLO FILE (text, bytecode or portable artifact) with the reference compiler.

    FILE.mlir:FUNCTION is one of several models in a file. Open dimensions take sizes from --shape.
    """
    from opscope.compiler import api
    from opscope.compiler.ir.text import to_text

    module = _model(file, ",".join(shape), ctx.find_object(ModelFiles))
    try:
        system_desc = api.load_board(words["arch"])
    except ValueError as error:
        raise InputProblem(str(error)) from error
    options = api.CompileOptions(
        words["data_format"],
        words["math_fidelity"] or ("" if words["numerics"] == "ttnn" else "HiFi4"),
        words["unsupported_types"],
        optimization_level=int(words["optimization_level"]),
        amp_level=int(words["amp_level"]),
        argument_types=_argument_types(words["argument_types"], words["optimization_level"], target),
        math_approx=words["math_approx"],
        dump_dir=str(words["dump_ir"]) if words["dump_ir"] else None,
        numerics=words["numerics"],
    )
    try:
        if words["mesh"] is not None:
            module = api.partitioned(module, words["mesh"])
        ir = api.stablehlo_to_ttir(module, options, system_desc)
        if target != "ttir":
            ir = api.ttir_to_ttnn(ir, system_desc, options)
        if target == "flatbuffer":
            data = api.ttnn_to_flatbuffer(ir, system_desc, options)
            path = output or _binary_of(file)
            if resolved(path) == resolved(file):
                raise InputProblem(f"{file}: expected another file for the binary, got the input itself; try -o")
            _write(path, data)
            click.echo(f"{path}: {len(data)} bytes for {system_desc.board}")
        else:
            _emit(to_text(ir), output)
    except (StageFailure, CompilerInputError) as error:
        _fail(file, error)


class _Opt(click.Command):
    """`--NAME` and `--NAME='x=1 y=2'` are `-p NAME` and `-p NAME{x=1 y=2}`, as tt-mlir's users write them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Rewrites those words, then reads the rest as usual."""
        return super().parse_args(ctx, [word for arg in args for word in _as_pipeline(arg)])


def _as_pipeline(arg: str) -> list[str]:
    arg = f"-{arg}" if re.fullmatch(r"-[a-z][a-z-]+(=.*)?", arg) else arg  # MLIR's tools take one dash too
    if arg in IGNORED:
        return []
    name, _, options = arg.lstrip("-").partition("=")
    if not arg.startswith("-") or name not in (*passes.names(), *PIPELINE_NAMES, *STABLEHLO_NAMES):
        return [arg]
    options = " ".join((options.strip("{}"), TT_MLIR_PASSES.get(name, ""))).strip()
    pairs = (option.partition("=") for option in options.split())
    quoted = " ".join(f"{key}={value}" if key == "named" else f'{key}="{value}"' for key, _, value in pairs)
    return ["-p", f"{name}{{{quoted}}}" if quoted else name]


@click.command(
    "opt",
    cls=_Opt,
    short_help="Run passes over StableHLO, ttir or ttnn.",
    epilog=f"Passes: {', '.join(passes.names())}. Options of a pass follow its name: name{{x=1}}. "
    f"Pipelines with the names of tt-mlir: {', '.join((*PIPELINE_NAMES, *STABLEHLO_NAMES))}. "
    "Each is also an option: --name, --name='x=1 y=2'.",
)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), default="-")
@click.option(
    "-p",
    "--pipeline",
    "pipelines",
    multiple=True,
    help="Passes, such as 'stablehlo-to-ttir,ttir-to-ttnn{board=\"n150\"}'; several -p run in their order.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; default: standard output.")
@click.option("--locations", "--mlir-print-debuginfo", is_flag=True, help="Print where each op came from.")
@click.option("--custom-form", is_flag=True, help="Print functions and order attributes as ttmlir-opt does.")
@click.option(
    "--split-input-file", "split", is_flag=True, help="FILE contains several modules, separated by lines '// -----'."
)
@click.option("--show-dialects", is_flag=True, help="List the dialects that are read, and end.")
def opt(file: Path, pipelines: tuple[str, ...], output: Path | None, split: bool, **form: bool) -> None:
    """Run passes over FILE (default: standard input): StableHLO in any form, or ttir or ttnn as generic text.

    Public functions keep their names. The output is generic text, which MLIR reads with unregistered dialects allowed.
    What tt-mlir itself emitted, as its executables hold it, is read without passes and printed as it stands.
    """
    if form.pop("show_dialects"):
        _emit("Available Dialects:\n" + "".join(f"{name}\n" for name in DIALECTS), output)
        return
    before = [name for name in pipelines if name in STABLEHLO_NAMES]
    rewriting = _Rewriting(file, before, [name for name in pipelines if name not in STABLEHLO_NAMES], **form)
    data = _read(file)
    failures: list[StageFailure | CompilerInputError] = []
    try:
        chosen, printed = rewriting.passes(), []
        for part in _parts(data) if split else [data]:
            try:
                printed.append(rewriting.printed(part, chosen))
            except (StageFailure, CompilerInputError) as error:
                failures.append(error)  # the modules after it are read all the same, as MLIR's tools do
        if not failures or (printed and output is None):
            _emit("// -----\n".join(printed), output)
    except CompilerInputError as error:
        failures.append(error)
    except click.ClickException:
        raise
    except Exception as error:
        raise _internal(file, error) from error
    problems = [_problem(file, error, legalising=rewriting.legalises) for error in failures]
    for problem in problems[:-1]:
        problem.show()
    if problems:
        raise problems[-1] from failures[-1]


@dataclass(frozen=True)
class _Rewriting:
    """What `opscope opt` does with each module of a file."""

    file: Path
    before: Sequence[str]
    """Passes over StableHLO that are jaxlib's."""
    pipelines: Sequence[str]
    """Passes of ours, which come after them."""
    locations: bool
    custom_form: bool

    @property
    def in_its_words(self) -> bool:
        """Whether what is asked for is a pipeline of tt-mlir's."""
        return any(name in ",".join((*self.before, *self.pipelines)) for name in (*NAMED, "named"))

    @property
    def legalises(self) -> bool:
        """Whether errors are worded as tt-mlir's."""
        return self.in_its_words or self.custom_form

    def passes(self) -> tuple[ModulePass, ...]:
        """The passes of ours. Raises CompilerInputError for one that there is not."""
        from opscope.compiler.pipelines import pipeline

        return pipeline.parse(",".join(self.pipelines)) if self.pipelines else ()

    def printed(self, part: bytes, chosen: tuple[ModulePass, ...]) -> str:
        """One module after all passes, as text. Raises StageFailure or CompilerInputError."""
        from opscope.compiler.ir import guard, text
        from opscope.compiler.ir.functions import modules
        from opscope.compiler.pipelines import pipeline

        emitted = _as_emitted(self.file, part, [*self.before, *self.pipelines])
        if emitted is not None:
            return emitted
        part, one_device = self._of_one_device(part)
        if not _is_ours(part) and (self.before or not self.pipelines):
            part = guard.rewritten(part, self.before).encode()
            if not self.pipelines:
                return part.decode()
        if _is_ours(part):
            module = text.parse(_decode(self.file, part), str(self.file))
        else:
            module = guard.read(part, True, quantised=self.in_its_words)
        for inner in modules(module):
            pipeline.run(chosen, inner)
        return text.to_text(module, self.locations, not self.custom_form, one_device)

    def _of_one_device(self, part: bytes) -> tuple[bytes, bool]:
        """The program of one device of a partitioned module, if passes ask for it, and whether it is another one."""
        from opscope.compiler.ir import device_program, guard

        asks = any(name.partition("{")[0] == device_program.NAME for name in self.pipelines)
        if asks and not _is_ours(part):
            program = device_program.device_program(part)
            return program, program is not part
        if self.in_its_words and device_program.MANUAL in part:
            return guard.rewritten(part, [device_program.NAME]).encode(), False
        return part, False


def _internal(file: Path, error: Exception) -> click.ClickException:
    """The end of `opt` for what no pass has foreseen: the verifier's first line, or an internal error."""
    from xdsl.utils.exceptions import VerifyException

    if isinstance(error, VerifyException):
        return InputProblem(f"{file}: {str(error).splitlines()[0]}")
    failure = StageFailure("opt", "module", f"internal error: {type(error).__name__}: {error}"[:300])
    for note in getattr(error, "__notes__", ()):
        failure.add_note(note)
    return _problem(file, failure)


def _parts(data: bytes) -> list[bytes]:
    """The modules of a file, each after as many empty lines as it has lines before: errors give lines of the file."""
    parts, line = [], 0
    for part in re.split(b"(" + _SPLIT.pattern + b")", data, flags=_SPLIT.flags):
        if not _SPLIT.fullmatch(part) and _COMMENT.sub(b"", part).strip():
            parts.append(b"\n" * line + part)
        line += part.count(b"\n")
    return parts


def _as_emitted(file: Path, data: bytes, asked: Sequence[str]) -> str | None:
    """What tt-mlir's own compiler emitted, read and printed back with its aliases and locations; None for other text.

    Raises CompilerInputError where passes are asked for: they are for modules of this compiler.
    """
    if data.startswith(b"ML\xefR") or b"ttcore.device_module" not in data:
        return None
    from opscope.compiler.tt_mlir import printer, reader

    words = _decode(file, data)
    if not reader.is_tt_mlir(words):
        return None
    if asked:
        raise CompilerInputError(
            f"expected no passes for what tt-mlir emitted, got: {', '.join(asked)}; try the StableHLO it was made of"
        )
    return printer.to_text(reader.read_tt_mlir(words, str(file)))


def _is_ours(data: bytes) -> bool:
    """Whether this is text with ops of ttir or ttnn, which comments may only speak of."""
    if data.startswith(b"ML\xefR"):
        return False
    code = _COMMENT.sub(b"", data)
    return b'"ttir.' in code or b'"ttnn.' in code


def _argument_types(words: str | None, level: str, target: str) -> tuple[str, ...]:
    """The types that --argument-types names. Raises InputProblem where it would change nothing, or for a word that is
    none."""
    from opscope.compiler.options import ARGUMENT_TYPES

    if words is None:
        return ()
    if level == "0" or target == "ttir":
        got = "--to ttir" if target == "ttir" else "--optimization-level 0"
        raise InputProblem(
            f"--argument-types: expected to be with --optimization-level 1 or 2 and a stage after ttir, got {got}; "
            "try --optimization-level 1"
        )
    types = tuple(words.split(","))
    if wrong := [word for word in types if word not in ARGUMENT_TYPES]:
        raise InputProblem(f"--argument-types: expected {', '.join(ARGUMENT_TYPES)}, got {wrong[0]!r}; try input,input")
    return types


def _binary_of(file: Path) -> Path:
    """`net.ttnn` of `net.mlir`, `net.fn.ttnn` of `net.mlir:fn`."""
    path, _, name = str(file).rpartition(":")
    return Path(path).with_suffix(f".{name}.ttnn") if path and not file.exists() else file.with_suffix(".ttnn")


def _model(file: Path, shape: str, files: ModelFiles | None) -> bytes:
    """The one module that FILE and --shape mean; without a reader, and of standard input, the bytes as they are."""
    if files is None or str(file) == "-":
        if shape:
            raise InputProblem(f"--shape: expected a file of a model, which `opscope compile` reads, got {file}")
        return _read(file)
    try:
        return files.read(str(file), shape or None)
    except ValueError as error:
        raise InputProblem(" ".join(str(error).split())) from error


def _read(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else regular_file.read_bytes(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputProblem(f"{path}: expected a readable StableHLO file, got: {reason}") from error


def _decode(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputProblem(f"{path}: expected UTF-8 text or MLIR bytecode, got other bytes") from error


def _emit(words: str, output: Path | None) -> None:
    if output is None:
        click.echo(words, nl=False)
    else:
        _write(output, words.encode())


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise InputProblem(
            f"{path}: expected a writable file, got: {(error.strerror or str(error)).lower()}"
        ) from error


def _fail(file: Path, error: StageFailure | CompilerInputError) -> NoReturn:
    raise _problem(file, error) from error


def _problem(file: Path, error: StageFailure | CompilerInputError, legalising: bool = False) -> click.ClickException:
    """Bad input exits with 2; an op that a stage refuses exits with 1, if `legalising` with tt-mlir's words, too."""
    line = " ".join(str(error).split())
    if isinstance(error, StageFailure):
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        if legalising:
            notes = f"\nerror: failed to legalize operation '{error.op}' that was explicitly marked illegal{notes}"
        return click.ClickException(f"{file}: {line} ({error.kind}){notes.replace('FILE', str(file))}")
    reason = re.search(r"got: (?:\S+:\d+:\d+: )?(.*)", line) if legalising else None
    return InputProblem(f"{file}: {line}" + (f"\nerror: {reason[1]}" if reason else ""))

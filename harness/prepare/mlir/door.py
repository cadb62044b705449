"""Loads StableHLO modules of every form into the one MLIR context of this process, and writes them back."""

from __future__ import annotations

import codecs
import functools
import io
import re
from pathlib import Path
from typing import Any

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _mlirHlo
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

from opscope.base import regular_file
from opscope.harness.prepare.mlir import foreign, ttir
from opscope.harness.record.errors import InputError


def artifact(blob: bytes, where: str) -> bytes:
    """The portable artifact in the bytes of `jax.export.export(...).serialize()`.

    Raises InputError where this JAX cannot read them (another program's bytes, or those of a newer JAX), or lacks the
    package by which it does.
    """
    import jax
    from jax import export

    try:
        return export.deserialize(bytearray(blob)).mlir_module_serialized
    except ImportError:
        needed = "flatbuffers, by which JAX reads its blobs"
        raise InputError(where, needed, "none", "pip install flatbuffers") from None
    except Exception as error:  # noqa: BLE001 - JAX reads bytes unchecked, so that anything may be raised
        expected = f"StableHLO, or a blob of jax.export that JAX {jax.__version__} reads"
        line = next(iter(str(error).splitlines()), "")
        got = f"bytes that begin {blob[:8].hex(' ')} ({type(error).__name__}: {line})"
        raise InputError(where, expected, got, "saving .mlir_module() of the exported model as text") from None


Module = ir.Module

MAGIC = b"ML\xefR"
"""First bytes of MLIR bytecode; a portable artifact continues with its producer, `StableHLO_v<version>`."""
_FORMS = "StableHLO as text, MLIR bytecode or portable artifact"
_EXPORT = "exporting the model to StableHLO"
_PRODUCER = re.compile(re.escape(MAGIC) + rb".{1,9}StableHLO_v(\d+\.\d+\.\d+)\0", re.DOTALL)
"""The start of a portable artifact: bytecode's version, then the producer."""
_FOREIGN = re.compile(r"unregistered dialect|is unknown|Dialect `[\w.]+' not found")
"""What MLIR's reader says of a dialect that it does not know."""


@functools.cache
def context() -> ir.Context:
    """The context of this process, with every dialect that jaxlib ships for its programs (stablehlo, chlo, vhlo,
    mhlo, func, sdy, quant, ...). Single-threaded: its modules are small, and lanes must not grow threads."""
    ctx = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    ctx.append_dialect_registry(registry)
    ctx.enable_multithreading(False)
    stablehlo.register_dialect(ctx)
    chlo.register_dialect(ctx)
    sdy.register_dialect(ctx)
    _mlirHlo.register_mhlo_dialect(ctx)  # without classes of its ops, which take long to import
    ctx.load_all_available_dialects()
    # jaxlib registers the quant dialect (types of quantised tensors) nowhere, but its artifact reader loads it.
    with ctx:
        empty = stablehlo.serialize_portable_artifact(ir.Module.parse("module {}"), stablehlo.get_minimum_version())
    stablehlo.deserialize_portable_artifact(ctx, empty)
    return ctx


def load(source: Module | str | bytes | Path, where: str = "") -> Module:
    """A module of this process's context, from a jaxlib module (of any context), text, bytes or a file's path.

    `where` names the source in errors. Raises InputError if it cannot be read: no such file, no MLIR, truncated,
    of an unknown dialect, or not valid.
    """
    if isinstance(source, ir.Module):
        return source if source.context is context() else parse(to_bytecode(source), where or "module")
    if isinstance(source, Path):
        where = where or str(source)
        try:
            return parse(regular_file.read_bytes(source), where, source)
        except OSError as error:
            raise InputError(where, "a readable file", error.strerror or str(error)) from error
    return parse(source, where or "module")


def parse(source: str | bytes, where: str = "module", path: Path | None = None) -> Module:
    """The module that `source` holds, as text, bytecode or portable artifact. Raises InputError (see `load`).

    With `path`, the file that `source` was read from, the ops of a text without locations of its own come from there.
    """
    data = source.encode() if isinstance(source, str) else source
    if not data.startswith(MAGIC) and MAGIC in data:
        data = artifact(data, where)
    if data.startswith(MAGIC):
        return _parse_bytecode(data, where)
    marked = data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-16" if marked else "utf-8")
    except UnicodeDecodeError as error:
        if data[: error.start].isascii() and b"\0" not in data and error.start:
            line = data.count(b"\n", 0, error.start) + 1
            raise InputError(where, _FORMS, f"text that is not UTF-8 in line {line}", "the file in UTF-8") from None
        raise InputError(where, _FORMS, f"bytes that begin {data[:8].hex(' ')}", "another file") from None
    if not text.strip():
        raise InputError(where, _FORMS, "an empty text" if not data else "blanks only", "another file")

    def read() -> Module:
        return (
            ir.Module.parse(text) if path is None or marked or not _is_unicode(path) else ir.Module.parseFile(str(path))
        )

    with context():
        try:
            return _in_stablehlo(read())
        except ir.MLIRError as error:
            try:
                if (readable := ttir.readable(text)) != text:
                    read = functools.partial(ttir.read, readable, str(path) if path and _is_unicode(path) else "")
                return _in_stablehlo(_without_foreign(read, where, error))
            except ir.MLIRError as second:
                first, refused = _refused(str(error), where, text), _refused(str(second), where, text)
                # Of one fault, the first reading knows the place in the user's own text.
                raise (first if first.got == refused.got else refused) from second


def artifact_with_other_dialects(module: bytes, version: str) -> bytes:
    """A portable artifact of a version, in which ops of other dialects, such as Shardy's, stay as they are.

    Raises ValueError for an op that the version lacks.
    """
    return stablehlo.serialize_portable_artifact(load(module), version, True)


def _without_foreign(read: foreign.Parse, where: str, error: Exception) -> Module:
    """What `read` returns while dialects that jaxlib lacks are allowed, without their attributes (foreign.py).

    Raises `error`, that of reading it without them, where no such dialect is the reason; MLIRError or ValueError where
    it cannot be read so either, InputError for an op of such a dialect.
    """
    if not _FOREIGN.search(str(error)):
        raise error
    try:
        return ir.Module.parse(foreign.settled(foreign.read_allowing(context(), lambda: ttir.inverted(read()))))
    except ttir.NoMeaningError as error:
        expected = "ops of ttir that have a meaning in StableHLO"
        raise InputError(f"{where}{error.place}", expected, str(error), "a module without it") from None
    except foreign.UnknownOp as op:
        got = f"the unknown dialect `{op.name.partition('.')[0]}` ({op.name})"
        raise InputError(f"{where}{op.place}", _FORMS, got, _EXPORT) from None


def _in_stablehlo(module: Module) -> Module:
    """The module; one in VHLO, the versioned form of StableHLO that a portable artifact holds, in StableHLO."""
    if any(op.operation.name.startswith("vhlo.") for op in module.body.operations):
        stablehlo.register_stablehlo_passes()
        passmanager.PassManager.parse("builtin.module(vhlo-legalize-to-stablehlo)").run(module.operation)
    return module


def _is_unicode(path: Path) -> bool:
    """Whether the name of a file is text: MLIR's bindings take no other."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_bytecode(data: bytes, where: str) -> Module:
    """The module in MLIR bytecode or a portable artifact."""
    notes: list[str] = []

    def note(diagnostic: Any) -> bool:
        notes.append(diagnostic.message)
        return True

    def read() -> Module:
        head, _, _ = data.partition(b"\0")  # up to the end of the producer's name
        if b"StableHLO_v" in head:
            return stablehlo.deserialize_portable_artifact(context(), data)
        return ir.Module.parse(data)

    handler: Any = context().attach_diagnostic_handler(note)
    try:
        with context():
            try:
                return _in_stablehlo(read())
            except (ir.MLIRError, ValueError) as error:
                first = ValueError("\n".join([*notes, str(error)]))
                notes.clear()
                return _in_stablehlo(_without_foreign(read, where, first))
    except (ir.MLIRError, ValueError) as error:
        refused = _refused("\n".join(notes) or str(error), where, None)
        if (newer := _newer(data)) is not None:
            ours = f"a portable artifact of StableHLO {stablehlo.get_current_version()} or older"
            got = f"one of {newer}, and {refused.got}"
            raise InputError(where, ours, got, "writing it for that version, or as text") from error
        raise refused from error
    finally:
        handler.detach()


def _newer(data: bytes) -> str | None:
    """The version of a portable artifact that is newer than this jaxlib's StableHLO."""
    match = _PRODUCER.match(data)
    ours = tuple(map(int, stablehlo.get_current_version().split(".")))
    return match[1].decode() if match and tuple(map(int, match[1].split(b"."))) > ours else None


def _refused(message: str, where: str, text: str | None) -> InputError:
    """The error for a module that MLIR's reader refused with `message`; `text` is None for bytecode."""
    at = re.search(r'error: "[^"]*":(\d+):(\d+): (.*)', message)
    line = at[3] if at else re.sub(r"^(Unable to parse[^\n]*|error:)\s*", "", message).strip().split("\n")[0]
    spot = f"{where}:{at[1]}:{at[2]}" if at and text is not None else where
    unknown = re.search(r"""Dialect `([\w.]+)' not found|`[!#]"?(\w+)"?<|dialect '([\w.]+)' is unknown""", message)
    if not unknown and "unregistered dialect" in message and text is not None and at:
        row = text.split("\n")[int(at[1]) - 1]
        unknown = re.search(r'"?([A-Za-z_]\w*)\.\w', row[int(at[2]) - 1 :]) or re.search(r'"(\w+)\.\w', row)
    if unknown:
        name = next(group for group in unknown.groups() if group)
        return InputError(spot, _FORMS, f"the unknown dialect `{name}`", _EXPORT)
    if text is None and "newer than" in line:
        return InputError(
            where, _FORMS, f"bytecode of a newer MLIR ({line})", "writing it for an older version, or as text"
        )
    if text is None:
        return InputError(where, _FORMS, f"truncated or damaged bytecode ({line})", "writing the file again")
    if not re.search(r"\b(module|func\.func|stablehlo\.)", text):
        return InputError(where, _FORMS, f"a text that is no MLIR ({text.strip()[:30]!r})", "another file")
    return InputError(spot, "valid StableHLO", line.rstrip())


def to_bytecode(module: Module) -> bytes:
    """`module` as MLIR bytecode, source locations included."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def stablehlo_version() -> str:
    """The newest version of StableHLO that jaxlib reads and writes."""
    return str(stablehlo.get_current_version())


def unread(module: bytes) -> str:
    """Why a module that another release has written cannot be read here; empty if it can."""
    try:
        load(module)
    except InputError as error:
        return error.got
    return ""


def portable(module: Module, version: str = "") -> bytes:
    """`module` as a portable artifact of the oldest version that this one still writes: what other compilers read.

    With `version`, it is one of that version, or of ours if that is newer, and ops of other dialects (`chlo`) stay.
    Raises ValueError for an op that the version lacks.
    """
    with module.context:
        if not version:
            return stablehlo.serialize_portable_artifact(module, stablehlo.get_minimum_version())
        older = stablehlo.get_smaller_version(version, stablehlo_version())
        return stablehlo.serialize_portable_artifact(module, older, allow_other_dialects=True)

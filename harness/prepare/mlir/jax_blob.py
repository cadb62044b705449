"""What `jax.export` serialises: a blob with the model's portable artifact and how JAX calls it."""

from __future__ import annotations

from opscope.harness.record.errors import InputError


def artifact(blob: bytes, where: str) -> bytes:
    """The portable artifact in the bytes of `jax.export.export(...).serialize()`.

    Raises InputError where this JAX cannot read them: another program's bytes, or those of a newer JAX.
    """
    import jax
    from jax import export

    try:
        return export.deserialize(bytearray(blob)).mlir_module_serialized
    except Exception as error:  # noqa: BLE001 - JAX reads bytes unchecked, so that anything may be raised
        expected = f"StableHLO, or a blob of jax.export that JAX {jax.__version__} reads"
        line = next(iter(str(error).splitlines()), "")
        got = f"bytes that begin {blob[:8].hex(' ')} ({type(error).__name__}: {line})"
        raise InputError(where, expected, got, "saving .mlir_module() of the exported model as text") from None

"""A model that lives in this process, a function or a module of a framework, as a StableHLO module with its values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import damage
from opscope.harness.record.errors import InputError

if TYPE_CHECKING:
    from opscope.models.frontends.base import ExportResult

_STABLEHLO = ("compiler_ir", "operation", "mlir_module_serialized")
"""Attributes of what JAX has lowered, of MLIR modules, of `jax.export` programs."""
CALL = "run_op_by_op(model, *example_inputs)"


def is_live(module: object) -> bool:
    """Whether an object is a model to be exported, not StableHLO in any of its forms."""
    if isinstance(module, str | bytes | Path) or any(hasattr(module, name) for name in _STABLEHLO):
        return False
    return callable(module) or _is_torch_program(module)


def exported(model: Any, inputs: Sequence[Any], name: str) -> ExportResult:
    """The model on its example inputs as the exporter of a user's file makes it, in this process.

    `inputs` are arrays, or trees of arrays, in the order in which the model takes them. Raises InputError where there
    are none, else what the framework raises.
    """
    from opscope.models.frontends.base import Source
    from opscope.models.frontends.python import FRONTEND
    from opscope.models.frontends.through_python.convert import convert
    from opscope.models.frontends.through_python.load import Loaded, input_names

    if _is_torch_program(model):
        model, inputs = model.module(), inputs or model.example_inputs[0]
    if not inputs:
        raise InputError("run_op_by_op", "example inputs after the model", "none", CALL)
    loaded = Loaded(model, dict(zip(input_names(model, len(inputs)), inputs, strict=True)), positional=True)
    result = FRONTEND.export(convert(loaded), Source(name, "", "float32", training=False))
    for note in result.notes:
        damage.say(f"{name}: {note}")
    return result


def name_of(model: Any) -> str:
    """What a model is called: its function, or its class; empty if it has no name."""
    own = getattr(model, "__name__", "") or type(model).__name__
    return own if own.isidentifier() else ""


def save_values(result: ExportResult, file: Path) -> None:
    """Writes the values of all arguments as an .npz file by the names that a StableHLO file's arguments have. Raises
    OSError."""
    import numpy as np

    values = {f"arg{index}": result.values[spec.name] for index, spec in enumerate(result.arguments)}
    with file.open("wb") as stream:
        np.savez(stream, **values)


def _is_torch_program(module: object) -> bool:
    """Whether an object is what `torch.export.export` returns."""
    return type(module).__module__.startswith("torch.export") and hasattr(module, "module")

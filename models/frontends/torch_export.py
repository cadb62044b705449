"""A PyTorch module as StableHLO by `torch.export` and torch-mlir, its weights as arguments. Imports both."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from opscope.models.arguments import ArgSpec
from opscope.models.frontends.torch_eager import wide
from opscope.models.frontends.torch_mlir_text import NotLowered, through_pipelines
from opscope.models.frontends.torch_modules import Called

if TYPE_CHECKING:
    from opscope.models.frontends.torch import TorchBuilt


PIPELINES = (
    "func.func(torch-match-quantized-custom-ops)",
    "torchdynamo-export-to-torch-backend-pipeline",
    "torch-backend-to-stablehlo-backend-pipeline",
)


class _Whole(torch.nn.Module):
    """A module that takes its weights, then its inputs, as arguments in order."""

    def __init__(self, called: Called, names: Sequence[str]) -> None:
        super().__init__()
        self._held = [called]  # in a list it is no part of this module, whose parts would be no arguments
        self._names = names

    def forward(self, *values: torch.Tensor) -> tuple[Any, ...]:
        """The results."""
        weights = {f"module.{name}": value for name, value in zip(self._names, values, strict=False)}
        inputs = tuple(wide(value) for value in values[len(self._names) :])
        return torch.func.functional_call(self._held[0], weights, inputs)


def lower(module: torch.nn.Module, built: TorchBuilt, weights: Sequence[ArgSpec], names: Sequence[str]) -> bytes:
    """Returns the bytecode of a module in eval mode; `main` takes `weights`, whose names in PyTorch are `names`, then
    the inputs of `built`.

    No argument takes memory. Raises NotLowered for what torch-mlir lacks, and what `torch.export` and the module raise.
    """
    with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()):
        arguments = tuple(torch.empty(s.shape, dtype=getattr(torch, s.dtype)) for s in (*weights, *built.inputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        program = torch.export.export(_Whole(Called(module, built), names), arguments, strict=False)
        return _lowered(program)


def _lowered(program: Any) -> bytes:
    """The bytecode of what `torch.export` made."""
    from torch_mlir import fx

    try:
        module = fx.export_and_import(program, output_type="raw", func_name="main").operation
    except Exception as error:  # its importer asserts what it takes, and raises whatever its parts raise
        why = str(error).strip().split("\n")[0] or "no reason given"
        raise NotLowered(f"torch-mlir's importer: {type(error).__name__}: {why}"[:300]) from error
    return _converted(through_pipelines(module, PIPELINES))


def _converted(bytecode: bytes) -> bytes:
    """The module with each single number in the type that it is converted to: Python's have 64 bits in torch-mlir's."""
    from jax.extend.mlir import ir
    from jax.interpreters import mlir

    from opscope.base.quantised.dequantised import ops_of

    with mlir.make_ir_context():
        module = ir.Module.parse(bytecode)
        for op in ops_of(module.operation):
            if op.name != "stablehlo.convert":
                continue
            chain = [op]
            while isinstance(made_by := chain[-1].operands[0].owner, ir.Operation | ir.OpView):
                chain.append(made_by)
                if made_by.name not in ("stablehlo.reshape", "stablehlo.broadcast_in_dim"):
                    break
            if not chain[-1].name.endswith(".constant"):
                continue
            value, kind = chain[-1].attributes["value"], op.results[0].type
            if str(value.type.element_type) not in ("f64", "i64") or not value.is_splat:
                continue
            number, wanted = value.get_splat_value().value, kind.element_type
            whole = isinstance(wanted, ir.IntegerType)
            if whole and not (isinstance(number, int) and abs(number) < 1 << (wanted.width - 1)):
                continue
            with ir.InsertionPoint(op), op.location:
                element = ir.IntegerAttr.get(wanted, number) if whole else ir.FloatAttr.get(wanted, float(number))
                same = {"value": ir.DenseElementsAttr.get_splat(kind, element)}
                one = ir.Operation.create("stablehlo.constant", [kind], [], same)
            op.results[0].replace_all_uses_with(one.results[0])
            for each in chain:
                if not list(each.results[0].uses):
                    each.erase()
        file = io.BytesIO()
        module.operation.write_bytecode(file)
    return file.getvalue()

"""A custom call that stands for a composite, `@tenstorrent.rms_norm`: XLA has no function behind it, a formula is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opscope.harness.formulas import attributes
from opscope.harness.formulas.nearest import rounded
from opscope.harness.formulas.table import FORMULAS
from opscope.harness.prepare import mlir
from opscope.harness.prepare.mlir import named_calls
from opscope.harness.prepare.pjrt.client import Client, Executable, TensorType
from opscope.harness.record.element_types import numpy_dtype


class FormulaExecutable(Executable):
    """Computes a formula in float64 and rounds it once, on the host."""

    def __init__(self, client: Client, formula: str, given: dict[str, Any], results: Sequence[TensorType]) -> None:
        super().__init__(None, client, results)
        self._formula, self._given, self._made = FORMULAS[formula].exact, given, results

    def run(self, buffers: Sequence[Any]) -> list[Any]:
        """The results as buffers. Raises ClientError for operands that the formula does not take."""
        operands = [self.client.view(each).astype(np.float64) for each in buffers]
        try:
            with np.errstate(all="ignore"):
                made = self._formula(*operands, **self._given)
        except (TypeError, ValueError, IndexError) as error:
            raise self.client.refusal(error) from error
        several = made if isinstance(made, list) else [made]
        if [each.shape for each in several] != [tuple(kind.shape) for kind in self._made]:
            raise self.client.refusal(ValueError(f"expected results of the formula's shapes, got {self._made}"))
        pairs = zip(several, self._made, strict=True)
        return [self.client.put(rounded(each, np.dtype(kind.dtype))) for each, kind in pairs]


def of_module(module: mlir.Module, client: Callable[[], Client]) -> FormulaExecutable | None:
    """What computes a module whose one op is such a call; None of any other, or with attributes that none knows."""
    called = named_calls.alone(module)
    known = None if called is None else attributes.of_composite(called[0])
    if called is None or known is None or not all(desc.data_type.startswith(("f", "bf")) for desc in called[1]):
        return None
    results = [TensorType(tuple(desc.shape), numpy_dtype(desc.data_type)) for desc in called[1]]
    return FormulaExecutable(client(), *known, results)

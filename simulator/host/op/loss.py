"""Loss modules: predictions and labels -> a loss, in TT-Buda's ops."""

from __future__ import annotations

from typing import Any

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.modules.py_buda_module import PyBudaModule
from opscope.simulator.host.op.eltwise_binary import Multiply, Subtract
from opscope.simulator.host.op.eltwise_unary import Abs
from opscope.simulator.host.op.nn import LogSoftmax
from opscope.simulator.host.op.reduce import ReduceAvg, ReduceSum

REDUCTIONS = ("none", "avg", "sum")


class CrossEntropyLoss(PyBudaModule):
    """The cross entropy of softmax(predictions) and labels, which are probabilities of the same shape.

    It is summed over the last dimension (classes) and averaged over the one before.
    """

    def forward(self, predictions: Any, labels: Any) -> Any:
        """Returns the loss, with a 1 in place of both dimensions."""
        logarithms = LogSoftmax("log_softmax", predictions, dim=-1)
        per_class = Multiply("word_losses", Multiply("minus", logarithms, -1.0), labels)
        return ReduceAvg("avg_sequence_loss", ReduceSum("token_losses", per_class, -1), -2)


class L1Loss(PyBudaModule):
    """|labels - predictions|, averaged or summed over the last two dimensions, or of each element."""

    def __init__(self, name: str, reduction: str = "avg") -> None:
        super().__init__(name)
        if reduction not in REDUCTIONS:
            raise PyBudaError(f"{name}: reduction: expected one of {', '.join(REDUCTIONS)}, got {reduction!r}")
        self.reduction = reduction

    def forward(self, prediction: Any, labels: Any) -> Any:
        """Returns the loss."""
        distance = Abs("abs", Subtract("sub", prediction, labels))
        if self.reduction == "none":
            return distance
        reduce = ReduceAvg if self.reduction == "avg" else ReduceSum
        return reduce("c_reduce", reduce("r_reduce", distance, -2), -1)

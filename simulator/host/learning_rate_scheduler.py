"""The base of a user's learning rate schedule."""

from __future__ import annotations

from typing import Any

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.optimizers import Optimizer


class LearningRateScheduler:
    """Gives its optimizer a new learning rate at each step; a subclass says which, in `get_lr`."""

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise PyBudaError(f"{type(self).__name__}: expected an optimizer of pybuda, got {type(optimizer).__name__}")
        self.optimizer = optimizer
        self.torch_scheduler: Any = None
        """The schedule of `get_pytorch_scheduler`, once it was asked for."""

    def get_lr(self) -> float:
        """Returns the next learning rate. Raises PyBudaError where no subclass says which."""
        raise PyBudaError(f"{type(self).__name__}.get_lr: expected a method of yours, got none")

    def get_scheduler_params(self) -> dict[str, Any]:
        """Returns what the schedule reads of the optimizer; none by default."""
        return {}

    def step(self) -> None:
        """Sets the optimizer's learning rate to the next one."""
        self.optimizer.set_optimizer_parameters(learning_rate=self.get_lr())

    def get_pytorch_scheduler(self, optimizer: Any) -> Any:
        """Returns the same schedule for an optimizer of PyTorch's; a subclass says which."""
        from opscope.simulator.host.submodules.torch_schedulers import TorchLearningRateScheduler

        if self.torch_scheduler is None:
            self.torch_scheduler = TorchLearningRateScheduler(optimizer=optimizer)
        return self.torch_scheduler

"""Schedules of PyTorch's optimizers, which those of devices are compared with. Imports torch."""

from __future__ import annotations

from typing import Any

import torch

from opscope.simulator.host.errors import PyBudaError


class TorchLearningRateScheduler(torch.optim.lr_scheduler.LRScheduler):
    """Gives a PyTorch optimizer new learning rates at each step; a subclass says which, in `get_lr`."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.base_lrs = [group["lr"] for group in optimizer.param_groups]
        self.last_epoch = 0

    def get_lr(self) -> list[float]:
        """Returns the next learning rate of each group. Raises PyBudaError where no subclass says which."""
        raise PyBudaError(f"{type(self).__name__}.get_lr: expected a method of yours, got none")

    def step(self, epoch: Any = None) -> None:
        """Sets the next learning rates."""
        self.last_epoch += 1
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = rate

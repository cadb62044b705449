"""What PyTorch trains a CPU device with in a verification: an optimizer and a loss. Imports torch."""

from __future__ import annotations

from typing import Any

import torch

from opscope.simulator.host.optimizers import SGD, Adam


class TorchSumOfL1(torch.nn.Module):
    """The L1 losses of all outputs, added."""

    def forward(self, *values: Any) -> Any:
        """Returns the sum; behind the outputs come their targets."""
        half = len(values) // 2
        pairs = zip(values[:half], values[half:], strict=True)
        return sum(torch.nn.functional.l1_loss(output, target) for output, target in pairs)


def optimizer_like(described: SGD | Adam, module: Any) -> Any:
    """Returns PyTorch's optimizer of a module's parameters, with the hyperparameters of `described`."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if isinstance(described, SGD):
        return torch.optim.SGD(parameters, lr=described.learning_rate)
    kind = torch.optim.AdamW if described.enable_adam_w else torch.optim.Adam
    return kind(
        parameters,
        lr=described.learning_rate,
        betas=(described.beta1, described.beta2),
        eps=described.epsilon,
        weight_decay=described.weight_decay,
    )

"""Trains a PyTorch module with a PyTorch loss on two cards, three steps, and compares with PyTorch's own training."""

from __future__ import annotations

import copy

import numpy as np
import pybuda
import torch
from torch import nn

torch.manual_seed(0)
first, second = nn.Sequential(nn.Linear(32, 64), nn.Dropout(0.5), nn.Tanh()), nn.Linear(64, 32)
mine = copy.deepcopy(nn.Sequential(first, second)).eval()  # a card trains in eval mode: without dropout
before = mine[1].weight.detach().clone()
inputs = torch.randn(6, 1, 32, 32)
targets = torch.tanh(inputs.flip(-1))

pybuda.set_configuration_options(accumulate_df=pybuda.DataFormat.Float32, math_fidelity=pybuda.MathFidelity.HiFi4)
cards = []
for number, module in enumerate((first, second)):
    card = pybuda.TTDevice(
        f"tt{number}",
        arch=pybuda.BackendDevice.Wormhole_B0,
        fp32_fallback=pybuda.DataFormat.Float32,
        optimizer=pybuda.optimizers.SGD(learning_rate=0.5, device_params=True),
        module=pybuda.PyTorchModule(f"part{number}", module),
    )
    cards.append(card)
cards[1].place_loss_module(pybuda.PyTorchModule("loss", nn.MSELoss()))
for x, y in zip(inputs, targets, strict=True):
    cards[0].push_to_inputs(x)
    cards[1].push_to_target_inputs(y)
pybuda.run_training(epochs=1, steps=3, accumulation_steps=1, microbatch_count=2, _sequential=True)

optimizer = torch.optim.SGD(mine.parameters(), lr=0.5)
for step in range(3):
    optimizer.zero_grad()
    for number in (2 * step, 2 * step + 1):
        nn.functional.mse_loss(mine(inputs[number]), targets[number]).backward()
    optimizer.step()

named = {f"part{i}.{name}": value for i, part in enumerate(mine) for name, value in part.named_parameters()}
trained = {
    f"part{i}.{name}": value for i, part in enumerate((first, second)) for name, value in part.named_parameters()
}
apart = max((named[name] - trained[name]).abs().max().item() for name in named)
print("largest difference", apart)
assert apart < 2e-3 < 0.02 < (second.weight - before).abs().max().item(), apart

# PyTorch's own gradients of the wrapper, on the CPU.
wrapper = pybuda.PyTorchModule("own", nn.Linear(4, 2))
(output,) = wrapper.forward(torch.ones(3, 4))
wrapper.backward([(output, torch.ones(3, 2))])
assert np.allclose(wrapper.module.bias.grad, 3)

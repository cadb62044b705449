"""CPU devices train with PyTorch, beside cards with and without an optimizer: numbers are PyTorch's own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from opscope import pybuda
from opscope.simulator.host.errors import PyBudaError

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")
if find_spec("torchax") is None:
    pytest.skip("torchax is not here", allow_module_level=True)
WORMHOLE = pybuda.BackendDevice.Wormhole_B0
RATE = 0.5


def network(seed: int) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Linear(32, 32)


def batch(seed: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(1, 32, 32, generator=generator), torch.rand(1, 32, 32, generator=generator)


def pipeline(first: Any, second: Any, optimized: bool) -> tuple[Any, Any]:
    """A card with the first module, the CPU with the second and the loss."""
    pybuda.set_configuration_options(accumulate_df=pybuda.DataFormat.Float32, math_fidelity=pybuda.MathFidelity.HiFi4)
    sgd = pybuda.optimizers.SGD(learning_rate=RATE, device_params=True) if optimized else None
    card = pybuda.TTDevice("tt0", arch=WORMHOLE, optimizer=sgd, fp32_fallback=pybuda.DataFormat.Float32)
    card.place_module(pybuda.PyTorchModule("first", first))
    cpu = pybuda.CPUDevice(
        "cpu1",
        optimizer_f=(lambda module: torch.optim.SGD(module.parameters(), lr=RATE)) if optimized else None,
        scheduler_f=(lambda sgd: torch.optim.lr_scheduler.ExponentialLR(sgd, 0.1)) if optimized else None,
        module=pybuda.PyTorchModule("second", second),
    )
    cpu.place_loss_module(pybuda.PyTorchModule("loss", torch.nn.L1Loss()))
    x, y = batch(0)
    pybuda.initialize_pipeline(training=True, sample_inputs=(x,), sample_targets=(y,))
    return card, cpu


def forward_and_backward(card: Any, cpu: Any, seed: int) -> None:
    x, y = batch(seed)
    card.push_to_inputs(x)
    cpu.push_to_target_inputs(y)
    pybuda.run_forward()
    pybuda.run_backward(zero_grad=True)


def reference(seed: int) -> tuple[Any, Any, Any]:
    """The same two modules, with gradients of one batch."""
    first, second = network(1), network(2)
    x, y = batch(seed)
    loss = torch.nn.functional.l1_loss(second(first(x)), y)
    loss.backward()
    return first, second, loss


def near(value: Any, wanted: Any) -> bool:
    return bool(np.allclose(np.asarray(value.value()), wanted.detach().numpy(), atol=2e-3, rtol=0.05))


def test_gradients_and_steps_are_pytorchs() -> None:
    first, second = network(1), network(2)
    card, cpu = pipeline(first, second, optimized=True)
    forward_and_backward(card, cpu, 5)
    want_first, want_second, loss = reference(5)
    assert near(pybuda.get_loss_queue().get(), loss)
    of_card, of_cpu = pybuda.get_parameter_gradients()
    assert near(of_cpu["weight"], want_second.weight.grad)
    assert near(of_card["weight"], want_first.weight.grad)
    pybuda.run_optimizer(checkpoint=True)
    for module, want in ((first, want_first), (second, want_second)):
        torch.optim.SGD(want.parameters(), lr=RATE).step()
        assert torch.allclose(module.weight, want.weight, atol=2e-3)
    pybuda.run_schedulers()
    (optimizer,) = cpu.training.optimizers
    assert optimizer.param_groups[0]["lr"] == pytest.approx(RATE / 10)
    assert cpu.training.optimizer_state()["weight"]["lr"] == np.float32(RATE / 10)


def test_a_host_trains_a_card_without_an_optimizer() -> None:
    first, second = network(1), network(2)
    card, cpu = pipeline(first, second, optimized=False)
    forward_and_backward(card, cpu, 5)
    (gradients,), (parameters,) = pybuda.get_parameter_gradients(card), pybuda.get_parameter_checkpoint(card)
    for name in gradients:
        parameters[name].value().grad = gradients[name].value()
    torch.optim.SGD([parameters[name].value() for name in gradients], lr=RATE).step()
    before = first.weight.detach().clone()
    pybuda.run_optimizer()
    assert torch.equal(first.weight, before)
    pybuda.update_device_parameters(card, [parameters])
    want, _, _ = reference(5)
    torch.optim.SGD(want.parameters(), lr=RATE).step()
    assert torch.allclose(first.weight, want.weight, atol=2e-3)
    forward_and_backward(card, cpu, 6)


def test_what_fails_on_one_device_has_happened_on_none() -> None:
    first, second = network(1), network(2)
    card, cpu = pipeline(first, second, optimized=True)
    x, y = batch(5)
    card.push_to_inputs(x)
    cpu.push_to_target_inputs(y)
    pybuda.run_forward()
    kept = card.training.run_pass

    def fails(*_: Any) -> Any:
        raise PyBudaError("tt0: expected to run, got an error")

    card.training.run_pass = fails
    with pytest.raises(PyBudaError, match="tt0: expected to run"):
        pybuda.run_backward(zero_grad=True)
    card.training.run_pass = kept
    pybuda.run_backward(zero_grad=True)
    _, want, _ = reference(5)
    assert near(pybuda.get_parameter_gradients(cpu)[0]["weight"], want.weight.grad)


def test_a_cpu_compiles_and_refuses_in_one_line() -> None:
    cpu = pybuda.CPUDevice("cpu0", module=pybuda.PyTorchModule("m", network(1)))
    (out,) = cpu.compile_for((pybuda.Tensor((1, 32, 32)),), None)
    assert out.shape == (1, 32, 32)
    with pytest.raises(PyBudaError, match="cpu0: expected a loss module for targets"):
        cpu.compile_for((torch.rand(1, 32, 32),), None, targets=[torch.rand(1, 32, 32)])
    cpu.place_loss_module(pybuda.PyTorchModule("loss", torch.nn.L1Loss()))
    (loss,) = cpu.compile_for((torch.rand(1, 32, 32),), None, targets=[torch.rand(1, 32, 32)])
    assert loss.shape == ()
    with pytest.raises(PyBudaError, match="expected an optimizer_f with a scheduler_f, got none"):
        pybuda.CPUDevice("cpu1", scheduler_f=lambda optimizer: optimizer)
    with pytest.raises(PyBudaError, match="optimizer_f: expected a function, got 1"):
        pybuda.CPUDevice("cpu2", optimizer_f=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("on_a_card", [True, False], ids=["card", "cpu"])
def test_numbers_of_classes_come_as_floats_or_as_integers(on_a_card: bool) -> None:
    device: Any = pybuda.TTDevice("d", arch=WORMHOLE) if on_a_card else pybuda.CPUDevice("d")
    device.place_module(pybuda.PyTorchModule("m", network(1)))
    device.place_loss_module(pybuda.PyTorchModule("loss", torch.nn.CrossEntropyLoss()))
    x, classes = batch(0)[0], torch.arange(32).remainder(5).expand(1, 32)
    pybuda.initialize_pipeline(training=True, sample_inputs=(x,), sample_targets=(torch.zeros(1, 32),))
    losses = []
    for targets in (classes, classes.float()):
        device.push_to_inputs(x)
        device.push_to_target_inputs(targets)
        pybuda.run_forward()
        losses.append(pybuda.get_loss_queue().get().value().item())
    assert losses[0] == losses[1]
    expected = torch.nn.functional.cross_entropy(network(1)(x), classes).item()
    assert losses[0] == pytest.approx(expected, rel=2e-2)

"""Forward, backward and optimizer as three programs, against JAX's own gradient and optax."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from opscope.simulator.host.optimizers import SGD, AdamW, Optimizer
from opscope.simulator.host.training.passes import Pass
from opscope.simulator.host.training.training_device import Run, TrainingDevice

BATCH = 6


def compiled(one: Pass) -> Run:
    """A pass as XLA runs it."""
    return jax.jit(one.built.forward)


def mlp(weights: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    x, target = inputs
    hidden = jnp.tanh(x @ weights["up"] + weights["bias"]) * weights["scale"]
    return [jnp.mean((hidden @ weights["down"] - target) ** 2)]


def body(weights: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    return [jnp.tanh(inputs[0] @ weights["up"] + weights["bias"])]


def head(weights: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    picked = jnp.take_along_axis(jax.nn.log_softmax(inputs[0] @ weights["down"]), inputs[1][:, None], 1)
    return [-jnp.mean(picked)]


def arrays(seed: int = 0) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    random = np.random.default_rng(seed)
    shapes = {"up": (5, 8), "bias": (8,), "scale": (), "down": (8, 3)}
    weights = {name: np.asarray(random.normal(size=shape), np.float32) for name, shape in shapes.items()}
    return weights, [np.asarray(random.normal(size=(BATCH, n)), np.float32) for n in (5, 3)]


def device(
    function: Callable[..., Any],
    weights: Mapping[str, np.ndarray],
    inputs: Sequence[np.ndarray],
    trained: Sequence[str],
    optimizer: Optimizer | None = None,
    **options: Any,
) -> TrainingDevice:
    optimizer = optimizer or SGD(0.1, device_params=True)
    return TrainingDevice("d", function, weights, trained, inputs, optimizer, compiled, **{"loss": True, **options})


@pytest.mark.parametrize(
    "recompute",
    # quick: test_gradients_go_from_device_to_device, which keeps what backward reads
    [pytest.param(False, marks=pytest.mark.slow), True],
)
def test_gradients_are_those_of_jax(recompute: bool) -> None:
    weights, inputs = arrays()
    trained = ("up", "bias", "down")
    one = device(mlp, weights, inputs, trained, recompute=recompute)
    [loss] = one.forward(inputs)
    back = one.backward(zero_grad=True)

    def whole(varied: Any, x: Any, target: Any) -> Any:
        return mlp({**weights, **varied}, [x, target])[0]

    both = jax.jit(jax.value_and_grad(whole, argnums=(0, 1, 2)))
    value, expected = both({n: weights[n] for n in trained}, *inputs)
    np.testing.assert_allclose(loss, value, rtol=1e-6)
    assert set(one.gradients()) == set(trained)
    for name in trained:
        np.testing.assert_allclose(one.gradients()[name], expected[0][name], rtol=1e-5, atol=1e-6)
    for i in range(2):
        np.testing.assert_allclose(back[i], expected[1 + i], rtol=1e-5, atol=1e-6)
    kept = [name for name in one.forward_pass.results if name.startswith("kept.")]
    assert bool(kept) != recompute
    read = {spec.name for spec in one.backward_pass.built.arguments}
    assert {"parameter.down", "input.0"} <= read
    assert ("parameter.bias" in read) == recompute


@pytest.mark.slow
def test_microbatches_add_up_to_one_batch() -> None:
    """Four microbatches forward, then four backward: the mean of their gradients is that of the whole batch."""
    weights, inputs = arrays()
    names = list(weights)
    random = np.random.default_rng(1)
    parts = [[np.asarray(random.normal(size=v.shape), np.float32) for v in inputs] for _ in range(4)]
    one = device(mlp, weights, inputs, names)
    for part in parts:
        one.forward(part)
    with pytest.raises(RuntimeError, match="every microbatch to have run backward, got 4 that wait"):
        one.step()
    for i, _ in enumerate(parts):
        one.backward(zero_grad=i == 0)
    batch = [np.concatenate([part[i] for part in parts]) for i in range(2)]
    whole = device(mlp, weights, batch, names)
    whole.forward(batch)
    whole.backward()
    for name in names:
        np.testing.assert_allclose(one.gradients()[name] / 4, whole.gradients()[name], rtol=1e-4, atol=1e-6)
    before = one.gradients()
    one.forward(parts[0])
    one.backward(zero_grad=True)
    assert not np.allclose(one.gradients()["up"], before["up"])
    with pytest.raises(RuntimeError, match="expected a microbatch that has run forward, got none"):
        one.backward()


@pytest.mark.slow
def test_three_steps_of_adamw_are_those_of_optax() -> None:
    weights, inputs = arrays()
    trained = ("up", "bias", "scale", "down")
    one = device(mlp, weights, inputs, trained, AdamW(0.01, device_params=True))
    peer, expected = optax.adamw(0.01, weight_decay=0.01), jax.tree.map(jnp.asarray, weights)
    kept = peer.init(expected)

    @jax.jit
    def step(weights: Any, state: Any) -> tuple[Any, Any]:
        update, state = peer.update(jax.grad(lambda w: mlp(w, inputs)[0])(weights), state, weights)
        return optax.apply_updates(weights, update), state

    for _ in range(3):
        one.forward(inputs)
        one.backward(zero_grad=True)
        one.step()
        expected, kept = step(expected, kept)
    for name, value in one.checkpoint().items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-6)
        assert not np.allclose(value, weights[name])


def test_gradients_go_from_device_to_device() -> None:
    """A pipeline of two: the second holds the loss and takes labels, which have no gradient."""
    weights, (x, _) = arrays()
    labels = np.arange(BATCH, dtype=np.int32) % 3
    first = device(body, {n: weights[n] for n in ("up", "bias")}, [x], ("up", "bias"), loss=False)
    [hidden] = first.forward([x])
    second = device(head, {"down": weights["down"]}, [np.asarray(hidden), labels], ("down",))
    [loss] = second.forward([np.asarray(hidden), labels])
    back = second.backward()
    assert list(back) == [0]
    first.backward([back[0]])

    def whole(varied: Any) -> Any:
        return head(varied, [body(varied, [x])[0], labels])[0]

    value, expected = jax.jit(jax.value_and_grad(whole))({n: weights[n] for n in ("up", "bias", "down")})
    np.testing.assert_allclose(loss, value, rtol=1e-6)
    for name, own in (first.gradients() | second.gradients()).items():
        np.testing.assert_allclose(own, expected[name], rtol=1e-5, atol=1e-6)


def test_weights_can_be_replaced_and_are_checked() -> None:
    weights, inputs = arrays()
    one = device(mlp, weights, inputs, ["up"])
    one.update({"down": np.zeros((8, 3))})
    assert not one.checkpoint()["down"].any()
    for wrong, message in (
        ({"down": np.zeros(3)}, r"expected shape \[8, 3\], got \[3\]"),
        ({"x": 1.0}, "got none of that"),
    ):
        with pytest.raises(ValueError, match=message):
            one.update(wrong)
    with pytest.raises(ValueError, match="expected parameters that require a gradient, got none"):
        device(mlp, weights, inputs, [], input_gradients=False)

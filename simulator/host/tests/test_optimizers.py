"""Each optimizer's rule against optax on equal gradients, over several steps and shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from opscope.base.tests.covered import covered
from opscope.compiler.tests import programs
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.learning_rate_scheduler import LearningRateScheduler
from opscope.simulator.host.optimizers import LAMB, LARS, SGD, Adam, AdamW, Optimizer

STEPS = 3
RATE = 0.03
SHAPES = ((7, 5), ())


def peer_without_debiasing(weight_decay: float, low: float, high: float) -> optax.GradientTransformation:
    """LAMB as TT-Buda has it by default, out of optax's own parts: means keep their bias, the ratio is clipped."""
    mean, square = optax.ema(0.9, debias=False), optax.ema(0.999, debias=False)

    def init(weights: Any) -> Any:
        return mean.init(weights), square.init(weights)

    def update(gradients: Any, state: Any, weights: Any = None) -> Any:
        m, first = mean.update(gradients, state[0])
        v, second = square.update(gradients**2, state[1])
        step = m / (jnp.sqrt(v) + 1e-8) + weight_decay * weights
        scaled, _ = optax.scale_by_trust_ratio().update(step, optax.EmptyState(), weights)
        ratio = jnp.clip(scaled / step, low, high)
        return -RATE * ratio * step, (first, second)

    return optax.GradientTransformation(init, update)


def peer_of_lars(weight_decay: float, momentum: float) -> optax.GradientTransformation:
    """LARS after its paper, whose norm is that of the gradient alone: optax.lars adds the decay before it is taken."""
    trace = optax.trace(momentum)

    def update(gradients: Any, state: Any, weights: Any = None) -> Any:
        size = jnp.linalg.norm(jnp.ravel(weights))
        by_ratio = optax.scale_by_trust_ratio(trust_coefficient=0.01, eps=weight_decay * size + 1e-8)
        scaled, _ = by_ratio.update(gradients, optax.EmptyState(), weights)
        local = scaled / gradients
        return trace.update(-RATE * local * (gradients + weight_decay * weights), state)

    return optax.GradientTransformation(trace.init, update)


CASES: dict[str, tuple[Callable[[], Optimizer], optax.GradientTransformation]] = {
    "sgd": (lambda: SGD(RATE, device_params=True), optax.sgd(RATE)),
    "adam": (lambda: Adam(RATE, device_params=True), optax.adam(RATE)),
    "adam-l2": (
        lambda: Adam(RATE, weight_decay=0.1, device_params=True),
        optax.chain(optax.add_decayed_weights(0.1), optax.scale_by_adam(), optax.scale(-RATE)),
    ),
    "adamw": (lambda: AdamW(RATE, weight_decay=0.1, device_params=True), optax.adamw(RATE, weight_decay=0.1)),
    "adam-enable-adam-w": (
        lambda: Adam(RATE, 0.8, 0.99, weight_decay=0.1, device_params=True, enable_adam_w=True),
        optax.adamw(RATE, 0.8, 0.99, weight_decay=0.1),
    ),
    "lamb": (
        lambda: LAMB(RATE, weight_decay=0.1, correction=True, clip_value=(0, 1e6), device_params=True),
        optax.lamb(RATE, eps=1e-8, weight_decay=0.1),
    ),
    "lamb-biased": (
        lambda: LAMB(RATE, weight_decay=0.1, clip_value=(0.2, 0.6), device_params=True),
        peer_without_debiasing(0.1, 0.2, 0.6),
    ),
    "lars": (
        lambda: LARS(RATE, weight_decay=0.0, lars_coeff=0.01, device_params=True),
        optax.lars(RATE, weight_decay=0.0, trust_coefficient=0.01, eps=1e-8),
    ),
    "lars-nesterov": (
        lambda: LARS(RATE, nesterov=True, weight_decay=0.0, lars_coeff=0.01, device_params=True),
        optax.lars(RATE, weight_decay=0.0, trust_coefficient=0.01, eps=1e-8, nesterov=True),
    ),
    "lars-decay": (
        lambda: LARS(RATE, weight_decay=0.1, lars_coeff=0.01, device_params=True),
        peer_of_lars(0.1, 0.9),
    ),
}


@pytest.mark.parametrize(
    "name", covered(CASES, {"adam": "adam-l2", "adam-enable-adam-w": "adamw", "lars": "lars-decay"})
)
def test_rules_are_those_of_optax(name: str) -> None:
    make, peer = CASES[name]
    optimizer, random = make(), np.random.default_rng(3)
    weights = ours = [jnp.asarray(random.normal(size=shape), jnp.float32) for shape in SHAPES]
    states = [{key: jnp.asarray(value) for key, value in optimizer.start(shape).items()} for shape in SHAPES]
    assert all(list(state) == optimizer.get_optimizer_state_keys() for state in states)
    peers = [peer.init(weight) for weight in weights]

    @programs.jit
    def our_step(ours: Any, gradients: Any, states: Any, rate: Any) -> Any:
        stepped = [optimizer.rule(*each, rate) for each in zip(ours, gradients, states, strict=True)]
        return [weight for weight, _ in stepped], [state for _, state in stepped]

    @programs.jit
    def their_step(weights: Any, gradients: Any, peers: Any) -> Any:
        updates = [peer.update(*each) for each in zip(gradients, peers, weights, strict=True)]
        moved = [optax.apply_updates(weight, each) for weight, (each, _) in zip(weights, updates, strict=True)]
        return moved, [state for _, state in updates]

    for _ in range(STEPS):
        gradients = [jnp.asarray(random.normal(size=shape), jnp.float32) for shape in SHAPES]
        weights, peers = their_step(weights, gradients, peers)
        ours, states = our_step(ours, gradients, states, jnp.float32(RATE))
        for mine, theirs in zip(ours, weights, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    assert not any(np.allclose(each, random.normal(size=each.shape)) for each in ours)


@pytest.mark.crossed
@pytest.mark.parametrize("make", [LAMB, LARS])
@pytest.mark.parametrize(("weight", "gradient"), [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0)])
def test_a_norm_of_zero_is_no_nan(make: type[LAMB] | type[LARS], weight: float, gradient: float) -> None:
    optimizer = make(RATE, weight_decay=0.0, device_params=True)
    state = {key: jnp.asarray(value) for key, value in optimizer.start((4,)).items()}
    new, _ = programs.jit(optimizer.rule)(jnp.full(4, weight), jnp.full(4, gradient), state, jnp.float32(RATE))
    assert np.isfinite(new).all()
    # A ratio that cannot be taken is one: the step is the gradient's (LARS) or Adam's (LAMB).
    assert bool((np.asarray(new) != weight).all()) == bool(gradient)


def test_lars_dampens_as_pytorch_does() -> None:
    half, whole = (LARS(RATE, dampening=d, weight_decay=0.0, device_params=True) for d in (0.5, 0.0))
    weight, gradient = jnp.full(4, 2.0), jnp.arange(4.0) + 1
    state = {key: jnp.asarray(value) for key, value in half.start((4,)).items()}
    steps = [programs.jit(o.rule)(weight, gradient, state, jnp.float32(RATE))[1]["momentum"] for o in (half, whole)]
    np.testing.assert_allclose(2 * steps[0], steps[1], rtol=1e-5)


class _Parameter:
    def __init__(self, name: str, requires_grad: bool) -> None:
        self.name, self.requires_grad = name, requires_grad

    def get_name(self) -> str:
        return self.name


def test_an_optimizer_trains_the_parameters_it_was_made_for() -> None:
    trained, frozen, other = _Parameter("a", True), _Parameter("b", False), _Parameter("c", True)
    optimizer = SGD(RATE, parameters=[trained, frozen])
    assert [optimizer.trains(p) for p in (trained, frozen, other)] == [True, False, False]
    everywhere = SGD(RATE, device_params=True)
    assert [everywhere.trains(p) for p in (trained, frozen, other)] == [True, False, True]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD(RATE), "SGD: expected either parameters or device_params=True, got neither"),
        (lambda: SGD(RATE, [], True), "SGD: expected either parameters or device_params=True, got both"),
        (lambda: SGD(float("nan"), []), "SGD.learning_rate: expected a number >= 0, got nan"),
        (lambda: AdamW("fast", parameters=[]), "AdamW.learning_rate: expected a number >= 0, got 'fast'"),
        (lambda: AdamW(beta2=1.0, parameters=[]), "AdamW.beta2: expected a number >= 0 and < 1, got 1.0"),
        (lambda: LAMB(clip_value=(2, 1), parameters=[]), "LAMB.clip_value: expected a number >= 2, got 1"),
        (lambda: LAMB(clip_value=2, parameters=[]), "LAMB.clip_value: expected (least, largest), got 2"),
        (lambda: SGD(RATE, True), "SGD.parameters: expected a list of parameters, got True; try device_params=True"),
        (
            lambda: SGD(RATE, [3]),
            "SGD.parameters: expected a pybuda.Parameter, got 3; try device_params=True",
        ),
        (lambda: LARS(momentum=-1, parameters=[]), "LARS.momentum: expected a number >= 0 and < 1, got -1"),
    ],
)
def test_wrong_hyperparameters_are_refused(make: Callable[[], Optimizer], message: str) -> None:
    with pytest.raises(PyBudaError, match="expected") as refused:
        make()
    assert str(refused.value) == message


def test_a_schedule_sets_the_rate_of_the_next_step() -> None:
    class Halving(LearningRateScheduler):
        def get_lr(self) -> float:
            return self.optimizer.learning_rate / 2

    optimizer = SGD(RATE, device_params=True)
    schedule = Halving(optimizer)
    schedule.step()
    schedule.step()
    assert optimizer.learning_rate == RATE / 4
    with pytest.raises(PyBudaError, match="get_lr: expected a method of yours"):
        LearningRateScheduler(optimizer).step()
    with pytest.raises(PyBudaError, match="expected an optimizer of pybuda, got object"):
        LearningRateScheduler(object())


def test_rules_can_be_traced() -> None:
    """What the compiler plans is the rule itself, with the rate as an input."""
    optimizer = LAMB(RATE, device_params=True)
    state = {key: jnp.asarray(value) for key, value in optimizer.start((4, 4)).items()}
    text = jax.jit(optimizer.rule).lower(jnp.ones((4, 4)), jnp.ones((4, 4)), state, jnp.float32(RATE)).as_text()
    assert "stablehlo.sqrt" in text

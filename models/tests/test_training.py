"""Training steps: loss, gradients and Adam as others compute them; what cannot be trained is refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from opscope.base.tests.captured import captured
from opscope.compiler.tests import programs
from opscope.models import frontends, registry
from opscope.models.arguments import ArgSpec, Built
from opscope.models.seeding import draw
from opscope.models.training import BETA1, BETA2, EPSILON, RATE, STEP, step

jax = pytest.importorskip("jax")


def mlp(loss=None) -> Built:
    specs = (
        ArgSpec("w", (6, 3), "float32", "normal:0.5"),
        ArgSpec("b", (3,), "float32", "normal:0.5"),
        ArgSpec("table", (4,), "int32", "range"),
        ArgSpec("x", (5, 6), "float32", "normal:1", "input"),
    )
    return Built(lambda w: (w["table"], jax.numpy.tanh(w["x"] @ w["w"] + w["b"])), specs, loss)


def drawn(built: Built) -> dict[str, np.ndarray]:
    return {s.name: draw(s.law, s.shape, s.dtype, 0, i) for i, s in enumerate(built.arguments)}


@pytest.mark.slow
def test_the_step_is_that_of_optax() -> None:
    optax = pytest.importorskip("optax", reason="pip install -e '.[flax]'")
    built = step(mlp())
    values = drawn(built)
    loss, *new = jax.jit(built.forward)(values)
    weights = {name: values[name] for name in ("w", "b")}
    expected, gradients = jax.value_and_grad(
        lambda w: jax.numpy.mean(jax.numpy.tanh(values["x"] @ w["w"] + w["b"]) ** 2)
    )(weights)
    moments = {which: {n: values[f"optimizer.{which}.{n}"] for n in weights} for which in ("first", "second")}
    state = optax.ScaleByAdamState(np.int32(values[STEP] - 1), moments["first"], moments["second"])
    updates, state = optax.scale_by_adam(BETA1, BETA2, EPSILON).update(gradients, state)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    for at, name in enumerate(weights):
        np.testing.assert_allclose(new[at], weights[name] - RATE * updates[name], rtol=1e-5)
        # A moment is a sum of two terms, which may cancel: its error is one of the terms.
        np.testing.assert_allclose(
            new[2 + at], state.mu[name], rtol=1e-5, atol=1e-7 * np.abs(moments["first"][name]).max()
        )
        np.testing.assert_allclose(new[4 + at], state.nu[name], rtol=1e-5)


def test_a_models_own_loss_counts() -> None:
    built = step(mlp(lambda results: 3 * results[1].sum()))
    values = drawn(built)
    loss, *_ = programs.jit(built.forward)(values)
    expected = 3 * np.tanh(values["x"] @ values["w"] + values["b"]).sum()
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_what_has_nothing_to_train_is_refused() -> None:
    only_input = Built(lambda w: w["x"], (ArgSpec("x", (2,), "float32", "normal:1", "input"),))
    with pytest.raises(ValueError, match="--training: expected a model with floating weights"):
        step(only_input)
    built = step(Built(lambda w: w["x"] > 0, (ArgSpec("x", (2,), "float32", "normal:1"),)))
    with pytest.raises(ValueError, match="--training: expected a model with a floating result"):
        built.forward(drawn(built))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "bert_base"])
def test_published_models_have_a_step(name: str, tmp_path: Path) -> None:
    from opscope.models.frontends.base import Source
    from opscope.models.frontends.jax import FRONTEND

    source = Source(f"{name}+training", str(registry.get(name).path), "float32", training=True, entry=name)
    result = FRONTEND.export(FRONTEND.build(source), source)
    assert b"optimizer" in result.bytecode
    trained = sum(s.role == "parameter" for s in result.arguments)
    assert sum(s.name.startswith("optimizer.") for s in result.arguments) == 2 * trained + 1


@pytest.mark.slow
@pytest.mark.skipif(bool(frontends.missing("torch")), reason=frontends.missing("torch"))
def test_gradients_through_torchax_are_torchs() -> None:
    import sys

    code = """
import numpy as np, torch, jax
from opscope.models import registry
from opscope.models.frontends import torch_modules
from opscope.models.frontends.torch import to_jax
from opscope.models.seeding import draw

built = registry.get("dlrm_torch").build("float32")
function = to_jax(built, "float32")
values = {s.name: draw(s.law, s.shape, s.dtype, 0, i) for i, s in enumerate(function.arguments)}
weights = {s.name: values[s.name] for s in function.arguments if s.role == "parameter"}
others = {n: jax.numpy.asarray(v) for n, v in values.items() if n not in weights}
ours = jax.jit(jax.grad(lambda w: (function.forward({**others, **w})[0] ** 2).mean()))(weights)
module = built.make().eval()
parameters = dict(module.named_parameters())
with torch.no_grad():
    for name, value in weights.items():
        parameters[name].copy_(torch.from_numpy(value))
[result] = torch_modules.call_module(module, built, [torch.from_numpy(values[s.name]) for s in built.inputs])
(result ** 2).mean().backward()
for name in weights:
    theirs = parameters[name].grad.numpy()
    assert np.abs(theirs).max() > 0, name
    assert np.abs(np.asarray(ours[name]) - theirs).max() <= 1e-4 * np.abs(theirs).max(), name
print(len(weights))
"""
    environment = os.environ | {"PYTHONPATH": str(registry.ROOT.parent), "JAX_PLATFORMS": "cpu", "PATH": ""}
    done = captured([sys.executable, "-P", "-c", code], env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 10

"""The three programs of a training step, as JAX functions of named arrays.

A microbatch runs forward, and what the backward pass needs of it is kept; later it runs backward, and its gradients are
added to those of the microbatches before; the optimizer then takes their sum. So each program can be compiled, placed
and run alone, and any number of microbatches may lie between the first and the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from opscope.models.arguments import ArgSpec, Built

if TYPE_CHECKING:
    from jax import Array

    from opscope.simulator.host.optimizers import Optimizer

Function: TypeAlias = "Callable[[Mapping[str, Array], Sequence[Array]], Sequence[Array]]"
"""Parameters by name, and inputs -> outputs."""
Described: TypeAlias = "tuple[tuple[int, ...], str]"
"""Shape, and NumPy's name of the element type."""

RATE = "learning_rate"


@dataclass(frozen=True)
class Pass:
    """One program: its function takes a mapping of names and returns a list."""

    kind: str
    """`forward`, `backward` or `optimizer`: the type of its epochs."""
    built: Built
    results: Mapping[str, Described]
    """The names of its results, in their order, with shapes and element types."""


def parameter(name: str) -> str:
    """The name of a parameter's value."""
    return f"parameter.{name}"


def gradient(name: str) -> str:
    """The name of a parameter's gradient, summed over the microbatches so far."""
    return f"gradient.{name}"


def state(name: str, key: str) -> str:
    """The name of what an optimizer keeps for a parameter."""
    return f"state.{name}.{key}"


def forward_and_backward(
    function: Function,
    parameters: Mapping[str, Described],
    inputs: Sequence[Described],
    trained: Sequence[str],
    loss: bool,
    recompute: bool = False,
    input_gradients: bool = True,
) -> tuple[Pass, Pass]:
    """Returns both passes of a function.

    With `loss` its outputs are losses, whose own gradients are one; without, the backward pass takes those of the
    outputs from the next device. It returns those of the floating inputs for the device before, if there is one
    (`input_gradients`). With `recompute` nothing but inputs is kept, and the backward pass computes the rest again.
    Raises what the function raises.
    """
    import jax
    import jax.numpy as jnp

    arguments = {parameter(name): described for name, described in parameters.items()}
    arguments |= {f"input.{i}": described for i, described in enumerate(inputs)}
    numbers = range(len(inputs)) if input_gradients else ()
    floating = [f"input.{i}" for i in numbers if jnp.issubdtype(jnp.dtype(inputs[i][1]), jnp.floating)]
    varied = [parameter(name) for name in trained] + floating
    kept = _Kept()
    forward = _forward(function, list(parameters), len(inputs), varied, kept, recompute)
    shapes = jax.eval_shape(forward, {name: jax.ShapeDtypeStruct(*described) for name, described in arguments.items()})
    outputs = shapes[: len(shapes) - len(kept.own)]
    names = tuple(f"output.{i}" for i in range(len(outputs)))
    made = {name: (s.shape, s.dtype.name) for name, s in zip((*names, *kept.own), shapes, strict=True)}
    ahead = Pass("forward", _built(forward, arguments), made)

    described = arguments | made
    read = {name: described[name] for name in dict.fromkeys(kept.leaves)}
    if not loss:
        read |= {f"output_gradient.{i}": made[name] for i, name in enumerate(names)}
    read |= {gradient(name): parameters[name] for name in trained}
    backward = _backward(kept, trained, outputs, loss)
    sums = {gradient(name): parameters[name] for name in trained}
    before = {f"input_gradient.{name.removeprefix('input.')}": arguments[name] for name in floating}
    return ahead, Pass("backward", _built(backward, read), sums | before)


def _forward(
    function: Function, parameters: Sequence[str], inputs: int, varied: Sequence[str], kept: _Kept, recompute: bool
) -> Callable[[Mapping[str, Array]], list[Array]]:
    """The function of a forward pass: its outputs, and what `kept` notes for the backward pass."""
    import jax

    def forward(values: Mapping[str, Array]) -> list[Array]:
        fixed = {name: value for name, value in values.items() if name not in varied}

        def call(*arrays: Array) -> list[Array]:
            at = fixed | dict(zip(varied, arrays, strict=True))
            weights = {name: at[parameter(name)] for name in parameters}
            return list(function(weights, [at[f"input.{i}"] for i in range(inputs)]))

        outputs, pull = jax.vjp(jax.checkpoint(call) if recompute else call, *(values[name] for name in varied))
        return [*outputs, *kept.take(pull, values)]

    return forward


def _backward(
    kept: _Kept, trained: Sequence[str], outputs: Sequence[Any], loss: bool
) -> Callable[[Mapping[str, Array]], list[Array]]:
    """The function of a backward pass of `outputs`, which are given by shape and type."""
    import jax
    import jax.numpy as jnp

    def backward(values: Mapping[str, Array]) -> list[Array]:
        with jax.named_scope("backward"):
            if loss:
                incoming = [jnp.ones(s.shape, s.dtype) for s in outputs]
            else:
                incoming = [values[f"output_gradient.{i}"] for i in range(len(outputs))]
            own = kept.pull(values)(incoming)
            sums = [values[gradient(name)] + new for name, new in zip(trained, own, strict=False)]
            return [*sums, *own[len(trained) :]]

    return backward


class _Kept:
    """What a backward pass needs: arguments of the forward pass, and values that only it has."""

    def __init__(self) -> None:
        self.leaves: list[str] = []
        """The name of each leaf of the pull-back, in order."""
        self.own: list[str] = []
        """The names of those that are not arguments."""
        self._tree: Any = None

    def take(self, pull: Any, arguments: Mapping[str, Array]) -> list[Array]:
        """Notes how a pull-back is put together, and returns the values that are not arguments."""
        import jax

        leaves, self._tree = jax.tree.flatten(pull)
        by_identity = {id(value): name for name, value in arguments.items()}
        self.leaves, self.own, values = [], [], []
        for leaf in leaves:
            name = by_identity.get(id(leaf))
            if name is None:
                name = by_identity[id(leaf)] = f"kept.{len(values)}"
                self.own.append(name)
                values.append(leaf)
            self.leaves.append(name)
        return values

    def pull(self, values: Mapping[str, Array]) -> Callable[[list[Array]], tuple[Array, ...]]:
        """Puts the pull-back together again."""
        import jax

        return jax.tree.unflatten(self._tree, [values[name] for name in self.leaves])


def optimizer_pass(optimizer: Optimizer, parameters: Mapping[str, Described]) -> Pass:
    """Returns the program that updates these parameters; its results are the new weights, then the new states."""
    import jax

    states = {name: optimizer.start(shape) for name, (shape, _) in parameters.items()}
    arguments: dict[str, Described] = {}
    for name, described in parameters.items():
        arguments |= {parameter(name): described, gradient(name): described}
        arguments |= {state(name, key): (value.shape, "float32") for key, value in states[name].items()}
    arguments[RATE] = ((), "float32")

    def step(values: Mapping[str, Array]) -> list[Array]:
        with jax.named_scope("optimizer"):
            weights, kept = [], []
            for name, (_, dtype) in parameters.items():
                before = {key: values[state(name, key)] for key in states[name]}
                rate = values[RATE].astype(dtype)
                weight, after = optimizer.rule(values[parameter(name)], values[gradient(name)], before, rate)
                weights.append(weight)
                kept += [after[key] for key in states[name]]
        return weights + kept

    results = {parameter(name): described for name, described in parameters.items()}
    results |= {
        state(name, key): (value.shape, "float32") for name in parameters for key, value in states[name].items()
    }
    return Pass("optimizer", _built(step, arguments), results)


def _built(function: Callable[[Mapping[str, Array]], list[Array]], arguments: Mapping[str, Described]) -> Built:
    specs = (ArgSpec(name, shape, dtype, "normal:1", "input") for name, (shape, dtype) in arguments.items())
    return Built(function, tuple(specs))

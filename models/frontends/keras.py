"""Keras 3 on its JAX backend: a model's stateless call, lowered by JAX. TensorFlow is not used."""

from __future__ import annotations

import fnmatch
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.frontends.base import ExportResult, Frontend, Source
from opscope.models.frontends.jax import compiled_results, lower, package_versions


@dataclass(frozen=True)
class Keras(Frontend):
    """The exporter of Keras models."""

    name: str = "keras"
    packages: tuple[str, ...] = ("keras", "jax", "jaxlib")
    extra: str = "keras"
    environment: Mapping[str, str] = field(default_factory=lambda: {"KERAS_BACKEND": "jax"})

    def build(self, source: Source) -> Built:
        """Returns the model as a function of its variables and inputs."""
        import keras

        keras.config.set_floatx(source.dtype)
        keras.config.set_dtype_policy(source.dtype)
        return super().build(source)

    def export(self, built: Built, source: Source) -> ExportResult:
        """Exports the forward pass, or a whole training step."""
        if source.training:
            from opscope.models.training import step

            built = step(built)
        return ExportResult(lower(built, source.name), built.arguments, package_versions(self.packages[:2]))

    def results(self, built: Built, source: Source, values: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
        """The model on Keras's JAX backend."""
        by, arrays = compiled_results(built, source, values)
        return f"{package_versions(self.packages[:1])} on {by}", arrays


FRONTEND = Keras()

Distributions = Sequence[tuple[str, str]]
"""Pairs of a glob over variable names and a distribution; the first that matches counts."""

BY_LAST_WORD = {
    "gamma": "normal:1:0.1",
    "beta": "normal:0.05",
    "bias": "normal:0.05",
    "moving_mean": "normal:0.1",
    "moving_variance": "uniform:0.5:1.5",
    "mean": "normal:0.1",
    "variance": "uniform:0.5:1.5",
    "embeddings": "normal:0.5",
    "scale": "normal:1:0.1",
}
"""Last word of a variable's name -> distribution near, but not at, the neutral value, so that a lost one is noticed."""


def functional(make: Callable[[], Any], inputs: Sequence[ArgSpec], laws: Distributions = ()) -> Built:
    """Returns the keras.Model that `make` makes as a function of its variables and `inputs`, in inference mode.

    The variables are only declared, so no weight is allocated. A model with several inputs takes them by name if it is
    called with a mapping, otherwise in the order of `inputs`. `laws` are pairs of a glob over variable names and a
    distribution; other variables get one by their kind (`default_distribution`).
    """
    from keras import StatelessScope

    with StatelessScope(initialize_variables=False):
        model = make()
    return as_function(model, inputs, laws)


def as_function(model: Any, inputs: Sequence[ArgSpec], laws: Distributions = ()) -> Built:
    """A keras.Model as a function of its variables and of `inputs` (see `functional`)."""
    from keras import StatelessScope

    trained = _named(model.trainable_variables)
    fixed = _named(model.non_trainable_variables, taken=trained)
    specs = [_spec(name, v, laws, "parameter") for name, v in trained.items()]
    specs += [_spec(name, v, laws, "state") for name, v in fixed.items()]

    def forward(w: Mapping[str, Any]) -> Any:
        args, named = call_arguments(model, {spec.name: w[spec.name] for spec in inputs})
        variables = [w[n] for n in trained], [w[n] for n in fixed]
        # The outer scope keeps the inner one from filling variables that were only declared.
        with StatelessScope(initialize_variables=False):
            results, _ = model.stateless_call(*variables, *args, **named, training=False)
        return results

    return Built(forward, (*specs, *inputs))


def of_callable(call: Callable[[Mapping[str, Any]], Any], owners: Sequence[Any], inputs: Sequence[ArgSpec]) -> Built:
    """A function of named arrays that calls Keras's layers, `owners`, as one of their variables too."""
    from keras import StatelessScope

    variables = named_variables(*owners)
    trained = {id(variable) for owner in owners for variable in owner.trainable_variables}
    specs = [_spec(n, v, (), "parameter" if id(v) in trained else "state") for n, v in variables.items()]

    def forward(w: Mapping[str, Any]) -> Any:
        with StatelessScope([(variable, w[name]) for name, variable in variables.items()], initialize_variables=False):
            return call(w)

    return Built(forward, (*specs, *inputs))


def call_arguments(
    model: Any, inputs: Mapping[str, Any], by_name: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a model is called with: each input by itself if its `call` has a parameter for each, else one structure.

    `by_name`, where a program has given names: they are those of the parameters, or of a dictionary.
    """
    taken = [name for name in inspect.signature(model.call).parameters if name not in ("training", "mask")]
    values = tuple(inputs.values())
    if by_name and set(inputs) <= set(taken):
        return (), dict(inputs)
    if by_name or isinstance(getattr(model, "input", None), Mapping):
        return (dict(inputs),), {}
    return (values if len(taken) >= len(values) else (list(values),)), {}


def named_variables(*models: Any) -> dict[str, Any]:
    """The variables of models or layers, trained ones first, by the names of their arguments."""
    trained = _named([variable for model in models for variable in model.trainable_variables])
    return {**trained, **_named([v for model in models for v in model.non_trainable_variables], taken=trained)}


def _named(variables: Sequence[Any], taken: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Variables by their path without the model's own name; a second one with the same name gets a number."""
    named: dict[str, Any] = {}
    for variable in variables:
        name, count = variable.path, 2
        while name in named or name in (taken or {}):
            name, count = f"{variable.path}_{count}", count + 1
        named[name] = variable
    return named


def _spec(name: str, variable: Any, distributions: Distributions, role: str) -> ArgSpec:
    shape, dtype = tuple(variable.shape), str(variable.dtype)
    distribution = next(
        (distribution for glob, distribution in distributions if fnmatch.fnmatchcase(name, glob)),
        default_distribution(name, shape, dtype),
    )
    return ArgSpec(name, shape, dtype, distribution, role)


def default_distribution(name: str, shape: tuple[int, ...], dtype: str) -> str:
    """Returns the distribution of a variable by its name and shape: He's scale for kernels, Xavier's for matrices."""
    if "int" in dtype or dtype == "bool":
        return "zeros"
    word = name.rsplit("/", 1)[-1]
    if word in BY_LAST_WORD:
        return BY_LAST_WORD[word]
    if len(shape) < 2:
        return "normal:0.1"
    return f"normal:{math.sqrt((2 if len(shape) == 4 else 1) / fan_in(name, shape)):.6g}"


def fan_in(name: str, shape: tuple[int, ...]) -> int:
    """The number of terms that each result of a kernel sums."""
    if "depthwise" in name:
        return math.prod(shape[:-2])
    if len(shape) == 3 and not name.endswith("attention_output/kernel") and "conv" not in name:
        return shape[0]  # a projection onto heads: (width, heads, size of a head)
    return math.prod(shape[:-1])

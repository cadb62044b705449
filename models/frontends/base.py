"""What an exporter is: two steps from a model's source to StableHLO, run in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from opscope.models.arguments import ArgSpec


@dataclass(frozen=True)
class Source:
    """The model that an exporter is asked for."""

    name: str
    """What records call it."""
    path: str
    """Its file: Python with a `@model`, or whatever else the frontend reads."""
    dtype: str
    """NumPy's name of the float type, where the model leaves it open."""
    training: bool = False
    """Forward, backward and optimizer as one module, in place of the forward pass."""
    entry: str = ""
    """Which of several models in the file: the registered name, or the name of a callable."""
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Shapes of inputs that the user brings values for: they fix what the model's own file leaves open."""


@dataclass(frozen=True)
class Handed:
    """What an exporter hands over."""

    bytecode: bytes
    """The StableHLO module, with locations; its entry function is the only public one."""
    arguments: tuple[ArgSpec, ...]
    """One per argument of the entry function, in its order; their laws make the seeded values. A law that is empty is
    left to the op that reads the argument."""
    frontend: str
    """Who exported it, with versions: `jax 0.10.2`, `torch 2.13.0, torchax 0.0.13`."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Argument -> array, where the model's own file brings the value (the weights of a user's model)."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Argument -> .npy file with such a value, once it has been handed over."""


class Frontend(Protocol):
    """One exporter. What a step raises becomes the model's row: `build_failed` or `export_failed`, with traceback."""

    name: str
    """The framework, which is the name of the file too."""
    packages: tuple[str, ...]
    """Distributions that it needs, and whose versions decide what it exports."""
    optional: tuple[str, ...]
    """Distributions that it does without, and whose versions decide what it exports where they are installed."""
    extra: str
    """The extra in pyproject.toml that installs them; empty: they are always there."""
    environment: Mapping[str, str]
    """Variables that its process is started with."""

    def build(self, source: Source) -> Any:
        """The model as its author wrote it. Raises `Refused` for what is no such model, else what the model raises."""
        ...

    def export(self, built: Any, source: Source) -> Handed:
        """StableHLO of what `build` returned. Raises what the framework raises."""
        ...


class Refused(ValueError):  # noqa: N818 - an answer to wrong input, told in one line and without a traceback
    """Input that is not what it should be: `<where>: expected X, got Y; try Z`."""

    def __init__(self, where: str, expected: str, got: str, hint: str = "") -> None:
        super().__init__(f"{where}: expected {expected}, got {got}" + (f"; try {hint}" if hint else ""))
        self.where, self.expected, self.got, self.hint = where, expected, got, hint

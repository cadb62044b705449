"""What an exporter is: two steps from a model's source to StableHLO, in a process of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opscope.models.arguments import ArgSpec


@dataclass(frozen=True)
class Source:
    """The model that an exporter has to export."""

    name: str
    """Its name in records."""
    path: str
    """Its file: Python with a `@model`, or whatever else the frontend reads."""
    dtype: str
    """NumPy's name of the float type, for a model that leaves it open."""
    training: bool = False
    """Whether to export forward, backward and optimizer as one module instead of the forward pass alone."""
    entry: str = ""
    """The model within the file: its registered name, or the name of a callable."""
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Shapes of inputs for which the user gives values. They fix dimensions that the model's own file leaves open."""
    sizes: str = ""
    """Sizes for dimensions that the model's own file leaves open: `batch=4,x=4x16` (open_shapes.py)."""
    torch_by: str = ""
    """The door that a model of PyTorch takes (torch_doors.py); empty for the first that is usable."""
    inputs: str = ""
    """The user's .npz file of inputs, for a frontend that makes constants of those that decide the program."""


@dataclass(frozen=True)
class ExportResult:
    """What an exporter produces for one model."""

    bytecode: bytes
    """The StableHLO module, with locations; its entry function is the only public one."""
    arguments: tuple[ArgSpec, ...]
    """One per argument of the entry function, in its order. Seeded values are drawn from their distributions (`law`);
    where that is empty, the op that reads the argument decides."""
    frontend: str
    """The exporting packages with their versions: `jax 0.10.2`, `torch 2.13.0, torchax 0.0.13`."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Argument -> array, if the model's own file holds the value (the weights of a user's model)."""
    bound: tuple[str, ...] = ()
    """Inputs of the user's file that are constants of the module and not arguments."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Argument -> .npy file with such a value, once `values` have been written to files."""
    shardings: Mapping[str, str] = field(default_factory=dict)
    """How the model is split over a mesh (`registry.Model.shardings`)."""
    roles: tuple[str, ...] = ()
    """What a StableHLO file says of each argument: `input`, `parameter` or `constant`; empty if it says nothing."""
    notes: tuple[str, ...] = ()
    """What a user should know of the export, in lines: what was left out, or became something else."""


@dataclass(frozen=True)
class Frontend(ABC):
    """One exporter. If a step raises, the model's row is `build_failed` or `export_failed`, with the traceback."""

    name: str
    """The framework. The file has the same name."""
    packages: tuple[str, ...] = ()
    """Python packages that it needs. Their versions decide what it exports."""
    either: tuple[str, ...] = ()
    """Python packages of which one is enough. Their versions too decide what it exports."""
    optional: tuple[str, ...] = ()
    """Optional Python packages. If they are installed, their versions too decide what it exports."""
    libraries: tuple[str, ...] = ()
    """Packages that a model of the framework may import. Each model needs those that its own file imports."""
    extra: str = ""
    """The extra in pyproject.toml that installs them; empty if they are always installed."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of its process."""
    forkable_packages: tuple[str, ...] = ()
    """Packages that start no thread when they are imported. Exporters are forks of a process that has imported them."""
    forkable_libraries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of `libraries`, those whose import takes long and starts no thread -> what of them a model will need. Exporters
    of models that import one are forks of a process that has these too."""

    def build(self, source: Source) -> Any:
        """Builds the model as its author wrote it: what the registered `build` returns, unless a frontend reads files.

        Raises `Refused` if there is no such model, else what it raises.
        """
        from opscope.models import registry

        return registry.add_file_model(source.path, source.entry or source.name).build(source.dtype)

    @abstractmethod
    def export(self, built: Any, source: Source) -> ExportResult:
        """Exports what `build` returned as StableHLO. Raises what the framework raises."""

    @abstractmethod
    def results(self, built: Any, source: Source, values: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
        """What computed them, with its version, and the model's results on `values` (argument -> array), in the
        module's order.

        The framework computes them itself, without the module. Raises NoOwnResults where it cannot, else what the
        framework raises.
        """


class NoOwnResults(Exception):
    """A model's own framework cannot compute what was exported; the text says why."""


class Refused(ValueError):
    """Wrong input, with the message `<where>: expected X, got Y; try Z`."""

    def __init__(self, where: str, expected: str, got: str, hint: str = "") -> None:
        super().__init__(f"{where}: expected {expected}, got {got}" + (f"; try {hint}" if hint else ""))
        self.where, self.expected, self.got, self.hint = where, expected, got, hint

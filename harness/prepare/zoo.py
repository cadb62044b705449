"""The sizes of the registered models: read from a committed table, and counted anew on demand.

The table `models/zoo_sizes.json` has parameters, ops and unique ops per model at float32, so that a fresh clone lists
them without a framework. `make zoo` writes it.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from opscope.models import frontends, registry
from opscope.models.registry import Model

TABLE = registry.ROOT / "zoo_sizes.json"


@dataclass(frozen=True)
class Sizes:
    """What a model's export consists of."""

    parameters: int
    """Weights, as publications count them: running statistics and inputs are none."""
    ops: int
    """All ops of its module."""
    unique_ops: int


@dataclass(frozen=True)
class Listed:
    """A model of the zoo. Counts are None where the table has none of it yet (`opscope models --count`)."""

    name: str
    framework: str
    family: str
    size: str
    """`full` or `reduced`."""
    giant: bool
    """Whether its weights do not fit in memory, so that `--model all` leaves it out."""
    trainable: bool
    parameters: int | None
    ops: int | None
    unique_ops: int | None
    missing: str
    """What is not installed, and how to install it; empty if nothing is missing."""
    missing_packages: tuple[str, ...]
    about: str
    file: str


def table(path: Path = TABLE) -> dict[str, Sizes]:
    """The committed sizes, by model."""
    return {name: Sizes(**row) for name, row in json.loads(path.read_text()).items()} if path.is_file() else {}


def write(sizes: Mapping[str, Sizes], path: Path = TABLE) -> None:
    """Writes the table, one model a line."""
    rows = [f"  {json.dumps(name)}: {json.dumps(vars(sizes[name]))}" for name in sorted(sizes)]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def count(model: Model, cache: Path, max_cache: int) -> Sizes:
    """Exports and splits one model. Raises opscope.harness.prepare.exporting.ExportFailed if it is not exported."""
    from opscope.harness.cache.claims import Claims
    from opscope.harness.prepare import exporting
    from opscope.harness.prepare.export import handed_over
    from opscope.harness.prepare.split import split_module
    from opscope.models.frontends.base import Source

    source = Source(model.name, str(model.path), "float32", entry=model.name)
    with Claims() as claims:
        export = exporting.Export(model.framework, source, tuple(map(str, model.sources())))
        handed = handed_over(exporting.exported(export, cache, max_cache, claims))
    split = split_module(handed.bytecode, model.name)
    parameters = sum(spec.size for spec in handed.arguments if spec.role == "parameter")
    return Sizes(parameters, split.module_ops, len(split.ops))


def recount(models: Iterable[Model], cache: Path, max_cache: int, report: Callable[[str], None]) -> dict[str, Sizes]:
    """The table with the rows of `models` counted anew.

    Models without their framework, and those that fail to export, keep their row and are reported. Models that are no
    longer registered lose theirs.
    """
    from opscope.harness.prepare.exporting import ExportFailed

    registered = set(registry.names())
    sizes = {name: row for name, row in table().items() if name in registered}
    for model in models:
        if missing := frontends.missing(model.framework, model.path):
            report(f"{model.name}: {missing}")
            continue
        try:
            sizes[model.name] = count(model, cache, max_cache)
        except ExportFailed as error:
            report(f"{model.name}: {error.stage}_failed: {error}")
        else:
            report(f"{model.name}: {sizes[model.name]}")
    return sizes


def listing() -> list[Listed]:
    """All models, by name."""
    sizes = table()
    models = []
    for name in registry.names():
        model = registry.get(name)
        row = sizes.get(name)
        models.append(
            Listed(
                name=name,
                framework=model.framework,
                family=model.family,
                size=model.size,
                giant=model.giant,
                trainable=model.trainable,
                parameters=row.parameters if row else None,
                ops=row.ops if row else None,
                unique_ops=row.unique_ops if row else None,
                missing=frontends.missing(model.framework, model.path),
                missing_packages=tuple(frontends.absent(model.framework, model.path)),
                about=about(model.path),
                file=str(model.path),
            )
        )
    return models


def about(path: Path) -> str:
    """The first sentence or so of a model's file: what it is, and why it is reduced."""
    text = ast.get_docstring(ast.parse(path.read_bytes())) or ""
    return " ".join(text.split("\n\n")[0].split())

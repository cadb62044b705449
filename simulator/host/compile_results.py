"""What `pybuda.pybuda_compile` returns, and a device has as `_compile_output`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opscope.compiler.api import Compilation
from opscope.simulator.host.card_program import CardProgram
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings.options import option
from opscope.simulator.host.tensor import Tensor

BUILD = "tt_build/test_out"
"""Folder of netlists where `backend_output_dir` names none, as in TT-Buda."""


@dataclass(frozen=True)
class Core:
    """A core of a chip's grid."""

    row: int
    col: int


@dataclass(frozen=True)
class CoreRange:
    """A rectangle of cores, from `start` on up to `end`, which is outside."""

    start: Core
    end: Core

    def size_r(self) -> int:
        """Returns its rows."""
        return self.end.row - self.start.row

    def size_c(self) -> int:
        """Returns its columns."""
        return self.end.col - self.start.col


@dataclass(frozen=True)
class OpPlacement:
    """Where an op is."""

    chip_id: int
    name: str
    placed_cores: CoreRange
    grid_transpose: bool
    """Whether the rectangle lies on its side."""


@dataclass(frozen=True)
class PlacerSolution:
    """Where the ops of a program are."""

    name_to_op_placement: dict[str, OpPlacement]


@dataclass(frozen=True)
class CompileResults:
    """What a compilation has made."""

    outputs: list[Tensor]
    """Results, or losses, as the CPU computes them; without elements where inputs have none."""
    golden_outputs: list[Any]
    """The elements of `outputs`."""
    initial_graph: Any
    """The Buda graph of the first module, in training of the forward pass; None if the depth ends before it."""
    netlist_filename: str | None
    """The netlist of the first module; None if the depth ends before it."""
    lowered_graph: Any = None
    """The same graph as `initial_graph`, which is kept once."""
    golden_intermediates: dict[str, Any] = field(default_factory=dict)
    perf_model_results: dict[str, float] | None = None
    pass_specific_output_kwargs: dict[str, Any] = field(default_factory=dict)
    """`placer_solution`, where the depth does not end before it."""


def compile_results(graph_name: str, outputs: list[Tensor], program: CardProgram) -> CompileResults:
    """Writes the netlist of a program; returns what was compiled. Raises PyBudaError."""
    made = program.compilation
    placed = {} if made.plan is None else {"placer_solution": _placed(made)}
    return CompileResults(
        outputs,
        [output.elements for output in outputs],
        made.graph,
        _written(graph_name, made.netlist_text),
        made.graph,
        pass_specific_output_kwargs=placed,
    )


def _placed(made: Compilation) -> PlacerSolution:
    """Returns where a program's ops are placed."""
    places: dict[str, OpPlacement] = {}
    for place in (place for epoch in (made.plan.epochs if made.plan else ()) for place in epoch.placements):
        end = Core(place.row + place.grid.r, place.col + place.grid.c)
        cores = CoreRange(Core(place.row, place.col), end)
        places[place.op.name] = OpPlacement(place.chip, place.op.name, cores, place.transposed)
    return PlacerSolution(places)


def _written(graph_name: str, netlist: str) -> str | None:
    """Writes a netlist and returns the name of its file; None for an empty one. Raises PyBudaError."""
    if not netlist:
        return None
    path = Path(str(option("backend_output_dir", BUILD))) / f"{graph_name}_netlist.yaml"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(netlist, encoding="utf-8")
    except OSError as error:
        where = f"{error.filename}: {error.strerror}"
        raise PyBudaError(f"pybuda_compile: expected a place to write, got {where}") from None
    return str(path)

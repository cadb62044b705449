"""What `pybuda.pybuda_compile` returns, and a device has as `_compile_output`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opscope.simulator.host.card_program import CardProgram
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings.options import option
from opscope.simulator.host.tensor import Tensor

BUILD = "tt_build/test_out"
"""Folder of netlists where `backend_output_dir` names none, as in TT-Buda."""


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


def compile_results(graph_name: str, outputs: list[Tensor], program: CardProgram) -> CompileResults:
    """Writes the netlist of a program; returns what was compiled. Raises PyBudaError."""
    graph, netlist = program.compilation.graph, program.compilation.netlist_text
    return CompileResults(outputs, [output.elements for output in outputs], graph, _written(graph_name, netlist), graph)


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

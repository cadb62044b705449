"""Writes the back end's output for a netlist, for inspection: kernels, per-thread programs, pipes with their routes.

The folder is laid out as TT-Buda's output folder:

    <name>_netlist.yaml
    hlks/<op>.yaml                                  block dimensions and formats that the op's kernel is compiled for
        graph_<graph>/op_<i>/tensix_thread<n>.yaml      programs of its three threads: 0 unpack, 1 math, 2 pack
    temporal_epoch_<e>/overlay/pipegen.yaml         buffers and pipes of the epoch
    temporal_epoch_<e>/overlay/blobs/<chip>_<y>_<x>.yaml   one core's streams
    queues.yaml                                     where queues lie

On hardware a RISC-V compiler and an overlay blob generator compile these; here they are only for reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from opscope.compiler.buda.backend_output.pipes import Pipe, pipes_of
from opscope.compiler.buda.backend_output.threads import kernel_arguments, threads
from opscope.compiler.buda.netlist.emit import graph_name
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.plan_to_binary import PlannedProgram

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def write_folder(folder: Path, plan: BudaPlan, program: PlannedProgram, netlist: str) -> None:
    """Writes the folder. Raises OSError."""
    for name, text in files(plan, program, netlist):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def files(plan: BudaPlan, program: PlannedProgram, netlist: str) -> Iterator[tuple[str, str]]:
    """Yields the files of the folder: path and text."""
    yield f"{plan.graph.name}_netlist.yaml", netlist
    yield "queues.yaml", _text([_queue(queue) for queue in program.binary.plan.queues])
    placed = {op.name: op for op in program.binary.plan.ops}
    for epoch in plan.epochs:
        graph = f"graph_{graph_name(plan, epoch.number)}"
        overlay = f"temporal_epoch_{epoch.number}/overlay"
        pipes = []
        for i, placement in enumerate(epoch.placements):
            node = plan.graph.node(placement.op.name)
            model = plan.choices[node.name].model
            yield f"hlks/{node.name}.yaml", _text(kernel_arguments(plan.graph, node, model))
            for number, steps in enumerate(threads(plan.graph, node, model)):
                yield f"{graph}/op_{i}/tensix_thread{number}.yaml", _text(steps)
            pipes += pipes_of(plan, placed, node)
        document = {
            "buffers": [_buffers(plan, placement) for placement in epoch.placements],
            "pipes": [pipe.row() for pipe in pipes],
        }
        yield f"{overlay}/pipegen.yaml", _text(document)
        for core, streams in pipes_by_core(pipes).items():
            yield f"{overlay}/blobs/{epoch.chip}_{core[0]}_{core[1]}.yaml", _text(streams)


def _text(value: Any) -> str:
    return yaml.dump(value, Dumper=_DUMPER, default_flow_style=None, sort_keys=False, width=160)


def _queue(queue: Any) -> dict[str, Any]:
    return {
        "queue": queue.name,
        "source": queue.source,
        "location": queue.location,
        "chip": queue.chip,
        "entries": queue.entries,
        "entry_bytes": queue.entry_bytes,
        "allocations": [[a.channel, hex(a.address)] for a in queue.allocations],
    }


def _buffers(plan: BudaPlan, placement: Any) -> dict[str, Any]:
    from opscope.compiler.buda.plan_to_binary import buffers

    model = plan.choices[placement.op.name].model
    return {
        "op": placement.op.name,
        "cores": [list(core) for core in placement.cores()],
        "buffers": [
            {
                "role": b.role,
                "operand": b.operand,
                "df": b.data_format,
                "size_tiles": b.tiles,
                "tile_size": b.tile_bytes,
            }
            for b in buffers(model)
        ],
    }


def pipes_by_core(pipes: list[Pipe]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Returns what each core receives: core -> pipes with their tiles."""
    pipes_of_core: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for pipe in pipes:
        for core in pipe.readers:
            pipes_of_core.setdefault(core, []).append({"pipe": pipe.name, "receives_tiles": pipe.tiles})
        for core in {run.core for run in pipe.runs if run.core is not None}:
            sent = sum(run.tiles for run in pipe.runs if run.core == core)
            pipes_of_core.setdefault(core, []).append({"pipe": pipe.name, "sends_tiles": sent})
    return dict(sorted(pipes_of_core.items()))

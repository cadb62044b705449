"""What a netlist's programs leave in its queues, in float64 NumPy: graph after graph, as the host executes them.

For netlists whose results depend on what came before: gradients that add up in a ram, weights that an optimizer writes.
`Golden` computes the ops; the order of graphs and the pointers are those of `compiler.target.interpret`, which the
simulator follows too.
"""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from opscope.compiler.buda.test_config.golden import Golden, operand
from opscope.compiler.buda.test_config.rows import NotModelledError, Row, op_that_fills, shape_of
from opscope.compiler.target.host_program import HostProgram
from opscope.compiler.target.interpret import Allocation, Execution, steps

Settings = Mapping[str, int]
Entry = Callable[[str, int], np.ndarray]
"""Returns what the host writes as the n-th entry of a queue, or as the first content of a ram."""


@dataclass
class _Content:
    entries: dict[int, np.ndarray] = field(default_factory=dict)
    """Pointer -> what lies there; of a ram, place -> what lies there."""
    written: int = 0


class GoldenPrograms:
    """A netlist's queues, whose contents stay from one program to the next."""

    def __init__(
        self,
        netlist: Row,
        programs: Sequence[HostProgram],
        entry: Entry,
        parameters: Mapping[str, int],
        single: bool = False,
    ) -> None:
        self.golden, self.entry = Golden(netlist, single), entry
        self.graphs: Row = netlist["graphs"]
        self.queues: Row = netlist["queues"]
        self.programs, self.parameters = programs, parameters
        self.content = {name: _Content() for name in self.queues}
        self.asked: dict[str, set[int]] = {name: set() for name in self.queues}
        """Queue -> numbers of the entries that the host has to write."""
        self._statics: dict[str, dict[str, int]] = {program.name: {} for program in programs}

    def run(self) -> None:
        """Runs every program once, in the order of the file. Raises NotModelledError."""
        for program in self.programs:
            for step in steps(program, self.parameters, self._statics[program.name]):
                if isinstance(step, Allocation):
                    for name in step.queues:
                        self.content[name] = _Content()
                else:
                    with np.errstate(all="ignore"):
                        self._execute(step)

    def _execute(self, step: Execution) -> None:
        graph: Row = self.graphs[step.graph]
        ops = {name: row for name, row in graph.items() if isinstance(row, Mapping)}
        waits = {name: [read for read in row["inputs"] if read in ops] for name, row in ops.items()}
        sequence = list(graphlib.TopologicalSorter(waits).static_order())
        for name, settings in step.queue_settings.items():
            if settings.get("zero"):
                row = self.queues[name]
                self.content[name].entries = dict.fromkeys(range(row["entries"]), np.zeros(shape_of(row)))
        for number in range(graph.get("input_count", 1)):
            values: dict[str, np.ndarray] = {}
            for name in sequence:
                inputs = [
                    values[read] if read in values else self._read(read, step.queue_settings.get(read, {}), number)
                    for read in ops[name]["inputs"]
                ]
                values[name] = self.golden.result_of(name, inputs)
            for name, row in self.queues.items():
                if (maker := row["input"].strip()) in values:
                    value = operand(values[maker], {"input_0_tms": row.get("input_tms")}, 0)
                    self._write(name, value, step.queue_settings.get(name, {}), number)

    def _read(self, name: str, settings: Settings, number: int) -> np.ndarray:
        row, content = self.queues[name], self.content[name]
        if row["type"] == "ram":
            # The pointer of a ram stays, unless the program has it moved (tt-budabackend: common/tt_ram.cpp).
            step = 0 if settings.get("prologue") else settings.get("global_rdptr_autoinc", 0)
            pointer = (settings.get("rd_ptr_global", settings.get("rd_ptr_local", 0)) + step * number) % row["entries"]
        else:
            start = settings.get("rd_ptr_local", settings.get("rd_ptr_global", 0))
            pointer = start + (0 if settings.get("prologue") else settings.get("rd_ptr_autoinc", 1) or 1) * number
        if row.get("alias"):
            return self._seen_through(name, pointer)
        if pointer not in content.entries:
            if row["type"] != "ram" and op_that_fills(row):
                raise NotModelledError(f"{name}: expected entry {pointer} to be written before it is read")
            self.asked[name].add(pointer)
            content.entries[pointer] = self.entry(name, pointer)
        return content.entries[pointer]

    def _seen_through(self, name: str, pointer: int) -> np.ndarray:
        """Returns an entry of a second view of a ram: so many entries of the ram, one matrix after another."""
        base, row = self.queues[name]["alias"], self.queues[name]
        count = self.queues[base]["entries"] // row["entries"]
        parts = [self.content[base].entries.get(pointer * count + part) for part in range(count)]
        if any(part is None for part in parts):
            raise NotModelledError(f"{base}: expected its entries to be written before {name} reads them")
        return np.concatenate([part for part in parts if part is not None])

    def _write(self, name: str, value: np.ndarray, settings: Settings, number: int) -> None:
        content, entries = self.content[name], self.queues[name]["entries"]
        if self.queues[name]["type"] != "ram":
            content.entries[settings.get("wr_ptr_global", content.written) % (2 * entries)] = value
            content.written = (content.written + 1) % (2 * entries)
        elif settings.get("epilogue"):
            place = settings.get("wr_ptr_global", 0) % entries
            goes_on = bool(number) or bool(settings.get("prologue"))
            if goes_on and place not in content.entries:
                raise NotModelledError(f"{name}: expected a sum to go on from, got none")
            content.entries[place] = content.entries[place] + value if goes_on else value
        elif "wr_ptr_global" in settings:
            step = settings.get("global_wrptr_autoinc", 0)
            content.entries[(settings["wr_ptr_global"] + step * number) % entries] = value
        else:
            content.entries = dict.fromkeys(range(entries), value)


__all__ = ["GoldenPrograms"]

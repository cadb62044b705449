"""TT-Buda's compile options under their own names, and their effect on a plan here.

    config = Configuration()
    config.set_configuration_options(balancer_policy="Ribbon", amp_level=1)
    config.set_epoch_break("matmul_7")
    config.override_op_size("matmul_3", (4, 8))
    plan = config.plan(graph, "wormhole_b0")

Setting an option that is not implemented here gives a warning of class `NoEffect`.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from opscope.compiler.buda.balancer.options import LegalizerOptions, NoEffect, OpOverride
from opscope.compiler.buda.balancer.policies import POLICIES, PolicyOptions, Ribbon
from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.fuse_ops import fuse_ops
from opscope.compiler.buda.graph import FIDELITIES, BudaGraph, NodeKind
from opscope.compiler.buda.mixed_precision import LEVELS, mixed_precision
from opscope.compiler.buda.nops import Nop, tilized
from opscope.compiler.buda.op_precision import OpPrecision
from opscope.compiler.buda.placer.dram import PICKERS
from opscope.compiler.buda.placer.epochs import PlacerOptions
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.device_files import read_device_descriptor, read_runtime_params
from opscope.compiler.target.formats import number_format
from opscope.compiler.target.queue_content import SAVED
from opscope.compiler.target.system_desc import HARVESTABLE_ROWS

TRACE_LEVELS = ("NONE", "LIGHT", "VERBOSE")
CHIP_ORDERS = ("MMIO_LAST", "SNAKE")
DEVICE_CONFIGS: dict[str, tuple[str, int]] = {
    "gs_e150": ("e150", 0),
    "gs_e300": ("e150", 2050),
    "wh_n150": ("n150", 2048),
    "wh_n300": ("n300", 2052),
    "galaxy": ("galaxy", 0),
    "bh_test": ("p150", 2048),
}
"""device_config -> board and mask of harvested rows (tt-buda: tti/runtime_param_yamls)."""


def _flag(value: Any) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(value, bool):
        return value
    if str(value).lower() in words:
        return words[str(value).lower()]
    raise ValueError("true or false")


def _one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        match = next((choice for choice in choices if choice.lower() == str(value).rpartition(".")[2].lower()), None)
        if match is None:
            raise ValueError(", ".join(choices))
        return match

    return read


def _format(value: Any) -> str:
    return number_format(str(value).rpartition(".")[2]).name


def _integer(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if not re.fullmatch(r"-?\d+", str(value)) or not low <= int(value) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return int(value)

    return read


Rows = tuple[int, ...]


def _rows(value: Any) -> Rows | tuple[Rows, ...]:
    """Parses rows of cores: of every chip as `[1, 11]` or `1,11`, of one chip after another as `[[1, 11], [2]]`."""
    if isinstance(value, str):
        try:
            value = json.loads(value if value.lstrip().startswith("[") else f"[{value}]")
        except (ValueError, RecursionError):
            raise ValueError("rows such as 1,11 or a list per chip such as [[1, 11], [2]]") from None
    if not isinstance(value, list | tuple):
        raise ValueError("a list of rows, or a list per chip")
    if value and all(isinstance(chip, list | tuple) for chip in value):
        return tuple(_rows_of_chip(chip) for chip in value)
    return _rows_of_chip(value)


def _rows_of_chip(rows: list[Any] | tuple[Any, ...]) -> Rows:
    if any(type(row) is not int or row not in HARVESTABLE_ROWS for row in rows) or len(set(rows)) < len(rows):
        raise ValueError("rows 1-5 and 7-11, each once")
    return tuple(rows)


Predicate: TypeAlias = Callable[[str, str, str], bool]
"""Whether an op is meant: takes its name, its type and its layer, the part of the name above the op itself."""


def _ops(value: str | Predicate | Iterable[str | Predicate]) -> tuple[str | Predicate, ...]:
    listed = [value] if isinstance(value, str) or callable(value) else value
    return tuple(part.strip() if isinstance(part, str) else part for part in listed if part)


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split(",")
    return tuple(str(name).strip() for name in value if str(name).strip())


@dataclass(frozen=True)
class Option:
    """One option: how its value is read, and its effect; `no_effect` explains why it has none."""

    read: Callable[[Any], Any]
    does: str = ""
    no_effect: str = ""


OPTIONS: dict[str, Option] = {
    "enable_recompute": Option(_flag, "training keeps inputs alone for the backward pass, which computes the rest"),
    "balancer_policy": Option(_one_of(*POLICIES, "default"), "the policy"),
    "place_on_one_row": Option(_flag, "gives ops grids of one row"),
    "enable_t_streaming": Option(_flag, "allows results to be cut in time"),
    "manual_t_streaming": Option(_flag, "only ops with an overridden direction are cut in time"),
    "enable_consteval": Option(_flag, "computes what depends on parameters alone on the host, once; default: true"),
    "default_df_override": Option(_format, "number format of all floats"),
    "accumulate_df": Option(_format, "format of Dst"),
    "math_fidelity": Option(_one_of(*FIDELITIES), "phases of the matrix unit, of all ops but a convolution's gather"),
    "performance_trace": Option(
        _one_of(*TRACE_LEVELS), "cycles of every op in a file after a run (Python API); VERBOSE: also bytes and cores"
    ),
    "backend_opt_level": Option(_integer(0, 4), no_effect="there is no backend runtime to tune"),
    "backend_output_dir": Option(str, "folder of kernels, pipes and epochs"),
    "backend_device_descriptor_path": Option(str, "kind of card and rows of cores, of a device descriptor (tt-umd)"),
    "backend_cluster_descriptor_path": Option(str, "chips that devices of the Python API find; for a plan see --chips"),
    "backend_runtime_params_path": Option(str, "card and harvested rows of a file, if it is there"),
    "backend_runtime_args": Option(str, no_effect="there is no backend runtime"),
    "enable_auto_fusing": Option(_flag, "fuses elementwise ops that feed each other; default: true"),
    "enable_conv_prestride": Option(_flag, "the host rearranges the images of strided convolutions; default: true"),
    "enable_stable_softmax": Option(_flag, "subtracts the maximum in a softmax; default: true"),
    "amp_level": Option(_integer(0, max(LEVELS)), "mixed precision: narrower formats of products"),
    "harvested_rows": Option(_rows, "rows of cores that are switched off: of every chip, or a list per chip"),
    "store_backend_db_to_yaml": Option(
        _flag, "writes backend_runtime_params_path when a device of the Python API compiles, in place of reading it"
    ),
    "input_queues_on_host": Option(_flag, "keeps inputs in the host's memory instead of DRAM"),
    "output_queues_on_host": Option(_flag, "keeps outputs in the host's memory instead of DRAM"),
    "enable_auto_transposing_placement": Option(_flag, "allows tall ops to be placed on their side"),
    "use_interactive_placer": Option(_flag, "false refuses Ribbon, which places as it chooses; no other policy does"),
    "op_intermediates_to_save": Option(_names, "makes the results of these ops outputs"),
    "enable_enumerate_u_kt": Option(_flag, "also tries products with smaller inner blocks"),
    "enable_device_tilize": Option(_flag, "the card makes the tiles of inputs, by an op for each reader"),
    "dram_placement_algorithm": Option(_one_of(*PICKERS), "channels of queues in DRAM"),
    "chip_placement_policy": Option(_one_of(*CHIP_ORDERS), "order of chips: MMIO_LAST ends at chip 0"),
    "enable_forked_dram_inputs": Option(_flag, no_effect="the ops of an epoch share a read in any case"),
    "device_config": Option(_one_of(*DEVICE_CONFIGS), "board and harvested rows of a known card"),
}
"""All options of TT-Buda (its documentation of set_configuration_options), in its order."""

FIELDS: dict[str, Option] = {
    "default_dram_parameters": Option(_flag, "whether parameters stay in DRAM; false holds them in L1 where they fit"),
    "enable_single_buffer_fallback": Option(_flag, "holds an output once where it does not fit twice"),
    "op_names_dont_fuse": Option(_names, "ops that are not fused"),
    "op_names_manual_fuse": Option(_names, "the only ops that are fused"),
}
"""What a program sets on TT-Buda's compiler configuration alone, and is planned here."""
SETTABLE = OPTIONS | FIELDS
OVERRIDES = ("grid_shape", "t_stream_dir", "t_stream_shape", "u_kt", "force_dram_parameters")
"""Attributes of an op's override in TT-Buda that are planned here, in the order of OpOverride's fields."""
STREAM_DIRECTIONS = ("n", "r", "c", "rz", "cz")


@dataclass
class Configuration:
    """The options that were set; all others keep TT-Buda's default."""

    values: dict[str, Any] = field(default_factory=dict)
    epoch_breaks: list[str | Predicate] = field(default_factory=list)
    chip_breaks: list[str | Predicate] = field(default_factory=list)
    transposed: list[str | Predicate] = field(default_factory=list)
    """Ops that are placed on their side."""
    overrides: dict[str, OpOverride] = field(default_factory=dict)
    """Op -> the choices that are fixed for it."""
    precisions: list[OpPrecision] = field(default_factory=list)
    nops: list[Nop] = field(default_factory=list)
    skip_missing_ops: bool = False
    """Whether ops that are named and not there, or are of another kind, give a warning: the compiler names the ops of a
    framework's model."""
    input_names: tuple[str, ...] = ()
    """What the program calls the inputs of the module, in order."""

    def copy(self) -> Configuration:
        """Returns one of its own."""
        return replace(
            self,
            values=dict(self.values),
            epoch_breaks=list(self.epoch_breaks),
            chip_breaks=list(self.chip_breaks),
            transposed=list(self.transposed),
            overrides=dict(self.overrides),
            precisions=list(self.precisions),
            nops=list(self.nops),
        )

    def set_configuration_options(self, **options: Any) -> None:
        """Sets options; None leaves one as it is. Raises CompilerInputError for an unknown one or a wrong value."""
        import difflib

        for name, value in options.items():
            if name not in SETTABLE:
                near = difflib.get_close_matches(name, SETTABLE, n=3, cutoff=0.4) or ["--list-options"]
                raise CompilerInputError(f"option: expected one of TT-Buda's, got {name!r}; try {', '.join(near)}")
            if value is None:
                continue
            option = SETTABLE[name]
            try:
                self.values[name] = option.read(value)
            except ValueError as error:
                raise CompilerInputError(f"{name}: expected {error}, got {value!r}") from error
            if option.no_effect:
                warnings.warn(f"{name}: has no effect here: {option.no_effect}", NoEffect, stacklevel=2)

    def set_epoch_break(self, op_names: str | Predicate | Iterable[str | Predicate]) -> None:
        """Makes each of these ops, or of those that a predicate matches, start an epoch."""
        self.epoch_breaks += _ops(op_names)

    def set_chip_break(self, op_names: str | Predicate | Iterable[str | Predicate]) -> None:
        """Makes each of these ops, or of those that a predicate matches, start an epoch on the next chip."""
        self.chip_breaks += _ops(op_names)

    def set_transposed(self, op_names: str | Predicate | Iterable[str | Predicate]) -> None:
        """Places each of these ops, or of those that a predicate matches, on its side."""
        self.transposed += _ops(op_names)

    def configure_mixed_precision(self, **settings: Any) -> None:
        """Sets formats and fidelity of the ops that `settings` select (see OpPrecision). Raises CompilerInputError."""
        self.precisions.append(OpPrecision.of(settings))

    def override_op_size(self, op_name: str, grid_size: tuple[int, int]) -> None:
        """Sets the grid of an op."""
        self.override_op(op_name, "grid_shape", grid_size)

    def override_op(self, op_name: str, attribute: str, value: Any) -> None:
        """Fixes one of `OVERRIDES` for an op. Raises CompilerInputError for another attribute or a wrong value."""
        if attribute not in OVERRIDES:
            raise CompilerInputError(f"override of {op_name}: expected {', '.join(OVERRIDES)}, got {attribute!r}")
        name = [*OpOverride.__dataclass_fields__][OVERRIDES.index(attribute)]
        try:
            read = _override(attribute, value)
        except (TypeError, ValueError):
            wanted = {"t_stream_dir": ", ".join(STREAM_DIRECTIONS), "u_kt": "a number from 1 on"}
            expected = wanted.get(attribute, "true or false" if attribute.startswith("force") else "(rows, columns)")
            raise CompilerInputError(f"{attribute} of {op_name}: expected {expected}, got {value!r}") from None
        self.overrides[op_name] = replace(self.overrides.get(op_name, OpOverride()), **{name: read})

    def insert_nop(self, nop: Nop) -> None:
        """Puts a nop between an op or input and some of its readers."""
        self.nops.append(nop)

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value that an option was set to."""
        return self.values.get(name, default)

    def described(self) -> dict[str, Any]:
        """Returns what was set, for a JSON file."""
        free = asdict(OpOverride())
        sizes = {name: [o.grid.r, o.grid.c] for name, o in self.overrides.items() if o.grid is not None}
        fixed = {
            name: {key: value for key, value in asdict(replace(o, grid=None)).items() if value != free[key]}
            for name, o in self.overrides.items()
        }
        more = {
            "epoch_breaks": list(map(str, self.epoch_breaks)),
            "chip_breaks": list(map(str, self.chip_breaks)),
            "transposed_ops": list(map(str, self.transposed)),
            "op_sizes": sizes,
            "op_overrides": {name: choices for name, choices in fixed.items() if choices},
            "nops": [asdict(nop) for nop in self.nops],
            "mixed_precision": [asdict(precision) for precision in self.precisions],
        }
        return {**self.values, **{name: value for name, value in more.items() if value}}

    @property
    def device(self) -> tuple[str, int]:
        """Returns board ('' if none was set) and mask of harvested rows; of several chips that with most such rows."""
        return self._described()[0], max(self._masks() or (0,), key=int.bit_count)

    def _described(self) -> tuple[str, int]:
        """Returns board and mask of the card that is named or described by a file. Raises CompilerInputError."""
        if "device_config" in self.values:
            return DEVICE_CONFIGS[self.values["device_config"]]
        descriptor, params = self.get("backend_device_descriptor_path"), self.get("backend_runtime_params_path")
        try:
            if descriptor is not None:
                return read_device_descriptor(Path(descriptor))
            if params is not None and not self.get("store_backend_db_to_yaml", False) and Path(params).exists():
                return read_runtime_params(Path(params))
        except ValueError as error:
            raise CompilerInputError(str(error)) from error
        return "", 0

    def _masks(self) -> tuple[int, ...]:
        """Returns the masks that were set: one for every chip, or one per chip."""
        _, mask = self._described()
        rows = self.get("harvested_rows")
        if rows is None:
            return (mask,)
        chips = rows if rows and isinstance(rows[0], tuple) else (rows,)
        return tuple(sum(1 << row for row in chip) for chip in chips)

    def harvested(self, chips: int = 1) -> tuple[int, ...]:
        """Returns the mask of harvested rows of each chip. Raises CompilerInputError if other chips were described."""
        masks, rows = self._masks(), self.get("harvested_rows")
        per_chip = bool(rows) and isinstance(rows[0], tuple)
        if per_chip and len(masks) != chips:
            raise CompilerInputError(
                f"harvested_rows: expected a list of rows for each of {chips} chips, got {len(masks)} lists; "
                "try one list without lists inside, which every chip has"
            )
        return masks if per_chip else masks * chips

    def legalizer(self, graph: BudaGraph, base: LegalizerOptions | None = None) -> LegalizerOptions:
        """Returns the legalizer's options. Raises CompilerInputError if an overridden op is not in the graph."""
        base = base or LegalizerOptions()
        overrides, free = dict(base.overrides), OpOverride()
        for name in self._there(graph, self.overrides):
            fixed = {key: value for key, value in vars(self.overrides[name]).items() if value != getattr(free, key)}
            overrides[name] = replace(overrides.get(name, OpOverride()), **fixed)
        return replace(
            base,
            dram_parameters=self.get("default_dram_parameters", base.dram_parameters),
            single_buffer_fallback=self.get("enable_single_buffer_fallback", base.single_buffer_fallback),
            streaming=self.get("enable_t_streaming", base.streaming),
            manual_streaming=self.get("manual_t_streaming", base.manual_streaming),
            one_row=self.get("place_on_one_row", base.one_row),
            enumerate_u_kt=self.get("enable_enumerate_u_kt", base.enumerate_u_kt),
            overrides=overrides,
            overrides_may_miss=self.skip_missing_ops,
        )

    def placer(self, graph: BudaGraph, chips: int = 1, chip_ids: tuple[int, ...] = ()) -> PlacerOptions:
        """Returns the placer's options; chips have the numbers from 0 if they have no others."""
        order = chip_ids or tuple(range(chips))
        chips = len(order)
        if self.get("chip_placement_policy") == "MMIO_LAST":
            order = order[::-1]
        return PlacerOptions(
            tuple(self._meant(graph, self.epoch_breaks)),
            tuple(self._meant(graph, self.chip_breaks)),
            chips,
            self.get("enable_auto_transposing_placement", True),
            order,
            tuple(self._meant(graph, self.transposed)),
        )

    def applied(self, graph: BudaGraph, arch: str) -> BudaGraph:
        """Returns the graph with the requested nops, formats, fidelity and outputs, and with small ops fused.

        Ops that break an epoch or a chip, or have a size of their own, are not fused.
        """
        for nop in self.nops:
            graph = self._with_nop(graph, nop)
        if self.get("enable_device_tilize", False):
            graph = tilized(graph)
        graph = with_formats(
            graph, self.get("default_df_override"), self.get("accumulate_df"), self.get("math_fidelity")
        )
        graph = mixed_precision(graph, self.get("amp_level", 0))
        for precision in self.precisions:
            graph = precision.applied(graph)
        graph = with_outputs(graph, self._there(graph, self.get("op_intermediates_to_save", ())))
        if not self.get("enable_auto_fusing", True):
            return graph
        named = (*self.epoch_breaks, *self.chip_breaks, *self.transposed)
        apart = {*self._meant(graph, named), *self.overrides, *self.get("op_names_dont_fuse", ())}
        if fused := self.get("op_names_manual_fuse", ()):
            apart |= {node.name for node in graph.ops} - set(fused)
        return fuse_ops(graph, arch, apart)

    def plan(self, graph: BudaGraph, arch: str, chips: int = 1, options: PolicyOptions | None = None) -> BudaPlan:
        """Plans a graph. Raises CompilerInputError."""
        board, mask = self.device
        self.harvested(chips)
        budget = budget_of(board or arch, mask)
        policy = self.get("balancer_policy", "default")
        if policy == Ribbon.name and not self.get("use_interactive_placer", True):
            others = ", ".join(name for name in POLICIES if name != policy)
            raise CompilerInputError(
                f"use_interactive_placer: expected true with policy {policy}, got false; try {others}"
            )
        graph = self.applied(graph, budget.arch)
        return plan(
            graph,
            budget,
            policy,
            self.legalizer(graph),
            options,
            self.placer(graph, chips),
        )

    def _meant(self, graph: BudaGraph, ops: Iterable[str | Predicate]) -> list[str]:
        """Returns the names of the ops that are named or matched. Raises CompilerInputError if an op is not there."""
        names: dict[str, None] = {}
        for op in ops:
            if isinstance(op, str):
                names |= dict.fromkeys(self._there(graph, [op]))
                continue
            matching = [node.name for node in graph.ops if op(node.name, node.spec.type, node.name.rpartition(".")[0])]
            if not matching and not self.skip_missing_ops:
                raise CompilerInputError(f"graph {graph.name}: expected ops that the predicate matches, got none")
            names |= dict.fromkeys(matching)
        return list(names)

    def _there(self, graph: BudaGraph, names: Iterable[str]) -> list[str]:
        """Returns the named ops that are in the graph. Raises CompilerInputError for others, or warns of them once."""
        there, missing = [], []
        known = {node.name for node in graph.nodes}
        for name in names:
            if self.skip_missing_ops and name not in known:
                missing.append(name)
            else:
                there.append(graph.node(name).name)
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            warnings.warn(f"{missing[0]}{more}: has no effect here: {MISSING_OP}", NoEffect, stacklevel=2)
        return there

    def _with_nop(self, graph: BudaGraph, nop: Nop) -> BudaGraph:
        """Returns the graph with a nop. Raises CompilerInputError if its ends are not there."""
        ends = (nop.source, *nop.readers)
        return nop.inserted(graph) if len(self._there(graph, ends)) == len(ends) else graph


MISSING_OP = "a model of a framework has ops of other names here; try `opscope plan`, or predicates of pybuda.query"


def _override(attribute: str, value: Any) -> Any:
    """Reads the value of one of `OVERRIDES`. Raises TypeError, ValueError."""
    if attribute == "force_dram_parameters":
        return _flag(value)
    if attribute == "t_stream_dir":
        return _one_of(*STREAM_DIRECTIONS)("n" if value is None else value)
    if attribute == "u_kt":
        return _integer(1, 1 << 16)(value)
    rows, columns = (_integer(1, 1 << 16)(number) for number in value)
    return Grid(rows, columns) if attribute == "grid_shape" else (rows, columns)


def with_formats(graph: BudaGraph, data_format: str | None, acc: str | None, fidelity: str | None) -> BudaGraph:
    """Returns the graph in other formats; a convolution's picker and its gather keep theirs."""
    nodes = []
    for node in graph.nodes:
        gathers = node.op is not None and node.op.sparse is not None
        picker = any(
            e.operand == 0 and graph.node(e.consumer).op and graph.node(e.consumer).spec.sparse is not None
            for e in graph.users(node.name)
        )
        changed = node
        if data_format and number_format(node.data_format).is_float and not picker:
            changed = replace(changed, data_format=data_format)
        if node.op is not None:
            changed = replace(
                changed,
                op=replace(
                    node.op,
                    acc_format=acc or node.op.acc_format,
                    math_fidelity=node.op.math_fidelity if gathers else fidelity or node.op.math_fidelity,
                ),
            )
        nodes.append(changed)
    return BudaGraph(graph.name, tuple(nodes), graph.edges)


def with_outputs(graph: BudaGraph, names: Iterable[str]) -> BudaGraph:
    """Returns the graph with the results of these ops as additional outputs."""
    from opscope.compiler.buda.graph import Edge, Node

    nodes, edges = list(graph.nodes), list(graph.edges)
    for name in names:
        op = graph.node(name)
        nodes.append(Node(name + SAVED, NodeKind.OUTPUT, op.shape, op.data_format, elements=op.elements))
        edges.append(Edge(name, name + SAVED))
    return BudaGraph(graph.name, tuple(nodes), tuple(edges))

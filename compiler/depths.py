"""TT-Buda's fifteen compile depths, for programs that are planned (tt-buda: pybuda/compile.py, CompileDepth).

Depths 0 to 12 are steps of the compiler, listed in `STEPS`. Depth 13 runs the netlist and depth 14 is reached when its
numbers are right, so both need a device and are left to the backend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from opscope.compiler.buda.configuration import Configuration
from opscope.compiler.errors import CompilerInputError, StageFailure

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp

    from opscope.compiler.buda.graph import BudaGraph
    from opscope.compiler.buda.netlist.model import Netlist
    from opscope.compiler.buda.plan import BudaPlan
    from opscope.compiler.buda.plan_to_binary import PlannedProgram
    from opscope.compiler.ir.repeated_layers import Repetition
    from opscope.compiler.translations.ttir_to_graph.host import HostPart
    from opscope.compiler.translations.ttir_to_graph.rest import RestPart


class CompileDepth(IntEnum):
    """How far a program has got."""

    INIT_COMPILE = 0
    GENERATE_INITIAL_GRAPH = 1
    POST_INITIAL_GRAPH_PASS = 2
    CONSTEVAL_GRAPH = 3
    POST_PATTERN_MATCHER = 4
    OPTIMIZED_GRAPH = 5
    AUTOGRAD = 6
    POST_AUTOGRAD_PASS = 7
    PRE_LOWERING_PASS = 8
    BUDA_GRAPH_PRE_PLACER = 9
    BALANCER_PASS = 10
    PRE_NETLIST_PASS = 11
    GENERATE_NETLIST = 12
    BACKEND_GOLDEN_VERIFY = 13
    FULL = 14

    @property
    def stage(self) -> str:
        """Its name as a stage of the ladder, such as `generate-netlist`."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, word: str) -> CompileDepth:
        """Returns the depth of that name or stage; case is ignored. Raises CompilerInputError."""
        key = word.upper().replace("-", "_")
        if key not in cls.__members__:
            import difflib

            near = difflib.get_close_matches(key, cls.__members__, n=3, cutoff=0.4)
            raise CompilerInputError(f"depth: expected one of TT-Buda's, got {word!r}; try {', '.join(near) or 'FULL'}")
        return cls[key]


@dataclass
class Compilation:
    """A program and everything that the steps so far have produced; each step reads the results of earlier ones."""

    source: bytes
    """StableHLO, text or bytecode."""
    board: str
    configuration: Configuration = field(default_factory=Configuration)
    name: str = "program"
    chip_ids: tuple[int, ...] = (0,)
    """The chips that the program may use."""
    single_op: bool = False
    """An op by itself: its arguments are all inputs, none is a model's parameter."""
    epoch_type: str = ""
    """The program is all of it `forward`, `backward` or `optimizer`; empty: the locations of its ops tell."""
    parameters: frozenset[int] | None = None
    """The arguments that are parameters; None finds out from their uses."""
    microbatch: int = 1
    """How many inputs one execution of the program takes, one after another."""
    fallback: bool = False
    """Whether ops that cannot be lowered are left to the host, after the device has run."""
    reached: CompileDepth | None = None
    initial: ModuleOp | None = None
    ttir: ModuleOp | None = None
    on_host: dict[Any, Any] = field(default_factory=dict)
    repeats: Repetition | None = None
    lowering: Any = None
    host: HostPart | None = None
    rest: RestPart | None = None
    """What the host computes after the device has run, if anything."""
    graph: BudaGraph | None = None
    plan: BudaPlan | None = None
    program: PlannedProgram | None = None
    netlist: Netlist | None = None
    netlist_text: str = ""

    @property
    def entry(self) -> FuncOp:
        """The program's function in TTIR."""
        from opscope.compiler.ir.functions import functions

        assert self.ttir is not None
        return functions(self.ttir)[0]


def _init(c: Compilation) -> None:
    """Resolves the board and its settings."""
    from opscope.compiler.buda.planner import budget_of

    board, mask = c.configuration.device
    c.board = board or c.board
    c.configuration.harvested(len(c.chip_ids))
    try:
        budget_of(c.board, mask)
    except ValueError as error:
        raise CompilerInputError(str(error)) from error


def _initial(c: Compilation) -> None:
    """Reads StableHLO: the graph as the framework wrote it."""
    from opscope.compiler.ir import guard

    c.initial = guard.read(c.source)


def _decomposed(c: Compilation) -> None:
    """TTIR: composites and chlo ops in terms of simpler ones, indices narrowed."""
    from opscope.compiler.pipelines.pipeline import run, ttir_passes

    assert c.initial is not None
    c.ttir = c.initial.clone()
    run(ttir_passes("fallback" if c.fallback else "fail", c.board), c.ttir)


def _consteval(c: Compilation) -> None:
    """Chooses the ops that the host computes: those of parameters alone once, those of integers for each input."""
    from xdsl.dialects.builtin import UnitAttr

    from opscope.compiler.translations.ttir_to_graph.arguments import (
        DEVICE_COMPARES,
        NO_CONSTEVAL,
        mark_parameters,
        parameters,
    )
    from opscope.compiler.translations.ttir_to_graph.hosts import host_ops

    block = c.entry.body.block
    if c.parameters is not None:
        mark_parameters(c.entry, c.parameters)
    if not c.configuration.get("enable_consteval", True):
        c.entry.attributes[NO_CONSTEVAL] = UnitAttr()
    c.on_host = host_ops(block, parameters(block, c.single_op))
    if not c.single_op and len(c.on_host) == sum(op.name != "func.return" for op in block.ops):
        c.entry.attributes[DEVICE_COMPARES] = UnitAttr()
        c.on_host = host_ops(block, parameters(block, c.single_op))


def _patterns(c: Compilation) -> None:
    """Finds repeated layers."""
    from opscope.compiler.ir.repeated_layers import repetition

    c.repeats = repetition(c.entry.body.block)


def _optimized(c: Compilation) -> None:
    """Unrolls loops of known length (`ttir-unroll-loops`), removes data movements that cancel."""
    from opscope.compiler.pipelines.buda import optimizing
    from opscope.compiler.pipelines.pipeline import run

    assert c.ttir is not None
    run(optimizing(c.configuration.get("enable_stable_softmax", True)), c.ttir)


def _autograd(c: Compilation) -> None:
    """Marks forward, backward and optimizer ops, by JAX's locations, and sorts them so (`ttir-epoch-types`)."""
    from opscope.compiler.pipelines.buda import marking
    from opscope.compiler.pipelines.pipeline import run

    assert c.ttir is not None
    run(marking(c.epoch_type), c.ttir)


def _post_autograd(c: Compilation) -> None:
    """Prestrides convolutions, fractures large ones (`ttir-conv-prestride`, `ttir-conv-fracture`); writes comparisons,
    `where`, divisions, roots, negations in TT-Buda's ops (`ttir-decompose-buda`); removes movements that cancel now."""
    from opscope.compiler.pipelines.buda import decomposing
    from opscope.compiler.pipelines.pipeline import run

    assert c.ttir is not None
    run(decomposing(c.single_op, c.configuration.get("enable_conv_prestride", True)), c.ttir)


def _lowered(c: Compilation) -> None:
    """Lowers to Buda's ops: data movement on edges, convolutions as gather and product. Splits off the host's part."""
    from opscope.compiler.translations.ttir_to_graph.host import host_part
    from opscope.compiler.translations.ttir_to_graph.lowering import lowered
    from opscope.compiler.translations.ttir_to_graph.rest import rest_part

    assert c.ttir is not None
    acc = c.configuration.get("accumulate_df", "Float16_b")
    c.lowering = lowered(
        c.ttir,
        c.name,
        acc_format=acc,
        all_inputs=c.single_op,
        fallback=c.fallback,
        input_names=c.configuration.input_names,
    )
    made = c.lowering.results or c.lowering.rest_inputs
    if not made or not any(node.op is not None for node in c.lowering.builder.nodes.values()):
        raise StageFailure("pre-lowering-pass", "module", "all of it stays on the host, as in TT-Buda", kind="host")
    c.host = host_part(c.entry, c.lowering.contents, c.lowering.host_results)
    if c.fallback:
        c.rest = rest_part(c.entry, c.lowering.rest_inputs, c.lowering.rest_results)


def _pre_placer(c: Compilation) -> None:
    """Makes the graph in tiles, with the configured formats and fidelity, and fuses small ops."""
    from opscope.compiler.buda.planner import budget_of

    c.graph = c.configuration.applied(c.lowering.builder.graph(), budget_of(c.board).arch)


def _balanced(c: Compilation) -> None:
    """Plans the cores of every op: op models, policy, placer."""
    from opscope.compiler.buda.planner import budget_of, plan

    assert c.graph is not None
    _, mask = c.configuration.device
    policy = c.configuration.get("balancer_policy", "default")
    c.plan = plan(
        c.graph,
        budget_of(c.board, mask),
        policy,
        c.configuration.legalizer(c.graph),
        None,
        c.configuration.placer(c.graph, chip_ids=c.chip_ids),
    )


def _pre_netlist(c: Compilation) -> None:
    """Makes the program and allocates its queues in DRAM."""
    from opscope.compiler.buda.plan_to_binary import QueueOptions, to_binary
    from opscope.compiler.target.system_desc import load_board

    assert c.plan is not None
    c.program = to_binary(
        c.plan,
        load_board(c.board),
        QueueOptions.of(c.configuration, c.microbatch),
        harvested=c.configuration.harvested(len(c.chip_ids)),
        chip_ids=c.chip_ids,
    )


def _netlist(c: Compilation) -> None:
    """Writes the netlist, parses it again and checks it like one from elsewhere."""
    from opscope.compiler.buda.netlist.check import check
    from opscope.compiler.buda.netlist.emit import netlist_of, to_yaml
    from opscope.compiler.buda.netlist.parse import parse
    from opscope.compiler.buda.netlist.to_binary import with_programs

    assert c.plan is not None
    assert c.program is not None
    c.netlist_text = to_yaml(netlist_of(c.plan, c.program, c.microbatch))
    c.netlist = parse(c.netlist_text, c.name)
    check(c.netlist)
    c.program = with_programs(c.program, c.netlist)


STEPS: dict[CompileDepth, Callable[[Compilation], None]] = {
    CompileDepth.INIT_COMPILE: _init,
    CompileDepth.GENERATE_INITIAL_GRAPH: _initial,
    CompileDepth.POST_INITIAL_GRAPH_PASS: _decomposed,
    CompileDepth.CONSTEVAL_GRAPH: _consteval,
    CompileDepth.POST_PATTERN_MATCHER: _patterns,
    CompileDepth.OPTIMIZED_GRAPH: _optimized,
    CompileDepth.AUTOGRAD: _autograd,
    CompileDepth.POST_AUTOGRAD_PASS: _post_autograd,
    CompileDepth.PRE_LOWERING_PASS: _lowered,
    CompileDepth.BUDA_GRAPH_PRE_PLACER: _pre_placer,
    CompileDepth.BALANCER_PASS: _balanced,
    CompileDepth.PRE_NETLIST_PASS: _pre_netlist,
    CompileDepth.GENERATE_NETLIST: _netlist,
}
"""Depth -> the step that reaches it."""


def step(compilation: Compilation, depth: CompileDepth) -> None:
    """Runs one step of a compilation. Raises StageFailure, CompilerInputError."""
    STEPS[depth](compilation)
    compilation.reached = depth


def compile_to(compilation: Compilation, depth: CompileDepth = CompileDepth.GENERATE_NETLIST) -> Compilation:
    """Runs all remaining steps up to a depth. Raises StageFailure, CompilerInputError."""
    for next_depth in STEPS:
        if next_depth <= depth and (compilation.reached is None or next_depth > compilation.reached):
            step(compilation, next_depth)
    return compilation

"""Plans of small graphs as they were when last looked at: `python -m opscope.compiler.tests.frozen_plans --update`.

Each case is kept in `data/frozen_plans.txt` as the lines that `opscope plan` prints, so that a change of a policy or a
limit can be read in a diff, followed by digests of what is too long to read: every candidate of every op with its
buffers or failure, the netlist, and the back end's pipes and programs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from opscope.compiler.buda.backend_output.pipes import pipes_of
from opscope.compiler.buda.backend_output.threads import threads
from opscope.compiler.buda.balancer.options import LegalizerOptions
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.fuse_ops import fuse_ops
from opscope.compiler.buda.graph import BudaGraph
from opscope.compiler.buda.netlist.emit import netlist_of
from opscope.compiler.buda.plan_answer import answer
from opscope.compiler.buda.plan_report import op_lines, plan_lines
from opscope.compiler.buda.plan_to_binary import to_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.target.system_desc import load_board

FILE = Path(__file__).parent / "data" / "frozen_plans.txt"

GRAPHS: dict[str, Callable[[], BudaGraph]] = {
    "matmul": lambda: graphs.matmul(8, 12, 6),
    "deep matmul": lambda: graphs.matmul(4, 6, 4, "Bfp8_b", z=6, math_fidelity="LoFi"),
    "stacked result": lambda: graphs.matmul(8, 4, 8, out_of="hslice(4);vstack(2)"),
    "stacked operand": lambda: graphs.stacked_right_operand("hslice(2)"),
    "stacked exp": lambda: graphs.stacked_unary(6, 4, "vstack(6)"),
    "turned exp": lambda: graphs.then_unary(8, 6, "transpose"),
    "broadcast": lambda: graphs.unary(1, 6, "gelu", "Float32", into="broadcast(r, 8)", approximate=True),
    "fork": graphs.fork,
    "two matmuls": graphs.two_matmuls,
    "deep pair": graphs.z_pair,
    "gather of one tap": graphs.one_tap_convolution,
    "sum over columns": lambda: graphs.reduction(6, 10, "c"),
    "sum of three": lambda: graphs.sum_of(3, 4, 8),
    "products": graphs.product_of_products,
    "chain": lambda: graphs.chain(5),
    "fused fork": lambda: fuse_ops(graphs.fork(), "wormhole_b0"),
    "fused fork for grayskull": lambda: fuse_ops(graphs.fork(), "grayskull"),
}
NOT_PLANNED = {("products", "n150"), ("fused fork", "e150"), ("fused fork for grayskull", "n150")}
CASES = [
    *((name, board, "NLP") for name in GRAPHS for board in ("e150", "n150") if (name, board) not in NOT_PLANNED),
    *(
        (name, "n150", policy)
        for name in ("fork", "deep pair", "gather of one tap")
        for policy in ("MaximizeTMinimizeGrid", "MinimizeGrid", "Random", "CNN", "Ribbon")
    ),
    ("matmul", "p150", "Ribbon"),
]


def said(value: Any) -> Any:
    """A dataclass as its fields that differ from their defaults, so that a new field changes no digest."""
    if is_dataclass(value):
        now_and_default = {each.name: (getattr(value, each.name), each.default) for each in fields(value)}
        return {
            name: said(now)
            for name, (now, default) in now_and_default.items()
            if now != default and now not in ((), {})
        }
    if isinstance(value, Mapping):
        return [[said(key), said(each)] for key, each in value.items()]
    return [said(each) for each in value] if isinstance(value, tuple | list) else value


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def lines(name: str, board: str, policy: str) -> Iterator[str]:
    """One plan: what people read of it, and digests of the rest."""
    graph = GRAPHS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        planned = plan(graph, budget_of(board), policy, LegalizerOptions(single_buffer_fallback=True))
    yield from plan_lines(planned)
    for node in graph.ops:
        last = list(op_lines(planned, node.name))[-2:]
        candidates = digest(answer(planned, node.name).model_dump(mode="json")["op"])
        yield f"{node.name} candidates {candidates} {'; '.join(last)}"
    program = to_binary(planned, load_board(board))
    yield f"netlist {digest(said(netlist_of(planned, program)))}"
    placed = {op.name: op for op in program.binary.plan.ops}
    for node in graph.ops:
        pipes = [pipe.row() for pipe in pipes_of(planned, placed, node)]
        yield f"{node.name} back end {digest([pipes, *threads(graph, node, planned.choices[node.name].model)])}"


@functools.cache
def sections() -> dict[str, list[str]]:
    """Case -> lines, as stored."""
    stored: dict[str, list[str]] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            stored[line[3:]] = []
        else:
            stored[list(stored)[-1]].append(line)
    return stored


def main() -> None:
    if sys.argv[1:] != ["--update"]:
        sys.exit(f"expected --update, got {sys.argv[1:]}; see the head of {__file__}")
    text = [line for case in CASES for line in (f"== {', '.join(case)}", *lines(*case))]
    FILE.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

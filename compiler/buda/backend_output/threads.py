"""The programs of a core's three threads for an op: tile by tile, in loops.

Thread 0 unpacks tiles from L1 into the source registers, thread 1 computes in Dst, thread 2 packs Dst to L1. They wait
for each other through buffers of tiles. Steps are mappings `{step: arguments}`; a loop is `{loop: count, of: what,
steps: [...]}`. Every core of an op runs the same program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.fused import DEST, OUTPUT, Fused
from opscope.compiler.buda.graph import FIDELITIES, BudaGraph, Node, OpSpec

Steps = list[dict[str, Any]]


def kernel_arguments(graph: BudaGraph, node: Node, model: OpModel) -> dict[str, Any]:
    """Returns the settings that the op's kernel is compiled with."""
    spec, block = node.spec, model.block
    edges = graph.operands(node.name)
    return {
        "op": node.name,
        "type": spec.type,
        **_steps_of(spec),
        "block": {
            "t": block.t,
            "mblock": [block.mblock_m, block.mblock_n],
            "ublock": [block.ublock.rt, block.ublock.ct],
        },
        "block_cnt": model.m_k,
        "u_kt": model.u_kt,
        "ublock_order": graph.ublock_orders[node.name],
        "in_df": [graph.node(edge.producer).data_format for edge in edges],
        "out_df": node.data_format,
        "intermed_df": spec.intermediate_format or node.data_format,
        "acc_df": spec.acc_format,
        "math_fidelity": spec.math_fidelity,
        "phases": FIDELITIES[spec.math_fidelity],
        "relu": spec.relu,
        "approximate": spec.approximate,
        "l1_acc": spec.l1_acc,
        "gradient": spec.gradient,
    }


def _steps_of(spec: OpSpec) -> dict[str, Any]:
    """Returns a fused op's steps, and its buffers between them."""
    if spec.fused is None:
        return {}
    steps = [{"step": s.name, "inputs": list(s.inputs), "output": s.output} for s in spec.fused.steps]
    return {"intermediates": spec.fused.intermediates, "steps": steps}


def threads(graph: BudaGraph, node: Node, model: OpModel) -> tuple[Steps, Steps, Steps]:
    """Returns the programs of threads 0, 1 and 2."""
    if node.spec.type == "matmul":
        return _matmul(node, model)
    if node.spec.sparse is not None:
        return _sparse(node, model)
    if node.spec.type == "reduce":
        return _reduce(graph, node, model)
    if node.spec.fused is not None:
        return _fused(node.spec.fused, node, model)
    return _eltwise(graph, node, model)


def _loop(count: int, of: str, steps: Steps) -> Steps:
    """Repeats steps `count` times."""
    return [{"loop": count, "of": of, "steps": steps}]


def _over_blocks(model: OpModel, steps: Steps) -> Steps:
    """Repeats steps for every micro block of every macro block."""
    block = model.block
    inner = _loop(block.mblock_m, "mblock_m", _loop(block.mblock_n, "mblock_n", steps))
    return _loop(block.t, "t", inner)


def _pack(node: Node, model: OpModel, steps_before: Iterable[dict[str, Any]] = ()) -> Steps:
    """Returns thread 2's program: it packs each micro block of Dst to the output buffer."""
    tiles = model.block.ublock.tiles
    pack = {"df": node.data_format, **({"relu": True} if node.spec.relu else {})}
    steps = [
        *steps_before,
        {"wait_dst": tiles},
        {"reserve": {"buffer": "output", "tiles": tiles}},
        {"pack_tiles": {"tiles": tiles, **pack}},
        {"push": {"buffer": "output", "tiles": tiles}},
        {"release_dst": tiles},
    ]
    return _over_blocks(model, steps)


def _matmul(node: Node, model: OpModel) -> tuple[Steps, Steps, Steps]:
    """Multiplies, per inner block, a row of micro blocks of the left operand with those of the right one."""
    block, ublock, deep = model.block, model.block.ublock, model.u_kt
    left, right = ublock.rt * deep, deep * ublock.ct
    reload = node.spec.intermediate_format or node.data_format
    unpack = _loop(
        block.t,
        "t",
        _loop(
            model.m_k,
            "m_k",
            [
                {"wait": {"buffer": "input_1", "tiles": block.mblock_n * right}},
                *_loop(
                    block.mblock_m,
                    "mblock_m",
                    [
                        {"wait": {"buffer": "input_0", "tiles": left}},
                        *_loop(block.mblock_n, "mblock_n", [{"unpack_ab": {"SrcB": left, "SrcA": right}}]),
                        {"pop": {"buffer": "input_0", "tiles": left}},
                    ],
                ),
                {"pop": {"buffer": "input_1", "tiles": block.mblock_n * right}},
            ],
        ),
    )
    phases = FIDELITIES[node.spec.math_fidelity]
    product = {"tiles": ublock.tiles, "inner_tiles": deep, "phases": phases, "acc_df": node.spec.acc_format}
    over = [
        {"acquire_dst": ublock.tiles},
        {"reload": {"when": "m_k > 0", "tiles": ublock.tiles, "df": reload}},
        {"mvmul": product},
        {"commit_dst": ublock.tiles},
    ]
    math = _loop(block.t, "t", _loop(model.m_k, "m_k", _loop(block.mblock_m * block.mblock_n, "ublocks", over)))
    spill = [
        {"wait_dst": ublock.tiles},
        {"pack_tiles": {"tiles": ublock.tiles, "df": reload, "to": "intermediate"}},
        {"release_dst": ublock.tiles},
    ]
    ublocks = block.mblock_m * block.mblock_n
    last = _pack(node, model)[0]["steps"]
    pack = _loop(block.t, "t", [*_loop(model.m_k - 1, "m_k - 1", _loop(ublocks, "ublocks", spill)), *last])
    return unpack, math, pack if model.m_k > 1 else _pack(node, model)


def _sparse(node: Node, model: OpModel) -> tuple[Steps, Steps, Steps]:
    """Computes only non-zero blocks, which the encoding lists strip by strip."""
    share = node.spec.pattern.share(
        model.grid.r, model.stream.r, model.stream.z_major, model.block.ublock.rt, model.u_kt
    )
    right = model.block.mblock_n * model.u_kt * model.block.ublock.ct
    unpack = _loop(
        share.nz_strips,
        "strips (busiest row of cores)",
        [
            {"read_index": {"buffer": "input_2"}},
            {"wait": {"buffer": "input_1", "tiles": right}},
            {"unpack_ab": {"SrcB": "tile named by the index", "SrcA": right}},
            {"pop": {"buffer": "input_1", "tiles": right}},
        ],
    )
    math = _loop(
        share.nz_ublocks,
        "blocks that are not zero (busiest row of cores)",
        [{"mvmul": {"tiles": model.block.ublock.tiles, "phases": FIDELITIES[node.spec.math_fidelity]}}],
    )
    return unpack, math, _pack(node, model)


def _eltwise(graph: BudaGraph, node: Node, model: OpModel) -> tuple[Steps, Steps, Steps]:
    tiles = model.block.ublock.tiles
    edges = graph.operands(node.name)
    inside = {edge.operand: [tm.dim for tm in edge.tms if tm.name == "tile_broadcast"] for edge in edges}
    unpack: Steps = []
    for edge in edges:
        unpack.append({"wait": {"buffer": f"input_{edge.operand}", "tiles": tiles}})
    for edge in edges:
        source = "SrcA" if edge.operand == 0 else "SrcB"
        repeated = {"broadcast": inside[edge.operand]} if inside[edge.operand] else {}
        unpack.append({"unpack": {"buffer": f"input_{edge.operand}", "to": source, "tiles": tiles, **repeated}})
    for edge in edges:
        unpack.append({"pop": {"buffer": f"input_{edge.operand}", "tiles": tiles}})
    compute = {node.spec.type: {"tiles": tiles, "approximate": node.spec.approximate}}
    math = [{"acquire_dst": tiles}, compute, {"commit_dst": tiles}]
    return _over_blocks(model, unpack), _over_blocks(model, math), _pack(node, model)


def _fused(fused: Fused, node: Node, model: OpModel) -> tuple[Steps, Steps, Steps]:
    """Runs the steps in order per micro block: results in Dst stay there, results in buffers come back from L1."""
    tiles = model.block.ublock.tiles
    unpack: Steps = [{"wait": {"buffer": f"input_{i}", "tiles": tiles}} for i in range(fused.inputs)]
    math: Steps = []
    pack: Steps = []
    for step in fused.steps:
        for i, name in enumerate(step.inputs):
            if name == DEST:
                math.append({"move_dst": {"to": "SrcA" if i == 0 else "SrcB", "tiles": tiles}})
                continue
            repeated = [tm.dim for tm in step.tms_of(i) if tm.name == "tile_broadcast"]
            unpack.append(
                {
                    "unpack": {
                        "buffer": name.replace("input", "input_"),
                        "to": "SrcA" if i == 0 else "SrcB",
                        "tiles": tiles,
                        **({"broadcast": repeated} if repeated else {}),
                    }
                }
            )
        unpack += [{"pop": {"buffer": name, "tiles": tiles}} for name in step.pop]
        math += [] if DEST in step.inputs else [{"acquire_dst": tiles}]
        math.append({step.spec.type: {"tiles": tiles, "approximate": step.spec.approximate}})
        if step.output == DEST:
            continue
        math.append({"commit_dst": tiles})
        if step.output != OUTPUT:
            relu = {"relu": True} if step.spec.relu else {}
            pack += [
                {"wait_dst": tiles},
                {"reserve": {"buffer": step.output, "tiles": tiles}},
                {"pack_tiles": {"tiles": tiles, "df": model.intermediates[0].data_format, **relu}},
                {"push": {"buffer": step.output, "tiles": tiles}},
                {"release_dst": tiles},
            ]
    unpack += [{"pop": {"buffer": f"input_{i}", "tiles": tiles}} for i in range(fused.inputs)]
    last = replace(node, op=replace(node.spec, relu=fused.steps[-1].spec.relu))
    return _over_blocks(model, unpack), _over_blocks(model, math), _pack(last, model, pack)


def _reduce(graph: BudaGraph, node: Node, model: OpModel) -> tuple[Steps, Steps, Steps]:
    """Reduces along a dimension of the tile, block after block; along z, tile after tile."""
    (edge,) = graph.operands(node.name)
    spec, tiles, seen = node.spec, model.block.ublock.tiles, graph.operand_shape(edge)
    block = model.inputs[0].block_shape.ublock
    along = {"r": (seen.rt, block.rt), "c": (seen.ct, block.ct), "z": (seen.z, 1)}[spec.reduce_dim]
    rounds, taken = max(1, along[0] // along[1]), block.tiles if spec.reduce_dim != "z" else tiles
    take = [
        {"wait": {"buffer": "input_0", "tiles": taken}},
        {"unpack": {"buffer": "input_0", "to": "SrcA", "tiles": taken}},
        {"pop": {"buffer": "input_0", "tiles": taken}},
    ]
    math = [
        {"acquire_dst": tiles},
        *_loop(rounds, f"along {spec.reduce_dim}", [{f"reduce_{spec.reduce_type}": {"tiles": taken}}]),
        {"commit_dst": tiles},
    ]
    unpack = _over_blocks(model, _loop(rounds, f"along {spec.reduce_dim}", take))
    return unpack, _over_blocks(model, math), _pack(node, model)


def total(steps: Steps, word: str, buffer: str) -> int:
    """Counts the tiles of all steps of that name for a buffer in a program: those that it waits for, pops or pushes."""
    tiles = 0
    for step in steps:
        if "loop" in step:
            tiles += step["loop"] * total(step["steps"], word, buffer)
        elif word in step and isinstance(step[word], dict) and step[word].get("buffer") == buffer:
            tiles += step[word]["tiles"]
    return tiles

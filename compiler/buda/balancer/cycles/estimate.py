"""Chooses the formula and the constants for an op."""

from __future__ import annotations

from dataclasses import replace

from opscope.compiler.buda.balancer.cycles import formulas, sparse
from opscope.compiler.buda.balancer.cycles.weights import BY_ARCH, weights
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Cut
from opscope.compiler.buda.fused import DEST, Fused, types_of
from opscope.compiler.buda.graph import FIDELITIES, Node
from opscope.compiler.target.formats import number_format

BINARY = frozenset({"add", "subtract", "multiply", "quantization", "dequantization", "requantization"})
"""Ops whose cost per tile grows with the width of the format; `maximum` is fitted without this."""

DEST_SAVES = frozenset({"add", "subtract", "multiply"})
IN_DEST = (1, 0.5, 0.2)
"""Share of its cycles that such a step takes in a fused op, with neither, one or both of its ends in Dst."""


def estimate(arch: str, cut: Cut, inputs: tuple[BufferModel, ...], reduced_z: int = 1) -> int:
    """Returns the cycles of one core for one input; `reduced_z` is the depth of a reduction along z."""
    node, stream, block = cut.node, cut.stream, cut.block
    spec = node.spec
    if spec.fused is not None:
        return _fused(arch, cut, spec.fused)
    conditions = conditions_of(node)
    step = inputs[1].block_shape if spec.is_matmul else None
    work = formulas.Work(
        block.t,
        block.ublocks,
        block.ublock.rt,
        block.ublock.ct,
        step.mblock_m if step else 1,
        step.ublock.rt if step else 1,
        FIDELITIES[spec.math_fidelity],
    )
    if spec.type == "reduce" and spec.reduce_dim == "z":
        return formulas.reduce_z(work, weights(arch, "reduce_z", conditions), reduced_z)
    if spec.sparse is not None:
        share = spec.sparse.share(cut.grid.r, stream.r if stream.by_rows else 1, stream.z_major, work.u_rt, work.u_kt)
        rows = sparse.SparseRows(block.mblock_n, share, len(spec.sparse.tiles) // cut.grid.r)
        return sparse.estimate(arch, spec.math_fidelity, node.data_format, work, rows)
    constants = weights(arch, spec.type, conditions)
    if spec.type == "matmul" and arch == "grayskull":
        return formulas.matmul_grayskull(work, constants)
    if spec.is_matmul:
        return formulas.matmul(work, constants)
    return formulas.elementwise(work, constants, _format_weight(node))


def _fused(arch: str, cut: Cut, fused: Fused) -> int:
    """Returns the sum of the steps; an add, subtract or multiply costs less if Dst saves it unpacking or packing."""
    cycles = 0.0
    for step in fused.steps:
        alone = estimate(arch, replace(cut, node=replace(cut.node, op=step.spec)), ())
        ends = (DEST in step.inputs) + (step.output == DEST)
        cycles += alone * (IN_DEST[ends] if step.spec.type in DEST_SAVES else 1)
    return int(cycles)


def unmeasured(arch: str, node: Node) -> tuple[str, ...]:
    """Returns the op's types whose constants were never fitted to measurements; as in TT-Buda they count as a copy."""
    kinds = ("matmul_sparse",) if node.spec.sparse is not None else types_of(node.spec)
    return tuple(kind for kind in kinds if kind not in BY_ARCH[arch])


def theoretical(arch: str, node: Node, block: BlockShape, inputs: tuple[BufferModel, ...]) -> int:
    """Returns the cycles of a matmul at the matrix unit's full rate; 0 for other ops."""
    if node.spec.type != "matmul":
        return 0
    step = inputs[1].block_shape
    products = block.t * step.mblock_m * block.tiles * step.ublock.rt
    return products * FIDELITIES[node.spec.math_fidelity] * (32 if arch == "grayskull" else 16)


def _format_weight(node: Node) -> int:
    if node.spec.type not in BINARY or not number_format(node.data_format).is_float:
        return 1
    bits = number_format(node.data_format).bits
    return {16: 2, 32: 4}.get(bits, 1)


def conditions_of(node: Node) -> frozenset[str]:
    """Returns the conditions of an op by which its weights are chosen, such as `approx`."""
    spec, fmt = node.spec, number_format(node.data_format)
    conditions = {
        "approx": spec.approximate,
        "vector_r": spec.vector == "r",
        "vector_c": spec.vector == "c",
        "l1_acc_en": spec.l1_acc,
        "dim_c": spec.reduce_dim == "c",
        "df_bfp": fmt.kind == "block",
        "df_int8": fmt.name == "Int8",
        "df_int32": fmt.name == "Int32",
    }
    return frozenset(name for name, holds in conditions.items() if holds)

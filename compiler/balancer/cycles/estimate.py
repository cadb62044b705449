"""Which formula an op takes, with which constants."""

from __future__ import annotations

from compiler.balancer.cycles import formulas, sparse
from compiler.balancer.cycles.weights import BY_ARCH, weights
from compiler.balancer.shapes import BlockShape, BufferModel, Grid, StreamFactor
from compiler.graph import FIDELITIES, Node
from compiler.target.formats import number_format

BINARY = frozenset({"add", "subtract", "multiply", "quantization", "dequantization", "requantization"})
"""Ops whose cost per tile grows with the width of the format; `maximum` is fitted without."""


def estimate(
    arch: str,
    node: Node,
    grid: Grid,
    stream: StreamFactor,
    block: BlockShape,
    inputs: tuple[BufferModel, ...],
    reduced_z: int = 1,
) -> int:
    """Cycles of one core for one input; `reduced_z` is the depth of a reduction along z."""
    spec = node.spec
    found = _conditions(node)
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
        return formulas.reduce_z(work, weights(arch, "reduce_z", found), reduced_z)
    if spec.sparse is not None:
        share = spec.sparse.share(grid.r, stream.r if stream.by_rows else 1, stream.z_major, work.u_rt, work.u_kt)
        return sparse.estimate(
            arch, spec.math_fidelity, node.data_format, work, block.mblock_n, share, len(spec.sparse.tiles) // grid.r
        )
    constants = weights(arch, spec.type, found)
    if spec.type == "matmul" and arch == "grayskull":
        return formulas.matmul_grayskull(work, constants)
    if spec.is_matmul:
        return formulas.matmul(work, constants)
    return formulas.elementwise(work, constants, _format_weight(node))


def is_measured(arch: str, node: Node) -> bool:
    """Whether the op's constants were fitted to measurements; others count as a copy, as in TT-Buda."""
    key = "matmul_sparse" if node.spec.sparse is not None else node.spec.type
    return key in BY_ARCH[arch]


def theoretical(arch: str, node: Node, block: BlockShape, inputs: tuple[BufferModel, ...]) -> int:
    """Cycles of a matmul at the matrix unit's full rate; of another op 0."""
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


def _conditions(node: Node) -> frozenset[str]:
    spec, fmt = node.spec, number_format(node.data_format)
    held = {
        "approx": spec.approximate,
        "vector_r": spec.vector == "r",
        "vector_c": spec.vector == "c",
        "l1_acc_en": spec.l1_acc,
        "dim_c": spec.reduce_dim == "c",
        "df_bfp": fmt.kind == "block",
        "df_int8": fmt.name == "Int8",
        "df_int32": fmt.name == "Int32",
    }
    return frozenset(name for name, holds in held.items() if holds)

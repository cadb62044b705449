"""Programs of Buda graphs: the calls of each kind of op, the elements that each reads, and its numerics."""

from __future__ import annotations

from typing import Any

import pytest

from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.fuse_ops import fuse_ops
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, NodeKind, OpSpec, Slices, TensorShape, Tm
from opscope.compiler.buda.graph_builder import GraphBuilder, Operand
from opscope.compiler.buda.graph_to_program import GraphProgram, elements_after, to_program, whole
from opscope.compiler.buda.sparse_pattern import SparsePattern
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.program import (
    EltwiseParams,
    LayoutParams,
    MatmulParams,
    Numerics,
    Operation,
    ReduceParams,
    ReshapeParams,
    SliceParams,
    SparseMatmulParams,
    TensorDesc,
    TmsParams,
)

Elements = tuple[int, int, int]
SHAPES = {32: 1, 64: 2, 96: 3, 128: 4, 224: 7}


def shape(elements: Elements) -> TensorShape:
    return TensorShape(1, elements[0], whole(elements[1]) // 32, whole(elements[2]) // 32)


def made(spec: OpSpec, *operands: tuple[Elements, str], result: Elements, deep: int = 0) -> GraphProgram:
    """The program of one op; its operands are inputs x0, x1 and so on of these elements, after TMs."""
    builder = GraphBuilder("one")
    read = []
    for i, (elements, tms) in enumerate(operands):
        builder.source(f"x{i}", NodeKind.INPUT, shape(elements), "Bfp8_b", elements)
        read.append(Operand.parse(f"x{i} | {tms}" if tms else f"x{i}"))
    out = builder.op("op", spec, read, "Float16", shape(result), result)
    builder.output("y", out, result)
    return to_program(builder.graph(), {"op": deep} if deep else None)


def calls(program: GraphProgram) -> list[tuple[str, list[Elements], Elements]]:
    """Kernels with the elements of what each reads and writes, without those that move data to and from the host."""
    shapes = [tensor.shape for tensor in program.program.tensors]
    return [
        (op.kernel, [shapes[i] for i in op.inputs], shapes[op.outputs[0]])
        for op in program.program.operations
        if op.kernel not in ("to_device", "from_device")
    ]


def params(program: GraphProgram, kernel: str) -> Any:
    (params,) = (op.params for op in program.program.operations if op.kernel == kernel)
    return params


@pytest.mark.parametrize(
    ("tms", "after"),
    [
        ("hslice(2)", (6, 33, 64)),
        ("vslice(2)", (6, 32, 100)),
        ("hstack(3)", (1, 33, 384)),
        ("vstack(3)", (1, 192, 100)),
        ("transpose", (3, 100, 33)),
        ("broadcast(z, 5)", (15, 33, 100)),
        ("broadcast(r, 5)", (3, 320, 100)),
        ("broadcast(c, 5)", (3, 33, 640)),
        ("tile_broadcast(r)", (3, 64, 100)),
        ("tile_broadcast(c)", (3, 33, 128)),
        ("buda_pad(1, 2)", (3, 96, 192)),
        ("buda_unpad(1, 2)", (3, 32, 64)),
        ("transpose; hslice(2)", (6, 100, 32)),
        ("", (3, 33, 100)),
    ],
)
def test_elements_after_tms(tms: str, after: Elements) -> None:
    """33x100 elements are 2x4 tiles; what is cut or joined are tiles."""
    assert elements_after((3, 33, 100), tuple(Tm.parse(tm) for tm in tms.split("; ") if tm)) == after


def test_a_program_from_its_first_tensor_to_its_last() -> None:
    program = made(
        OpSpec("add", "HiFi2", "Float32", approximate=True),
        ((2, 33, 50), ""),
        ((1, 33, 50), "broadcast(z, 2)"),
        result=(2, 33, 50),
    )
    host, device = ("f32", "Float32", "row_major", "system_memory"), ("f32", "Bfp8_b", "tile", "dram")
    both, one = (2, 33, 50), (1, 33, 50)
    main = program.program
    assert main.tensors == (
        TensorDesc(both, *host),
        TensorDesc(both, *device),
        TensorDesc(one, *host),
        TensorDesc(one, *device),
        TensorDesc(both, *device),
        TensorDesc(both, "f32", "Float16", "tile", "dram"),
        TensorDesc(both, *host),
    )
    assert (main.name, main.inputs, main.outputs) == ("main", (0, 2), (6,))
    numerics = Numerics("HiFi2", "Float32", 0, "Float16", True)
    assert main.operations == (
        Operation("to_device", (0,), (1,), LayoutParams(), location="x0"),
        Operation("to_device", (2,), (3,), LayoutParams(), location="x1"),
        Operation("tms", (3,), (4,), TmsParams(("broadcast(z, 2)",), both), location="op.input_1_tms"),
        Operation("add", (1, 4), (5,), EltwiseParams(), numerics, "op"),
        Operation("from_device", (5,), (6,), LayoutParams(), location="y"),
    )
    assert (program.sources, program.outputs) == (("x0", "x1"), ("y",))
    assert program.tensor == {"x0": 1, "x1": 3, "op": 5, "y": 6}
    assert program.operation == {"op": 3}


def test_a_product_reads_the_inner_elements_of_both_sides() -> None:
    def inner(left: Elements, right: Elements) -> list[Elements]:
        program = made(OpSpec("matmul"), (left, ""), (right, ""), result=(left[0], left[1], right[2]))
        *moved, (kernel, read, result) = calls(program)
        assert (kernel, result) == ("matmul", (left[0], left[1], right[2]))
        assert {kernel for kernel, *_ in moved} <= {"tms"}
        return read

    assert inner((2, 33, 50), (2, 50, 70)) == [(2, 33, 50), (2, 50, 70)]
    # Inner dims of other elements are read in whole tiles, as far as the longer one goes.
    assert inner((2, 33, 70), (3, 96, 200)) == [(2, 33, 96), (3, 96, 200)]
    assert inner((2, 200, 66), (1, 70, 50)) == [(2, 200, 96), (1, 96, 50)]


def test_a_product_adds_up_in_steps_and_may_end_in_a_bias_or_a_relu() -> None:
    sides: tuple[tuple[Elements, str], ...] = ((((1, 32, 64)), ""), ((1, 64, 96), ""))
    bias: tuple[Elements, str] = ((1, 1, 96), "tile_broadcast(r)")
    for deep, relu, activation, shown in ((0, False, "", ""), (2, True, "", "relu"), (4, False, "gelu", "gelu")):
        spec = OpSpec("matmul", relu=relu, activation=activation, intermediate_format="Bfp8")
        program = made(spec, *sides, result=(1, 32, 96), deep=deep)
        assert [kernel for kernel, *_ in calls(program)] == ["matmul"]
        assert params(program, "matmul") == MatmulParams(activation=shown)
        op = program.program.operations[program.operation["op"]]
        assert op.numerics == Numerics("HiFi3", "Float16_b", deep, "Bfp8", False)
    both = made(OpSpec("matmul", relu=True, activation="gelu"), *sides, result=(1, 32, 96))
    assert [kernel for kernel, *_ in calls(both)] == ["matmul", "relu"]
    assert params(both, "matmul") == MatmulParams(activation="gelu")
    linear = made(OpSpec("matmul", relu=True), *sides, bias, result=(1, 32, 96))
    assert calls(linear) == [
        ("tms", [(1, 1, 96)], (1, 32, 96)),
        ("linear", [(1, 32, 64), (1, 64, 96), (1, 32, 96)], (1, 32, 96)),
    ]
    assert params(linear, "linear") == MatmulParams(activation="relu")
    with pytest.raises(CompilerInputError, match=r"^op: expected an op that the device runs \(abs, add, .*got matmul;"):
        made(OpSpec("matmul"), *sides, bias, bias, result=(1, 32, 96))


def test_elementwise_ops_have_kernels_of_other_names() -> None:
    x: tuple[Elements, str] = ((1, 33, 50), "")
    assert calls(made(OpSpec("lrelu", scalar=0.5), x, result=(1, 33, 50)))[0][0] == "leaky_relu"
    assert params(made(OpSpec("power", scalar=3.0), x, result=(1, 33, 50)), "pow_scalar") == EltwiseParams((3.0,))
    assert params(made(OpSpec("nop"), x, result=(1, 33, 50)), "typecast") == EltwiseParams()
    assert [c[0] for c in calls(made(OpSpec("nop", relu=True), x, result=(1, 33, 50)))] == ["relu"]
    program = made(OpSpec("exp", relu=True), x, result=(1, 33, 50), deep=3)
    assert [c[0] for c in calls(program)] == ["exp", "relu"]
    # Only a product adds up in steps.
    assert {op.numerics.k_block for op in program.program.operations} == {0}
    assert (program.operation["op"], program.tensor["op"]) == (1, 3)  # the kernel, and what the relu makes of it
    assert [op.location for op in program.program.operations[1:3]] == ["op", "op.relu"]


@pytest.mark.parametrize(("dim", "at"), [("z", 0), ("r", 1), ("c", 2)])
def test_a_reduction_reads_all_along_its_dimension(dim: str, at: int) -> None:
    whole_: Elements = (3, 33, 50)
    result: Elements = tuple(1 if d == at else n for d, n in enumerate(whole_))
    program = made(OpSpec("reduce", reduce_dim=dim, reduce_type="max"), (whole_, ""), result=result)
    assert calls(program) == [("max", [whole_], result)]
    assert params(program, "max") == ReduceParams((at,), True)


def test_a_gather_makes_its_picker_itself() -> None:
    """5x7 pixels, windows of 3x2 that move by 2 and 1: 35 rows of 32 channels are read."""
    pattern = SparsePattern.of_convolution((5, 7), (3, 2), (2, 1), ((1, 0), (0, 2)), (1, 2))
    nodes = (
        Node("p", NodeKind.CONSTANT, TensorShape(1, 1, pattern.rows, pattern.cols), "Bfp2_b"),
        Node("x", NodeKind.INPUT, TensorShape(1, 1, pattern.cols, 1), elements=(1, 35, 32)),
        Node("g", NodeKind.OP, TensorShape(1, 1, pattern.rows, 1), op=OpSpec("sparse_matmul", sparse=pattern)),
        Node("y", NodeKind.OUTPUT, TensorShape(1, 1, pattern.rows, 1)),
    )
    edges = (Edge("p", "g", 0), Edge("x", "g", 1), Edge("g", "y"))
    program = to_program(BudaGraph("gather", nodes, edges))
    assert (program.sources, len(program.program.inputs)) == (("x",), 1)
    assert calls(program) == [("sparse_matmul", [(1, 35, 32)], (1, pattern.rows * 32, 32))]
    assert params(program, "sparse_matmul") == SparseMatmulParams((5, 7), (3, 2), (2, 1), (1, 0, 0, 2), (1, 2))
    # A constant that something else reads too is an input like any other.
    also = (
        *nodes,
        Node("z", NodeKind.OP, nodes[0].shape, op=OpSpec("exp")),
        Node("o", NodeKind.OUTPUT, nodes[0].shape),
    )
    more = to_program(BudaGraph("gather", also, (*edges, Edge("p", "z"), Edge("z", "o"))))
    assert more.sources == ("p", "x")
    unread = (*nodes, Node("u", NodeKind.INPUT, nodes[0].shape))
    assert to_program(BudaGraph("gather", unread, edges)).sources == ("x", "u")
    blind = OpSpec("sparse_matmul", sparse=SparsePattern(1, 1, ()))
    with pytest.raises(CompilerInputError, match=r"^op: expected an op that the device runs .*got sparse_matmul; try"):
        made(blind, ((1, 32, 32), ""), ((1, 32, 32), ""), result=(1, 32, 32))


def test_a_splice_cuts_a_view_of_its_operand() -> None:
    taken = Slices((2, 33, 50), (0, 1, 2), (2, 30, 49), (1, 3, 5))
    program = made(OpSpec("splice", slices=taken), ((1, 66, 50), ""), result=(1, 20, 10))
    assert calls(program) == [
        ("reshape", [(1, 66, 50)], (2, 33, 50)),
        ("slice_static", [(2, 33, 50)], (2, 10, 10)),
        ("reshape", [(2, 10, 10)], (1, 20, 10)),
    ]
    assert params(program, "slice_static") == SliceParams((0, 1, 2), (2, 30, 49), (1, 3, 5))
    assert [op.params for op in program.program.operations if op.kernel == "reshape"] == [
        ReshapeParams((2, 33, 50)),
        ReshapeParams((1, 20, 10)),
    ]
    assert program.program.operations[program.operation["op"]].kernel == "slice_static"
    with pytest.raises(CompilerInputError, match=r"^op: expected a splice that says what it takes, got none$"):
        made(OpSpec("splice"), ((1, 66, 50), ""), result=(1, 20, 10))


def test_a_fused_op_has_the_operations_of_its_steps() -> None:
    graph = fuse_ops(graphs.fork(), "wormhole_b0")
    program = to_program(graph)
    matmul, _, fused = graph.ops
    assert program.operations_of(matmul) == (program.operation["mm"],)
    kernels = [program.program.operations[i].kernel for i in program.operations_of(fused)]
    assert kernels == ["add", "multiply"]

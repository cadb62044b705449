"""The checks of a netlist one by one: each limit from both sides, and buffers by their formulas."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, product
from math import inf
from typing import Any

import pytest

from opscope.compiler.buda.netlist.check import check, core_buffers, for_first_chip, lifetime, programs_in_order
from opscope.compiler.buda.netlist.model import HOST, FusedOp, Graph, Netlist, Op, Program, Queue, SubOp
from opscope.compiler.errors import CompilerInputError

ONE = (1, 1)
FORMAT = "Float16_b"


def queue(name: str, source: str = HOST, **changes: Any) -> Queue:
    """One tile that waits on the host."""
    return replace(Queue(name, source, "queue", 1, ONE, 1, ONE, ONE, FORMAT, 0, "host", ((0, 0),)), **changes)


def op(name: str, *inputs: str, **changes: Any) -> Op:
    """An exponential of one tile on the first core."""
    formats = (FORMAT,) * len(inputs)
    made = Op(name, "exp", (0, 0), ONE, inputs, 1, ONE, ONE, formats, FORMAT, FORMAT, FORMAT, "HiFi3")
    return replace(made, **changes)


def netlist(*graphs: tuple[Op, ...], queues: tuple[Queue, ...] = (queue("x"),), **changes: Any) -> Netlist:
    """Graphs g0, g1 and so on, which one program runs in turn."""
    made = tuple(Graph(f"g{i}", 0, 1, ops) for i, ops in enumerate(graphs))
    runs = tuple(("execute", {"graph_name": graph.name}) for graph in made)
    whole = Netlist("grayskull", {each.name: each for each in queues}, made, (Program("run", runs),))
    return replace(whole, **changes)


def wrong(bad: Netlist) -> str:
    with pytest.raises(CompilerInputError) as caught:
        check(bad)
    return str(caught.value)


def tiles(whole: Netlist, which: Op) -> list[tuple[str, int, str, int]]:
    graph = next(graph for graph in whole.graphs if which in graph.ops)
    return [(b.role, b.operand, b.data_format, b.tiles) for b in core_buffers(whole, graph, which)]


def test_a_product_holds_two_rows_of_its_right_operands_blocks() -> None:
    """2x3 blocks of 4x5 tiles, 6 deep: twice 4 x 6, twice 3 x 6 x 5, and twice the 4 x 5 of a bias."""
    matmul = op("f", "x", "w", "b", type="matmul", mblock=(2, 3), ublock=(4, 5), attributes={"u_kt": 6})
    made = netlist((matmul,), queues=(queue("x"), queue("w"), queue("b")))
    output = ("output", 0, FORMAT, 240)
    assert tiles(made, matmul) == [
        ("input", 0, FORMAT, 48),
        ("input", 1, FORMAT, 180),
        ("input", 2, FORMAT, 40),
        output,
    ]
    flat = replace(matmul, attributes={})
    assert [row[3] for row in tiles(netlist((flat,)), flat)] == [8, 30, 40, 240]
    # The netlist may set some, and those of buffers that are no operands: indices, which nobody chooses for it.
    some = replace(matmul, input_buf_min_size_tiles=(0, 7, 0, 0, 9), buf_size_mb=1)
    assert tiles(netlist((some,)), some) == [
        ("input", 0, FORMAT, 48),
        ("input", 1, FORMAT, 7),
        ("input", 2, FORMAT, 40),
        ("input", 3, "UInt32", 0),
        ("input", 4, "UInt32", 9),
        ("output", 0, FORMAT, 120),
    ]
    # Partial results of another format than the result's wait in a block of their own.
    apart = replace(flat, intermed_df="Float32")
    assert tiles(netlist((apart,)), apart)[4:] == [("intermediate", 0, "Float32", 120)]
    simple = op("f", "x", "x", mblock=(2, 3), ublock=(4, 5), intermed_df="Float32")
    assert [row[3] for row in tiles(netlist((simple,)), simple)] == [40, 40, 240]
    along = replace(simple, type="reduce", attributes={"dim": "z"})
    assert [row[3] for row in tiles(netlist((along,)), along)] == [40, 40, 240, 120]


def test_a_fused_op_holds_a_micro_block_per_intermediate() -> None:
    for count in (0, 1, 3):
        fused = op("f", "x", type="fused_op", mblock=(2, 3), ublock=(2, 4), attributes={"fused_op_id": 5})
        made = netlist((fused,), fused_ops={5: FusedOp(5, 1, count, ())})
        kept = [row for row in tiles(made, fused) if row[0] == "intermediate"]
        assert kept == [("intermediate", i, FORMAT, 8) for i in range(count)]


def test_a_parameter_is_resident_where_a_program_keeps_it_for_this_graph() -> None:
    """24x10 tiles over 6x4 cores: 6 rows of cores have 4 tiles each, 2 columns 5; 7 times as t says."""
    held_in = queue("w", grid_size=(3, 2), mblock=(4, 5), ublock=(2, 1), t=7, df="Bfp8")
    reads = op("f", "w", "x", grid_size=(6, 4))
    keeps, none = {"prologue": True}, {"prologue": False}

    def resident(*instructions: tuple[str, Any]) -> list[tuple[str, int, str, int]]:
        made = netlist((reads,), queues=(held_in, queue("x")), programs=(Program("run", instructions),))
        return [row for row in tiles(made, reads) if row[0] == "parameter"]

    def execute(graph: str, settings: Any) -> tuple[str, Any]:
        return ("execute", {"graph_name": graph, "queue_settings": settings})

    one = [("parameter", 0, "Bfp8", 140)]
    assert resident(execute("g0", {"w": keeps, "x": none})) == one
    assert resident(("param", ["$p"]), ("endprogram", None), execute("g0", {"w": keeps, "gone": keeps})) == one
    # One tile fits the kernel's own buffer of two, which then is the parameter's.
    assert [row[1] for row in resident(execute("g0", {"w": keeps, "x": keeps}))] == [0]
    for nothing in (None, {}, {"w": none}, {"w": 3}, {"w": {"prologue": 1}}, {"gone": keeps}):
        assert resident(execute("g0", nothing)) == []
    assert resident(execute("g1", {"w": keeps})) == []
    assert resident(("varinst", {"graph_name": "g0", "queue_settings": {"w": keeps}})) == []
    # An op of the graph is no parameter, whatever the settings say.
    local = op("h", "f", grid_loc=(6, 0))
    made = netlist((reads, local), programs=(Program("run", (execute("g0", {"f": keeps}),)),))
    assert [row[0] for row in tiles(made, local)] == ["input", "output"]


def test_l1_is_used_to_its_last_byte() -> None:
    """839,552 bytes of a core of Grayskull are 2 tiles of 2080 bytes and 1374 of 608."""
    full = op("f", "x", input_buf_min_size_tiles=(2,), out_df="Bfp4", intermed_df="Bfp4", buf_size_mb=1374)
    check(netlist((full,)))
    assert wrong(netlist((replace(full, buf_size_mb=1375),))) == (
        "graphs.g0.f: expected at most 839552 bytes of L1 on each core, got 840160; try a smaller output buffer "
        "(836000 bytes)"
    )


def test_a_block_fits_in_half_of_dst() -> None:
    """8 tiles of 16 bits, 4 of 32."""
    wormhole = {"arch": "wormhole_b0"}
    for dst, most in (("Float16_b", 8), ("Float16", 8), ("Float32", 4), ("Int32", 4)):
        check(netlist((op("f", "x", acc_df=dst, ublock=(1, most)),), **wormhole))
        message = wrong(netlist((op("f", "x", acc_df=dst, ublock=(most + 1, 1)),), **wormhole))
        assert message == (
            f"graphs.g0.f.ublock: expected at most {most} tiles, which half of Dst holds, got {most + 1}x1"
        )
    assert wrong(netlist((op("f", "x", acc_df="Int32"),))) == (
        "graphs.g0.f.acc_df: expected Float16_b, Float16, got Int32"
    )


def test_the_blocks_of_steps_fit_in_half_of_dst_too() -> None:
    """A step that repeats tiles may have another block than its op."""
    fused = op("f", "x", type="fused_op", attributes={"fused_op_id": 0})
    for rows, fits in ((2, True), (3, False)):
        step = SubOp("tanh.0", "tanh", ("input0",), "output", {0: ("broadcast(c, 2)",)}, ublock=(rows, 4))
        made = netlist((fused,), fused_ops={0: FusedOp(0, 1, 0, ((step,),))})
        if fits:
            check(made)
        else:
            assert "ublock: expected at most 8 tiles, which half of Dst holds, got 3x4" in wrong(made)


def test_formats_are_those_of_the_chip() -> None:
    check(netlist((op("f", "x", in_df=("Bfp2_b",), out_df="Bfp2"),), queues=(queue("x", df="Bfp2_b"),)))
    message = "expected a format of grayskull (Float32, Float16, "
    assert wrong(netlist((op("f", "x", in_df=("Tf32",)),))).startswith(f"graphs.g0.f.in_df[0]: {message}")
    assert wrong(netlist((op("f", "x", out_df="Fp8_e4m3"),))).startswith(f"graphs.g0.f.out_df: {message}")
    assert wrong(netlist((op("f", "x", in_df=()),))) == "graphs.g0.f.in_df: expected 1 formats, got 0"
    assert wrong(netlist((op("f", "x"),), queues=(queue("x", df="Tf32"),))) == (
        "queues.x.df: expected a format of grayskull, got Tf32"
    )


def test_a_queue_has_the_tiles_of_the_op_that_writes_it() -> None:
    small, first = (16, 32), op("f", "x")
    out = (queue("x", tile_dim=small), queue("y", "f"))
    assert wrong(netlist((replace(first, tile_dim=small),), queues=out)) == (
        "queues.y.tile_dim: expected [16, 32] as f has, got [32, 32]"
    )
    check(netlist((replace(first, tile_dim=small),), queues=(out[0], queue("y", "f", tile_dim=small))))


def test_an_unknown_name_is_refused_with_the_nearest_ones() -> None:
    many = tuple(queue(f"x{i}") for i in range(5))
    message = wrong(netlist((op("f", "x9"),), queues=many))
    assert message.startswith("graphs.g0.f.inputs: expected an op or a queue, got 'x9'; try x")
    assert len(message.partition("; try ")[2].split(", ")) == 3
    assert wrong(netlist((op("f", "gone"),))) == "graphs.g0.f.inputs: expected an op or a queue, got 'gone'"
    assert wrong(netlist((op("x", "x"),))) == ("graphs.g0.x: expected a name of its own, got one that queues has too")
    assert wrong(netlist((op("f", "x"),), (op("f", "x"),))) == (
        "graphs.g1.f: expected a name of its own, got one that graphs.g0 has too"
    )
    two = netlist((op("f", "x"),), (op("g", "f"),))
    assert wrong(two) == "graphs.g1.g.inputs: expected a queue between graphs of one chip, got 'f' of g0"
    check(replace(two, graphs=(two.graphs[0], replace(two.graphs[1], target_device=1))))


def test_programs_run_known_graphs_with_known_queues() -> None:
    six = tuple((op(f"f{i}", "x"),) for i in range(6))
    lost = Program("run", (("execute", {"graph_name": "far"}),))
    assert wrong(netlist(*six, programs=(lost,))) == ("programs.run: expected a graph (g0, g1, g2, g3), got 'far'")
    sets = Program("run", (("execute", {"graph_name": "g0", "queue_settings": {"far": {}}}),))
    assert wrong(netlist(*six, programs=(sets,))) == "programs.run: expected a queue, got 'far'"


def test_a_galaxy_has_32_chips() -> None:
    made = netlist((op("f", "x"),))
    last, after = (replace(made, graphs=(replace(made.graphs[0], target_device=chip),)) for chip in (31, 32))
    check(last)
    assert wrong(after) == "graphs.g0.target_device: expected a chip from 0 to 31, got 32"


def test_each_core_is_taken_once() -> None:
    first = op("f", "x", grid_loc=(1, 2), grid_size=(2, 3))
    assert wrong(netlist((first, op("g", "f", grid_loc=(2, 4))))) == (
        "graphs.g0.g: expected free cores, got [2, 4], which f has"
    )
    check(netlist((first, op("g", "f", grid_loc=(3, 2)), op("h", "f", grid_loc=(1, 5)))))
    # On its side it has three rows and two columns.
    turned = replace(first, grid_transpose=True)
    check(netlist((turned, op("g", "f", grid_loc=(2, 4)))))
    assert "expected free cores, got [3, 3]" in wrong(netlist((turned, op("g", "f", grid_loc=(3, 3)))))
    for at in ((10, 0), (0, 12)):
        message = f"graphs.g0.f: expected cores of the 10x12 grid, got {list(at)}"
        assert wrong(netlist((op("f", "x", grid_loc=at),))) == message
    check(netlist((op("f", "x", grid_loc=(9, 11)),)))


def test_a_queue_has_an_address_per_part() -> None:
    def dram(count: int, **changes: Any) -> Netlist:
        places = tuple((0, 4096 * (i + 1)) for i in range(count))
        return netlist((op("f", "x"),), queues=(queue("x", loc="dram", addresses=places, **changes),))

    check(dram(6, grid_size=(2, 3)))
    for count in (2, 5, 7):
        assert wrong(dram(count, grid_size=(2, 3))) == (
            f"queues.x.dram: expected 6 addresses for its grid, got {count}"
        )
    check(netlist((op("f", "x"),), queues=(queue("x", grid_size=(2, 3), addresses=((0, 0), (0, 4096))),)))
    assert wrong(netlist((op("f", "x"),), queues=(queue("x", addresses=()),))) == (
        "queues.x.host: expected 1 addresses for its grid, got 0"
    )
    assert wrong(netlist((op("f", "x"),), queues=(queue("x"), queue("y", "far")))) == (
        "queues.y.input: expected HOST or an op, got 'far'"
    )


def test_of_chips_that_run_at_once_the_sender_is_executed_first() -> None:
    """g0 reads g1's op, g1 reads g2's; in a ring, and behind another instruction, the file's order stays."""

    def order(asked: Netlist) -> list[str]:
        (program,) = programs_in_order(asked)
        return [line[1]["graph_name"] if line[0] == "execute" else line[0] for line in program.instructions]

    ops = ((op("f", "g"),), (op("g", "h"),), (op("h", "x"),))
    chips = netlist(*ops)
    assert order(chips) == ["g2", "g1", "g0"]
    first, *others = chips.programs[0].instructions
    apart = Program("run", (first, ("varinst", ["$v", "set", 1]), *others))
    assert order(replace(chips, programs=(apart,))) == ["g0", "varinst", "g2", "g1"]
    assert order(netlist((op("f", "g"), op("k", "x")), (op("g", "k"),))) == ["g0", "g1"]


def test_a_writer_runs_before_its_readers() -> None:
    def run(*order: int) -> Netlist:
        runs = tuple(("execute", {"graph_name": f"g{i}"}) for i in order)
        passed = (queue("x"), queue("q", "f"))
        return netlist((op("f", "x"),), (op("g", "q"),), queues=passed, programs=(Program("run", runs),))

    for good in ((0, 1), (0,), (1,), ()):
        check(run(*good))
    assert wrong(run(1, 0)) == "queues.q: expected g0 to run before g1, got it after"
    check(netlist((op("f", "x"), op("g", "q", grid_loc=(0, 1))), queues=(queue("x"), queue("q", "f"))))


def passing(first: tuple[int, int], second: tuple[int, int], places: tuple[int, int]) -> Netlist:
    """Three graphs; each of two queues is written by one of them and read by a later one or the same."""
    graphs: list[list[Op]] = [[], [], []]
    queues = [queue("x")]
    for row, (name, (writer, reader), place) in enumerate(zip("ab", (first, second), places, strict=True)):
        graphs[writer].append(op(f"w{name}", "x", grid_loc=(row, 0)))
        graphs[reader].append(op(f"r{name}", name, grid_loc=(row, 1)))
        queues.append(queue(name, f"w{name}", loc="dram", addresses=((0, place),)))
    return netlist(*map(tuple, graphs), queues=tuple(queues))


ORDER = {"g0": 0, "g1": 1, "g2": 2}


@pytest.mark.parametrize("places", [(4096, 4128), (4128, 4096), (4096, 4096)])
def test_queues_share_bytes_only_at_different_times(places: tuple[int, int]) -> None:
    steps = list(combinations_with_replacement(range(3), 2))
    for one, other in product(steps, steps):
        made = passing(one, other, places)
        meet = set(range(one[0], one[1] + 1)) & set(range(other[0], other[1] + 1))
        if not meet:
            check(made)
            continue
        later, earlier, at = ("a", "b", places[0]) if places[0] > places[1] else ("b", "a", places[1])
        assert wrong(made) == (
            f"queues.{later}: expected DRAM of its own, got channel 0 at {at:#x}, where {earlier} is"
        )


def test_dram_is_shared_by_no_two_parts_of_one_channel_of_one_chip() -> None:
    """A part has 3 entries of 2x3x4x5x6 tiles of 2080 bytes."""
    size = 3 * 720 * 2080
    sizes: dict[str, Any] = {"entries": 3, "t": 2, "mblock": (3, 4), "ublock": (5, 6), "loc": "dram"}

    def at(*parts: tuple[int, int, int]) -> Netlist:
        made = (
            queue(f"q{i}", target_device=chip, addresses=((channel, place),), **sizes)
            for i, (chip, channel, place) in enumerate(parts)
        )
        return netlist((op("f", "q0"),), queues=tuple(made))

    for good in ((0, 1, 256), (1, 0, 256), (0, 0, 256 + size)):
        check(at((0, 0, 256), good))
    check(at((0, 0, 256), (0, 0, 256 + 2 * size), (0, 0, 256 + size)))
    check(at((0, 7, 2**30 - size)))
    assert wrong(at((0, 0, 256), (0, 0, 288))) == (
        "queues.q1: expected DRAM of its own, got channel 0 at 0x120, where q0 is"
    )
    for channel, place in ((8, 256), (0, 2**30 - size + 32)):
        assert wrong(at((0, channel, place))) == (
            f"queues.q0: expected to lie in 8 channels of 1073741824 bytes, got channel {channel}, {place:#x} to "
            f"{place + size:#x}"
        )
    twice = queue("q", addresses=((0, 256), (0, 256)), grid_size=(1, 2), **sizes)
    assert wrong(netlist((op("f", "q"),), queues=(twice,))) == (
        "queues.q: expected DRAM of its own, got channel 0 at 0x100, where q is"
    )
    # Of two at one place the error names the one that the file has later, however long.
    long, short = replace(twice, addresses=((0, 256),), grid_size=ONE), queue("s", addresses=((0, 256),), loc="dram")
    assert wrong(netlist((op("f", "q", "s"),), queues=(long, short))) == (
        "queues.s: expected DRAM of its own, got channel 0 at 0x100, where q is"
    )


def test_a_queue_lives_from_its_writer_to_its_last_reader() -> None:
    made = passing((0, 2), (1, 1), (4096, 8192))
    assert [lifetime(made, made.queues[name], ORDER) for name in "xab"] == [(0, inf), (0, 2), (1, 1)]
    assert lifetime(made, made.queues["a"], {}) == (0, 0)
    unread = netlist((op("f", "x"),), queues=(queue("x"), queue("y", "f")))
    assert lifetime(unread, unread.queues["y"], {"g0": 3}) == (3, inf)


def test_the_first_chip_that_can_run_it_is_taken() -> None:
    wide = netlist((op("f", "x", acc_df="Float32"),))
    made = for_first_chip(replace(wide, archs=("grayskull", "wormhole_b0", "blackhole")))
    assert made.arch == "wormhole_b0"
    assert for_first_chip(replace(wide, arch="blackhole")).arch == "blackhole"
    none = netlist((op("f", "x", acc_df="Float32", grid_loc=(0, 9)),), archs=("grayskull", "wormhole_b0"))
    with pytest.raises(CompilerInputError, match="acc_df: expected Float16_b, Float16, got Float32"):
        for_first_chip(none)  # what the first one lacks; the second one lacks a column

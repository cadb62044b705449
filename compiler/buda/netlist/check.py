"""Checks a netlist for everything that a chip or the interpreter would refuse, independently of the placer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from itertools import groupby
from math import inf
from typing import Any

from opscope.compiler.buda.balancer.shapes import largest_divisor
from opscope.compiler.buda.netlist.fused import check_fused, fused_of
from opscope.compiler.buda.netlist.interpret import executions
from opscope.compiler.buda.netlist.model import HOST, Graph, Netlist, Op, Program, Queue
from opscope.compiler.buda.placer.dram import FIRST
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.formats import number_format
from opscope.compiler.target.plan import PIPE_RESERVE, CoreBuffer
from opscope.compiler.target.system_desc import MOST_CHIPS, SystemDesc, harvested, load_board

DST_TILES = 8
"""Tiles of 16 bits in the half of Dst that one thread fills while the other empties its half (facts of the ISA)."""
MOST_BUFFERED = 2
"""Micro blocks of an input that a kernel holds, unless the netlist sets a number."""


def for_first_chip(netlist: Netlist) -> Netlist:
    """Returns the netlist for the first kind of chip that it names and that can run it.

    A netlist that was read for one kind of chip stays with that. Raises CompilerInputError with what the first one
    lacks, if none can.
    """
    first: CompilerInputError | None = None
    for arch in netlist.archs or (netlist.arch,):
        candidate = replace(netlist, arch=arch)
        try:
            check(candidate)
            return candidate
        except CompilerInputError as error:
            first = first or error
    assert first is not None
    raise first


def check(netlist: Netlist) -> None:
    """Checks a netlist against a chip with all rows. Raises CompilerInputError for the first error."""
    board = harvested(load_board(netlist.arch), 0)
    order = graph_order(netlist)
    _check_names(netlist)
    check_fused(netlist)
    for graph in netlist.graphs:
        _check_cores(graph, board)
        local = {op.name for op in graph.ops}
        for op in graph.ops:
            _check_inputs(netlist, graph, op, local)
            _check_formats(netlist, graph, op, board)
            _check_l1(netlist, graph, op, board)
    _check_queues(netlist, board, order)


def check_board(netlist: Netlist, board: SystemDesc) -> None:
    """Checks that a board, perhaps with rows switched off, has the cores of a netlist. Raises CompilerInputError."""
    for graph in netlist.graphs:
        _check_cores(graph, board)


def updated_rams(netlist: Netlist) -> frozenset[str]:
    """Returns the rams that a program reads before their op writes them, as weights: the host gives the first content.

    An op that its own result comes back to, or one before it, reads what the input before left. Raises
    CompilerInputError for a program that is not understood.
    """
    order = graph_order(netlist)
    home = {op.name: graph.name for graph in netlist.graphs for op in graph.ops}
    first_read: dict[str, float] = {}
    for op in netlist.ops.values():
        for name in op.inputs:
            first_read[name] = min(first_read.get(name, inf), order.get(home[op.name], inf))
    return frozenset(
        queue.name
        for queue in netlist.queues.values()
        if queue.type == "ram"
        and queue.input in home
        and (
            order.get(home[queue.input], 0) > first_read.get(queue.name, inf)
            or queue.name in _read_on_the_way(netlist, queue.input)
        )
    )


def _read_on_the_way(netlist: Netlist, op: str) -> set[str]:
    """Returns the queues that an op, or an op of any graph before it, reads."""
    ops, seen, left = netlist.ops, set[str](), [op]
    while left:
        for name in ops[left.pop()].inputs:
            if name not in seen:
                seen.add(name)
                maker = netlist.queues[name].input if name in netlist.queues else name
                left += [maker] if maker in ops else []
    return seen & netlist.queues.keys()


def programs_in_order(netlist: Netlist) -> tuple[Program, ...]:
    """Returns the programs, each behind those that fill the queues that it reads, else in the order of the file.

    The host calls programs as it likes; where they wait for each other in a ring, the order of the file stays.
    Chips run at once: of executions that follow each other, one that sends to another chip's goes before it.
    """
    graphs = {
        program.name: {
            argument["graph_name"]
            for code, argument in program.instructions
            if code == "execute" and isinstance(argument, dict) and isinstance(argument.get("graph_name"), str)
        }
        for program in netlist.programs
    }
    made = {op.name: graph.name for graph in netlist.graphs for op in graph.ops}
    read = {graph.name: {name for op in graph.ops for name in op.inputs} for graph in netlist.graphs}
    senders = {graph: {made[name] for name in names if name in made} - {graph} for graph, names in read.items()}
    waits: dict[str, set[str]] = {}
    for reader, own in graphs.items():
        names = {name for graph in own & read.keys() for name in read[graph]}
        makers = {made.get(q.input, "") for q in netlist.queues.values() if q.type == "queue" and q.name in names} - own
        waits[reader] = {writer for writer, others in graphs.items() if makers & others}
    ordered: list[Program] = []
    programs = [_senders_first(program, senders) for program in netlist.programs]
    left = list(programs)
    while left:
        done = {program.name for program in ordered}
        ready = next((program for program in left if waits[program.name] <= done), None)
        if ready is None:
            return tuple(programs)
        ordered.append(ready)
        left.remove(ready)
    return tuple(ordered)


def _senders_first(program: Program, senders: Mapping[str, Set[str]]) -> Program:
    """Returns a program with executions that follow each other in the order in which they send; a ring stays."""
    instructions: list[tuple[str, Any]] = []
    for is_execution, lines in groupby(program.instructions, key=lambda line: line[0] == "execute"):
        left = list(lines)
        while is_execution and left:
            names = [argument.get("graph_name") if isinstance(argument, dict) else None for _, argument in left]
            free = (at for at, name in enumerate(names) if not senders.get(str(name), set()) & set(names))
            instructions.append(left.pop(next(free, 0)))
        instructions += left
    return replace(program, instructions=tuple(instructions))


def graph_order(netlist: Netlist) -> dict[str, int]:
    """Returns graph -> position at which the programs first execute it."""
    known = {graph.name for graph in netlist.graphs}
    order: dict[str, int] = {}
    for program in programs_in_order(netlist):
        for step in executions(program):
            if step.graph not in known:
                raise CompilerInputError(
                    f"programs.{program.name}: expected a graph ({', '.join(sorted(known)[:4])}), got {step.graph!r}"
                )
            for queue in step.queue_settings:
                if queue not in netlist.queues:
                    raise CompilerInputError(f"programs.{program.name}: expected a queue, got {queue!r}")
            order.setdefault(step.graph, len(order))
    return order


def _check_names(netlist: Netlist) -> None:
    seen: dict[str, str] = dict.fromkeys(netlist.queues, "queues")
    for graph in netlist.graphs:
        for op in graph.ops:
            if op.name in seen:
                raise CompilerInputError(
                    f"graphs.{graph.name}.{op.name}: expected a name of its own, got one that {seen[op.name]} has too"
                )
            seen[op.name] = f"graphs.{graph.name}"


def _check_cores(graph: Graph, board: SystemDesc) -> None:
    rows, cols = board.buda.grid
    taken: dict[tuple[int, int], str] = {}
    if graph.target_device >= MOST_CHIPS:
        raise CompilerInputError(
            f"graphs.{graph.name}.target_device: expected a chip from 0 to {MOST_CHIPS - 1}, got {graph.target_device}"
        )
    for op in graph.ops:
        for core in op.cores:
            if core[0] >= rows or core[1] >= cols:
                raise CompilerInputError(
                    f"graphs.{graph.name}.{op.name}: expected cores of the {rows}x{cols} grid, got {list(core)}"
                )
            if core in taken:
                raise CompilerInputError(
                    f"graphs.{graph.name}.{op.name}: expected free cores, got {list(core)}, which {taken[core]} has"
                )
            taken[core] = op.name


def _check_inputs(netlist: Netlist, graph: Graph, op: Op, local: set[str]) -> None:
    where = f"graphs.{graph.name}.{op.name}.inputs"
    elsewhere = {other.name: home for home in netlist.graphs if home is not graph for other in home.ops}
    for name in op.inputs:
        if name in elsewhere and elsewhere[name].target_device == graph.target_device:
            raise CompilerInputError(
                f"{where}: expected a queue between graphs of one chip, got {name!r} of {elsewhere[name].name}"
            )
        if name not in local and name not in elsewhere and name not in netlist.queues:
            import difflib

            near = difflib.get_close_matches(name, [*local, *netlist.queues], n=3, cutoff=0.4)
            tail = f"; try {', '.join(near)}" if near else ""
            raise CompilerInputError(f"{where}: expected an op or a queue, got {name!r}{tail}")


def _check_formats(netlist: Netlist, graph: Graph, op: Op, board: SystemDesc) -> None:
    where = f"graphs.{graph.name}.{op.name}"
    if len(op.in_df) != len(op.inputs):
        raise CompilerInputError(f"{where}.in_df: expected {len(op.inputs)} formats, got {len(op.in_df)}")
    for key, name in (*((f"in_df[{i}]", df) for i, df in enumerate(op.in_df)), ("out_df", op.out_df)):
        if name not in board.formats:
            raise CompilerInputError(
                f"{where}.{key}: expected a format of {board.arch} ({', '.join(board.formats)}), got {name}"
            )
    if op.acc_df not in board.dst_formats:
        raise CompilerInputError(f"{where}.acc_df: expected {', '.join(board.dst_formats)}, got {op.acc_df}")
    most = DST_TILES // 2 if op.acc_df in ("Float32", "Int32") else DST_TILES
    blocks = [op.ublock]
    if op.type == "fused_op":
        steps = (step for schedule in fused_of(netlist, op).schedules for step in schedule)
        blocks += [step.ublock for step in steps if step.ublock]
    for rows, cols in blocks:
        if rows * cols > most:
            raise CompilerInputError(
                f"{where}.ublock: expected at most {most} tiles, which half of Dst holds, got {rows}x{cols}"
            )


def _check_l1(netlist: Netlist, graph: Graph, op: Op, board: SystemDesc) -> None:
    buffers = core_buffers(netlist, graph, op)
    used = sum(buffer.bytes for buffer in buffers)
    usable = board.buda.l1_usable + PIPE_RESERVE
    if used > usable:
        largest = max(buffers, key=lambda buffer: buffer.bytes)
        raise CompilerInputError(
            f"graphs.{graph.name}.{op.name}: expected at most {usable} bytes of L1 on each core, "
            f"got {used}; try a smaller {largest.role} buffer ({largest.bytes} bytes)"
        )


def core_buffers(netlist: Netlist, graph: Graph, op: Op) -> tuple[CoreBuffer, ...]:
    """Returns the buffers of an op in each core's L1: inputs, the output, resident parameters."""
    formats = [*op.in_df, *("UInt32" for _ in op.input_buf_min_size_tiles[len(op.in_df) :])]
    wanted, usual = op.input_buf_min_size_tiles, _input_tiles(op)
    sizes = [tiles or (usual[i] if i < len(usual) else 0) for i, tiles in enumerate(wanted)] or usual
    buffers = [CoreBuffer("input", i, df, n, _bytes(df)) for i, (df, n) in enumerate(zip(formats, sizes, strict=False))]
    buffers.append(CoreBuffer("output", 0, op.out_df, op.mblock_tiles * op.buf_size_mb, _bytes(op.out_df)))
    if op.intermed_df != op.out_df and (op.type in ("matmul", "depthwise") or op.attributes.get("dim") == "z"):
        buffers.append(CoreBuffer("intermediate", 0, op.intermed_df, op.mblock_tiles, _bytes(op.intermed_df)))
    if op.type == "fused_op" and (count := fused_of(netlist, op).intermediates):
        rows, cols = op.ublock
        intermediate = CoreBuffer("intermediate", 0, op.intermed_df, rows * cols, _bytes(op.intermed_df))
        buffers += [replace(intermediate, operand=i) for i in range(count)]
    resident = {
        name
        for program in netlist.programs
        for name_, argument in program.instructions
        if name_ == "execute" and isinstance(argument, dict) and argument.get("graph_name") == graph.name
        for name, row in (argument.get("queue_settings") or {}).items()
        if isinstance(row, dict) and row.get("prologue") is True
    }
    for i, name in enumerate(op.inputs):
        if name in resident and name in netlist.queues:
            queue = netlist.queues[name]
            rows, cols = (queue.grid_size[a] * queue.mblock[a] * queue.ublock[a] for a in range(2))
            share = (rows // largest_divisor(rows, op.grid_size[0])) * (cols // largest_divisor(cols, op.grid_size[1]))
            share *= queue.t
            if i < len(op.in_df) and buffers[i].tiles >= share:
                # What stays in L1 all the time is the buffer that the kernel reads: no second one is filled meanwhile.
                asked = wanted[i] if i < len(wanted) else 0
                buffers[i] = replace(buffers[i], tiles=max(asked, share))
            else:
                buffers.append(CoreBuffer("parameter", i, queue.df, share, _bytes(queue.df)))
    return tuple(buffers)


def _input_tiles(op: Op) -> tuple[int, ...]:
    """Returns the tiles of each input buffer that the kernel chooses if the netlist does not."""
    rows, cols = op.ublock
    if op.type == "matmul":
        deep = op.attributes.get("u_kt", 1)
        sizes = (MOST_BUFFERED * rows * deep, MOST_BUFFERED * op.mblock[1] * cols * deep)
        return (*sizes, *(MOST_BUFFERED * rows * cols for _ in op.inputs[2:]))
    return tuple(MOST_BUFFERED * rows * cols for _ in op.inputs)


def _bytes(df: str) -> int:
    return number_format(df).buda_tile_bytes


def _check_queues(netlist: Netlist, board: SystemDesc, order: dict[str, int]) -> None:
    ops, home = netlist.ops, {op.name: graph.name for graph in netlist.graphs for op in graph.ops}
    updated = updated_rams(netlist)
    for queue in netlist.queues.values():
        where = f"queues.{queue.name}"
        if queue.input != HOST and queue.input not in ops:
            raise CompilerInputError(f"{where}.input: expected {HOST} or an op, got {queue.input!r}")
        if queue.input != HOST and ops[queue.input].tile_dim != queue.tile_dim:
            tile = list(ops[queue.input].tile_dim)
            raise CompilerInputError(
                f"{where}.tile_dim: expected {tile} as {queue.input} has, got {list(queue.tile_dim)}"
            )
        parts = queue.grid_size[0] * queue.grid_size[1] if queue.loc == "dram" else len(queue.addresses)
        if len(queue.addresses) != parts or not parts:
            raise CompilerInputError(
                f"{where}.{queue.loc}: expected {parts or 1} addresses for its grid, got {len(queue.addresses)}"
            )
        if queue.df not in board.formats:
            raise CompilerInputError(f"{where}.df: expected a format of {board.arch}, got {queue.df}")
        if queue.alias:
            _check_view(netlist, queue)
        for name in (op.name for op in ops.values() if queue.name in op.inputs and queue.name not in updated):
            writer = home.get(queue.input, "")
            if order.get(writer, 0) > order.get(home[name], inf):
                raise CompilerInputError(f"{where}: expected {writer} to run before {home[name]}, got it after")
    _check_dram(netlist, board, order, updated)


def _check_view(netlist: Netlist, view: Queue) -> None:
    """Checks that a second view of a ram shows its memory: the same blocks, in entries of more or fewer matrices."""
    where, base = f"queues.{view.name}.alias", netlist.queues.get(view.alias)
    if base is None or base is view or (base.type, view.type) != ("ram", "ram") or base.alias:
        raise CompilerInputError(f"{where}: expected a ram as {view.name} is, with memory of its own, got {view.alias}")
    for key in ("target_device", "loc", "addresses", "df", "grid_size", "mblock", "ublock", "ublock_order", "tile_dim"):
        if getattr(view, key) != getattr(base, key):
            raise CompilerInputError(
                f"{where}: expected {key} of {base.name}, {getattr(base, key)}, got {getattr(view, key)}"
            )
    if base.entries % view.entries or view.t * view.entries != base.t * base.entries:
        raise CompilerInputError(
            f"{where}: expected entries that make up whole ones of {base.name}, {base.entries} of t {base.t}, "
            f"got {view.entries} of t {view.t}"
        )


def _check_dram(
    netlist: Netlist, board: SystemDesc, order: dict[str, int], updated: frozenset[str] = frozenset()
) -> None:
    """Checks that queues that wait at the same time do not overlap, and that each lies within its channel."""
    profile, parts = board.buda, []
    for queue in netlist.queues.values():
        if queue.loc != "dram":
            continue
        size = queue.tiles * _bytes(queue.df) * queue.entries
        alive = (0, inf) if queue.name in updated else lifetime(netlist, queue, order)
        for channel, address in queue.addresses:
            if channel >= profile.dram_channels or address + size > profile.dram_channel_bytes:
                raise CompilerInputError(
                    f"queues.{queue.name}: expected to lie in {profile.dram_channels} channels of "
                    f"{profile.dram_channel_bytes} bytes, got channel {channel}, {address:#x} to {address + size:#x}"
                )
            if address < FIRST[board.arch]:
                raise CompilerInputError(
                    f"queues.{queue.name}: expected an address from {FIRST[board.arch]:#x}, got {address:#x}"
                )
            parts.append((queue.target_device, channel, address, address + size, alive, queue.name))
    parts.sort(key=lambda part: part[:3])
    for first, second in _near(parts):
        if first[5] != second[5] and _base(netlist, first[5]) == _base(netlist, second[5]):
            continue  # two views of one memory
        if first[5] == second[5] or (first[4][0] <= second[4][1] and second[4][0] <= first[4][1]):
            raise CompilerInputError(
                f"queues.{second[5]}: expected DRAM of its own, got channel {second[1]} at {second[2]:#x}, "
                f"where {first[5]} is"
            )


def _base(netlist: Netlist, name: str) -> str:
    """Returns the queue that has the memory which a queue shows."""
    return netlist.queues[name].alias or name


def _near(parts: list) -> Iterator[tuple]:
    """Yields pairs of parts that share bytes of a channel."""
    open_: list = []
    for part in parts:
        open_ = [other for other in open_ if other[:2] == part[:2] and other[3] > part[2]]
        yield from ((other, part) for other in open_)
        open_.append(part)


def lifetime(netlist: Netlist, queue: Queue, order: dict[str, int]) -> tuple[float, float]:
    """Returns the first and last step of the program at which a queue holds data."""
    if queue.input == HOST:
        return (0, inf)
    readers = [order.get(g.name, 0) for g in netlist.graphs for op in g.ops if queue.name in op.inputs]
    writers = [order.get(g.name, 0) for g in netlist.graphs for op in g.ops if op.name == queue.input]
    return (min(writers), max(readers, default=inf))


__all__ = ["check", "check_board", "core_buffers", "programs_in_order", "updated_rams"]

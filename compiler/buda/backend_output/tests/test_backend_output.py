"""The back end's folder: pipes deliver the tiles that the consumer computes with, threads take and give as many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from opscope.compiler.buda.backend_output import pipes_by_core, write_folder
from opscope.compiler.buda.backend_output.pipes import Pipe, Run, pipes_of, tile_numbers
from opscope.compiler.buda.backend_output.threads import threads, total
from opscope.compiler.buda.configuration import Configuration
from opscope.compiler.buda.graph import Tm
from opscope.compiler.buda.graph_file import read_graph
from opscope.compiler.buda.netlist.emit import netlist_of, to_yaml
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.plan_to_binary import PlannedProgram, to_binary
from opscope.compiler.buda.planner import budget_of
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tests.planned import model
from opscope.simulator.kernels.buda import manipulate

TMS = ["hslice(4)", "vslice(2)", "hstack(2)", "vstack(2)", "transpose", "broadcast(r, 3)", "broadcast(z, 2)"]


@pytest.mark.parametrize("tm", TMS)
def test_numbers_of_tiles_move_as_the_tiles_do(tm: str) -> None:
    from opscope.compiler.buda.graph import TensorShape

    shape = TensorShape(1, 2, 4, 8)
    numbers = np.arange(shape.tiles).reshape(2, 4, 8).repeat(32, 1).repeat(32, 2).astype(np.float32)
    moved = manipulate(numbers, tm)
    np.testing.assert_array_equal(moved[:, ::32, ::32], tile_numbers(shape, (Tm.parse(tm),)))


def made(name: str, policy: str, board: str) -> tuple[BudaPlan, PlannedProgram]:
    config = Configuration()
    config.set_configuration_options(balancer_policy=policy)
    planned = config.plan(model(name).graph, board)
    return planned, to_binary(planned, load_board(board))


@pytest.mark.parametrize(
    ("name", "policy"),
    # quick: [convnet-Ribbon], whose plan has products and more kinds of pipes
    [pytest.param("attention", "Random", marks=pytest.mark.slow), ("convnet", "Ribbon"), ("layer", "NLP")],
)
def test_what_pipes_deliver_is_what_threads_take(name: str, policy: str) -> None:
    planned, program = made(name, policy, "e150")
    placed = {op.name: op for op in program.binary.plan.ops}
    for node in planned.graph.ops:
        chosen = planned.choices[node.name].model
        unpack, _, pack = threads(planned.graph, node, chosen)
        assert total(pack, "push", "output") * chosen.grid.volume == node.shape.tiles
        if node.spec.sparse is not None or node.spec.type == "splice":
            continue
        for edge in planned.graph.operands(node.name):
            taken = total(unpack, "wait", f"input_{edge.operand}")
            assert taken == total(unpack, "pop", f"input_{edge.operand}")
            pipes = [p for p in pipes_of(planned, placed, node) if f".input_{edge.operand}." in p.name]
            assert sorted(core for pipe in pipes for core in pipe.readers) == sorted(placed[node.name].cores())
            for pipe in pipes:
                # A product streamed by rows takes its right operand again for every piece.
                assert taken % pipe.tiles == 0, (pipe.name, taken, pipe.tiles)


def test_a_pipe_names_the_core_that_made_each_tile() -> None:
    planned, program = made("layer", "MaximizeTMinimizeGrid", "n150")
    placed = {op.name: op for op in program.binary.plan.ops}
    node = next(n for n in planned.graph.ops if str(n.spec.fused) == "add, tanh")
    (sender,) = {e.producer for e in planned.graph.operands(node.name) if e.operand == 0}
    pipes = [p for p in pipes_of(planned, placed, node) if ".input_0." in p.name]
    cores = set(placed[sender].cores())
    assert {run.core for pipe in pipes for run in pipe.runs} <= cores
    assert sum(pipe.tiles for pipe in pipes) == planned.graph.node(sender).shape.tiles
    for pipe in pipes:
        steps = zip(pipe.route, pipe.route[1:], strict=False)
        assert all(abs(a[0] - b[0]) % 8 <= 1 and abs(a[1] - b[1]) % 10 <= 1 for a, b in steps)


def test_the_folder_is_laid_out_as_tt_budas(tmp_path: Path) -> None:
    planned, program = made("layer", "MinimizeGrid", "e150")
    write_folder(tmp_path, planned, program, to_yaml(netlist_of(planned, program)))
    assert (tmp_path / "test_netlist.yaml").exists()
    ops = [node.name for node in planned.graph.ops]
    assert sorted(p.stem for p in (tmp_path / "hlks").iterdir()) == sorted(ops)
    graph = tmp_path / "graph_fwd_0_0"
    assert len(list(graph.glob("op_*/tensix_thread[012].yaml"))) == 3 * len(ops)
    overlay = yaml.load((tmp_path / "temporal_epoch_0" / "overlay" / "pipegen.yaml").read_text(), yaml.CSafeLoader)
    assert {row["op"] for row in overlay["buffers"]} == set(ops)
    used = {tuple(core) for row in overlay["buffers"] for core in row["cores"]}
    blobs = {tuple(map(int, p.stem.split("_")[1:])) for p in (tmp_path / "temporal_epoch_0/overlay/blobs").iterdir()}
    assert blobs == used
    kernel = yaml.load((tmp_path / "hlks" / "matmul_0.yaml").read_text(), yaml.CSafeLoader)
    assert (kernel["phases"], kernel["in_df"]) == (3, ["Float16_b", "Float16_b"])


def test_streams_of_a_core_are_what_it_receives_and_sends() -> None:
    first = Pipe("p", "a", ((0, 1), (0, 2)), (Run((3, 4), 0, 5), Run(None, 0, 6), Run((3, 4), 9, 7)), (), "")
    second = Pipe("q", "b", ((3, 4),), (Run((0, 1), 0, 8), Run((0, 2), 0, 9)), (), "")
    streams = pipes_by_core([first, second])
    assert list(streams) == [(0, 1), (0, 2), (3, 4)]
    assert streams == {
        (0, 1): [{"pipe": "p", "receives_tiles": 18}, {"pipe": "q", "sends_tiles": 8}],
        (0, 2): [{"pipe": "p", "receives_tiles": 18}, {"pipe": "q", "sends_tiles": 9}],
        (3, 4): [{"pipe": "p", "sends_tiles": 12}, {"pipe": "q", "receives_tiles": 17}],
    }


def test_the_published_matmul_reads_the_tiles_of_its_buffers() -> None:
    """Seed figures: 8x1 cores, t 7, 7x1 blocks; each core waits for 7 x 4 tiles of the left operand at a time."""
    graph = read_graph(Path(__file__).parents[3] / "tests" / "data" / "resnet50_conv0.yaml")
    name = next(node.name for node in graph.ops if node.spec.type == "matmul")
    from opscope.compiler.buda.balancer.legalizer import legalize

    models = legalize(graph, name, budget_of("grayskull")).models
    model = next(m for m in models if (m.grid.r, m.grid.c, m.stream.t, m.u_kt) == (8, 1, 7, 4))
    unpack, _, pack = threads(graph, graph.node(name), model)
    assert total(unpack, "wait", "input_0") == 7 * 28
    assert total(pack, "push", "output") * 8 == 392 * 2

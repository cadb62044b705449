"""What a walk computes at its limits, stores and frees, and a walk in steps: the goldens of a whole model."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from opscope.harness.cache.export_folder import JOURNAL
from opscope.harness.prepare import golden
from opscope.harness.prepare import walk as walking
from opscope.harness.prepare.input_distributions import argument_distributions
from opscope.harness.prepare.inputs import row_inputs, row_term_sizes
from opscope.harness.prepare.live_golden import LiveGolden
from opscope.harness.prepare.program import Node, Program, last_uses
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.walk import Limits, Missing, Walked, Walker, WalkTask, walk
from opscope.harness.record.element_types import numpy_dtype
from opscope.models.seeding import draw

CHAIN = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.exponential %a : tensor<8xf32>
  %1 = stablehlo.abs %0 : tensor<8xf32>
  %2 = stablehlo.tanh %1 : tensor<8xf32>
  return %2 : tensor<8xf32> }"""
"""Each value has 32 bytes, and two are alive at once."""
SUM = """func.func @main(%a: tensor<8x4xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32> }"""
LOOP = """func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %0 = stablehlo.exponential %x : tensor<4xf32>
  %1:2 = stablehlo.while(%i = %n, %y = %0) : tensor<i32>, tensor<4xf32> cond {
    %p = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %z = stablehlo.cosine %y : tensor<4xf32>
    stablehlo.return %j, %z : tensor<i32>, tensor<4xf32>
  }
  %2 = stablehlo.cosine %0 : tensor<4xf32>
  return %1#1, %2 : tensor<4xf32>, tensor<4xf32> }"""
GIB = 2**30


@pytest.fixture(scope="module", autouse=True)
def compiled_once() -> Iterator[None]:
    """The same op in several tests is compiled for the first of them alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(golden, "compile_module", functools.cache(golden.compile_module))
        yield


def walked(text: str, folder: Path, **options: Any) -> Walked:
    split = split_module(text, "m")
    folder.mkdir(exist_ok=True)
    task = WalkTask(split, argument_distributions(split), 3, folder, "captured:m:3", **options)
    return walk(task)


def test_no_more_is_computed_than_a_machine_has_room_for() -> None:
    assert Limits() == Limits(tensor_bytes=2 * GIB, live_bytes=8 * GIB, input_bytes=2 * GIB, measured_bytes=GIB)


@pytest.mark.parametrize(
    ("limits", "missing"),
    [
        (Limits(tensor_bytes=32), {}),
        (Limits(tensor_bytes=31), dict.fromkeys((0, 1, 2), "result of 32 bytes is above the cap of 31 bytes")),
        (Limits(live_bytes=64), {}),
        (Limits(live_bytes=63), {1: "64 bytes of values alive at once are above the cap of 63 bytes"}),
        (Limits(live_bytes=32), {1: "64 bytes of values alive at once are above the cap of 32 bytes"}),
        (
            Limits(live_bytes=31),
            dict.fromkeys((0, 1, 2), "32 bytes of values alive at once are above the cap of 31 bytes"),
        ),
    ],
)
def test_values_at_the_limit_are_computed(limits: Limits, missing: dict[int, str], tmp_path: Path) -> None:
    rows = walked(CHAIN, tmp_path, limits=limits)
    assert {place: row.no_golden for place, row in enumerate(rows.rows) if row.no_golden} == missing
    # What follows a missing value gets a random one, and is none of the program's.
    kinds = [row.sources[0].kind for row in rows.rows]
    assert kinds[1:] == ["random" if any(each < place for each in missing) else "captured" for place in (1, 2)]
    assert isinstance(rows.results[0], Missing) is bool(missing)


def test_inputs_at_the_limit_are_drawn(tmp_path: Path) -> None:
    small = {"tensor_bytes": 31}
    drawn = walked(CHAIN, tmp_path / "a", limits=Limits(**small, input_bytes=32)).rows
    assert [row.sources[0].kind for row in drawn[1:]] == ["random", "random"]
    none = walked(CHAIN, tmp_path / "b", limits=Limits(**small, input_bytes=31)).rows
    assert [row.sources for row in none[1:]] == [(), ()]
    assert [row.provenance for row in none] == ["captured:m:3:main/0", "captured:m:3:main/1", "captured:m:3:main/2"]
    alone = walked(CHAIN, tmp_path / "c", limits=Limits(input_bytes=31), random=True).rows
    assert {row.no_golden for row in alone} == {"input of 32 bytes is above the cap of 31 bytes"}
    assert {(row.sources, row.provenance, row.golden) for row in alone} == {((), "random:3", ())}


def test_arguments_and_constants_above_all_that_may_live_are_not_made(tmp_path: Path) -> None:
    large = (
        CHAIN.replace(
            "%0 = stablehlo.exponential %a : tensor<8xf32>",
            """
      %c = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
      %s = stablehlo.add %a, %c : tensor<8xf32>
      %0 = stablehlo.slice %s [0:1] : (tensor<8xf32>) -> tensor<1xf32>""",
        )
        .replace("%0 : tensor<8xf32>", "%0 : tensor<1xf32>")
        .replace("%1 : tensor<8xf32>", "%1 : tensor<1xf32>")
        .replace("%2 : tensor<8xf32>", "%2 : tensor<1xf32>")
        .replace("-> tensor<8xf32> {", "-> tensor<1xf32> {")
    )
    kinds = {
        limit: [
            source.kind
            for source in walked(large, tmp_path / str(limit), limits=Limits(live_bytes=limit)).rows[0].sources
        ]
        for limit in (31, 32)
    }
    assert kinds == {31: ["random", "random"], 32: ["seeded", "captured"]}


def test_terms_of_a_sum_are_measured_up_to_the_limit(tmp_path: Path) -> None:
    [row] = walked(SUM, tmp_path / "a", limits=Limits(measured_bytes=128)).rows
    [stored] = row_inputs(row, tmp_path / "a")
    assert row.term_sizes == (f"values/{row.op_id}.terms0.npy",)
    [sizes] = row_term_sizes(row, tmp_path / "a")
    np.testing.assert_allclose(sizes, np.sqrt((stored.astype(np.float64) ** 2).sum(axis=1)), rtol=1e-2)
    [row] = walked(SUM, tmp_path / "b", limits=Limits(measured_bytes=127)).rows
    assert (bool(row.golden), row.term_sizes) == (True, ())
    [row] = walked(SUM, tmp_path / "c", limits=Limits(tensor_bytes=31)).rows
    assert (row.golden, row.term_sizes) == ((), ())
    [row] = walked(SUM, tmp_path / "d", random=True).rows
    assert row.term_sizes == (f"values/{row.op_id}.terms0.npy",)
    assert row.golden == (f"values/{row.op_id}.0.npy",)
    assert all(not row.term_sizes for row in walked(CHAIN, tmp_path / "e").rows)


def test_random_inputs_follow_the_distributions_of_the_operands(tmp_path: Path) -> None:
    text = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.divide %a, %a : tensor<4xf32>
      %1 = stablehlo.divide %a, %0 : tensor<4xf32>
      %2 = stablehlo.divide %1, %0 : tensor<4xf32>
      return %2 : tensor<4xf32> }"""
    progress: list[tuple[int, int]] = []
    rows = walked(text, tmp_path, random=True, on_progress=lambda done, total: progress.append((done, total)))
    assert progress == [(1, 2), (2, 2)]
    assert rows.results == []
    laws = [[(source.law, source.seed, source.index) for source in row.sources] for row in rows.rows]
    assert laws == [[("normal:1", 3, 0)], [("normal:1", 3, 0), ("magnitude:0.5:2", 3, 1)]]


def test_an_op_without_inputs_is_captured_and_a_constant_that_numpy_has_no_type_of_is_missing(tmp_path: Path) -> None:
    text = """func.func @main() -> tensor<4xf32> {
      %0 = stablehlo.iota dim = 0 : tensor<4xf32>
      %1 = stablehlo.tanh %0 : tensor<4xf32>
      return %1 : tensor<4xf32> }"""
    iota, tanh = walked(text, tmp_path).rows
    assert (iota.sources, iota.provenance) == ((), "captured:m:3:main/0")
    assert (tanh.sources[0].path, tanh.provenance) == ("values/0.npy", "captured:m:3:main/1")
    assert [row.no_golden for row in (iota, tanh)] == ["", ""]


def test_values_of_a_file_stand_for_drawn_ones(tmp_path: Path) -> None:
    np.save(tmp_path / "given.npy", np.arange(8, dtype=np.float32))
    rows = walked(CHAIN, tmp_path, value_files={0: "given.npy"})
    assert [(source.kind, source.path) for source in rows.rows[0].sources] == [("captured", "given.npy")]
    np.testing.assert_allclose(rows.results[0], np.tanh(np.exp(np.arange(8, dtype=np.float32))), rtol=1e-5)


def test_a_line_of_the_journal_covers_the_one_before() -> None:
    uses = (SimpleNamespace(location="net.py:7"), SimpleNamespace(location="net.py:9"))
    op: Any = SimpleNamespace(op_id="0123", op_name="stablehlo.add", uses=uses)
    assert walking.journal_line(op) == b"0123 stablehlo.add at net.py:7".ljust(256)
    op.uses = ()
    assert walking.journal_line(op) == b"0123 stablehlo.add".ljust(256)
    op.op_name = "x" * 300
    assert walking.journal_line(op) == b"0123 " + b"x" * 251


def test_the_journal_holds_the_op_under_evaluation_and_is_empty_at_the_end(tmp_path: Path) -> None:
    split = split_module(CHAIN, "m")
    walker = Walker(WalkTask(split, ["normal:1"], 0, tmp_path, ""))
    (tmp_path / "values").mkdir()
    env: dict[int, Any] = {}
    for node in split.program.nodes:
        walker.node(node, env)
        assert (tmp_path / JOURNAL).read_bytes() == walking.journal_line(split.ops[node.op_id])
    assert walker.live_bytes == 3 * 32
    for value in (*split.program.arguments, *split.program.results):
        walker.free(value, env)
    assert (walker.live_bytes, sorted(env)) == (2 * 32, [1, 2])
    walker.close()
    assert (tmp_path / JOURNAL).read_bytes() == b""


def test_crashed_and_large_ops_are_not_compiled_ahead(tmp_path: Path) -> None:
    split = split_module(CHAIN, "m")
    first, *rest = split.ops

    def ahead(**options: Any) -> list[str]:
        walker = Walker(WalkTask(split, ["normal:1"], 0, tmp_path, "", **options))
        walker.close()
        return [op_id for op_id, _ in walker.jobs()]

    assert ahead() == [first, *rest]
    assert ahead(fatal_ops={first: "signal 11"}) == rest
    assert ahead(limits=Limits(tensor_bytes=31)) == []


def test_a_body_is_entered_once_and_its_values_die_with_it(tmp_path: Path) -> None:
    split = split_module(LOOP, "m")
    walker = Walker(WalkTask(split, ["normal:1", "zeros"], 0, tmp_path, ""))
    (tmp_path / "values").mkdir()
    env: dict[int, Any] = {}
    for node in split.program.nodes:
        walker.node(node, env)
    # The exponential, the loop's counter and values, and the cosine: none of the values inside.
    assert walker.live_bytes == 16 + 4 + 16 + 16
    loop = next(node for node in split.program.nodes if node.bodies)
    assert not any(walker.enters(body) for body in loop.bodies)
    walker.close()


def node(
    *operands: int, results: tuple[int, ...], captures: tuple[int, ...] = (), inputs: tuple[int, ...] = ()
) -> Node:
    bodies = (Program("body", (), (), (), captures),) if captures else ()
    return Node("op", "x", "main/0", operands, results, inputs=inputs, bodies=bodies)


def test_values_are_freed_after_their_last_use() -> None:
    nodes = (node(0, results=(2,)), node(2, 2, results=(3, 4), captures=(1,)), node(3, results=(5,), inputs=(3, 0)))
    assert last_uses(Program("main", (0, 1), nodes, (5,))) == {1: [2, 4, 1], 2: [0, 3]}
    assert last_uses(Program("main", (0, 1), nodes, (5, 3, 9))) == {1: [2, 4, 1], 2: [0]}


# --- in steps


def test_a_walk_in_steps_has_the_results_of_wanted_nodes_once(tmp_path: Path) -> None:
    split = split_module(LOOP, "m")
    x, n = np.linspace(0, 1, 4, dtype=np.float32), np.zeros((), np.int32)
    wanted = {node.path: node.name for node in split.program.walk() if node.kind == "op"}
    cosine = next(path for path, name in wanted.items() if name == "stablehlo.cosine" and "body" in path)
    last = next(path for path, name in wanted.items() if name == "stablehlo.cosine" and "body" not in path)
    loop = next(path for path, name in wanted.items() if name == "stablehlo.while")
    live = LiveGolden(split, [x, n], frozenset({cosine, last, loop}), tmp_path)
    folder = Path(live._folder.name)
    counter, value = live.results(loop)
    assert isinstance(value, np.ndarray)
    np.testing.assert_allclose(value, np.cos(np.cos(np.exp(x))), rtol=1e-6)
    assert np.asarray(counter).tolist() == 2
    assert live.results(loop) == []
    # A body's are those of its first iteration.
    for path in (cosine, last):
        [value] = live.results(path)
        assert isinstance(value, np.ndarray)
        np.testing.assert_allclose(value, np.cos(np.exp(x)), rtol=1e-6)
    assert live.results("main/nowhere") == []
    assert live.results("main/2") == [], "nobody wanted it"
    assert not list(folder.rglob("*.npy"))
    exponential = next(node for node in split.program.nodes if node.name == "stablehlo.exponential")
    [value] = live.alone(exponential, {exponential.inputs[0]: x + 1})
    assert isinstance(value, np.ndarray)
    np.testing.assert_allclose(value, np.exp(x + 1), rtol=1e-6)
    live.close()
    assert not folder.exists()


def test_in_steps_what_follows_a_missing_value_is_missing(tmp_path: Path) -> None:
    text = CHAIN.replace(
        "stablehlo.abs %0 : tensor<8xf32>", "stablehlo.custom_call @nobody(%0) : (tensor<8xf32>) -> tensor<8xf32>"
    )
    live = LiveGolden(
        split_module(text, "m"),
        [draw("normal:1", (8,), numpy_dtype("f32"), 0, 0)],
        frozenset({"main/1", "main/2"}),
        tmp_path,
    )
    [first], [second] = live.results("main/1"), live.results("main/2")
    assert isinstance(first, Missing)
    assert first == second
    assert "nobody" in first.reason
    live.close()

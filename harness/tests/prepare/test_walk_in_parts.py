"""A walk by several processes: which parts there are, when it is worth it, and that nothing of it differs from one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opscope.base.children.call import call
from opscope.base.children.ending import Cause
from opscope.base.children.inside import Parent
from opscope.base.slots import Slots, SlotServer
from opscope.harness.cache.export_folder import JOURNAL, MODULE
from opscope.harness.prepare import whole_row
from opscope.harness.prepare.export import export_model
from opscope.harness.prepare.input_distributions import argument_distributions
from opscope.harness.prepare.parts import walk_in_parts as walking
from opscope.harness.prepare.parts.independent import Part, first_uses
from opscope.harness.prepare.parts.walk_in_parts import PartWalker
from opscope.harness.prepare.program import SplitModule
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.walk import Limits, WalkTask, walk
from opscope.models import registry

T = "tensor<4xf32>"
PARTS = f"""func.func @main(%a: {T}, %b: {T}, %c: {T}, %n: tensor<i32>, %d: {T}, %lo: tensor<f32>, %hi: tensor<f32>,
    %low: tensor<f32>, %high: tensor<f32>)
    -> ({T}, {T}, {T}, {T}, {T}, {T}, {T}, {T}) {{
  %k = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : {T}
  %four = stablehlo.constant dense<4> : tensor<1xi64>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %0 = stablehlo.exponential %a : {T}
  %r = stablehlo.rng %lo, %hi, %four, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> {T}
  %1 = stablehlo.abs %b : {T}
  %2 = stablehlo.tanh %0 : {T}
  %3:2 = stablehlo.while(%i = %n, %x = %c) : tensor<i32>, {T}
    cond {{
      %t = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : tensor<i32>
      %y = stablehlo.cosine %x : {T}
      %z = stablehlo.tanh %y : {T}
      stablehlo.return %j, %z : tensor<i32>, {T}
    }}
  %4 = stablehlo.tanh %1 : {T}
  %5 = stablehlo.add %d, %k : {T}
  %6 = stablehlo.rng %low, %high, %four, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> {T}
  %7 = stablehlo.sine %6 : {T}
  return %2, %4, %3#1, %7, %r, %d, %k, %5 : {T}, {T}, {T}, {T}, {T}, {T}, {T}, {T}
}}"""


def named(parts: list[Part]) -> list[tuple[str, tuple[int, ...]]]:
    return [(" ".join(node.name.removeprefix("stablehlo.") for node in part.nodes), part.results) for part in parts]


def test_parts_are_what_no_value_and_no_generator_connects() -> None:
    assert named(walking.parts(split_module(PARTS, "m"), random=False)) == [
        ("exponential tanh", (0,)),
        ("rng rng sine", (3, 4)),
        ("abs tanh", (1,)),
        ("while", (2,)),
        ("add", (7,)),
        ("", (5, 6)),
    ]


def test_with_random_inputs_each_op_is_a_part_but_those_that_draw() -> None:
    parts = named(walking.parts(split_module(PARTS, "m"), random=True))
    names = "exponential abs tanh while compare add cosine add sine"
    assert parts == [*((name, ()) for name in names.split()), ("rng", ())]


def test_constants_and_arguments_that_two_ops_read_connect_them() -> None:
    def text(second: str, k: str) -> str:
        return f"""func.func @main(%a: {T}, %b: {T}) -> ({T}, {T}) {{
          %k = stablehlo.constant dense<{k}> : {T}
          %0 = stablehlo.add %a, %k : {T}
          %1 = stablehlo.multiply {second}, %k : {T}
          return %0, %1 : {T}, {T} }}"""

    counts = [
        len(walking.parts(split_module(text(second, k), "m"), random=False))
        for second, k in (("%b", "1.0"), ("%a", "1.0"), ("%b", "[1.0, 2.0, 3.0, 4.0]"))
    ]
    assert counts == [2, 1, 1], "a splat is inside the module of each"


def test_a_constant_that_an_op_in_a_branch_reads_connects_it_with_others() -> None:
    """One with no other operand has it as its input, which is stored."""

    def text(inner: str) -> str:
        return f"""func.func @main(%b: {T}, %n: tensor<i1>) -> ({T}, {T}) {{
          %k = stablehlo.constant dense<2.0> : {T}
          %0 = stablehlo.abs %k : {T}
          %1 = "stablehlo.if"(%n) ({{
            %2 = {inner} : {T}
            stablehlo.return %2 : {T}
          }}, {{
            stablehlo.return %b : {T}
          }}) : (tensor<i1>) -> {T}
          return %0, %1 : {T}, {T} }}"""

    inners = ("stablehlo.negate %k", "stablehlo.negate %b")
    assert [len(walking.parts(split_module(text(inner), "m"), random=False)) for inner in inners] == [1, 2]


def many(count: int, together: bool = False) -> SplitModule:
    """A program of that many ops, which are chained where they are to be `together`."""
    arguments = ", ".join(f"%a{n}: {T}" for n in range(count))
    lines = "\n".join(
        f"%{n} = stablehlo.add %{'' if together and n else 'a'}{n - 1 if together and n else n}, %a{n} : {T}"
        for n in range(count)
    )
    return split_module(f"func.func @main({arguments}) -> {T} {{ {lines} return %0 : {T} }}", "m")


def test_several_processes_are_worth_it_where_parts_are_many_and_fit() -> None:
    gib = 1 << 30

    def count(split: SplitModule, most: int = 4, memory: int = 64 * gib, random: bool = False, **limits: int) -> int:
        parts = walking.parts(split, random)
        return walking.processes(split, parts, most, memory, Limits(**limits), random)

    split, chain = many(160), many(160, together=True)
    assert count(split) == 4
    assert count(split, most=1) == 1
    assert count(many(60)) == 1, "starting them would take as long"
    assert count(split, memory=gib) == 1
    assert count(split, live_bytes=160 * 32 - 1) == 1, "one walk would leave values out"
    assert count(chain) == 1
    assert count(split, random=True) == 1, "all ops are one"


def plan_of(split: SplitModule, folder: Path, **more: Any) -> WalkTask:
    for name in ("ops", "values", walking.RESULTS):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return WalkTask(split, argument_distributions(split), 0, folder, "captured:m:0", **more)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("*/*") if path.is_file()}


@pytest.mark.parametrize("random", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_walkers_that_take_parts_by_turns_store_what_one_walk_stores(random: bool, tmp_path: Path) -> None:
    """In the wrong order. What is drawn is read by no op here, since walkers of one process share XLA's generator."""
    split = split_module(PARTS.replace("stablehlo.sine %6", "stablehlo.sine %d"), "m")
    one = plan_of(split, tmp_path / "one", random=random, cache_dir=tmp_path)
    walked = walk(one)
    rows = {}
    plan = plan_of(split, tmp_path / "several", random=random, cache_dir=tmp_path)
    plan = replace(plan, on_row=lambda row: rows.update({row.op_id: row}))
    walkers = [PartWalker(replace(plan, journal=f"{JOURNAL}.{n}"), first_uses(split)) for n in range(2)]
    parts = walking.parts(split, random)
    results = dict(pair for n, part in enumerate(reversed(parts)) for pair in walkers[n % 2].part(part))
    for walker in walkers:
        walker.close()
    assert [rows.get(row.op_id) for row in walked.rows] == walked.rows
    assert files(plan.folder) == files(one.folder)
    drawn = walked.results[4:5]
    for index, value in enumerate(walked.results):
        if not any(value is each for each in drawn):
            assert results[index].tobytes() == value.tobytes()


# --- in processes of their own: forks are made where there are no threads


def in_child(parent: Parent) -> list[Any]:
    """Walks the program of the task once or by several processes; the rows, and how many final outputs there are."""
    task = parent.task()
    split = split_module(Path(task["module"]).read_bytes(), "m")
    folder, count = Path(task["folder"]), task["processes"]
    plan = plan_of(split, folder, random=task["random"], cache_dir=folder.parent / "cache")
    lines: list[str] = []
    server = SlotServer(2)
    plan = replace(
        plan,
        on_row=lambda row: lines.append(row.op_id),
        slots=Slots(server),
        provenance="captured:m:0",
    )
    assert plan.slots is not None
    plan.slots.take()
    parts = walking.parts(split, plan.random)
    if task.get("fatal"):
        _crash_at(task["fatal"])
    walked = walk(plan) if count == 1 else walking.walk_in_parts(plan, parts, count)
    assert plan.slots.holds
    assert len(set(lines)) == len(lines) == sum(not op.unsplittable for op in split.ops.values())
    whole_row.write(folder, "m", whole_row.WholeProgram(split, walked.results, plan.distributions, 0, "x"))
    walking.discard_results(folder)
    return [row.model_dump(mode="json") for row in walked.rows]


def _crash_at(name: str) -> None:
    """Has the process end that evaluates an op of that name, as XLA does."""
    import os
    import signal

    evaluate = PartWalker.evaluate

    def crash(self: PartWalker, op: Any, buffers: Any) -> list[Any]:
        self.executable = lambda op: (
            os.kill(os.getpid(), signal.SIGSEGV) if op.op_name == name else PartWalker.executable(self, op)
        )
        return evaluate(self, op, buffers)

    PartWalker.evaluate = crash


def walked_in_child(module: bytes | str, folder: Path, processes: int, **more: Any) -> Any:
    folder.mkdir(parents=True)
    path = folder / MODULE
    path.write_bytes(module.encode() if isinstance(module, str) else module)
    task = {"module": str(path), "folder": str(folder), "processes": processes, "random": False, **more}
    return call("opscope.harness.tests.prepare.test_walk_in_parts:in_child", task, seconds=300)


@pytest.mark.slow
@pytest.mark.parametrize("random", [False, True])
def test_several_processes_store_what_one_walk_stores(random: bool, tmp_path: Path) -> None:
    """Of a small program, with the generator of random numbers."""
    one = walked_in_child(PARTS, tmp_path / "one", 1, random=random)
    several = walked_in_child(PARTS, tmp_path / "several", 3, random=random)
    assert one.result is not None, one.log.tail(1000)
    assert several.result == one.result, several.log.tail(1000)
    assert files(tmp_path / "several") == files(tmp_path / "one")
    assert not list((tmp_path / "several").glob(f"{JOURNAL}.*"))


@pytest.mark.slow
def test_several_processes_store_of_the_suite_what_one_walk_stores(tmp_path: Path) -> None:
    module = export_model(registry.get("suite:ops")).bytecode
    one = walked_in_child(module, tmp_path / "one", 1)
    several = walked_in_child(module, tmp_path / "several", 3)
    assert one.result is not None, one.log.tail(1000)
    assert len(one.result) > 900
    assert several.result == one.result, several.log.tail(1000)
    assert files(tmp_path / "several") == files(tmp_path / "one")


@pytest.mark.slow
def test_a_process_that_an_op_ends_ends_the_walk_and_the_journal_names_the_op(tmp_path: Path) -> None:
    done = walked_in_child(PARTS, tmp_path / "several", 3, fatal="stablehlo.cosine")
    assert (done.ending.cause, done.ending.kind) == (Cause.SIGNAL, "signal SIGSEGV")
    assert (tmp_path / "several" / JOURNAL).read_text().split()[1] == "stablehlo.cosine"

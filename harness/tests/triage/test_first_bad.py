"""The first wrong value of a program of several ops: seeded faults of a pass are named, in as few compiles as said."""

from __future__ import annotations

import math
import random
import shutil
import signal
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.base.tests.in_this_process import in_this_process
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.prepare.whole_manifest import whole_rows
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import FAILED, Status
from opscope.harness.record.workflows import FULL
from opscope.harness.tests.faulty_backends import edited
from opscope.harness.tests.programs.test_model_pieces import exported
from opscope.harness.triage import bundle, first_bad, in_child
from opscope.harness.triage.first_bad import FirstBad
from opscope.harness.triage.lab import Lab
from opscope.models import registry
from opscope.models.frontends.base import Source
from opscope.models.frontends.jax import FRONTEND

TYPE = "tensor<8x16xf32>"
NET = f"""func.func @main(%a: {TYPE}, %b: {TYPE}) -> {TYPE} {{
  %0 = stablehlo.tanh %a : {TYPE}
  %1 = stablehlo.multiply %0, %b : {TYPE}
  %2 = stablehlo.exponential %0 : {TYPE}
  %3 = stablehlo.add %2, %1 : {TYPE}
  %4 = stablehlo.logistic %3 : {TYPE}
  %5 = stablehlo.subtract %4, %0 : {TYPE}
  %6 = stablehlo.multiply %5, %3 : {TYPE}
  return %6 : {TYPE}
}}"""
SHORT = NET[: NET.index("  %4")] + f"  return %3 : {TYPE}\n}}"
FUSED = """if op.name == "stablehlo.add":
    for value in op.operands:
        if getattr(value.owner, "name", "") == "stablehlo.exponential" and len(list(value.uses)) == 1:
            scaled(op, 1.05)"""
"""A fusion of an exponential into the sum that alone reads it, with a wrong factor."""


def failing(folder: Path, module: str, backend: str) -> Path:
    """The repro folder of a module that runs as one program, and fails, on a backend."""
    base, _ = exported(folder / "base", module)
    (row,) = whole_rows([base])
    context = RunContext("r1", str(folder / "run"), backend, ResultOptions(workflow=FULL))
    with Lane(LaneConfig(context, {"net": str(base)})) as lane:
        test = lane.run(row)
    assert test.status in FAILED, test
    bundle.write(folder / "repro", row, test, bundle.Origin(export_dir=base, options=bundle.Options(backend=backend)))
    return folder / "repro"


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repro folder of a backend with that fusion."""
    folder = tmp_path_factory.mktemp("fused")
    return failing(folder, SHORT, edited.write(folder, "fused", FUSED))


def found(folder: Path, budget: float = 600) -> FirstBad:
    with Lab(folder, bundle.read(folder), budget=budget) as lab:
        return first_bad.find(lab)


@pytest.mark.slow
def test_a_wrong_op_is_named_and_is_wrong_alone(tmp_path: Path) -> None:
    where = failing(tmp_path, NET, edited.write(tmp_path, "op", "if op.name == 'stablehlo.logistic': scaled(op, 1.02)"))
    bad = found(where)
    assert (bad.op.name, bad.op.path, bad.number, bad.ops) == ("stablehlo.logistic", "main/4", 5, 7)
    assert not bad.interaction
    assert bad.returned is not None
    assert (bad.right_when_returned, bad.changed) == (False, "")
    assert (bad.row.op_name, bad.row.holds) == ("stablehlo.logistic", ())
    assert bad.test.status is Status.WRONG_RESULT
    assert bad.compiles <= bad.at_most == math.ceil(math.log2(7)) + 2
    assert bad.complete


def test_a_fault_between_ops_is_an_interaction_of_the_ops_that_it_takes(fused: Path, tmp_path: Path) -> None:
    with in_this_process(in_child):  # quick: test_repro.py has a child that dies
        bad = in_child.locate(fused, "opscope locate", 300, print, tmp_path / "located")
    assert (bad["op_name"], bad["path"], bad["interaction"]) == ("stablehlo.add", "main/3", True)
    assert bad["right_when_returned"], "an exponential that others read too is not fused"
    assert bad["changed"] != ""
    assert bad["compiles"] <= bad["at_most"]
    assert [op.partition(" at ")[0] for op in bad["holds"]] == ["stablehlo.exponential", "stablehlo.add"]
    assert bundle.read(tmp_path / "located").failure.status is Status.WRONG_RESULT


@pytest.mark.slow
def test_a_fault_that_a_returned_value_heals_is_said_to_be_one(tmp_path: Path) -> None:
    """The fusion takes the sum into what reads it: where the sum is returned too, it is not fused."""
    rule = FUSED.replace("stablehlo.add", "stablehlo.logistic").replace("stablehlo.exponential", "stablehlo.add")
    net = NET.replace("stablehlo.multiply %5, %3", "stablehlo.multiply %5, %5")
    bad = found(failing(tmp_path, net, edited.write(tmp_path, "healed", rule)))
    assert (bad.op.name, bad.interaction, bad.right_when_returned) == ("stablehlo.logistic", True, True)
    assert [op.op_name for op in bad.row.holds] == ["stablehlo.add", "stablehlo.logistic"]


@pytest.mark.slow
def test_a_module_may_return_an_argument(tmp_path: Path) -> None:
    """As the step of an optimizer does."""

    def loss(w, x):
        return jnp.mean(jax.nn.log_softmax(jnp.tanh(x @ w["a"]) @ w["b"])[:, 0])

    def step(w, x, rate):
        grads = jax.grad(loss)(w, x)
        return rate, jax.tree.map(lambda v, g: v - rate * g / (jnp.sqrt(g * g) + 1e-8), w, grads)

    shapes = {"a": jax.ShapeDtypeStruct((24, 16), "float32"), "b": jax.ShapeDtypeStruct((16, 4), "float32")}
    lowered = jax.jit(step).lower(shapes, jax.ShapeDtypeStruct((8, 24), "float32"), jax.ShapeDtypeStruct((), "float32"))
    rule = "if op.name == 'stablehlo.dot_general' and '16x24' in str(op.results[0].type): scaled(op, -1.0)"
    bad = found(failing(tmp_path, lowered.as_text(), edited.write(tmp_path, "bwd", rule)))
    assert (bad.op.name, bad.interaction) == ("stablehlo.dot_general", False)
    assert bad.compiles <= bad.at_most


@pytest.mark.slow
def test_a_wrong_gradient_is_named_among_right_ones_that_amplify(tmp_path: Path) -> None:
    """What is allowed is amplified past the fault and before it: the cut where results go wrong is far behind it."""
    source = Source("net", str(registry.get("mnist_mlp").path), "float32", training=True, entry="mnist_mlp")
    step = FRONTEND.export(FRONTEND.build(source), source).bytecode
    rule = "if op.name == 'stablehlo.dot_general' and '128x784' in str(op.results[0].type): scaled(op, -1.0)"
    bad = found(failing(tmp_path, step, edited.write(tmp_path, "bwd", rule)))
    assert (bad.op.name, bad.interaction) == ("stablehlo.dot_general", False)
    assert "transpose(jvp(dense0))" in bad.op.location
    assert bad.compiles <= bad.at_most


def test_what_does_not_compile_is_found_the_same_way(tmp_path: Path) -> None:
    body = "from opscope.harness.backends.base import StageError\nif op.name == 'stablehlo.logistic':\n"
    backend = edited.write(tmp_path, "refuses", body + "    raise StageError(f'no kernel for {op.name}')")
    short = NET.replace("%5 = stablehlo.subtract %4, %0", "%5 = stablehlo.tanh %4").replace("%5, %3", "%5, %4")
    bad = found(failing(tmp_path, short, backend))
    assert (bad.op.name, bad.test.status, bad.row.holds) == ("stablehlo.logistic", Status.COMPILE_FAILED, ())


@pytest.mark.slow
def test_in_a_loop_the_op_of_its_body_is_named(tmp_path: Path) -> None:
    net = f"""func.func @main(%a: {TYPE}) -> {TYPE} {{
  %0 = stablehlo.tanh %a : {TYPE}
  %c = stablehlo.constant dense<3> : tensor<i32>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %o = stablehlo.constant dense<1> : tensor<i32>
  %1:2 = stablehlo.while(%i = %z, %x = %0) : tensor<i32>, {TYPE}
    cond {{
      %p = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %n = stablehlo.add %i, %o : tensor<i32>
      %s = stablehlo.sine %x : {TYPE}
      %e = stablehlo.exponential %s : {TYPE}
      %t = stablehlo.tanh %e : {TYPE}
      stablehlo.return %n, %t : tensor<i32>, {TYPE}
    }}
  %2 = stablehlo.add %1#1, %0 : {TYPE}
  return %2 : {TYPE}
}}"""
    backend = edited.write(tmp_path, "looped", "if op.name == 'stablehlo.exponential': scaled(op, 1.02)")
    bad = found(failing(tmp_path, net, backend))
    assert bad.op.name == "stablehlo.exponential"
    assert bad.inside.startswith("stablehlo.while at main/")
    assert (bad.row.op_name, bad.interaction) == ("stablehlo.exponential", False)


def test_refusals(fused: Path, tmp_path: Path) -> None:
    where = Path(shutil.copytree(fused, tmp_path / "repro"))
    expected = "opscope locate: expected the module to fail as recorded, got"
    with pytest.raises(InputError, match=f"{expected} no time to try it"):
        found(where, budget=0)
    (file,) = where.rglob("fused.py")
    file.write_text(file.read_text().replace("1.05", "1.0"))
    with pytest.raises(InputError, match=f"{expected} a pass"):
        found(where)


@pytest.mark.slow
def test_reduce_takes_the_module_of_a_whole_model(tmp_path: Path) -> None:
    where = failing(tmp_path, NET, edited.write(tmp_path, "fused", FUSED))
    reduced = in_child.narrow(where, "opscope reduce", in_child.Search(1, 300.0), print, tmp_path / "reduced")
    assert "exponential" in reduced["module"]
    assert "tanh" not in reduced["module"]
    assert "tensor<1x1xf32>" in reduced["module"], "both ops have fewer rows and columns"
    assert reduced["complete"]
    assert [op.op_name for op in bundle.read(tmp_path / "reduced").row.holds] == [
        "stablehlo.exponential",
        "stablehlo.add",
    ]


@pytest.mark.slow
def test_reduce_makes_the_one_wrong_op_of_a_model_small(tmp_path: Path) -> None:
    backend = edited.write(tmp_path, "op", "if op.name == 'stablehlo.logistic': scaled(op, 1.02)")
    where = failing(tmp_path, NET, backend)
    reduced = in_child.narrow(where, "opscope reduce", in_child.Search(1, 300.0), print, tmp_path / "reduced")
    assert reduced["after"]["name"] == "stablehlo.logistic"
    assert math.prod(reduced["after"]["operands"][0]) < 8 * 16


def drawn(random_: random.Random, count: int) -> str:
    """A program of so many ops in which every value is read, each op on a line of its own."""
    lines, unread = [], ["a", "b"]
    unary, binary = ("tanh", "logistic", "sine", "cosine"), ("add", "multiply", "subtract")
    for number in range(count):
        names = [f"v{n}" for n in range(number)] + ["a", "b"]
        if len(unread) > 4 or (count - number < len(unread)):
            one, two = unread.pop(0), unread.pop(0)
            lines.append(f"  %v{number} = stablehlo.{random_.choice(binary)} %{one}, %{two} : {TYPE}")
        else:
            one = unread.pop(0) if random_.random() < 0.7 else random_.choice(names)
            unread = [name for name in unread if name != one]
            lines.append(f"  %v{number} = stablehlo.{random_.choice(unary)} %{one} : {TYPE}")
        unread.append(f"v{number}")
    head = f"func.func @main(%a: {TYPE}, %b: {TYPE}) -> {TYPE} {{"
    while len(unread) > 1:
        one, two = unread.pop(0), unread.pop(0)
        lines.append(f"  %w{len(unread)} = stablehlo.add %{one}, %{two} : {TYPE}")
        unread.append(f"w{len(unread)}")
    return "\n".join([head, *lines, f"  return %{unread[0]} : {TYPE}", "}}".replace("}}", "}")])


@pytest.mark.slow
def test_twenty_seeded_faults_are_named(tmp_path: Path) -> None:
    random_, named, within = random.Random(7), [], []
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        net = drawn(random_, random_.randrange(24, 60))
        place = random_.randrange(2, net.count("stablehlo."))
        rule = f"if place(op) == {place}: scaled(op, 1.1)"
        bad = found(failing(folder, net, edited.write(folder, "seeded", rule)))
        named.append((bad.op.path, f"main/{place}"))
        within.append(bad.compiles <= bad.at_most)
    assert [each for each in named if each[0] != each[1]] == []
    assert all(within)


@each(
    ("one", "two", "said"),
    [
        ([1.0, 1e-30], [1.0, 1e-30], ""),
        ([1.0, 1e-30], [1.0, 3e-30], "changed by up to 1.68e-23 ulp of their largest value"),
        ([1.0, 0.5], [1.0 + 2**-23, 0.5], "changed by up to 1 ulp of their largest value"),
        ([1j, 0.5], [1j * (1 + 2**-22), 0.5], "changed by up to 2 ulp of their largest value"),
        ([1.0, 2.0], [1.0, math.nan], "changed by up to inf ulp of their largest value"),
        ([3, 4], [3, 6], "changed by up to 2 ulp of their largest value"),
    ],
)
def test_how_results_differ(one: list[complex], two: list[complex], said: str) -> None:
    kind = {int: np.int32, float: np.float32}.get(type(one[0]), np.complex64)
    assert first_bad._difference([np.array(one, kind)], [np.array(two, kind)]) == said


@pytest.mark.slow
def test_an_interrupt_leaves_the_smallest_so_far_and_another_reduction_goes_on(tmp_path: Path) -> None:
    where = failing(tmp_path, NET, edited.write(tmp_path, "fused", FUSED))
    said: list[str] = []

    def report(text: str) -> None:
        said.append(text)
        if "window:add" in text and not any("stopping" in each for each in said):
            signal.raise_signal(signal.SIGINT)

    search = in_child.Search(1, 300.0)
    reduced = in_child.narrow(where, "opscope reduce", search, report, tmp_path / "reduced")
    assert any(text.startswith("stopping with the best so far") for text in said)
    assert not reduced["complete"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    first = bundle.read(tmp_path / "reduced").row
    again = in_child.narrow(tmp_path / "reduced", "opscope reduce", search, print, tmp_path / "smaller")
    assert again["complete"]
    assert "tensor<1x1xf32>" in again["module"]
    assert [op.op_name for op in first.holds] == [op.op_name for op in bundle.read(tmp_path / "smaller").row.holds]

"""A loop that fails for one op in it is told as that: how many of the others are right."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest

from opscope.harness.record.bodies import otherwise_right
from opscope.harness.record.store import load_run
from opscope.harness.run import finish_run
from opscope.harness.run.api import run_op_by_op
from opscope.harness.tests.page.test_summary import shown

LOOP = """func.func @main(%x: tensor<2xui32>) -> tensor<2xui32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%n = %zero, %v = %x) : tensor<i32>, tensor<2xui32>
  cond {
    %p = stablehlo.compare LT, %n, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %s = stablehlo.multiply %v, %v : tensor<2xui32>
    INSIDE
    %m = stablehlo.add %n, %one : tensor<i32>
    stablehlo.return %m, %t : tensor<i32>, tensor<2xui32>
  }
  OUTSIDE
  return %y : tensor<2xui32>
}"""
WIDE = """%i = stablehlo.convert %s : (tensor<2xui32>) -> tensor<2xui64>
    %t = stablehlo.convert %i : (tensor<2xui64>) -> tensor<2xui32>"""
IF = """%b = "stablehlo.if"(%p0) ({
      %i = stablehlo.convert %s : (tensor<2xui32>) -> tensor<2xui64>
      %c = stablehlo.convert %i : (tensor<2xui64>) -> tensor<2xui32>
      stablehlo.return %c : tensor<2xui32>
    }, {
      %d = stablehlo.add %s, %s : tensor<2xui32>
      stablehlo.return %d : tensor<2xui32>
    }) : (tensor<i1>) -> tensor<2xui32>
    %t = stablehlo.subtract %b, %s : tensor<2xui32>"""
PREDICATE = "%p0 = stablehlo.compare LT, %n, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>\n    "


def _scan() -> str:
    """A scan that draws from a key in each step, by words of 64 bits."""

    def step(key, x):
        key, inner = jax.random.split(key)
        return key, x + jax.random.uniform(inner, x.shape)

    return jax.jit(lambda key, xs: jax.lax.scan(step, key, xs)).lower(jax.random.PRNGKey(0), jnp.ones((3, 2))).as_text()


def of(inside: str, outside: str = "%y = stablehlo.add %r#1, %x : tensor<2xui32>") -> str:
    return LOOP.replace("INSIDE", inside).replace("OUTSIDE", outside)


BRANCH = """func.func @main(%p: tensor<i1>, %x: tensor<2xui32>) -> tensor<2xui32> {
  %r = "stablehlo.if"(%p) ({
    %a = stablehlo.multiply %x, %x : tensor<2xui32>
    %b = stablehlo.add %a, %x : tensor<2xui32>
    %s = stablehlo.xor %b, %a : tensor<2xui32>
    WIDE
    stablehlo.return %t : tensor<2xui32>
  }, {
    stablehlo.return %x : tensor<2xui32>
  }) : (tensor<i1>) -> tensor<2xui32>
  return %r : tensor<2xui32>
}""".replace("WIDE", WIDE)
STEP = """func.func private @step(%v: tensor<2xui32>) -> tensor<2xui32> {
  %s = stablehlo.xor %v, %v : tensor<2xui32>
  WIDE
  return %t : tensor<2xui32>
}
""".replace("WIDE", WIDE)
CASES = {
    "a branch": (BRANCH, ["all but 2 of the 5 ops in it are right"]),
    "one of several": (
        BRANCH.replace("stablehlo.if", "stablehlo.case").replace("tensor<i1>", "tensor<i32>"),
        ["all but 2 of the 5 ops in it are right"],
    ),
    "a function that a loop calls": (
        STEP + of("%t = func.call @step(%s) : (tensor<2xui32>) -> tensor<2xui32>"),
        ["all but 2 of the 6 ops in it are right"],
    ),
    "a composite in a loop": (
        STEP + of('%t = stablehlo.composite "a.b" %s {decomposition = @step} : (tensor<2xui32>) -> tensor<2xui32>'),
        ["all 4 ops in it are right"],
    ),
    "a scan of JAX": (_scan(), [r"all but \d of the \d\d ops in it are right"]),
    "two ops in it": (of(WIDE), ["all but 2 of the 5 ops in it are right"]),
    "a branch in a loop": (of(PREDICATE + IF), ["all but 3 of the 9 ops in it are right"]),
    "nothing that fails": (of("%t = stablehlo.add %s, %v : tensor<2xui32>"), []),
    "only ops outside fail": (
        of(
            "%t = stablehlo.add %s, %v : tensor<2xui32>",
            WIDE.replace("%s", "%r#1").replace("%t", "%y"),
        ),
        [],
    ),
}


ALONE = ("a branch", "a composite in a loop", "a branch in a loop")


def together() -> str:
    """A model that calls those of `ALONE`."""
    parts = (CASES[name][0].replace("@main", f"private @part{n}") for n, name in enumerate(ALONE))
    one, pair = "tensor<2xui32>", "tensor<i1>, tensor<2xui32>"
    return f"""func.func @main(%p: tensor<i1>, %x: {one}) -> ({one}, {one}, {one}) {{
  %0 = func.call @part0(%p, %x) : ({pair}) -> {one}
  %1 = func.call @part1(%x) : ({one}) -> {one}
  %2 = func.call @part2(%x) : ({one}) -> {one}
  return %0, %1, %2 : {one}, {one}, {one}
}}
""" + "\n".join(parts)


CASES["those three"] = (together(), sorted(words for name in ALONE for words in CASES[name][1]))
SLOW = {"one of several", "a function that a loop calls", "two ops in it", "a scan of JAX", "nothing that fails"}
SLOW |= {*ALONE}
# quick: [those three], which find the ops of a body in the same ways as the others, and [only ops outside fail], of
# which as little is said as of a loop in which nothing fails


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASES])
def test_a_loop_is_told_by_what_is_in_it(name, tmp_path):
    module, said = CASES[name]
    run_op_by_op(module, name="m", run_dir=tmp_path / "run", cache_dir=tmp_path / "cache")
    run = load_run(tmp_path / "run")
    failed = [test for test in run.tests if test.expected]
    words = sorted(words for _, words in otherwise_right(failed, run.rows, run.tests))
    assert [bool(re.fullmatch(pattern, word)) for pattern, word in zip(said, words, strict=True)] == [True] * len(said)
    page = shown(finish_run.stored_page(tmp_path / "run"))
    assert ("Loops and branches that fail for ops in them alone" in page) is bool(said)

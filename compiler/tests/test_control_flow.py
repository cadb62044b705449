"""Programs that call programs: results against XLA, what is read back and counted, where tensors lie."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir import text
from opscope.compiler.target import binary
from opscope.compiler.target.program import ControlParams
from opscope.compiler.tests import programs
from opscope.compiler.tests.programs import random
from opscope.compiler.tests.test_against_xla import MATRIX, check, check_all
from opscope.simulator.api import Device


def newton(x):
    """Square roots, until no element moves."""

    def going(state):
        value, step = state
        return (jnp.abs(value * value - x) > 1e-3).any() & (step < 50)

    return lax.while_loop(going, lambda s: ((s[0] + x / s[0]) / 2, s[1] + 1), (x, np.int32(0)))


def run(function, *args):
    return Device("n150").load(api.compile(programs.stablehlo(function, *args), programs.BOARD)).run(args)


def test_loops_against_xla():
    x = random((4, 5), low=0.5, high=9)
    check(newton, x, tolerance=1e-6)
    loops = {
        "counted": lambda x: lax.fori_loop(0, 6, lambda i, c: c * 0.5 + x * i, x),
        "scan": lambda x: lax.scan(lambda c, row: (c + row, c * row), x[0], x),
        "never": lambda x: lax.fori_loop(0, 0, lambda i, c: c + 1, x),
    }
    check_all({name: (loop, (x,)) for name, loop in loops.items()})


def test_branches_against_xla():
    def either(p, x):
        return lax.cond(p, lambda: (x * 2, jnp.sum(x)), lambda: (x, jnp.float32(1)))

    def one_of(i, x):
        return lax.switch(i, [jnp.sin, jnp.cos, lambda x: x - 1], x)

    check_all({f"{p}": (either, (np.bool_(p), random((3, 4), low=1))) for p in (True, False)}, tolerance=MATRIX)
    check_all({f"{index}": (one_of, (np.int32(index), random((5,)))) for index in (-5, 0, 1, 2, 7)})


def test_case_outside_its_branches_takes_the_last():
    source = """func.func @main(%i: tensor<i32>, %x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = "stablehlo.case"(%i) ({
        %1 = stablehlo.negate %x : tensor<3xf32>
        stablehlo.return %1 : tensor<3xf32>
      }, {
        stablehlo.return %x : tensor<3xf32>
      }) : (tensor<i32>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }"""
    x = random((3,))
    program = Device("n150").load(api.compile(source, programs.BOARD))
    for index, want in ((0, -x), (1, x), (-1, x), (-2, x), (9, x)):
        (got,) = program.run([np.int32(index), x]).outputs
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(got, programs.xla(source, np.int32(index), x)[0])


def test_if_takes_the_branch_of_its_predicate():
    source = """func.func @main(%p: tensor<i1>, %x: tensor<3xf32>, %y: tensor<3xf32>)
        -> (tensor<3xf32>, tensor<3xf32>) {
      %0:2 = "stablehlo.if"(%p) ({
        %1 = stablehlo.add %x, %y : tensor<3xf32>
        stablehlo.return %1, %y : tensor<3xf32>, tensor<3xf32>
      }, {
        stablehlo.return %y, %x : tensor<3xf32>, tensor<3xf32>
      }) : (tensor<i1>) -> (tensor<3xf32>, tensor<3xf32>)
      return %0#0, %0#1 : tensor<3xf32>, tensor<3xf32>
    }"""
    x, y = random((3,)), random((3,), 1)
    program = Device("n150").load(api.compile(source, programs.BOARD))
    for p in (True, False):
        want = programs.xla(source, np.bool_(p), x, y)
        for got, golden in zip(program.run([np.bool_(p), x, y]).outputs, want, strict=True):
            np.testing.assert_array_equal(got, golden)


def test_a_loop_in_a_branch_in_a_loop():
    def inner(x):
        return lax.fori_loop(0, 3, lambda i, c: c + x, x)

    def outer(x, n):
        return lax.fori_loop(0, n, lambda i, c: lax.cond(i % 2 == 0, inner, lambda c: c - 1, c), x)

    check(outer, random((2, 3)), np.int32(4), tolerance=1e-6)


def test_predicates_are_read_back_and_counted():
    x = np.full((2, 2), 4, np.float32)
    few, many = (run(lambda x, n: lax.fori_loop(0, n, lambda i, c: c + 1, x), x, np.int32(n)).profile for n in (3, 9))
    assert (few.predicates, many.predicates) == (4, 10)
    assert many.total_cycles - few.total_cycles > 6 * 10_000, "each iteration costs a read-back at 1 GHz"
    assert sum(op.kernel == "while" for op in many.ops) == 10
    branch = run(lambda p, x: lax.cond(p, jnp.exp, jnp.negative, x), np.bool_(True), x).profile
    assert branch.predicates == 1
    assert [op.kernel for op in branch.ops].count("exp") == 1
    assert "neg" not in [op.kernel for op in branch.ops]
    assert run(jnp.exp, x).profile.predicates == 0


def test_calls_point_forward_and_name_what_they_call():
    programs_ = binary.read(api.compile(programs.stablehlo(newton, random((2, 2))), programs.BOARD)).programs
    names = [p.name for p in programs_]
    assert names[0] == "main"
    (loop,) = [op for op in programs_[0].operations if isinstance(op.params, ControlParams)]
    assert list(loop.params.programs) == names[1:3]
    tensors = {t for p in programs_[1:] for op in p.operations for t in op.inputs if op.kernel == "deallocate"}
    assert not tensors & set(programs_[2].inputs), "a callee does not free its caller's tensors"


def test_callee_memory_is_given_back_and_counted():
    wide = np.ones((512, 512), np.float32)

    def grow(x, n, loops=1):
        for _ in range(loops):
            x = lax.fori_loop(0, n, lambda i, c: c + jnp.tile(c, (4, 1))[:512] * 2, x)
        return x

    small = run(grow, wide, np.int32(1)).profile.dram_peak_bytes
    assert run(lambda x, n: grow(x, n, 12), wide, np.int32(1)).profile.dram_peak_bytes == small
    assert small > 6 * wide.nbytes, "the body's tensors lie beside its caller's"


def test_ir_of_every_level_is_mlir_and_reads_back():

    ttir = api.stablehlo_to_ttir(programs.stablehlo(newton, random((2, 2))))
    for module in (ttir, api.ttir_to_ttnn(ttir, programs.BOARD)):
        printed = text.to_text(module)
        assert programs.jaxlib_parses(printed)
        assert text.to_text(text.parse(printed)) == printed
    again = api.ttir_to_ttnn(text.parse(text.to_text(ttir)), programs.BOARD)
    assert api.ttnn_to_flatbuffer(again, programs.BOARD)


def test_bodies_that_a_core_cannot_apply_are_refused():
    source = """func.func @main(%x: tensor<4xf32>, %t: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.sort"(%x) ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %1 = stablehlo.slice %t [0:1] : (tensor<4xf32>) -> tensor<1xf32>
          %2 = stablehlo.reshape %1 : (tensor<1xf32>) -> tensor<f32>
          %3 = stablehlo.add %b, %2 : tensor<f32>
          %4 = stablehlo.compare LT, %a, %3 : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %4 : tensor<i1>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    with pytest.raises(StageFailure, match="reads a tensor around it") as caught:
        api.compile(source, programs.BOARD)
    assert (caught.value.op, caught.value.kind) == ("stablehlo.sort", "notimpl")


def test_results_do_not_depend_on_placement():
    x = random((40, 50), low=0.5, high=9)
    executable = Device("n150").load(api.compile(programs.stablehlo(newton, x), programs.BOARD))
    for whole, parts in zip(executable.run([x]).outputs, executable.run([x], per_core=True).outputs, strict=True):
        np.testing.assert_array_equal(whole, parts)

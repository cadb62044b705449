"""Tests of `suite:ops`, the model that holds every op: it covers what the compiler lowers, and a sweep of it is green.

What is tested for each op
==========================

An op is a row in `compiler/ops/<family>.py`. No list of tests names it: the tests below go through a table, and a row
that is missing from one of them fails there by name.

The op and its forms (`models/op_cases.py`, `op_texts.py`)
    Here. Each row that counts as lowered is in a case of the suite: a call in one type and rank, with operands drawn
    inside the op's domain. `NOT_SINGLE` lists the ops that no run of one op can hold, with the reason.
How it is lowered (`compiler/tests`)
    test_row.py: each row derives what it promises, and names a kernel that the simulator has.
    test_coverage.py: each op of the StableHLO dialect has a row, and docs/ops.md is what the rows say.
    filecheck/: the text before and after each conversion and pass.
    test_single_ops_stay.py: an op that is compiled alone is that op at every optimization level.
Its numbers, against something that this project did not compute
    compiler/tests/test_conformance.py: the specification's own cases, through compiler and simulator.
    compiler/tests/test_own_cases.py: each lowered op has a case on the device, of the specification's or of our own
    with a formula in NumPy (`own_cases.py`).
    compiler/tests/test_against_xla.py, test_named_lowerings.py: against XLA; the second in tt-mlir's words.
    simulator/tests/test_<family>.py: each kernel against NumPy; test_eltwise_ends.py: at the ends of its types.
Its verdict (`harness/tests/verdict`)
    test_tolerance.py: which row of the tolerance table the op gets. test_error_bounds.py: a right kernel keeps the
    `max_ulp` that it states on every range of values. test_mutants.py: the result of a wrong kernel
    (`simulator/mutants.py`) is wrong.
Its time (`compiler/buda/balancer/tests/test_cycles.py`)
    Each op has weights, and estimates are held to cycles that were measured on silicon.
The whole way
    The slow tests here run pytest over the suite on the reference backend, in two types. So does a user:
    `pytest --model suite:ops --op-by-op --ops tanh`.

What to do when one fails
=========================

1. A missing row fails first: read which table the assertion compares, and add the row there. Do not take the op out of
   a table to make its test pass: only an op that the hardware has no format for is `never`, and the row says why.
2. A number is wrong. Find the first stage at which it is: `opscope repro ID` writes a folder that runs the op
   alone, `opscope probe ID` tries other shapes and types of it, `opscope reduce ID` makes it smaller.
   Then compare the kernel with NumPy in float64: if that agrees, the lowering is at fault, otherwise the kernel is.
3. A number is right, but outside its limit. A limit follows from what the target loses in each step (docs/verdicts.md),
   so it is not raised until the step is found that loses more, with its source. A kernel that computes more exactly
   states a smaller `max_ulp`.
4. A golden is in doubt (`golden_in_doubt`): XLA itself may be wrong. `harness/prepare/authorities` computes the op
   by a formula or with StableHLO's interpreter; a known error of XLA gets a row in `known_wrong.py`.
5. A mutant is not noticed: the mutant may compute the same numbers on this input (`changes_result` says so). If it does
   not, the verdict is too wide for this op, and 3 applies.
6. The sweep alone fails. Its record has the stage, the message and the diagnostic (`opscope show`). An expected
   failure is a row in `harness/limitations/limitations.yaml`, which expires as soon as the op passes.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from opscope.base.tests.captured import captured
from opscope.models import registry
from opscope.models.op_cases import FLOAT, cases
from opscope.models.seeding import draw

NOT_SINGLE = {
    "stablehlo.constant",
    "stablehlo.return",
    "stablehlo.after_all",
    "stablehlo.create_token",
    "stablehlo.async_start",
    "stablehlo.async_done",
    "stablehlo.tuple",
    "stablehlo.get_tuple_element",
    "stablehlo.all_gather",
    "stablehlo.all_reduce",
    "stablehlo.all_to_all",
    "stablehlo.reduce_scatter",
    "stablehlo.collective_broadcast",
    "stablehlo.collective_permute",
    "stablehlo.partition_id",
    "stablehlo.replica_id",
    "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.dynamic_conv",
    "stablehlo.dynamic_gather",
    "stablehlo.dynamic_iota",
    "stablehlo.dynamic_pad",
    "stablehlo.dynamic_reshape",
    "stablehlo.real_dynamic_slice",
    "stablehlo.uniform_quantize",
    "stablehlo.uniform_dequantize",
    "stablehlo.custom_call",
}
"""What no run of one op with random inputs can hold: a constant is part of its user, a return ends a region; tokens and
tuples pass through; collectives need a mesh of chips; dynamic sizes must be constants; quantised types are no inputs;
custom calls are as many ops as there are targets. compiler/tests has each of them."""


@pytest.fixture(scope="module")
def suite():
    """The suite, exported in float32."""
    pytest.importorskip("jax")
    from opscope.harness.prepare.export import export_model

    return export_model(registry.get("suite:ops"))


class Op(NamedTuple):
    """An op of the suite, without those in its regions: of its first result the element type, and the rank."""

    name: str
    element_type: str
    rank: int


@pytest.fixture(scope="module")
def ops(suite) -> list[Op]:
    """The ops of the suite, each as often as it is called for."""
    from jax.extend.mlir import ir
    from jax.interpreters import mlir

    found = []
    with mlir.make_ir_context():
        for function in ir.Module.parse(suite.bytecode).body.operations:
            for op in (view.operation for view in function.regions[0].blocks[0].operations):
                if op.name not in ("func.call", "func.return", "stablehlo.constant"):
                    kind = ir.RankedTensorType(op.results[0].type)
                    found.append(Op(op.name, str(kind.element_type), kind.rank))
    return found


def test_every_op_that_the_compiler_lowers_is_tried(ops) -> None:
    from opscope.compiler.api import op_table

    assert len(op_table()) > 100
    lowered = {row.stablehlo for row in op_table() if row.stablehlo and row.lowered}
    tried = {op.name for op in ops}
    assert lowered - tried == NOT_SINGLE
    assert {"stablehlo.fft", "stablehlo.complex"} <= tried
    assert {*registry.get("suite:ops").build("float32").ops} == lowered - NOT_SINGLE


def test_a_run_says_which_ops_of_the_table_no_case_reaches(suite) -> None:
    jax = pytest.importorskip("jax")
    from opscope.models.arguments import ArgSpec, Built
    from opscope.models.frontends.jax import exported

    x = (ArgSpec("x", (4,), "float32", "", "input"),)
    ops = ("stablehlo.sine", "chlo.asin", "stablehlo.cosine")
    built = Built(lambda w: jax.numpy.sin(w["x"]), x, ops=ops)
    assert exported(built, "one", "", {}).notes == ("no case reaches chlo.asin, stablehlo.cosine",)
    assert suite.notes == ()


def test_cases_of_chlo_do_not_depend_on_what_jax_writes() -> None:
    """Each op of one operand that a release of JAX may write in other words has a case in text."""
    from opscope.compiler.api import op_table
    from opscope.models.jax.suite_ops import OPS
    from opscope.models.op_texts import TEXTS

    written = {text.partition('"')[2].partition('"')[0] for _, text, _ in TEXTS.values()}
    assert len(op_table()) > 100
    others = {"chlo.mulhi", "chlo.top_k"}
    assert {op for op in OPS if op.startswith("chlo.")} - written == others


def test_ops_are_tried_in_their_types_and_ranks(ops) -> None:
    tried = {(op.name.split(".")[1], op.element_type, op.rank) for op in ops}
    for name in ("add", "maximum", "subtract"):
        assert {(name, kind, rank) for kind in ("f32", "i32") for rank in (0, 1, 2, 4)} <= tried
        assert {(name, kind, 2) for kind in ("f16", "ui32", "i16", "i8", "ui8")} <= tried
    assert len(ops) > 900
    assert Counter(op.name for op in ops)["stablehlo.convolution"] >= 11


def test_cases_are_seeded_distinct_and_inside_their_domains() -> None:
    jax = pytest.importorskip("jax")
    table = list(cases(jax.lax, jax.numpy))
    assert len({entry.name for entry in table}) == len(table)
    built = registry.get("suite:ops").build("bfloat16")
    assert [s.name for s in built.arguments] == [s.name for s in registry.get("suite:ops").build("float32").arguments]
    assert "bfloat16" in {s.dtype for s in built.arguments}
    assert FLOAT not in {s.dtype for s in built.arguments}
    for index, spec in enumerate(built.arguments):
        value = draw(spec.law, spec.shape, spec.dtype, 0, index)
        assert np.isfinite(value.astype(np.float32)).all(), spec.name


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_results_are_finite(dtype: str) -> None:
    jax = pytest.importorskip("jax")
    built = registry.get("suite:ops").build(dtype)
    values = {s.name: draw(s.law, s.shape, s.dtype, 0, i) for i, s in enumerate(built.arguments)}
    for entry, result in zip(cases(jax.lax, jax.numpy), jax.jit(built.forward)(values), strict=True):
        for leaf in jax.tree.leaves(result):
            if leaf.dtype.kind == "f" and not entry.name.startswith("bitcast"):
                assert np.isfinite(np.asarray(leaf).astype(np.float32)).all(), entry.name


NEW = (
    "smollm_135m",
    "t5_small",
    "moe_decoder",
    "mamba_reduced",
    "lstm_ptb",
    "diffusion_unet",
    "mobilenet_v2",
    "dlrm_reduced",
    "gcn_cora",
    "whisper_tiny_encoder",
    "tcn",
    "mnist_mlp_train",
    "suite:ops",
)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", NEW)
def test_a_sweep_on_the_reference_is_green_and_adds_up(name: str, dtype: str, tmp_path: Path) -> None:
    root = Path(registry.ROOT).parent
    run = tmp_path / "run"
    words = ["--model", name, "--op-by-op", "--dtype", dtype, "--run-dir", str(run), "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = captured([sys.executable, "-m", "pytest", *words], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout[-3000:]
    records = [json.loads(line) for file in (run / "journal").glob("*.jsonl") for line in file.read_text().splitlines()]
    failed = {r["op_name"] for r in records if r["status"] != "success"}
    if name == "suite:ops":
        # What the hardware has no format for, and nothing else.
        assert failed == {"stablehlo.complex", "stablehlo.real", "stablehlo.imag", "stablehlo.fft"}
        assert all(r["expected"].startswith("never") for r in records if r["status"] != "success")
    else:
        assert failed == set()

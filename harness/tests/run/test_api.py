"""The harness without pytest, on a small model traced here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.base import damage
from opscope.base.tests.in_this_process import in_this_process
from opscope.harness.prepare import split_guard
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.record.ledger import ledger
from opscope.harness.record.records import VOLATILE
from opscope.harness.record.stages import Stage, Status
from opscope.harness.run.api import run_op_by_op, split
from opscope.harness.run.op_tests import OpTests

MODULE = """
module @toy {
  func.func public @main(%x: tensor<32x64xf32>, %w: tensor<64x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xi1>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<32x64xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.tanh %0 : tensor<32x32xf32>
    %2 = stablehlo.tanh %1 : tensor<32x32xf32>
    %3 = stablehlo.compare GT, %2, %0 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xi1>
    return %2, %3 : tensor<32x32xf32>, tensor<32x32xi1>
  }
}
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def no_fork():
    """Beside `test_split_outlives_a_parser_that_does_not`, which has a fork each time."""
    with in_this_process(split_guard):
        yield


def test_split_gives_one_module_per_unique_op(no_fork):
    ops = split(MODULE)
    assert [(op.op_name, len(op.uses)) for op in ops] == [
        ("stablehlo.dot_general", 1),
        ("stablehlo.tanh", 2),
        ("stablehlo.compare", 1),
    ]
    with pytest.raises(InputError):
        split("func.func @main( {")


def test_a_module_object_keeps_what_jax_says_of_its_ops(cache, tmp_path):
    def layer(x):
        with jax.named_scope("layer7"):
            return jnp.tanh(x)

    lowered = jax.jit(layer).lower(jnp.ones((4, 4)))
    line = layer.__code__.co_firstlineno + 2
    for number, form in enumerate((lowered, lowered.compiler_ir())):
        (op,) = split(form)
        assert op.uses[0].location.startswith("jit(layer)/layer7/tanh")
        assert op.uses[0].location.endswith(f"test_api.py:{line})")
        (test,) = run_op_by_op(form, cache_dir=cache, run_dir=tmp_path / str(number))
        assert (test.status, test.framework_op_name) == (Status.SUCCESS, "tanh")
        assert test.locations == (op.uses[0].location,)


def test_a_text_kept_in_a_run_folder_is_not_placed_there(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tests = run_op_by_op(MODULE, cache_dir=cache, run_dir=tmp_path / "first", name="toy")
    assert tests[0].locations == ("toy.mlir:4",)


def test_split_outlives_a_parser_that_does_not(tmp_path: Path) -> None:
    depth = 20_000
    head = "".join(f'%r{n} = "stablehlo.if"(%p) ({{' for n in range(depth))
    tail = "}, { stablehlo.return %a : tensor<f32> }) : (tensor<i1>) -> tensor<f32>\n"
    tails = "".join(f"{tail}stablehlo.return %r{n} : tensor<f32>\n" for n in range(depth - 1, 0, -1))
    text = f"""func.func @main(%p: tensor<i1>, %a: tensor<f32>) -> tensor<f32> {{
      {head} stablehlo.return %a : tensor<f32> {tails} {tail} return %r0 : tensor<f32> }}"""
    line = r"^module: expected StableHLO that can be split, got the end of the parser \(signal SIGSEGV\)"
    with pytest.raises(InputError, match=line):
        split(text)
    (tmp_path / "net.mlir").write_text("func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }")
    with pytest.raises(InputError, match=r"net\.mlir: expected StableHLO that can be split, got no end within 1e-06 s"):
        split(tmp_path / "net.mlir", timeout=1e-6)
    os.mkfifo(tmp_path / "pipe.mlir")
    with pytest.raises(InputError, match=r"pipe\.mlir: expected a readable file, got no regular file"):
        split(tmp_path / "pipe.mlir")


def test_split_reads_a_path_too(tmp_path, no_fork):
    (tmp_path / "toy.mlir").write_text(MODULE)
    ids = [op.op_id for op in split(MODULE)]
    assert [op.op_id for op in split(str(tmp_path / "toy.mlir"))] == ids
    with pytest.raises(InputError, match=r"nowhere\.mlir: expected a readable file"):
        split("nowhere.mlir")


def run_of_toy(backend, cache, folder):
    """A run, and what it said of each op while it ran."""
    heard = []
    tests = run_op_by_op(
        MODULE, backend=backend, cache_dir=cache, run_dir=folder / "run", name="toy", on_test=heard.append
    )
    return tests, heard


@pytest.fixture(scope="module")
def on_reference(cache, tmp_path_factory):
    return run_of_toy("reference", cache, tmp_path_factory.mktemp("reference"))


# quick: [reference], which has the most stages; test_several_backends_and_values_of_ones_own has xla too, and runs of
# the acceptance tests are on null
@pytest.mark.parametrize(
    "backend", ["reference", *(pytest.param(name, marks=pytest.mark.slow) for name in ("xla", "null"))]
)
def test_every_op_climbs_and_the_run_folder_tells(request, cache, tmp_path, backend):
    tests, heard = (
        request.getfixturevalue("on_reference") if backend == "reference" else run_of_toy(backend, cache, tmp_path)
    )
    assert [test.op_name for test in tests] == ["stablehlo.dot_general", "stablehlo.tanh", "stablehlo.compare"]
    expected = Status.STOPPED if backend == "null" else Status.SUCCESS
    assert {test.status for test in tests} == {expected}
    assert heard == tests
    run = store.load_run(tests.run_dir)
    assert run.tests == tests
    assert (run.record.outcome, run.record.models) == ("complete", ("toy",))
    assert ledger(run.header, run.rows, run.tests).adds_up
    assert {test.ran_on for test in tests} == {{"reference": "simulator", "xla": "host", "null": "none"}[backend]}


def test_two_runs_give_equal_records(cache, tmp_path):
    runs = [
        run_op_by_op(MODULE, cache_dir=cache, run_dir=tmp_path / name, name="toy", no_cache=True)
        for name in ("one", "two")
    ]
    for one, two in zip(*runs, strict=True):
        assert one.model_dump(exclude=set(VOLATILE)) == two.model_dump(exclude=set(VOLATILE))


WIDE = """
module @wide {
  func.func public @main(%f: tensor<8xf64>, %i: tensor<8xi64>, %z: tensor<8xcomplex<f32>>)
      -> (tensor<8xf64>, tensor<8xi64>, tensor<8xcomplex<f32>>, tensor<8xf32>) {
    %0 = stablehlo.negate %f : tensor<8xf64>
    %1 = stablehlo.add %i, %i : tensor<8xi64>
    %2 = stablehlo.multiply %z, %z : tensor<8xcomplex<f32>>
    %3 = stablehlo.real %z : (tensor<8xcomplex<f32>>) -> tensor<8xf32>
    return %0, %1, %2, %3 : tensor<8xf64>, tensor<8xi64>, tensor<8xcomplex<f32>>, tensor<8xf32>
  }
}
"""


def test_missing_hardware_formats_are_expected_failures_with_a_reason(cache, tmp_path):
    tests = run_op_by_op(WIDE, cache_dir=cache, run_dir=tmp_path / "run", name="wide")
    assert len(tests) == 4
    for test, fact in zip(tests, ("64-bit float", "64-bit integer", "complex", "complex"), strict=True):
        assert test.status is Status.COMPILE_FAILED
        assert test.expected.startswith(f"never: no {fact}"), test.error_message
        assert fact.split("-")[0] in test.error_message


def test_options_reach_the_backend(cache, tmp_path):
    (test, *_) = run_op_by_op(
        MODULE,
        cache_dir=cache,
        run_dir=tmp_path / "run",
        arch="wormhole_b0",
        math_fidelity="LoFi",
        until="run",
        keep_ir=True,
    )
    assert (test.status, test.stage_reached, test.math_fidelity) == (Status.PASSED, Stage.RUN, "LoFi")
    dumped = {path.name for path in (tmp_path / "run" / "artifacts" / test.op_id / "ir-reference").iterdir()}
    assert any("ttnn" in name for name in dumped)


def test_bad_input_is_one_line(cache, tmp_path):
    for arguments, options in (
        ("no_such_model", {}),
        (MODULE, {"backend": "refrence"}),
        (MODULE, {"arch": "n15"}),
        (MODULE, {"seed": "x"}),
        ("module { broken", {}),
    ):
        with pytest.raises(InputError) as refusal:
            run_op_by_op(arguments, cache_dir=cache, run_dir=tmp_path / "run", **options)
        assert "\n" not in str(refusal.value)


@pytest.mark.slow
def test_ten_lines_in_a_fresh_process(cache, tmp_path):
    script = f"""
import json, jax, jax.numpy as jnp
from opscope.harness.run.api import run_op_by_op
lowered = jax.jit(lambda x: jnp.maximum(x, 0) * 2).lower(jax.ShapeDtypeStruct((8, 8), jnp.float32))
tests = run_op_by_op(lowered, cache_dir={str(cache)!r})
print(json.dumps([[test.op_name, test.status, test.success] for test in tests]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    printed = json.loads(done.stdout)
    assert {"stablehlo.maximum", "stablehlo.multiply"} <= {name for name, *_ in printed}
    assert {tuple(rest) for _, *rest in printed} == {("success", True)}
    assert len(list((tmp_path / ".opscope" / "runs").iterdir())) == 1


def test_several_backends_and_values_of_ones_own(cache, tmp_path):
    x, w = np.full((32, 64), 0.5, np.float32), np.full((64, 32), 0.25, np.float32)
    np.savez(tmp_path / "in.npz", arg0=x, arg1=w)
    tests = run_op_by_op(
        MODULE, backends=("reference", "xla"), inputs=tmp_path / "in.npz", cache_dir=cache, run_dir=tmp_path / "run"
    )
    assert [(test.op_name, test.backend) for test in tests[:2]] == [
        ("stablehlo.dot_general", "reference"),
        ("stablehlo.dot_general", "xla"),
    ]
    assert {test.status for test in tests} == {Status.SUCCESS}
    assert tests[0].results[0].max_abs == 0, "8 is exact in every format"
    stored = store.load_run(tmp_path / "run")
    assert stored.record.backend == "reference,xla"
    assert len(stored.tests) == len(tests) == 6
    with pytest.raises(InputError, match="--weights"):
        run_op_by_op(MODULE, weights=tmp_path / "none.safetensors", cache_dir=cache, run_dir=tmp_path / "other")


@pytest.mark.slow
def test_a_function_of_this_process_runs_on_its_example_inputs(cache, tmp_path):
    def net(x, tree):
        return jnp.tanh(x @ tree["w"])

    x, w = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), jnp.full((4, 2), 0.5)
    tests = run_op_by_op(net, x, {"w": w}, cache_dir=cache, run_dir=tmp_path / "run")
    assert [(t.op_name, t.status.value) for t in tests] == [
        ("stablehlo.dot_general", "success"),
        ("stablehlo.tanh", "success"),
    ]
    assert tests[0].provenance.startswith("captured:net-")
    values = np.load(tmp_path / "run/modules/net.npz")
    np.testing.assert_array_equal(values["arg0"], x)
    np.testing.assert_array_equal(values["arg1"], w)
    again = run_op_by_op(jax.export.export(jax.jit(net))(x, {"w": w}), cache_dir=cache, run_dir=tmp_path / "again")
    assert [t.op_id for t in again] == [t.op_id for t in tests], "what jax.export made has the same ops"
    assert list(tests.diff(again)["label"]) == [] or set(tests.diff(again)["op_id"]) <= {t.op_id for t in tests}


def test_an_answer_is_a_list_that_shows_its_run(on_reference):
    tests, _ = on_reference
    assert isinstance(tests, list)
    assert repr(tests) == f"3 ops: 3 success; {tests.run_dir}"
    assert repr(OpTests(tests[:1], tests.run_dir)) == f"1 op: 1 success; {tests.run_dir}"
    assert tests.failures == []
    assert tests.failures._page().export_text().split() == ["no", "op", "fails"]
    assert list(tests.frame()["op_name"]) == [test.op_name for test in tests]
    assert tests.report() == tests.run_dir / "report.html"
    assert "3 unique ops = 3 success" in tests._repr_html_()
    assert "monospace" in tests._repr_html_().partition(">")[0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: run_op_by_op(jnp.tanh), InputError, "expected example inputs after the model, got none"),
        (lambda: run_op_by_op(MODULE, 1.0), InputError, "expected a function or a framework's module before them"),
        (lambda: run_op_by_op(["a.mlir", "b.mlir"]), InputError, "expected a model: .*, got list; try for several"),
        (lambda: run_op_by_op(3), InputError, "expected a model: .*, got int"),
        (lambda: run_op_by_op(MODULE, archs="n150"), TypeError, "'archs'; try arch"),
    ],
)
def test_a_wrong_call_says_what_it_takes(call, error, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        call()
    assert not list(tmp_path.iterdir())


def test_a_module_of_torch_and_its_exported_program_are_models(cache, tmp_path):
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    tests = run_op_by_op(net, x, backend="xla", cache_dir=cache, run_dir=tmp_path / "one")
    assert {test.status for test in tests} == {Status.SUCCESS}
    program = torch.export.export(net, (x,))
    assert {test.status for test in run_op_by_op(program, cache_dir=cache, run_dir=tmp_path / "two")} == {
        Status.SUCCESS
    }


def test_what_a_user_should_know_of_an_export_is_said_where_it_is_kept_too(tmp_path):
    shows = (
        "stablehlo.custom_call @xla_ffi_python_cpu_callback(%0) {has_side_effect = true} : (tensor<32x32xf32>) -> ()"
    )
    module = MODULE.replace("%1 = stablehlo.tanh", f"{shows}\n    %1 = stablehlo.tanh")
    for run in ("first", "again"):
        lines: list[str] = []
        damage.forget()
        damage.show_by(lines.append)
        run_op_by_op(module, name="toy", run_dir=tmp_path / run, cache_dir=tmp_path / "cache")
        assert [line.partition(": left out ")[2][:16] for line in lines] == ["1 call of Python"], run

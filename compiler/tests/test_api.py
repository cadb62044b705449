"""The public door: steps, descriptions, refusals, speed."""

from __future__ import annotations

import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.ir import door, text
from opscope.compiler.target import binary
from opscope.compiler.tests import programs

ADD = programs.module(
    "%0 = stablehlo.add %a, %a : tensor<3x4xf32>\n return %0 : tensor<3x4xf32>",
    "(%a: tensor<3x4xf32>) -> tensor<3x4xf32>",
)


def test_steps_and_the_whole_give_the_same_binary():
    ttir = api.stablehlo_to_ttir(ADD)
    before = str(ttir)
    ttnn = api.ttir_to_ttnn(ttir, programs.BOARD)
    assert str(ttir) == before
    assert api.ttnn_to_flatbuffer(ttnn, programs.BOARD) == api.compile(ADD, programs.BOARD)


def test_stablehlo_comes_in_every_form(tmp_path):
    lowered = jax.jit(lambda a: a + a).lower(jax.ShapeDtypeStruct((3, 4), jnp.float32))
    path = tmp_path / "add.mlir"
    path.write_text(lowered.as_text())
    kernels = [
        [op.kernel for op in binary.read(api.compile(form, programs.BOARD)).programs[0].operations]
        for form in (lowered.as_text(), lowered, lowered.compiler_ir(), path)
    ]
    assert kernels == [kernels[0]] * 4
    assert "add" in kernels[0]
    for bad, message in ((None, "got NoneType"), (tmp_path / "nowhere", "nowhere: expected a readable StableHLO file")):
        with pytest.raises(api.CompilerInputError, match=message):
            api.compile(bad, programs.BOARD)


def test_pipeline_string_replays():
    from opscope.compiler.pipelines.pipeline import parse, run

    options = api.CompileOptions(data_format="Bfp8_b", math_fidelity="LoFi")
    board = api.load_board("p150")
    spec = api.pipeline(options, board)
    assert "Bfp8_b" in spec
    assert "p150" in spec
    module = door.read(ADD)
    run(parse(spec), module)
    whole = api.ttir_to_ttnn(api.stablehlo_to_ttir(ADD), board, options)
    assert module.is_structurally_equivalent(whole)
    assert (
        api.pipeline() == "legalize-stablehlo-composite-to-ttir,inline,stablehlo-to-ttir,ttir-to-ttir-decomposition,"
        "ttir-narrow-indices,ttir-to-ttnn,ttnn-workaround,ttnn-compute-config,ttnn-deallocate"
    )


def test_describe_io_is_what_the_compiler_chose():
    source = programs.stablehlo(lambda a, b: jnp.sum(a, 1), np.ones((40, 50), np.float32), np.ones(3, np.int32))
    data = api.compile(source, programs.BOARD, api.CompileOptions(data_format="Bfp8_b"))
    io = api.describe_io(data)
    read, unread = io.inputs
    assert (read.shape, read.element_type, read.data_format) == ((40, 50), "f32", "Bfp8_b")
    assert (read.buffer_type, read.layout, read.memory_layout, read.grid) == ("dram", "tile", "interleaved", (1, 1))
    assert (unread.buffer_type, unread.layout) == ("system_memory", "row_major")
    assert (io.outputs[0].shape, io.outputs[0].buffer_type) == ((40,), "dram")
    ttnn = api.ttir_to_ttnn(api.stablehlo_to_ttir(source), programs.BOARD, api.CompileOptions(data_format="Bfp8_b"))
    assert api.describe_io(ttnn) == io


def test_data_format_reaches_the_numbers():
    a = programs.random((32, 32), 1)
    exact = programs.simulate(ADD.replace("3x4", "32x32"), a)[0]
    coarse = programs.simulate(ADD.replace("3x4", "32x32"), a, data_format="Bfp4_b")[0]
    np.testing.assert_array_equal(exact, a + a)
    assert 0.02 < np.abs(coarse - exact).max() < 1.0


def test_dumps_every_stage(tmp_path):
    source = re.sub(r"(stablehlo\.add .*)", r'\1 loc("here.py":3:7)', ADD)
    api.compile(source, programs.BOARD, api.CompileOptions(dump_dir=str(tmp_path / "ir")))
    assert sorted(p.name for p in (tmp_path / "ir").iterdir()) == [
        "0-stablehlo.mlir",
        "1-ttir.mlir",
        "2-ttnn.mlir",
        "3-program.ttnn",
    ]
    for name in ("0-stablehlo", "1-ttir", "2-ttnn"):
        words = (tmp_path / "ir" / f"{name}.mlir").read_text()
        (line,) = [line for line in words.splitlines() if re.search(r"\b(stablehlo|ttir|ttnn)\.add\b", line)]
        assert line.endswith('loc("here.py":3:7)')
        assert programs.jaxlib_parses(words)
        assert text.to_text(text.parse(words), locations=True) == words


def test_a_dump_folder_that_cannot_be_made_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(api.CompilerInputError, match="expected a writable folder"):
        api.compile(ADD, programs.BOARD, api.CompileOptions(dump_dir=str(tmp_path / "file" / "ir")))


def test_an_unexpected_exception_becomes_a_typed_failure_with_its_traceback(monkeypatch):
    from opscope.compiler.passes.stablehlo_to_ttir import StablehloToTtir

    def broken(self, ctx, op):
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(StablehloToTtir, "apply", broken)
    with pytest.raises(api.StageFailure, match="internal error: ZeroDivisionError: boom") as caught:
        api.compile(ADD, programs.BOARD)
    assert caught.value.kind == "error"
    assert "test_api.py" in caught.value.diagnostic


def test_a_verifier_error_keeps_message_and_notes_apart(monkeypatch):
    from opscope.compiler.ops import shapes

    monkeypatch.setattr(shapes, "eltwise", lambda op, attrs: (9, 9))
    with pytest.raises(api.StageFailure, match=r"ttir.add: expected result shape \[9, 9\]") as caught:
        api.compile(ADD, programs.BOARD)
    assert len(caught.value.message) < 300
    assert "Traceback" in caught.value.diagnostic


def test_fingerprint_is_a_hash():
    assert len(api.fingerprint()) == 64
    assert api.fingerprint() == api.fingerprint()


def test_the_planner_knows_no_ir_and_importing_the_api_loads_no_jaxlib():
    code = (
        "import sys; from opscope.compiler.buda import plan_report, planner;"
        "assert not {'xdsl', 'jaxlib', 'jax'} & set(sys.modules);"
        "import opscope.compiler.api; assert not {'jax', 'jaxlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["resnet50", "bert_base", "vit_base", "gpt2_small", "mnist_mlp"])
def test_the_five_models_compile_whole(name, dtype):
    from opscope.models import registry

    built = registry.get(name).build(dtype)
    shapes = {a.name: jax.ShapeDtypeStruct(a.shape, a.dtype) for a in built.arguments}
    data = api.compile(programs.stablehlo(built.forward, shapes), programs.BOARD)
    assert len(api.describe_io(data).inputs) == len(built.arguments)

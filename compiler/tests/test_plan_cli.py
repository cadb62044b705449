"""`opscope plan`: the published example, every form of input, one clear line for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opscope.compiler.commands.plan import plan_command

CONVOLUTION = Path(__file__).parent / "data" / "resnet50_conv0.yaml"


def call(*args: object) -> Result:
    return CliRunner().invoke(plan_command, [str(arg) for arg in args])


def test_a_tensor_that_no_card_holds_is_refused_at_once(tmp_path):
    path = tmp_path / "far.yaml"
    path.write_text("nodes:\n  x: {input: [4611686018427387904, 4]}\n  y: {op: exp, inputs: [x]}\n")
    result = CliRunner().invoke(plan_command, [str(path)])
    assert result.exit_code == 2
    assert "x: expected at most 68719476736 tiles, got 1x144115188075855872x1 tiles" in result.output


SORTED = """func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {{
  %0 = {before}
  %1 = "stablehlo.sort"(%0) <{{dimension = 1 : i64}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }}) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = {after}
  return %2 : tensor<64x64xf32>
}}"""
PRODUCT = (
    "stablehlo.dot_general {}, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>)"
    " -> tensor<64x64xf32>"
)
TANH = "stablehlo.tanh {} : tensor<64x64xf32>"


def test_the_host_computes_after_the_card_what_no_card_computes_but_no_product(tmp_path: Path) -> None:
    path = tmp_path / "sorted.mlir"
    path.write_text(SORTED.format(before=PRODUCT.format("%x"), after=TANH.format("%1")))
    done = call(path)
    assert done.exit_code == 0
    warning = "sorted: the host computes after the card what no card computes: sort; and what needs it: tanh"
    assert done.stderr == f"warning: {warning}\n"
    assert "1 epoch, " in done.stdout
    refused = "ttir.sort: TT-Buda's planner has no op for it here"
    assert refused in call(path, "-o", tmp_path / "x.ttnn").stderr
    path.write_text(SORTED.format(before=TANH.format("%x"), after=PRODUCT.format("%1")))
    done = call(path)
    assert done.exit_code == 2
    assert refused in done.stderr


def test_every_candidate_of_the_published_matmul() -> None:
    result = call(CONVOLUTION, "--op", "matmul", "--json")
    assert result.exit_code == 0, result.output
    op = json.loads(result.output)["op"]
    assert (op["candidates"], op["op_models"]) == (76, 201)
    assert op["failures"] == {"Failed to allocate input buffers": 9}
    legal = [row["op_models"][0] for row in op["all"] if "op_models" in row]
    assert len(legal) == 67
    (published,) = [
        model
        for model in legal
        if model["grid_shape"] == {"r": 4, "c": 1} and model["t_stream_factor"] == {"dir": "R", "r": 2, "c": 1}
    ]
    assert published["cached_execution_cycles"] == 86240
    assert published["output_buffers"] == [
        {
            "block_shape": {"t": 2, "mblock_m": 7, "mblock_n": 2, "ublock": {"rt": 7, "ct": 1}},
            "buffer_factor": 2,
            "l1_size_tiles": 196,
            "data_format": "Float16_b",
        }
    ]
    assert [b["l1_size_tiles"] for b in published["input_buffers"]] == [56, 16]
    assert op["why"]
    assert all("failure" in row or row["op_models"] for row in op["all"])


@pytest.mark.slow
def test_lines_for_people_name_the_chosen_one_and_why() -> None:
    lines = call(CONVOLUTION, "--op", "matmul").output.splitlines()
    assert sum("<- chosen" in line for line in lines) == 1
    assert "candidates 76, legal 67, op models 201" in lines
    assert lines[-1].startswith("why: ")
    assert any("Failed to allocate input buffers: Output[3261440]" in line for line in lines)


GRAPH = """name: small
nodes:
  x: {input: [128, 64]}
  w: {parameter: [64, 64]}
  b: {parameter: [128, 64]}
  up: {op: matmul, inputs: [x, w]}
  add: {op: add, inputs: [up, b]}
  act: {op: gelu, inputs: [add]}
outputs: [act]
"""


def test_fused_ops_are_shown_and_can_be_turned_off(tmp_path: Path) -> None:
    file, netlist, page = tmp_path / "small.yaml", tmp_path / "n.yaml", tmp_path / "p.html"
    file.write_text(GRAPH)
    lines = call(file, "--netlist", netlist, "--picture", page).output.splitlines()
    assert any(line.split() == ["=", "add,", "gelu"] for line in lines)
    assert "fused_ops:" in netlist.read_text()
    assert "fused_op (add, gelu)" in page.read_text()
    shown = json.loads(call(file, "--op", "_fused_op_0", "--json").output)["op"]
    assert [step["op"] for step in shown["fused_steps"]] == ["add", "act"]
    output = call(file, "--op", "act")
    assert (output.exit_code, len(output.output.splitlines())) == (2, 1)
    assert "a step of _fused_op_0" in output.output
    assert call(file, "--op", "act", "--set", "enable_auto_fusing=false").exit_code == 0
    assert "fused_op" not in call(file, "--op-size", "act=2x2").output


def test_a_plan_lists_epochs_and_cores() -> None:
    shown = json.loads(call(CONVOLUTION, "--policy", "ribbon", "--epoch-break", "matmul", "--json").output)
    assert [len(epoch["placements"]) for epoch in shown["epochs"]] == [1, 1]
    assert shown["epochs"][0]["bytes_to_dram"] == 1568 * 2080
    assert shown["epochs"][1]["bytes_to_dram"] == 0
    assert shown["cycles_per_input"] == sum(epoch["cycles"] for epoch in shown["epochs"])
    assert "epoch 1 chip 0:" in call(CONVOLUTION, "--epoch-break", "matmul").output


@pytest.mark.parametrize("columns", [60, pytest.param(80, marks=pytest.mark.slow), 120])  # quick: less and more
def test_a_plan_fits_the_terminal_and_lacks_no_word(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = call("mnist_mlp").output
    monkeypatch.setenv("COLUMNS", str(columns))
    folded = call("mnist_mlp").output
    assert max(map(len, whole.splitlines())) > 120 >= columns >= max(map(len, folded.splitlines()))
    assert folded.split() == whole.split()
    assert "cycles\n" not in folded


def test_a_single_matmul_needs_no_file() -> None:
    result = call("matmul:512x1024x4096:Bfp8_b:LoFi", "--arch", "wormhole_b0", "--op-size", "matmul=4x8")
    assert result.exit_code == 0, result.output
    assert "grid    4x8" in result.output


def test_blackhole_says_that_its_figures_are_placeholders(tmp_path: Path) -> None:
    for arch, borrows in (("p150", True), ("n150", False)):
        picture = tmp_path / f"{arch}.html"
        words = ("matmul:512x512x512", "--arch", arch)
        said = [call(*words, "--picture", str(picture)).output, call(*words, "--op", "matmul").output]
        assert ["placeholders" in text for text in (*said, picture.read_text())] == [borrows] * 3, arch


def test_deprecated_policy_warns_on_stderr() -> None:
    result = call("matmul:512x512x512", "--policy", "CNN", "--json")
    assert "policy CNN is deprecated" in result.stderr
    json.loads(result.stdout)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("matmul:1x2",), "matmul: expected matmul:MxKxN[:format[:fidelity]], got 'matmul:1x2'"),
        (("matmul:0x2x3",), "expected matmul:MxKxN"),
        (("matmul:32x32x32:bf17",), "data format: expected a known format, got 'bf17'"),
        (("matmul:32x32x32:bf16:HiFi5",), "expected math fidelity LoFi, HiFi2, HiFi2_B, HiFi3, HiFi4, got 'HiFi5'"),
        (("matmul:512x512x512", "--policy", "NPL"), "got 'NPL'; try NLP"),
        (("matmul:512x512x512", "--arch", "grayskul"), "arch: expected a board or an arch"),
        (("matmul:512x512x512", "--op", "mutmal"), "got 'mutmal'; try matmul"),
        (("matmul:512x512x512", "--chips", "999999999"), "--chips: expected at most 32, got 999999999; try --chips 32"),
        (("matmul:512x512x512", "--op-size", "matmul=3x1"), "expected a grid that divides 16x16 tiles"),
        (("matmul:512x512x512", "--op-size", "matmul"), "--op-size: expected OP=RxC, got 'matmul'"),
        (("matmul:512x512x512", "--harvested", "64"), "harvested rows: expected rows 1-5 and 7-11, got 6"),
        (("matmul:32x1048576x32",), ""),
        (("nowhere.yaml",), "nowhere.yaml: expected a readable graph file, got: no such file"),
        (("nowhere.mlir",), "nowhere.mlir: expected a readable graph or StableHLO file"),
    ],
)
def test_bad_input_is_one_line(args: tuple[str, ...], expected: str) -> None:
    result = call(*args)
    if not expected:
        assert result.exit_code == 0
        return
    assert result.exit_code == 2
    assert expected in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nodes: [", "expected YAML"),
        ("hello", "expected a mapping with `nodes`"),
        ("nodes: {x: {input: [1, 2, 3, 4, 5]}}", "expected at most 4 dimensions, got 5"),
        ("nodes: {x: {inptu: [32]}}", "x: expected input, parameter, constant, convolution or op"),
        ("nodes: {y: {op: exp, inputs: [z]}}", "expected a node named before, got 'z'; try an input"),
        (
            "nodes: {a: {input: [1]}, b: {input: [1]}, c: {input: [1]}, d: {input: [1]}, y: {op: exp, inputs: [z]}}",
            "expected a node named before, got 'z'; try b, c, d",
        ),
        ("nodes: {x: {input: [32, 32]}, y: {op: exp, inputs: [x], aprox: true}}", "got aprox"),
        ("nodes: {x: {input: [32, 64]}, y: {op: exp, inputs: [x | hslice(3)]}}", "expected ct divisible by 3"),
        ("nodes: {x: {input: [32, 64]}, y: {op: exp, inputs: [x | flip]}}", "got 'flip'"),
        ("nodes: {x: {input: [32, 64]}, y: {op: matmul, inputs: [x, x]}}", "expected operands RxK and KxC"),
        ("nodes: {x: {input: [32, 64]}, y: {op: reduce, inputs: [x]}}", "expected reduce_dim r, c or z"),
        ("nodes: {x: {input: [32, 32]}, y: {input: [64, 32]}, z: {op: add, inputs: [x, y]}}", "try a broadcast TM"),
    ],
)
def test_bad_graph_files_are_one_line(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "graph.yaml"
    path.write_text(text)
    result = call(path)
    assert result.exit_code == 2, result.output
    assert expected in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_an_op_without_a_legal_model_counts_the_reasons(tmp_path: Path) -> None:
    path = tmp_path / "graph.yaml"
    path.write_text("nodes: {x: {input: [32, 32]}, y: {op: exp, inputs: ['x | broadcast(c, 521)'], gradient: true}}")
    result = call(path)
    assert result.exit_code == 2, result.output
    assert (
        "y: expected a legal op model on grayskull for exp of 1x1x521 tiles, got none: Failed to allocate"
        in result.stderr
    )

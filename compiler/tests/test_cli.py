"""The two verbs, and one clear line for each kind of bad input."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from opscope.compiler import passes
from opscope.compiler.commands.compile import PIPELINE_NAMES, compile_command, opt
from opscope.compiler.tests import programs
from opscope.compiler.tt_mlir.tests.emitted import one_op

TANH = programs.module(
    "%0 = stablehlo.tanh %a : tensor<2x3xf32>\n return %0 : tensor<2x3xf32>", "(%a: tensor<2x3xf32>) -> tensor<2x3xf32>"
)
FAR = """func.func @main(%x: tensor<1x2x2x1xf32>, %w: tensor<1x1x1x1xf32>) -> tensor<1x2x2x1xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {pad = [[9223372036854775807, -9223372036854775807], [0, 0]]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x2x2x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x2x2x1xf32>
  return %0 : tensor<1x2x2x1xf32>
}
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "tanh.mlir"
    path.write_text(TANH)
    return path


def call(command, *args):
    return CliRunner().invoke(command, [str(a) for a in args])


def test_compile_to_each_target(source, tmp_path):
    assert "ttir.tanh" in call(compile_command, source, "--to", "ttir").output
    assert "#ttnn.ttnn_layout" in call(compile_command, source, "--to", "ttnn", "--data-format", "bfp_bf8").output
    result = call(
        compile_command, source, "--arch", "wormhole_b0", "-o", tmp_path / "x.ttnn", "--dump-ir", tmp_path / "d"
    )
    assert result.exit_code == 0, result.output
    from opscope.compiler.target import binary

    assert binary.read((tmp_path / "x.ttnn").read_bytes()).board == "n150"
    assert (tmp_path / "d" / "2-ttnn.mlir").exists()


def test_opt_runs_passes_one_by_one_over_text(source, tmp_path):
    ttir = tmp_path / "ttir.mlir"
    assert call(opt, source, "-p", "stablehlo-to-ttir", "-o", ttir).exit_code == 0
    stepped = call(opt, ttir, "-p", 'ttir-to-ttnn{data-format="Bfp8_b"},ttnn-compute-config{math-fidelity=LoFi}')
    assert stepped.exit_code == 0, stepped.output
    assert "bfp_bf8" in stepped.output
    assert "math_fidelity = lofi" in stepped.output
    assert "deallocate" not in stepped.output


def test_opt_prints_locations_on_request(source):
    assert "loc(" in call(opt, source, "-p", "stablehlo-to-ttir", "--locations").output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", "expected StableHLO"),
        ("", "expected StableHLO"),
        (TANH[:60], "expected StableHLO"),
        ("func.func @main() { foo.bar }", "foo"),
        ('"builtin.module"() ({ "ttir.abs"( }) : () -> ()', "expected"),
        (FAR, "module: expected an attribute's numbers to fit i32, got 9223372036854775807"),
    ],
)
@pytest.mark.parametrize("command", [compile_command, opt])
def test_bad_files_are_one_line_and_exit_2(tmp_path, command, text, expected):
    path = tmp_path / "bad.mlir"
    path.write_text(text)
    result = call(command, path, *(["-p", "stablehlo-to-ttir"] if command is opt else []))
    assert result.exit_code == 2
    assert expected in result.output
    assert result.output.count("\n") == 1
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--arch", "n15"], "n150"),
        (["--data-format", "Bfp9"], "Bfp8"),
        (["--math-fidelity", "HiFi9"], "HiFi4"),
        (["-o", "/nonexistent/x"], "expected a writable file"),
    ],
)
def test_bad_options_are_one_line_and_exit_2(source, args, expected):
    result = call(compile_command, source, *args)
    assert result.exit_code == 2
    assert expected in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize("spec", ["nonsense", "ttir-to-ttnn{x=1}", "ttir-to-ttnn{", "ttir-to-ttnn{board=n15}"])
def test_bad_pipelines_are_one_line_and_exit_2(source, spec):
    result = call(opt, source, "-p", spec)
    assert result.exit_code == 2, result.output
    assert result.output.count("\n") == 1


def test_what_opt_cannot_read_or_write_is_one_line_and_exit_2(source, tmp_path):
    bytes_of_no_text = tmp_path / "x.mlir"
    bytes_of_no_text.write_bytes(b'"ttir.abs"() \xff')
    for result, expected in (
        (call(opt, source, "-o", "/nonexistent/x"), "expected a writable file"),
        (call(opt, bytes_of_no_text), "expected UTF-8 text"),
    ):
        assert result.exit_code == 2
        assert expected in result.output
        assert result.output.count("\n") == 1


@pytest.mark.parametrize("name", ["ttir_to_ttnn_backend_pipeline", "ttir-to-ttnn-backend-pipeline"])
def test_pipelines_of_tt_mlir_are_ours(source, name):
    ours = call(
        opt,
        source,
        "-p",
        "stablehlo-to-ttir,ttir-narrow-indices,ttir-to-ttnn{board=p150},"
        "ttnn-compute-config{board=p150 math-fidelity=hifi3},ttnn-deallocate",
    )
    words = ("mock-system-desc-arch=blackhole", "compute-cfg-math-fidelity=hifi3")
    if "_" in name:
        spec = f"stablehlo-to-ttir-pipeline,{name.replace('_', '-')}{{{' '.join(words).replace('-', '_')}}}"
        theirs = call(opt, source, "-p", spec)
    else:
        theirs = call(opt, "--stablehlo-to-ttir-pipeline", f"--{name}={' '.join(words)}", source)
    assert theirs.exit_code == ours.exit_code == 0, theirs.output
    assert theirs.output == ours.output
    assert "hifi3" in ours.output


def test_a_pass_is_an_option_too_and_standard_input_is_read():
    result = CliRunner().invoke(opt, ["--stablehlo-to-ttir", "--ttir-to-ttnn=data-format=Bfp8_b"], input=TANH)
    assert result.exit_code == 0, result.output
    assert "bfp_bf8" in result.output


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("optimization-level=3", "optimization-level: expected 0, 1 or 2, got '3'"),
        ("mesh-shape=2,4", "mesh-shape: expected 1 or 1,1, got '2,4'"),
        ("system-desc-path=a/b.ttsys", "expected nothing, got 'a/b.ttsys'; try mock-system-desc-arch"),
        ("enable-trace=true", "enable-trace: expected false, got 'true'"),
        ("enable-fusing-pass=2", "enable-fusing-pass: expected true or false, got '2'"),
        ("enable-optimizer=true optimization-level=0", "expected optimization-level or enable-optimizer, got both"),
        ("no-such=1", "expected an option that exists, got 'no-such'; try mock-system-desc-arch"),
        ("mock-system-desc-arch=blackhol", "blackhole"),
        ("compute-cfg-math-fidelity=hifi9", "HiFi4"),
    ],
)
def test_an_option_of_tt_mlir_that_we_have_not_is_refused_not_ignored(source, options, expected):
    result = call(opt, "--stablehlo-to-ttir-pipeline", f"--ttir-to-ttnn-backend-pipeline={options}", source)
    assert result.exit_code == 2, result.output
    assert expected in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "same_as"),
    [
        ("enable-optimizer=true", "optimization-level=1"),
        ("enable-optimizer=true memory-layout-analysis-enabled=true", "optimization-level=2"),
        ("optimization-level=1 enable-fusing-pass=true enable-const-eval=true", "optimization-level=1"),
    ],
)
def test_older_words_of_tt_mlir_mean_our_levels(options, same_as):
    from xdsl.utils.arg_spec import parse_pipeline

    from opscope.compiler.pipelines import pipeline
    from opscope.compiler.pipelines.tt_mlir import backend_options

    def spelled(words: str) -> str:
        (chosen,) = parse_pipeline(f"ttir-to-ttnn-backend-pipeline{{{words}}}")
        return pipeline.spell(pipeline.ttnn_passes(*backend_options(chosen)))

    assert spelled(options) == spelled(same_as) != spelled("optimization-level=0")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("no_such_op", "expected an op of ttir that this compiler has, got ttir.no_such_op"),
        ("adamw", "a step of training in one op"),
    ],
)
def test_a_ttir_op_that_we_have_not_is_named(tmp_path, name, expected):
    path = tmp_path / "theirs.mlir"
    path.write_text(
        """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "ttir.NAME"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }""".replace("NAME", name)
    )
    result = call(opt, "--ttir-to-ttnn-backend-pipeline", path)
    assert result.exit_code == 1
    assert expected in result.output
    assert f"ttir.{name}: " in result.output


def test_comments_do_not_make_stablehlo_ours(tmp_path):
    path = tmp_path / "commented.mlir"
    path.write_text('// CHECK: "ttir.tanh"\n' + TANH)
    assert call(opt, path, "-p", "stablehlo-to-ttir").exit_code == 0


def test_an_input_is_never_overwritten(source, tmp_path):
    path = tmp_path / "tanh.ttnn"
    path.write_text(TANH)
    for args in ([path], [source, "-o", source]):
        result = call(compile_command, *args)
        assert result.exit_code == 2
        assert "got the input itself; try -o" in result.output
    assert path.read_text() == source.read_text() == TANH


def test_help_names_the_passes_that_there_are():
    from opscope.compiler.pipelines.tt_mlir import PIPELINES

    assert [passes.load(name).name for name in passes.names()] == list(passes.names())
    assert PIPELINES == PIPELINE_NAMES
    words = " ".join(call(opt, "--help").output.split())
    assert all(name in words.replace("- ", "-") for name in passes.names())


def test_a_pass_out_of_order_says_what_to_run_before(source):
    result = call(opt, source, "-p", "ttir-to-ttnn")
    assert result.exit_code == 1
    assert "got stablehlo.tanh; try stablehlo-to-ttir before" in result.output


def test_missing_file(tmp_path):
    result = call(compile_command, tmp_path / "none.mlir")
    assert result.exit_code == 2
    assert "no such file" in result.output


def test_a_refused_op_exits_with_1_and_names_stage_and_kind(tmp_path):
    path = tmp_path / "f64.mlir"
    path.write_text(TANH.replace("f32", "f64"))
    result = call(compile_command, path)
    assert result.exit_code == 1
    assert "ttir-to-ttnn: ttir.tanh" in result.output
    assert "(never)" in result.output


def test_opt_prints_what_tt_mlir_emitted_as_it_stands_and_runs_no_pass_on_it(tmp_path):
    emitted = one_op("ttnn.neg", "", [((2, 3), "f32")], ((2, 3), "f32"))
    file = tmp_path / "op.mlir"
    file.write_text(emitted)
    result = call(opt, file)
    assert (result.exit_code, result.output) == (0, emitted)
    result = call(opt, "-p", "ttnn-deallocate", file)
    assert result.exit_code == 2
    assert "expected no passes for what tt-mlir emitted, got: ttnn-deallocate" in result.output
    file.write_text(emitted.replace("%1 = ", "%1, %2 = "))
    result = call(opt, file)
    assert result.exit_code == 2
    assert "expected 1 results of ttnn.neg, got 2" in result.output
    assert "Traceback" not in result.output

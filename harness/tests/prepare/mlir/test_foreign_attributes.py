"""Files with attributes of dialects that jaxlib lacks, as tt-mlir writes them: what is used, kept and refused."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from opscope.harness.prepare import mlir
from opscope.harness.prepare.export import export_file, hand_over, handed_over
from opscope.harness.prepare.mlir import foreign
from opscope.harness.prepare.mlir.door import _jax_mlir_ext, ir, passmanager, sdy, stablehlo
from opscope.harness.prepare.prepare_child import argument_types
from opscope.harness.prepare.split import split_module
from opscope.harness.record.errors import InputError
from opscope.models.frontends.base import ExportResult

MARKED = """module @net attributes {ttcore.meshes = #ttcore.meshes<[<"mesh" = 1x1>]>, ttir.version = "7"} {
  sdy.mesh @mesh = <["x"=1, "y"=1]>
  func.func public @main(
      %w: tensor<4xf32> {ttcore.argument_type = #ttcore.argument_type<parameter>, ttir.name = "w",
                         ttcore.shard_status = #ttcore.shard_status<presharded>} loc("w"),
      %c: tensor<4xf32> {ttcore.argument_type = #ttcore.argument_type<constant>},
      %x: tensor<4xf32> {ttcore.local_shape = #ttcore<local_shape local_shape = tensor<4xf32>>})
      -> (tensor<4xf32> {jax.result_info = "out", ttcore.shard_status = #ttcore.shard_status<unsharded>})
      attributes {other.mark = #other<kind [1, 2]>} {
    %0 = stablehlo.add %w, %c {ttir.hint = #ttir<keep>, mhlo.note = 3 : i32} : tensor<4xf32> loc(#fused)
    %1 = stablehlo.multiply %0, %x : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
#fused = loc(fused<#tt.pass<1>>["layer/add"("net.py":7:3)])
"""
PLAIN = """module @net {
  func.func public @main(%w: tensor<4xf32>, %c: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %w, %c : tensor<4xf32>
    %1 = stablehlo.multiply %0, %x : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
"""
OF_TTNN = MARKED.replace("stablehlo.multiply %0, %x :", '"ttnn.multiply"(%0, %x) : (tensor<4xf32>, tensor<4xf32>) ->')
LEFT_OUT = "other.mark (1), ttcore.local_shape (1), ttcore.meshes (1), ttcore.shard_status (2), ttir.hint (1)"


def as_bytecode(text: str) -> bytes:
    """What another compiler writes, whose context knows these dialects: they are named in the bytecode."""
    registry, context = ir.DialectRegistry(), ir.Context()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.allow_unregistered_dialects = True
    for dialect in (stablehlo, sdy):
        dialect.register_dialect(context)
    buffer = io.BytesIO()
    ir.Module.parse(text, context).operation.write_bytecode(buffer)
    return buffer.getvalue()


def exported(folder: Path, source: str | bytes) -> tuple[ExportResult, list[str]]:
    """A file's export, and the lines that it gave."""
    path = folder / "net.mlir"
    path.write_bytes(source.encode() if isinstance(source, str) else source)
    lines: list[str] = []
    return export_file(path, note=lines.append), lines


@pytest.mark.parametrize("form", ["text", "bytecode"])
def test_roles_are_used_and_the_rest_is_named_in_one_line(tmp_path: Path, form: str) -> None:
    export, lines = exported(tmp_path, MARKED if form == "text" else as_bytecode(MARKED))
    assert export.roles == ("parameter", "constant", "input")
    assert lines == [f"net.mlir: attributes of other dialects are not used: {LEFT_OUT}"]
    module = mlir.load(export.bytecode)  # by a context that knows none of these dialects
    text = str(module.operation.get_asm(enable_debug_info=True))
    assert "#ttcore" not in text
    assert "opscope." not in text
    assert 'loc("layer/add"(' in text
    assert 'loc("net.py":7:3)' in text
    assert "#tt.pass" not in text
    for kept in ('ttir.name = "w"', 'ttir.version = "7"', 'jax.result_info = "out"', "mhlo.note = 3"):
        assert kept in text


def test_a_marked_module_has_the_ops_of_the_plain_one(tmp_path: Path) -> None:
    marked = split_module(exported(tmp_path, MARKED)[0].bytecode).ops
    assert list(marked) == list(split_module(PLAIN).ops)


def test_roles_reach_the_compiler_also_from_another_machine(tmp_path: Path) -> None:
    export, _ = exported(tmp_path, MARKED)
    hand_over(export, tmp_path / "handed")
    again = handed_over(tmp_path / "handed")
    assert argument_types("net", again) == argument_types("net", export) == ("parameter", "constant", "input")
    assert argument_types("net", exported(tmp_path, PLAIN)[0]) == ()


def test_a_plain_module_gives_no_line(tmp_path: Path) -> None:
    assert exported(tmp_path, PLAIN)[1] == []


@pytest.mark.parametrize("how", ["attribute", "custom call"])
def test_a_role_among_frontend_attributes_counts_too(tmp_path: Path, how: str) -> None:
    words = 'mhlo.frontend_attributes = {ttcore.argument_type = "parameter", ttir.name = "w"}'
    text = PLAIN.replace("%w: tensor<4xf32>", f"%w: tensor<4xf32> {{{words}}}")
    if how == "custom call":
        mark = f"%m = stablehlo.custom_call @tt.mark_argument(%w) {{{words}}} : (tensor<4xf32>) -> tensor<4xf32>\n    "
        text = PLAIN.replace("%0 = stablehlo.add %w", mark + "%0 = stablehlo.add %m")
    assert exported(tmp_path, text)[0].roles == ("parameter", "input", "input")


def test_foreign_attributes_of_ops_are_kept_as_text(tmp_path: Path) -> None:
    call = (
        "%0 = stablehlo.custom_call @tt.thing(%w) {backend_config = {mode = #ttcore<fast>}, api_version = 4 : i32, "
        'mhlo.frontend_attributes = {tt.mode = #ttcore<slow>, xla.sdy.sharding = "#sdy.sharding<@m, [{}]>"}}'
        " : (tensor<4xf32>) -> tensor<4xf32>"
    )
    text = PLAIN.replace("%0 = stablehlo.add %w, %c : tensor<4xf32>", call)
    export, lines = exported(tmp_path, text)
    written = str(mlir.load(export.bytecode))
    assert 'backend_config = {mode = "#ttcore.fast"}' in written
    assert 'tt.mode = "#ttcore.slow", xla.sdy.sharding = ' in written
    assert lines == []


@pytest.mark.parametrize(
    ("broken", "part"),
    [
        (MARKED.replace("stablehlo.multiply %0, %x", "ttir.multiply %0, %x"), "got the unknown dialect `ttir`"),
        (OF_TTNN, r"net.mlir:11:10: expected .* artifact, got the unknown dialect `ttnn` \(ttnn.multiply\)"),
        (
            MARKED.replace("%x: tensor<4xf32> {", "%y: tensor<4x!tt.bfp8<3>>, %x: tensor<4xf32> {"),
            "got the unknown dialect `tt`",
        ),
        (MARKED.replace("%x : tensor<4xf32>", "%x : tensor<5xf32>"), "net.mlir:11:29: expected valid StableHLO"),
        (MARKED.replace("%0, %x", "%0, %nope"), "use of undeclared SSA value name"),
        ("ttcore.device_module {\n}", "expected a function @main"),
    ],
)
def test_ops_types_and_errors_beside_such_attributes_are_refused_in_one_line(
    tmp_path: Path, broken: str, part: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=part) as error:
        exported(tmp_path, broken)
    assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""


def test_bytecode_with_an_op_of_another_dialect_is_refused_by_name() -> None:
    broken = MARKED.replace(
        "stablehlo.multiply %0, %x :", '"ttnn.multiply"(%0, %x) : (tensor<4xf32>, tensor<4xf32>) ->'
    )
    with pytest.raises(InputError, match="unknown dialect `ttnn`"):
        mlir.load(as_bytecode(broken), "net")


def test_the_context_knows_no_other_dialect_afterwards() -> None:
    mlir.load(MARKED)
    assert not mlir.context().allow_unregistered_dialects
    with pytest.raises(InputError, match="unknown dialect `foo`"):
        mlir.load('module { "foo.bar"() : () -> () }')


def test_roles_and_notes_are_taken_once() -> None:
    module = mlir.load(MARKED)
    [entry] = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    assert foreign.notes(module) == LEFT_OUT
    assert foreign.roles(module, entry) == ("parameter", "constant", "input")
    assert (foreign.notes(module), foreign.roles(module, entry)) == ("", ())


def test_the_text_of_the_versioned_dialect_is_stablehlo() -> None:
    module = mlir.load(PLAIN)
    stablehlo.register_stablehlo_passes()
    with module.context:
        passmanager.PassManager.parse("builtin.module(stablehlo-legalize-to-vhlo)").run(module.operation)
    text = str(module)
    assert "vhlo.func_v1" in text
    assert list(split_module(text).ops) == list(split_module(PLAIN).ops)


def test_commands_that_take_a_file_say_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from opscope.base import damage
    from opscope.harness.cli import read_file

    damage.forget()
    (tmp_path / "net.mlir").write_text(MARKED)
    assert read_file.read(str(tmp_path / "net.mlir")) == exported(tmp_path, MARKED)[0].bytecode
    assert capsys.readouterr().err == f"opscope: net.mlir: attributes of other dialects are not used: {LEFT_OUT}\n"

"""Sharded files: their own mesh is that of the run, and each refusal names the option that runs them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from opscope.base.mesh import partition
from opscope.base.mesh.shardings import mesh_of, option_that_splits
from opscope.harness.prepare import file_models, mlir
from opscope.harness.prepare.export import Exported
from opscope.harness.prepare.mesh.sharding import sharded
from opscope.harness.prepare.mlir.over_mesh import over_mesh
from opscope.harness.prepare.preparation import Preparation, tasks
from opscope.harness.prepare.split import split_module
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.run import own_mesh

MESH = 'sdy.mesh @mesh = <["x"={x}, "y"={y}]>'
ARGUMENT = '%x: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}'
BODY = """ -> tensor<8x6xf32> {
  %0 = stablehlo.tanh %x : tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}"""
SHARDED = f"{MESH.format(x=1, y=2)}\nfunc.func @main({ARGUMENT}){BODY}"
ON_FOUR = f"{MESH.format(x=2, y=2)}\nfunc.func @main({ARGUMENT}){BODY}"
PLAIN = f"{MESH.format(x=1, y=2)}\nfunc.func @main(%x: tensor<8x6xf32>){BODY}"
GSPMD = f'func.func @main(%x: tensor<8x6xf32> {{mhlo.sharding = "{{devices=[4,1]<=[4]}}"}}){BODY}'
TUPLED = f"""module attributes {{mhlo.num_partitions = 8 : i32}} {{
func.func @main(%x: tensor<8x6xf32> {{mhlo.sharding = "{{devices=[8,1]0,1,2,3,4,5,6,7}}"}}){BODY} }}"""
COMPILED = """module @jit_f attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x_aux"=1, "x"=2]>
  func.func public @main(
      %w: tensor<6x4xf32> {ttcore.shard_status = #ttcore.shard_status<presharded>,
                           ttcore.argument_type = #ttcore.argument_type<parameter>},
      %x: tensor<8x6xf32> {ttcore.local_shape = #ttcore<local_shape local_shape = tensor<8x3xf32>>})
      -> tensor<8x4xf32> {
    %0 = sdy.manual_computation(%w, %x) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{}, {"x"}]>]
        out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x_aux", "x"} (%a: tensor<3x4xf32>, %b: tensor<8x3xf32>) {
      %1 = stablehlo.dot_general %b, %a, contracting_dims = [1] x [0]
          : (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32>
      %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%l: tensor<f32>, %r: tensor<f32>):
        %3 = stablehlo.add %l, %r : tensor<f32>
        stablehlo.return %3 : tensor<f32>
      }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
      sdy.return %2 : tensor<8x4xf32>
    } : (tensor<6x4xf32>, tensor<8x6xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}"""
"""What tt-xla's plugin writes as `shlo_compiler` of a product whose inner dim is split: groups of devices, which it
does not call so."""


def found(
    folder: Path, *texts: str, arch_given: bool = False, backend: str = "reference", **options: object
) -> own_mesh.OwnMesh | None:
    for number, text in enumerate(texts):
        (folder / f"net{number}.mlir").write_text(text)
    named = tasks(Preparation((f"{folder}/*.mlir",), cache_dir=str(folder / "cache")))
    return own_mesh.of_files(named, ResultOptions.of(options), [backend], arch_given)


@pytest.mark.parametrize(
    ("text", "mesh", "option"),
    [
        (SHARDED, "1x2", "--mesh 1x2"),
        (ON_FOUR, "2x2", "--mesh 2x2"),
        (GSPMD, "", "--mesh 4"),
        (TUPLED, "", "--mesh 8"),
        (COMPILED, "1x2", "--mesh 1x2"),
        (SHARDED.replace("sdy.mesh", 'sdy.mesh @one = <["z"=1]>\nsdy.mesh'), "1x2", "--mesh 1x2"),
    ],
)
def test_each_refusal_names_the_option_that_runs_the_file(text: str, mesh: str, option: str) -> None:
    from opscope.compiler.api import StageFailure, stablehlo_to_ttir

    module = mlir.load(text)
    assert (mesh_of(module.operation), option_that_splits(module.operation)) == (mesh, option)
    with pytest.raises(InputError, match=rf"; try {option}, which runs each device's part$"):
        split_module(text, "net")
    with pytest.raises(StageFailure, match=rf"; try {option} \(opscope compile, pytest --op-by-op\)"):
        stablehlo_to_ttir(text)


def test_a_mesh_of_another_size_is_refused_with_the_right_one() -> None:
    with pytest.raises(partition.WrongInput, match=r"expected 2 devices, as the module has, got 4; try --mesh 1x2"):
        partition.partitioned(SHARDED, 4)


def test_the_files_own_mesh_is_that_of_the_run_on_the_smallest_board(tmp_path: Path) -> None:
    own = found(tmp_path, SHARDED)
    assert own == own_mesh.OwnMesh("1x2", "n300", "net0: over its own mesh 1x2, board n300 (the smallest with 2 chips)")
    assert found(tmp_path, SHARDED, mesh="2") is None, "a mesh that is given counts"
    kept = found(tmp_path, SHARDED, arch="t3000", arch_given=True)
    assert kept is not None
    assert (kept.mesh, kept.board) == ("1x2", "t3000")
    assert "(as --arch says)" in kept.line
    without_boards = found(tmp_path, SHARDED, backend="xla")
    assert without_boards is not None
    assert (without_boards.mesh, without_boards.board) == ("1x2", "n150")


def test_bytecode_and_one_of_several_models_have_their_mesh(tmp_path: Path) -> None:
    (tmp_path / "net.mlirbc").write_bytes(mlir.to_bytecode(mlir.load(SHARDED)))
    assert file_models.mesh(tmp_path / "net.mlirbc", "", tmp_path / "cache") == "1x2"
    two = SHARDED.replace("@main", "@split") + PLAIN.partition("\n")[2].replace("@main", "@whole")
    (tmp_path / "two.mlir").write_text(two)
    of = {name: file_models.mesh(tmp_path / "two.mlir", name, tmp_path / "cache") for name in ("split", "whole")}
    assert of == {"split": "1x2", "whole": ""}


def test_a_file_that_splits_nothing_costs_no_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_models, "call", None)
    assert found(tmp_path, PLAIN.replace('"y"=2', '"y"=1'), GSPMD) is None


def test_files_of_different_meshes_or_none_have_none_in_common(tmp_path: Path) -> None:
    assert found(tmp_path, SHARDED, PLAIN) is None
    assert found(tmp_path, SHARDED, ON_FOUR) is None
    both = found(tmp_path, SHARDED, COMPILED)
    assert both is not None
    assert both.line.startswith("2 models: ")


@pytest.mark.parametrize(
    ("options", "way_out"),
    [
        ({"workflow": "full"}, "--workflow split, got --workflow full; try --workflow split --mesh 1x2"),
        ({"inputs": "random"}, "--inputs captured, got --inputs random; try --inputs captured --mesh 1x2"),
    ],
)
def test_options_that_do_not_go_with_a_mesh_are_refused(
    tmp_path: Path, options: dict[str, object], way_out: str
) -> None:
    line = f"--model net0: over its own mesh 1x2: expected {way_out}"
    with pytest.raises(InputError, match=f"^{re.escape(line)}$"):
        found(tmp_path, SHARDED, **options)


def test_a_slice_by_shardy_is_partitioned() -> None:
    text = f"""{MESH.format(x=1, y=2)}
    func.func @main(%x: tensor<8x6xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}}) -> tensor<8x6xf32> {{
      %0 = sdy.all_slice [{{"y"}}, {{}}] %x out_sharding=<@mesh, [{{"y"}}, {{}}]> : tensor<8x6xf32>
      %1 = stablehlo.tanh %0 : tensor<8x6xf32>
      return %1 : tensor<8x6xf32>
    }}"""
    local = sharded(Exported(mlir.to_bytecode(mlir.load(text)), (), "file"), "1x2", "net")
    assert local.arguments[0].shape == (8, 6)
    [tanh] = [op for op in split_module(local.bytecode).ops.values() if op.op_name == "stablehlo.tanh"]
    assert tanh.inputs[0].shape == (4, 6)


# quick: with a @main that is none, which also has another name
@pytest.mark.parametrize("private_main", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_function_of_another_name_is_partitioned_too(private_main: bool) -> None:
    text = SHARDED.replace("@main", "@forward")
    if private_main:
        text = (
            text.replace("%0 = stablehlo.tanh %x", "%0 = call @main(%x)").replace(
                "%0 = call @main(%x) : tensor<8x6xf32>", "%0 = call @main(%x) : (tensor<8x6xf32>) -> tensor<8x6xf32>"
            )
            + f"\nfunc.func private @main(%x: tensor<8x6xf32>){BODY}"
        )
    local = sharded(Exported(mlir.to_bytecode(mlir.load(text)), (), "file"), "1x2", "net")
    assert [op.op_name for op in split_module(local.bytecode).ops.values()] == ["stablehlo.tanh"]
    assert local.arguments[0].shape == (4, 6)


@cache
def compiled_local() -> Exported:
    """What each of two devices runs of `COMPILED`."""
    return sharded(Exported(mlir.to_bytecode(mlir.load(COMPILED)), (), "file"), "1x2", "net")


def test_groups_of_devices_are_read_as_such_where_they_cannot_be_of_replicas() -> None:
    text = str(mlir.load(compiled_local().bytecode))
    assert re.search(r"all_reduce.*use_global_device_ids", text)
    flat = COMPILED.replace("dense<[[0, 1]]> : tensor<1x2xi64>", "dense<0> : tensor<1x1xi64>")
    own = sharded(Exported(mlir.to_bytecode(mlir.load(flat)), (), "file"), "1x2", "net")
    assert "use_global_device_ids" not in str(mlir.load(own.bytecode)), "the one replica, by the specification"


@pytest.mark.slow
def test_a_compiled_file_runs_on_its_devices_and_gives_the_whole_product(tmp_path: Path) -> None:
    from opscope.harness.cache.export_folder import WHOLE
    from opscope.harness.prepare.inputs import row_golden, row_inputs
    from opscope.harness.record.records import OpRow
    from opscope.harness.run.api import run_op_by_op

    (tmp_path / "net.mlir").write_text(COMPILED)
    tests = run_op_by_op(
        tmp_path / "net.mlir", cache_dir=tmp_path / "cache", run_dir=tmp_path / "run", keep_ir=False, reruns=0
    )
    assert {test.op_name: test.status.value for test in tests} == {
        "stablehlo.dot": "success",
        "stablehlo.all_reduce": "success",
    }
    assert {(test.mesh, test.arch) for test in tests} == {("1x2", "n300")}
    [whole] = (tmp_path / "cache" / "exports").rglob(WHOLE)
    row = OpRow.model_validate_json(whole.read_text())
    assert row.argument_types == ("parameter", "input")
    w, x = row_inputs(row, whole.parent)
    np.testing.assert_allclose(row_golden(row, whole.parent)[0], x @ w, rtol=1e-5, atol=1e-5)


def test_a_mesh_that_the_board_is_too_small_for_is_refused_before_anything_is_prepared() -> None:
    small, large = (ResultOptions.of({"mesh": "1x2", "arch": arch}) for arch in ("n150", "n300"))
    with pytest.raises(
        InputError, match=r"^--mesh: expected a mesh of at most 1 devices on n150, got '1x2'; try --arch n300$"
    ):
        own_mesh.check([], small, ["xla", "reference"])
    own_mesh.check([], large, ["reference"])
    own_mesh.check([], small, ["xla"])


EXPLICIT = """module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
  func.func @main(%a: tensor<4xf32>) -> (tensor<8xf32>, tensor<ui32>) {
    %g = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}>
      : (tensor<4xf32>) -> tensor<8xf32>
    %i = stablehlo.replica_id : tensor<ui32>
    return %g, %i : tensor<8xf32>, tensor<ui32>
  }
}
"""
UNSAID = EXPLICIT.replace(" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32}", "")
CHANNEL = UNSAID.replace(
    "xi64>}>", "xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}>"
)
"""Each device's own program with collectives: of replicas, of devices that only its groups name, of partitions."""


def test_collectives_of_a_program_without_shardings_say_how_many_devices_run_it(tmp_path: Path) -> None:
    from opscope.harness.prepare.export import Exported
    from opscope.harness.prepare.mesh.sharding import sharded
    from opscope.harness.prepare.mlir import collective_groups as groups

    own = found(tmp_path, EXPLICIT)
    assert own is not None
    assert (own.mesh, own.board) == ("1x2", "n300")
    for text, key in ((EXPLICIT, groups.REPLICAS), (UNSAID, groups.REPLICAS), (CHANNEL, groups.PARTITIONS)):
        split = sharded(Exported(text.encode(), (), ""), "1x2", "net")
        assert (split.devices, split.arguments[0].starts, split.arguments[0].shape) == (2, ((0,), (0,)), (4,))
        assert mlir.load(split.bytecode).operation.attributes[key].value == 2
        replicas, _, gives = groups.among_replicas(split.bytecode, 2)
        assert [desc.shape for desc in gives] == [(8,), ()]
        # Of partitions there is one replica, whose number is 0.
        assert ("stablehlo.replica_id" in str(replicas)) == (key == groups.REPLICAS)
    with pytest.raises(
        InputError, match=r"--mesh 4: net: expected 2 devices, as the module says, got 4; try --mesh 2$"
    ):
        sharded(Exported(EXPLICIT.encode(), (), ""), "4", "net")
    assert (
        groups.device_count(
            mlir.load("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }")
        )
        == 1
    )


def test_words_of_gspmd_are_refused_for_a_compiler_that_does_not_read_them(tmp_path: Path) -> None:
    whole = GSPMD.replace("{devices=[4,1]<=[4]}", "{replicated}")
    shardy = SHARDED.replace("{sdy.sharding", '{mhlo.sharding = "{devices=[2,1]<=[2]}", sdy.sharding')
    for name, text in {"gspmd": GSPMD, "tupled": TUPLED, "whole": whole, "shardy": shardy, "plain": PLAIN}.items():
        (tmp_path / f"{name}.mlir").write_text(text)
    for name, mesh in {"gspmd": "4", "tupled": "8", "whole": None, "shardy": "1x2", "plain": None}.items():
        named = tasks(Preparation((str(tmp_path / f"{name}.mlir"),), cache_dir=str(tmp_path / "cache")))
        options = ResultOptions.of({"mesh": mesh, "arch": "t3000"})
        own_mesh.check(named, options, ["reference"])
        if name not in ("gspmd", "tupled"):
            own_mesh.check(named, options, ["tt"])
            continue
        line = f"--model {name}: expected shardings that tt's compiler reads, by sdy.mesh, got GSPMD's (mhlo.sharding)"
        with pytest.raises(InputError, match=f"^{re.escape(line)}; try an export by Shardy, or --backend reference$"):
            own_mesh.check(named, options, ["reference", "tt"])


def test_tt_takes_a_mesh_that_the_board_has(tmp_path: Path) -> None:
    own = found(tmp_path, SHARDED, backend="tt")
    assert own is not None
    assert own.board == "n300"
    with pytest.raises(InputError, match="expected a mesh of at most 1 devices on n150, got '1x2'; try --arch n300"):
        own_mesh.check([], ResultOptions.of({"mesh": "1x2", "arch": "n150"}), ["tt"])


def test_what_devices_compute_together_is_written_over_a_mesh_by_name() -> None:
    ops = split_module(compiled_local().bytecode).ops.values()
    [joint] = [op for op in ops if op.op_name == "stablehlo.all_reduce"]
    text = str(mlir.load(over_mesh(joint.bytecode, (1, 2))))
    assert 'sdy.mesh @mesh = <["axis0"=2]>' in text
    assert re.search(r"sdy.manual_computation\(%arg0\) .*manual_axes=\{\"axis0\"\}", text)
    assert "replica_groups = dense<[[0, 1]]>" in text

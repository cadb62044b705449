"""tt-mlir's words for what lies on a mesh: cuts, axes of groups, and what is refused of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.base.mesh.placement import placement
from opscope.compiler.commands.compile import opt
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir.on_mesh import cut_of, gspmd_mesh
from opscope.compiler.passes.stablehlo_to_ttir.collective import cluster_axis

MESH = (("x", 2), ("y", 4))
PLACES = {
    "{devices=[2,1,4]<=[8] last_tile_dim_replicate}": ((8, 6), (0, -1), (2, 1)),
    "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}": ((3, 8), (-1, 1), (1, 4)),
    "{devices=[2,4]<=[8]}": ((4, 8), (0, 1), (2, 4)),
    "{devices=[4,2]<=[2,4]T(1,0)}": ((8, 4), (1, 0), (4, 2)),
    "{devices=[8,1]<=[8]}": ((16, 3), (0, 0), (8, 1)),
    "{replicated}": ((5, 2), (-1, -1), (1, 1)),
}


@pytest.mark.parametrize("text", PLACES)
def test_a_placement_is_a_cut_along_the_axes(text: str) -> None:
    shape, dims, parts = PLACES[text]
    cut = cut_of(placement(text, shape, 8), MESH)
    assert (cut.dims, cut.shape) == (dims, parts)


def test_parts_in_another_order_than_the_axes_are_no_cut() -> None:
    with pytest.raises(CompilerInputError, match="expected results cut along the mesh's axes"):
        cut_of(placement("{devices=[8]7,6,5,4,3,2,1,0}", (8,), 8), MESH)


@pytest.mark.parametrize(
    ("texts", "sizes"),
    [
        (["{replicated}", "{devices=[1,8]<=[8]}"], (1, 8)),
        (["{devices=[8,1]<=[8]}", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"], (2, 4)),
        (["{devices=[4,2]<=[2,4]T(1,0)}"], (2, 4)),
        (["{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}"], (2, 4)),
        (["{replicated}", ""], (1, 1)),
    ],
)
def test_shardings_say_the_mesh_they_are_over(texts: list[str], sizes: tuple[int, int]) -> None:
    assert tuple(size for _, size in gspmd_mesh(texts)) == sizes


@pytest.mark.parametrize("other", ["{devices=[4,2]<=[8]}", "{devices=[4]<=[4]}"])
def test_shardings_over_several_meshes_are_refused(other: str) -> None:
    with pytest.raises(CompilerInputError, match="expected shardings over one mesh, got"):
        gspmd_mesh(["{devices=[2,4]<=[8]}", other])


@pytest.mark.parametrize(
    ("groups", "axes", "axis"),
    [
        ([[0, 1, 2, 3], [4, 5, 6, 7]], (2, 4), 1),
        ([[0, 4], [1, 5], [2, 6], [3, 7]], (2, 4), 0),
        ([[0, 1], [2, 3]], (1, 4), None),  # half of a row
        ([[0, 1, 2], [3, -1, -1]], None, None),
        ([[0, 1]], None, 1),
        ([[0], [1]], (2, 1), 1),  # a device alone lies along the axis that has one
        ([[0], [1]], (1, 2), 0),
        ([[0], [1]], None, 0),
        ([[0], [1], [2], [3]], (2, 2), None),
    ],
)
def test_groups_lie_along_an_axis_of_the_mesh(groups: list[list[int]], axes: tuple[int, int], axis: int | None) -> None:
    assert cluster_axis(groups, axes) == axis


SHARDED = """sdy.mesh @{name} = <["x"=2]>
{more}
func.func @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"x"}}]>}}) -> tensor<8xf32> {{
  return %a : tensor<8xf32>
}}"""


def test_two_meshes_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "two.mlir"
    path.write_text(SHARDED.format(name="m", more='sdy.mesh @n = <["x"=4]>'))
    done = CliRunner().invoke(opt, ["--stablehlo-pipeline", "--stablehlo-to-ttir-pipeline", str(path)])
    assert done.exit_code == 2
    assert "expected one sdy.mesh for what is sharded, got 2" in done.output


def test_every_module_of_a_file_is_read_after_one_that_fails(tmp_path: Path) -> None:
    wrong = SHARDED.format(name="m", more="").replace("func.func @main", "func.func @NAME")
    path = tmp_path / "both.mlir"
    good = "func.func @good(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}"
    unread = "func.func @third() {\n  stablehlo.none\n}"
    modules = (wrong.replace("NAME", "first"), good, unread, wrong.replace("NAME", "second"))
    path.write_text("\n// -----\n".join(modules))
    done = CliRunner().invoke(opt, ["--split-input-file", "--stablehlo-to-ttir-pipeline", str(path)])
    assert done.exit_code == 1
    assert "@first" in done.output
    assert "@second" in done.output
    assert 'sym_name = "good"' in done.stdout
    line = 1 + path.read_text()[: path.read_text().index("stablehlo.none")].count("\n")
    assert f'"-":{line}:' in done.output

"""Backend tt: the real tt-mlir, in lanes, on small modules of many types. Needs the extra `tt`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest

from opscope.harness.backends.tt_executable import STAGES
from opscope.harness.tests.acceptance.conftest import Done, Place
from opscope.harness.tests.tt_modules import ROWS, UNSPLITTABLE, Row


def _missing() -> bool:
    try:
        return metadata.version("jax-tt-plugin") == ""
    except metadata.PackageNotFoundError:
        return True


pytestmark = [pytest.mark.slow, pytest.mark.skipif(_missing(), reason="needs jax-tt-plugin: pip install 'opscope[tt]'")]
ABORTS = """func.func @main(%a: tensor<8x6xf32>, %b: tensor<4x3xf32>, %i: tensor<f32>) -> tensor<8x6xf32> {
  %0 = "stablehlo.select_and_scatter"(%a, %b, %i) <{window_dimensions = array<i64: 2, 2>,
    window_strides = array<i64: 2, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<8x6xf32>, tensor<4x3xf32>, tensor<f32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}
"""
"""An op that ends the compiler's process: its start value is an argument."""
GOOD = next(row for row in ROWS if row.name == "bf16_add")


def swept(place: Place, rows: Sequence[tuple[str, str]], *words: str, timeout: float = 600) -> Done:
    """A run of modules, each a file, on backend tt."""
    for name, text in rows:
        (place.folder / f"{name}.mlir").write_text(text)
    models = [word for name, _ in rows for word in ("--model", f"{name}.mlir")]
    return place.run("pytest", *models, "--op-by-op", "--backend", "tt", "--no-report", *words, timeout=timeout)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Done]:
    """One run of all rows by two workers, which all tests of a row look at."""
    place = Place(tmp_path_factory.mktemp("tt"), {**os.environ, "COLUMNS": "120"})
    return place, swept(place, [(row.name, row.text) for row in ROWS], "--reruns", "0", "-n", "2")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_small_module_has_its_verdict(row: Row, done: tuple[Place, Done]) -> None:
    place, run = done
    if row.status == UNSPLITTABLE:
        lines = (place.runs()[-1] / "manifest.jsonl").read_text().splitlines()[1:]
        [op] = [op for op in map(json.loads, lines) if op["uses"][0]["model"] == row.name]
        assert row.says in op["unsplittable"]
        return
    records = [one for one in place.records() if one["model_name"] == row.name]
    assert len(records) == 1, run.out
    record = records[0]
    assert record["status"] == row.status, record["error_message"]
    assert record["failed_stage"] == row.stage
    assert row.says in f"{record['error_message']} {record['narrowed']}"
    if row.status == "success":
        assert record["ran_on"] == "simulator"
        assert record["card_type"] == "sim-n150"
    assert re.fullmatch(r"jax-tt-plugin [\d.]+, libtt\.so sha256 [0-9a-f]{16}", record["compiled_by"])
    stages = ("compile",) if row.status == "compile_failed" else (*STAGES, "run", "compare")
    assert tuple(time["stage"] for time in record["stages"]) == stages


@pytest.mark.parametrize("words", [(), ("--keep-ir",)], ids=["", "with keep-ir"])
def test_an_op_that_aborts_the_compiler_costs_one_op_and_leaves_its_ir(words: tuple[str, ...], place: Place) -> None:
    swept(place, [("aborts", ABORTS), (GOOD.name, GOOD.text)], "--reruns", "0", *words)
    records = {record["model_name"]: record for record in place.records()}
    assert records[GOOD.name]["status"] == "success"
    crash = records["aborts"]
    assert (crash["status"], crash["failed_stage"], crash["crash_kind"]) == (
        "crashed",
        "stablehlo-to-ttir",
        "signal SIGABRT",
    )
    assert "LLVM ERROR: initValue_ must be a stablehlo.constant" in crash["error_message"]
    kept = {path.name for path in (place.runs()[-1] / "artifacts" / crash["op_id"] / "ir-tt").iterdir()}
    assert {"vhlo.mlir", "shlo_compiler.mlir"} <= kept


def test_nothing_is_left_behind(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    temporary = tmp_path_factory.mktemp("temporary")
    (place.folder / "good.mlir").write_text(GOOD.text)
    words = ("pytest", "--model", "good.mlir", "--op-by-op", "--backend", "tt", "--no-report", "-n", "2")
    done = place.run(*words, timeout=600, TMPDIR=str(temporary))
    assert done.code == 0, done.out
    assert not list(temporary.glob("opscope-scratch-*"))
    assert not list(temporary.glob("libtt*"))
    assert {path.name for path in place.folder.iterdir()} == {".opscope", ".pytest_cache", "good.mlir"}


@pytest.mark.parametrize("arch", ["n150", "p150"])
def test_each_executable_is_for_the_board_that_was_asked_for(arch: str, place: Place) -> None:
    rows = [(row.name, row.text) for row in ROWS[:4]]
    swept(place, rows, "--keep-ir", "-n", "2", "--arch", arch)
    chip = {"n150": "wormhole_b0", "p150": "blackhole"}[arch]
    texts = [path.read_text() for path in (place.runs()[-1] / "artifacts").glob("*/ir-tt/ttnn.mlir")]
    assert len(texts) == len(rows)
    for text in texts:
        assert re.findall(r"arch = <(\w+)>", text) == [chip]


SHARDED = """
sdy.mesh @mesh = <["y"=2]>
func.func public @main(
    %x: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>},
    %w: tensor<64x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<8x6xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<8x64xf32>, tensor<64x6xf32>) -> tensor<8x6xf32>
  %1 = stablehlo.add %0, %0 : tensor<8x6xf32>
  return %1 : tensor<8x6xf32>
}
"""


def test_a_sharded_file_runs_over_its_own_mesh(place: Place) -> None:
    done = swept(place, [("sharded", SHARDED)])
    assert "sharded: over its own mesh 2, board n300 (the smallest with 2 chips)" in done.out
    records = {record["op_name"]: record for record in place.records()}
    assert set(records) == {"stablehlo.dot", "stablehlo.all_reduce", "stablehlo.add"}
    assert {(record["status"], record["card_type"]) for record in records.values()} == {("success", "sim-n300")}


@pytest.mark.parametrize("mesh", ["2", "2x4"])
def test_what_devices_compute_together_is_judged_on_each(mesh: str, place: Place) -> None:
    from opscope.harness.tests.prepare.mesh.test_mesh_boards import BOARDS, collectives

    board, chips = next((board, chips) for board, (own, chips) in BOARDS.items() if own == mesh)
    rows = 2 * max(2, chips // 2)
    texts = [
        f"module attributes {{mhlo.num_partitions = {chips} : i32}} {{\n"
        f"func.func @main(%x: tensor<{rows}x6xf32>) -> tensor<{shape}xf32> {{\n"
        f"  %0 = {op} : (tensor<{rows}x6xf32>) -> tensor<{shape}xf32>\n  return %0 : tensor<{shape}xf32>\n}}\n}}"
        for op, shape in collectives(chips)
    ]
    swept(place, [(f"op{number}", text) for number, text in enumerate(texts)], "--mesh", mesh, "--arch", board)
    got = {record["model_name"]: record["status"] for record in place.records()}
    refused = {name for name, status in got.items() if status == "compile_failed"}
    assert refused == ({"op1", "op6"} if chips == 8 else set()), "groups that lie along no axis of the mesh"
    assert {status for name, status in got.items() if name not in refused} == {"success"}, got


def test_one_compiler_stage_after_another_can_be_the_last(place: Place) -> None:
    for stage in ("stablehlo-to-ttir", "ttnn-to-flatbuffer"):
        swept(place, [(GOOD.name, GOOD.text)], "--until", stage)
        [record] = place.records()
        assert (record["status"], record["stage_reached"]) == ("passed", stage)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--backend-option", "foo=1"), "--backend-option: expected an option of tt, got 'foo'"),
        (("--backend-option", "enable_trace=maybe"), "expected enable_trace of true, false, got 'maybe'"),
        (("--backend-option", "optimization_level=7"), "expected --optimization-level, which sets"),
        (("--optimization-level", "1"), "levels 1 and 2 are for Blackhole"),
        (("--system-desc", "nowhere.ttsys"), "--system-desc: expected a file that can be read"),
        (("--system-desc", "bf16_add.mlir"), "--system-desc: expected a system descriptor"),
        (("--arch", "e150"), "--arch: expected an arch that tt-mlir knows"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_impossible_requests_are_refused_in_one_line_before_any_op(
    words: tuple[str, ...], line: str, place: Place
) -> None:
    done = swept(place, [(GOOD.name, GOOD.text)], *words)
    output = done.out + done.err
    assert line in output
    assert "Traceback" not in output
    assert done.code == 2
    assert not [record for run in place.runs() for record in place.records(run)]


def test_a_folder_without_room_is_one_line(place: Place) -> None:
    Path(place.folder, f"{GOOD.name}.mlir").write_text(GOOD.text)
    words = ("pytest", "--model", f"{GOOD.name}.mlir", "--op-by-op", "--backend", "tt", "--no-report")
    done = place.run(*words, TMPDIR="/nowhere/at/all")
    assert "TMPDIR: expected a writable folder" in done.out + done.err
    assert done.code == 2


def test_zeros_of_a_client_that_only_compiles_are_no_results(place: Place, tmp_path: Path) -> None:
    Path(place.folder, f"{GOOD.name}.mlir").write_text(GOOD.text)
    made = place.run("opscope", "device", "system-desc", "n150", "-o", str(tmp_path / "n150.ttsys"))
    assert made.code == 0, made.err
    words = ("pytest", "--model", f"{GOOD.name}.mlir", "--op-by-op", "--backend", "pjrt:tt", "--no-report")
    done = place.run(*words, TT_COMPILE_ONLY_SYSTEM_DESC=str(tmp_path / "n150.ttsys"))
    assert "gives back other values than it was given" in done.out + done.err
    assert done.code == 2
    assert not [record for run in place.runs() for record in place.records(run)]

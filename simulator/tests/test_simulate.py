from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from opscope.compiler import api
from opscope.compiler.commands.plan import plan_command
from opscope.compiler.target.binary import write
from opscope.compiler.target.program import EltwiseParams, MatmulParams, Numerics
from opscope.harness.cli.main import FILES
from opscope.harness.triage.diff_tensors import compare, diff_tensors
from opscope.simulator.commands.simulate import simulate
from opscope.simulator.tests.programs import one_kernel

MODEL = """func.func @main(%a: tensor<40x8xf32>, %b: tensor<40x8xf32>) -> tensor<40x8xf32> {
  %0 = stablehlo.subtract %a, %b : tensor<40x8xf32>
  %1 = stablehlo.log %0 : tensor<40x8xf32>
  %2 = stablehlo.abs %1 : tensor<40x8xf32>
  return %2 : tensor<40x8xf32>
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The model, its binary, and inputs of which one difference is negative: the log makes the NaN."""
    path = tmp_path_factory.mktemp("model")
    (path / "m.mlir").write_text(MODEL)
    a = np.full((40, 8), 3, np.float32)
    b = np.ones((40, 8), np.float32)
    b[33, 7] = 5
    np.savez(path / "in.npz", a, b)
    module = FILES.read(str(path / "m.mlir"), None)
    (path / "m.ttnn").write_bytes(api.compile(module, api.load_board("n150"), api.CompileOptions()))
    return path


def call(command, *words):
    return CliRunner().invoke(command, [str(word) for word in words], obj=FILES)


def test_a_dump_has_every_op_with_its_golden_and_the_origin_of_a_nan(folder, tmp_path):
    dump = tmp_path / "dump"
    words = (folder / "m.ttnn", "--inputs", folder / "in.npz", "--dump", dump, "--golden", folder / "m.mlir")
    done = call(simulate, *words, "--outputs", tmp_path / "out.npz")
    assert done.exit_code == 0, done.output
    assert "result 0: 40x8xf32" in done.output
    assert "limited by launch; cores compute" in done.output
    assert "first NaN: arises in operation 7, log" in done.output
    assert "element (33, 7), 1 in all" in done.output
    index = json.loads((dump / "index.json").read_text())["operations"]
    computed = {
        entry["kernel"]: entry["results"][0] for entry in index if entry["results"] and "golden" in entry["results"][0]
    }
    assert list(computed) == ["subtract", "log", "abs"]
    golden = np.load(dump / computed["log"]["golden"])
    a, b = (np.load(folder / "in.npz")[name] for name in ("arr_0", "arr_1"))
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(golden, np.log(a - b), rtol=1e-6)
    np.testing.assert_allclose(np.load(dump / computed["log"]["file"]), golden, rtol=1e-5)
    last = np.load(dump / index[-1]["results"][0]["file"])
    np.testing.assert_array_equal(last, np.load(tmp_path / "out.npz")["output_0"])
    assert call(diff_tensors, dump, "--above", "1e-4").exit_code == 0


def test_a_fault_shows_in_the_command_and_in_the_difference_of_two_dumps(folder, tmp_path):
    words = (folder / "m.ttnn", "--inputs", folder / "in.npz", "--dump")
    assert call(simulate, *words, tmp_path / "right").exit_code == 0
    # Page 1 holds rows 32 to 39: the lowest exponent bit of element (32, 0), 3 -> 6.
    place = api.load_board("n150").ttnn.dram_unreserved_base + 2
    done = call(simulate, *words, tmp_path / "wrong", "--fault", f"dram-bit@1,{place},7", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert report["changed"] == [1]
    assert "element (32, 0) 3.0 -> 6.0" in report["faults"][0]
    done = call(diff_tensors, tmp_path / "right", tmp_path / "wrong", "--json")
    assert done.exit_code == 1
    first = json.loads(done.output)[0]
    assert (first["name"].split()[1], first["worst"][0]["index"]) == ("to_device", [32, 0])
    assert first["worst"][0]["place"] == "tile (0, 1, 0), face 0, row 0"
    assert "the first is" in call(diff_tensors, tmp_path / "right", tmp_path / "wrong").output


def test_what_does_not_fit_is_refused_before_inputs_are_drawn(tmp_path):
    # 12 GB of DRAM have no room for three times 16 GB, nor has this machine.
    shape = (1 << 16, 1 << 16)
    (tmp_path / "big.ttnn").write_bytes(write(one_kernel("add", EltwiseParams(), [(shape, "f32")] * 2, (shape, "f32"))))
    done = call(simulate, tmp_path / "big.ttnn", "--memory-map", tmp_path / "map")
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    assert "bytes of dram per bank" in done.output
    assert "wanted 1,431,658,496 bytes for tensor 1" in (tmp_path / "map.txt").read_text()
    assert (tmp_path / "map.svg").read_text().startswith("<svg")
    done = call(simulate, tmp_path / "big.ttnn", "--memory-map", tmp_path / "no" / "map")
    assert "expected a place for files" in done.output


def test_random_bits_of_the_packer_are_of_the_seed_and_faults_are_told_from_them(folder, tmp_path):
    binary = write(one_kernel("matmul", MatmulParams(), [((64, 64), "bf16"), ((64, 32), "bf16")], ((64, 32), "bf16")))
    (tmp_path / "p.ttnn").write_bytes(binary)

    def result(*words):
        done = call(simulate, tmp_path / "p.ttnn", "--outputs", tmp_path / "out.npz", *words)
        assert done.exit_code == 0, done.output
        return np.load(tmp_path / "out.npz")["output_0"].tobytes(), done.output

    (plain, _), (first, _), (again, _), (other, _) = (
        result(*words) for words in ((), *(("--stochastic-rounding", seed) for seed in (3, 3, 4)))
    )
    assert plain != first == again != other
    # A fault that hits nothing changes nothing: both runs draw the same bits.
    _, text = result("--stochastic-rounding", 3, "--fault", "dram-bit@11,900000,0")
    assert "0 of 2,048 elements changed" in text
    result("--exact-order")


def test_a_hang_ends_with_1_and_leaves_the_dump(folder, tmp_path):
    done = call(simulate, folder / "m.ttnn", "--dump", tmp_path / "d", "--fault", "dead-core@0-0")
    assert done.exit_code == 1
    assert "hang: " in done.output
    assert [e["kernel"] for e in json.loads((tmp_path / "d" / "index.json").read_text())["operations"]].count(
        "log"
    ) == 0


@pytest.mark.parametrize(
    "words",
    [
        ("m.ttnn", "--fault", "dead-core@8-0"),
        ("m.ttnn", "--fault", "x"),
        ("m.ttnn", "--board", "e150"),
        ("m.ttnn", "--inputs", "m.mlir"),
        ("m.ttnn", "--inputs", "missing.npz"),
        ("m.ttnn", "--golden", "m.mlir"),
        ("m.mlir",),
        ("missing.ttnn",),
        ("m.ttnn", "--dump", "m.mlir"),
        (".",),
        ("m.ttnn", "--outputs", "no/such/folder.npz"),
    ],
)
def test_bad_input_is_one_line_and_2(folder, tmp_path, words, monkeypatch):
    monkeypatch.chdir(folder)
    done = call(simulate, *words)
    assert done.exit_code == 2, done.output
    assert len(done.stderr.strip().splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["in.npz", "m.mlir", "m.ttnn"]


def test_a_golden_of_another_model_is_refused(folder, tmp_path):
    other = tmp_path / "other.mlir"
    other.write_text(MODEL.replace("40x8", "8x40"))
    done = call(simulate, folder / "m.ttnn", "--dump", tmp_path / "d", "--golden", other)
    assert done.exit_code == 2
    assert "--golden: expected the model" in done.stderr


def test_the_worst_difference_comes_first():
    right = np.zeros((2, 40, 40), np.float32)
    left = right.copy()
    left[1, 39, 20], left[0, 1, 2], left[0, 0, 0] = 2.0, -3.0, np.nan
    right[0, 0, 1] = left[0, 0, 1] = np.nan
    report = compare("x", left, right)
    assert [d.index for d in report.worst] == [(0, 0, 0), (0, 1, 2), (1, 39, 20)]
    assert report.worst[2].place == "tile (1, 1, 0), face 1, row 7"
    assert report.differing == 3
    assert report.tiles[0] == ("tile (0, 0, 0)", 2)
    assert compare("x", left, right, above=2.5).differing == 2


@pytest.mark.parametrize(
    "words",
    [
        ("a.npy",),
        ("a.npy", "."),
        ("no.npy", "a.npy"),
        (".", "."),
        ("a.npy", "a.npy", "--type", "bf17"),
        ("a.npy", "a.npy", "--type", "bf16"),
    ],
)
def test_diff_tensors_refuses_what_is_no_tensor(tmp_path, words, monkeypatch):
    from opscope.harness.record.errors import InputError

    np.save(tmp_path / "a.npy", np.ones(3, np.float32))
    monkeypatch.chdir(tmp_path)
    done = call(diff_tensors, *words)
    assert isinstance(done.exception, InputError)


def test_integers_of_64_bits_are_told_apart():
    left = np.array([2**60, 2**60], np.int64)
    assert compare("x", left, left + np.array([0, 1])).differing == 1


def test_an_infinity_of_the_input_is_named_as_such(tmp_path):
    binary = one_kernel("add", EltwiseParams(), [((4, 4), "f32")] * 2, ((4, 4), "f32"))
    (tmp_path / "b.ttnn").write_bytes(write(binary))
    array = np.zeros((4, 4), np.float32)
    array[1, 2] = -np.inf
    np.savez(tmp_path / "in.npz", array, array)
    done = call(simulate, tmp_path / "b.ttnn", "--inputs", tmp_path / "in.npz")
    assert "first Inf: of an input of the program, first read by operation 0, to_device: element (1, 2)" in done.output


def test_bits_of_a_planned_program_lie_where_its_plan_says(folder, tmp_path):
    from opscope.compiler.commands.plan import plan_command
    from opscope.compiler.target.binary import read
    from opscope.compiler.target.system_desc import load_board
    from opscope.simulator.placed import allocate

    planned = tmp_path / "p.ttnn"
    done = call(plan_command, folder / "m.mlir", "--arch", "e150", "-o", planned)
    assert done.exit_code == 0, done.output
    # A plan is made for the figures of its own world.
    done = call(simulate, planned, "--profile", "ttnn")
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    assert "got a plan of 1 ops, which was made for buda" in done.output
    assert call(simulate, planned, "--profile", "buda").exit_code == 0
    binary = read(planned.read_bytes())
    plan, board = binary.plan, load_board("e150")
    (op,) = plan.ops
    number, start = next(
        (n, start) for n, start in enumerate(allocate(op, board, plan.pipe_reserve)) if op.buffers[n].role == "output"
    )
    assert (op.buffers[number].data_format, op.buffers[number].tiles) == ("Float16_b", 2)
    row, col = next(iter(op.cores()))
    # The second tile, of 2048 + 32 bytes, after its header of 16: the sign is the top bit of a datum's second byte.
    fault = f"l1-bit@{row}-{col},{start + 2080 + 16 + 2 * 3 + 1},7"
    np.savez(tmp_path / "in.npz", np.full((1, 40, 8), 3, np.float32), np.ones((1, 40, 8), np.float32))
    done = call(simulate, planned, "--inputs", tmp_path / "in.npz", "--fault", fault, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert "element (0, 32, 3) 0.69140625 -> -0.69140625" in report["faults"][0]  # log(2) in bfloat16
    assert report["changed"] == [1]
    done = call(simulate, planned, "--inputs", tmp_path / "in.npz", "--fault", f"dead-core@{row}-{col}", "--json")
    assert done.exit_code == 1
    assert "hang" in json.loads(done.output)


def test_goldens_that_take_too_long_end_in_one_line(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("opscope.harness.cli.op_goldens.SECONDS", 0.05)
    words = ("--dump", tmp_path / "d", "--golden", folder / "m.mlir")
    done = call(simulate, folder / "m.ttnn", "--inputs", folder / "in.npz", *words)
    assert done.exit_code == 2
    (line,) = done.stderr.strip().splitlines()
    assert "expected XLA to compute" in line
    assert "0.05 s" in line


def test_parameters_of_a_plan_are_drawn_as_a_models_are(tmp_path):
    """Sixteen layers of 64 x 64: drawn with deviation 1, each would make values eight times as large."""
    layers = 16
    lines = [
        f"  %{n} = stablehlo.dot_general %{n - 1 if n > 0 else 'x'}, %w{n}, contracting_dims = [1] x [0] : "
        "(tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>"
        for n in range(layers)
    ]
    arguments = ", ".join(f"%{name}: tensor<64x64xf32>" for name in ("x", *(f"w{n}" for n in range(layers))))
    (tmp_path / "m.mlir").write_text(
        f"func.func @main({arguments}) -> tensor<64x64xf32> {{\n"
        + "\n".join(lines)
        + f"\n  return %{layers - 1} : tensor<64x64xf32>\n}}\n"
    )
    done = call(plan_command, tmp_path / "m.mlir", "--arch", "n150", "-o", tmp_path / "m.ttnn")
    assert done.exit_code == 0, done.output
    assert call(simulate, tmp_path / "m.ttnn", "--outputs", tmp_path / "out.npz").exit_code == 0
    (out,) = np.load(tmp_path / "out.npz").values()
    assert np.std(out) < 10


def test_each_operation_says_how_far_a_cards_cycles_may_be(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    for board, element, known in (("n150", "f32", "4.1 %"), ("e150", "bf16", "64 %")):
        numerics = Numerics(dst_format="Float16_b") if board == "e150" else Numerics()
        tensors = [((4, 4), element)] * 2, ((4, 4), element)
        (tmp_path / board).write_bytes(write(one_kernel("add", EltwiseParams(), *tensors, numerics, board=board)))
        done = call(simulate, tmp_path / board)
        assert done.exit_code == 0, done.output
        assert "+-" in done.output, board
        assert known in done.output, board

"""`opscope judge` on files that other harnesses have stored."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

from opscope.harness.cli.judge import judge_command
from opscope.harness.record.errors import InputError

X = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
TANH = """func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = stablehlo.tanh %x : tensor<32x32xf32>
  return %0 : tensor<32x32xf32>
}"""


def run(*words):
    return CliRunner().invoke(judge_command, [str(word) for word in words], catch_exceptions=False)


def refused(*words):
    with pytest.raises(InputError) as error:
        run(*words)
    return str(error.value)


def test_an_archive_says_its_op_its_attributes_and_its_target(tmp_path):
    power = np.exp(X)
    file = tmp_path / "softmax.npz"
    np.savez(file, op="softmax", attrs=json.dumps({"axis": 0}), in0=X, out0=power / power.sum(0), target="100 ulp")
    done = run(file)
    assert (done.exit_code, done.stdout.splitlines()[0][: len(f"{file}: right, as")]) == (0, f"{file}: right, as")
    assert run(file, "--op", "softmax(axis=1)").exit_code == 1
    assert run(file, "--target", "0.1 ulp").exit_code == 1


def test_a_folder_is_judged_file_by_file_and_the_worst_decides(tmp_path):
    np.savez(tmp_path / "a.npz", op="tanh", in0=X, out0=np.tanh(X))
    np.savez(tmp_path / "b.npz", op="transpose", in0=X, out0=X.T)
    done = run(tmp_path)
    assert done.exit_code == 2
    assert done.stdout.splitlines()[-1] == "2 results: 1 right, 1 undecided"
    np.savez(tmp_path / "c.npz", op="tanh", in0=X, out0=1.1 * np.tanh(X))
    done = run(tmp_path, "--json")
    assert done.exit_code == 1
    assert [entry["answer"] for entry in json.loads(done.stdout)] == ["right", "undecided", "wrong"]


def test_a_file_of_a_folder_that_cannot_be_judged_hides_no_other(tmp_path):
    np.savez(tmp_path / "a.npz", op="tahn", in0=X, out0=np.tanh(X))
    np.savez(tmp_path / "b.npz", op="tanh", hello=X)
    (tmp_path / "c.npz").write_bytes(b"no archive")
    np.savez(tmp_path / "d.npz", op="tanh", in0=X, out0=np.tanh(X), target="2 ulps")
    done = run(tmp_path)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (2, "4 results: 3 undecided, 1 right")
    assert (
        "a.npz: undecided: what: expected an op, a formula, a StableHLO text or a function, got 'tahn'" in done.stdout
    )
    assert "got 'tahn'; try tan, tanh" in refused(tmp_path / "a.npz")
    assert "try in0=x, out0=y" in refused(tmp_path / "b.npz")


def test_arrays_lie_in_files_of_their_own(tmp_path):
    for name, array in {"lhs": X, "rhs": 2 * X, "output": X - 2 * X, "expected": -X}.items():
        np.save(tmp_path / f"{name}.npy", array)
    assert run(tmp_path, "--op", "subtract").exit_code == 0
    assert run(tmp_path, "--op", "add").exit_code == 1
    assert run(tmp_path).exit_code == 0  # by the golden alone


def test_16_bits_come_back_as_bfloat16_from_archives_and_safetensors(tmp_path):
    from safetensors.numpy import save_file

    x = X.astype(ml_dtypes.bfloat16)
    y = np.tanh(x.astype(np.float32)).astype(x.dtype)
    np.savez(tmp_path / "a.npz", in0=x, out0=y)
    save_file({"in0": x, "out0": y}, tmp_path / "b.safetensors", metadata={"op": "tanh"})
    for file in ("a.npz", "b.safetensors"):
        done = run(tmp_path / file, "--op", "tanh", "--target", "0.51 ulp", "--json")
        (entry,) = json.loads(done.stdout)
        assert (done.exit_code, entry["grade"]) == (0, "kernel")
        assert "of all values" not in entry["reason"]
        assert 0 < entry["reach"][0]["share"] < 0.1
    assert run(tmp_path / "a.npz", "--op", "tanh", "--type", "f16").exit_code == 1


def test_a_file_of_stablehlo_is_an_op(tmp_path):
    (tmp_path / "tanh.mlir").write_text(TANH, encoding="utf-8")
    np.savez(tmp_path / "a.npz", x=X, y=np.tanh(X))
    assert run(tmp_path / "a.npz", "--op", tmp_path / "tanh.mlir").exit_code == 0


def test_a_picture_shows_the_error_over_the_inputs(tmp_path):
    np.savez(tmp_path / "a.npz", op="tanh", in0=X, out0=np.where(X > 1, 1.01, 1).astype(np.float32) * np.tanh(X))
    assert run(tmp_path / "a.npz", "--picture", tmp_path / "a.svg").exit_code == 1
    drawn = ElementTree.parse(tmp_path / "a.svg").getroot()
    bars = [each for each in drawn.iter() if each.tag.endswith("rect")]
    tallest = max(bars, key=lambda bar: float(bar.attrib["height"]))
    assert float(tallest.attrib["x"]) > 600  # of the largest inputs
    np.savez(tmp_path / "b.npz", op="softmax", in0=X, out0=X)
    assert run(tmp_path / "b.npz", "--picture", tmp_path / "b.svg").exit_code == 1
    assert "element 0" in (tmp_path / "b.svg").read_text(encoding="utf-8")


def test_formulas_are_listed():
    done = run("--list")
    assert "softmax(axis=-1): 1 operand\n" in done.stdout
    assert "gelu(): 1 operand; tail: x < -3" in done.stdout


def test_what_cannot_be_judged_is_refused_in_one_line(tmp_path):
    np.savez(tmp_path / "none.npz", in0=X, out0=X)
    np.savez(tmp_path / "names.npz", a=X, b=X)
    np.savez(tmp_path / "objects.npz", op="tanh", in0=np.array([{}], object), out0=X)
    np.savez(tmp_path / "attrs.npz", op="softmax", attrs="{", in0=X, out0=X)
    (tmp_path / "model.pt").write_bytes(b"pickle")
    (tmp_path / "text.txt").write_text("no arrays", encoding="utf-8")
    (tmp_path / "broken.npz").write_bytes((tmp_path / "none.npz").read_bytes()[:600])
    (tmp_path / "broken.safetensors").write_bytes(b"\x20\0\0\0\0\0\0\0{")
    (tmp_path / "empty").mkdir()
    for words, said in {
        ("none.npz",): "expected an op's name in it, a golden, or --op",
        ("names.npz", "--op", "tanh"): "expected a result by the name of out0",
        ("objects.npz",): "expected arrays of numbers, got Python objects",
        ("attrs.npz",): "expected a JSON object",
        ("model.pt",): "got a pickle; try numpy.savez",
        ("text.txt",): "expected a .npz or .safetensors file",
        ("broken.npz", "--op", "tanh"): "expected arrays as numpy.save",
        ("broken.safetensors", "--op", "tanh"): "expected a safetensors file",
        ("empty",): "got an empty one",
        ("nothing",): "got nothing",
        ("none.npz", "--op", "tanhh"): "try tanh",
    }.items():
        assert said in refused(tmp_path / words[0], *words[1:])
    assert "expected a file or a folder" in refused()
    for name in ("a.npz", "b.npz"):
        np.savez(tmp_path / "empty" / name, op="tanh", in0=X, out0=X)
    assert "a single result" in refused(tmp_path / "empty", "--picture", tmp_path / "a.svg")

"""Models of the user's where they lie: which file is whose, and that each kind runs as its framework does."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from opscope.base.tests.own_fork_server import own_fork_server
from opscope.harness.engine import model_jobs
from opscope.harness.prepare import user_files
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.record.errors import InputError
from opscope.models import frontends

JAX = """
import numpy as np, jax.numpy as jnp
def model(params, x):
    return jnp.tanh(x @ params["w"])
def other():
    return (lambda x: x * 2), np.ones((2, 4), "f4")
example_inputs = ({"w": np.eye(4, dtype="f4")}, np.arange(8, dtype="f4").reshape(2, 4))
"""

ONE = """
import numpy as np
def forward(x):
    return -x
{second}def example_inputs():
    return np.ones(4, "f4")
"""


def request_for(place: Path, word: str, **options: object) -> Preparation:
    return Preparation((word,), cache_dir=str(place / "cache"), **options)


BROKEN = {
    "torch": "raise RuntimeError('built for another driver')",
    "keras": "raise SystemExit('no backend')",
    "flax": "raise AttributeError('jax has no such attribute')",
    "equinox": "raise OSError('libequinox.so: cannot open')",
    "onnx": "import os; os.abort()",
}
"""A framework -> what its import comes to."""


@pytest.mark.slow
def test_a_broken_framework_harms_only_files_that_use_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "net.py").write_text("import jax.numpy as jnp\nmodel, example_inputs = jnp.tanh, (jnp.ones(3),)\n")
    for name, text in BROKEN.items():
        (tmp_path / "broken" / f"{name}.py").write_text(text + "\n")
        (tmp_path / f"uses_{name}.py").write_text(f"import {name}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    header, rows = model_jobs.prepare(Preparation((f"{tmp_path}/*.py",), cache_dir=str(tmp_path / "cache")))
    assert [row.op_name for row in rows] == ["stablehlo.tanh"]
    said = {failure.model: failure.error for failure in header.failed}
    assert "SIGABRT" in said.pop("uses_onnx")
    assert said == {
        "uses_torch": "RuntimeError: built for another driver (uses_torch.py:1)",
        "uses_keras": "SystemExit: no backend (uses_keras.py:1)",
        "uses_flax": "AttributeError: jax has no such attribute (uses_flax.py:1)",
        "uses_equinox": "OSError: libequinox.so: cannot open (uses_equinox.py:1)",
    }


NEWER = """
class Net:
    __module__ = "torch.nn"
    def __call__(self, x):
        return x
def model():
    return Net(), (1.0,)
def mine():
    import torch
"""
"""What is PyTorch's by its class, so that our code for PyTorch imports it."""


def test_a_framework_newer_than_we_know_is_named_with_the_releases_that_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new" / "torch-2.14.1.dist-info").mkdir(parents=True)
    (tmp_path / "new" / "torch-2.14.1.dist-info" / "METADATA").write_text("Name: torch\nVersion: 2.14.1\n")
    (tmp_path / "new" / "torch.py").write_text("raise AttributeError(\"no attribute 'cholesky'\")\n")
    (tmp_path / "net.py").write_text(NEWER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "new"))
    pair = r"torch>=2\.13,<2\.14 torchax>=0\.0\.13,<0\.0\.14"
    file = str(tmp_path / "net.py")
    with own_fork_server():
        with pytest.raises(
            InputError,
            match=rf"expected {pair}, got torch 2\.14\.1: AttributeError: no attribute 'cholesky'; try pip .*\[torch\]",
        ):
            model_jobs.prepare(request_for(tmp_path, file))
        header, _ = model_jobs.prepare(request_for(tmp_path, f"{file}:mine"))
    [failure] = header.failed
    assert re.fullmatch(rf".*cholesky' \(net.py:9\); torch 2\.14\.1 is not what was run, {pair}", failure.error)


@pytest.mark.slow
def test_a_function_and_its_example_inputs(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(JAX)
    header, rows = model_jobs.prepare(request_for(tmp_path, str(path)))
    assert header.models == ("net",)
    product = next(row for row in rows if row.op_name == "stablehlo.dot_general")
    assert [v.tolist() for v in row_inputs(product, header.export_dirs[0])] == [
        np.arange(8.0).reshape(2, 4).tolist(),
        np.eye(4).tolist(),
    ]
    assert product.frontend.startswith("jax ")
    header, _ = model_jobs.prepare(request_for(tmp_path, f"{path}:other"))
    assert header.models == ("net.other",)


def test_the_only_function_of_a_file_is_its_model_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(ONE.format(second=""))
    header, rows = model_jobs.prepare(request_for(tmp_path, str(path)))
    assert header.models == ("net",)
    assert [row.op_name for row in rows] == ["stablehlo.negate"]
    path.write_text(ONE.format(second="def other(x):\n    return x\n"))
    with pytest.raises(InputError, match=r"expected an object 'model' in the file, got forward, other; try net\.py:f"):
        model_jobs.prepare(request_for(tmp_path, str(path)))


@pytest.mark.parametrize(
    ("word", "text", "line"),
    [
        ("net.py:none", JAX, r"expected an object 'none' in the file, got model, other; try net.py:model"),
        (
            "net.py",
            "def model(x):\n    return x",
            r"expected example inputs of the model, got none; try example_inputs",
        ),
        ("net.py", "model = 3", r"expected a model that can be called, got int from 'model'"),
        (
            "net.py",
            "import no_such_module",
            "expected the modules that the file imports, got no module 'no_such_module'",
        ),
    ],
)
def test_a_file_without_a_model_is_one_line(tmp_path: Path, word: str, text: str, line: str) -> None:
    (tmp_path / "net.py").write_text(text)
    with pytest.raises(InputError, match=line):
        model_jobs.prepare(request_for(tmp_path, str(tmp_path / word)))


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("gone.onnx", "a .onnx file"),
        ("gone.py:model", "a Python file"),
        ("gone.tflite", "a .tflite file"),
        ("folder", "a SavedModel"),
        ("net.onnx:main", "without a name after it"),
    ],
)
def test_a_missing_file_is_refused_in_one_line(tmp_path: Path, word: str, line: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "net.onnx").write_bytes(b"")
    with pytest.raises(InputError, match=f"--model: expected .*{line}"):
        user_files.named(str(tmp_path / word))


def test_each_format_has_its_framework(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.tflite", "c.pb", "d.py"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"")
    words = ("a.onnx", "b.tflite", "c.pb", "d.py", "saved", "saved:serve", "saved/saved_model.pb")
    models = [user_files.named(str(tmp_path / word)) for word in words]
    assert [(f.name, f.framework, f.entry) for f in models if f] == [
        ("a", "onnx", ""),
        ("b", "tflite", ""),
        ("c", "graphdef", ""),
        ("d", "python", ""),
        ("saved", "tf", ""),
        ("saved.serve", "tf", "serve"),
        ("saved", "tf", ""),
    ]
    assert [user_files.named(word) for word in ("resnet50", "suite:ops", "net.mlir", "all")] == [None] * 4


def test_tensors_beside_an_onnx_file_are_part_of_it(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="pip install -e '.[onnx]'")
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2048])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2048])],
        [numpy_helper.from_array(np.zeros(2048, np.float32), "w")],
    )
    onnx.save(helper.make_model(graph), tmp_path / "net.onnx", save_as_external_data=True, location="net.weights")
    file = user_files.named(str(tmp_path / "net.onnx"))
    assert file is not None
    assert tmp_path / "net.weights" in file.files


TORCH = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(144, 5)
    def forward(self, x):
        return self.b(torch.relu(self.a(x)).flatten(1))
def model():
    return Net(), torch.randn(1, 3, 8, 8)
"""
KERAS = """
import keras, numpy as np
def model():
    layers = [keras.layers.Input((6,)), keras.layers.Dense(4, activation="gelu"), keras.layers.LayerNormalization()]
    return keras.Sequential(layers), np.ones((2, 6), "f4")
"""
EQUINOX = """
import equinox, jax, numpy as np
model = equinox.nn.MLP(4, 3, 8, 2, key=jax.random.key(0))
example_inputs = np.ones(4, "f4")
"""
FLAX = """
from flax import nnx
import numpy as np
class Net(nnx.Module):
    def __init__(self, rngs):
        self.a, self.n, self.d = nnx.Linear(4, 8, rngs=rngs), nnx.BatchNorm(8, rngs=rngs), nnx.Dropout(0.1, rngs=rngs)
    def __call__(self, x):
        return self.d(self.n(self.a(x)))
model = Net(nnx.Rngs(0))
example_inputs = {"x": np.ones((3, 4), "f4")}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "text"), [("torchax", TORCH), ("keras", KERAS), ("equinox", EQUINOX), ("flax", FLAX)]
)
def test_modules_of_every_framework(tmp_path: Path, package: str, text: str) -> None:
    if importlib.util.find_spec(package) is None:  # not imported: torchax needs what the frontend does around that
        pytest.skip(f"{package} is not installed")
    (tmp_path / "net.py").write_text(text)
    header, rows = model_jobs.prepare(request_for(tmp_path, str(tmp_path / "net.py")))
    assert header.by_outcome() == {"ran": 1}
    # The weights are the module's own, not drawn.
    assert not [source for row in rows for source in row.sources if source.kind == "seeded"]


OPEN = {
    "net.pb": """
import sys, tensorflow as tf
with tf.Graph().as_default() as graph:
    tf.tanh(tf.compat.v1.placeholder(tf.float32, [None, 16], "x"))
open(sys.argv[1], "wb").write(graph.as_graph_def().SerializeToString())
""",
    "net.onnx": """
import sys, onnx
from onnx import TensorProto, helper
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 16]) for name in "xy")
graph = helper.make_graph([helper.make_node("Tanh", ["x"], ["y"])], "net", [x], [y])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), sys.argv[1])
""",
}
"""A file with an open dimension -> the program that writes it, in a process of its own: the frameworks abort others."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "framework", "shape"), [("net.pb", "graphdef", "x=4"), ("net.onnx", "onnx", "batch=4")]
)
def test_open_dimensions_take_the_sizes_of_shape(tmp_path: Path, name: str, framework: str, shape: str) -> None:
    if missing := frontends.missing(framework):
        pytest.skip(missing)
    subprocess.run([sys.executable, "-c", OPEN[name], str(tmp_path / name)], check=True)
    word = str(tmp_path / name)
    _, rows = model_jobs.prepare(request_for(tmp_path, word, shape=shape))
    assert [row.inputs[0].shape for row in rows if row.op_name == "stablehlo.tanh"] == [(4, 16)]
    with pytest.raises(InputError, match=r"--shape x=4x15: expected sizes of .*, 16\], got \[4, 15\]"):
        model_jobs.prepare(request_for(tmp_path, word, shape="x=4x15"))
    with pytest.raises(InputError, match=r"expected inputs of fixed shape, got 'x' of .*; try --shape "):
        model_jobs.prepare(request_for(tmp_path, word))

"""Users' files of JAX: which inputs are no arguments, and where the arrays of a model are found."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from opscope.base.stablehlo.python_calls import why_not_run
from opscope.models.frontends.base import ExportResult, Refused, Source
from opscope.models.frontends.python import FRONTEND
from opscope.models.tests.test_torch_models import run

NET = """
import enum, functools
import jax, jax.numpy as jnp, numpy as np

class Way(enum.Enum):
    UP = 1

w = {"w": jnp.eye(4) * 2, "steps": jnp.arange(3)}
x = np.arange(4, dtype="f4")
"""


def export(folder: Path, text: str) -> tuple[ExportResult, list[np.ndarray]]:
    path = folder / "net.py"
    path.write_text(NET + text)
    source = Source("net", str(path), "float32")
    built = FRONTEND.build(source)
    result = FRONTEND.export(built, source)
    return result, list(FRONTEND.results(built, source, result.values)[1])


@pytest.mark.parametrize(
    "text",
    [
        "def model(x, train): return x + 1 if train else x * 2\nexample_inputs = (x, False)",
        "def model(n, x, way, f, none): return f(x * n) if way is Way.UP and none is None else x\n"
        "example_inputs = (2, x, Way.UP, jnp.abs, None)",
        "def model(x, how): return x * 2 if how['mode'] == 'mul' else x\n"
        "example_inputs = {'x': x, 'how': {'mode': 'mul', 'k': x}}",
        "def model(x, k): return x * int(k)\nexample_inputs = (x, np.float32(2))\nstatic = {'k'}",
        "def model(x, *, k, train=True): return x if train else x * k\n"
        "example_inputs = (x,)\nstatic = {'k': 2, 'train': False}",
    ],
)
def test_what_is_no_array_stays_what_it_is(tmp_path: Path, text: str) -> None:
    result, [own] = export(tmp_path, text)
    assert [spec.name for spec in result.arguments if spec.name != "how.k"] == ["x"]
    np.testing.assert_array_equal(own, [0, 2, 4, 6])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("model = functools.partial(lambda p, x: p['w'] @ x, w)", "args.0.w"),
        ("model = functools.partial(lambda x, *, p: p['w'] @ x, p=w)", "p.w"),
        ("model = lambda x: w['w'] @ x", "w.w"),
        ("model = jax.jit(lambda x: w['w'] @ x)", "w.w"),
        ("def make(p):\n    return lambda x: p['w'] @ x\nmodel = make(w)", "p.w"),
        (
            "class Net:\n    def __init__(self): self.w = w['w']\n    def run(self, x): return self.w @ x\n"
            "jax.tree_util.register_pytree_with_keys(Net,\n"
            "    lambda n: ([(jax.tree_util.GetAttrKey('w'), n.w)], None), lambda _, c: _net(*c))\n"
            "def _net(c):\n    net = object.__new__(Net)\n    net.w = c\n    return net\n"
            "model = Net().run",
            "w",
        ),
    ],
)
def test_arrays_are_arguments_wherever_the_model_holds_them(tmp_path: Path, text: str, name: str) -> None:
    result, [own] = export(tmp_path, f"{text}\nexample_inputs = (x,)")
    assert [(spec.name, spec.role) for spec in result.arguments] == [(name, "parameter"), ("x", "input")]
    assert not result.notes
    np.testing.assert_array_equal(own, [0, 2, 4, 6])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "def model(x, k): return x * 2 if k else x\nexample_inputs = (x, np.bool_(True))",
            r"expected Python decisions that need no array, got TracerBoolConversionError.*\(net.py:\d+\); try static",
        ),
        (
            "def model(x): return x\nexample_inputs = (x,)\nstatic = {'y'}",
            r"static: expected names of inputs \(x\), got y",
        ),
        ("def model(x): return x\nexample_inputs = (x,)\nstatic = {'x': 1}", "got x in both"),
    ],
)
def test_what_cannot_be_static_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(Refused, match=line):
        export(tmp_path, text)


def test_functions_that_name_one_another_are_no_endless_search(tmp_path: Path) -> None:
    functions = "table = {}\ndef f(x): return table['g'](x)\ndef g(x): return x * 2 if len(table) else f(x)\n"
    result, [own] = export(tmp_path, f"{functions}table |= {{'f': f, 'g': g}}\nmodel = f\nexample_inputs = (x,)")
    assert [spec.name for spec in result.arguments] == ["x"]
    np.testing.assert_array_equal(own, [0, 2, 4, 6])
    for library in ("jnp.tanh", "jax.nn.gelu", "jax.nn.softmax"):
        result, _ = export(tmp_path, f"model = {library}\nexample_inputs = (x,)")
        assert len(result.arguments) == 1, library


def test_large_constants_are_said(tmp_path: Path) -> None:
    table = "table = np.arange(1 << 19, dtype='f4')\ndef model(x): return table[:4] * x + jnp.asarray(table).sum()"
    result, _ = export(tmp_path, f"{table}\nexample_inputs = (x,)")
    [note] = result.notes
    assert note.startswith(
        "2.0 MiB of arrays are constants of the program and no arguments, the largest tensor<524288xf32>"
    )


EQUINOX = """
import equinox as eqx
class Net(eqx.Module):
    weight: jax.Array
    steps: jax.Array
    drop: eqx.nn.Dropout
    name: str = "net"
    deep: bool = True
    def __call__(self, x, train=False):
        return self.drop(jnp.tanh(x) if train else self.weight @ x)
    def encode(self, x):
        return self.weight @ x if self.deep else x
net = Net(jnp.eye(4) * 2, jnp.arange(3), eqx.nn.Dropout(0.5))
"""
FLAX = """
from flax import nnx
class Net(nnx.Module):
    def __init__(self, rngs):
        self.weight = nnx.Param(jnp.eye(4) * 2)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.deep = True
    def __call__(self, x, train=False):
        return self.drop(jnp.tanh(x) if train else self.weight[...] @ x)
    def encode(self, x):
        return self.drop(self.weight[...] @ x) if self.deep else x
net = Net(nnx.Rngs(0))
"""
HELD = ["net", "functools.partial(net, train=False)", "net.encode", "lambda x: net.encode(x)"]


@pytest.mark.parametrize("model", [*HELD, "eqx.Partial(net, train=False)", "eqx.nn.inference_mode(net)"])
def test_modules_of_equinox_are_looked_through(tmp_path: Path, model: str) -> None:
    pytest.importorskip("equinox")
    result, [own] = export(tmp_path, f"{EQUINOX}\nmodel = {model}\nexample_inputs = (x,)")
    first = next(spec for spec in result.arguments if spec.role == "parameter")
    assert first.name.rpartition(".")[2] == "weight"
    np.testing.assert_array_equal(own, [0, 2, 4, 6])


@pytest.mark.parametrize("model", [*HELD, "nnx.eval_shape(lambda: Net(nnx.Rngs(0)))"])
def test_modules_of_flax_are_looked_through(tmp_path: Path, model: str) -> None:
    pytest.importorskip("flax")
    path = tmp_path / "net.py"
    path.write_text(f"{NET}{FLAX}\nmodel = {model}\nexample_inputs = (x,)")
    source = Source("net", str(path), "float32")
    built = FRONTEND.build(source)
    result = FRONTEND.export(built, source)
    [weight] = [spec.name for spec in result.arguments if spec.role == "parameter"]
    assert weight.rpartition(".")[2] == "weight"
    values = {weight: np.eye(4, dtype="f4") * 2, **result.values}
    np.testing.assert_array_equal(FRONTEND.results(built, source, values)[1][0], [0, 2, 4, 6])


def test_an_error_check_of_equinox_is_never_run_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("equinox")
    text = "import equinox as eqx\ndef model(x): return eqx.error_if(x, x.sum() > 99, 'too large') * 2\n"
    result, [own] = export(tmp_path, f"{text}example_inputs = (x,)")
    assert not why_not_run(result.bytecode)
    assert "EQX_ON_ERROR=nan" in result.notes[-1]
    np.testing.assert_array_equal(own, [0, 2, 4, 6])


TORCH = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(4) * 2)
    def forward(self, x, mask=None, train=True):
        return torch.tanh(x) if train or mask is not None else self.weight @ x
    def encode(self, x):
        return self.weight @ x
    def by_forward(self, x):
        return self.forward(x, train=False)
    def by_call(self, x):
        return self(self.encode(x), train=False) / 2
net = Net()
y = torch.arange(4.0)
"""


@pytest.mark.parametrize(
    "text",
    [
        "model = net\nexample_inputs = (y, None, False)",
        "model = net\nexample_inputs = (y,)\nstatic = {'train': False}",
        "model = functools.partial(net, train=False)\nexample_inputs = (y,)",
        "model = net.encode\nexample_inputs = (y,)",
        "model = net.by_forward\nexample_inputs = (y,)",
        "model = functools.partial(net.by_call)\nexample_inputs = (y,)",
        "model = torch.compile(net, backend='eager')\nexample_inputs = (y, None, False)",
        "model = torch.export.export(net, (y,), {'train': False})\nexample_inputs = (y,)\nstatic = {'train': False}",
        "model = lambda x: net.encode(x)\nexample_inputs = (y,)",
        "def inner(x): return net(x, train=False)\ndef model(x): return inner(x)\nexample_inputs = (y,)",
    ],
)
def test_modules_of_torch_are_looked_through(tmp_path: Path, text: str) -> None:
    if any(find_spec(name) is None for name in ("torch", "torchax")):
        pytest.skip("without PyTorch")
    result, [own] = export(tmp_path, f"{TORCH}{text}")
    named = "net.weight" if text.startswith(("model = lambda", "def")) else "weight"
    assert [spec.name for spec in result.arguments] == [named, "x"]
    np.testing.assert_array_equal(own, [0, 2, 4, 6])


@pytest.mark.parametrize(
    "text",
    [
        "def model(levels, how): return levels[0] * how['k'] + levels[1][how['at']]\n"
        "example_inputs = ([y, (torch.zeros(4), torch.ones(4))], {'k': torch.tensor(2.0), 'at': 0})",
        "class Head(Net):\n"
        "    def forward(self, levels, image=None): return super().forward(levels[0], train=False) + levels[1]\n"
        "model = Head()\nexample_inputs = {'image': None, 'levels': [y, torch.zeros(4)]}",
    ],
)
def test_trees_of_tensors_are_inputs(tmp_path: Path, text: str) -> None:
    if any(find_spec(name) is None for name in ("torch", "torchax")):
        pytest.skip("without PyTorch")
    result, [own] = export(tmp_path, f"{TORCH}{text}")
    assert {"levels.0"} <= {spec.name for spec in result.arguments if spec.role == "input"}
    np.testing.assert_array_equal(own, [0, 2, 4, 6])


@pytest.mark.parametrize("text", ["model = torch.relu", "def model(x): return torch.clamp(x, 0) * torch.ones(4)"])
def test_a_function_of_torch_is_a_model(tmp_path: Path, text: str) -> None:
    if any(find_spec(name) is None for name in ("torch", "torchax")):
        pytest.skip("without PyTorch")
    result, [own] = export(tmp_path, f"import torch\n{text}\nexample_inputs = (torch.arange(4.0) - 1,)")
    assert [spec.role for spec in result.arguments] == ["input"]
    np.testing.assert_array_equal(own, [0, 0, 1, 2])


KERAS = """
import keras
class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(4, kernel_initializer=keras.initializers.Identity(2.0))
    def call(self, x, training=False):
        return x if training else self.dense(x)
    def encode(self, x):
        return self(x)
net = Net()
y = np.arange(4.0, dtype="float32")[None]
example_inputs = (y,)
"""


@pytest.mark.parametrize("model", ["net", "net.encode", "functools.partial(net, training=False)", "lambda x: net(x)"])
def test_models_of_keras_are_looked_through(tmp_path: Path, model: str) -> None:
    """One that was never called too, which has no variables yet."""
    path = tmp_path / "net.py"
    path.write_text(f"{NET}{KERAS}model = {model}\n")
    if find_spec("keras") is None:
        pytest.skip("without Keras")
    program = (
        "from opscope.models.frontends.base import Source; from opscope.models.frontends.python import FRONTEND as f; "
        f"s = Source('net', {str(path)!r}, 'float32'); b = f.build(s); r = f.export(b, s); "
        "print([a.role for a in r.arguments], f.results(b, s, r.values)[1][0].tolist())"
    )
    said = run([sys.executable, "-P", "-c", program], tmp_path, more={"KERAS_BACKEND": "jax"})
    assert said.splitlines()[-1] == "['parameter', 'parameter', 'input'] [[0.0, 2.0, 4.0, 6.0]]"

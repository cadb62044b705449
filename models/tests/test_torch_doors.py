"""Which door a model of PyTorch takes, and what torch-mlir's makes of it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from opscope.models import frontends
from opscope.models.frontends import torch_doors
from opscope.models.frontends.base import Refused, Source
from opscope.models.frontends.python import FRONTEND as PYTHON
from opscope.models.frontends.torch import FRONTEND, TorchBuilt

BOUNDS = {
    "torch": {"torch": [">=2.13", "<2.14"], "torchax": [">=0.0.13", "<0.0.14"]},
    "torchmlir": {"torch": [">=2.13", "<2.15"], "torch-mlir": [">=20261001"]},
}
MLIR = {"torch-mlir": "20261001"}
AX = {"torchax": "0.0.13"}


def have(monkeypatch: pytest.MonkeyPatch, **releases: str) -> None:
    """These packages are installed, and no other."""
    found = {name.replace("_", "-"): release for name, release in releases.items()}
    monkeypatch.setattr(frontends, "_bounds", lambda _folders: BOUNDS)
    monkeypatch.setattr(frontends, "installed", lambda package: found.get(package, ""))


@pytest.mark.parametrize(
    ("torch", "others", "door"),
    [
        ("2.13.0+cpu", AX | MLIR, "torchax"),
        ("2.13.0", MLIR, "torch-mlir"),
        ("2.14.1", AX | MLIR, "torch-mlir"),
        ("2.14.1", AX, "torchax"),  # whose failure then names the pair that works
        ("2.15.0", AX | MLIR, "torchax"),
    ],
)
def test_the_first_door_that_is_made_for_the_installed_torch(
    monkeypatch: pytest.MonkeyPatch, torch: str, others: dict[str, str], door: str
) -> None:
    have(monkeypatch, torch=torch, **others)
    assert torch_doors.door("") == door
    assert torch_doors.door("torch-mlir" if door == "torch-mlir" else "torchax" if torch < "2.14" else "") == door


@pytest.mark.parametrize(
    ("torch", "others", "asked", "line"),
    [
        (
            "2.14.1",
            AX | MLIR,
            "torchax",
            r"expected torch>=2\.13,<2\.14 .*, got torch 2\.14\.1; try --torch-by torch-mlir",
        ),
        ("2.14.1", AX, "torch-mlir", r"expected torch>=2\.13,<2\.15 .*, got no torch-mlir; try pip .*\[torchmlir\]"),
        ("2.15.0", AX | MLIR, "torch-mlir", r"got torch 2\.15\.0; try pip .*\[torchmlir\]"),
        ("2.13.0", {}, "", "expected torchax or torch-mlir, got neither; try pip"),
    ],
)
def test_a_door_that_is_not_usable_names_what_is(
    monkeypatch: pytest.MonkeyPatch, torch: str, others: dict[str, str], asked: str, line: str
) -> None:
    have(monkeypatch, torch=torch, **others)
    with pytest.raises(Refused, match=line):
        torch_doors.door(asked)


def test_what_was_not_run_is_named_unless_another_door_was_run_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(__file__)
    monkeypatch.setattr(frontends, "version", lambda package: {"torch": "2.14.1"}.get(package, "0"))
    have(monkeypatch, torch="2.14.1", **AX)
    beyond = frontends.beyond_bounds("torch", file)
    assert beyond is not None
    assert (beyond.installed, beyond.run) == ("torch 2.14.1", "torch>=2.13,<2.14 torchax>=0.0.13,<0.0.14")
    have(monkeypatch, torch="2.14.1", **AX, **MLIR)
    assert frontends.beyond_bounds("torch", file) is None


def test_the_door_is_for_models_of_pytorch_and_for_no_training_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(
        "import jax.numpy as jnp\ndef model(x):\n    return x\nexample_inputs = (jnp.ones(3),)\n"
    )
    source = Source("net", str(tmp_path / "net.py"), "float32", torch_by="torch-mlir")
    with pytest.raises(Refused, match=r"--torch-by torch-mlir: expected a model of PyTorch, got one of jax"):
        PYTHON.build(source)
    have(monkeypatch, torch="2.14.1", **MLIR)
    with pytest.raises(Refused, match=r"--training: .*try --torch-by torchax"):
        FRONTEND.export(TorchBuilt(lambda: pytest.fail("made"), ()), Source("net", "net.py", "float32", training=True))


NET = """
import sys, numpy as np, torch
from jax.extend.mlir import ir
from jax.interpreters import mlir
from opscope.harness.prepare.golden import compile_module
from opscope.models.arguments import ArgSpec
from opscope.models.frontends import torch_eager, torch_export, torch_modules
from opscope.models.frontends.torch import TorchBuilt
from opscope.models.frontends.torch_mlir_text import NotLowered

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(7, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("places", torch.arange(12.0).reshape(3, 4), persistent=False)

    def forward(self, ids, mask=None, *, scale=1.0):
        x = self.norm((self.words(ids) + self.places).transpose(1, 2)).transpose(1, 2)
        x = torch.nn.functional.scaled_dot_product_attention(x, x, x) * scale
        return {"top": torch.topk(self.head(x), 2).values, "sum": x.sum(-1) * mask}

inputs = (ArgSpec("ids", (2, 3), "int32", "", "input"), ArgSpec("mask", (2, 3), "bfloat16", "", "input"))
built = TorchBuilt(Net, inputs, keywords={"scale": 0.5})
module = torch_modules.without_memory(Net, "float32")
weights, names = torch_modules.parameter_specs(module, {})
assert [w.name for w in weights][::2] == ["words.weight", "norm.bias", "norm.running_var"] and len(weights) == 5
code = torch_export.lower(module, built, weights, names)
assert len(code) < 20_000
with mlir.make_ir_context():
    text = str(ir.Module.parse(code))
assert "f64" not in text and "arith" not in text, "Python's numbers are of the type that they are used in"
rng = np.random.default_rng(0)
values = {w.name: rng.uniform(0.5, 1, w.shape).astype(w.dtype) for w in weights}
import ml_dtypes
values |= {"ids": np.array([[0, 6, 2], [3, 3, 5]], np.int32), "mask": np.ones((2, 3), ml_dtypes.bfloat16)}
got = compile_module(code)([values[s.name] for s in (*weights, *inputs)])
_, want = torch_eager.results(torch_modules.Called(module, built), ["ids", "mask"], dict(zip(values, names)), values)
for a, b in zip(got, want, strict=True):
    np.testing.assert_allclose(np.asarray(a, np.float32), b, rtol=1e-5, atol=1e-5)
assert np.std(want[0]) > 0.01

class Bessel(torch.nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)

class Branches(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v * 2, (x,))

class Windows(torch.nn.Module):
    def forward(self, x):
        return x.unfold(0, 2, 1)

REFUSED = {
    Bessel(): "bessel_j0",
    Windows(): "failed to legalize torch.aten.unfold",
    Branches(): "torch-mlir's importer: NotImplementedError: ",
}
for net, said in REFUSED.items():
    other = TorchBuilt(type(net), (ArgSpec("x", (3,), "float32", "", "input"),), positional=True)
    try:
        torch_export.lower(net, other, [], [])
    except NotLowered as error:
        assert said in str(error), error
    else:
        raise AssertionError("lowered")
"""


@pytest.mark.skipif(
    not (find_spec("torch") and find_spec("torch_mlir")), reason="torch and torch-mlir: pip install -e '.[torchmlir]'"
)
def test_torch_mlir_lowers_a_module_with_its_weights_as_arguments(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", NET], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]

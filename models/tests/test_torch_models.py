"""PyTorch models: what is exported computes what PyTorch itself computes with the same seeded weights."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from opscope.base.children.call import call
from opscope.models import frontends, registry

pytestmark = pytest.mark.slow

MODELS = [n for n in registry.names() if registry.get(n).framework == "torch" and not registry.get(n).giant]
needs_torch = pytest.mark.skipif(bool(frontends.missing("torch")), reason=frontends.missing("torch"))

EAGER = """
import json, sys, numpy as np, torch
from opscope.models import registry
from opscope.models.frontends import torch_modules
from opscope.models.seeding import draw

name, out = sys.argv[1:]
built = registry.get(name).build("float32")
specs, _ = torch_modules.parameter_specs(torch_modules.without_memory(built.make, "float32"), built.laws)
module = built.make().eval()
state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
with torch.no_grad():
    for index, spec in enumerate(specs):
        state[spec.name].copy_(torch.from_numpy(draw(spec.law, spec.shape, spec.dtype, 0, index)))
    drawn = [draw(spec.law, spec.shape, spec.dtype, 0, len(specs) + i) for i, spec in enumerate(built.inputs)]
    inputs = [torch.from_numpy(a.astype(a.dtype.name.replace("int32", "int64"))) for a in drawn]
    results = torch_modules.call_module(module, built, inputs)
np.savez(out, *[r.numpy() for r in results])
"""


def exported(name: str, folder: Path) -> Path:
    """The folder that the exporter's process hands over."""
    model = registry.get(name)
    task = {"framework": model.framework, "name": name, "path": str(model.path), "dtype": "float32"}
    outcome = call(
        "opscope.models.frontends.child:export",
        {**task, "folder": str(folder)},
        environment=frontends.get(model.framework).environment,
    )
    assert outcome.ending.ok, outcome.log.tail()
    return folder


def run(command: list[str], folder: Path, text: str = "", more: Mapping[str, str] | None = None) -> str:
    environment = {**os.environ, "PYTHONPATH": str(registry.ROOT.parent), "JAX_PLATFORMS": "cpu", **(more or {})}
    done = subprocess.run(command, input=text, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@needs_torch
@pytest.mark.parametrize("name", MODELS)
def test_the_export_computes_what_torch_computes(name: str, tmp_path: Path) -> None:
    from opscope.harness.prepare import golden
    from opscope.models.frontends import child
    from opscope.models.seeding import draw

    result = child.read(exported(name, tmp_path))
    run([sys.executable, "-P", "-c", EAGER, name, str(tmp_path / "eager.npz")], tmp_path)
    expected = list(np.load(tmp_path / "eager.npz").values())
    executable = golden.compile_module(result.bytecode)
    values = [draw(s.law, s.shape, s.dtype, 0, i) for i, s in enumerate(result.arguments)]
    got = executable(values)
    assert [g.shape for g in got] == [e.shape for e in expected]
    # Other inputs, same weights.
    others = [
        draw(s.law, s.shape, s.dtype, 1, i) if s.role == "input" else v
        for i, (s, v) in enumerate(zip(result.arguments, values, strict=True))
    ]
    moved = executable(others)
    for ours, theirs, elsewhere in zip(got, expected, moved, strict=True):
        assert np.isfinite(ours).all()
        scale = np.abs(theirs).max()
        assert 1e-3 < scale < 1e6
        assert ours.std() > 1e-3 * scale, "a constant result would hide every error"
        assert np.abs(ours - elsewhere).max() > 1e-3 * scale, "the result does not depend on the input"
        assert np.abs(ours - theirs).max() <= 1e-4 * scale


PLAIN = """
import numpy as np, torch
from opscope.models.arguments import ArgSpec
from opscope.models.frontends import torch_trace
from opscope.models.frontends.torch import TorchBuilt
import jax

POSITIONS = torch.arange(5)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.tensor([1.0, 2.0, 3.0, 4.0])  # no buffer

    def forward(self, x):
        n = x.shape[0]
        filled = torch.zeros(n, 4)
        for i in torch.arange(n):
            filled[i] = x[int(i)] * torch.tensor(2.0)
        filled[:, 1] += x[:, 0]
        hidden = ~torch.tril(torch.ones(n, n)).bool()
        weights = torch.softmax((x @ x.T).masked_fill(hidden, float("-inf")), -1)
        rates = torch.linspace(0, 1, n).tolist()
        kept = torch.arange(4.0)
        moved = x + kept
        kept[0] = 9.0  # PyTorch's alone, after it was read
        return (filled * self.scale, weights[torch.arange(n).flip(0)], x * rates[1] + POSITIONS[:n, None].float(),
                torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), moved, x.bfloat16() * torch.tensor(0.5))

class Makes(torch.nn.Module):
    def forward(self, x):
        d = x.device
        with torch.device(d):
            triangular = torch.bartlett_window(4)
        return (x * torch.hann_window(4, device=d), x * torch.kaiser_window(4, False, device=d), x * triangular,
                x * torch.fft.fftfreq(4, device=d), x * torch.asarray([1.0, 2.0, 3.0, 4.0], device=d),
                torch.hamming_window(4, dtype=torch.bfloat16, device=d), torch.triu_indices(3, 3, device=d))

class Types(torch.nn.Module):
    def forward(self, x):
        grid = torch.arange(4).type(x.type())
        return (x + grid, x.type("torch.BFloat16Tensor"), x.type(torch.IntTensor), x[1:].type(torch.float16),
                torch.ones(2) * (len(x.type()) + len(x.bfloat16().type())), x.reshape(4, 3).type_as(grid))

class Writes(torch.nn.Module):
    def forward(self, x):
        kept = torch.arange(4.0)
        kept[0] = x[0, 0]
        return x + kept

def traced(module, x):
    built = TorchBuilt(lambda: module, (ArgSpec("x", x.shape, "float32", "", "input"),), positional=True)
    call = torch_trace.by_trace(module, built)
    return jax.jit(lambda value: call({}, [value]))(x)

x = np.random.default_rng(0).standard_normal((3, 4), np.float32)
results = [zip(traced(net, x), net(torch.from_numpy(x)), strict=True) for net in (Net(), Makes(), Types())]
for ours, theirs in [pair for pairs in results for pair in pairs]:
    theirs = theirs.to(torch.int32) if theirs.dtype is torch.int64 else theirs
    assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch."), (ours.dtype, theirs.dtype)
    assert np.allclose(np.asarray(ours, np.float32), theirs.float().numpy(), rtol=1e-5), (ours, theirs)
try:
    traced(Writes(), x)
except TypeError as error:
    print(error)
"""


@pytest.mark.skipif(find_spec("torchax") is None, reason="torchax is not installed")
def test_tensors_that_forward_makes_meet_the_traced_ones(tmp_path: Path) -> None:
    said = run([sys.executable, "-P", "-c", PLAIN], tmp_path)
    assert said.startswith("aten.copy_: expected a tensor of the inputs' device to write into")

"""Ops as calls of PyTorch: they compute what XLA does, run as they are and compiled by TorchInductor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.harness.backends import registry
from opscope.harness.backends.base import Declined, Job, StageError
from opscope.harness.prepare import golden
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage
from opscope.harness.tests.backends.single_ops import MORE, OPS, REDUCE, module, values

pytest.importorskip("torch")
import torch

from opscope.harness.backends.translated import torch_calls

ALL = OPS | MORE


@pytest.mark.parametrize("words", ALL.values(), ids=ALL)
def test_pytorch_computes_what_xla_does(words: tuple[str, str, str]) -> None:
    bytecode = module(*words)
    arrays = values(bytecode)
    [wanted] = golden.compile_module(bytecode)(arrays)
    call, _ = torch_calls.call_of(bytecode)
    got = torch_calls.to_numpy(*call(*map(torch_calls.to_torch, arrays)))
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(got.astype(float), wanted.astype(float), rtol=1e-6, atol=1e-6)


def test_the_sign_of_no_number_is_none() -> None:
    numbers = np.array([np.nan, -0.0, 0.0, -3.0, np.inf, -np.inf], np.float32)
    bytecode = module("stablehlo.sign %a0 :", "6xf32", "6xf32")
    call, _ = torch_calls.call_of(bytecode)
    [wanted] = golden.compile_module(bytecode)([numbers])
    assert torch_calls.to_numpy(*call(torch_calls.to_torch(numbers))).tobytes() == wanted.tobytes()
    assert torch.sign(torch.tensor(np.nan)) == 0  # which is why it is not asked for it


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("stablehlo.cbrt %a0 :", "4xf32", "4xf32"), "no function of PyTorch computes stablehlo.cbrt"),
        (("stablehlo.add %a0, %a1 :", "4xui32 4xui32", "4xui32"), "no call of PyTorch takes tensors of ui32"),
        (("stablehlo.shift_right_logical %a0, %a1 :", "4xi8 4xi8", "4xi8"), "with their sign alone"),
        ((REDUCE.format(kind="or"), "2x3x4xi32", "3xi32", "0"), "PyTorch reduces by sum"),
    ],
)
def test_what_pytorch_cannot_say_is_declined(words: tuple[str, ...], reason: str) -> None:
    backend, job = registry.load("inductor"), Job("op", module(*words), [], ResultOptions())
    with pytest.raises(Declined, match=reason):
        backend.climb(backend.stages[0], job)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # PyTorch's own
def test_inductor_compiles_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TORCHINDUCTOR_COMPILE_THREADS", raising=False)
    backend = registry.load("inductor")
    assert backend.available() is None
    assert backend.fingerprint(ResultOptions()).startswith(f"inductor-{torch.__version__} g++ ")
    backend.warm_up(ResultOptions())
    for name in ("product", "a constant", "bf16", "counting"):
        bytecode = module(*ALL[name])
        job = Job("op", bytecode, [], ResultOptions(), ir_dir=tmp_path)
        for stage in backend.stages:
            job.inputs = values(bytecode) if stage is Stage.RUN else []
            backend.climb(stage, job)
        [wanted] = golden.compile_module(bytecode)(values(bytecode))
        np.testing.assert_allclose(job.outputs[0].astype(float), wanted.astype(float), rtol=1e-6)
        assert job.ran_on == "host"
        assert job.run_ns
        assert "aten" in (tmp_path / "dynamo.txt").read_text()
        assert "async_compile" in (tmp_path / "inductor.txt").read_text()
    assert [*(tmp_path / "cache").iterdir()]
    kind = "4xcomplex<f32>"
    refused = Job("op", module("stablehlo.maximum %a0, %a1 :", f"{kind} {kind}", kind), [], ResultOptions())
    refused.inputs = [np.ones(4, np.complex64)] * 2
    backend.climb(backend.stages[0], refused)
    backend.climb(backend.stages[1], refused)
    with pytest.raises(StageError, match=r"maximum.* not implemented"):
        backend.climb(Stage.RUN, refused)

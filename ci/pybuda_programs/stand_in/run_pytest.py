"""Runs a test file of TT-Buda's as a program: `python -m opscope.pybuda run_pytest.py ARGUMENT...`."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def download_model(load: Any, *args: Any, **options: Any) -> Any:
    """What the tests' own helper does when nothing has to be tried again."""
    return load(*args, **{key: value for key, value in options.items() if key == "config"})


def compare_tensor_to_golden(name: str, golden: Any, calculated: Any, **options: Any) -> bool:
    """What the compiler's own helper does: whether two tensors go together, PCC 0.99 at least."""
    pairs = [np.asarray(tensor, np.float64).ravel() for tensor in (golden, calculated)]
    return bool(np.allclose(*pairs, rtol=0.05, atol=0.05) or np.corrcoef(*pairs)[0, 1] >= 0.99)


class Given:
    """What conftest files of TT-Buda's tests give: each case begins with no device and no option, and infers."""

    @pytest.fixture(autouse=True)
    def _fresh(self) -> Any:
        import pybuda

        pybuda.pybuda_reset()
        yield
        pybuda.pybuda_reset()

    @pytest.fixture
    def test_kind(self) -> Any:
        """Inference."""
        import pybuda

        return pybuda.verify.config.TestKind.INFERENCE

    @pytest.fixture
    def test_device(self) -> Any:
        """A card."""
        import pybuda

        return types.SimpleNamespace(arch=pybuda.BackendDevice.Wormhole_B0, devtype=pybuda.BackendType.Silicon)


class OfTheCompiler:
    """A name that programs do not use, so that a test can be imported; a case that calls it stops."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        return OfTheCompiler(f"{self.name}.{name}")


HELPERS: dict[str, dict[str, Any]] = {
    "test": {},
    "test.utils": {"download_model": download_model},
    "test.tvm": {},
    "test.tvm.utils": {"evaluate_framework_vs_pybuda": None},
    "pybuda.op.eval": {"compare_tensor_to_golden": compare_tensor_to_golden},
    "pybuda.op.eval.common": {"compare_tensor_to_golden": compare_tensor_to_golden},
}
"""Modules beside the tests, and of the compiler's inside, with what of them is used."""
tests = next(folder for folder in Path(sys.argv[-1]).parents if folder.name == "test")
for name, names in HELPERS.items():
    module = types.ModuleType(name)
    module.__path__ = [str(tests.joinpath(*name.split(".")[1:]))] if name.startswith("test") else []
    vars(module).update(names)
    sys.modules[name] = module
for name in ("pybuda", "pybuda.config"):
    for inside in ("CompileDepth", "CompilerConfig", "pybuda_compile"):
        vars(importlib.import_module(name)).setdefault(inside, OfTheCompiler(inside))
code = pytest.main(sys.argv[1:], plugins=[Given()])
if code not in (0, 1):
    sys.exit(int(code))

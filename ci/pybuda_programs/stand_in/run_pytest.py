"""Runs a test file of TT-Buda's as a program: `python -m opscope.pybuda run_pytest.py ARGUMENT...`."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest


def download_model(load: Any, *args: Any, **options: Any) -> Any:
    """What the tests' own helper does when nothing has to be tried again."""
    return load(*args, **{key: value for key, value in options.items() if key == "config"})


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


HELPERS: dict[str, dict[str, Any]] = {
    "test": {},
    "test.utils": {"download_model": download_model},
    "test.tvm": {},
    "test.tvm.utils": {"evaluate_framework_vs_pybuda": None},
}
"""Modules beside the tests, with what of them is used."""
tests = next(folder for folder in Path(sys.argv[-1]).parents if folder.name == "test")
for name, names in HELPERS.items():
    module = types.ModuleType(name)
    module.__path__ = [str(tests.joinpath(*name.split(".")[1:]))] if name.startswith("test") else []
    vars(module).update(names)
    sys.modules[name] = module
code = pytest.main(sys.argv[1:], plugins=[Given()])
if code not in (0, 1):
    sys.exit(int(code))

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


class Fresh:
    """Each case begins with no device and no option."""

    @pytest.fixture(autouse=True)
    def _fresh(self) -> Any:
        import pybuda

        pybuda.pybuda_reset()
        yield
        pybuda.pybuda_reset()


helper = types.ModuleType("test.utils")
helper.download_model = download_model  # type: ignore[attr-defined]
package = types.ModuleType("test")
package.__path__ = [str(Path(sys.argv[-1]).parent)]
sys.modules["test"] = package
sys.modules["test.utils"] = helper
code = pytest.main(sys.argv[1:], plugins=[Fresh()])
if code not in (0, 1):
    sys.exit(int(code))

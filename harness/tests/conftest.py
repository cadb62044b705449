"""Quick tests compile their goldens without optimisation: each runs once, on small inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

OF_LEVELS = {"test_not_optimised", "test_golden", "test_pjrt"}
"""Modules whose tests are about how XLA compiles."""


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly(request: pytest.FixtureRequest) -> Iterator[None]:
    """In this process; children, and tests that are run as slow ones, have XLA's own level."""
    name = request.module.__name__.rpartition(".")[2]
    if name in OF_LEVELS or request.config.option.markexpr != "not slow":
        yield
        return
    from opscope.harness.prepare import golden

    options = golden._options

    def at_level_0(level: int | None = None, tested: bool = False) -> Any:
        return options(level if tested or level is not None else 0, tested)

    patch = pytest.MonkeyPatch()
    patch.setattr(golden, "_options", at_level_0)
    yield
    patch.undo()

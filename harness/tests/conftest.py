"""Quick tests compile their goldens without optimisation, and those of a file once: each runs once, on small inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
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

    options, compiled = golden._options, golden._compile

    def at_level_0(level: int | None = None, tested: bool = False) -> Any:
        return options(level if tested or level is not None else 0, tested)

    known: dict[Any, Any] = {}

    def once(module: bytes, path: Path | None, level: int | None, tested: bool) -> Any:
        if (key := (module, level, tested)) not in known:
            known[key] = compiled(module, path, level, tested)
        elif path is not None:
            with contextlib.suppress(Exception):  # custom calls cannot be serialised
                golden._keep(path, known[key].serialise())
        return known[key]

    patch = pytest.MonkeyPatch()
    patch.setattr(golden, "_options", at_level_0)
    patch.setattr(golden, "_compile", once)
    yield
    patch.undo()

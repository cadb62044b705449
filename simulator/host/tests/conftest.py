"""Every test begins with no device and no option set, and the warning that silicon is simulated is given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _own_session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from opscope.simulator.host.devices import tt_device
    from opscope.simulator.host.run import pybuda_reset

    monkeypatch.setattr(tt_device, "_said", True)
    yield
    pybuda_reset()

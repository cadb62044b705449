"""The line that installs what is missing fits how opscope was installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.base import places
from opscope.base.installing import install_command, install_missing


def test_in_a_checkout_its_folder_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "HOME", Path("/checkout"))
    monkeypatch.setattr(places, "PACKAGE", Path("/checkout/opscope"))
    assert install_command("torch") == "pip install -e '.[torch]'"
    assert install_command() == "pip install -e ."
    assert install_missing("torch", "json", "no_such") == "pip install -e '.[torch]' (not installed: no_such)"
    assert install_missing("torch", "json") is None


def test_from_a_wheel_the_distribution_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "HOME", Path("/site-packages/opscope"))
    monkeypatch.setattr(places, "PACKAGE", Path("/site-packages/opscope"))
    assert install_command("torch") == "pip install 'opscope[torch]'"
    assert install_command() == "pip install opscope"

"""Other pytest plugins that a run meets: those that own an option of ours, that shuffle tests, or have nothing to do.

pytest ends with an error where two plugins declare one option, whichever comes first. So where another plugin owns an
option by the name of one of our settings, it keeps the option and we read its value.
"""

from __future__ import annotations

import os
import sys
from importlib import util

import pytest

OWNERS = {"reruns": ("rerunfailures", "pytest_rerunfailures")}
"""Setting -> name of pytest's entry point and module of the plugin that declares an option of that name."""

SHUFFLERS = ("randomly", "pytest_randomly")
"""What pytest-randomly is registered as: by its entry point, and by `-p`."""

IDLE = ("hypothesispytest", "_hypothesis_pytestplugin")
"""What hypothesis's plugin is registered as. It has no test here, and imports hypothesis when the run ends."""

REWRITER = "_pytest.assertion.rewrite"
"""The module of pytest's import hook that rewrites assertions."""


def owned(setting: str, manager: pytest.PytestPluginManager) -> bool:
    """Whether another plugin of this process declares the option of a setting."""
    if setting not in OWNERS:
        return False
    entry, module = OWNERS[setting]
    if manager.is_blocked(entry):
        return False
    alone = bool(os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"))
    return manager.hasplugin(entry) or manager.hasplugin(module) or (not alone and util.find_spec(module) is not None)


def take(setting: str, config: pytest.Config) -> object:
    """What was given for a setting whose option another plugin owns; that plugin finds none, as the run is ours."""
    value = getattr(config.option, setting, None)
    if setting in OWNERS and value is not None:
        setattr(config.option, setting, None)
    return value if setting in OWNERS else None


def take_out(manager: pytest.PytestPluginManager) -> None:
    """Takes out the plugins that shuffle (ops run in the order of their program, or as a budget asks) or are idle."""
    for name in (*SHUFFLERS, *IDLE):
        manager.set_blocked(name)


def import_plainly(config: pytest.Config) -> None:
    """Takes out the hook that rewrites assertions while modules are imported.

    Only tests need it, and a run has none; but pytest rewrites every module of a package that has a plugin, which is
    all of ours.
    """
    for finder in list(sys.meta_path):
        if type(finder).__module__ == REWRITER and getattr(finder, "config", None) is config:
            sys.meta_path.remove(finder)

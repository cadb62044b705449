"""Other pytest plugins that a run meets: those that own an option of ours, that shuffle tests, or have nothing to do.

Where another plugin has an option with the name and the meaning of one of our settings, we read its value.
"""

from __future__ import annotations

import sys

import pytest

OWNERS = frozenset({"reruns"})
"""Settings whose option another plugin has under the same name and with the same meaning (pytest-rerunfailures)."""

SHUFFLERS = ("randomly", "pytest_randomly")
"""What pytest-randomly is registered as: by its entry point, and by `-p`."""

IDLE = ("hypothesispytest", "_hypothesis_pytestplugin")
"""What hypothesis's plugin is registered as. It has no test here, and imports hypothesis when the run ends."""

TIMERS = ("timeout", "pytest_timeout")
"""What pytest-timeout is registered as. Its timer would end the wait for an op, which has a limit of its own."""

REWRITER = "_pytest.assertion.rewrite"
"""The module of pytest's import hook that rewrites assertions."""


def take(setting: str, config: pytest.Config) -> object:
    """What was given for a setting whose option another plugin owns; that plugin finds none, as the run is ours."""
    value = getattr(config.option, setting, None)
    if setting in OWNERS and value is not None:
        setattr(config.option, setting, None)
    return value if setting in OWNERS else None


def take_out(manager: pytest.PytestPluginManager) -> None:
    """Takes out the plugins that shuffle (ops run in the order of their program, or as a budget asks), are idle, or
    would end the wait for an op."""
    for name in (*SHUFFLERS, *IDLE, *TIMERS):
        manager.set_blocked(name)


def import_plainly(config: pytest.Config) -> None:
    """Takes out the hook that rewrites assertions while modules are imported.

    Only tests need it, and a run has none; but pytest rewrites every module of a package that has a plugin, which is
    all of ours.
    """
    for finder in list(sys.meta_path):
        if type(finder).__module__ == REWRITER and getattr(finder, "config", None) is config:
            sys.meta_path.remove(finder)

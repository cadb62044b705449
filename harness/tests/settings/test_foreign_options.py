"""What other plugins, and pytest's own import hook, may not do in a run."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

from opscope.harness.settings import foreign_options


def test_plugins_that_shuffle_or_have_nothing_to_do_are_taken_out() -> None:
    manager = pytest.PytestPluginManager()
    for name in ("randomly", "hypothesispytest", "xdist"):
        manager.register(ModuleType(name), name)
    foreign_options.take_out(manager)
    assert [name for name in ("randomly", "hypothesispytest", "xdist") if manager.hasplugin(name)] == ["xdist"]


def test_the_runs_own_hook_that_rewrites_assertions_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    config, outer = SimpleNamespace(), SimpleNamespace()
    hooks = [AssertionRewritingHook.__new__(AssertionRewritingHook) for _ in range(2)]
    hooks[0].config, hooks[1].config = config, outer
    before = [finder for finder in sys.meta_path if not isinstance(finder, AssertionRewritingHook)]
    monkeypatch.setattr(sys, "meta_path", [hooks[0], *before, hooks[1]])
    foreign_options.import_plainly(config)
    assert sys.meta_path == [*before, hooks[1]]

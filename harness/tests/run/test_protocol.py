"""An op is reported as briefly as the plugins that are there allow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from opscope.harness.run import protocol


class Hook:
    """A hook with implementations in modules of these names; it notes its calls."""

    def __init__(self, name: str, modules: list[str], calls: list[str]) -> None:
        self._name, self._modules, self._calls = name, modules, calls

    def get_hookimpls(self) -> list[Any]:
        return [SimpleNamespace(function=SimpleNamespace(__module__=module)) for module in self._modules]

    def __call__(self, **given: Any) -> Any:
        call = given.get("call")
        self._calls.append(f"{self._name.removeprefix('pytest_runtest_')}{f' {call.when}' if call else ''}")
        return SimpleNamespace()


class Hooks:
    """All hooks; `others` has the modules of further implementations of some."""

    def __init__(self, others: dict[str, str], calls: list[str]) -> None:
        self._others, self._calls = others, calls

    def __getattr__(self, name: str) -> Hook:
        own = ["_pytest.terminal", "opscope.harness.run.session"]
        return Hook(name, [*own, *filter(None, [self._others.get(name, "")])], self._calls)


def calls_of_an_op(monkeypatch: pytest.MonkeyPatch, others: dict[str, str], durations: int | None = None) -> list[str]:
    """The hooks that are called for an op where another module has implementations of some."""
    calls: list[str] = []
    config: Any = SimpleNamespace(hook=Hooks(others, calls), option=SimpleNamespace(durations=durations))
    session: Any = SimpleNamespace(config=config, shouldfail="", shouldstop="")
    item: Any = SimpleNamespace(
        config=config, ihook=config.hook, nodeid="m::op", location=("m", None, "op"), runtest=lambda: None
    )
    monkeypatch.setattr(protocol, "fits", lambda item: True)
    protocol.Reports(session).test(item)
    return calls


ONE = ["logstart", "makereport call", "logreport", "logfinish"]
THREE = [
    "logstart",
    *(word for when in ("setup", "call", "teardown") for word in (f"makereport {when}", "logreport")),
    "logfinish",
]


def test_an_op_is_reported_by_its_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert calls_of_an_op(monkeypatch, {}) == ONE


@pytest.mark.parametrize(
    "others", [{"pytest_runtest_logreport": "_pytest.junitxml"}, {"pytest_runtest_makereport": "pytest_html.plugin"}]
)
def test_who_takes_reports_gets_all_three(monkeypatch: pytest.MonkeyPatch, others: dict[str, str]) -> None:
    assert calls_of_an_op(monkeypatch, others) == THREE


def test_durations_are_those_of_all_three(monkeypatch: pytest.MonkeyPatch) -> None:
    assert calls_of_an_op(monkeypatch, {}, durations=0) == THREE


@pytest.mark.parametrize("hook", ["pytest_runtest_setup", "pytest_runtest_call", "pytest_runtest_teardown"])
def test_who_has_a_part_in_a_test_gets_pytests_own_protocol(monkeypatch: pytest.MonkeyPatch, hook: str) -> None:
    assert calls_of_an_op(monkeypatch, {hook: "allure_pytest.listener"}) == ["protocol"]

"""Ends the preparation of a run once its ops have run, and tests what became of its models since the ops were known."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from opscope.harness.record.errors import InputError
from opscope.harness.run import start_run
from opscope.harness.run.items import FailedModel, ImportedModel

if TYPE_CHECKING:
    from opscope.harness.run.session import OpByOp


class LateModels:
    """The hook of the process that prepares the models."""

    def __init__(self, run: OpByOp) -> None:
        self._run = run

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Waits for the preparation after the ops: whoever runs one again needs its export, also after `-x`."""
        result = yield
        plan = self._run.plan
        if plan is None or plan.preparing is None:
            return result
        self._run.display.doing("preparing")
        try:
            self._run.plan = start_run.completed(plan, self._run.display.prepared)
        except InputError as error:
            self._run.give_up(str(error))
            raise pytest.exit.Exception("the goldens of the run are not complete", returncode=2) from None
        self._run.warn_of_cache()
        if not (session.shouldstop or session.shouldfail):
            self._test(session, {failure.model for failure in plan.header.failed})
        return result

    def _test(self, session: pytest.Session, known: set[str]) -> None:
        """Tests the models that have failed since, and their imports, as `-k` and other plugins select them."""
        assert self._run.plan is not None
        header = self._run.plan.header
        collectors: list[pytest.Collector] = [
            FailedModel.from_parent(session, name=failure.model, failure=failure)
            for failure in header.failed
            if failure.model not in known
        ]
        collectors += [
            ImportedModel.from_parent(session, name=check.model, check=check)
            for check in header.imports
            if check.fails_run or check.expected
        ]
        items = [item for collector in collectors for item in collector.collect() if isinstance(item, pytest.Item)]
        hook = session.config.hook
        if items:
            hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
        for item in items:
            hook.pytest_runtest_protocol(item=item, nextitem=None)

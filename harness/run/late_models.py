"""Tests what became of a run's models since its ops were known: models that have failed, and checks of imports."""

from __future__ import annotations

import pytest

from opscope.harness.record.records import ManifestHeader
from opscope.harness.run.items import FailedModel, ImportedModel


def test(session: pytest.Session, header: ManifestHeader, known: set[str]) -> None:
    """Tests models that failed and are not `known`, and all imports, as `-k` and other plugins select them."""
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

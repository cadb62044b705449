"""docs/metrics.md says what the views hold, column by column."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci import metrics_page


def test_the_page_is_what_the_views_say(capsys: pytest.CaptureFixture[str]) -> None:
    metrics_page.main()
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    assert page.read_text(encoding="utf-8") == capsys.readouterr().out, "try make metrics"

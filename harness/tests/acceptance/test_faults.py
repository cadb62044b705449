"""A sample of the injected faults that `make measure` takes by the hundred: real faults in one real sweep."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opscope.base.tests.captured import captured

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


def test_each_fault_has_its_own_label_and_touches_no_other_verdict():
    done = captured([sys.executable, ROOT / "ci" / "faults.py", "--faults", "15", "--ops", "45", "--seed", "3"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 of 15 faults under their own label (15 kinds)" in done.stdout
    assert "0 of 30 other verdicts changed, 0 records lost" in done.stdout

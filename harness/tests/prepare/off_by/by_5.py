from __future__ import annotations

from opscope.harness.tests.prepare.off_by import off

computed = off(5)

"""Settings for Hypothesis where the machine may be busy with something else: no example is too slow to be drawn."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

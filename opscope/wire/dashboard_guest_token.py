"""`opscope dashboard guest-token --json`."""

from __future__ import annotations

from opscope.dashboards.guests import Guest

PRINTS = Guest

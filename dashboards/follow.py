"""Asks for a log that a dashboard links to, as a browser would."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from opscope.dashboards import processes
from opscope.dashboards.home import Home

SECONDS = 20.0


def log(row: dict[str, Any], home: Home) -> dict[str, Any]:
    """Returns the row with `error`, or with `not_followed` if the server of run folders is ours and does not run."""
    served = home.served()
    ours = served is not None and urlsplit(served.artifact_url).hostname in {"127.0.0.1", "localhost", "::1"}
    if ours and "artifacts" not in processes.running(home):
        return row | {"not_followed": "the server of run folders does not run; try opscope dashboard up"}
    return row | {"error": refusal(row["leads_to"])}


def refusal(address: str) -> str:
    """Why an address cannot be opened; empty if it can."""
    try:
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:
            return "" if answer.read(1) else "an empty file"
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__

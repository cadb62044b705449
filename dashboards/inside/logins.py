"""What surrounds a login: how many wrong passwords are heard, and where a redirect may lead."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from urllib.parse import parse_qsl, urlencode, urlsplit

LOGINS = frozenset({"/login", "/api/v1/security/login"})
"""Where passwords are checked: by the form, and for programs."""
WRONG, WITHIN = 10, 300.0
"""So many wrong passwords of one address are heard within so many seconds."""
ADDRESSES = 10_000
"""So many addresses are remembered; the one that has been silent longest is forgotten first."""


class WrongLogins:
    """When each address last gave wrong passwords."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, address: str) -> int:
        """The seconds until the address may try again; 0 if it may now."""
        with self._lock:
            times = self._times.get(address, ())
            left = times[0] + WITHIN - self._clock() if len(times) == WRONG else 0.0
            return max(0, int(left + 0.999))

    def add(self, address: str) -> None:
        """Notes a wrong password."""
        with self._lock:
            self._times.setdefault(address, deque(maxlen=WRONG)).append(self._clock())
            self._times.move_to_end(address)
            while len(self._times) > ADDRESSES:
                self._times.popitem(last=False)


def on_this_server(location: str) -> str:
    """The address of a redirect without scheme and host, which may come from the request's Host header.

    So is `next` in its query: FAB puts the whole address of the page there that asked for a login.
    """
    try:
        parts = urlsplit(location)
    except ValueError:
        return "/"
    path = re.sub(r"^[/\\]+|\\", "/", parts.path) or ("/" if parts.netloc else "")
    query = [
        (key, on_this_server(value) if key == "next" else value)
        for key, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    changed = urlencode(query) if any(key == "next" for key, _ in query) else parts.query
    return path + (f"?{changed}" if changed else "") + (f"#{parts.fragment}" if parts.fragment else "")

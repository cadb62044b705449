"""`users.py NAME ROLE`, with the password on stdin, adds a user or changes an existing one."""

from __future__ import annotations

import sys
from pathlib import Path

from superset.app import create_app


def main(name: str, role: str) -> None:
    """Adds or changes one user."""
    import access

    done = access.add_user(name, role, sys.stdin.read().rstrip("\n"), queries=role == "editor")
    print(f"step 0 user {name} is {done} as {role}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    with create_app().app_context():
        main(*sys.argv[1:])

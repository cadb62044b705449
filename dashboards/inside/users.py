"""`users.py NAME ROLE TEAM`, with the password on stdin, adds a user or changes an existing one; TEAM may be empty."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from superset.app import create_app


def main(name: str, role: str, team: str) -> None:
    """Adds or changes one user, or prints the teams that there are if the results know no such team."""
    import access
    import night_page
    import teams
    from superset import db
    from superset.models.core import Database

    if team:
        there = teams.known(db.session.query(Database).filter_by(database_name=night_page.DATABASE).one())
        if team not in there:
            print(json.dumps({"teams": there}), flush=True)
            return
    done = access.add_user(name, role, sys.stdin.read().rstrip("\n"), queries=role == "editor", team=team)
    print(f"step 0 user {name} is {done} as {role}{' of ' + team if team else ''}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    with create_app().app_context():
        main(*sys.argv[1:])

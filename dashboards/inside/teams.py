"""Teams: a user of one sees its rows alone, in each dataset that names owners and on the page of the night.

Superset's row level security does it for datasets. Those without owners, such as rates and models, stay those of all
teams.
"""

from __future__ import annotations

from typing import Any

PREFIX = "opscope team "
"""What the name of a team's role and of its filter begins with."""
OWNER = "owner"
"""The column that names the team."""
TEAMS = "SELECT DISTINCT team FROM owners ORDER BY team"


def of_user(user: Any) -> str:
    """The team of a user; empty for people without one, who see everything."""
    names = (role.name for role in getattr(user, "roles", ()))
    return next((name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)), "")


def of_page(user: Any, request: Any) -> str:
    """The team that a page names: its user's, or that of a frame, whose page is made before its guest's token comes."""
    return of_user(user) or (request.args.get("team", "") if request.path.startswith("/embedded/") else "")


def known(database: Any) -> list[str]:
    """The teams that the results name. `database`: as Superset has it."""
    with database.get_raw_connection() as connection:
        cursor = connection.cursor()
        cursor.execute(TEAMS)
        return [team for (team,) in cursor.fetchall()]


def clause(team: str) -> str:
    """The condition on the rows of a team."""
    return f"{OWNER} = '" + team.replace("'", "''") + "'"


def make_role(team: str) -> Any:
    """The role of a team, made if it is new. It permits nothing: users have it beside another one."""
    from superset import security_manager as sm

    role = sm.add_role(PREFIX + team)
    make_filters()
    return role


def make_filters() -> None:
    """Creates or updates the filter of every team, for the datasets of now."""
    from superset import db
    from superset import security_manager as sm
    from superset.connectors.sqla.models import RowLevelSecurityFilter, SqlaTable

    owned = [
        table
        for table in db.session.query(SqlaTable).all()
        if any(column.column_name == OWNER for column in table.columns)
    ]
    for role in sm.get_all_roles():
        if not role.name.startswith(PREFIX):
            continue
        row = db.session.query(RowLevelSecurityFilter).filter_by(name=role.name).one_or_none()
        if row is None:
            row = RowLevelSecurityFilter(name=role.name)
            db.session.add(row)
        row.filter_type, row.group_key, row.clause = "Regular", None, clause(role.name.removeprefix(PREFIX))
        row.roles, row.tables = [role], owned
        row.description = "Rows of one team: `opscope dashboard user add --team`."
    db.session.flush()

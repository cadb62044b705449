"""Who may see what: the roles `viewer` and `editor`, and the dashboards that visitors without an account see."""

from __future__ import annotations

from typing import Any

import teams

ROLES = {"viewer": ("Gamma",), "editor": ("Alpha", "sql_lab")}
"""Our role -> the built-in roles whose permissions it has; both can read the whole results database."""
PREFIX = "opscope "


def make_roles(database: Any) -> list[Any]:
    """Creates or updates our roles, with their current permissions, and returns them."""
    from superset import security_manager as sm

    reads = sm.add_permission_view_menu("database_access", database.perm)
    roles = []
    for name, bases in ROLES.items():
        role = sm.add_role(PREFIX + name)
        role.permissions = [*{p.id: p for base in bases for p in sm.find_role(base).permissions}.values(), reads]
        roles.append(role)
    return roles


def open_dashboards(dashboards: list[Any], roles: list[Any], anonymous: bool) -> None:
    """Shows the dashboards to visitors without an account, or only to users.

    Only the roles that a dashboard lists can see it, so our roles are listed with Public. If visitors may not see it,
    it lists no roles: then everybody who can read the data sees the dashboard.
    """
    from superset import security_manager as sm

    public = sm.find_role("Public")
    if not anonymous and public is not None:
        public.permissions = []
    for dashboard in dashboards:
        dashboard.roles = [public, *roles] if anonymous else []


def add_user(name: str, role: str, password: str, queries: bool, team: str = "") -> str:
    """Adds a user, or changes the role, team and password of an existing one; returns what was done, as text.

    `team`: whose rows alone the user sees; empty for all. `queries`: whether to add the stored questions to the user's
    saved queries (Superset shows users only their own).
    """
    from superset import db
    from superset import security_manager as sm

    roles = [sm.find_role(PREFIX + role), *([teams.make_role(team)] if team else [])]
    user = sm.find_user(username=name)
    if user is None:
        user = sm.add_user(name, name, "", f"{name}@localhost.invalid", roles, password=password)
        done = "added"
    else:
        user.roles = roles
        sm.reset_password(user.id, password)
        done = "changed"
    if queries:
        own_queries(user)
    db.session.commit()
    return done


def own_queries(user: Any) -> None:
    """Copies the stored questions, which belong to `admin`, to `user`."""
    import uuid

    from superset import db
    from superset import security_manager as sm
    from superset.models.sql_lab import SavedQuery

    admin = sm.find_user(username="admin")
    if user.id == admin.id:
        return
    for query in db.session.query(SavedQuery).filter_by(user_id=admin.id).all():
        copy_id = uuid.uuid5(query.uuid, user.username)
        copy = db.session.query(SavedQuery).filter_by(uuid=copy_id).first() or SavedQuery(uuid=copy_id)
        copy.user_id, copy.db_id, copy.label = user.id, query.db_id, query.label
        copy.created_by_fk = copy.changed_by_fk = user.id  # the list filters by this column, not by `user_id`
        copy.description, copy.sql, copy.schema = query.description, query.sql, query.schema
        db.session.add(copy)

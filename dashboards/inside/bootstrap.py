"""Updates Superset's own database to match the bundle: schema, roles, admin, assets, who sees them. Idempotent.

`bootstrap.py BUNDLE RETIRED ALERTS` does it in one process, because each start of Superset takes seconds. The admin's
password is in OPSCOPE_ADMIN_PASSWORD; it is set only if the user is new or OPSCOPE_ADMIN_RESET is set.
OPSCOPE_PREPARED: this Superset's schema and built-in roles are already up to date.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from superset.app import create_app

started = time.monotonic()


def print_step(what: str) -> None:
    """Prints a finished step for the command that started this script."""
    print(f"step {time.monotonic() - started:.1f} {what}", flush=True)


def main(bundle: Path, retired: Path, planned: Path) -> None:
    """Runs all steps, in an application context."""
    import access
    import alerts
    import embedding
    import flask_migrate
    import superset
    import teams
    from superset import appbuilder, db
    from superset import security_manager as sm
    from superset.models.core import Database
    from superset.models.dashboard import Dashboard

    print_step("Superset has started")
    if not os.environ.get("OPSCOPE_PREPARED"):
        flask_migrate.upgrade(directory=str(Path(superset.__file__).parent / "migrations"))
        print_step("its database has the newest schema")
        appbuilder.add_permissions(update_perms=True)
        sm.sync_role_definitions()
        print_step("its roles are in order")
    password = os.environ["OPSCOPE_ADMIN_PASSWORD"]
    admin = sm.find_user(username="admin")
    if admin is None:
        admin = sm.add_user("admin", "Admin", "", "admin@localhost.invalid", sm.find_role("Admin"), password=password)
    elif os.environ.get("OPSCOPE_ADMIN_RESET"):
        sm.reset_password(admin.id, password)
    contents = {path.relative_to(bundle).as_posix(): path.read_text(encoding="utf-8") for path in bundle.rglob("*.y*")}
    import_assets(contents, admin)
    deleted = delete_retired(json.loads(retired.read_text(encoding="utf-8")))
    print_step(f"{len(contents)} files are imported, {deleted} retired objects are gone")
    bundle_uuids = {
        line.split()[1] for text in contents.values() for line in text.splitlines() if line.startswith("uuid: ")
    }
    results = next(d for d in db.session.query(Database).all() if str(d.uuid) in bundle_uuids)
    roles = access.make_roles(results)
    dashboards = [dashboard for dashboard in db.session.query(Dashboard).all() if str(dashboard.uuid) in bundle_uuids]
    access.open_dashboards(dashboards, roles, bool(os.environ.get("OPSCOPE_ANONYMOUS")))
    teams.make_filters()
    embedding.open_to(dashboards)
    give_queries(admin, bundle_uuids)
    values = json.loads(planned.read_text(encoding="utf-8"))
    active = alerts.make_alerts(values["alerts"], results, values["url"])
    db.session.commit()
    print_step(f"{len(dashboards)} dashboards are open, {active} of {len(values['alerts'])} alerts and reports are on")


def import_assets(contents: dict[str, str], admin: object) -> None:
    """Imports all assets or none and overwrites objects by uuid. Exits with the importer's reason on failure."""
    from superset.commands.exceptions import CommandInvalidError, ImportFailedError
    from superset.commands.importers.v1.assets import ImportAssetsCommand
    from superset.utils.core import override_user

    with override_user(admin):
        try:
            ImportAssetsCommand(contents).run()
        except (CommandInvalidError, ImportFailedError) as error:
            reason = error.__cause__ or error  # the transaction's wrapper hides the cause
            reason = reason.normalized_messages() if isinstance(reason, CommandInvalidError) else reason
            sys.exit(f"import refused, nothing changed: {reason!r}")


def delete_retired(uuids: dict[str, list[str]]) -> int:
    """Deletes objects that earlier bundles had, because an import overwrites but never deletes."""
    from superset import db
    from superset.connectors.sqla.models import SqlaTable
    from superset.models.dashboard import Dashboard
    from superset.models.slice import Slice
    from superset.models.sql_lab import SavedQuery

    kinds = {"dashboards": Dashboard, "charts": Slice, "datasets": SqlaTable, "queries": SavedQuery}
    deleted = 0
    for kind, model in kinds.items():
        for item in db.session.query(model).all():
            if str(item.uuid) in uuids.get(kind, ()):
                db.session.delete(item)
                deleted += 1
    db.session.commit()
    return deleted


def give_queries(admin: object, bundle_uuids: set[str]) -> None:
    """Gives saved queries to `admin`, because the importer sets no user and Superset shows users only their own."""
    import access
    from superset import db
    from superset import security_manager as sm
    from superset.models.sql_lab import SavedQuery

    for query in db.session.query(SavedQuery).all():
        if str(query.uuid) in bundle_uuids:
            query.user_id = query.created_by_fk = admin.id
    db.session.flush()
    for user in sm.get_all_users():
        if any(role.name == access.PREFIX + "editor" for role in user.roles):
            access.own_queries(user)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    with create_app().app_context():
        main(*map(Path, sys.argv[1:]))

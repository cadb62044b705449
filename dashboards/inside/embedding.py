"""Dashboards in frames of other pages: what a guest may do there, and whose pages may have them."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

ROLE = "opscope guest"


def open_to(dashboards: list[Any]) -> None:
    """Lets the origins of `up --embed` have the dashboards in frames; without any nobody may.

    A guest has the permissions that Superset gives to visitors of an open dashboard; a token opens the data of one.
    """
    from superset import db
    from superset import security_manager as sm
    from superset.models.embedded_dashboard import EmbeddedDashboard

    origins = json.loads(Path(os.environ["OPSCOPE_SERVED"]).read_text(encoding="utf-8")).get("embed", [])
    role = sm.add_role(ROLE)
    role.permissions = (
        [sm.add_permission_view_menu(*each) for each in sorted(sm.PUBLIC_ROLE_PERMISSIONS)] if origins else []
    )
    for dashboard in dashboards:
        db.session.query(EmbeddedDashboard).filter_by(dashboard_id=dashboard.id).delete()
        if origins:
            number = uuid.uuid5(dashboard.uuid, "embedded")
            row = EmbeddedDashboard(uuid=number, dashboard_id=dashboard.id, allow_domain_list=",".join(origins))
            db.session.add(row)
    db.session.flush()

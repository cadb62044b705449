"""The default number format has a name, and models that ran say which framework they were built with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"

FRAMEWORKS = """
SELECT t.run_id, m.model, t.frontend, CASE WHEN t.model_name = m.model THEN 0 ELSE 1 END AS shared, COUNT(*) AS ops
FROM models m
JOIN module_ops u ON u.module_id = m.module_id
JOIN op_tests t ON t.run_id = m.run_id AND t.op_id = u.op_id
WHERE m.outcome = 'ran' AND m.framework = '' AND t.frontend <> ''
GROUP BY t.run_id, m.model, t.frontend, CASE WHEN t.model_name = m.model THEN 0 ELSE 1 END
ORDER BY t.run_id, m.model, shared DESC, ops, t.frontend DESC"""
"""What the ops of each model say, what counts most last: ops that are its own first, of these what most of them say."""


def upgrade() -> None:
    op.execute("UPDATE night_series SET data_format = 'default' WHERE data_format = ''")
    connection = op.get_bind()
    frameworks = {
        (run_id, model): frontend.partition(" ")[0]
        for run_id, model, frontend, *_ in connection.exec_driver_sql(FRAMEWORKS)
    }
    if frameworks:
        connection.execute(
            sa.text("UPDATE models SET framework = :framework WHERE run_id = :run AND model = :model"),
            [{"run": run, "model": model, "framework": name} for (run, model), name in frameworks.items()],
        )

"""Runs commands in Superset's virtual environment, with Superset's configuration and in the home folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping

from opscope.base.places import room
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import ROOM, Home

INSIDE = ROOM / "inside"


def environment(home: Home) -> dict[str, str]:
    """The environment variables that Superset needs, without those that would load modules of another project."""
    variables = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SUPERSET_", "FLASK_"))
    }
    return variables | {
        "SUPERSET_CONFIG_PATH": str(INSIDE / "superset_config.py"),
        "OPSCOPE_SERVED": str(home.folder / "served.json"),
        "OPSCOPE_NIGHT_GRID": str(room("base/night_grid")),
        "HOME": str(home.folder),  # gunicorn creates a control socket below it
        "SCARF_ANALYTICS": "false",
    }


def server_command(home: Home, host: str, port: int) -> list[str]:
    """The command of Superset in gunicorn: one process with eight threads, because SQLite allows only one writer."""
    bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    server = [str(home.python), "-m", "gunicorn", "--bind", bind, "--workers", "1", "--worker-class", "gthread"]
    return [*server, "--threads", "8", "--timeout", "60", "--graceful-timeout", "5", "superset.app:create_app()"]


def clock_command(home: Home) -> list[str]:
    """The command of the process that sends alerts and reports."""
    return [str(home.python), str(INSIDE / "alert_clock.py")]


def run(
    home: Home, script: str, *arguments: str, stdin: str = "", extra: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Runs a file of dashboards/inside and yields the lines of its stdout. Raises DashboardError if it fails."""
    if not home.python.is_file():
        raise DashboardError("opscope dashboard", "Superset", f"none in {home.venv}", "opscope dashboard up")
    log = home.folder / f"{script}.log"
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [str(home.python), str(INSIDE / f"{script}.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=home.folder,
            env=environment(home) | dict(extra or {}),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(stdin)
            process.stdin.close()
            yield from (line.rstrip("\n") for line in process.stdout)
        finally:
            code = process.wait()
    if code:
        lines = log.read_text(encoding="utf-8").strip().splitlines() or ["nothing"]
        raise DashboardError(f"opscope dashboard: {script}", "exit code 0", f"{code}: {lines[-1]}", f"{log}")

"""Brings up a dashboard from nothing; every step is skipped if its result is already there."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from opscope.base.digest import json_digest, words_digest
from opscope.base.live import progress
from opscope.base.own_command import own_command
from opscope.dashboards import alerts, asset_files, bundle, checks, install, processes, superset
from opscope.dashboards.asset_files import ASSETS
from opscope.dashboards.bundle import Source
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import Home, Served

START_SECONDS = 120.0
Echo = Callable[[str], None]
PREPARED = "prepared.json"
"""File in the home folder: the Superset, and the access for visitors, for which its database was last updated."""
ARTIFACT_LOG, ALERT_LOG = "artifacts.log", "alerts.log"


@dataclass(frozen=True)
class UpRequest:
    """The request of one `up`."""

    served: Served
    source: Source
    artifact_command: Sequence[str] = ()
    """Command line of the server for run folders; empty if another store serves them."""
    artifact_ready: str = ""
    """URL that returns 200 once that server is ready."""
    python: str | None = None


def bring_up(home: Home, request: UpRequest, echo: Echo) -> None:
    """Installs, provisions and starts the servers; keeps a running server unless it serves something else."""
    began = time.monotonic()

    def echo_time(step: str) -> None:
        echo(f"{time.monotonic() - began:6.1f} s  {step}")
        progress.step(step.strip())

    assets = asset_files.read()
    if problems := checks.problems(assets):
        raise DashboardError(str(ASSETS), "sound assets", problems[0])
    install.ensure(home, echo_time, request.python)
    home.make()
    _secrets(home)
    unchanged = home.served() == request.served
    running = processes.running(home)
    if running and not unchanged:
        echo_time("stopping the server that runs: it serves something else, or is another opscope's")
        processes.stop(home)
        running = {}
    home.remember(request.served)
    prepared = _prepared(home, request)
    if prepared:  # the servers can start without the import; both take seconds, so they run side by side
        _start(home, request, running)
    try:
        provision(home, assets, request, echo_time, prepared)
    except DashboardError:
        if prepared and not running:
            processes.stop(home)
        raise
    if not prepared:
        _start(home, request, running)
    if request.artifact_command:
        log = home.folder / ARTIFACT_LOG
        processes.wait_until_it_answers(home, "artifacts", request.artifact_ready, log, START_SECONDS)
        echo_time(f"run folders are served at {request.served.artifact_url}")
    health = f"{request.served.local_url}/health"
    processes.wait_until_it_answers(home, "superset", health, home.log, START_SECONDS)
    echo_time(f"Superset answers at {request.served.url}")


def _start(home: Home, request: UpRequest, running: Collection[str]) -> None:
    """Starts the servers that are not running, without waiting for them."""
    if "artifacts" not in running and request.artifact_command:
        log = home.folder / ARTIFACT_LOG
        processes.start(home, "artifacts", list(request.artifact_command), superset.environment(home), log)
    if "superset" not in running:
        command = superset.server_command(home, request.served.host, request.served.port)
        processes.start(home, "superset", command, superset.environment(home), home.log)
    if "alerts" not in running and request.served.mail:
        log = home.folder / ALERT_LOG
        processes.start(home, "alerts", superset.clock_command(home), superset.environment(home), log)


def _stage(home: Home, request: UpRequest) -> dict[str, object]:
    """The values that decide the schema of Superset's database and its built-in roles."""
    return {"environment": home.venv.name, "anonymous": request.served.anonymous}


def _prepared(home: Home, request: UpRequest) -> bool:
    """Whether Superset's database is already up to date for this version."""
    return home.metadata.is_file() and home.read(PREPARED) == _stage(home, request)


def _secrets(home: Home) -> None:
    home.secret("secret_key", 42)
    home.secret("admin_password", 18)


def provision(home: Home, assets: asset_files.Assets, request: UpRequest, echo: Echo, prepared: bool = False) -> None:
    """Imports the bundle and sets who can see it, unless the same was imported last."""
    files = bundle.render(assets, request.source)
    password = home.admin_password.read_text(encoding="utf-8")
    planned = alerts.schedules(assets, request.served)
    to_import = (
        files,
        planned,
        dict(assets.retired),
        request.served.url,
        request.served.anonymous,
        request.served.embed,
    )
    digest = json_digest((*to_import, password, request.served.code))
    stamp = home.folder / "imported"
    if home.metadata.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
        echo("the dashboards are as last imported")
        return
    shutil.rmtree(home.bundle, ignore_errors=True)
    bundle.write(files, home.bundle)
    home.private(home.bundle)
    retired = home.folder / "retired.json"
    retired.write_text(json.dumps(assets.retired), encoding="utf-8")
    stamp.unlink(missing_ok=True)
    last_fingerprint = home.read("admin.json").get("password")
    extra = {"OPSCOPE_ADMIN_PASSWORD": password}
    fingerprint = words_digest(password)
    if last_fingerprint != fingerprint:
        extra["OPSCOPE_ADMIN_RESET"] = "1"
    if request.served.anonymous:
        extra["OPSCOPE_ANONYMOUS"] = "1"
    if prepared:
        extra["OPSCOPE_PREPARED"] = "1"
    home.write("alerts.json", {"url": request.served.url, "alerts": planned})
    paths = (home.bundle, retired, home.folder / "alerts.json")
    for line in superset.run(home, "bootstrap", *map(str, paths), extra=extra):
        if line.startswith("step "):
            echo(line.split(" ", 2)[2])
    with closing(sqlite3.connect(home.metadata)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # readers do not wait for the writer
    home.write("admin.json", {"password": fingerprint})
    home.write(PREPARED, _stage(home, request))
    stamp.write_text(digest, encoding="utf-8")


def artifact_command(host: str, port: int, roots: Sequence[Path], allowed: Sequence[str]) -> list[str]:
    """The command line that serves run folders: an opscope command, in the project's own interpreter."""
    # `--wait-for-roots`: a host of dashboards may have a database and no run yet.
    command = own_command("artifacts", "serve", "--wait-for-roots", "--host", host, "--port", str(port))
    for name in allowed:
        command += ["--allow-host", name]
    # The servers run in the home folder: a path relative to the caller's folder would lead nowhere from there.
    return [*command, *(str(root.absolute()) for root in roots)]

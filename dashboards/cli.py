"""`opscope dashboard`: the commands of this room, which pass what they need from the rest of the project."""

from __future__ import annotations

import json
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from opscope.base.finite_number import FiniteNumber
from opscope.base.live import progress
from opscope.base.path_option import path_option
from opscope.dashboards.errors import DashboardError

if TYPE_CHECKING:
    from opscope.dashboards.home import Served

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
HOME = path_option(
    "--home", "folder", metavar="DIR", help="Folder of the server's own files; default: the setting dashboard_home."
)
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def _settings() -> Any:
    """The settings of the project that the command was given in."""
    from opscope.harness.settings.settings import project_folder, resolve

    return resolve({}, project_folder(Path.cwd()))


def _home(folder: Path | None) -> Any:
    """The server's folders, from the option or the settings."""
    import platformdirs

    from opscope.dashboards.home import Home
    from opscope.harness.cache.export_folder import cache_dir

    settings = _settings()
    folder_of_server = folder or settings["dashboard_home"]
    try:
        folder_of_server = folder_of_server or platformdirs.user_state_path("opscope") / "dashboard"
    except RuntimeError:
        raise DashboardError("--home", "a folder", "none, and a user without a home folder", "--home DIR") from None
    return Home(Path(folder_of_server).absolute(), cache_dir(settings["cache_dir"]))


def _echo(line: str) -> None:
    click.echo(line, err=True)


@click.group()
def dashboard() -> None:
    """Serve the results in Apache Superset."""


@dashboard.command()
@click.option("--db", "url", metavar="URL", help="Results database; default: .opscope/opscope.sqlite.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8088,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 picks a free one.",
)
@click.option("--public-url", default="", metavar="URL", help="Address under which a proxy serves the dashboards.")
@click.option(
    "--artifact-url",
    default="",
    metavar="URL",
    help="Address of run folders that are stored elsewhere; links go to URL/<run>/<file>.",
)
@click.option(
    "--artifact-port",
    default=8089,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of `opscope artifacts serve`, which is started too; 0 picks a free one.",
)
@path_option(
    "--runs",
    "roots",
    multiple=True,
    metavar="DIR",
    help="Folder of run folders to link to; default: runs/ next to the database.",
)
@click.option("--anonymous", is_flag=True, help="Show the dashboards without a login; everything else still needs one.")
@click.option(
    "--wall",
    is_flag=True,
    help="Serve a page for a screen on the wall too: dashboards in turn, in large type, without filters.",
)
@click.option(
    "--alerts-to",
    "alerts_to",
    multiple=True,
    metavar="ADDRESS",
    help="Send Superset's alerts and reports to this mail address; without it they are off.",
)
@click.option(
    "--mail-server",
    metavar="URL",
    help="Mail server for them: smtp://[USER@]HOST[:PORT] (STARTTLS), smtps:// or smtp+plain://; the "
    "password is in OPSCOPE_MAIL_PASSWORD.",
)
@click.option(
    "--embed",
    multiple=True,
    metavar="ORIGIN",
    help="Let pages of ORIGIN, such as https://team.example.org, show dashboards in a frame (`guest-token`).",
)
@click.option(
    "--notes-db",
    "notes_url",
    metavar="URL",
    help="Let people with an account write notes on /night/, through this URL of the same database; in PostgreSQL that "
    "of a role that may write the table `notes` alone.",
)
@click.option("--foreground", is_flag=True, help="Run until a signal arrives, then stop the server (for systemd).")
@click.option(
    "--python", metavar="PATH", help="Python for Superset's virtual environment; default: a Python 3.10 to 3.12."
)
@HOME
def up(
    url: str | None,
    host: str,
    port: int,
    public_url: str,
    artifact_url: str,
    artifact_port: int,
    roots: tuple[Path, ...],
    anonymous: bool,
    wall: bool,
    alerts_to: tuple[str, ...],
    mail_server: str | None,
    embed: tuple[str, ...],
    notes_url: str | None,
    foreground: bool,
    python: str | None,
    folder: Path | None,
) -> None:
    """Install Superset if it is missing, import the dashboards, and serve them.

    Superset gets a virtual environment of its own. Run the command again to change what is served.
    """
    from opscope.dashboards import alerts, asset_files, processes
    from opscope.dashboards.home import Served
    from opscope.dashboards.results import artifact_roots, notes_uri, results_uri, source
    from opscope.dashboards.up import UpRequest, artifact_command, bring_up

    home = _home(folder)
    before = home.served()
    running = processes.running(home)
    _check(roots, public_url, artifact_url, embed)
    assets, settings = asset_files.read(), _settings()
    mail = alerts.as_served(
        alerts.read_mail(alerts_to or [settings["alerts_to"] or ""], mail_server or settings["mail_server"])
    )
    database = results_uri(url)
    port = _port_of_superset(host, port, before if "superset" in running else None)
    serves_artifacts = not artifact_url
    artifact_port, local = _place_of_artifacts(
        host, artifact_port, before if "artifacts" in running else None, needed=serves_artifacts
    )
    served = Served(
        database.uri,
        database.shown,
        host,
        port,
        public_url.rstrip("/"),
        (artifact_url or local).rstrip("/"),
        anonymous,
        assets.wall if wall else [],
        list(embed),
        notes_uri(notes_url, database) if notes_url else "",
        mail,
        assets.wide,
        home.code(),
    )
    allowed = [name for name in (urlsplit(public_url).hostname,) if name]
    run_folders = list(roots) or artifact_roots(database)
    command = artifact_command(host, artifact_port, run_folders, allowed) if serves_artifacts else []
    request = UpRequest(served, source(database, served.artifact_url), command, f"{local}/healthy", python)
    bring_up(home, request, _echo)
    signals = _signals() if foreground else []  # installed before the command prints that the server runs
    lead_nowhere = serves_artifacts and not any(root.is_dir() for root in run_folders)
    _print_addresses(served, home.admin_password, run_folders[0] if lead_nowhere else None)
    if foreground:
        _stay(home, signals)


def _port_of_superset(host: str, asked: int, running: Served | None) -> int:
    """The port that is asked for (0: that of the server that runs, else a free one); InputError if another has it."""
    from opscope.dashboards import processes

    port = asked or (running.port if running else processes.free_port(host))
    if running is None or (running.host, running.port) != (host, port):
        processes.check_port(host, port, "--port")
    return port


def _place_of_artifacts(host: str, asked: int, running: Served | None, *, needed: bool) -> tuple[int, str]:
    """Port and address of the server of artifacts, as `_port_of_superset`; as asked where it is not `needed`."""
    from opscope.dashboards import processes

    port = asked
    if needed and port == 0:
        port = (urlsplit(running.artifact_url).port if running else None) or processes.free_port(host)
    local = f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{port}"
    if needed and not (running and running.artifact_url == local):
        processes.check_port(host, port, "--artifact-port")
    return port, local


def _print_addresses(served: Served, password: Path, lacking: Path | None) -> None:
    """Where the dashboards are and who may see them; `lacking`: the folder of run folders, if there are none."""
    from opscope.dashboards.layout import NIGHT

    if served.host not in LOOPBACK:
        who = "anybody who can reach this machine can reach the login page"
        _echo(f"note: the server listens on {served.host}, so {who}")
    click.echo(f"{served.url}{NIGHT}")
    if lacking is not None:
        _echo(f"note: there are no run folders in {lacking}, so logs of ops lead nowhere; try --runs FOLDER")
    if served.wall:
        hint = "" if served.anonymous else "; sign in once on that screen, or use --anonymous"
        click.echo(f"for a screen on the wall: {served.url}/wall/{hint}")
    click.echo(f"user admin, password in {password}")


def _check(roots: tuple[Path, ...], public_url: str, artifact_url: str, embed: tuple[str, ...]) -> None:
    """Raises DashboardError for folders that are not there, and for addresses that no browser takes."""
    for root in roots:
        if not root.is_dir():
            raise DashboardError("--runs", "a folder of run folders", str(root), ".opscope/runs")
    for option, text in (("--public-url", public_url), ("--artifact-url", artifact_url)):
        parts = urlsplit(text)
        if text and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise DashboardError(option, "an address with http:// or https://", repr(text), "https://host")
    for origin in embed:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.hostname or origin != f"{parts.scheme}://{parts.netloc}":
            raise DashboardError("--embed", "an origin without a path", repr(origin), "https://team.example.org")
    if urlsplit(public_url).path.strip("/"):
        raise DashboardError("--public-url", "an address without a path", public_url, "a host name of its own")


def _signals() -> list[int]:
    """Returns a list to which the signals to end are added from now on."""
    arrived: list[int] = []
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda number, _: arrived.append(number))
    return arrived


def _stay(home: Any, signals: list[int]) -> None:
    """Waits until a signal is in `signals` or a server ends, then stops all servers."""
    from opscope.dashboards import processes

    progress.stop()
    names = set(processes.running(home))
    while not signals and set(processes.running(home)) == names:
        time.sleep(0.5)
    ended = names - set(processes.running(home))
    processes.stop(home)
    if ended and not signals:
        raise DashboardError(
            "opscope dashboard", "its servers to keep running", f"{', '.join(ended)} ended", f"{home.log}"
        )


@dashboard.command()
@HOME
def down(folder: Path | None) -> None:
    """Stop the server. Its files stay."""
    from opscope.dashboards import processes

    stopped = processes.stop(_home(folder))
    click.echo(f"stopped {', '.join(stopped)}" if stopped else "no server is running")


@dashboard.command()
@JSON
@HOME
def status(as_json: bool, folder: Path | None) -> None:
    """Show what is served, and where. Exit code 1 if the server does not run, or if alerts are on and do not arrive."""
    from opscope.dashboards import alerts, processes
    from opscope.wire.answer import print_answer
    from opscope.wire.dashboard_status import Status

    home = _home(folder)
    served, running = home.served(), processes.running(home)
    undelivered = alerts.problems(home, served, running, datetime.now(UTC)) if served else []
    state = Status(
        running="superset" in running,
        processes=running,
        url=served.url if served else None,
        database=served.shown_database if served else None,
        artifact_url=served.artifact_url if served else None,
        anonymous=served.anonymous if served else None,
        alerts_to=", ".join(served.mail.get("to", [])) if served else None,
        alerts_failing=tuple(undelivered),
        installed=home.python.is_file(),
        home=str(home.folder),
        environment=str(home.venv),
        admin_password=str(home.admin_password) if home.admin_password.is_file() else None,
    )
    if as_json:
        print_answer(state)
    else:
        for name, value in state:
            shown = ", ".join(f"{key} {item}" for key, item in value.items()) if isinstance(value, dict) else value
            shown = "; ".join(shown) if isinstance(shown, tuple) else shown
            click.echo(f"{name:<15} {'-' if shown in (None, '') else shown}")
    if not state.running or undelivered:
        raise SystemExit(1)


def _mark(row: dict[str, Any]) -> str:
    return click.style("no  ", fg="red") if row["error"] else click.style("ok  ", fg="green")


def _reason(text: str) -> str:
    """The first line of a driver's message; the other lines are help."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "nothing")


@dashboard.command()
@JSON
@HOME
def check(as_json: bool, folder: Path | None) -> None:
    """Run the query of every chart and alert, and follow one link of each kind.

    Exit code 1 if one fails. Superset need not run; a log is only asked for while its server does.
    """
    from opscope.dashboards import asset_files, follow, superset

    home = _home(folder)
    lines = superset.run(home, "check_charts", *asset_files.read().slugs)
    rows, alerts, followed = [], [], []
    for line in lines:
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        if "away" in row:
            served = home.served()
            database = f"to read {served.shown_database}" if served else "results to read"
            raise DashboardError(
                "opscope dashboard check", database, _reason(row["away"]), "opscope dashboard up --db URL"
            )
        if "alert" in row:
            alerts.append(row)
            continue
        if "link" in row:
            followed.append(follow.log(row, home) if not row["leads_to"].startswith("/") else row)
            continue
        rows.append(row)
        if not as_json:
            if not rows[:-1] or rows[-2]["dashboard"] != row["dashboard"]:
                click.echo(row["dashboard"])
            text = f"{row['rows']:>5} rows {1000 * row['seconds']:>6.0f} ms  {row['chart']}"
            click.echo(f"{_mark(row)}{text}{'  ' + ' '.join(row['error'].split())[:200] if row['error'] else ''}")
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.dashboard_check import PRINTS, Alert, Chart, Link

        made = (*(Chart(**row) for row in rows), *(Alert(**row) for row in alerts), *(Link(**row) for row in followed))
        print_answer(list(made), PRINTS)
    bad = sum(bool(row["error"]) for row in rows)
    broken = [row for row in followed if row["error"]]
    refused = [row for row in alerts if row["error"]]
    if not as_json:
        click.echo(f"{len(rows) - bad} of {len(rows)} charts work")
        for row in alerts:
            sent = "would be sent" if row["sent"] else "nothing to send"
            state = row["error"] or f"{row['value'] or 0:g}, {sent}"
            click.echo(f"{_mark(row)}alert: {row['alert']}: {state}{'' if row['on'] else ' (off)'}")
        for row in broken:
            click.echo(f"{_mark(row)}{row['link']} leads to {row['leads_to']}: {row['error']}")
        for row in followed:
            if row.get("not_followed"):
                click.echo(f"--  {row['link']} leads to {row['leads_to']}: not followed, {row['not_followed']}")
        tried = [row for row in followed if not row.get("not_followed")]
        click.echo(f"{len(tried) - len(broken)} of {len(tried)} links lead somewhere")
    if bad or broken or refused or not rows:
        raise SystemExit(1)


@dashboard.command("guest-token")
@click.argument("slug", metavar="DASHBOARD")
@click.option("--team", default="", metavar="TEAM", help="Show ops, changes and causes of one team only.")
@click.option(
    "--minutes",
    default=5.0,
    show_default=True,
    type=FiniteNumber(0, 1440, min_open=True),
    help="Life of the token.",
)
@JSON
@HOME
def guest_token(slug: str, team: str, minutes: float, as_json: bool, folder: Path | None) -> None:
    """Print a token with which a page of yours shows DASHBOARD, such as opscope-start, in a frame."""
    from opscope.dashboards import asset_files
    from opscope.dashboards.guests import guest
    from opscope.dashboards.results import refuse_unknown_team

    home = _home(folder)
    made = guest(home, asset_files.read(), slug, team, minutes)
    if team and (served := home.served()) is not None:
        refuse_unknown_team(served.database_uri, team)
    if as_json:
        from opscope.wire.answer import print_answer

        print_answer(made)
    else:
        click.echo(f"{made.frame}\n{made.token}")


@dashboard.group()
def user() -> None:
    """Manage accounts besides `admin`."""


@user.command("add")
@click.argument("name")
@click.option(
    "--role",
    required=True,
    type=click.Choice(["viewer", "editor"]),
    help="A viewer sees the dashboards; an editor also makes charts and asks SQL.",
)
@click.option(
    "--team",
    default="",
    metavar="TEAM",
    help="Show this user the ops, changes and causes of one team only; rates, models and sentences are those of all.",
)
@click.option(
    "--password-stdin", is_flag=True, help="Read the password from stdin; without it, a password is generated."
)
@HOME
def add_user(name: str, role: str, team: str, password_stdin: bool, folder: Path | None) -> None:
    """Add the user NAME, or change the role, team and password of an existing one."""
    import secrets

    from opscope.dashboards import superset
    from opscope.dashboards.home import write_private

    home = _home(folder)
    if name == "admin" or not name.isprintable() or not name.strip():
        raise DashboardError("NAME", "a name other than `admin`", repr(name))
    if team and role != "viewer":
        raise DashboardError("--team", "a viewer", f"an {role}, who may ask any SQL", "--role viewer")
    password = sys.stdin.readline().rstrip("\n") if password_stdin else secrets.token_urlsafe(18)
    if not password:
        raise DashboardError("--password-stdin", "a password on stdin", "nothing")
    for line in superset.run(home, "users", name, role, team, stdin=password):
        if line.startswith("{"):
            teams = json.loads(line)["teams"]
            there = ", ".join(teams) or "opscope db owners"
            raise DashboardError("--team", "a team that owns something", repr(team), there)
        if line.startswith("step "):
            click.echo(line.split(" ", 2)[2])
    if not password_stdin:
        place = home.folder / f"password-{name.encode().hex() if not name.isalnum() else name}"
        place.unlink(missing_ok=True)
        write_private(place, password)
        click.echo(f"password in {place}")


@dashboard.command()
@click.argument("archive", type=click.Path(path_type=Path))
@HOME
def backup(archive: Path, folder: Path | None) -> None:
    """Write Superset's own database and keys to ARCHIVE, a zip file. The server may be running."""
    from opscope.dashboards.backup import backup as write

    write(_home(folder), archive)
    click.echo(f"{archive}: {archive.stat().st_size:,} bytes; only you can read it, because it contains keys")


@dashboard.command()
@click.argument("archive", type=click.Path(path_type=Path))
@HOME
def restore(archive: Path, folder: Path | None) -> None:
    """Replace Superset's own database and keys by those in ARCHIVE; the old ones are kept."""
    from opscope.dashboards import processes
    from opscope.dashboards.backup import restore as read

    home = _home(folder)
    if processes.running(home):
        raise DashboardError("opscope dashboard restore", "a stopped server", "a running one", "opscope dashboard down")
    replaced = read(home, archive)
    click.echo(f"restored {home.folder}" + (f"; the old files are in {replaced}" if replaced else ""))

"""The folders of a dashboard server: one for its own files, one in the cache for files that can be created again.

HOME/secret_key, admin_password   created at the first start, readable only by their owner
HOME/superset.sqlite              Superset's own database: users, saved work
HOME/served.json                  what the last `up` served, and how (may hold a database password)
HOME/processes.json               the servers that run now
HOME/imported                     digest of the bundle that was imported last
HOME/prepared.json                the Superset for which schema and built-in roles are up to date
HOME/bundle/                      the assets in Superset's own format, as last imported
HOME/alerts.json                  alerts and reports as last written to Superset's database
HOME/superset.log, artifacts.log, alerts.log
CACHE/superset-<digest>/          the virtual environment, by the digest of the pinned packages
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from opscope.base.atomic_write import write_whole
from opscope.base.digest import digest_of_sources, files_digest, source_files

ROOM = Path(__file__).parent
REQUIREMENTS, CONSTRAINTS = ROOM / "requirements.in", ROOM / "constraints.txt"


@dataclass(frozen=True)
class Served:
    """What `up` serves; superset_config.py reads it inside Superset."""

    database_uri: str
    """The results database as Superset's SQLAlchemy 1.4 names it."""
    shown_database: str
    """The same database for printing, without a password."""
    host: str
    port: int
    public_url: str
    """Public address of the server behind a proxy; if empty, host and port are the address."""
    artifact_url: str
    """Prefix of the addresses of run folders."""
    anonymous: bool
    """Whether visitors without an account see the dashboards."""
    wall: list[str] = field(default_factory=list)
    """Slugs of the dashboards that take turns at /wall/; empty if there is no such page."""
    embed: list[str] = field(default_factory=list)
    """Origins whose pages may show dashboards in a frame, to people with a guest token."""
    notes_uri: str = ""
    """The results database for writing notes, as Superset's SQLAlchemy 1.4 names it; empty if pages write none."""
    mail: dict[str, Any] = field(default_factory=dict)
    """Whom alerts and reports are sent to, and how (alerts.py); empty if they are off."""
    wide: list[str] = field(default_factory=list)
    """Names of charts that a telephone cannot show."""
    code: str = ""
    """Digest of the server's own code and packages: after an update of opscope another server has to start."""

    @property
    def local_url(self) -> str:
        """The server's address on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        return f"http://{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        return self.public_url or self.local_url


@dataclass(frozen=True)
class Home:
    """The two folders of one dashboard server."""

    folder: Path
    cache: Path

    @property
    def venv(self) -> Path:
        """Superset's virtual environment, one per set of pinned packages."""
        return self.cache / f"superset-{files_digest([REQUIREMENTS, CONSTRAINTS], digits=12)}"

    @property
    def python(self) -> Path:
        """Superset's interpreter."""
        return self.venv / "bin" / "python"

    @property
    def metadata(self) -> Path:
        """Superset's own database."""
        return self.folder / "superset.sqlite"

    @property
    def admin_password(self) -> Path:
        """The file with the password of the user `admin`."""
        return self.folder / "admin_password"

    @property
    def log(self) -> Path:
        """Superset's log."""
        return self.folder / "superset.log"

    @property
    def bundle(self) -> Path:
        """The assets in Superset's format."""
        return self.folder / "bundle"

    def code(self) -> str:
        """The digest of the code that runs inside Superset, and of Superset's packages."""
        return digest_of_sources(source_files(ROOM / "inside"), self.venv.name)

    def make(self) -> None:
        """Creates the folder, accessible only to its owner."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)

    def secret(self, name: str, size: int) -> bool:
        """Creates the file `name` with a secret of `size` random bytes; returns False if it already exists."""
        return write_private(self.folder / name, secrets.token_urlsafe(size))

    def read(self, name: str) -> dict[str, Any]:
        """Reads a JSON file of the folder; returns an empty map if there is none."""
        try:
            return json.loads((self.folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}

    def write(self, name: str, values: dict[str, Any]) -> None:
        """Writes a JSON file of the folder, whole or not at all, readable only by its owner."""
        write_whole(self.folder / name, json.dumps(values, indent=1), permissions=0o600)

    def private(self, folder: Path) -> None:
        """Makes a folder below this one accessible only to its owner, because a bundle may hold a database password."""
        folder.chmod(0o700)

    def forget_import(self) -> None:
        """Makes the next `up` import the bundle again."""
        for name in ("imported", "prepared.json"):
            (self.folder / name).unlink(missing_ok=True)

    def served(self) -> Served | None:
        """Returns what the last `up` served; None before the first."""
        values = self.read("served.json")
        names = {each.name for each in fields(Served)}
        return Served(**{name: value for name, value in values.items() if name in names}) if values else None

    def remember(self, served: Served) -> None:
        """Stores what is served, for Superset and for the other commands."""
        self.write("served.json", asdict(served) | {"local_url": served.local_url, "url": served.url})


def write_private(path: Path, text: str) -> bool:
    """Writes a file that only its owner may read; returns False if the file already exists."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return True

"""The folders of a dashboard server: one for its own files, one in the cache for what can be made again.

HOME/secret_key, admin_password   made at the first start, readable by their owner alone
HOME/superset.sqlite              Superset's own database: users, saved work
HOME/served.json                  what the last `up` served, and how (may hold a database password)
HOME/processes.json               what runs now
HOME/imported                     digest of what Superset's database was last brought to
HOME/prepared.json               for which Superset its schema and built-in roles are up to date
HOME/bundle/                      the assets in Superset's own format, as last imported
HOME/superset.log, artifacts.log
CACHE/superset-<digest>/          the virtual environment; the digest is of the pinned packages
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from opscope.base.atomic_write import write_whole
from opscope.base.digest import files_digest

ROOM = Path(__file__).parent
REQUIREMENTS, CONSTRAINTS = ROOM / "requirements.in", ROOM / "constraints.txt"


@dataclass(frozen=True)
class Served:
    """What `up` serves; superset_config.py reads it inside Superset."""

    database_uri: str
    """The results database as Superset's SQLAlchemy 1.4 names it."""
    shown_database: str
    """The same for people: without a password."""
    host: str
    port: int
    public_url: str
    """Address under which others reach it, behind a proxy; empty: host and port."""
    artifact_url: str
    """What run folders' addresses start with."""
    anonymous: bool
    """Whether visitors without an account see the dashboards."""

    @property
    def local_url(self) -> str:
        """Address on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        return f"http://{host}:{self.port}"

    @property
    def url(self) -> str:
        """Address to open."""
        return self.public_url or self.local_url


@dataclass(frozen=True)
class Home:
    """The two folders of one dashboard server."""

    folder: Path
    cache: Path

    @property
    def venv(self) -> Path:
        """Superset's virtual environment; another one for other pins."""
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
        """File with the password of the user `admin`."""
        return self.folder / "admin_password"

    @property
    def log(self) -> Path:
        """Superset's log."""
        return self.folder / "superset.log"

    @property
    def bundle(self) -> Path:
        """The assets in Superset's format."""
        return self.folder / "bundle"

    def make(self) -> None:
        """Makes the folder, for its owner alone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)

    def secret(self, name: str, size: int) -> bool:
        """Makes the file `name` with a secret of `size` random bytes; whether there was none."""
        return write_private(self.folder / name, secrets.token_urlsafe(size))

    def read(self, name: str) -> dict[str, Any]:
        """A JSON file of the folder; empty where there is none."""
        try:
            return json.loads((self.folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}

    def write(self, name: str, values: dict[str, Any]) -> None:
        """Writes a JSON file of the folder, whole or not at all, readable by its owner alone."""
        write_whole(self.folder / name, json.dumps(values, indent=1), permissions=0o600)

    def private(self, folder: Path) -> None:
        """Makes a folder below this one its owner's alone: a bundle names the database, maybe with its password."""
        folder.chmod(0o700)

    def forget_import(self) -> None:
        """Makes the next `up` import the bundle again."""
        for name in ("imported", "prepared.json"):
            (self.folder / name).unlink(missing_ok=True)

    def served(self) -> Served | None:
        """What the last `up` served; None before the first."""
        values = self.read("served.json")
        return Served(**values) if values else None

    def remember(self, served: Served) -> None:
        """Keeps what is served, for Superset and for the other commands."""
        self.write("served.json", asdict(served))


def write_private(path: Path, text: str) -> bool:
    """Writes a file that only its owner may read, unless it is there; whether it was not."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return True

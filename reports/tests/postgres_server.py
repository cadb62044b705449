"""A real PostgreSQL server for tests: started once a process, on 127.0.0.1, in a folder of its own."""

from __future__ import annotations

import atexit
import functools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

INSTALL = "apt-get install postgresql"


def programs() -> Path | None:
    """The folder of the newest server's programs; None where there is none."""
    initdbs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if initdbs:
        return initdbs[-1].parent
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


@dataclass(frozen=True)
class Server:
    """A running server."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        """Its URL without a database."""
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}"

    def run(self, program: str, *words: str) -> None:
        """Runs a program of the server; PostgreSQL refuses root, so root runs it as `postgres`."""
        switch = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        command = [*switch, str((programs() or Path()) / program), *words]
        subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start(self) -> None:
        """Starts it and waits until it answers."""
        options = f"-p {self.port} -k {self.folder} -c fsync=off -c listen_addresses=127.0.0.1"
        data, log = str(self.folder / "data"), str(self.folder / "log")
        self.run("pg_ctl", "-D", data, "-o", options, "-l", log, "-w", "start")

    def kill(self) -> None:
        """Stops it as a crash would: no connection is ended in order."""
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "stop")

    def role_with_password(self, role: str, password: str) -> None:
        """Adds a role that the server lets in with its password only; everybody else stays trusted."""
        engine = sa.create_engine(f"{self.url}/postgres", isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD '{password}'"))
        engine.dispose()
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        self.run("pg_ctl", "-D", str(self.folder / "data"), "reload")

    def restore(self, url: str, dump: Path) -> None:
        """Fills an empty database from what `pg_dump` wrote, also where the server may not read it."""
        command = [
            str((programs() or Path()) / "psql"),
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            url.replace("+psycopg", ""),
        ]
        with dump.open("rb") as statements:
            subprocess.run(command, stdin=statements, stdout=subprocess.DEVNULL, check=True)

    def dump(self, url: str, file: Path) -> None:
        """Writes a database as statements that `restore` reads."""
        command = [
            str((programs() or Path()) / "pg_dump"),
            "--no-owner",
            "--no-privileges",
            url.replace("+psycopg", ""),
        ]
        file.write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"t{uuid.uuid4().hex[:16]}"
        engine = sa.create_engine(f"{self.url}/postgres", isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return f"{self.url}/{name}"


def new_server() -> Server:
    """A fresh server; the test is skipped, with what to install, where there is none or no driver for it."""
    pytest.importorskip("psycopg", reason="no driver: pip install 'opscope[postgres]'")
    if programs() is None:
        pytest.skip(f"no PostgreSQL server: {INSTALL}")
    # Below /tmp: the server's account may not reach into the folders of tests, and sockets need short paths.
    folder = Path(tempfile.mkdtemp(prefix="opscope-postgres-", dir="/tmp"))
    folder.chmod(0o755)
    if os.geteuid() == 0:
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("root without an account `postgres`")
        os.chown(folder, account.pw_uid, account.pw_gid)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server(folder, port)
    server.run("initdb", "-D", str(folder / "data"), "-A", "trust", "-U", "postgres", "--no-sync")
    server.start()
    atexit.register(remove, server)
    return server


def remove(server: Server) -> None:
    """Stops a server, if it runs, and removes its folder."""
    if (server.folder / "data" / "postmaster.pid").exists():
        server.kill()
    shutil.rmtree(server.folder, ignore_errors=True)


@functools.cache
def shared() -> Server:
    """The server that the tests of one process share."""
    return new_server()

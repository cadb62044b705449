"""Hosts on a bridge: namespaces of this machine, which end with the process that holds them, however that ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from ci.three_hosts.init import OWN, ROOT

NETWORK = "10.77.0"
PROGRAMS = ("unshare", "nsenter", "ip", "mount")
SPACES = ("--net", "--mount", "--uts", "--ipc", "--cgroup", "--pid", "--fork", "--kill-child", "--mount-proc")


REFUSED = re.compile("not permitted|denied|No space left", re.IGNORECASE)
"""What is printed where namespaces are not permitted, or none may be made any more."""


class NotPermittedError(Exception):
    """This machine lets nobody make such hosts here; the text says why."""


class Network:
    """A bridge in a network namespace of its own, and the hosts on it."""

    def __init__(self, names: Sequence[str]) -> None:
        """Raises NotPermittedError."""
        self._ends = contextlib.ExitStack()
        own_user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
        for program in PROGRAMS:
            if shutil.which(program) is None:
                raise NotPermittedError(f"no program {program}")
        try:
            self._holder = self._held(["unshare", *own_user, "--net", "sh", "-c", "echo ready; exec cat"])
            self._inside = ["nsenter", "--target", str(self._holder.pid), "--net", *(["--user"] if own_user else [])]
            self.ip("link", "add", "bridge", "type", "bridge")
            self.ip("link", "set", "bridge", "up")
            self.addresses = {name: f"{NETWORK}.{number}" for number, name in enumerate(names, 1)}
            known = {"localhost": "127.0.0.1", **self.addresses}
            hosts_file = "".join(f"{address} {name}\n" for name, address in known.items())
            self.hosts = {name: self._host(name, hosts_file) for name in names}
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all hosts, and all that they consist of."""
        self._ends.close()

    def ip(self, *words: str) -> str:
        """What ip(8) prints in the bridge's namespace. Raises NotPermittedError."""
        return _output([*self._inside, "ip", *words])

    def bytes_of(self, name: str) -> tuple[int, int]:
        """Bytes that a host has sent and received."""
        counts = json.loads(self.ip("-json", "-statistics", "link", "show", f"to-{name}"))[0]["stats64"]
        return counts["rx"]["bytes"], counts["tx"]["bytes"]

    def cut_off(self, name: str) -> None:
        """Takes the cable of a host out of the bridge: its processes live, and nobody hears that it is gone."""
        self.ip("link", "set", f"to-{name}", "nomaster")

    def kill(self, name: str) -> None:
        """Switches a host off: nothing of it is left, and no connection of it was closed."""
        self.cut_off(name)
        self.hosts[name].kill()

    def _host(self, name: str, hosts_file: str) -> Host:
        command = ["unshare", *SPACES, sys.executable, "-m", "ci.three_hosts.init", name, hosts_file]
        host = Host(name, self._held([*self._inside, *command]).pid)
        self.ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", str(host.init))
        self.ip("link", "set", f"to-{name}", "master", "bridge", "up")
        for words in ("link set lo up", f"address add {self.addresses[name]}/24 dev eth0", "link set eth0 up"):
            _output(host.command("ip", *words.split()))
        return host

    def _held(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Starts what holds namespaces: it ends once its standard input does, so also where this process is killed."""
        held = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._ends.callback(_end, held)
        assert held.stdout is not None
        if (first := held.stdout.readline()) != "ready\n":
            raise _error(command, first + held.stdout.read())
        return held


class Host:
    """One host; `init` is the number of its first process."""

    def __init__(self, name: str, unshare: int) -> None:
        self.name = name
        self.init = int(Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()[0])
        self.home = Path(OWN[0]) / name

    def command(self, *words: str | Path, **environment: str | Path) -> list[str]:
        """The command that runs words on this host, in its folder `work`, with a new environment."""
        own = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(Path.home()),
            "PYTHONPATH": str(self.home / "opscope"),
            **environment,
        }
        variables = [f"{name}={value}" for name, value in own.items()]
        enter = ["nsenter", "--target", str(self.init), "--all", "--", "env", "--ignore-environment"]
        return [*enter, f"--chdir={self.home / 'work'}", *variables, *map(str, words)]

    def path(self, inside: str | Path) -> Path:
        """Where a path of this host is for us."""
        return Path(f"/proc/{self.init}/root", str(inside).lstrip("/"))

    @contextlib.contextmanager
    def running(self, log: IO[bytes], *words: str | Path, **environment: str | Path) -> Iterator[subprocess.Popen[Any]]:
        """A program that runs on this host meanwhile."""
        process = subprocess.Popen(
            self.command(*words, **environment), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()

    def kill(self) -> None:
        """Kills the first process, and with it all others."""
        os.kill(self.init, signal.SIGKILL)


def _end(held: subprocess.Popen[str]) -> None:
    held.kill()
    held.communicate()


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode:
        raise _error(command, done.stderr)
    return done.stdout


def _error(command: Sequence[str], printed: str) -> Exception:
    """What a command has failed with."""
    text = f"{' '.join(command)}: {printed.strip()[-300:]}"
    return NotPermittedError(text) if REFUSED.search(printed) else RuntimeError(text)

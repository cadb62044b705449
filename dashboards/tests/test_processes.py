"""Servers that outlive the command that started them: found again, stopped, and never another program's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from opscope.dashboards import processes
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import Home

SERVER = """
import http.server, sys
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    one = Home(tmp_path / "home", tmp_path / "cache")
    one.make()
    return one


def begin(home: Home, name: str, *code: str) -> int:
    command = [sys.executable, "-I", "-c", *code]
    return processes.start(home, name, command, os.environ, home.log)


def test_a_server_is_started_found_and_stopped(home: Home) -> None:
    port = processes.free_port("127.0.0.1")
    pid = begin(home, "web", SERVER, str(port))
    processes.wait_until_it_answers(home, "web", f"http://127.0.0.1:{port}/", home.log, 20)
    assert processes.running(home) == {"web": pid}
    with pytest.raises(DashboardError, match=r"--port: expected a free port on 127\.0\.0\.1, got"):
        processes.check_port("127.0.0.1", port, "--port")
    assert processes.stop(home) == ["web"]
    assert processes.running(home) == {}
    assert processes.stop(home) == []
    processes.check_port("127.0.0.1", port, "--port")


def test_a_server_that_ends_is_reported_with_its_log(home: Home) -> None:
    begin(home, "web", "raise SystemExit('no such thing')")
    with pytest.raises(DashboardError, match=r"expected to be served, got a server that ended; try the end of .*log"):
        processes.wait_until_it_answers(home, "web", "http://127.0.0.1:9/", home.log, 20)
    assert "no such thing" in home.log.read_text()


def test_one_that_ignores_the_signal_is_killed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE", 0.3)
    begin(home, "web", STUBBORN)
    while "up" not in home.log.read_text():
        pass
    assert processes.stop(home) == ["web"]
    assert processes.CHILDREN[-1].wait(10) == -9
    assert processes.running(home) == {}


def test_a_number_that_another_program_has_now_is_left_alone(home: Home) -> None:
    other = subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(60)"])
    try:
        home.write(processes.FILE, {"superset": {"pid": other.pid, "started": 1.0}})
        assert processes.running(home) == {}
        assert processes.stop(home) == []
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 8088), ("127.0.0.1", 70000)])
def test_an_address_that_is_not_ours_is_refused(host: str, port: int) -> None:
    with pytest.raises(DashboardError, match=f"--port: expected a free port on {host}, got {port}"):
        processes.check_port(host, port, "--port")


def test_a_free_port_is_free() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", processes.free_port("127.0.0.1")))

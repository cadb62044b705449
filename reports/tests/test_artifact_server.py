"""Run folders over HTTP: what is there is read as text, and nothing else of the machine is reached."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from opscope.harness.record.errors import InputError
from opscope.reports.artifact_server import ArtifactServer, Runs, inside
from opscope.reports.tests.sample_run import make_run

RUN = "20261120-120000-demo"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    run = make_run(root / "called otherwise")
    files = {
        "log.txt": b"hello \xe2\x9c\x93\n",
        "page.html": b"<script>alert(1)</script>",
        "op.mlirbc": b"ML\xefR\0\1",
        "a b <c>.txt": b"spaces",
        "big.txt": b"x" * 200_000 + "✓".encode(),
    }
    (run / "artifacts" / "0a").mkdir(parents=True)
    for name, content in files.items():
        (run / "artifacts" / "0a" / name).write_bytes(content)
    (run / "report.html").write_text("<!doctype html><p>report")
    (root / "secret.txt").write_text("secret")
    (run / "artifacts" / "out").symlink_to(root / "secret.txt")
    (run / "artifacts" / "up").symlink_to("..")
    os.mkfifo(run / "artifacts" / "pipe")
    make_run(root / "lanes" / "one", run_id="lane-1")
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[ArtifactServer]:
    with ArtifactServer("127.0.0.1", 0, Runs([root]), ["team.example"]) as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.01,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def ask(
    server: ArtifactServer, path: str, method: str = "GET", host: str | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one request, its path sent as it is written."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"127.0.0.1:{server.server_address[1]}")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("path", "kind", "body"),
    [
        ("artifacts/0a/log.txt", "text/plain; charset=utf-8", b"hello \xe2\x9c\x93\n"),
        ("artifacts/0a/page.html", "text/plain; charset=utf-8", b"<script>alert(1)</script>"),
        ("artifacts/0a/op.mlirbc", "application/octet-stream", b"ML\xefR\0\1"),
        ("artifacts/0a/a%20b%20%3Cc%3E.txt", "text/plain; charset=utf-8", b"spaces"),
        ("report.html", "text/html; charset=utf-8", b"<!doctype html><p>report"),
    ],
)
def test_files_are_sent_with_a_readable_type(server: ArtifactServer, path: str, kind: str, body: bytes) -> None:
    status, headers, got = ask(server, f"/{RUN}/{path}")
    assert (status, headers["Content-Type"], got) == (200, kind, body)
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"].startswith("sandbox")
    assert ("Content-Disposition" in headers) is (kind == "application/octet-stream")
    status, headers, got = ask(server, f"/{RUN}/{path}", "HEAD")
    assert (status, headers["Content-Length"], got) == (200, str(len(body)), b"")


def test_requests_of_a_kept_connection_do_not_wait_for_each_other(server: ArtifactServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    seconds = []
    try:
        for _ in range(15):
            began = time.perf_counter()
            connection.request("GET", f"/{RUN}/artifacts/0a/log.txt")
            assert connection.getresponse().read() == b"hello \xe2\x9c\x93\n"
            seconds.append(time.perf_counter() - began)
    finally:
        connection.close()
    assert statistics.median(seconds) < 0.03  # 0.044 where the body waits for an acknowledgement


def test_a_long_log_is_whole_text(server: ArtifactServer) -> None:
    status, headers, got = ask(server, f"/{RUN}/artifacts/0a/big.txt")
    assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert len(got) == 200_003


@pytest.mark.parametrize(
    "path",
    [
        f"/{RUN}/../secret.txt",
        f"/{RUN}/%2e%2e/secret.txt",
        f"/{RUN}/..%2fsecret.txt",
        f"/{RUN}//etc/passwd",
        f"/{RUN}/artifacts/out",
        f"/{RUN}/artifacts/up/../../secret.txt",
        f"/{RUN}/artifacts/pipe",
        "/../secret.txt",
        "/secret.txt",
        "/nowhere/x",
        f"/{RUN}/none.txt",
        f"/{RUN}/%00",
        f"/{RUN}/%ff",
        "/lanes/one/run.json",
        f"/{RUN}/artifacts/up/up/up/../secret.txt",
        f"/{RUN}/%252e%252e/secret.txt",
        f"/{RUN}/..\\secret.txt",
    ],
)
def test_nothing_outside_of_a_run_is_reached(server: ArtifactServer, path: str) -> None:
    status, headers, got = ask(server, path)
    assert status in (400, 404)
    assert b"secret\n" not in got
    assert b"root:" not in got
    assert headers["Content-Type"].startswith("text/plain")


def test_a_link_inside_a_run_stays_inside(server: ArtifactServer) -> None:
    assert ask(server, f"/{RUN}/artifacts/up/artifacts/0a/log.txt")[0] == 200


def test_a_run_in_a_folder_of_lanes_is_found(server: ArtifactServer) -> None:
    assert ask(server, "/lane-1/run.json")[0] == 200


def test_a_run_that_comes_later_is_found(server: ArtifactServer, root: Path) -> None:
    assert ask(server, "/late/run.json")[0] == 404
    make_run(root / "late-folder", run_id="late")
    assert ask(server, "/late/run.json")[0] == 200


def test_folder_lists_escape_names(server: ArtifactServer) -> None:
    status, headers, got = ask(server, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert f'href="{RUN}/"'.encode() in got
    status, headers, _ = ask(server, f"/{RUN}/artifacts/0a")
    assert (status, headers["Location"]) == (301, f"/{RUN}/artifacts/0a/")
    got = ask(server, f"/{RUN}/artifacts/0a/")[2]
    assert b"a b &lt;c&gt;.txt" in got
    assert b"<c>" not in got


def test_a_file_whose_name_is_no_text_is_listed_and_sent(server: ArtifactServer, root: Path) -> None:
    folder = root / "called otherwise" / "artifacts" / "0b"
    folder.mkdir()
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt")).write_text("coffee")
    status, _, body = ask(server, f"/{RUN}/artifacts/0b/")
    assert (status, b'<a href="caf%E9.txt">caf\\xe9.txt</a>' in body) == (200, True), body
    assert ask(server, f"/{RUN}/artifacts/0b/caf%E9.txt")[::2] == (200, b"coffee")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_the_server_only_reads(server: ArtifactServer, method: str) -> None:
    assert ask(server, f"/{RUN}/report.html", method)[0] == 501


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:1", 200), ("team.example", 200), ("[::1]:80", 200), ("evil.example", 421), ("127.0.0.1.evil.io", 421)],
)
def test_only_its_own_names_reach_the_server(server: ArtifactServer, host: str, status: int) -> None:
    assert ask(server, "/healthy", host=host)[0] == status


def test_a_taken_port_is_one_line(server: ArtifactServer) -> None:
    with pytest.raises(InputError, match=r"opscope artifacts serve: expected a free port on 127\.0\.0\.1, got"):
        ArtifactServer("127.0.0.1", server.server_address[1], Runs([]))


def test_a_run_folder_that_is_a_link_is_served_from_where_it_is(tmp_path: Path, root: Path) -> None:
    (tmp_path / "linked").symlink_to(root / "called otherwise")
    folder = Runs([tmp_path]).folder(RUN)
    assert folder is not None
    assert inside(folder, ["report.html"]) == (root / "called otherwise" / "report.html").resolve()


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--wait-for-roots", "/not/there/yet")], ids=["there", "not there yet"])
def test_the_command_serves_on_loopback_until_sigterm(root: Path, words: tuple[str, ...]) -> None:
    """A host of dashboards may have a database and no run yet."""
    command = [sys.executable, "-m", "opscope.harness.cli.main", "artifacts", "serve", "--port", "0"]
    command += words or [str(root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:")
        port = int(line.split("/")[2].split(":")[1])
        with socket.create_connection(("127.0.0.1", port)) as one:
            one.sendall(b"GET /healthy HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert one.recv(100).startswith(b"HTTP/1.1 200")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_client_that_leaves_is_no_fault(server: ArtifactServer, capfd: pytest.CaptureFixture[str]) -> None:
    big = f"GET /{RUN}/artifacts/0a/big.txt HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    for _ in range(20):
        with socket.create_connection(server.server_address[:2]) as client:
            client.sendall(big * 20)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # leaves by a reset
    assert ask(server, "/healthy")[0] == 200
    deadline = time.monotonic() + 20
    while any("process_request_thread" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert capfd.readouterr().err == ""

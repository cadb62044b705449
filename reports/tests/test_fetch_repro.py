"""`opscope repro ID --from URL`: a real artifact server, and one that sends what no repro folder has."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from opscope.harness.cli.main import main
from opscope.harness.record.stages import Status
from opscope.harness.tests import run_folder
from opscope.harness.tests.run_folder import NAMES
from opscope.harness.triage import bundle
from opscope.reports.artifact_server import ArtifactServer, Runs

OP = list(NAMES)[1]


@contextmanager
def serving(server: HTTPServer) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def run_with_repro(folder: Path) -> Path:
    run_dir = run_folder.write(folder / "runs" / "one")
    repro = run_dir / "artifacts" / OP / "repro-null"
    (repro / "inputs").mkdir(parents=True)
    (row,) = (row for row in run_folder.store.read_manifest(run_dir)[1] if row.op_id == OP)
    failure = bundle.Failure(status=Status.COMPILE_FAILED, message="no [dots] here")
    stored = bundle.Repro(row=row, options=bundle.Options(backend="null"), failure=failure, versions={"jax": "1"})
    (repro / bundle.FILE).write_text(stored.model_dump_json())
    (repro / "run.sh").write_text("#!/bin/sh\n")
    (repro / "inputs" / "0.npy").write_bytes(os.urandom(1 << 17))
    return run_dir


def test_the_folder_comes_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = run_with_repro(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with serving(ArtifactServer("127.0.0.1", 0, Runs([tmp_path / "runs"]))) as url:
        for words in (["--from", url], ["--from", f"{url}/", "--out", "mine"]):
            with pytest.raises(SystemExit) as ended:
                main(["repro", OP, *words])
            assert not ended.value.code
            folder = Path(capsys.readouterr().out.strip())
            original = run_dir / "artifacts" / OP / "repro-null"
            for path in original.rglob("*"):
                copy = folder / path.relative_to(original)
                assert copy.is_dir() if path.is_dir() else copy.read_bytes() == path.read_bytes()
            assert os.access(folder / "run.sh", os.X_OK)
        for words, expected in (
            (["0" * 16, "--from", url], f"a repro folder of {'0' * 16} at {url}, got none in 1 run"),
            ([OP, "--run", "other", "--from", url], f"in run other at {url}, got none"),
            (
                [OP, "--from", "nothing"],
                "--from: expected http://HOST:PORT of an artifact server or the URL of a database, got nothing",
            ),
        ):
            with pytest.raises(SystemExit) as ended:
                main(["repro", *words])
            assert ended.value.code == 2
            assert expected in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["repro", OP, "--from", url])
    assert "expected an artifact server" in capsys.readouterr().err


class Hostile(BaseHTTPRequestHandler):
    """Lists a file outside of the folder."""

    def do_GET(self) -> None:
        names = {"/": "one/", f"/one/artifacts/{OP}/": "repro-null/"}
        body = f'<a href="{names.get(self.path, "..%2f..%2fevil")}">x</a>'.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_no_name_leads_out_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(HTTPServer(("127.0.0.1", 0), Hostile)) as url, pytest.raises(SystemExit) as ended:
        main(["repro", OP, "--from", url])
    assert ended.value.code == 2
    assert "got '../../evil'" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*evil*"))
    assert not (tmp_path / ".opscope" / "repro" / OP).exists()

"""Secrets on a command line: no error repeats them, and nothing that a run writes has them."""

from __future__ import annotations

import pytest

from opscope.harness.record import store
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.own_backend import own_backend

SECRET = "hunter2x"
OWN = own_backend(
    "own",
    """
    token = job.options.of_backend("own")["api_token"]
    raise StageError(f"refused api_token={token}" if token == "***" else f"cannot compile, api_token={token}")
    """,
).replace('    name = "own"', '    name = "own"\n    takes_options = True')


def test_an_error_repeats_no_login(place: Place) -> None:
    urls = (f"http://me:{SECRET}@ci:1/", f"http://{SECRET}@ci:1/", f"ftp://ci/?access_token={SECRET}")
    for done in place.one_after_another(*(place.sweep("--artifact-url", url) for url in urls)):
        assert (done.code, done.err.count("\n")) == (2, 1), done.out + done.err
        assert "***" in done.err
        assert SECRET not in done.out + done.err


@pytest.mark.slow
def test_what_a_run_writes_has_no_secret_and_who_goes_on_names_it_again(place: Place) -> None:
    (place.folder / "own.py").write_text(OWN)
    option = ("--backend-option", f"api_token={SECRET},level=2")
    done = place.pytest(*option, "--budget", "0.001s", "--repro-size", "1G", backend="own.py", report=True)
    assert done.code == 5, done.out + done.err
    (run,) = place.runs()
    stored = store.load_run(run)
    assert stored.record.origin.options["backend_option"] == "api_token=***,level=2"
    (line,) = place.pytest("--backend-option", f"{SECRET}=a=b,api_token={SECRET}", backend="own.py").err.splitlines()
    assert "[BACKEND:]NAME=VALUE" in line
    again = ("pytest", "--op-by-op", "--resume", str(run))
    without = place.run(*again)
    assert without.code == 2
    assert "--backend-option: expected the value of api_token, got ***" in without.err
    assert "try --backend-option api_token=..." in without.err
    done = place.run(*again, *option)
    assert done.code == 1, done.out + done.err
    (error,) = {test.error_message for test in store.load_run(run).tests}
    assert "cannot compile, api_token=***" in (error or "")
    files = [path for path in (place.folder / ".opscope").rglob("*") if path.is_file()]
    assert {"run.json", "report.html", "opscope.sqlite"} <= {path.name for path in files}
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in done.out + done.err

"""Where a run came from, and that no password gets into it."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from opscope.harness.record import origin as module
from opscope.harness.record.masking import mask_url, masked
from opscope.harness.record.origin import ci_job, git_state, origin


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgresql://me:s3cr:t@host/db", "postgresql://me:***@host/db"),
        ("postgresql+psycopg://me:p%40ss@host:5432/db?x=1", "postgresql+psycopg://me:***@host:5432/db?x=1"),
        ("--to=mysql://u:p@h/d and more", "--to=mysql://u:***@h/d and more"),
        ("sqlite:////tmp/x.sqlite", "sqlite:////tmp/x.sqlite"),
        ("https://host/p?token=abc&x=1", "https://host/p?token=***&x=1"),
        ("postgresql://host/db?user=a&password=geheim", "postgresql://host/db?user=a&password=***"),
        ("postgresql://host/db?sslpassword=geheim&sslkey=k.pem", "postgresql://host/db?sslpassword=***&sslkey=k.pem"),
        ("postgresql://host/db?ssl%70assword=geheim", "postgresql://host/db?ssl%70assword=***"),
        ("https://host/p?x=1&Access_Token=abc#end", "https://host/p?x=1&Access_Token=***#end"),
        ("postgresql://:only@host/db", "postgresql://:***@host/db"),
        ("postgresql://u:p@ss@host/db", "postgresql://u:***@host/db"),
    ],
)
def test_passwords_are_masked(text, masked):
    assert mask_url(text) == masked


def test_an_origin_says_where_and_what():
    made = origin(["pytest", "--publish", "postgresql://me:geheim@h/d"], {"publish": "x://a:geheim@h", "seed": 3})
    assert "geheim" not in made.model_dump_json()
    assert made.options == {"publish": "x://a:***@h", "seed": 3}
    assert made.versions["jax"] == metadata.version("jax")
    assert made.python == sys.version.split()[0]
    assert made.host
    assert made.cpu


def test_git_state_follows_the_checkout(tmp_path):
    def git(*words):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert git_state(tmp_path / "none") == ("", False, "")
    git("init", "-b", "trunk")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "first")
    assert git_state(tmp_path) == (git("rev-parse", "HEAD"), False, "trunk")
    (tmp_path / "a").write_text("2")
    assert git_state(tmp_path)[1] is True


def test_a_git_that_hangs_is_given_up_after_ten_seconds(tmp_path, monkeypatch):
    waited = []

    def run(command, timeout, **_):
        waited.append(timeout)
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    assert (git_state(tmp_path), waited) == (("", False, ""), [10])


def test_the_ci_job_is_githubs():
    assert ci_job({}) == ("", "", "")
    job = ci_job(
        {
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKFLOW": "nightly",
            "GITHUB_JOB": "sweep",
            "GITHUB_RUN_ID": "7",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_REPOSITORY": "a/b",
            "GITHUB_REF_NAME": "main",
            "GITHUB_RUN_ATTEMPT": "2",
        }
    )
    assert job == ("nightly/sweep/7", "https://github.com/a/b/actions/runs/7/attempts/2", "main")
    ci = {"GITHUB_ACTIONS": "true", "GITHUB_JOB": "sweep", "GITHUB_HEAD_REF": "mine", "GITHUB_REF_NAME": "2/merge"}
    assert ci_job(ci) == ("sweep", "", "mine")
    assert ci_job(ci | {"GITHUB_SERVER_URL": "https://h", "GITHUB_RUN_ATTEMPT": "2"})[1] == ""
    assert ci_job(ci | {"GITHUB_REPOSITORY": "a/b"})[1] == ""
    run = {"GITHUB_SERVER_URL": "https://h", "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "7"}
    assert ci_job(ci | run)[1] == ci_job(ci | run | {"GITHUB_RUN_ATTEMPT": "1"})[1] == "https://h/a/b/actions/runs/7"


def test_a_checkout_without_a_branch_gets_it_from_the_ci(monkeypatch):
    monkeypatch.setattr(module, "ci_job", lambda environment: ("job", "url", "ci-branch"))
    backend = Path("elsewhere")
    states = {module.HOME: ("1" * 40, True, ""), backend: ("2" * 40, False, "b")}
    monkeypatch.setattr(module, "git_state", states.get)
    made = origin([], {}, backend)
    assert (made.revision, made.dirty, made.branch) == ("1" * 40, True, "ci-branch")
    assert (made.backend_revision, made.backend_dirty, made.ci_job, made.ci_url) == ("2" * 40, False, "job", "url")
    states[module.HOME] = ("1" * 40, False, "own")
    made = origin([], {})
    assert (made.branch, made.backend_revision, made.backend_dirty) == ("own", "1" * 40, False)


def test_options_are_stored_as_json_has_them():
    value = {1: [True, 2, 0.5, None], "path": Path("a/b"), "urls": ("x://a:b@c",)}
    assert masked(value) == {"1": [True, 2, 0.5, None], "path": "a/b", "urls": ["x://a:***@c"]}
    assert masked({"x"}) == ["x"]


def test_a_processor_is_named_by_the_system_or_else_by_python(tmp_path, monkeypatch):
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(module, "Path", lambda name: file)
    monkeypatch.setattr("platform.machine", lambda: "x86")
    for text, processor, name in (
        ("flags: a b\nmodel name\t: A CPU: 3 GHz\n", "p", "A CPU: 3 GHz"),
        ("flags: a\n", "p", "p"),
        (None, "", "x86"),
    ):
        file.unlink(missing_ok=True) if text is None else file.write_text(text)
        monkeypatch.setattr("platform.processor", lambda processor=processor: processor)
        assert module.cpu_name.__wrapped__() == name
    assert module.versions(["pytest", "no-such-package"]) == {"pytest": metadata.version("pytest")}

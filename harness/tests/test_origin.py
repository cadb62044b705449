"""Where a run came from, and that no password gets into it."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

from opscope.harness.record.origin import ci_job, git_state, mask_url, origin


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgresql://me:s3cr:t@host/db", "postgresql://me:***@host/db"),
        ("postgresql+psycopg://me:p%40ss@host:5432/db?x=1", "postgresql+psycopg://me:***@host:5432/db?x=1"),
        ("--to=mysql://u:p@h/d and more", "--to=mysql://u:***@h/d and more"),
        ("sqlite:////tmp/x.sqlite", "sqlite:////tmp/x.sqlite"),
        ("https://host/p?token=abc&x=1", "https://host/p?token=***&x=1"),
        ("postgresql://host/db?user=a&password=geheim", "postgresql://host/db?user=a&password=***"),
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


def test_the_ci_job_is_githubs():
    assert ci_job({}) == ("", "", "")
    job = ci_job(
        {
            "GITHUB_ACTIONS": "true", "GITHUB_WORKFLOW": "nightly", "GITHUB_JOB": "sweep", "GITHUB_RUN_ID": "7",
            "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "a/b", "GITHUB_REF_NAME": "main",
            "GITHUB_RUN_ATTEMPT": "2",
        }
    )  # fmt: skip
    assert job == ("nightly/sweep/7", "https://github.com/a/b/actions/runs/7/attempts/2", "main")


def test_versions_cost_no_import():
    code = (
        "import sys; from opscope.harness.record.origin import origin; origin([], {}); sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

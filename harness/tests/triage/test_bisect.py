"""Bisection over real git repositories: a small backend that breaks at a known commit, and opscope's own with a bug."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from opscope.base.tests.captured import captured
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpTest
from opscope.harness.tests.faulty_backends import hidden
from opscope.harness.tests.triage.runs import binary, run
from opscope.harness.triage import bundle, narrowing
from opscope.harness.triage.bisect import AS_IT_IS, AsRecorded, Bisected, Built, Op
from opscope.harness.triage.bisect import bisect as bisected

pytestmark = pytest.mark.slow

MINE = Built(backend="tools/mine.py")
ROOT = Path(__file__).parents[3]


def git(folder: Path, *words: str) -> str:
    """What git says."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = captured(["git", *identity, *words], cwd=folder, check=True)
    return done.stdout.strip()


def bisect(folder: Path, repo: Path, good: str, bad: str, built: Built = AS_IT_IS) -> Bisected:
    """Where the op of a repro folder fails as recorded."""
    return bisected(Op(folder), AsRecorded(bundle.read(folder).failure), repo, good, bad, built)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is kept in a folder of the test."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory):
    """A repository of eight commits, the fifth with the bug, the fourth broken otherwise; a repro folder."""
    folder = tmp_path_factory.mktemp("bisect")
    repo = folder / "repo"
    (repo / "tools").mkdir(parents=True)
    git(repo, "init", "-q", "-b", "main")
    (repo / ".gitignore").write_text("__pycache__/\n")
    commits = []
    for number in range(8):
        rule = "False" if number < 4 else "op.shapes[0][-1] % 32 != 0"
        hidden.write(repo / "tools", "mine", rule)
        if number == 3:
            (repo / "tools" / "mine.py").write_text("this does not build\n")
        (repo / "number").write_text(f"{number}\n")
        git(repo, "add", "-A")
        git(repo, "commit", "-qm", f"commit {number}")
        commits.append(git(repo, "rev-parse", "HEAD"))
    run_dir, (test,) = run(folder, binary("add", "4x40xf32"), str(repo / "tools" / "mine.py"))
    return repo, commits, narrowing.folder_of(test.op_id, run_dir, "test")


def test_the_first_bad_commit_of_a_backend(history) -> None:
    repo, commits, folder = history
    outcome = bisect(folder, repo, commits[0], "main", MINE)
    # The commit before it cannot be built: either may be the first bad one, and git says so.
    assert outcome.candidates == (commits[3], commits[4])
    outcome = bisect(folder, repo, commits[0], "main", replace(MINE, build="! grep -q 3 number"))
    assert commits[4] in outcome.candidates
    assert len(outcome.candidates) == 2
    assert git(repo, "status", "--porcelain") == "", "the user's checkout stays as it is"
    assert git(repo, "worktree", "list").count("\n") == 0


def test_revisions_that_are_not_what_they_are_called(history) -> None:
    repo, commits, folder = history
    for good, bad, outcome in (
        (commits[5], "main", "--good: expected a revision at which the op does not fail so"),
        (commits[0], commits[1], "--bad: expected a revision at which the op fails as recorded"),
        ("nothing", "main", "--good: expected a revision of"),
        (commits[6], commits[0], "--good: expected an ancestor of --bad"),
    ):
        with pytest.raises(InputError) as refused:
            bisect(folder, repo, good, bad, MINE)
        assert outcome in str(refused.value)
    with pytest.raises(InputError, match="--repo: expected a git repository"):
        bisect(folder, folder, "a", "b")


def test_a_bug_planted_in_opscope_itself(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(clone)], check=True)
    good = git(clone, "rev-parse", "HEAD")
    table = clone / "simulator" / "kernels" / "eltwise.py"
    commits = []
    for number, bug in enumerate((False, True, False)):
        if bug:
            api = clone / "simulator" / "api.py"
            api.write_text(
                api.read_text() + "\n\ndef _planted(*_: object, **__: object) -> None:\n"
                "    raise DeviceError('planted bug')\n\n\n"
                "Device.load = Device.load_decoded = _planted\n"
            )
        table.write_text(table.read_text() + f"# {number}\n")
        git(clone, "commit", "-qam", f"change {number}")
        commits.append(git(clone, "rev-parse", "HEAD"))
    _, tests = run(tmp_path, binary("add", "4x8xf32"), "reference")
    assert tests[0].success
    folder = tmp_path / "repro"
    _, (bad,) = run(tmp_path / "other", binary("add", "4x8xf32"), hidden.write(tmp_path, "any", "True"))
    shutil.copytree(narrowing.folder_of(bad.op_id, tmp_path / "other" / "run", "test"), folder)
    repro = bundle.read(folder)
    # As the run at the bad revision would have recorded it.
    env_run = captured(
        [sys.executable, "-P", "-m", "opscope.harness.triage.replay", str(folder), "--backend", "reference", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(clone)},
    )
    assert env_run.stdout, env_run.stderr
    test = OpTest.model_validate_json(env_run.stdout)
    assert (test.status, "planted bug" in (test.error_message or "")) == ("run_failed", True), env_run.stderr
    options = repro.options.model_copy(update={"backend": "reference"})
    changed = repro.model_copy(update={"failure": bundle.Failure.of(test), "options": options})
    (folder / bundle.FILE).write_text(changed.model_dump_json())
    outcome = bisect(folder, clone, good, commits[-1], Built(python=sys.executable))
    assert outcome.candidates == (commits[1],)
    assert "change 1" in outcome.text

"""The commit of a tested folder: what git, the CI system and the user say of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from opscope.base.tests.each import each
from opscope.harness.record import origin as origin_module
from opscope.harness.record.commits import checkout as module
from opscope.harness.record.commits.checkout import Commit, authors_between, checkout, default_branch, web_url
from opscope.harness.record.commits.ci_variables import CiJob, ci_job
from opscope.harness.record.origin import SOURCE, commit_of_folder, origin, own_commit

A, B = "a" * 40, "b" * 40


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=Ada L", "-c", "user.email=ada@example.org", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit on branch `trunk`."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "trunk")
    (folder / "a").write_text("1")
    git(folder, "add", "a")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_checkout_has_commit_branch_author_and_the_page_of_its_remote(repository, tmp_path):
    head = git(repository, "rev-parse", "HEAD")
    assert checkout(tmp_path) == Commit()
    assert checkout(repository) == Commit(head, False, "trunk", "Ada L", "")
    (repository / "below").mkdir()
    (repository / "untracked").write_text("x")
    assert checkout(repository / "below") == Commit(head, False, "trunk", "Ada L", "")
    (repository / "a").write_text("2")
    assert checkout(repository).dirty
    git(repository, "remote", "add", "origin", "https://oauth2:geheim@example.org/ada/compiler.git")
    assert checkout(repository).url == "https://example.org/ada/compiler"
    git(repository, "checkout", "-q", "--detach")
    assert (checkout(repository).revision, checkout(repository).branch) == (head, "")


def test_a_repository_without_a_commit_has_a_branch(tmp_path):
    git(tmp_path, "init", "-q", "-b", "trunk")
    assert checkout(tmp_path) == Commit(branch="trunk")


def test_worktrees_submodules_and_shallow_clones_are_checkouts_of_their_own(repository, tmp_path):
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    (tmp_path / "tree" / "a").write_text("2")
    git(tmp_path / "tree", "commit", "-q", "-a", "-m", "second")
    second = git(tmp_path / "tree", "rev-parse", "HEAD")
    assert (checkout(tmp_path / "tree").revision, checkout(tmp_path / "tree").branch) == (second, "side")
    assert checkout(repository).revision == first
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q", "-b", "main")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "inner")
    git(outer, "commit", "-q", "-m", "outer")
    assert checkout(outer / "inner").revision == first
    assert checkout(outer).revision == git(outer, "rev-parse", "HEAD") != first
    git(repository, "merge", "-q", "side")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "shallow")
    shallow = checkout(tmp_path / "shallow")
    assert (shallow.revision, shallow.branch, shallow.author, shallow.url) == (second, "trunk", "Ada L", "")
    assert default_branch(tmp_path / "shallow") == "trunk"
    assert default_branch(repository) == default_branch(tmp_path) == ""
    assert authors_between(repository, first, second) == ("Ada L",)
    assert authors_between(tmp_path / "shallow", first, second) == ()
    assert authors_between(repository, "--output=x", second) == ()


def test_a_hook_of_git_names_no_other_repository(repository, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "other")
    expected = checkout(repository)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert checkout(repository) == expected


@pytest.mark.parametrize("packed", [False, True])
def test_without_git_the_files_say_commit_and_branch(repository, tmp_path, monkeypatch, packed):
    git(repository, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    git(repository, "checkout", "-q", "--detach") if packed else None
    git(repository, "pack-refs", "--all") if packed else None
    head = git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checkout(repository) == Commit(revision=head, branch="" if packed else "trunk")
    assert checkout(tmp_path / "tree") == Commit(revision=head, branch="side")
    (repository / ".git" / "HEAD").write_bytes(b"\xff\xfe")
    assert checkout(repository) == Commit()
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/none\n")
    assert checkout(repository).revision == ""


def test_after_one_hang_git_is_not_asked_again(repository, tmp_path, monkeypatch):
    head = git(repository, "rev-parse", "HEAD")
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    assert checkout(repository) == Commit(revision=head, branch="trunk")


@each(
    ("remote", "page"),
    [
        ("https://github.com/ada/compiler.git", "https://github.com/ada/compiler"),
        ("https://ada:geheim@github.com/ada/compiler", "https://github.com/ada/compiler"),
        ("https://ghp_geheim@github.com/ada/compiler.git/", "https://github.com/ada/compiler"),
        ("https://host:8443/a/b.git?private_token=geheim#x", "https://host:8443/a/b"),
        ("http://host/a", "http://host/a"),
        ("git@github.com:ada/compiler.git", "https://github.com/ada/compiler"),
        ("github:ada/compiler", "https://github/ada/compiler"),
        ("ssh://git@gitlab.example.org:2222/group/sub/x.git", "https://gitlab.example.org/group/sub/x"),
        ("git://host/a/b", "https://host/a/b"),
        ("https://host/a b)[c", "https://host/a%20b%29%5Bc"),
        ("file:///srv/git/x.git", ""),
        ("/srv/git/x.git", ""),
        ("../x", ""),
        ("origin", ""),
        ("https://", ""),
        ("https://host", ""),
        ("https://host:port/x", ""),
        ("ext::sh -c geheim", ""),
        ("", ""),
    ],
)
def test_the_page_of_a_remote_has_no_login(remote, page):
    assert web_url(remote) == page
    assert "geheim" not in web_url(remote)


GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_WORKFLOW": "nightly",
    "GITHUB_JOB": "sweep",
    "GITHUB_RUN_ID": "7",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "ada/compiler",
    "GITHUB_SHA": A,
    "GITHUB_REF_NAME": "main",
}
GITLAB = {
    "GITLAB_CI": "true",
    "CI_JOB_NAME": "night",
    "CI_PIPELINE_ID": "7",
    "CI_JOB_URL": "https://gitlab.example.org/g/x/-/jobs/8",
    "CI_PROJECT_URL": "https://gitlab.example.org/g/x",
    "CI_COMMIT_SHA": A,
    "CI_COMMIT_REF_NAME": "main",
    "CI_COMMIT_AUTHOR": "Ada L <ada@example.org>",
}
JENKINS = {
    "JENKINS_URL": "https://ci.example.org/",
    "JOB_NAME": "compiler/main",
    "BUILD_NUMBER": "7",
    "BUILD_URL": "https://ci.example.org/job/compiler/7/",
    "GIT_COMMIT": A,
    "GIT_BRANCH": "origin/main",
    "GIT_URL": "git@github.com:ada/compiler.git",
}
BUILDKITE = {
    "BUILDKITE": "true",
    "BUILDKITE_PIPELINE_SLUG": "compiler",
    "BUILDKITE_BUILD_NUMBER": "7",
    "BUILDKITE_BUILD_URL": "https://buildkite.com/ada/compiler/builds/7",
    "BUILDKITE_COMMIT": A,
    "BUILDKITE_BRANCH": "main",
    "BUILDKITE_REPO": "git@github.com:ada/compiler.git",
    "BUILDKITE_BUILD_AUTHOR": "Ada L",
}
BITBUCKET = {
    "BITBUCKET_REPO_SLUG": "compiler",
    "BITBUCKET_BUILD_NUMBER": "7",
    "BITBUCKET_COMMIT": A,
    "BITBUCKET_BRANCH": "main",
    "BITBUCKET_GIT_HTTP_ORIGIN": "https://bitbucket.org/ada/compiler",
}
PAGE = "https://github.com/ada/compiler"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param(
            GITHUB,
            CiJob("GitHub Actions", "nightly/sweep/7", f"{PAGE}/actions/runs/7", A, branch="main", repository=PAGE),
            id="GitHub",
        ),
        pytest.param(
            GITLAB,
            CiJob(
                "GitLab CI",
                "night/7",
                "https://gitlab.example.org/g/x/-/jobs/8",
                A,
                branch="main",
                author="Ada L",
                repository="https://gitlab.example.org/g/x",
            ),
            id="GitLab",
        ),
        pytest.param(
            JENKINS,
            CiJob(
                "Jenkins", "compiler/main/7", "https://ci.example.org/job/compiler/7/", A, (), "main", repository=PAGE
            ),
            id="Jenkins",
        ),
        pytest.param(
            BUILDKITE,
            CiJob(
                "Buildkite",
                "compiler/7",
                "https://buildkite.com/ada/compiler/builds/7",
                A,
                branch="main",
                author="Ada L",
                repository=PAGE,
            ),
            id="Buildkite",
        ),
        pytest.param(
            BITBUCKET,
            CiJob(
                "Bitbucket Pipelines",
                "compiler/7",
                "https://bitbucket.org/ada/compiler/pipelines/results/7",
                A,
                branch="main",
                repository="https://bitbucket.org/ada/compiler",
            ),
            id="Bitbucket",
        ),
        pytest.param(
            {name: value for name, value in JENKINS.items() if name != "JENKINS_URL"}
            | {"BUILD_TAG": "jenkins-compiler-main-7"},
            CiJob(
                "Jenkins", "compiler/main/7", "https://ci.example.org/job/compiler/7/", A, (), "main", repository=PAGE
            ),
            id="Jenkins without its own address",
        ),
        pytest.param({"CI": "true", "GITHUB_SHA": A}, CiJob(), id="none"),
    ],
)
def test_the_job_of_each_system(environment, expected):
    assert ci_job(environment) == expected


@each(
    ("environment", "branch", "target"),
    [
        (GITHUB | {"GITHUB_HEAD_REF": "mine", "GITHUB_BASE_REF": "main", "GITHUB_REF_NAME": "2/merge"}, "mine", "main"),
        (GITHUB | {"GITHUB_REF_TYPE": "tag", "GITHUB_REF_NAME": "v1"}, "", ""),
        (
            GITLAB
            | {
                "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "mine",
                "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
                "CI_COMMIT_REF_NAME": "refs/merge-requests/2/head",
            },
            "mine",
            "main",
        ),
        (GITLAB | {"CI_COMMIT_TAG": "v1", "CI_COMMIT_REF_NAME": "v1"}, "", ""),
        (BITBUCKET | {"BITBUCKET_BRANCH": "mine", "BITBUCKET_PR_DESTINATION_BRANCH": "main"}, "mine", "main"),
        ({name: BITBUCKET[name] for name in BITBUCKET if "BRANCH" not in name} | {"BITBUCKET_TAG": "v1"}, "", ""),
        (JENKINS | {"BRANCH_NAME": "PR-2", "CHANGE_BRANCH": "mine", "CHANGE_TARGET": "main"}, "mine", "main"),
        (JENKINS | {"BRANCH_NAME": "v1", "TAG_NAME": "v1"}, "", ""),
        (JENKINS | {"GIT_BRANCH": "detached"}, "", ""),
        (BUILDKITE | {"BUILDKITE_BRANCH": "mine", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main"}, "mine", "main"),
        (BUILDKITE | {"BUILDKITE_TAG": "v1", "BUILDKITE_BRANCH": "v1"}, "", ""),
    ],
)
def test_a_pull_request_is_of_the_branch_that_is_to_be_merged_and_a_tag_of_none(environment, branch, target):
    assert (ci_job(environment).branch, ci_job(environment).target) == (branch, target)


def test_the_page_of_a_job_on_github_has_its_attempt():
    assert ci_job(GITHUB | {"GITHUB_RUN_ATTEMPT": "1"}).url == f"{PAGE}/actions/runs/7"
    assert ci_job(GITHUB | {"GITHUB_RUN_ATTEMPT": "2"}).url == f"{PAGE}/actions/runs/7/attempts/2"
    for left_out in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"):
        job = ci_job({name: value for name, value in GITHUB.items() if name != left_out})
        assert (job.url, job.repository, job.revision) == ("", "", A)
    assert ci_job(BUILDKITE | {"BUILDKITE_COMMIT": "HEAD"}).revision == ""


def test_the_head_of_a_pull_request_is_in_the_event(tmp_path):
    event = tmp_path / "event.json"
    environment = GITHUB | {"GITHUB_HEAD_REF": "mine", "GITHUB_EVENT_PATH": str(event)}
    assert ci_job(environment).also == ()
    event.write_text(json.dumps({"pull_request": {"head": {"sha": B}}}))
    assert ci_job(environment).also == (B,)
    event.write_text(json.dumps({"pull_request": None}))
    assert ci_job(environment).also == ()


@pytest.mark.parametrize(
    ("here", "folder", "about"),
    [
        pytest.param(Commit(), "/work", True, id="no git"),
        pytest.param(Commit(B), "/work", True, id="no remote"),
        pytest.param(Commit(A, url=PAGE), "/work", True, id="its own"),
        pytest.param(Commit(A, url=PAGE.replace("ada", "Ada")), "/work/below", True, id="its own, spelled otherwise"),
        pytest.param(Commit(B, url=PAGE), "/work", False, id="another commit of it"),
        pytest.param(Commit(A, url=f"{PAGE}-2"), "/work", False, id="another repository"),
        pytest.param(Commit(), "/elsewhere", False, id="another folder"),
    ],
)
def test_a_job_is_about_the_checkout_that_it_made(here, folder, about):
    assert ci_job(GITHUB | {"GITHUB_WORKSPACE": "/work"}).is_about(here, Path(folder)) is about
    assert not CiJob().is_about(here, Path(folder))


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param(BITBUCKET | {"BITBUCKET_PR_DESTINATION_BRANCH": "main"}, id="Bitbucket"),
        pytest.param(BUILDKITE | {"BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main"}, id="Buildkite"),
        pytest.param(JENKINS | {"BRANCH_NAME": "PR-2", "CHANGE_BRANCH": "mine", "CHANGE_TARGET": "main"}, id="Jenkins"),
    ],
)
def test_a_merge_that_a_job_makes_itself_stands_for_the_head_of_its_pull_request(environment, repository):
    """No other repository has the commit of that merge; a link to it would lead nowhere."""
    git(repository, "checkout", "-q", "-b", "mine")
    git(repository, "commit", "-q", "--allow-empty", "-m", "change")
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "trunk")
    git(repository, "commit", "-q", "--allow-empty", "-m", "meanwhile")
    git(repository, "checkout", "-q", "--detach", head)
    git(repository, "merge", "-q", "--no-ff", "-m", "merge", "trunk")
    page = ci_job(environment).repository
    git(repository, "remote", "add", "origin", f"{page}.git")
    names = {name: head for name, value in environment.items() if value == A}
    branches = {name: "mine" for name in ("BITBUCKET_BRANCH", "BUILDKITE_BRANCH") if name in environment}
    (repository / "a").write_text("2")
    found = commit_of_folder(repository, "", "", environment | names | branches)
    assert (found.revision, found.branch, found.dirty, found.url) == (head, "mine", True, page)
    git(repository, "checkout", "-q", "-f", "trunk")
    other = commit_of_folder(repository, "", "", environment | names | branches)
    assert (other.revision, other.branch) == (git(repository, "rev-parse", "HEAD"), "trunk")


def test_the_user_comes_before_the_ci_and_the_ci_before_git(repository):
    head = git(repository, "rev-parse", "HEAD")
    (repository / "a").write_text("2")
    commits = {
        ("", ""): Commit(head, True, "trunk", "Ada L"),
        ("r7", ""): Commit("r7", False, "trunk"),
        ("", "mine"): Commit(head, True, "mine", "Ada L"),
    }
    for (revision, branch), expected in commits.items():
        assert commit_of_folder(repository, revision, branch, {}) == expected
    assert commit_of_folder(repository, "", "", GITLAB) == Commit(
        A, False, "main", "Ada L", "https://gitlab.example.org/g/x"
    )
    assert commit_of_folder(repository, "r7", "mine", GITLAB).revision == "r7"
    git(repository, "remote", "add", "origin", f"{PAGE}.git")
    assert commit_of_folder(repository, "", "", GITHUB) == Commit(head, True, "trunk", "Ada L", PAGE)
    git(repository, "checkout", "-q", "--detach")
    own = GITHUB | {"GITHUB_SHA": head}
    assert commit_of_folder(repository, "", "", own) == Commit(head, True, "main", "Ada L", PAGE)


def test_an_origin_has_the_commit_of_the_folder_and_those_that_compilers_name(repository, monkeypatch):
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "JENKINS_URL"):
        monkeypatch.delenv(name, raising=False)
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "remote", "add", "origin", "https://ada:geheim@github.com/ada/compiler")
    made = origin([], {"seed": 3}, repository, {"mine": Commit(), "xla": Commit()})
    assert (made.revision, made.branch, made.backend_revision, made.backend_dirty) == (head, "trunk", head, False)
    assert made.options == {"seed": 3, SOURCE: {"url": PAGE, "author": "Ada L"}}
    assert "geheim" not in made.model_dump_json()
    made = origin([], {}, repository, {"mine": Commit("r7", True, url="https://h/x"), "xla": Commit()})
    assert (made.revision, made.backend_revision, made.backend_dirty) == (head, f"r7,{head}", True)
    assert made.options[SOURCE]["compilers"] == {"mine": {"revision": "r7", "dirty": True, "url": "https://h/x"}}
    made = origin([], {"revision": "r8", "branch": "mine"}, repository)
    assert (made.revision, made.branch, made.backend_revision) == ("r8", "mine", "r8")


def test_a_compiler_of_this_project_has_the_commit_of_this_checkout(repository, tmp_path, monkeypatch):
    head = git(repository, "rev-parse", "HEAD")
    monkeypatch.setattr(origin_module, "HOME", repository)
    assert own_commit(tmp_path).revision == head
    assert own_commit(repository) == Commit()
    (repository / "site-packages").mkdir()
    monkeypatch.setattr(origin_module, "HOME", repository / "site-packages")
    assert own_commit(tmp_path) == Commit()

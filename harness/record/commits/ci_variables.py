"""What a CI system says of its job in environment variables: commit, branch, repository, page, folder.

`SYSTEMS` has a row for each system. A cell holds patterns such as `{CI_PROJECT_URL}/jobs/{CI_JOB_ID}`; it is the first
of them whose variables are all there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from opscope.harness.record.commits.checkout import Commit, web_url
from opscope.harness.record.masking import mask_secrets


@dataclass(frozen=True)
class CiJob:
    """A job of a CI system; all empty outside of one."""

    system: str = ""
    name: str = ""
    url: str = ""
    """The page of the job."""
    revision: str = ""
    """The commit that it is about."""
    also: tuple[str, ...] = ()
    """Other commits that a checkout of the job may have: the head of a pull request beside its merge."""
    branch: str = ""
    """Of a pull request the branch that is to be merged."""
    target: str = ""
    """The branch that a pull request is to be merged into; empty for any other job."""
    author: str = ""
    repository: str = ""
    """The page of the repository."""
    folder: str = ""
    """The folder that it checks out into."""

    def is_about(self, here: Commit, folder: Path) -> bool:
        """Whether its variables are about what is checked out in `folder`.

        A job may check out other repositories, and other commits of its own. Where git does not say what it is, the
        variables hold.
        """
        if not self.system:
            return False
        if self.folder and not folder.absolute().is_relative_to(Path(self.folder).absolute()):
            return False
        if not here.url or not self.repository:
            return True
        if here.url.lower() != self.repository.lower():
            return False
        return not (here.revision and self.revision) or self.has(here) or self.merges(here)

    def has(self, here: Commit) -> bool:
        """Whether what is checked out is the job's commit, or one that its variables name beside it."""
        return here.revision in (self.revision, *self.also)

    def merges(self, here: Commit) -> bool:
        """Whether what is checked out merges the job's commit with the branch that its pull request goes to.

        Bitbucket, Jenkins and Buildkite can make such a merge in the job's own folder: no other repository has it.
        """
        return bool(self.target) and len(here.parents) > 1 and self.revision in here.parents


@dataclass(frozen=True)
class _System:
    """How the variables of one system are read."""

    name: str
    mark: tuple[tuple[str, str], ...]
    """Variables, any of which says that a job is of this system, and how their values begin."""
    job: tuple[str, ...]
    """Variables that make its name, those that are there."""
    url: tuple[str, ...]
    revision: tuple[str, ...]
    branch: tuple[str, ...]
    tag: tuple[str, str]
    """Variable, and how its value begins in the job of a tag, which is of no branch."""
    target: tuple[str, ...]
    repository: tuple[str, ...]
    folder: tuple[str, ...]
    author: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    event: str = ""
    """Variable with a file about what started the job, which holds the head of a pull request."""


SYSTEMS = (
    # docs.github.com: Actions > Reference > Variables. GITHUB_REF_NAME is `7/merge` for a pull request, whose branches
    # are in GITHUB_HEAD_REF and GITHUB_BASE_REF; GITHUB_SHA is that merge, as is what actions/checkout checks out.
    _System(
        "GitHub Actions",
        mark=(("GITHUB_ACTIONS", "true"),),
        job=("GITHUB_WORKFLOW", "GITHUB_JOB", "GITHUB_RUN_ID"),
        url=(
            "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}/attempts/{GITHUB_RUN_ATTEMPT}",
            "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}",
        ),
        revision=("{GITHUB_SHA}",),
        branch=("{GITHUB_HEAD_REF}", "{GITHUB_REF_NAME}"),
        tag=("GITHUB_REF_TYPE", "tag"),
        target=("{GITHUB_BASE_REF}",),
        repository=("{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}",),
        folder=("{GITHUB_WORKSPACE}",),
        event="GITHUB_EVENT_PATH",
    ),
    # docs.gitlab.com: CI/CD > Variables > Predefined CI/CD variables reference. CI_COMMIT_SHA is a merge in pipelines
    # of merged results, the only ones with CI_MERGE_REQUEST_SOURCE_BRANCH_SHA; CI_COMMIT_REF_NAME of a merge request
    # was `refs/merge-requests/7/head` for a while. CI_COMMIT_AUTHOR is `Name <address>`. The checkout is detached.
    _System(
        "GitLab CI",
        mark=(("GITLAB_CI", "true"),),
        job=("CI_JOB_NAME", "CI_PIPELINE_ID"),
        url=("{CI_JOB_URL}",),
        revision=("{CI_COMMIT_SHA}",),
        branch=("{CI_MERGE_REQUEST_SOURCE_BRANCH_NAME}", "{CI_COMMIT_REF_NAME}"),
        tag=("CI_COMMIT_TAG", ""),
        target=("{CI_MERGE_REQUEST_TARGET_BRANCH_NAME}",),
        repository=("{CI_PROJECT_URL}",),
        folder=("{CI_PROJECT_DIR}",),
        author=("{CI_COMMIT_AUTHOR}",),
        also=("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA",),
    ),
    # buildkite.com/docs: Pipelines > Environment variables. BUILDKITE_COMMIT is `HEAD` where a build is asked for by
    # hand; BUILDKITE_PULL_REQUEST_BASE_BRANCH is empty but for pull requests.
    _System(
        "Buildkite",
        mark=(("BUILDKITE", "true"),),
        job=("BUILDKITE_PIPELINE_SLUG", "BUILDKITE_BUILD_NUMBER"),
        url=("{BUILDKITE_BUILD_URL}",),
        revision=("{BUILDKITE_COMMIT}",),
        branch=("{BUILDKITE_BRANCH}",),
        tag=("BUILDKITE_TAG", ""),
        target=("{BUILDKITE_PULL_REQUEST_BASE_BRANCH}",),
        repository=("{BUILDKITE_REPO}",),
        folder=("{BUILDKITE_BUILD_CHECKOUT_PATH}",),
        author=("{BUILDKITE_BUILD_AUTHOR}",),
    ),
    # support.atlassian.com/bitbucket-cloud: Pipelines > Variables and secrets. The pipeline of a pull request merges
    # the target branch into the checkout; BITBUCKET_COMMIT stays the head of the pull request.
    _System(
        "Bitbucket Pipelines",
        mark=(("BITBUCKET_BUILD_NUMBER", ""),),
        job=("BITBUCKET_REPO_SLUG", "BITBUCKET_BUILD_NUMBER"),
        url=("{BITBUCKET_GIT_HTTP_ORIGIN}/pipelines/results/{BITBUCKET_BUILD_NUMBER}",),
        revision=("{BITBUCKET_COMMIT}",),
        branch=("{BITBUCKET_BRANCH}",),
        tag=("BITBUCKET_TAG", ""),
        target=("{BITBUCKET_PR_DESTINATION_BRANCH}",),
        repository=("{BITBUCKET_GIT_HTTP_ORIGIN}",),
        folder=("{BITBUCKET_CLONE_DIR}",),
    ),
    # Each Jenkins lists its own at JENKINS_URL/env-vars.html; GIT_* are of its git plugin (plugins.jenkins.io/git).
    # JENKINS_URL is missing until an administrator sets it. BRANCH_NAME of a multibranch project is `PR-7` for a
    # change, whose branch is CHANGE_BRANCH; GIT_BRANCH has the remote's name before it, or is `detached`.
    _System(
        "Jenkins",
        mark=(("JENKINS_URL", ""), ("BUILD_TAG", "jenkins-")),
        job=("JOB_NAME", "BUILD_NUMBER"),
        url=("{BUILD_URL}",),
        revision=("{GIT_COMMIT}",),
        branch=("{CHANGE_BRANCH}", "{BRANCH_NAME}", "{GIT_LOCAL_BRANCH}", "{GIT_BRANCH}"),
        tag=("TAG_NAME", ""),
        target=("{CHANGE_TARGET}",),
        repository=("{GIT_URL}",),
        folder=("{WORKSPACE}",),
        author=("{CHANGE_AUTHOR_DISPLAY_NAME}",),
    ),
)
"""The systems that are known, in the order in which their marks are looked for."""

_NOTHING = {"HEAD", "detached"}
"""Values of a commit and of a branch that name none."""


def ci_job(environment: Mapping[str, str]) -> CiJob:
    """The job that `environment` is of."""
    values = {name: value.strip() for name, value in environment.items() if value.strip()}
    for system in SYSTEMS:
        if any(_begins(values, *mark) for mark in system.mark):
            return _job(system, values)
    return CiJob()


def _job(system: _System, values: Mapping[str, str]) -> CiJob:
    branch, target = _first(system.branch, values).removeprefix("origin/"), _first(system.target, values)
    revision = _first(system.revision, values)
    heads = [values.get(name, "") for name in system.also]
    if system.event:
        heads.append(_head_of_pull_request(values.get(system.event, "")))
    return CiJob(
        system.name,
        "/".join(values[name] for name in system.job if name in values),
        mask_secrets(_first(system.url, values).removesuffix("/attempts/1")),
        "" if revision in _NOTHING else revision,
        tuple(filter(None, heads)),
        "" if branch in _NOTHING or _begins(values, *system.tag) else branch,
        target,
        re.sub(r"\s*<[^>]*>$", "", _first(system.author, values)),
        web_url(_first(system.repository, values)),
        _first(system.folder, values),
    )


def _begins(values: Mapping[str, str], name: str, beginning: str) -> bool:
    """Whether a variable is there, and its value begins so."""
    return name in values and values[name].startswith(beginning)


def _first(patterns: tuple[str, ...], values: Mapping[str, str]) -> str:
    """The first of the patterns whose variables are all there, with their values; empty if there is none."""
    for pattern in patterns:
        try:
            return pattern.format_map(values)
        except KeyError:
            continue
    return ""


def _head_of_pull_request(event: str) -> str:
    """The head of the pull request in a file with GitHub's event."""
    try:
        return str(json.loads(Path(event).read_text(encoding="utf-8"))["pull_request"]["head"]["sha"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""

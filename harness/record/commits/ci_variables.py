"""What a CI system says of its job in environment variables: commit, branch, repository, page, folder.

One function per system. Names are those of their documentation: GitHub Actions, GitLab CI, Jenkins with its git plugin,
Buildkite, Bitbucket Pipelines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from opscope.harness.record.commits.checkout import Commit, web_url
from opscope.harness.record.masking import mask_url


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
        return not (here.revision and self.revision) or here.revision in (self.revision, *self.also)


def ci_job(environment: Mapping[str, str]) -> CiJob:
    """The job that `environment` is of."""
    for is_there, read in SYSTEMS:
        if is_there(environment):
            return read(environment)
    return CiJob()


def _github(environment: Mapping[str, str]) -> CiJob:
    get = _getter(environment)
    server, repository, run = get("GITHUB_SERVER_URL"), get("GITHUB_REPOSITORY"), get("GITHUB_RUN_ID")
    page = f"{server}/{repository}" if server and repository else ""
    url, attempt = f"{page}/actions/runs/{run}" if page else "", get("GITHUB_RUN_ATTEMPT") or "1"
    if url and attempt != "1":
        url += f"/attempts/{attempt}"
    head = get("GITHUB_HEAD_REF")  # of pull requests only; GITHUB_REF_NAME is `7/merge` there
    branch = head or ("" if get("GITHUB_REF_TYPE") == "tag" else get("GITHUB_REF_NAME"))
    return CiJob(
        "GitHub Actions",
        "/".join(filter(None, (get("GITHUB_WORKFLOW"), get("GITHUB_JOB"), run))),
        mask_url(url),
        get("GITHUB_SHA"),
        tuple(filter(None, [_head_of_pull_request(get("GITHUB_EVENT_PATH"))])) if head else (),
        branch,
        get("GITHUB_BASE_REF"),
        "",
        web_url(page),
        get("GITHUB_WORKSPACE"),
    )


def _head_of_pull_request(event: str) -> str:
    """The head of the pull request in a file with GitHub's event."""
    try:
        return str(json.loads(Path(event).read_text(encoding="utf-8"))["pull_request"]["head"]["sha"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _gitlab(environment: Mapping[str, str]) -> CiJob:
    get = _getter(environment)
    tag = get("CI_COMMIT_TAG")
    return CiJob(
        "GitLab CI",
        "/".join(filter(None, (get("CI_JOB_NAME"), get("CI_PIPELINE_ID")))),
        mask_url(get("CI_JOB_URL")),
        get("CI_COMMIT_SHA"),
        tuple(filter(None, [get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA")])),
        get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME") or ("" if tag else get("CI_COMMIT_REF_NAME")),
        get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME"),
        re.sub(r"\s*<[^>]*>\s*$", "", get("CI_COMMIT_AUTHOR")),
        web_url(get("CI_PROJECT_URL")),
        get("CI_PROJECT_DIR"),
    )


def _jenkins(environment: Mapping[str, str]) -> CiJob:
    get = _getter(environment)
    # BRANCH_NAME is a multibranch project's, `PR-7` for a change; GIT_BRANCH has the remote's name before it.
    branch = get("CHANGE_BRANCH") or get("BRANCH_NAME") or get("GIT_LOCAL_BRANCH")
    if not branch and get("GIT_BRANCH") != "detached":
        branch = get("GIT_BRANCH").removeprefix("origin/")
    return CiJob(
        "Jenkins",
        "/".join(filter(None, (get("JOB_NAME"), get("BUILD_NUMBER")))),
        mask_url(get("BUILD_URL")),
        get("GIT_COMMIT"),
        (),
        "" if get("TAG_NAME") else branch,
        get("CHANGE_TARGET"),
        get("CHANGE_AUTHOR_DISPLAY_NAME"),
        web_url(get("GIT_URL")),
        get("WORKSPACE"),
    )


def _buildkite(environment: Mapping[str, str]) -> CiJob:
    get = _getter(environment)
    commit = get("BUILDKITE_COMMIT")  # `HEAD` where a build was asked for by hand
    return CiJob(
        "Buildkite",
        "/".join(filter(None, (get("BUILDKITE_PIPELINE_SLUG"), get("BUILDKITE_BUILD_NUMBER")))),
        mask_url(get("BUILDKITE_BUILD_URL")),
        commit if commit != "HEAD" else "",
        (),
        "" if get("BUILDKITE_TAG") else get("BUILDKITE_BRANCH"),
        get("BUILDKITE_PULL_REQUEST_BASE_BRANCH"),
        get("BUILDKITE_BUILD_AUTHOR"),
        web_url(get("BUILDKITE_REPO")),
        get("BUILDKITE_BUILD_CHECKOUT_PATH"),
    )


def _bitbucket(environment: Mapping[str, str]) -> CiJob:
    get = _getter(environment)
    page, number = web_url(get("BITBUCKET_GIT_HTTP_ORIGIN")), get("BITBUCKET_BUILD_NUMBER")
    return CiJob(
        "Bitbucket Pipelines",
        "/".join(filter(None, (get("BITBUCKET_REPO_SLUG"), number))),
        mask_url(f"{page}/pipelines/results/{number}" if page and number else ""),
        get("BITBUCKET_COMMIT"),
        (),
        get("BITBUCKET_BRANCH"),  # of no tag
        get("BITBUCKET_PR_DESTINATION_BRANCH"),
        "",
        page,
        get("BITBUCKET_CLONE_DIR"),
    )


def _getter(environment: Mapping[str, str]) -> Callable[[str], str]:
    return lambda name: environment.get(name, "").strip()


SYSTEMS: tuple[tuple[Callable[[Mapping[str, str]], bool], Callable[[Mapping[str, str]], CiJob]], ...] = (
    (lambda environment: environment.get("GITHUB_ACTIONS") == "true", _github),
    (lambda environment: environment.get("GITLAB_CI") == "true", _gitlab),
    (lambda environment: environment.get("BUILDKITE") == "true", _buildkite),
    (lambda environment: "BITBUCKET_BUILD_NUMBER" in environment, _bitbucket),
    (lambda environment: "JENKINS_URL" in environment, _jenkins),
)
"""Whether an environment is that of a system, and how its job is read."""

"""The comment of a gate in the pull request of GitHub or the merge request of GitLab that a CI job is for.

A comment that an earlier run has left is found by its first line and changed in place; there is never a second one.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from opscope.harness.record.errors import InputError
from opscope.reports.nightly.uplift_comment import MARK

WHERE = "--comment"
SECONDS = 30.0
"""For one request."""
PAGE = 100
"""Comments in an answer."""
MOST_PAGES = 50


class Place(NamedTuple):
    """Where comments of one request are."""

    comments: str
    """The address of the list, which also takes new ones."""
    one: str
    """The beginning of the address of one of them."""
    headers: Mapping[str, str]
    method: str
    """How one is changed."""


def place(environment: Mapping[str, str] = os.environ) -> Place:
    """Where the CI job's comment goes. Raises InputError in no such job, or without its token."""
    if api := environment.get("CI_API_V4_URL"):
        project, number = environment.get("CI_PROJECT_ID", ""), environment.get("CI_MERGE_REQUEST_IID", "")
        notes = f"{api}/projects/{project}/merge_requests/{number}/notes"
        return Place(notes, notes, {"PRIVATE-TOKEN": _token("GITLAB_TOKEN", number, environment)}, "PUT")
    api, repository = environment.get("GITHUB_API_URL", ""), environment.get("GITHUB_REPOSITORY", "")
    number = _pull_request(environment.get("GITHUB_EVENT_PATH", ""))
    headers = {
        "Authorization": f"Bearer {_token('GITHUB_TOKEN', number if api and repository else '', environment)}",
        "Accept": "application/vnd.github+json",
    }
    issues = f"{api}/repos/{repository}/issues"
    return Place(f"{issues}/{number}/comments", f"{issues}/comments", headers, "PATCH")


def _token(variable: str, number: str, environment: Mapping[str, str]) -> str:
    if not number:
        hint = "a job of pull_request, or of merge_request_event"
        raise InputError(WHERE, "a CI job of a pull or merge request", "none", hint)
    token = environment.get(variable, "")
    if not token:
        raise InputError(WHERE, f"a token in ${variable}", "none", f"a secret {variable} in the job's environment")
    return token


def _pull_request(event: str) -> str:
    """The number of the pull request that a job's event is about; empty if it is about none."""
    try:
        return str(int(json.loads(Path(event).read_bytes())["pull_request"]["number"])) if event else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def write(where: Place, text: str) -> None:
    """Changes the comment, or writes the first. Raises InputError where the server refuses it."""
    earlier = next((each for each in _comments(where) if str(each.get("body", "")).startswith(MARK)), None)
    if earlier is None:
        _asked(where, "POST", where.comments, text)
    else:
        _asked(where, where.method, f"{where.one}/{int(earlier['id'])}", text)


def _comments(where: Place) -> Iterator[Mapping[str, Any]]:
    for number in range(1, MOST_PAGES + 1):
        page = _asked(where, "GET", f"{where.comments}?per_page={PAGE}&page={number}")
        yield from page
        if len(page) < PAGE:
            return


def _asked(where: Place, method: str, address: str, text: str | None = None) -> Any:
    data = None if text is None else json.dumps({"body": text}).encode()
    headers = {**where.headers, "Content-Type": "application/json", "User-Agent": "opscope"}
    request = urllib.request.Request(address, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        raise InputError(
            WHERE, "the server to take a comment", f"HTTP {error.code}", "a token that may write"
        ) from error
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", None) or error)
        raise InputError(WHERE, "the server of the CI to answer", reason, "the job again") from error

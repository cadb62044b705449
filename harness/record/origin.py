"""Where a run came from: revision, CI job, machine, versions, command line and options.

Reads the versions of packages without importing them.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from opscope.base.file_names import as_text
from opscope.base.places import HOME
from opscope.base.plugins import version
from opscope.harness.record.masking import mask_url, masked
from opscope.harness.record.records import Origin

PACKAGES = ("opscope", "jax", "jaxlib", "numpy", "ml_dtypes", "xdsl", "pydantic", "pytest", "pytest-xdist")
"""Distributions whose versions a run stores."""


def origin(command_line: Iterable[str], options: Mapping[str, Any], backend_root: Path | None = None) -> Origin:
    """The origin of a run that starts now. `backend_root` is the checkout of a backend outside this project."""
    revision, dirty, branch = git_state(HOME)
    backend = git_state(backend_root) if backend_root else (revision, dirty, branch)
    job, url, ci_branch = ci_job(os.environ)
    return Origin(
        revision=revision,
        dirty=dirty,
        branch=branch or ci_branch,
        backend_revision=backend[0],
        backend_dirty=backend[1],
        ci_job=job,
        ci_url=url,
        host=platform.node(),
        cpu=cpu_name(),
        python=platform.python_version(),
        versions=versions(),
        command_line=tuple(as_text(mask_url(word)) for word in command_line),
        options=masked(options),
    )


def git_state(folder: Path) -> tuple[str, bool, str]:
    """(revision, whether files differ from it, branch) of a checkout; empty if it is none or git is missing."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch", "--untracked-files=no"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return "", False, ""
    heads = dict(line[2:].split(" ", 1) for line in answer.stdout.splitlines() if line.startswith("# branch."))
    dirty = any(not line.startswith("#") for line in answer.stdout.splitlines())
    revision, branch = heads.get("branch.oid", ""), heads.get("branch.head", "")
    return ("" if revision == "(initial)" else revision), dirty, ("" if branch == "(detached)" else branch)


def ci_job(environment: Mapping[str, str]) -> tuple[str, str, str]:
    """(job, URL, branch) as GitHub Actions names them in `environment`; empty elsewhere."""
    if environment.get("GITHUB_ACTIONS") != "true":
        return "", "", ""
    words = [environment.get(name, "") for name in ("GITHUB_WORKFLOW", "GITHUB_JOB", "GITHUB_RUN_ID")]
    server, repository = environment.get("GITHUB_SERVER_URL", ""), environment.get("GITHUB_REPOSITORY", "")
    url = f"{server}/{repository}/actions/runs/{words[2]}" if server and repository else ""
    attempt = environment.get("GITHUB_RUN_ATTEMPT", "1")
    if url and attempt != "1":
        url += f"/attempts/{attempt}"
    branch = environment.get("GITHUB_HEAD_REF") or environment.get("GITHUB_REF_NAME", "")
    return "/".join(filter(None, words)), mask_url(url), branch


@cache
def cpu_name() -> str:
    """The processor's model name."""
    try:
        for text in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if text.startswith(("model name", "Hardware")):
                return text.partition(":")[2].strip()
    except OSError:
        pass  # not Linux: use what Python reports
    return platform.processor() or platform.machine()


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Installed versions by distribution, without importing any; those not installed are left out."""
    version_of_package = {}
    for package in packages:
        try:
            version_of_package[package] = version(package)
        except PackageNotFoundError:
            continue
    return version_of_package

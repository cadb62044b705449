"""Where a run came from: revision, CI job, machine, versions, command line and options.

The commit is that of the user's repository: the folder in which the run was started. A backend may name its own, and
one of this project has that of this project's checkout. Reads the versions of packages without importing them.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from opscope.base.file_names import as_text
from opscope.base.places import HOME
from opscope.base.plugins import version
from opscope.harness.record.commits.checkout import Commit, checkout, git_folder
from opscope.harness.record.commits.ci_variables import ci_job
from opscope.harness.record.masking import mask_secrets, masked
from opscope.harness.record.records import Origin

PACKAGES = ("opscope", "jax", "jaxlib", "numpy", "ml_dtypes", "xdsl", "pydantic", "pytest", "pytest-xdist")
"""Distributions whose versions a run stores."""


SOURCE = "source"
"""Key in a run's options of what is known of its commits beside `revision`, `dirty` and `branch`: `url` and `author` of
the folder's, and `compilers`, label of a backend -> the commit that it names as its own."""

ANSWERS = "answers"
"""Key in the options of a run of ops of an earlier run: the id of that `run`, and the ids of the named `ops`."""

FOLDER = "run_dir"
"""Key in a run's options: its folder, on the machine that it ran on."""

CONDITIONS = "conditions"
"""Key in a run's options of what it ran under (harness/cache/conditions.py): name -> text."""

CYCLE_MODEL = "simulator"
"""The condition that says which simulator has counted cycles."""

PLACES = frozenset({"cache_dir", "dashboard_home", "publish", "artifact_url"})
"""Settings that say where something lies: no result depends on one."""

OF_ONE_RUN = PLACES | {
    SOURCE,
    ANSWERS,
    CONDITIONS,
    FOLDER,
    "exports_of",
    "versions",
    "revision",
    "branch",
    "fingerprint",
    "models",
    "shard",
    "shard_costs",
}
"""Keys in a run's options that two runs with the same settings need not have in common: which models and which share of
their ops a run has, its rows say."""


def as_of_any_run(options: Mapping[str, Any], name: str) -> Any:
    """The value of an option of a run, as of the same call at another time: a file in the run's own folder, such as the
    arrays given to `run_op_by_op`, is named within it."""
    value, folder = options.get(name), f"{options.get(FOLDER)}/"
    return value.removeprefix(folder) if isinstance(value, str) else value


def origin(
    command_line: Iterable[str],
    options: Mapping[str, Any],
    folder: Path | None = None,
    compilers: Mapping[str, Commit] | None = None,
) -> Origin:
    """The origin of a run that starts now in `folder`, by default the working folder.

    `compilers` holds each backend's own commit, by its label; one without a revision has that of the folder.
    """
    folder = Path.cwd() if folder is None else folder
    commit = commit_of_folder(folder, options.get("revision") or "", options.get("branch") or "")
    job = ci_job(os.environ)
    compilers = {label: own if own.revision else commit for label, own in (compilers or {}).items()}
    revisions = dict.fromkeys(own.revision for own in compilers.values()) or {commit.revision: None}
    named = {
        label: {"revision": own.revision, "dirty": own.dirty, "url": own.url}
        for label, own in compilers.items()
        if own is not commit
    }
    source = {"url": commit.url, "author": commit.author, "compilers": named}
    source = {name: value for name, value in source.items() if value}
    return Origin(
        revision=commit.revision,
        dirty=commit.dirty,
        branch=commit.branch,
        backend_revision=",".join(filter(None, revisions)),
        backend_dirty=any(own.dirty for own in compilers.values()) if compilers else commit.dirty,
        ci_job=job.name,
        ci_url=job.url,
        host=platform.node(),
        cpu=cpu_name(),
        python=platform.python_version(),
        versions=versions(),
        command_line=tuple(as_text(mask_secrets(word)) for word in command_line),
        options=masked({**options, **({SOURCE: source} if source else {})}),
    )


def conditions_of(options: object) -> dict[str, Any]:
    """What a run's options say of the conditions that it ran under; empty for older runs."""
    conditions = options.get(CONDITIONS) if isinstance(options, dict) else None
    return conditions if isinstance(conditions, dict) else {}


def source_of(options: object) -> dict[str, Any]:
    """What a run's options say of its commits; empty for older runs, and where they are damaged."""
    source = options.get(SOURCE) if isinstance(options, dict) else None
    return source if isinstance(source, dict) else {}


def commit_of_folder(
    folder: Path, revision: str = "", branch: str = "", environment: Mapping[str, str] = os.environ
) -> Commit:
    """The commit that is tested in `folder`.

    What the user names comes first, then what the CI system says of its job, then git.
    """
    here, job = checkout(folder), ci_job(environment)
    about = job.is_about(here, folder)
    if not revision:
        checked_out = not about or not job.revision or job.has(here)
        revision = here.revision if checked_out else job.revision
    same = here.revision == revision or (about and revision == job.revision and job.merges(here))
    return Commit(
        revision=revision,
        dirty=here.dirty and same,
        branch=branch or (job.branch if about else "") or here.branch,
        author=(job.author if about and revision == job.revision else "") or (here.author if same else ""),
        url=here.url or (job.repository if about else ""),
    )


def own_commit(folder: Path) -> Commit:
    """The commit of this project's checkout, for its own compilers that run in `folder`.

    Empty if that is the same checkout, and for an installed package, whose version is all there is.
    """
    # A virtual environment may lie in the checkout of another project.
    if not (HOME / ".git").exists() or git_folder(folder) == git_folder(HOME):
        return Commit()
    return checkout(HOME)


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

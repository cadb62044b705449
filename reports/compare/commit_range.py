"""Since when: the commits between two runs of a series, with the page that shows them where their remote is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.base.night_grid.commit_pages import page_of_commit, page_of_range
from opscope.harness.record.commits.checkout import Commit, authors_between, web_url
from opscope.harness.record.optest import release_in
from opscope.harness.record.origin import source_of
from opscope.reports.database.rows import AXIS
from opscope.reports.records.night_record import VERSION

DIGITS = 8
"""Hex digits of a commit in a text."""
LONGEST = 40
"""Characters of a revision that is no commit of git's."""
MOST_AUTHORS = 3
"""Authors that are named; the others are counted."""

_COMMIT = re.compile(r"[0-9a-f]{12,64}")


@dataclass(frozen=True)
class CommitRange:
    """The commits after one run up to another."""

    old: Commit
    new: Commit

    @property
    def text(self) -> str:
        """`a1b2c3d4..d4e5f6a7`; one commit where both are of the same. A `+` says that files differ from a commit."""
        if not self.old.revision:
            return f"up to {_short(self.new)}"
        if not self.new.revision:
            return f"after {_short(self.old)}"
        if (self.old.revision, self.old.dirty) == (self.new.revision, self.new.dirty):
            return f"the same commit {_short(self.new)}"
        return f"{_short(self.old)}..{_short(self.new)}"

    @property
    def url(self) -> str:
        """The page that compares the two commits, or shows the one; empty where the remote is not known."""
        old, new = self.old, self.new
        page = new.url or old.url
        if not page or (old.url and new.url and old.url != new.url):
            return ""
        if not new.revision or old.revision in ("", new.revision):
            return page_of_commit(page, new.revision or old.revision)
        return page_of_range(page, old.revision, new.revision)

    def authors(self, folder: Path) -> tuple[str, ...]:
        """Who wrote them, as far as the checkout in `folder` has them, else the author of the last one."""
        between = authors_between(folder, self.old.revision, self.new.revision)
        return between or tuple(filter(None, [self.new.author]))


def range_of(old: Mapping[Any, Any], old_backend: str, new: Mapping[Any, Any], new_backend: str) -> CommitRange | None:
    """The commits between two runs, given their origins and backends; None where neither has one."""
    commits = CommitRange(commit_of(old, old_backend), commit_of(new, new_backend))
    return commits if commits.old.revision or commits.new.revision else None


def commit_of(origin: Mapping[Any, Any], backend: str) -> Commit:
    """The commit of a run on one backend: the one that the compiler has of its own, else that of the tested folder. Of
    a night of a release it is the release."""
    options = origin.get("options")
    if isinstance(options, Mapping) and options.get(AXIS) == VERSION:
        return Commit(release_in(backend))
    source = source_of(origin.get("options"))
    compilers = source.get("compilers")
    own = compilers.get(backend) if isinstance(compilers, dict) else None
    if isinstance(own, dict) and own.get("revision"):
        return Commit(str(own["revision"]), bool(own.get("dirty")), url=web_url(str(own.get("url") or "")))
    if not source and origin.get("backend_revision"):  # a run of an earlier version
        return Commit(str(origin["backend_revision"]), bool(origin.get("backend_dirty")))
    author, url = str(source.get("author") or ""), web_url(str(source.get("url") or ""))
    return Commit(str(origin.get("revision") or ""), bool(origin.get("dirty")), "", author, url)


def named(authors: tuple[str, ...]) -> str:
    """`Ada L, Bo M and 3 more`."""
    more = len(authors) - MOST_AUTHORS
    return ", ".join(authors[:MOST_AUTHORS]) + (f" and {more} more" if more > 0 else "")


def shortened(revision: str, digits: int = DIGITS) -> str:
    """The first digits of a commit of git's; another name is cut only if it is very long."""
    if _COMMIT.fullmatch(revision):
        return revision[:digits]
    return revision if len(revision) <= LONGEST else f"{revision[: LONGEST - 1]}…"


def _short(commit: Commit) -> str:
    return shortened(commit.revision) + "+" * commit.dirty

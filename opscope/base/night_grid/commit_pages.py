"""The pages of the usual servers of repositories that show commits, by the name of their host.

Python's standard library alone: Superset's own interpreter loads it, as it does grid.py.
"""

from __future__ import annotations

from urllib.parse import quote, urlsplit

LIKE_GITHUB = ("github", "gitea", "forgejo", "codeberg.org")
"""What occurs in the names of hosts that have GitHub's addresses."""


def page_of_range(page: str, old: str, new: str) -> str:
    """The page with the commits after `old` up to `new` of a repository; empty for an unknown server."""
    host, old, new = _host(page), quote(old, safe=""), quote(new, safe="")
    if "gitlab" in host:
        return f"{page}/-/compare/{old}...{new}"
    if any(name in host for name in LIKE_GITHUB):
        return f"{page}/compare/{old}...{new}"
    return f"{page}/branches/compare/{new}%0D{old}" if host == "bitbucket.org" else ""


def page_of_commit(page: str, revision: str) -> str:
    """The page of one commit; empty for an unknown server."""
    host, revision = _host(page), quote(revision, safe="")
    if "gitlab" in host:
        return f"{page}/-/commit/{revision}"
    if any(name in host for name in LIKE_GITHUB):
        return f"{page}/commit/{revision}"
    return f"{page}/commits/{revision}" if host == "bitbucket.org" else ""


def _host(page: str) -> str:
    """Empty for what is no page: a record may hold anything, and a link to it must run nothing."""
    try:
        parts = urlsplit(page)
    except ValueError:
        return ""
    return parts.hostname or "" if parts.scheme in ("http", "https") else ""

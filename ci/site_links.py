"""Links of the site (mkdocs.yml) to files of the repository, which the site does not have: to the repository, where its
address is known (OPSCOPE_REPOSITORY, or GitHub's own variables), else the text of the link alone."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<path>\.\./[^)#\s]*)(?P<rest>#[^)]*)?\)")


def repository() -> str:
    """The address of the repository; empty if it is not known."""
    server, name = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_REPOSITORY", "")
    return os.environ.get("OPSCOPE_REPOSITORY") or (f"{server}/{name}" if server and name else "")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The text of a page as mkdocs is to read it."""
    return replaced(markdown, DOCS / page.file.src_uri, repository())


def replaced(markdown: str, page: Path, address: str) -> str:
    """A page with its links out of docs/ as those of the site. Raises FileNotFoundError where there is no such file."""

    def link(match: re.Match[str]) -> str:
        target = (page.parent / match["path"]).resolve()
        if target.is_relative_to(DOCS):
            return match[0]
        if not target.exists():
            raise FileNotFoundError(f"{page}: expected a file, got {match['path']}")
        path = target.relative_to(DOCS.parent).as_posix()
        return f"[{match['text']}]({address}/blob/main/{path}{match['rest'] or ''})" if address else match["text"]

    return _LINK.sub(link, markdown)

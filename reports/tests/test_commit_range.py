"""Since when: commits between two runs, and the page that shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.base.document.in_terminal import show
from opscope.base.page import Page
from opscope.harness.record.commits.checkout import Commit
from opscope.harness.record.origin import SOURCE
from opscope.reports.compare import commit_range
from opscope.reports.compare.changed_causes import document
from opscope.reports.compare.commit_range import CommitRange, commit_of, named, range_of
from opscope.reports.compare.diff import compare
from opscope.reports.compare.outcomes import from_folder
from opscope.reports.tests.nights import Op, night
from opscope.wire.diff import series_of

A, B = "a1b2c3d4" * 5, "d4e5f6a7" * 5
GITHUB = "https://github.com/ada/compiler"


def origin(revision: str = A, dirty: bool = False, **source: object) -> dict[str, object]:
    return {
        "revision": revision,
        "dirty": dirty,
        "backend_revision": revision,
        "backend_dirty": dirty,
        "options": {SOURCE: source} if source else {},
    }


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (Commit(A), Commit(B), "a1b2c3d4..d4e5f6a7"),
        (Commit(A), Commit(B, True), "a1b2c3d4..d4e5f6a7+"),
        (Commit(A), Commit(A, True), "a1b2c3d4..a1b2c3d4+"),
        (Commit(A), Commit(A), "the same commit a1b2c3d4"),
        (Commit(), Commit(B), "up to d4e5f6a7"),
        (Commit(A), Commit(), "after a1b2c3d4"),
        (Commit("v1.2-3-gabc"), Commit("r" * 50), f"v1.2-3-gabc..{'r' * 39}…"),
    ],
)
def test_commits_between_two_runs_are_a_range(old, new, text):
    assert CommitRange(old, new).text == text


@pytest.mark.parametrize(
    ("page", "of_range", "of_commit"),
    [
        (GITHUB, f"/compare/{A}...{B}", f"/commit/{B}"),
        ("https://github.example.org/x/y", f"/compare/{A}...{B}", f"/commit/{B}"),
        ("https://gitlab.com/group/sub/x", f"/-/compare/{A}...{B}", f"/-/commit/{B}"),
        ("https://bitbucket.org/x/y", f"/branches/compare/{B}%0D{A}", f"/commits/{B}"),
        ("https://codeberg.org/x/y", f"/compare/{A}...{B}", f"/commit/{B}"),
        ("https://git.example.org/x/y", None, None),
    ],
)
def test_the_page_of_a_range_is_that_of_its_server(page, of_range, of_commit):
    for old_page in (page, ""):
        assert CommitRange(Commit(A, url=old_page), Commit(B, url=page)).url == ((of_range and page + of_range) or "")
    assert CommitRange(Commit(B, url=page), Commit(B, url=page)).url == ((of_commit and page + of_commit) or "")
    assert CommitRange(Commit(), Commit(B, url=page)).url == ((of_commit and page + of_commit) or "")
    assert CommitRange(Commit(A, url=page + "-2"), Commit(B, url=page)).url == ""
    assert CommitRange(Commit(A), Commit(B)).url == ""


def test_a_revision_cannot_leave_its_place_in_an_address():
    assert CommitRange(Commit(), Commit("v1/..)(?x", url=GITHUB)).url == f"{GITHUB}/commit/v1%2F..%29%28%3Fx"


def test_the_commit_of_a_run_is_the_compilers_own_else_the_folders():
    run = origin(url=GITHUB, author="Ada L", compilers={"mine": {"revision": "r7", "dirty": True}})
    run["backend_revision"] = f"r7,{A}"
    assert commit_of(run, "mine") == Commit("r7", True)
    assert commit_of(run, "xla") == Commit(A, author="Ada L", url=GITHUB)
    assert commit_of(origin(dirty=True), "mine") == Commit(A, True)
    assert commit_of({**origin(""), "backend_revision": B}, "mine") == Commit(B)
    assert range_of(origin(""), "mine", origin(""), "mine") is None


@pytest.mark.parametrize(
    "source", [7, {"compilers": 7}, {"compilers": {"mine": 7}}, {"url": "javascript://x/y", "author": 0}]
)
def test_damaged_words_about_a_commit_are_left_aside(source):
    run = {**origin(), "options": {SOURCE: source}}
    assert commit_of(run, "mine") == Commit(A)


def test_authors_are_those_of_the_range_else_of_the_last_commit(monkeypatch, tmp_path):
    commits = CommitRange(Commit(A), Commit(B, author="Ada L"))
    assert commits.authors(tmp_path) == ("Ada L",)
    monkeypatch.setattr(commit_range, "authors_between", lambda folder, old, new: ("Bo M", "Cy N"))
    assert commits.authors(tmp_path) == ("Bo M", "Cy N")
    assert named(("a", "b", "c", "d", "e")) == "a, b, c and 2 more"
    assert named(()) == ""


def test_a_comparison_begins_with_its_commits(tmp_path: Path, capsys) -> None:
    a, b = (from_folder(night(tmp_path, n, {"a": Op(pcc=0.99999, cycles=1000)})) for n in (1, 2))
    for view, revision in ((a, A), (b, B)):
        view.origin.update(revision=revision, backend_revision=revision)
        view.origin["options"][SOURCE] = {"url": GITHUB, "author": "Ada L"}
    comparison = compare(a, b)
    show(document(comparison, 30), Page())
    line = " ".join(capsys.readouterr().out.split())
    assert f"commits a1b2c3d4..d4e5f6a7 by Ada L {GITHUB}/compare/" in line
    assert series_of(comparison, None).model_dump(mode="json")["since"] == {
        "range": "a1b2c3d4..d4e5f6a7",
        "from": A,
        "to": B,
        "url": f"{GITHUB}/compare/{A}...{B}",
    }

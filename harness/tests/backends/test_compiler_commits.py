"""The commit of a compiler: its class names it, or it is this project's, or that of the tested folder."""

from __future__ import annotations

import pytest

from opscope.base import damage
from opscope.harness.backends import compiler_commits, life, registry
from opscope.harness.lanes.worker import _names_no_commit
from opscope.harness.record.commits.checkout import Commit

CLASS = """
from opscope import Backend, Stage, Target

class Mine(Backend):
    name = "mine"
    stages = (Stage.COMPILE,)
    {revision}

    def target(self, options):
        return Target("host", None, "exact")

    def fingerprint(self, options):
        return "mine"

    def available(self):
        return None

    def climb(self, stage, job):
        pass
"""


RAISES = "--backend mine.py: expected its revision, got division by zero; the tested folder's is stored"


@pytest.mark.parametrize(
    ("revision", "commit"),
    [
        ("", {}),
        ("revision = None", {}),
        ("revision = 'abc'; repository = 'https://me:geheim@host/x.git'", {"revision": "abc", "url": "https://host/x"}),
        ("revision = property(lambda self: 'abc+')", {"revision": "abc", "dirty": "yes"}),
        ("revision = lambda self: 'a\\tb\\nsecond line'", {"revision": "ab"}),
        ("revision = lambda self: 'a' * 1000", {"revision": "a" * 200}),
        ("revision = 'abc'; repository = lambda self: 'https://host/x'", {"revision": "abc", "url": "https://host/x"}),
        ("revision = lambda self: 1 / 0", {"problem": RAISES}),
        ("revision = property(lambda self: 1 / 0)", {"problem": RAISES}),
        (
            "revision = property(lambda self: self.absent)",
            {"problem": RAISES.replace("division by zero", "'Mine' object has no attribute 'absent'")},
        ),
        ("revision = 'abc'; repository = property(lambda self: 1 / 0)", {"problem": RAISES}),
    ],
)
def test_a_class_names_its_commit_by_an_attribute_or_a_method(tmp_path, revision, commit):
    (tmp_path / "mine.py").write_text(CLASS.replace("{revision}", revision))
    backend = registry.load(str(tmp_path / "mine.py"))
    assert life.own_commit("mine.py", backend) == commit
    # What may name another commit tomorrow is asked for it in every run: its report is not kept.
    assert _names_no_commit("mine.py", backend) is (revision == "")


def test_a_compiler_without_a_commit_is_this_projects_or_in_the_tested_folder(tmp_path, monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(damage, "say", lines.append)
    monkeypatch.setattr(compiler_commits, "own_commit", lambda folder: Commit("ours", True))
    named = {
        "mine.py": {"revision": "abc", "dirty": "yes", "url": "https://host/x"},
        "other.yaml": {"problem": "no luck"},
        "reference": {},
        "xla": {},
    }
    assert compiler_commits.commits(named, tmp_path) == {
        "mine": Commit("abc", True, url="https://host/x"),
        "other": Commit(),
        "reference": Commit("ours", True),
        "xla": Commit(),
    }
    assert lines == ["no luck"]

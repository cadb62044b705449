"""Releases that are taken, known bugs that nothing mends, and whose flags win."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError

import pytest

from opscope.base.places import HOME
from opscope.base.tests.each import each
from opscope.base.xla import xla_releases
from opscope.base.xla.xla_releases import BEFORE, FIRST, KNOWN_BUGS, OPTIONS, KnownBug, flags, known_bugs, notes


def lines(release: str) -> list[str]:
    return list(notes(lambda package: release))


def test_releases_that_are_taken_need_no_word() -> None:
    assert [lines(release) for release in ("0.10.1", "0.10.2", "0.11.2", "0.12.0.1")] == [[], [], [], []]


@each("release", ["0.9.2", "0.10.0", "0.13.0", "0.13", "1.0"])
def test_another_release_is_named_with_the_way_out(release: str) -> None:
    jax, jaxlib = lines(release)
    assert jax.startswith(f"jax: expected 0.10.1 or newer, below 0.13, got {release}: ")
    assert jaxlib.startswith("jaxlib: ")
    assert "try pip install 'jax>=0.10.1,<0.13'" in jax


@pytest.mark.parametrize(("release", "known"), [("0.10.2", 1), ("0.11.0", 1), ("0.11.1", 0), ("0.12.0", 0)])
def test_a_release_is_asked_for_no_option_that_it_lacks(release: str, known: int) -> None:
    """0.11.1 refuses what is compiled with one: nothing had a golden."""
    assert len(xla_releases.quick_options(release)) == known


def test_packages_that_are_absent_are_not_named() -> None:
    def absent(package: str) -> str:
        raise PackageNotFoundError(package)

    assert list(notes(absent)) == []


def test_a_known_bug_without_a_mend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    bug = KnownBug("0.10.2", "0.11.0", "a sum is wrong", "jax#1")
    monkeypatch.setattr(xla_releases, "KNOWN_BUGS", (bug,))
    assert lines("0.10.1") == lines("0.11.1") == []
    assert [line.partition(" is known")[2] for line in lines("0.10.2")] == [" to be wrong: a sum is wrong (jax#1)"]


def test_every_known_bug_has_a_source_and_a_mend_that_exists() -> None:
    for bug in KNOWN_BUGS:
        assert bug.what
        assert bug.shows
        assert bug.source.startswith(("jax#", "xla#", "shown with "))
        others = ("a second authority", "goldens, which are computed in f32")
        assert bug.package != "jaxlib" or bug.mended_by in (*OPTIONS, *others), bug


@each(
    ("releases", "found"),
    [
        ({}, []),
        ({"jaxlib": "0.11.1"}, ["jax#39707", "xla#29362"]),
        (
            {"jaxlib": "0.5.2", "jax-tt-plugin": "0.1.1"},
            ["reduce_precision", "bitcast_convert", "select_and", "triang"],
        ),
        ({"jax-tt-plugin": "0.1.3"}, ["select_and_scatter", "triangular_solve"]),
        ({"torch": "2.13.0+cpu", "apache-tvm": "0.25.0"}, ["compiled erf"]),
    ],
)
def test_known_bugs_of_what_is_installed(releases: dict[str, str], found: list[str]) -> None:
    def installed(package: str) -> str:
        if package not in releases:
            raise PackageNotFoundError(package)
        return releases[package]

    bugs = list(known_bugs(installed))
    assert [release for release, _ in bugs] == [releases[bug.package] for _, bug in bugs]
    for (_, bug), word in zip(bugs, found, strict=True):
        assert word in f"{bug.what} ({bug.source})"


def test_ours_stand_after_the_users_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    [(name, value)] = OPTIONS.items()
    ours = f"--{name}={value}"
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to=/tmp/x --{name}=+dot")
    assert flags() == f"--xla_dump_to=/tmp/x --{name}=+dot {ours}"
    xla_releases.use_flags()
    assert flags().split().count(ours) == 1
    monkeypatch.delenv("XLA_FLAGS")
    assert flags() == ours


def test_the_project_takes_the_same_releases() -> None:
    project = HOME / "pyproject.toml"
    if not project.is_file():
        pytest.skip("an installed wheel has no pyproject.toml")
    wanted = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
    assert {f"jax>={FIRST},<{BEFORE}", f"jaxlib>={FIRST},<{BEFORE}"} <= set(wanted)

"""The walks of docs/guide and the README do what they say: every command is run, from a wheel, in an empty folder."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from ci import on_telephones
from ci.guides import EXTRAS, GUIDES, README, fresh_environment, install_extra, readme
from ci.guides import walk as walk_in_empty_folder
from ci.walk import Command, File, missing, steps, too_wide, walk
from opscope.dashboards.tests.browser import CHROMIUM


def test_a_page_is_read_as_a_reader_would() -> None:
    commands = "$ false   # exit code 1\n$ ls\na ... z\n\nb\n"
    page = f"```yaml file=a/b.yaml\nx: 1\n```\ntext\n```sh\nnot run\n```\n```console\n{commands}```\n"
    assert list(steps(page)) == [
        File("a/b.yaml", "x: 1\n"),
        Command("false", 1, ()),
        Command("ls", 0, ("a ... z", "b")),
    ]


def test_lines_are_looked_for_in_their_order() -> None:
    output = "one  two\n  three (four)\nfive"
    assert missing(("one two", "three (...)", "...", "five"), output) == ""
    assert missing(("two three", "(four) five"), output) == "", "a terminal of 80 columns breaks lines"
    assert missing(("five", "one two"), output) == "one two"
    assert missing(("three .four.",), output) == "three .four."
    assert missing(("one two", "one two"), output) == "one two"


def test_a_line_fits_the_terminal_unless_it_is_to_be_copied() -> None:
    wide = "word " * 20
    assert too_wide(f"short\n{wide}\n") == wide
    for whole in ("again: pytest --op-by-op ", "    %0 = stablehlo.add ", "see docs/guide/ci_owner.md "):
        assert too_wide(f"{whole}{wide}") == ""


def test_a_command_that_ends_or_prints_differently_is_a_problem(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text, problem in (
        ("$ cat f\nhallo", ""),
        ("$ cat f\nhello", "expected a line `hello`"),
        ("$ false", "exit code 0, got 1"),
    ):
        page.write_text(f"```text file=f\nhallo\n```\n```console\n{text}\n```\n")
        problems = walk(page, tmp_path)
        assert (bool(problems), problem in "\n".join(problems)) == (bool(problem), True)


def test_there_is_a_walk_for_everybody() -> None:
    stems = {page.stem for page in GUIDES}
    assert stems == {"bring_up_a_model", "ci_owner", "compiler_engineer", "dashboard_reader", "flags", "tt_mlir"}
    assert set(EXTRAS) <= stems
    for page in GUIDES:
        assert sum(isinstance(step, Command) for step in steps(page.read_text())) >= 5


def test_the_readme_is_walked_with_a_small_model(tmp_path: Path) -> None:
    commands = [step.line for step in steps(readme(tmp_path).read_text()) if isinstance(step, Command)]
    assert len(commands) >= 6
    assert commands[0].startswith("pytest --model 'mnist_ml?' --op-by-op -n 2")
    assert commands[-1] == "opscope dashboard down"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guides")


@pytest.fixture(scope="module")
def python(scratch: Path) -> Path:
    """The Python of a fresh environment in which the wheel is installed."""
    return fresh_environment(scratch)


@pytest.mark.slow
@pytest.mark.parametrize("page", [*GUIDES, Path(f"{README}.md")], ids=lambda page: page.stem)
def test_every_command_does_what_the_page_says(
    page: Path, python: Path, scratch: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pytestconfig.cache is not None
    if absent := install_extra(python, page, scratch):
        pytest.skip(absent)
    # Superset is installed once for all sessions.
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(pytestconfig.cache.mkdir("superset")))
    walked = readme(scratch) if page.stem == README else page
    assert walk_in_empty_folder(python, walked, scratch) == ""
    if CHROMIUM and find_spec("playwright"):
        pages = sorted((scratch / page.stem / "empty").rglob("report.html"))
        runs = any(isinstance(step, Command) and step.line.startswith("pytest ") for step in steps(walked.read_text()))
        assert pages or not runs, "each run makes a page"
        assert list(on_telephones.problems(pages)) == []

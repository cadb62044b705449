"""What grows is bounded: the longest unused goes first, nothing that a live process holds, nothing used just now."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.base import damage
from opscope.base.temporary_folder import alone
from opscope.base.tests.captured import captured
from opscope.harness.cache import upkeep
from opscope.harness.cache.claims import Claims, in_use
from opscope.harness.cli.commands import clean
from opscope.harness.tests import run_folder

HOUR = 3600.0


def thing(path: Path, size: int, age: float) -> Path:
    """A file, or an export folder, of a size, last used a while ago."""
    if path.suffix:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    else:
        (path / "values").mkdir(parents=True)
        (path / "values" / "1.npy").write_bytes(bytes(size))
    os.utime(path, (time.time() - age,) * 2)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """5,000 bytes of things of several kinds."""
    root = tmp_path / "cache"
    thing(root / "exports" / "old", 2000, 9 * HOUR)
    thing(root / "exports" / "new", 2000, 1 * HOUR)
    thing(root / "executables" / "a.bin", 500, 8 * HOUR)
    thing(root / "results" / "ab" / "abc.json", 300, 5 * HOUR)
    thing(root / "results" / "cd" / "cde.json", 200, 0)
    return root


def names(things: list[upkeep.CacheEntry]) -> list[str]:
    return [thing.path.name for thing in things]


def test_everything_is_seen_with_its_size_and_in_the_order_of_its_last_use(cache: Path) -> None:
    there = upkeep.cached(cache)
    assert [(t.kind, t.path.name, t.size) for t in there] == [
        ("exports", "old", 2000),
        ("executables", "a.bin", 500),
        ("results", "abc.json", 300),
        ("exports", "new", 2000),
        ("results", "cde.json", 200),
    ]
    du = captured(["du", "-sb", "--apparent-size", cache / "exports" / "old" / "values" / "1.npy"], check=True)
    assert int(du.stdout.split()[0]) == there[0].size


@pytest.mark.parametrize(
    ("limit", "gone"),
    [
        (10_000, []),
        (5000, []),
        (4999, ["old"]),
        (2999, ["old", "new"]),
        (500, ["old", "a.bin", "abc.json", "new"]),
        (0, ["old", "a.bin", "abc.json", "new"]),
    ],
)
def test_the_longest_unused_goes_first_and_what_is_fresh_stays(cache: Path, limit: int, gone: list[str]) -> None:
    assert names(upkeep.trim(cache, limit)) == gone
    left = upkeep.cached(cache)
    assert {t.path.name for t in left} == {"old", "new", "a.bin", "abc.json", "cde.json"} - set(gone)
    assert not list(cache.glob("exports/.gone*"))


def test_what_takes_more_than_half_of_the_limit_pushes_out_no_other(cache: Path) -> None:
    giant = thing(cache / "exports" / "giant", 9000, 0)
    assert names(upkeep.trim(cache, 10_000)) == [], "it was used just now"
    os.utime(giant, (time.time() - HOUR / 2,) * 2)
    with holder(giant):
        assert names(upkeep.trim(cache, 10_000)) == [], "and is in use"
    assert names(upkeep.trim(cache, 10_000)) == ["giant"]


def test_a_run_that_loses_its_export_is_named(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    damage.forget()
    for name in ("old", "new"):
        run = tmp_path / ".opscope" / "runs" / f"run-of-{name}"
        run.mkdir(parents=True)
        (run / "manifest.jsonl").write_text(f'{{"export_dirs":["exports/{name}"]}}\n')
    assert names(upkeep.trim(cache, 4000)) == ["old"]
    line = "exports were removed without which `--op` and `opscope repro` run no op of run-of-old; try a larger"
    assert line in capsys.readouterr().err


def test_unfinished_folders_are_removed_even_with_room(cache: Path) -> None:
    thing(cache / "exports" / ".making-dead", 10, HOUR)
    thing(cache / "exports" / ".gone-1-x", 10, HOUR)
    thing(cache / "exports" / ".making-now", 10, 1)
    assert set(names(upkeep.trim(cache, 10**6))) == {".making-dead", ".gone-1-x"}


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that claims a folder."""
    script = (
        "import sys, time; from pathlib import Path; from opscope.harness.cache.claims import Claims; c = Claims()\n"
    )
    script += "c.hold(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def test_claimed_folders_stay_until_their_process_dies(cache: Path) -> None:
    old = cache / "exports" / "old"
    with holder(old) as child:
        assert names(upkeep.trim(cache, 4400)) == ["a.bin", "abc.json"], "the next ones go in its place"
        assert names(upkeep.trim(cache, 2000)) == ["new"]
        assert (old / "values" / "1.npy").is_file()
        assert in_use(old)
        child.kill()
        child.wait()
        assert not in_use(old)
        assert names(upkeep.trim(cache, 2000)) == ["old"]
    assert not old.exists()


def test_claims_are_shared_and_given_back(tmp_path: Path) -> None:
    with Claims() as one, Claims() as two:
        one.hold(tmp_path)
        two.hold(tmp_path)
        one.close()
        with alone(tmp_path) as ours:
            assert not ours
    with alone(tmp_path) as ours:
        assert ours
    with alone(tmp_path / "none") as ours:
        assert not ours


def test_a_run_that_adds_little_looks_once_an_hour(cache: Path) -> None:
    assert upkeep.trim(cache, 10**6, every=HOUR) == []
    assert upkeep.trim(cache, 0, every=HOUR) == []
    os.utime(cache / ".trimmed", (time.time() - 2 * HOUR,) * 2)
    assert "old" in names(upkeep.trim(cache, 0, every=HOUR))


def test_a_stamp_of_the_future_delays_nothing(cache: Path) -> None:
    assert upkeep.trim(cache, 10**6, every=HOUR) == []
    os.utime(cache / ".trimmed", (time.time() + 1000 * HOUR,) * 2)
    assert "old" in names(upkeep.trim(cache, 0, every=HOUR))


def test_a_folder_that_a_run_needs_is_reported_where_it_is_too_large(cache: Path) -> None:
    folders = [str(cache / "exports" / name) for name in ("old", "new", "old")]
    assert upkeep.beyond(folders, 4000) == "", "each folder counts once"
    assert upkeep.beyond([], 0) == ""
    assert upkeep.beyond(folders, 3999) == (
        "max_cache: expected 3.9 KiB for the inputs and goldens of this run, got 3.9 KiB; "
        "try OPSCOPE_MAX_CACHE=2G, or the next run computes them again"
    )


def test_the_command_says_what_goes_and_takes_it(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(cache))
    runs = tmp_path / ".opscope" / "runs"
    for number in range(4):
        run = run_folder.write(runs / f"2026010{number}-000000-m")
        os.utime(run / "manifest.jsonl", (1000 + number,) * 2)
    (runs / "20260109-000000-never-began").mkdir()
    words = ["--keep-runs", "2", "--max-cache", "2.5K"]
    planned = CliRunner().invoke(clean, [*words, "--dry-run"], catch_exceptions=False)
    assert len(list(runs.iterdir())) == 5
    assert len(upkeep.cached(cache)) == 5
    with holder(runs / "20260100-000000-m"):
        done = CliRunner().invoke(clean, words, catch_exceptions=False)
    table = {line.split()[0]: line.split()[1:] for line in planned.output.splitlines()[1 : 3 + len(upkeep.KINDS)]}
    assert table["runs"][0] == "5"
    assert table["runs"][3] == "3"
    assert table["exports"] == ["2", "3.9", "KiB", "2", "3.9", "KiB"]
    assert table["executables"] == ["1", "500", "B", "0", "0", "B"]
    assert table["all"][:3] == ["10", table["all"][1], "KiB"]
    assert "1 old runs stay: they are in use" in done.output
    assert sorted(path.name[:8] for path in runs.iterdir()) == ["20260100", "20260102", "20260103"]
    assert names(upkeep.cached(cache)) == ["a.bin", "abc.json", "cde.json"]
    assert "stay" not in CliRunner().invoke(clean, words, catch_exceptions=False).output
    nearly = CliRunner().invoke(clean, ["--max-cache", "1B"], catch_exceptions=False)
    assert "200 B of caches stay: they are in use, or were used within the last minute" in nearly.output
    refused = CliRunner().invoke(clean, ["--max-cache", "lots"])
    assert "--max-cache: expected a size" in str(refused.exception)

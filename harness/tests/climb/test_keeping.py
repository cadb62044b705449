"""Verdicts that a process of a run's own writes: all of them, and what becomes of them where it or the disk fails."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from opscope.base import damage
from opscope.base.children.ending import ChildEnded
from opscope.harness.cache.json_store import JsonStore
from opscope.harness.climb import keeping
from opscope.harness.climb.keeping import FOLDER, Apart, AtOnce
from opscope.harness.record.optest import RunContext, build_test, now
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.ops import add_row


@pytest.fixture
def test(tmp_path: Path) -> OpTest:
    """The record of a failure with a diagnostic."""
    context = RunContext("r1", str(tmp_path / "run"))
    diagnostic = tmp_path / "run" / "artifacts" / "a" / "compile.mlir"
    diagnostic.parent.mkdir(parents=True)
    diagnostic.write_text("the whole story\n")
    failed = {"failed_stage": Stage.COMPILE, "error": "no kernel", "artifact": "artifacts/a/compile.mlir"}
    return build_test(add_row(tmp_path, "a"), context, status=Status.COMPILE_FAILED, started=now(), **failed)


ENTRY = {"values": None}


def lists(number: int = 0) -> list[str]:
    return [f"list{number}"]


def name(number: int) -> str:
    return f"{number:02x}" * 16


def kept(cache: Path) -> int:
    return len(list((cache / FOLDER).glob("*/*.json")))


def eventually(what: str, cache: Path, count: int) -> None:
    until = time.monotonic() + 30
    while kept(cache) < count:
        assert time.monotonic() < until, what
        time.sleep(0.01)


def test_what_is_written_apart_is_what_is_written_at_once(tmp_path: Path, test: OpTest) -> None:
    apart = Apart(tmp_path / "apart", tmp_path / "run")
    here = AtOnce(tmp_path / "here", tmp_path / "run")
    for each in (apart, here):
        for number in range(20):
            each.keep(name(number), test, ENTRY, lists)
        each.keep(name(0), test, ENTRY, lambda: lists(1))
    apart.close()
    stores = [JsonStore(tmp_path / folder / FOLDER) for folder in ("apart", "here")]
    for number in range(20):
        first, second = (store.get(name(number)) for store in stores)
        assert first is not None
        assert first == second
    first = stores[0].get(name(0))
    assert first is not None
    assert [each["lists"] for each in first["results"]] == [["list1"], ["list0"]], "the newest first"
    assert {each["diagnostic"] for each in first["results"]} == {"the whole story\n"}


def test_nothing_to_keep_starts_no_process(tmp_path: Path) -> None:
    apart = Apart(tmp_path / "cache", tmp_path / "run")
    apart.close()
    assert apart._thread is None
    assert not (tmp_path / "cache").exists()


def test_what_is_dropped_goes_with_what_was_ordered_before(tmp_path: Path, test: OpTest) -> None:
    apart = Apart(tmp_path / "cache", tmp_path / "run")
    for number in range(3):
        apart.keep(name(number), test, ENTRY, lists)
    apart.drop("r1", test.backend)
    apart.keep(name(9), test, ENTRY, lists)
    apart.close()
    assert [path.stem for path in (tmp_path / "cache" / FOLDER).glob("*/*.json")] == [name(9)]


def test_nobody_waits_for_a_verdict_to_be_kept(tmp_path: Path, test: OpTest) -> None:
    apart = Apart(tmp_path / "cache", tmp_path / "run")
    apart.keep(name(0), test, ENTRY, lists)
    eventually("the first", tmp_path / "cache", 1)
    os.kill(apart.pid, signal.SIGSTOP)
    for number in range(1, 20):
        apart.keep(name(number), test, ENTRY, lists)
    assert kept(tmp_path / "cache") == 1
    os.kill(apart.pid, signal.SIGCONT)
    apart.close()
    assert kept(tmp_path / "cache") == 20


def test_another_process_goes_on_where_one_was_killed(tmp_path: Path, test: OpTest) -> None:
    apart = Apart(tmp_path / "cache", tmp_path / "run")
    apart.keep(name(0), test, ENTRY, lists)
    eventually("the first", tmp_path / "cache", 1)
    os.kill(apart.pid, signal.SIGKILL)
    apart.keep(name(1), test, ENTRY, lists)
    apart.close()
    assert kept(tmp_path / "cache") == 2


def test_exceptions_are_raised_at_the_end(tmp_path: Path, test: OpTest) -> None:
    apart = Apart(tmp_path / "cache", tmp_path / "run")
    apart.keep(name(0), test, {"values": None}, lists, text="{}")
    with pytest.raises(ChildEnded, match="ValidationError"):
        apart.close()
    apart = Apart(tmp_path / "cache", tmp_path / "run")
    apart.keep(name(0), test, ENTRY, lambda: [][0])
    with pytest.raises(IndexError):
        apart.close()


def test_what_has_no_lists_is_not_kept(tmp_path: Path, test: OpTest) -> None:
    apart = Apart(tmp_path / "cache", tmp_path / "run")
    for each in (apart, AtOnce(tmp_path / "cache", tmp_path / "run")):
        each.keep(name(0), test, ENTRY, lambda: None)
    apart.close()
    assert kept(tmp_path / "cache") == 0


def test_damage_that_it_meets_is_said_here(
    tmp_path: Path, test: OpTest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(damage, "_register", damage._Register())
    apart = Apart(tmp_path / "cache", tmp_path / "run")
    place = JsonStore(tmp_path / "cache" / FOLDER).place(name(0))
    place.parent.mkdir(parents=True)
    place.write_text("rubbish")
    apart.keep(name(0), test, ENTRY, lists)
    apart.close()
    assert capsys.readouterr().err == f"opscope: {place}: damaged (no digest); it is made again\n"
    assert JsonStore(tmp_path / "cache" / FOLDER).get(name(0)) is not None


def test_a_disk_that_takes_nothing_ends_no_run(tmp_path: Path, test: OpTest) -> None:
    (tmp_path / "cache").write_text("no folder")
    apart = Apart(tmp_path / "cache", tmp_path / "run")
    apart.keep(name(0), test, ENTRY, lists)
    apart.close()


def test_a_run_goes_on_where_no_process_can_be_started(
    tmp_path: Path, test: OpTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError("no process")

    monkeypatch.setattr("opscope.base.children.child.Child", refused)
    monkeypatch.setattr(keeping, "_GATHERING", 0.0)
    apart = Apart(tmp_path / "cache", tmp_path / "run")
    apart.keep(name(0), test, ENTRY, lists)
    apart.close()
    assert kept(tmp_path / "cache") == 0

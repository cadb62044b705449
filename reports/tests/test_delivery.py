"""What a run found reaches the database once, whatever dies, waits or lies before it, in whatever order it comes."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from opscope.harness.cli.doctor import _refused
from opscope.harness.record.errors import InputError
from opscope.reports.commands.publish import publish as command
from opscope.reports.commands.status import status
from opscope.reports.database.database import open_database
from opscope.reports.database.schema import METADATA, RUNS
from opscope.reports.end_of_run import Targets
from opscope.reports.end_of_run import deliver as end_of_run
from opscope.reports.nightly import delivery
from opscope.reports.publish import spool
from opscope.reports.publish.publish import publish
from opscope.reports.records import kept_runs
from opscope.reports.records.night_record import join
from opscope.reports.tests.night_runs import fresh, record
from opscope.reports.tests.nights import Op, night

SLOW = pytest.mark.slow
New = Callable[[], str]
"""Makes an empty database; its URL."""


def tables(url: str) -> dict[str, list[str]]:
    """Every table and column."""
    with open_database(url) as connection:
        return {table.name: sorted(map(repr, connection.execute(sa.select(table)))) for table in METADATA.sorted_tables}


def broken(message: str) -> Op:
    return Op("compile_failed", {"a": 1}, error=message)


def some_runs(folder: Path, number: int = 5) -> list[Path]:
    """Runs that say different things of one error, and of one night."""
    runs = []
    for place in range(number):
        ops = {
            "add": broken(f"no tile at 0x{place}f{place}"),  # one fingerprint, another text
            "tanh": Op("unsplittable", {"a": 1}, error=f"no reason {place}"),
            "mul": Op(uses={"a": 1, "b": 1}) if place % 2 else Op("skipped", {"a": 1}),
        }
        runs.append(run := night(folder, place + 1, ops))
        if place % 2:
            join(run, record(place // 4, shards=2), 1 + place // 2 % 2)
    return runs


def one_after_another(new: New, runs: Sequence[Path]) -> dict[str, list[str]]:
    url = new()
    for run in runs:
        publish(run, url)
    return tables(url)


def run_publish(*words: str) -> Result:
    return CliRunner().invoke(command, list(words), catch_exceptions=False)


def at_once(*steps: Callable[[], object]) -> None:
    errors: list[BaseException] = []

    def guarded(step: Callable[[], object]) -> None:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - the test's own thread raises it
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


# --- the spool loses nothing


def spoil(run: Path) -> None:
    (run / "run.json").write_text("")


def other_night(run: Path) -> None:
    (run / "night.json").unlink(missing_ok=True)
    join(run, record(0, shards=2, models=("a",)), 1)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [spoil, other_night])
def test_a_run_that_is_refused_stops_no_other_and_is_named_from_then_on(
    new: New, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    url = new()
    first, *others = some_runs(tmp_path / "runs")
    join(first, record(0, shards=2), 1)
    publish(first, url)
    kept = [spool.keep(run, url, tmp_path) for run in others]
    damage(kept[0])
    last = night(tmp_path / "runs", 9, {"add": Op(uses={"a": 1})})
    done = run_publish(str(last), "--to", url)
    assert done.exit_code == 2
    for run in (*others[1:], last):
        assert f"published {run.name} from" in done.output or f"published {run} to" in done.output, done.output
    assert "it is set aside in" in done.output
    assert spool.waiting(url, tmp_path) == []
    (aside,) = spool.refused(url, tmp_path)
    assert aside.folder.name == others[0].name
    done = run_publish(str(last), "--to", url)
    assert (done.exit_code, str(aside.folder) in done.output) == (0, True)
    shown = CliRunner().invoke(status, ["--database", url])
    assert str(aside.folder) in shown.output
    assert str(aside.folder) in CliRunner().invoke(status, ["--database", url, "--json"]).output
    (finding,) = _refused(tmp_path)
    assert (finding.usable, finding.needed, str(aside.folder) in finding.remedy) == (False, False, True)
    # The night of today is stored, whatever lies before it, and not called refused.
    today = night(tmp_path / "runs", 10, {"add": Op(uses={"a": 1})})
    found = delivery.publish([today], url, tmp_path)
    assert (found.published, found.refused, len(found.others)) == ((today.name,), (), 1)
    assert run_publish("--to", url).exit_code == 2  # tries it again
    for name in ("run.json", "night.json"):
        if (others[0] / name).exists():
            shutil.copyfile(others[0] / name, aside.folder / name)
    assert run_publish("--to", url).exit_code == 0
    assert spool.refused(url, tmp_path) == []


@pytest.mark.slow
def test_a_new_run_beside_a_delivery_arrives(new: New, tmp_path: Path) -> None:
    """Another process removes what waited while this one looks at it: that is no reason to drop the new run."""
    url = new()
    *waits, last = some_runs(tmp_path / "runs")
    for run in waits:
        spool.keep(run, url, tmp_path)
    at_once(lambda: spool.drain(url, tmp_path), lambda: spool.deliver(last, url, tmp_path))
    assert spool.waiting(url, tmp_path) == spool.refused(url, tmp_path) == []
    assert tables(url) == one_after_another(new, [*waits, last])


def test_a_run_that_vanishes_while_it_is_delivered_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = fresh(tmp_path / "db.sqlite")
    *waits, last = some_runs(tmp_path / "runs", 3)
    kept = [spool.keep(run, url, tmp_path) for run in waits]
    claim = kept_runs.claim

    def late(folder: Path, *words: Any) -> Any:
        if folder == kept[0]:
            shutil.rmtree(folder, ignore_errors=True)
        return claim(folder, *words)

    monkeypatch.setattr(kept_runs, "claim", late)
    done = spool.deliver(last, url, tmp_path)
    assert (done.problems, done.from_spool, done.rows is not None) == ([], (waits[1].name,), True)


def test_what_a_killed_process_left_half_copied_or_half_removed_is_no_run(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    run = night(tmp_path / "runs", 1, {"add": Op(uses={"a": 1})})
    part = tmp_path / spool.SPOOL / f"{kept_runs.PART}77-night09"
    kept_runs.copy_records(run, part)
    assert spool.drain(url, tmp_path).from_spool == ()
    spool.keep(run, url, tmp_path)
    assert not part.exists()
    assert spool.drain(url, tmp_path).from_spool == ("night01",)


def test_two_runs_of_one_name_both_wait(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    ours = night(tmp_path / "here", 1, {"add": Op(uses={"a": 1})})
    theirs = night(tmp_path / "there", 1, {"add": Op(uses={"a": 1})}, origin={"host": "desk"})
    kept = [spool.keep(run, url, tmp_path).name for run in (ours, theirs, ours)]
    assert kept == ["night01", "night01-2", "night01"]
    done = spool.drain(url, tmp_path)
    assert len(done.from_spool) == 1
    assert "another --run-dir for one of them" in str(done.problems[0])
    assert len(spool.refused(url, tmp_path)) == 1


def test_a_run_that_waits_beside_reports_of_benchmarks_takes_none_of_them(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    report = spool.folder_of(url, tmp_path) / kept_runs.REPORTS / "one.json"
    report.parent.mkdir(parents=True)
    report.write_text("{}")
    run = night(tmp_path / "runs", 1, {"add": Op(uses={"a": 1})}, run_id=kept_runs.REPORTS)
    assert spool.keep(run, url, tmp_path).name == f"{kept_runs.REPORTS}-2"
    spool.drain(url, tmp_path)
    assert report.read_text() == "{}"


def test_a_run_that_is_kept_nowhere_is_said_and_ends_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = night(tmp_path / "runs", 1, {"add": Op(uses={"a": 1})})
    (tmp_path / "db.sqlite").mkdir()
    url = f"sqlite:///{tmp_path}/db.sqlite"
    done = end_of_run(run, Targets(url, tmp_path, 9.0), None, lambda _: None)
    assert (done.lost, "opscope publish, which delivers" in done.problems[-1]) == (False, True)
    shutil.rmtree(tmp_path / ".opscope")
    (tmp_path / ".opscope").write_text("in the way")
    done = end_of_run(run, Targets(url, tmp_path, 9.0), None, lambda _: None)
    assert (done.lost, "nor is it kept" in done.problems[-1]) == (True, True)
    assert run_publish(str(run), "--to", url).exit_code == 1
    found = delivery.publish([run], url, tmp_path)
    assert (found.spooled, found.refused, len(found.lost)) == ((), (), 1)
    assert found.line.startswith("1 in neither: ")
    # A spool that cannot be written stops no publish.
    (tmp_path / "db.sqlite").rmdir()
    assert run_publish(str(run), "--to", url).exit_code == 0


# --- order does not matter


def rounds() -> Iterator[random.Random]:
    for seed in range(20):
        yield random.Random(seed)


@pytest.mark.slow
def test_twenty_rounds_of_publishers_deliveries_and_new_runs(new: New, tmp_path: Path) -> None:
    runs = some_runs(tmp_path / "runs")
    expected = one_after_another(new, runs)
    for chance in rounds():
        url, root = new(), tmp_path / f"round{chance.random()}"
        mixed = chance.sample(runs, len(runs))
        waits, fresh_runs = mixed[:3], mixed[3:]
        for run in waits:
            spool.keep(run, url, root)
        steps: list[Callable[[], object]] = [lambda url=url, root=root: spool.drain(url, root) for _ in range(2)]
        steps += [lambda run=run, url=url, root=root: spool.deliver(run, url, root) for run in fresh_runs]
        chance.shuffle(steps)
        at_once(*steps[: chance.choice((2, 3, 4))])
        for step in steps:
            step()
        assert spool.waiting(url, root) == spool.refused(url, root) == []
        assert tables(url) == expected


def test_an_error_says_what_the_earliest_run_said(new: New, tmp_path: Path) -> None:
    runs = some_runs(tmp_path / "runs", 3)
    expected = one_after_another(new, runs)
    (error,) = expected["errors"]
    assert "0x0f0" in error
    assert one_after_another(new, runs[::-1]) == expected


def test_an_op_is_as_the_latest_run_says(new: New, tmp_path: Path) -> None:
    runs = [
        night(tmp_path / "runs", number, {"tanh": Op("unsplittable", {"a": 1}, error=f"no reason {number}")})
        for number in (1, 2, 3)
    ]
    for order in (runs[::-1], [runs[2], runs[0], runs[1]]):
        assert [row for row in one_after_another(new, order)["ops"] if "no reason 3" in row]


# --- kills

PUBLISH = """
import sys
from opscope.harness.cli.main import main
main(["publish", sys.argv[1], "--to", sys.argv[2]])
"""
KILLED = """
import os, signal, sys
from opscope.harness.cli.main import main
from opscope.reports.publish import spool
spool.publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(["publish", sys.argv[1], "--to", sys.argv[2]])
"""
"""The same, killed when it asks the database."""


@SLOW
def test_thirty_kills_of_a_publish_lose_nothing(new: New, tmp_path: Path) -> None:
    ops = {f"op{number}": broken("no tile") if number % 3 else Op(uses={"a": 2}) for number in range(300)}
    runs = [night(tmp_path / "runs", number, ops) for number in range(1, 4)]
    expected = one_after_another(new, runs)
    url, chance, killed = new(), random.Random(1), 0
    publish(runs[1], url)  # a new database of PostgreSQL gets its tables
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", PUBLISH, str(runs[0]), url], check=True)
    took = time.monotonic() - began
    while killed < 30:
        with open_database(url) as connection:  # so that it is written anew, not seen to be there
            connection.execute(sa.update(RUNS).values(published=None))
        process = subprocess.Popen([sys.executable, "-c", PUBLISH, str(runs[killed % 3]), url])
        time.sleep(chance.uniform(0.2 * took, took))
        process.kill()
        killed += process.wait() == -signal.SIGKILL
    assert run_publish(*map(str, runs), "--to", url).exit_code == 0
    assert spool.waiting(url, tmp_path) == spool.refused(url, tmp_path) == []
    assert tables(url) == expected


def test_a_killed_publish_is_delivered_by_the_next(new: New, tmp_path: Path) -> None:
    """The run was in the spool before the database was asked."""
    url = new()
    run = night(tmp_path / "runs", 1, {"add": Op(uses={"a": 1})})
    killed = subprocess.run([sys.executable, "-c", KILLED, str(run), url])
    assert killed.returncode == -signal.SIGKILL
    shutil.rmtree(run)
    assert json.loads(run_publish("--to", url, "--json").output)["from_spool"] == ["night01"]


def test_what_holds_no_run_is_refused_and_kept_nowhere(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a run folder"):
        spool.deliver(tmp_path, fresh(tmp_path / "db.sqlite"), tmp_path)
    assert not (tmp_path / ".opscope").exists()

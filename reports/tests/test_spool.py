"""A database that is away costs nothing: its runs wait, and arrive once."""

from __future__ import annotations

import gc
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opscope.harness.record.errors import InputError
from opscope.harness.settings.settings import BY_NAME
from opscope.reports.commands.publish import publish as command
from opscope.reports.database.ask import ask
from opscope.reports.publish import spool
from opscope.reports.publish.spool import waiting
from opscope.reports.records.night_record import join
from opscope.reports.tests.night_runs import record
from opscope.reports.tests.nights import Op, night

OPS = {"add": Op(uses={"a": 1})}


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """A folder that is no folder yet, and the URL of a database in it that cannot be made."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "server"
    place.mkdir()
    (place / "db.sqlite").mkdir()  # what stands in the way
    return place / "db.sqlite", f"sqlite:///{place}/db.sqlite"


def publish(*words: str) -> Result:
    return CliRunner().invoke(command, list(words), catch_exceptions=False)


def test_what_waited_arrives_with_the_next_run(tmp_path: Path, away: tuple[Path, str]) -> None:
    place, url = away
    first = night(tmp_path, 1, OPS)
    join(first, record(1))
    done = publish(str(first), "--to", url)
    assert done.exit_code == 1
    assert "opscope publish, which delivers" in done.output
    assert [path.name for path in waiting(url, tmp_path)] == ["night01"]
    assert publish("--to", url).exit_code == 1
    shutil.rmtree(first)  # the machine that ran it is gone
    place.rmdir()
    done = publish(str(night(tmp_path, 2, OPS)), "--to", url, "--json")
    assert (done.exit_code, json.loads(done.output)["from_spool"]) == (0, ["night01"])
    assert ask(url, "SELECT run_id, night_id FROM runs ORDER BY run_id").rows == (
        ("night01", "nightly-20261102-020000"),
        ("night02", "night02"),
    )
    assert waiting(url, tmp_path) == []


# The alarm may ring between a file's opening and its `with`: the collector closes that one, and says so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_publish_that_takes_too_long_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run, url = night(tmp_path, 1, OPS), f"sqlite:///{tmp_path}/db.sqlite"
    done = publish(str(run), "--to", url, "--publish-timeout", "0.001")
    gc.collect(1)  # what was just left, without all that other tests hold
    assert done.exit_code == 1
    assert "--to: expected a publish of at most 0.001 s, got no end within 0.001 s; try opscope publish," in done.output
    assert [path.name for path in waiting(url, tmp_path)] == ["night01"]
    assert json.loads(publish("--to", url, "--json").output)["from_spool"] == ["night01"]


def test_draining_alone_and_twice(tmp_path: Path, away: tuple[Path, str]) -> None:
    place, url = away
    for number in (1, 2):
        assert publish(str(night(tmp_path, number, OPS)), "--to", url).exit_code == 1
    place.rmdir()
    done = publish("--to", url)
    assert (done.exit_code, done.output.count("from the spool to")) == (0, 2)
    assert "no run in the spool is waiting" in publish("--to", url).output
    assert ask(url, "SELECT COUNT(*), COUNT(DISTINCT run_id) FROM op_tests").rows == ((2, 2),)


def test_another_database_is_not_drained_and_bad_input_never_waits(tmp_path: Path, away: tuple[Path, str]) -> None:
    _, url = away
    run = str(night(tmp_path, 1, OPS))
    publish(run, "--to", url)
    other = f"sqlite:///{tmp_path}/other.sqlite"
    assert "no run in the spool is waiting" in publish("--to", other).output
    for bad in ((run, "--to", "mysql://host/db"), (str(tmp_path / "nowhere"), "--to", other)):
        with pytest.raises(InputError):
            publish(*bad)
    assert len(list((tmp_path / ".opscope" / "spool").iterdir())) == 1


def test_one_command_makes_runs_a_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "night.json").write_text(record(1, shards=2).model_dump_json())
    runs = [str(night(tmp_path, number, OPS)) for number in (1, 2)]
    done = publish(*runs, "--night", "night.json", "--shard", "2", "--json")
    assert (done.exit_code, list(json.loads(done.output)["runs"])) == (0, runs)
    url = f"sqlite:///{tmp_path}/.opscope/opscope.sqlite"
    assert ask(url, "SELECT DISTINCT night_id, shard FROM runs").rows == (("nightly-20261102-020000", 2),)
    with pytest.raises(InputError, match="--shard: expected a number up to 2, got 3"):
        publish(runs[0], "--night", "night.json", "--shard", "3")


def test_every_way_to_publish_has_the_same_limit_of_time() -> None:
    option = next(each for each in command.params if each.name == "seconds")
    assert option.default == BY_NAME["publish_timeout"].default == spool.SECONDS

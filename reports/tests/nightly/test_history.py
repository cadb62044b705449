"""Histories: which releases are meant, in which order their nights are, since which release an op fails."""

from __future__ import annotations

import json
import threading
import zipfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from importlib import util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from opscope.harness.cache import environments, package_index
from opscope.harness.cache.claims import alone_in
from opscope.harness.cli.main import root as opscope
from opscope.harness.record.errors import InputError
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests import run_folder
from opscope.reports.compare.outcomes import Outcome
from opscope.reports.nightly import history
from opscope.reports.nightly.history import History, Night, Release, asked_releases, bisected
from opscope.reports.nightly.night_folder import folder_of
from opscope.reports.nightly.running import SweepResult
from opscope.reports.nightly.sweeps import first_command, sweeps
from opscope.reports.tests.night_runs import fresh, rows

KNOWN = ["0.9.2", "0.10.0", "0.10.1", "0.11.0"]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, datetime]:
    """What pip knows of jax-tt-plugin; when each release was made."""
    made = {version: datetime(2026, month, 1, tzinfo=UTC) for month, version in enumerate(KNOWN, 1)}
    monkeypatch.setattr(package_index, "known_releases", lambda *_: [*KNOWN[:3], "0.11.0rc1", *KNOWN[3:]])
    monkeypatch.setattr(history, "fetched", lambda release: made.get(release.version))
    return made


@pytest.mark.parametrize(
    ("words", "since", "versions"),
    [
        ("tt@0.9.2..0.10.1", None, KNOWN[:3]),
        ("tt@0.10.1..", None, KNOWN[2:]),
        ("tt@..0.10.0", None, KNOWN[:2]),
        ("tt", None, KNOWN),
        ("tt@0.10.0, tt@0.9.2..0.10.0", None, ["0.9.2", "0.10.0"]),
        ("tt@0.11.0,tt@0.9.2", None, ["0.9.2", "0.11.0"]),  # by release, however they are asked for
        ("tt@0.11.0rc1..", None, ["0.11.0rc1", "0.11.0"]),  # a release candidate only where it is named
        ("tt", datetime(2026, 3, 1, tzinfo=UTC), KNOWN[2:]),
    ],
)
@pytest.mark.usefixtures("known")
def test_which_releases_are_meant(words: str, since: datetime | None, versions: list[str]) -> None:
    assert asked_releases(words, since) == [Release("tt", version) for version in versions]


@pytest.mark.parametrize(
    ("words", "since", "refusal"),
    [
        ("reference@1..2", None, "expected a backend of which releases can be had, got reference"),
        ("tt@0.9.3..0.10.0", None, "got 0.9.3; try tt@0.11.0, tt@0.10.1, tt@0.10.0, tt@0.9.2"),
        ("tt@0.10.1..0.9.2", None, "expected the older release first, got 0.10.1..0.9.2; try tt@0.9.2..0.10.1"),
        (
            "tt",
            datetime(2030, 1, 1, tzinfo=UTC),
            "--since: expected releases made since then, got none since 2030-01-01",
        ),
    ],
)
@pytest.mark.usefixtures("known")
def test_what_is_no_release_is_refused(words: str, since: datetime | None, refusal: str) -> None:
    with pytest.raises(InputError) as refused:
        asked_releases(words, since)
    assert refusal in str(refused.value)


@pytest.mark.slow
def test_without_an_index_the_releases_in_the_cache_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path))
    with pytest.raises(InputError, match="expected an index in which pip finds releases of jax-tt-plugin"):
        asked_releases("tt")
    for version in ("0.9.2", "0.10.0", "0.10.1-0123456789ab"):  # the last was made of somebody's wheel
        for folder in (f"releases/jax-tt-plugin-{version}", environments._folder_name("environments/jaxlib", version)):
            place = tmp_path / folder.replace("environments_", "environments/")
            place.mkdir(parents=True)
            (place / ("library.json" if "tt" in folder else "environment.json")).write_text("{}", encoding="utf-8")
    found = [release.name for release in asked_releases("tt@0.10.0..,xla")]
    assert found == ["tt@0.10.0", "xla@0.9.2", "xla@0.10.0"]
    said = "pip finds no index of jax-tt-plugin; only releases in the cache: 0.9.2, 0.10.0"
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_release_that_cannot_be_had_gets_no_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    night = of(tmp_path).run(Release("tt", "0.10.0"), lambda *_: None, lambda _: None)
    assert "expected an index in which pip finds releases of jax-tt-plugin" in night.problem
    assert [*tmp_path.rglob("night.json")] == []  # with the day before all others, for ever


def test_a_release_that_cannot_be_loaded_is_no_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every op would fail since then, and --bisect would name this release for them."""
    folder, release = tmp_path / "run", Release("tt", "0.10.0")
    fails = {"status": Status.COMPILE_FAILED, "failed_stage": Stage.COMPILE, "error": "tt@0.10.0 cannot be loaded: no"}
    monkeypatch.setattr(history, "fetched", lambda _: None)
    monkeypatch.setattr(history.registry, "check_name", lambda _: None)
    monkeypatch.setattr(
        history.running, "run", lambda all_sweeps, *_: [SweepResult(*all_sweeps, folder, "complete", 0)]
    )
    monkeypatch.setattr(history.delivery, "publish", lambda *_: pytest.fail("published"))
    run_folder.write(folder)
    tests = [run_folder.record_of(folder, op, **fails) for op in run_folder.NAMES]
    monkeypatch.setattr(history, "load_run", lambda _: SimpleNamespace(tests=tests))
    night = of(tmp_path).run(release, lambda *_: None, lambda _: None)
    assert night.problem == "tt@0.10.0 cannot be loaded: no"
    assert not folder.exists(), "another day it may load"


def test_what_is_done_after_the_ops_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, release, said = tmp_path / "run", Release("tt", "0.10.0"), list[str]()
    monkeypatch.setattr(history, "fetched", lambda _: None)
    monkeypatch.setattr(history.registry, "check_name", lambda _: None)
    monkeypatch.setattr(
        history.running, "run", lambda all_sweeps, *_: [SweepResult(*all_sweeps, folder, "complete", 0)]
    )
    monkeypatch.setattr(history.delivery, "publish", lambda *_: SimpleNamespace(away="", refused=(), lost=()))
    monkeypatch.setattr(history.progress, "step", said.append)
    run_folder.write(folder)
    tests = [run_folder.record_of(folder, op, status=Status.SUCCESS) for op in run_folder.NAMES]
    monkeypatch.setattr(history, "load_run", lambda _: SimpleNamespace(tests=tests))
    assert not of(tmp_path).run(release, lambda *_: None, lambda _: None).problem
    ops = f"{len(tests)} ops"
    assert said == [f"tt@0.10.0 · keeping the IR of {ops}", f"tt@0.10.0 · publishing {ops}"]


def test_another_process_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    release = Release("tt", "0.10.0")
    monkeypatch.setattr(history, "fetched", lambda _: None)
    monkeypatch.setattr(History, "is_published", lambda *_: published.is_set())
    asked, published, ran = of(tmp_path), threading.Event(), []

    def runs(name: str) -> None:
        ran.append(name)
        raise InputError("--backend", "nobody else that runs it", name)

    monkeypatch.setattr(history.registry, "check_name", runs)
    folder = folder_of(tmp_path, asked.night(release))
    folder.mkdir(parents=True)
    with alone_in(folder):
        waiting = threading.Thread(target=asked.run, args=(release, lambda *_: None, lambda _: None))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        published.set()
    waiting.join(10)
    assert not waiting.is_alive()
    assert ran == [], "the other has published it"
    assert "tt@0.10.0: another process runs it" in capsys.readouterr().err


def of(folder: Path, versions: Iterable[str] = KNOWN) -> History:
    """A history that runs nothing."""
    releases = tuple(Release("tt", version) for version in versions)
    return History(("mnist_mlp",), "n150", 1, {}, f"sqlite:///{folder}/db.sqlite", folder, releases)


@pytest.mark.parametrize(
    ("made", "there", "starts"),
    [
        ({"0.9.2": 5, "0.10.0": 6}, {}, {"0.9.2": (5, 0), "0.10.0": (6, 0)}),
        ({"0.10.0": 3}, {"0.9.2": 5}, {"0.10.0": (5, 1)}),  # an older release was published later: by version
        ({"0.9.2": 5}, {"0.10.0": 3}, {"0.9.2": (3, -1)}),
        ({"0.10.0": 9}, {"0.9.2": 4, "0.10.1": 6}, {"0.10.0": (5, 0)}),
        ({}, {"0.10.1": 6}, {"0.11.0": (6, 1), "0.10.0": (6, -1)}),  # nobody knows when
    ],
)
def test_nights_stand_in_the_order_of_releases(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made: Mapping[str, int],
    there: Mapping[str, int],
    starts: Mapping[str, tuple[int, int]],
) -> None:
    def day(number: int) -> datetime:
        return datetime(2026, 1, number, tzinfo=UTC)

    monkeypatch.setattr(
        history, "fetched", lambda release: day(made[release.version]) if release.version in made else None
    )
    monkeypatch.setattr(History, "_starts", lambda *_: {version: day(number) for version, number in there.items()})
    nights = {version: of(tmp_path).night(Release("tt", version)).started for version in starts}
    assert nights == {
        version: day(number) + timedelta(minutes=minutes) for version, (number, minutes) in starts.items()
    }


def test_the_night_of_a_release_is_known_by_what_is_asked(known: Mapping[str, datetime], tmp_path: Path) -> None:
    night = of(tmp_path).night(Release("tt", "0.10.0"))
    assert (night.release, night.axis, night.started) == ("0.10.0", "version", known["0.10.0"])
    assert night.night_id.startswith("history-tt@0.10.0-")
    other = History(("mnist_mlp",), "p150", 1, {}, "sqlite:///db.sqlite", tmp_path, (Release("tt", "0.10.0"),))
    assert other.night(Release("tt", "0.10.0")).night_id != night.night_id


def test_what_is_run_of_each_release_is_said_as_to_pytest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "asked_releases", lambda *_: [Release("tt", "0.10.0")])
    asked: list[History] = []

    def ran(self: History, release: Release, *_: Any) -> Night:
        asked.append(self)
        return Night(release, "", 0.0, "not tried")

    monkeypatch.setattr(History, "run", ran)
    words = ["history", "--backend", "tt", "--model", "a", "--db", f"sqlite:///{tmp_path}/db", "--workflow"]
    CliRunner().invoke(opscope, [*words, "full", "--until", "run"])
    config = asked[0].config(asked[0].releases[0])
    command = first_command(sweeps(config)[0], config, tmp_path, None)
    assert "--workflow full" in " ".join(command)
    assert "--until run" in " ".join(command)
    refused = CliRunner().invoke(opscope, [*words, "wohle"])
    assert "--workflow: expected one of" in str(refused.exception)


@pytest.mark.parametrize(
    ("backend", "label"),
    [("tt", "tt@1.0 n150"), ("xla", "xla@1.0"), ("iree", "iree@1.0"), ("pjrt:odd", "pjrt-odd@1.0")],
)
def test_no_board_is_named_of_a_backend_that_has_none(tmp_path: Path, backend: str, label: str) -> None:
    config = of(tmp_path).config(Release(backend, "1.0"))
    assert [sweep.label for sweep in sweeps(config)] == [label]


def test_what_is_older_than_a_release_that_is_too_old_is_not_fetched(
    known: Mapping[str, datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(history, "fetched", lambda release: fetched.append(release.version) or known[release.version])
    assert asked_releases("tt", known["0.10.1"]) == [Release("tt", version) for version in KNOWN[2:]]
    assert fetched == ["0.11.0", "0.10.1", "0.10.0"]


# --- since which release


def ops(names: str) -> dict[str, Outcome]:
    return {name: Outcome(name, f"stablehlo.{name}", "", "", "compile_failed", "split") for name in names}


@pytest.mark.parametrize(
    ("failing", "firsts", "most"),
    [
        (["", "", "", "", "", "", "", ""], {}, 2),
        (["a"] * 8, {"a": ("", "tt@0")}, 2),
        (["", "", "", "", "", "a", "a", "a"], {"a": ("tt@4", "tt@5")}, 5),
        (["", "b", "b", "b", "b", "b", "b", "ab"], {"a": ("tt@6", "tt@7"), "b": ("tt@0", "tt@1")}, 7),
        (["", "a", "", "", "", "", "a", "a"], {"a": ("tt@5", "tt@6")}, 5),
        ([None, "", None, None, "", None, "a", None], {"a": ("tt@4", "tt@6")}, 7),
        ([None] * 4, {}, 4),
    ],
    ids=["none", "always", "once", "two parts", "again", "some cannot be run", "none can be run"],
)
def test_the_first_release_in_which_an_op_fails(
    failing: list[str | None], firsts: Mapping[str, tuple[str, str]], most: int
) -> None:
    ran: list[str] = []

    def run(release: Release) -> Mapping[str, Outcome] | None:
        ran.append(release.version)
        names = failing[int(release.version)]
        return None if names is None else ops(names)

    found = bisected([Release("tt", str(number)) for number in range(len(failing))], run)
    assert {first.op.op_id: (first.right, first.failing) for first in found} == firsts
    assert len(ran) == len(set(ran)) <= most


# --- pip, the lanes and the database


@pytest.mark.slow
@pytest.mark.skipif(util.find_spec("xla_plugins") is None, reason="xla-cpu-pjrt is not installed")
def test_two_releases_are_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = util.find_spec("xla_plugins.xla_cpu_pjrt")
    assert spec is not None
    assert spec.submodule_search_locations
    [library] = Path(spec.submodule_search_locations[0]).glob("*.so")
    (tmp_path / "index").mkdir()
    for number, version in enumerate(("1.0", "2.0", "3.0")):
        about = f"odd_pjrt-{version}.dist-info"
        with zipfile.ZipFile(tmp_path / "index" / f"odd_pjrt-{version}-py3-none-any.whl", "w") as archive:
            content = library.read_bytes() if number < 2 else b"no library, but with the entry GetPjrtApi"
            archive.writestr(zipfile.ZipInfo("odd/odd.so", (2024, 5, 1 + number, 0, 0, 0)), content)
            archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: odd_pjrt\nVersion: {version}\n")
            archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{about}/entry_points.txt", "[jax_plugins]\nodd = odd\n")
            archive.writestr(f"{about}/RECORD", "")
    for name, value in {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "index"),
        "PIP_CONFIG_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    url = fresh(tmp_path / "db.sqlite")

    def run(*more: str) -> dict[str, Any]:
        words = ["history", "--backend", "pjrt:odd-pjrt@1.0..", "--model", "mnist_mlp", "--db", url, "--json", *more]
        done = CliRunner().invoke(opscope, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout[done.stdout.index("{") :])

    first = run()
    assert [(line["release"], line["lower_differently"]) for line in first["releases"]] == [
        ("pjrt:odd-pjrt@1.0", None),
        ("pjrt:odd-pjrt@2.0", 0),
    ]
    assert "pjrt:odd-pjrt@3.0" in first["problems"]
    began = rows(url, "SELECT run_id, started FROM runs ORDER BY 1")
    assert len(began) == 2
    monkeypatch.setattr(
        history.running,
        "run",
        lambda sweeps, *_: pytest.fail(f"{sweeps} again") if "3.0" not in str(sweeps) else [_refused(sweeps)],
    )
    assert run()["releases"] == first["releases"]
    assert rows(url, "SELECT run_id, started FROM runs ORDER BY 1") == began


def _refused(sweeps: Any) -> Any:
    return history.SweepResult(sweeps[0], Path("nowhere"), "refused", 0.0, "no plugin")

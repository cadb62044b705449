from __future__ import annotations

import json
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.base.installing import install_command
from opscope.base.page import Page
from opscope.harness.backends.tt import Tt
from opscope.harness.cli import doctor
from opscope.harness.cli.main import root
from opscope.harness.settings.settings import resolve
from opscope.harness.tests.ops import BACKENDS
from opscope.models import frontends
from opscope.wire.answer import text_of
from opscope.wire.doctor import Doctor


def findings(tmp_path: Path, **given: object) -> dict[str, doctor.Finding]:
    settings = resolve({"backend": "null", **given}, tmp_path, {})
    return {f"{f.kind} {f.name}": f for f in doctor.examine(settings, tmp_path)}


def test_every_part_is_examined(tmp_path: Path) -> None:
    got = findings(tmp_path)
    assert {f.kind for f in got.values()} == {"machine", "backend", "known bug", "framework", "database"}
    assert got["backend null"].usable
    assert "compare; passes by " in got["backend reference"].found
    assert got["framework jax"].usable
    assert all(bool(f.remedy) != f.usable for f in got.values()), "a remedy exactly where something is not usable"


def test_a_framework_says_what_it_lacks_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the packages that are there, the line read as if these did not work."""
    monkeypatch.setattr(frontends, "versions", lambda name, *_: {"jax": "0.10.2", "keras": ""})
    keras = findings(tmp_path)["framework keras"]
    assert (keras.usable, keras.found) == (False, "keras not installed")
    assert keras.remedy == install_command("keras")


def test_a_database_that_does_not_answer(tmp_path: Path) -> None:
    finding = findings(tmp_path, publish=f"sqlite:///{tmp_path}/no/such/folder/x.sqlite")["database database"]
    assert not finding.usable
    assert "OperationalError" in finding.found
    assert finding.remedy


def test_a_server_is_shown_without_its_password(tmp_path: Path) -> None:
    finding = findings(tmp_path, publish="postgresql://ann:s3cret@127.0.0.1:1/x")["database database"]
    assert not finding.usable
    assert "ann:***@127.0.0.1" in finding.found
    assert "s3cret" not in finding.found + finding.remedy
    assert finding.remedy


def test_a_broken_backend_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('no driver')\n")
    monkeypatch.setattr("opscope.harness.backends.registry.names", lambda: ["null", str(broken)])
    got = findings(tmp_path)
    assert not got[f"backend {broken}"].usable
    assert "no driver" in got[f"backend {broken}"].found
    assert doctor.in_order(list(got.values())), "the run does not need that backend"


def test_a_plugin_that_ends_jax_elsewhere_is_said_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jax_tt_plugin-9.dist-info").mkdir()
    (tmp_path / "jax_tt_plugin-9.dist-info" / "METADATA").write_text("Name: jax-tt-plugin\nVersion: 9\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(Tt, "device_path", str(tmp_path / "no card"))
    last = list(findings(tmp_path).values())[-1]
    assert (last.name, last.usable, last.needed) == ("your scripts", False, False)
    assert "jax-tt-plugin 9" in last.found
    assert "JAX_PLATFORMS=cpu" in last.remedy
    (tmp_path / "no card").touch()
    assert "backend your scripts" not in findings(tmp_path)


def test_a_folder_that_is_a_file_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    finding = findings(tmp_path, cache_dir=str(blocked))["machine disk for the cache"]
    assert not finding.usable
    assert "OPSCOPE_CACHE_DIR" in finding.remedy


def test_a_database_that_is_there_is_usable(tmp_path: Path) -> None:
    (tmp_path / ".opscope").mkdir()
    (tmp_path / ".opscope" / "opscope.sqlite").write_bytes(b"")
    assert findings(tmp_path)["database SQLite"].usable


def test_a_backend_that_there_is_not(tmp_path: Path) -> None:
    got = findings(tmp_path, backend="referense")
    finding = got["backend referense"]
    assert not finding.usable
    assert finding.remedy.startswith("--backend reference")
    assert finding.found == "there is no such backend; it is set by command line"
    assert not doctor.in_order(list(got.values()))


@pytest.mark.parametrize(
    ("compiled", "forbidden", "usable"), [(True, True, True), (False, False, True), (False, True, False)]
)
def test_sources_that_every_process_would_compile_again_are_reported(
    compiled: bool, forbidden: bool, usable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", forbidden)
    monkeypatch.setattr("sys.pycache_prefix", None)
    source = tmp_path / "module.py"
    if compiled:
        cached = Path(cache_from_source(str(source)))
        cached.parent.mkdir()
        cached.touch()
    finding = doctor._compiled_files(source)
    assert (finding.usable, bool(finding.remedy), finding.needed) == (usable, not usable, False)


def test_a_digest_is_shown_by_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    finding = doctor.Finding("backend", "fingerprint", True, f"{'0a' * 32}, {'1b' * 20}, 0123456789abcdef0")
    doctor.show([finding], Page())
    assert capsys.readouterr().out.split()[3:] == ["0a" * 8 + ",", "1b" * 8 + ",", "0123456789abcdef0"]
    assert json.loads(text_of(Doctor(in_order=True, findings=(finding,))))["findings"][0]["found"] == finding.found


@pytest.mark.slow
def test_one_backend_is_taken_through_its_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = str(BACKENDS / "library.py")
    monkeypatch.setenv("LIBRARY_NOTES", str(tmp_path / "notes"))
    settings = resolve({}, tmp_path, {})
    got = {f.name: f for f in doctor.examine_backend(settings, library)}
    assert all(finding.usable for finding in got.values())
    assert got["life"].found.startswith("load (once a run), open, fingerprint, warm_up: no error")
    assert (got["fingerprint"].found, got["the-library"].found) == ("library-1", "4.5")
    steps = [line.split()[0] for line in (tmp_path / "notes").read_text().splitlines()]
    assert steps[-4:] == ["open", "fingerprint", "warm_up", "close"]
    monkeypatch.setenv("LIBRARY_OPEN", "backend error")
    (finding,) = doctor.examine_backend(settings, library)
    assert (finding.usable, finding.found, finding.remedy) == (False, "expected a chip, got no chip", "another machine")
    assert not doctor.in_order([finding])


def test_it_ends_with_what_to_do(tmp_path: Path) -> None:
    works, lacks = (
        doctor.Finding("backend", "xla", True, ""),
        doctor.Finding("backend", "tvm", False, "none", "try", needed=False),
    )
    assert doctor.next_step([works, lacks], None) == "pytest --model mnist_mlp --op-by-op"
    assert doctor.next_step([works], "tt") == "pytest --model mnist_mlp --op-by-op --backend tt"
    needed = doctor.Finding("disk", "runs", False, "full", "--run-dir DIR")
    assert doctor.next_step([works, lacks, needed], None) == "runs: --run-dir DIR"
    shown = CliRunner().invoke(root, ["doctor"])
    assert shown.output.splitlines()[-1].startswith("next ")

"""Releases in environments of their own: pip itself without a network, the installed jaxlib under other versions."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from opscope.harness.backends import elsewhere, life, registry
from opscope.harness.backends.base import SMALLEST, Declined, Job, StageCrashError, StageError
from opscope.harness.cache import environments, upkeep
from opscope.harness.climb.reruns import Reruns
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.prepare import mlir
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.ops import add_row
from opscope.harness.tests.wheels import INSTALLED, MADE, only_index, wheel

ADD = b"""func.func @main(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.add %a, %b : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}"""
CUSTOM = b"""func.func @main(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.custom_call @Sharding(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}"""
"""For a custom call the backend imports jax."""
DIES = "import os, signal\nprint('last words', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)\n"


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder with all releases that there are, with a cache that is kept for this file."""
    index = tmp_path_factory.mktemp("index")
    wheel(index, "jaxlib", "9.1", {"jaxlib/__init__.py": INSTALLED})
    wheel(index, "jax", "9.1", {"jax/__init__.py": DIES})
    wheel(index, "jaxlib", "9.2", {"jaxlib/__init__.py": "raise ImportError('libodd.so.7: no such file')\n"})
    wheel(index, "jax", "9.2", {"jax/__init__.py": ""}, needs="odd-part>=2")
    wheel(index, "jaxlib", "9.3", {"jaxlib/__init__.py": "import time\ntime.sleep(600)\n"})
    wheel(index, "jax", "9.3", {"jax/__init__.py": ""})
    wheel(index, "odd-part", "2.5", {"odd_part.py": ""})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        only_index(patch, index)
        yield index
    environments._found.cache_clear()


def lane(folder: Path, backend: str) -> Lane:
    return Lane(LaneConfig(RunContext("r1", str(folder / "run"), backend), {"toy": str(folder)}))


@pytest.mark.slow
def test_an_op_is_computed_by_the_release_and_one_that_kills_it_costs_itself(releases: Path, tmp_path: Path) -> None:
    with lane(tmp_path, "xla@9.1") as own:
        ready = own.ready()
        assert ready.fingerprint.startswith("xla-9.1-")
        assert dict(ready.versions) == {"jax": "9.1", "jaxlib": "9.1"}
        right = own.run(add_row(tmp_path, "right", ADD))
        assert (right.status, right.ran_on, right.left_behind) == (Status.SUCCESS, "host", ())
        crashed = own.run(add_row(tmp_path, "crashed", CUSTOM))
        assert (crashed.status, crashed.crash_kind) == (Status.CRASHED, "signal SIGSEGV")
        assert crashed.failed_stage is Stage.COMPILE
        assert "last words" in (tmp_path / "run" / str(crashed.artifact)).read_text()
        refused = own.run(add_row(tmp_path, "refused", b"func.func @main("))
        assert refused.status is Status.COMPILE_FAILED, "the next op has a process of its own"
        assert own.starts == 2


@pytest.mark.slow
def test_a_release_that_cannot_be_loaded_fails_with_each_op(releases: Path, tmp_path: Path) -> None:
    with lane(tmp_path, "xla@9.2") as own:
        tests = [own.run(add_row(tmp_path, name, ADD)) for name in ("one", "two")]
        assert not own.ready().lasting, "another day it may load"
    for test in tests:
        assert (test.status, test.failed_stage) == (Status.COMPILE_FAILED, Stage.COMPILE)
        assert Reruns(1).label(test, lambda: pytest.fail("an op of a release that cannot be loaded runs again")) == test
        assert "xla@9.2 cannot be loaded" in str(test.error_message)
        assert "libodd.so.7" in str(test.error_message)


@pytest.mark.slow
def test_a_release_that_hangs_while_it_is_loaded_fails_with_each_op(
    releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "LOAD_SECONDS", 3.0)
    backend = life.load("xla@9.3")
    began = time.monotonic()
    for name in ("one", "two"):
        with pytest.raises(StageError, match=r"xla@9\.3 cannot be loaded: .*no answer within 3 s") as refused:
            backend.climb(Stage.COMPILE, Job(name, ADD, [], ResultOptions()))
        assert not isinstance(refused.value, StageCrashError)
        assert refused.value.of_backend
    assert time.monotonic() - began < 15, "it is waited for once"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A release in the cache, as pip has left it there; that pip does is in the slow tests."""
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path))
    folder = tmp_path / environments.FOLDER / environments._folder_name("jaxlib", "9.1")
    (folder / "jaxlib").mkdir(parents=True)
    (folder / "jaxlib" / "__init__.py").write_text(INSTALLED)
    packages = [{"name": name, "version": "9.1", "sha256": name} for name in ("jaxlib", "jax")]
    entry = {"packages": packages, "files": environments._files_digest(folder)}
    environments.stored.write_json(folder / environments._INSTALLED, entry)
    return "xla@9.1"


def test_ops_are_written_for_the_stablehlo_of_the_release(there: str) -> None:
    backend = life.load(there)
    try:
        assert backend.available() is None
        assert dict(backend.versions()) == {"jax": "9.1", "jaxlib": "9.1"}
        backend.open(ResultOptions())
        backend._ready["stablehlo"] = "1.0.0"
        job = Job("negate", SMALLEST, [], ResultOptions())
        assert backend._as_it_reads(SMALLEST).startswith(mlir.door.MAGIC + b"\rStableHLO_v1.0.0")
        backend.climb(Stage.COMPILE, job)
        for value in (1.0, 2.0):
            job.inputs = [np.full((2, 2), value, np.float32)]
            backend.climb(Stage.RUN, job)
            np.testing.assert_array_equal(job.outputs, [np.full((2, 2), -value)])
        newer = Job("tan", SMALLEST.replace(b"negate", b"tan"), [], ResultOptions())
        with pytest.raises(Declined, match=r"StableHLO 1\.0\.0, which this release reads, lacks it"):
            backend.climb(Stage.COMPILE, newer)
    finally:
        backend.close()


@pytest.mark.slow
def test_a_release_is_installed_once_with_what_is_missing_and_its_hashes(
    releases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path))
    made = environments.find("here", "jaxlib jax", "9.2")
    assert made.versions == {"jaxlib": "9.2", "jax": "9.2", "odd-part": "2.5"}, "numpy is here, and so is not installed"
    assert "installing jaxlib 9.2" in capsys.readouterr().err
    assert all(
        len(each["sha256"]) == 64
        for each in environments.stored.read_json(made.folder / "environment.json")["packages"]
    )
    assert registry.release_date("xla", "9.2") == datetime(*MADE, tzinfo=UTC)
    assert registry.release_date("xla", "9.1") is None, "nobody has installed it here"
    assert [entry.path for entry in upkeep.cached(tmp_path)] == [made.folder]
    environments._found.cache_clear()  # another process
    (made.folder / "jax" / "__pycache__").mkdir()
    assert environments.find("here", "jaxlib jax", "9.2") == made
    assert "installing" not in capsys.readouterr().err
    environments._found.cache_clear()
    (made.folder / "odd_part.py").write_text("spoiled")
    assert environments.find("here", "jaxlib jax", "9.2") == made
    assert (made.folder / "odd_part.py").read_text() == ""


@pytest.mark.slow
def test_what_a_backend_needs_beside_a_release_comes_with_it(
    releases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path))
    assert environments.find("here", "jaxlib jax", "9.1", "numpy").versions.keys() == {"jaxlib", "jax"}
    made = environments.find("here", "jaxlib jax", "9.1", "odd-part")
    assert made.versions.get("odd-part") == "2.5", "one that was made without it is made again"
    environments._found.cache_clear()
    assert environments.find("here", "jaxlib jax", "9.1", "odd-part") == made
    needing = [name for name in registry.own_names() if "onnx_graph" in registry._source(name).read_text()]
    assert {registry._constant(name, "beside") for name in needing} == {"onnx"}


@pytest.mark.slow
def test_two_runs_at_once_make_one_and_one_that_is_killed_leaves_none(releases: Path, tmp_path: Path) -> None:
    code = "from opscope.harness.cache import environments; environments.find('here', 'jaxlib jax', '9.1')"
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(tmp_path)}

    def begin() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True)

    killed = begin()
    while not list(tmp_path.glob("environments/.making-*")):
        time.sleep(0.05)
    killed.kill()
    killed.communicate()
    both = [begin(), begin()]
    said = [process.communicate()[1].count("installing") for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(said) == [0, 1]
    later = time.time() + 2 * upkeep.FRESH_SECONDS
    old = [entry for entry in upkeep.cached(tmp_path, later) if entry.unfinished]
    assert upkeep.shrink(upkeep.cached(tmp_path, later), 1 << 30, upkeep.remove) == old
    assert len(list(tmp_path.glob("environments/*"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("xla@9.9", "expected a release of jaxlib for this Python and machine, got 9.9; try xla@9.3, xla@9.2, xla@9.1"),
        (
            "iree@3.0",
            "an index in which pip finds releases of iree-base-compiler for this machine, got none; try iree@",
        ),
        ("xla@9.1..9.2", "expected one release, got the range 9.1..9.2; try opscope history --backend xla@9.1..9.2"),
        ("xla@none.whl", "expected the file of a wheel, got no file none.whl; try xla@VERSION"),
    ],
)
def test_a_release_that_there_is_not_is_one_line(releases: Path, backend: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        registry.check_name(backend)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_wheel_of_ones_own_decides_the_version_of_the_others(releases: Path, tmp_path: Path) -> None:
    own = wheel(tmp_path, "jaxlib", "9.1", {"jaxlib/__init__.py": INSTALLED + "built = 'here'\n"})
    made = environments.find("here", "jaxlib jax", str(own))
    assert "built = 'here'" in (made.folder / "jaxlib" / "__init__.py").read_text()
    assert made.versions == {"jaxlib": "9.1", "jax": "9.1"}
    assert made.digest != environments.find("here", "jaxlib jax", "9.1").digest
    assert registry.absolute(f"xla@{own.name}", tmp_path) == f"xla@{own}"

"""Backends at a release: what is asked for, what pip fetches once, and wheels that are none. pip itself, no network."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from datetime import UTC, datetime
from importlib import util
from pathlib import Path

import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.backends import plugin_releases, registry
from opscope.harness.backends.base import SMALLEST, Job
from opscope.harness.backends.pjrt import Pjrt
from opscope.harness.cache import package_index
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext, backend_label, release_in
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import DETERMINISTIC, Stage, Status
from opscope.harness.tests.ops import add_row

PLUGIN = "xla_cpu_pjrt"
needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
LIBRARY = b"no library, but with the entry GetPjrtApi"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    plugin_releases._found.cache_clear()
    (tmp_path / "index").mkdir()
    return tmp_path / "cache"


def wheel(folder: Path, version: str = "1.0", files: dict[str, bytes] | None = None, name: str = "odd_pjrt") -> Path:
    """A wheel of a plugin."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in ({"odd/odd.so": LIBRARY + version.encode()} if files is None else files).items():
            archive.writestr(zipfile.ZipInfo(file, (2024, 5, 6, 7, 8, 10)), content)
        about_it = {
            "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "entry_points.txt": "[jax_plugins]\nodd = odd\n",
            "RECORD": "",
        }
        for file, text in about_it.items():
            archive.writestr(zipfile.ZipInfo(f"{about}/{file}"), text)
    return path


@each(
    ("backend", "parts", "label", "release"),
    [
        ("tt@0.1.2", ("tt", "jax-tt-plugin@0.1.2"), "tt@0.1.2", "0.1.2"),
        ("tt@made/x-1.0-py3-none-any.whl", ("tt", "jax-tt-plugin@made/x-1.0-py3-none-any.whl"), None, None),
        ("pjrt:odd@1.0.dev3+new", ("pjrt", "odd@1.0.dev3+new"), "pjrt-odd@1.0.dev3+new", "1.0.dev3+new"),
        ("pjrt:/home/a@b/libx.so", ("pjrt", "/home/a@b/libx.so"), "pjrt-libx", ""),
        ("pjrt:/home/a@1/libx.so", ("pjrt", "/home/a@1/libx.so"), "pjrt-libx", ""),
        ("a@1/mine.py", ("a@1/mine.py", ""), "mine", ""),
        ("xla", ("xla", ""), "xla", ""),
        ("xla@0.10.1", ("xla", "@0.10.1"), "xla@0.10.1", "0.10.1"),
    ],
)
def test_a_release_stands_behind_the_name(
    backend: str, parts: tuple[str, str], label: str | None, release: str | None
) -> None:
    assert registry.parts(backend) == parts
    assert backend_label(backend) == (label or "tt@x-1.0-py3-none-any")
    assert release_in(backend) == ("made/x-1.0-py3-none-any.whl" if release is None else release)


def test_the_path_of_a_wheel_is_found_from_any_folder(tmp_path: Path) -> None:
    path = tmp_path / "x-1.0-py3-none-any.whl"
    assert registry.absolute(f"tt@{path.name}", tmp_path) == f"tt@{path}"
    assert registry.absolute(f"pjrt:odd@{path.name}", tmp_path) == f"pjrt:odd@{path}"
    assert registry.absolute("tt@0.1.2", tmp_path) == "tt@0.1.2"


def test_a_backend_without_releases_names_those_that_have_them() -> None:
    with pytest.raises(InputError) as refused:
        registry.check_name("null@0.10.1")
    able = " or ".join(
        f"{name}@0.10.1" for name in ("inductor", "iree", "onnxruntime", "openvino", "tt", "tvm", "xla", "pjrt:NAME")
    )
    assert able in str(refused.value)


@pytest.mark.slow
def test_a_release_is_fetched_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for version in ("1.0", "2.0"):
        wheel(tmp_path / "index", version)
    first = registry.load("pjrt:odd-pjrt@1.0")
    assert isinstance(first, Pjrt)
    library = first.library()
    assert (library.name, library.distribution, library.version) == ("odd", "odd-pjrt", "1.0")
    assert library.path.read_bytes() == LIBRARY + b"1.0"
    assert library.path.is_relative_to(tmp_path / "cache" / plugin_releases.FOLDER)
    assert "fetching odd-pjrt 1.0, once" in capsys.readouterr().err
    assert registry.load("pjrt:odd-pjrt@2.0").versions
    for made in (tmp_path / "index").iterdir():
        made.unlink()
    plugin_releases._found.cache_clear()  # another process
    assert registry.load("pjrt:odd-pjrt@1.0").library() == library
    assert "fetching odd-pjrt 1.0" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_release_that_there_is_not_names_those_that_there_are(tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        wheel(tmp_path / "index", version)
    with pytest.raises(InputError) as refused:
        registry.check_name("pjrt:odd-pjrt@3.0")
    assert str(refused.value).endswith(
        "expected a release of odd-pjrt for this Python and machine, got 3.0; try pjrt:odd-pjrt@2.0, pjrt:odd-pjrt@1.0"
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", ["1", "1.00"])
def test_a_release_has_one_name(tmp_path: Path, words: str) -> None:
    """pip takes all of these for 1.0, and records would have them as releases of their own."""
    wheel(tmp_path / "index", "1.0")
    with pytest.raises(InputError) as refused:
        registry.check_name(f"pjrt:odd-pjrt@{words}")
    assert str(refused.value).endswith(
        f"expected a release of odd-pjrt as it is published, got {words}; try pjrt:odd-pjrt@1.0"
    )


@pytest.mark.slow
def test_a_release_that_its_publisher_has_withdrawn_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "simple" / "odd-pjrt" / "index.html"
    page.parent.mkdir(parents=True)
    file = wheel(tmp_path / "index", "1.0").as_uri()
    page.write_text(f'<a href="{file}" data-yanked="crashes">odd_pjrt-1.0-py3-none-any.whl</a>', encoding="utf-8")
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    plugin_releases.find("--backend pjrt:odd-pjrt@1.0", "odd-pjrt", "1.0")
    assert "pjrt:odd-pjrt@1.0: its publisher has withdrawn it: crashes\n" in capsys.readouterr().err


@pytest.mark.slow
def test_releases_that_pip_knows_and_when_one_was_made(tmp_path: Path) -> None:
    for version in ("0.10.0", "0.9.2", "0.9.10"):
        wheel(tmp_path / "index", version)
    assert package_index.known_releases("here", "odd-pjrt") == ["0.9.2", "0.9.10", "0.10.0"]
    with pytest.raises(InputError, match="an index in which pip finds releases of none-such"):
        package_index.known_releases("here", "none-such")
    assert plugin_releases.release_date("odd-pjrt", "0.9.2") is None  # it is not fetched to know that
    plugin_releases.find("here", "odd-pjrt", "0.9.2")
    made = plugin_releases.release_date("odd-pjrt", "0.9.2")
    assert made == datetime(2024, 5, 6, 7, 8, 10, tzinfo=UTC)


def test_the_distribution_of_a_backend() -> None:
    backends = {"tt": "jax-tt-plugin", "pjrt:odd-pjrt": "odd-pjrt", "reference": "", "./own.py": ""}
    assert {backend: registry.distribution(backend) for backend in backends} == backends


def test_a_library_that_changed_in_the_cache_is_unpacked_again(tmp_path: Path) -> None:
    made = wheel(tmp_path)
    library = plugin_releases.find("here", "odd", str(made))
    library.path.write_bytes(LIBRARY + b"spoiled")
    plugin_releases._found.cache_clear()
    again = plugin_releases.find("here", "odd", str(made))
    assert again.path.read_bytes() == LIBRARY + b"1.0"


def test_kept_verdicts_of_a_wheel_end_with_it(tmp_path: Path) -> None:
    """A wheel is built again under its name; a version stays what it is, and is not fetched to know that."""
    made = wheel(tmp_path)
    before = registry.mark(f"tt@{made}")
    wheel(tmp_path, files={"odd/odd.so": LIBRARY + b"another"})
    assert registry.mark(f"tt@{made}") != before
    assert registry.mark("tt@0.1.2").startswith("0.1.2")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("files", "refusal"),
    [
        ({"odd/odd.py": b"x"}, "expected a wheel with one PJRT library, got 0"),
        ({"odd/a.so": LIBRARY, "odd/b.so": LIBRARY}, "expected a wheel with one PJRT library, got 2"),
    ],
)
def test_a_wheel_without_one_plugin_is_refused(tmp_path: Path, files: dict[str, bytes], refusal: str) -> None:
    with pytest.raises(InputError, match=refusal):
        plugin_releases.find("here", "odd", str(wheel(tmp_path, files=files)))
    assert not list((tmp_path / "cache" / plugin_releases.FOLDER).iterdir())


def test_what_is_no_wheel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd-1.0-py3-none-any.whl").write_bytes(b"no archive")
    for name, refusal in (("odd-1.0-py3-none-any.whl", "can be unpacked"), ("no-2.0-py3-none-any.whl", "no file")):
        with pytest.raises(InputError, match=refusal):
            plugin_releases.find("here", "odd", str(tmp_path / name))
    monkeypatch.setattr(plugin_releases, "MOST_BYTES", 10)
    with pytest.raises(InputError, match="expected a wheel of at most"):
        plugin_releases.find("here", "odd", str(wheel(tmp_path)))


@pytest.mark.skipif(util.find_spec("xla_plugins") is None, reason="xla-cpu-pjrt is not installed")
def test_a_plugin_of_a_wheel_computes(tmp_path: Path) -> None:
    spec = util.find_spec(f"xla_plugins.{PLUGIN}")
    assert spec is not None
    assert spec.submodule_search_locations
    [library] = Path(spec.submodule_search_locations[0]).glob("*.so")
    made = wheel(tmp_path, files={"there/xla_cpu_pjrt.so": library.read_bytes()})
    backend = registry.load(f"pjrt:odd@{made}")
    backend.load()
    job = Job("op", SMALLEST, [np.ones((2, 2), np.float32)], ResultOptions())
    for stage in backend.stages:
        backend.climb(stage, job)
    assert len(job.outputs) == 1
    assert "odd-pjrt 1.0" in backend.fingerprint(ResultOptions())


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, pytest.param(True, marks=needs_compiler)])
def test_a_release_that_cannot_be_loaded_costs_itself_alone(tmp_path: Path, *, dies: bool) -> None:
    """Beside other backends its ops fail by the reason; alone it ends the run."""
    library = LIBRARY
    if dies:
        source, made = tmp_path / "dies.c", tmp_path / "dies.so"
        source.write_text("#include <stdlib.h>\nvoid *GetPjrtApi(void) { return 0; }\n")
        source.write_text(source.read_text() + "__attribute__((constructor)) static void die(void) { abort(); }\n")
        subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(made)], check=True)
        library = made.read_bytes()
    version = f"1.{dies:d}"  # what a process knows of a release, it knows of another test's too
    wheel(tmp_path / "index", version, {"odd/odd.so": library})
    context = RunContext("r1", str(tmp_path / "run"), f"pjrt:odd-pjrt@{version}")
    row, folders = add_row(tmp_path, "op1"), {"toy": str(tmp_path)}
    reason = "a worker that starts, got killed by SIGABRT" if dies else "a shared library that can be loaded, got "
    with Lane(LaneConfig(context, folders)) as lane, pytest.raises(InputError, match=reason):
        lane.ready()
    with Lane(LaneConfig(context, folders, alone=False)) as lane:
        tests = [lane.run(row), lane.run(row)]
        ready, starts = lane.ready(), lane.starts
    for test in tests:
        assert (test.status, test.failed_stage, test.stability) == (Status.COMPILE_FAILED, Stage.COMPILE, DETERMINISTIC)
        assert test.error_message is not None
        assert test.error_message.startswith(f"pjrt-odd-pjrt@{version} cannot be loaded: expected ")
    with Lane(LaneConfig(context, folders, alone=False, refused=ready.refused)) as lane:  # as a worker that is told
        assert lane.run(row).error_message == tests[0].error_message
        assert lane.starts == 1 < starts

"""Finding PJRT plugins: by the entry point of an installed package, by its short name, by file; nothing is loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opscope.base.tests.each import each
from opscope.harness.backends import plugin_libraries, plugin_library, registry
from opscope.harness.climb import result_cache
from opscope.harness.limitations.limitation_file import check
from opscope.harness.limitations.limitations import Limitation
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext, backend_label
from opscope.harness.record.stages import Stage

WHERE = "--backend pjrt:x"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def install(site: Path, name: str, group: str = "jax_plugins", *, libraries: tuple[str, ...] = ("a.so",)) -> Path:
    """A package whose module ends whoever imports it, with libraries of a few bytes."""
    package = site / f"plugins_of_test_{group.replace('.', '_')}" / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    for library in libraries:
        (package / library).parent.mkdir(exist_ok=True)
        (package / library).write_bytes(b"\x7fELF GetPjrtApi" if "none" not in library else b"\x7fELF")
    info = site / f"{name}_dist-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {package.parent.name}.{name}\n")
    return package


@pytest.mark.parametrize("group", plugin_libraries.GROUPS)
def test_a_package_is_found_by_its_entry_point_and_not_imported(site: Path, group: str) -> None:
    package = install(site, "xla_odd12", group)
    for word in ("xla_odd12", "odd"):
        library = plugin_libraries.find(WHERE, word)
        assert (library.path, library.distribution, library.version) == (package / "a.so", "xla_odd12-dist", "2.5")
    assert "pjrt:xla_odd12" in registry.names()


@each(
    ("name", "short"),
    [("xla_cuda13", "cuda"), ("libtt", "tt"), ("xla_cpu_pjrt", "cpu"), ("cuda", "cuda"), ("12", "12")],
)
def test_short_plugin_names_suffice(name: str, short: str) -> None:
    assert plugin_library.short_name(name) == short


def test_of_several_libraries_the_one_with_the_entry_is_taken(site: Path) -> None:
    package = install(site, "liblone", libraries=("none.so", "below/plugin.so"))
    assert plugin_libraries.find(WHERE, "lone").path == package / "below" / "plugin.so"


@pytest.mark.parametrize(
    ("libraries", "got"),
    [((), "got none in"), (("a.so", "b.so"), "got 2 in"), (("none.so", "none2.so"), "got none in")],
)
def test_a_package_without_one_library_is_refused(site: Path, libraries: tuple[str, ...], got: str) -> None:
    install(site, "libodd", libraries=libraries)
    with pytest.raises(InputError, match=got) as refused:
        plugin_libraries.find("--backend pjrt:odd", "odd")
    assert refused.value.hint == "--backend pjrt:FILE.so"


def test_a_short_name_of_two_packages_is_refused_with_both(site: Path) -> None:
    install(site, "xla_odd12")
    install(site, "xla_odd13")
    assert plugin_libraries.find(WHERE, "xla_odd13")
    with pytest.raises(
        InputError, match="expected the name of one plugin, got 'odd', which may be xla_odd12 or xla_odd13"
    ):
        plugin_libraries.check(WHERE, "odd")


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("pjrt", "--backend pjrt: expected a plugin after a colon, got none; try .*pjrt:FILE.so"),
        ("pjrt:", "--backend pjrt: expected a plugin after a colon, got none; try .*pjrt:FILE.so"),
        ("pjrt:absent", "--backend pjrt:absent: expected the name of an installed PJRT plugin or a file, got 'absent'"),
        (
            "pjrt:./absent.so",
            r"--backend pjrt:./absent.so: expected the file of a PJRT plugin, got no file ./absent.so",
        ),
        ("xla:cpu", "--backend: expected a backend, got 'xla:cpu'; try xla"),
    ],
)
def test_a_name_without_a_plugin_is_refused_before_anything_starts(backend: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        registry.check_name(backend)


def test_only_backends_that_take_an_argument_have_one_after_the_colon() -> None:
    assert registry.parts("pjrt:a:b.so") == ("pjrt", "a:b.so")
    assert registry.parts("xla:b") == ("xla:b", "")
    assert registry.parts("command:a.yaml") == ("command:a.yaml", "")
    assert registry.declares("pjrt:whatever", "forkable")
    assert registry.mentions("pjrt:whatever", "plugin")


@each("backend", ["pjrt:cuda", "pjrt-cuda", "pjrt:some.so"])
def test_a_limitation_may_name_a_plugin_that_is_not_installed_here(backend: str) -> None:
    check(Limitation(("stablehlo.sort",), backend, Stage.COMPILE, "notyet", "sorted elsewhere"))


def test_a_limitation_of_a_backend_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="backend: expected a backend or its file, got 'pjrs-cuda'"):
        check(Limitation(("stablehlo.sort",), "pjrs-cuda", Stage.COMPILE, "notyet", "sorted elsewhere"))


def test_a_run_on_other_backends_looks_for_no_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_libraries, "plugins", lambda group: pytest.fail(f"reads {group} of all packages"))
    registry.check_name("xla")
    assert registry.mark("xla") == ""


def test_a_relative_file_is_found_from_any_folder(tmp_path: Path) -> None:
    assert registry.absolute("pjrt:b/x.so", tmp_path) == f"pjrt:{tmp_path}/b/x.so"
    assert registry.absolute("pjrt:cuda", tmp_path) == "pjrt:cuda"
    assert registry.absolute("a.py", tmp_path) == f"{tmp_path}/a.py"
    assert registry.absolute("xla", tmp_path) == "xla"


def test_two_files_of_one_name_need_another_name() -> None:
    with pytest.raises(InputError, match=r"'pjrt-x' twice; try a link of another name to pjrt:b/x\.so"):
        registry.split_names("pjrt:a/x.so,pjrt:b/x.so")
    assert registry.split_names("pjrt:a/x.so,pjrt:b/y.so") == ("pjrt:a/x.so", "pjrt:b/y.so")


def test_a_report_of_before_is_not_taken_for_another_library(tmp_path: Path) -> None:
    library = tmp_path / "x.so"
    library.write_bytes(b"one")
    context = RunContext("r", str(tmp_path), f"pjrt:{library}")
    before = result_cache._request(context)
    assert result_cache._request(context) == before
    library.write_bytes(b"another")
    assert result_cache._request(context) != before, "the report is recalled without starting the backend"


def test_a_report_is_made_anew_once_the_device_has_come(tmp_path: Path) -> None:
    """Compiled for a simulated board and compiled for a card are two reports of one library."""
    device, backend = tmp_path / "device", tmp_path / "mine.py"
    backend.write_text(
        "from opscope.harness.backends.base import Backend\n\n\n"
        f"class Mine(Backend):\n    name = 'mine'\n    device_path = {str(device)!r}\n"
    )
    without = registry.mark(str(backend))
    device.touch()
    assert registry.mark(str(backend)) != without


def test_a_folder_is_the_one_library_below_it(tmp_path: Path) -> None:
    build = tmp_path / "build"
    (build / "lib").mkdir(parents=True)
    (build / "lib" / "libodd.so").write_bytes(b"\x7fELF GetPjrtApi")
    (build / "lib" / "libodd.so.1.so").symlink_to("libodd.so")
    (build / "libother.so").write_bytes(b"\x7fELF")
    plugin_libraries.check(WHERE, f"{build}/")
    library = plugin_libraries.find(WHERE, f"{build}/")
    assert (library.name, library.path, library.version) == ("libodd", build / "lib" / "libodd.so", "")
    (build / "odd-2.5.dist-info").mkdir()
    (build / "odd-2.5.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 2.5\n")
    library = plugin_libraries.find(WHERE, str(build))
    assert (library.name, library.distribution, library.version) == ("libodd", "odd", "2.5"), "an unpacked wheel"
    assert backend_label(f"pjrt:{build}/") == "pjrt-build"
    assert registry.absolute("pjrt:build/", tmp_path) == f"pjrt:{build}"
    (build / "more.so").write_bytes(b"\x7fELF GetPjrtApi of another")
    with pytest.raises(InputError, match=r"expected one PJRT library in .*build, got lib/libodd\.so, more\.so; try"):
        plugin_libraries.check(WHERE, f"{build}/")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"expected one PJRT library in .*empty, got none"):
        plugin_libraries.find(WHERE, f"{tmp_path}/empty")

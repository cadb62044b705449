"""Plugins of JAX: a child that computes on the processor loads none, whatever is installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opscope.base.children.call import call

FIND = "opscope.base.tests.child_functions:find_devices"


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a plugin of JAX, installed beside it, writes when it is initialised."""
    mark = tmp_path / "initialised"
    (tmp_path / "a_plugin.py").write_text(f"def initialize():\n    open({str(mark)!r}, 'w').close()\n")
    package = tmp_path / "a_plugin-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: a-plugin\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[jax_plugins]\na_plugin = a_plugin\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return mark


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{}, {"JAX_ENABLE_X64": "1"}], ids=["a fork", "an interpreter of its own"])
def test_a_child_on_the_processor_initialises_no_plugin(loaded: Path, environment: dict[str, str]) -> None:
    outcome = call(FIND, {}, seconds=120, environment=environment)
    assert (outcome.ending.ok, outcome.result) == (True, "cpu"), outcome.log.last_line()
    assert not loaded.exists(), "JAX_PLATFORMS=cpu alone does not stop JAX"


@pytest.mark.slow  # what else is installed is loaded too, and may unpack hundreds of megabytes
def test_a_child_on_another_platform_has_its_plugins(loaded: Path, tmp_path: Path) -> None:
    call(FIND, {}, seconds=120, environment={"JAX_PLATFORMS": "cpu,another", "TMPDIR": str(tmp_path)})
    assert loaded.exists(), "the platform that is asked for may be that plugin's"


def test_a_library_that_the_environment_names_is_not_loaded_either(tmp_path: Path) -> None:
    named = {"PJRT_NAMES_AND_LIBRARY_PATHS": f"another:{tmp_path / 'absent.so'}"}
    assert call(FIND, {}, seconds=120, environment=named).result == "cpu"


def test_forks_of_a_process_that_has_imported_jax_load_none_either(loaded: Path) -> None:
    ahead = ("opscope.base.tests.child_functions:import_jax",)
    assert call(FIND, {}, seconds=120, ahead=ahead, server="with jax").result == "cpu"
    assert not loaded.exists()

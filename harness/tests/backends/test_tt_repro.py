"""What a repro folder of tt holds for people without opscope; whether it shows failures, with the plugin, is slow."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from opscope.harness.backends import tt_repro
from opscope.harness.backends.plugin_library import Library

PACKAGE = Library("libtt", Path("/packages/jax_plugins/libtt/libtt.so"), "jax-tt-plugin", "0.1.3")
OWN = Library("libtt", Path("/builds/it's mine/libtt.so"))


@pytest.mark.parametrize("library", [PACKAGE, OWN], ids=["package", "own"])
def test_the_program_is_short_and_valid_and_imports_no_opscope(library: Library) -> None:
    options = [("optimization_level", "1"), ("math_fidelity", "hifi2")]
    text = tt_repro.program(library, "n150.ttsys", options)
    assert len(text.splitlines()) <= 30
    tree = ast.parse(text)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"os", "re", "struct", "sys", "importlib", "pathlib", "jaxlib"}
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert {"n150.ttsys", "optimization_level", "1", "math_fidelity", "hifi2"} <= {str(value) for value in constants}
    assert ("jax-tt-plugin" in constants) == (library is PACKAGE)
    assert (str(OWN.path) in constants) == (library is OWN)


def test_the_lines_end_with_the_programs_exit_code(tmp_path: Path) -> None:
    import subprocess

    script = "\n".join(tt_repro.lines("wormhole_b0", 0))
    assert "'--ttir-to-ttnn-backend-pipeline=optimization-level=0 mock-system-desc-arch=wormhole_b0'" in script
    (tmp_path / tt_repro.PROGRAM).write_text("import os, sys; print(os.environ['TMPDIR']); sys.exit(7)")
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 7
    assert not Path(done.stdout.strip()).exists(), "the folder for what the plugin unpacks is removed"


def test_only_the_patched_build_asks_for_a_second_opinion() -> None:
    assert "third party's build" in tt_repro.build_note(PACKAGE)
    assert tt_repro.build_note(OWN) == ""
    assert tt_repro.build_note(Library("tt", Path("x.so"), "pjrt-plugin-tt", "1.0")) == ""

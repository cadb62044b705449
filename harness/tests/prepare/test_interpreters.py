"""Models that the user's own interpreter exports: which one it is, and what crosses."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import version
from pathlib import Path

import pytest

from opscope.base.places import room
from opscope.harness.cache import export_folder
from opscope.harness.prepare import interpreters, mlir
from opscope.harness.prepare.mlir.door import MAGIC
from opscope.harness.prepare.preparation import Preparation, tasks
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.run.api import run_op_by_op
from opscope.models.frontends import portable_artifact

MODEL = """import sys
import jax.numpy as jnp

assert sys.prefix == {prefix!r}, sys.prefix


def model(x):
    return jnp.tanh(x) @ x.T


example_inputs = (jnp.ones((4, 6)),)
"""


def script(folder: Path, version: tuple[int, int, int], packages: dict[str, str]) -> str:
    """An interpreter that says this of itself."""
    path = folder / f"python{version[1]}-{len(packages)}"
    path.write_text(f"#!/bin/sh\necho '{json.dumps([version, packages])}'\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_an_interpreter_is_chosen_by_the_name_of_the_model(tmp_path: Path) -> None:
    one, two = (script(tmp_path, (3, minor, 0), {"numpy": "2.4", "My_Frame.Work": "1.5"}) for minor in (12, 13))
    words = ResultOptions.of({"export_python": f"{one},bert*={two}"}).export_python
    chosen = {model: interpreters.of(words, model) for model in ("bert_base", "resnet50")}
    assert {model: found.path for model, found in chosen.items() if found} == {"bert_base": two, "resnet50": one}
    assert interpreters.of(f"bert*={two}", "resnet50") is None
    assert chosen["resnet50"] is not None
    assert chosen["resnet50"].version == "3.12.0"
    assert chosen["resnet50"].installed("my-frame_work") == "1.5"


@pytest.mark.parametrize(
    ("version", "packages", "got"),
    [
        ((3, 9, 4), {"numpy": "2.4"}, "which is Python 3.9.4; try a newer one"),
        ((3, 12, 0), {"jax": "0.7.1"}, "without NumPy; try .* -m pip install numpy"),
    ],
)
def test_what_is_no_such_interpreter_is_one_line(
    tmp_path: Path, version: tuple[int, int, int], packages: dict[str, str], got: str
) -> None:
    with pytest.raises(InputError, match=rf"--export-python: expected .*3\.10 or newer with NumPy, got .*{got}"):
        interpreters.of(script(tmp_path, version, packages), "net")
    for path in (tmp_path / "none", "/bin/false"):
        with pytest.raises(InputError, match=r"^--export-python: expected an interpreter.*try the path of bin/python"):
            interpreters.of(str(path), "net")


def test_what_its_framework_lacks_is_missing_there(tmp_path: Path) -> None:
    [task] = tasks(Preparation(("mnist_mlp",), export_python=script(tmp_path, (3, 12, 0), {"numpy": "2.4"})))
    assert task.missing.startswith("jax, jaxlib not installed")


def test_exporters_are_written_for_the_oldest_interpreter() -> None:
    """Neither they nor what their process imports first have words that Python or its library has only since."""
    later = {"StrEnum", "UTC", "Self", "Never", "assert_never", "assert_type", "LiteralString", "tomllib", "TaskGroup"}
    asked = """import sys, opscope.base.children.inside, opscope.models.frontends.child
for module in [*sys.modules.values()]:
    if module.__name__.startswith("opscope") and module.__file__:
        print(module.__file__)"""
    first = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    assert any(path.endswith("children/frames.py") for path in first)
    for path in {*map(Path, first), *(path for path in room("models").rglob("*.py") if "tests" not in path.parts)}:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=interpreters.OLDEST)
        imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
        assert not later & {alias.name for node in imports for alias in node.names}, path


@pytest.mark.slow
def test_a_model_is_exported_there_and_has_the_same_ops(tmp_path: Path) -> None:
    venv.create(tmp_path / "own", symlinks=True)
    [packages] = (tmp_path / "own").glob("lib/python*/site-packages")
    (packages / "all.pth").write_text(sysconfig.get_paths()["purelib"], encoding="utf-8")
    python = str(tmp_path / "own" / "bin" / "python")
    ids, cache = [], tmp_path / "cache"
    for prefix, options in ((sys.prefix, {}), (str(tmp_path / "own"), {"export_python": python})):
        (tmp_path / "net.py").write_text(MODEL.format(prefix=prefix), encoding="utf-8")
        run_dir = tmp_path / f"run{len(ids)}"
        tests = run_op_by_op(tmp_path / "net.py", run_dir=run_dir, cache_dir=cache, backend="xla", **options)
        assert all(test.success for test in tests), [test.error_message for test in tests]
        ids.append({test.op_id for test in tests})
    assert ids[0] == ids[1] != set()
    modules = [path.read_bytes() for path in sorted((cache / "modules").glob(f"*/{export_folder.MODULE}"))]
    assert sorted(module.startswith(MAGIC) and b"StableHLO_v" in module[:20] for module in modules) == [False, True]


@pytest.mark.parametrize(
    ("op", "reader", "is_text"),
    [
        ("chlo.top_k(%x, k = 2)", "0.10.0", True),
        ("chlo.top_k(%x, k = 2)", version("jaxlib"), False),
        ("chlo.top_k(%x, k = 2)", "99.0", False),
        ("stablehlo.custom_call @odd(%x)", "0.10.0", False),
    ],
)
def test_an_older_reader_gets_text_for_attributes_of_other_dialects(op: str, reader: str, *, is_text: bool) -> None:
    """Seen: jaxlib 0.11 writes chlo.top_k into bytecode as 0.10.2 does not read it, whatever artifact it is in."""
    results = "(tensor<4x2xf32>, tensor<4x2xi32>)"
    types = f"tensor<4x8xf32> -> {results}" if "chlo" in op else f"(tensor<4x8xf32>) -> {results}"
    text = f"""func.func @main(%x: tensor<4x8xf32>) -> {results} {{
      %a, %b = {op} : {types}
      return %a, %b : tensor<4x2xf32>, tensor<4x2xi32>
    }}"""
    module = mlir.load(text)
    crossed = portable_artifact.of(mlir.to_bytecode(module), reader)
    assert crossed.startswith(MAGIC) != is_text
    assert str(mlir.load(crossed)) == str(module)

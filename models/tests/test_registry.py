"""The registry: listing without a framework, closest names, globs, and a model added as one file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from opscope.models import frontends, registry

NAMES = ["bert_base", "gpt2_small", "mnist_mlp", "resnet50", "vit_base"]
ADDED = """
from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model


@model(name="{name}", family="toy")
def build(dtype):
    return Built(lambda w: w["x"] + w["x"], (ArgSpec("x", (2, 3), dtype, "normal:1", "input"),))
"""


def test_lists_all_models() -> None:
    assert set(NAMES) <= set(registry.names())


def test_listing_imports_no_framework_and_no_numpy() -> None:
    code = (
        "import sys, opscope.models.registry as r; r.names();"
        "print(sorted({'jax', 'jaxlib', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_name_offers_the_closest() -> None:
    with pytest.raises(ValueError, match=r"^--model: expected .*, got 'resnet5'; try resnet50"):
        registry.get("resnet5")
    with pytest.raises(ValueError, match=r"got 'qqq'; try opscope models, which lists them$"):
        registry.get("qqq")


def test_several_names_in_one_word_are_told_how_to_be_given() -> None:
    with pytest.raises(ValueError, match=r"try --model once for each: --model mnist_mlp --model resnet50$"):
        registry.match("mnist_mlp,resnet50")


def test_glob_and_all() -> None:
    assert [m.name for m in registry.match("*e*_ba?e")] == ["bert_base"]
    assert set(NAMES) <= {m.name for m in registry.match("all")}
    with pytest.raises(ValueError, match="got 'zzz\\*'"):
        registry.match("zzz*")


def test_adding_a_model_is_adding_one_file(tmp_path: Path) -> None:
    (tmp_path / "added.py").write_text(ADDED.format(name="added_by_test"))
    (tmp_path / "shared.py").write_text("raise RuntimeError('not a model: never imported')")
    assert registry.add_folder(tmp_path) == ["added_by_test"]
    added = registry.get("added_by_test", [tmp_path])
    assert added.build("float32").arguments[0].shape == (2, 3)
    exporter = {
        "__init__.py",
        "base.py",
        "child.py",
        "jax.py",
        "jax_tree.py",
        "own_results.py",
        "portable_artifact.py",
        "python_calls.py",
        "seeding.py",
    }
    assert {p.name for p in added.sources()} == {"added.py", "shared.py", *exporter}


def test_two_files_cannot_take_one_name(tmp_path: Path) -> None:
    (tmp_path / "again.py").write_text(ADDED.format(name="mnist_mlp"))
    registry.names()
    with pytest.raises(ValueError, match="expected a new name, got 'mnist_mlp'"):
        registry.add_folder(tmp_path)


def test_a_file_that_does_not_import_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(ADDED.format(name="broken") + "\nimport no_such_module_anywhere\n")
    with pytest.raises(ValueError, match=r"broken\.py: expected a model that imports, got ModuleNotFoundError"):
        registry.add_folder(tmp_path)


def test_what_an_exporter_imports_is_a_source() -> None:
    sources = {path.name for path in frontends.sources("tflite")}
    assert {"tflite.py", "base.py", "onnx.py", "fold.py", "saved_model.py"} <= sources
    assert "keras.py" not in sources


def test_another_model_is_no_source() -> None:
    sources = {p.name for p in registry.get("resnet50").sources()}
    assert "resnet50.py" in sources
    assert "seeding.py" in sources
    assert "bert_base.py" not in sources


def test_decorators_alone_say_of_our_files_what_parsing_all_of_them_does() -> None:
    files = [path for folder in registry.OWN_FOLDERS for path in folder.glob("*.py")]
    assert len(files) > 80
    for path in files:
        assert registry.declared(path) == registry._declared_in(path.read_bytes(), path), path


def test_matching_imports_no_model_and_finds_what_importing_all_finds() -> None:
    code = (
        "import sys, opscope.models.registry as r; m = r.match_declared('*');"
        "print([n for n in sys.modules if n.startswith('opscope.models.jax.')], ' '.join(d.name for _, d in m))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    of_us = registry.OWN_FOLDERS  # other tests add models of theirs
    assert done.stdout.split() == ["[]", *(m.name for m in registry.match("*") if m.path.parent in of_us)]
    own = [pair for pair in registry.match_declared("all") if pair[0].parent in of_us]
    ours = [model for model in registry.match("all") if model.path.parent in of_us]
    for (path, declared), model in zip(own, ours, strict=True):
        assert (path, declared.name, declared.framework) == (model.path, model.name, model.framework)
        assert (declared.giant, declared.trainable) == (model.giant, model.trainable)
    with pytest.raises(ValueError, match=r"got 'resnet5'; try resnet50"):
        registry.match_declared("resnet5")

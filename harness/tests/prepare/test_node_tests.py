"""`suite:onnx` as models: which cases a word names, what is said without the package, what a case becomes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.cache import export_folder
from opscope.harness.engine import model_jobs
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.prepare.onnx_suite import node_tests, onnx_cases
from opscope.harness.prepare.preparation import Preparation, tasks
from opscope.harness.record.errors import InputError
from opscope.models import frontends

REASONS = {"test_abs": "", "test_acos": "", "test_acos_example": "", "test_text": "text, and StableHLO has none"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which the cases have been written, on a machine that has the packages."""
    folder = tmp_path / "cache" / node_tests.FOLDER / node_tests._key()
    (folder.parent / "made").mkdir(parents=True)
    for name in (name for name, reason in REASONS.items() if not reason):
        (folder.parent / "made" / f"{name}.onnx").write_bytes(b"graph of " + name.encode())
        np.savez(folder.parent / "made" / f"{name}.npz", x=np.arange(3.0))
    (folder.parent / "made" / onnx_cases.INDEX).write_text(json.dumps(REASONS))
    export_folder.publish(folder.parent / "made", folder)
    monkeypatch.setattr(frontends, "missing", lambda framework, model=None: "")
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("suite:onnx", ["test_abs", "test_acos", "test_acos_example"]),
        ("suite:onnx/test_acos*", ["test_acos", "test_acos_example"]),
        ("suite:onnx.test_acos", ["test_acos"]),
        ("suite:onnx/*example", ["test_acos_example"]),
    ],
)
def test_a_word_names_cases_with_their_graphs_and_inputs(cache: Path, word: str, names: list[str]) -> None:
    named = tasks(Preparation((word,), cache_dir=str(cache)))
    assert len(node_tests._key()) == 20
    assert [task.name for task in named] == [f"suite:onnx.{name}" for name in names]
    for task, name in zip(named, names, strict=True):
        assert task.export is not None
        assert (task.export.framework, Path(task.path).name) == ("onnx", f"{name}.onnx")
        assert task.request.inputs == task.export.source.inputs == str(Path(task.path).with_suffix(".npz"))
        assert dict(task.export.source.shapes) == {"x": (3,)}
    random = tasks(Preparation((word,), inputs="random", cache_dir=str(cache)))
    assert [task.request.inputs for task in random] == ["random"] * len(names)
    assert all(task.export and task.export.source.inputs for task in random), "a shape is still bound"


@each("word", ["suite:ops", "suite:onnxx", "resnet50", "suite", "net.onnx"])
def test_other_words_do_not_name_the_suite(word: str) -> None:
    assert node_tests.pattern(word) is None


@pytest.mark.parametrize(
    ("word", "line"),
    [
        (
            "suite:onnx/test_acoss",
            "--model suite:onnx: expected a name or glob of its cases, got 'test_acoss'; try test_acos, ",
        ),
        ("suite:onnx/test_text", "expected a case that can be a model, got test_text: text, and StableHLO has none"),
    ],
)
def test_a_word_without_a_case_is_refused_in_one_line(cache: Path, word: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        tasks(Preparation((word,), cache_dir=str(cache)))
    with pytest.raises(InputError, match="--training: expected a model that can be trained"):
        tasks(Preparation((word,), training=True, cache_dir=str(cache)))


def test_without_the_packages_the_suite_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        frontends, "missing", lambda framework, model=None: "onnx not installed; try pip install -e '.[onnx]'"
    )
    request = Preparation(("suite:onnx/test_acos*",), cache_dir=str(tmp_path / "cache"))
    [task] = tasks(request)
    assert (task.name, task.missing.partition(";")[0]) == ("suite:onnx", "onnx not installed")
    line = "--model suite:onnx: expected its framework to be installed, got onnx not installed; try pip install"
    with pytest.raises(InputError, match=line):
        model_jobs.prepare(request)
    assert not (tmp_path / "cache" / node_tests.FOLDER).exists()


def test_a_case_becomes_a_graph_and_its_inputs_by_name(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="pip install -e '.[onnx]'")
    from onnx import TensorProto, helper, numpy_helper

    def case(op: str, *inputs: object) -> SimpleNamespace:
        names = "xyz"[: len(inputs)]
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in (*names, "out")]
        graph = helper.make_graph([helper.make_node(op, list(names), ["out"])], "case", values[:-1], values[-1:])
        return SimpleNamespace(model=helper.make_model(graph), data_sets=[(inputs, [np.zeros(2, np.float32)])])

    x, y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    assert onnx_cases._write_model(tmp_path / "test_add", case("Add", x, numpy_helper.from_array(y))) == ""
    assert (tmp_path / "test_add.onnx").stat().st_size > 0
    with np.load(tmp_path / "test_add.npz") as archive:
        assert {name: archive[name].tolist() for name in archive.files} == {"x": [1, 2], "y": [3, 4]}
    for name, reason in (
        (case("Add", x, np.array(["a"])), "text, and StableHLO has tensors of numbers only"),
        (case("Add", x, [y]), "a sequence or an optional value, and StableHLO has tensors of numbers only"),
        (case("Bernoulli", x, y), "its answer is one draw of many"),
        (case("Dropout", x, np.float32(0.5), np.True_), "its answer is one draw of many"),
        (case("Dropout", x, np.float32(0), np.True_), ""),
        (case("Dropout", x, np.float32(0.5), np.False_), ""),
    ):
        assert onnx_cases._write_model(tmp_path / "test_other", name) == reason
        assert bool(reason) is not (tmp_path / "test_other.onnx").exists()


@pytest.mark.slow
def test_a_case_runs_on_its_own_inputs(tmp_path: Path) -> None:
    pytest.importorskip("torch_mlir", reason="pip install -e '.[onnx]'")
    request = Preparation(("suite:onnx/test_reshape_extended_dims",), cache_dir=str(tmp_path))
    [task] = tasks(request)
    header, rows = model_jobs.prepare(request)
    assert header.models == ("suite:onnx.test_reshape_extended_dims",)
    with np.load(Path(task.path).with_suffix(".npz")) as archive:
        assert sorted(archive.files) == ["data", "shape"]
        [data] = row_inputs(rows[0], header.export_dirs[0])
        assert np.array_equal(data, archive["data"])

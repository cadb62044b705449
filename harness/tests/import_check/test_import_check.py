"""Goldens held to the framework: what differs, what excuses it; slow: planted and real errors of importers."""

from __future__ import annotations

import dataclasses
import os
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from opscope.base.children.call import call as call_child
from opscope.base.children.ending import Cause, Ending
from opscope.harness.cache import export_folder
from opscope.harness.cache.claims import Claims
from opscope.harness.engine import model_jobs
from opscope.harness.engine.import_checks import check_all, import_check
from opscope.harness.import_check import second_authority
from opscope.harness.import_check.agreement import first_wrong
from opscope.harness.import_check.hold import drawing
from opscope.harness.limitations import limitation_file
from opscope.harness.limitations.import_rows import judged_import, new_rows, outdated, passing
from opscope.harness.limitations.limitations import GRACE, Limitation, NewRows
from opscope.harness.page.summary import import_sections, imports_line
from opscope.harness.prepare.authorities.ask import Answer
from opscope.harness.prepare.preparation import Preparation, tasks
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import ImportCheck, OpRow, TensorDesc
from opscope.harness.record.stages import ImportStatus, Stage
from opscope.models import frontends, registry
from opscope.models.frontends import child, own_results
from opscope.models.frontends.base import Source

DIFFERS = ImportCheck(
    model="net",
    framework="onnx",
    status=ImportStatus.DIFFERS,
    importer="torch-mlir 1",
    held_to="reference 2",
    output=0,
    error="4 of 6 values differ",
    node="node_0/Mod",
)
AGREES = DIFFERS.model_copy(update={"status": ImportStatus.AGREES, "output": None, "error": "", "node": ""})
UNCHECKED = AGREES.model_copy(update={"model": "big", "status": ImportStatus.NOT_CHECKED, "error": "above the cap"})
MODEL_ROW = OpRow(
    op_id="0", op_name="model", module="m", outputs=(TensorDesc(shape=(2,), data_type="f32"),), golden=("golden.npy",)
)
ROW = Limitation(("ne*",), "onnx", Stage("import"), "notyet", "torch-mlir's Mod", message="*Mod*")


def wrong(want: np.ndarray, got: np.ndarray, kind: str) -> str:
    return first_wrong([want], [got], [TensorDesc(shape=got.shape, data_type=kind)])[1]


def test_a_result_differs_by_the_whole_models_own_scale() -> None:
    rng = np.random.default_rng(0)
    want = rng.normal(size=(8, 64)).astype(np.float32)
    assert not wrong(want, want * np.float32(1 + 1e-6), "f32")
    assert "at (3, 5)" in wrong(want, np.where(np.arange(512).reshape(8, 64) == 3 * 64 + 5, want + 1, want), "f32")
    assert wrong(np.maximum(want, 0), want, "f32")
    assert wrong(want, want.astype(np.float16), "f16") == "", "a narrower type of the module is its own"
    assert "element type" in wrong(want, want.astype(np.int32), "i32")
    assert wrong(np.arange(6, dtype=np.int64), np.arange(6, dtype=np.int32), "i32") == "", "JAX has no 64 bits"
    assert "1 of 6 values" in wrong(np.arange(6), np.array([0, 1, 2, 3, 5, 5], np.int32), "i32")
    assert "expected 1 results, got 0" in first_wrong([want], [], [])[1]


def test_a_limitation_names_the_model_the_framework_and_the_difference() -> None:
    assert DIFFERS.fails_run
    assert not judged_import(DIFFERS, [ROW]).fails_run
    assert judged_import(DIFFERS, [ROW]).expected == "notyet: torch-mlir's Mod"
    for other in ({"op": ("another",)}, {"backend": "torch"}, {"message": "*MaxPool*"}, {"stage": Stage.RUN}):
        assert judged_import(DIFFERS, [dataclasses.replace(ROW, **other)]).fails_run
    late = dataclasses.replace(ROW, expires=date.today() - GRACE - timedelta(days=1))
    assert judged_import(DIFFERS, [late]).fails_run, "expired"
    assert judged_import(AGREES, [ROW]).fails_run, "an unexpected pass"
    assert not judged_import(AGREES, [dataclasses.replace(ROW, strict=False)]).fails_run
    assert not judged_import(UNCHECKED, [dataclasses.replace(ROW, op=("*",))]).fails_run


def test_a_difference_does_not_call_the_frameworks_number_the_expected_one() -> None:
    largest = wrong(np.ones((2, 2), np.float32), np.array([[1, 1], [1, 7]], np.float32), "f32")
    check = second_authority.without_expectation(largest)
    assert "the framework has 1, the import 7" in check
    assert check.endswith(" times as much as rounding allows"), "a limit stays one"
    exact = wrong(np.arange(6), np.array([0, 1, 2, 3, 5, 5], np.int32), "i32")
    assert "the framework has 4, the import 5" in second_authority.without_expectation(exact)


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (
            [9.0, 2.0],
            ImportStatus.NOT_CHECKED,
            "golden in doubt: XLA computes something else of the import than an "
            "authority; an authority agrees with reference 2: 4 of 6",
        ),
        ([1.0, 2.0], ImportStatus.DIFFERS, "4 of 6 values differ (an authority computes of the import what XLA does)"),
        ([5.0, 2.0], ImportStatus.NOT_CHECKED, "an authority does not agree with reference 2 either"),
        (None, ImportStatus.DIFFERS, "4 of 6 values differ (no second authority: too large)"),
    ],
)
def test_an_import_differs_only_where_no_second_authority_contradicts_xla(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: list[float] | None, status: ImportStatus, words: str
) -> None:
    np.save(tmp_path / "golden.npy", np.array([1, 2], np.float32))
    values = () if answer is None else (np.array(answer, np.float32),)
    computed = Answer("an authority", values, "" if values else "too large")
    monkeypatch.setattr(second_authority, "ask", lambda *_: computed)
    own = [np.array([9, 2], np.float32)]
    check = second_authority.judged(DIFFERS, own, MODEL_ROW, tmp_path, tmp_path)
    assert (check.status, check.fails_run) == (status, status is ImportStatus.DIFFERS)
    assert words in check.text


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (
            [1.0, 2.0],
            ImportStatus.NOT_CHECKED,
            "golden in doubt: ONNX Runtime 1 computes what the import does, reference 2 something else: 4 of 6",
        ),
        ([9.0, 2.0], ImportStatus.DIFFERS, "4 of 6 values differ (ONNX Runtime 1 contradicts the import too)"),
        (
            None,
            ImportStatus.DIFFERS,
            "4 of 6 values differ (no second authority: the framework did not run it: ValueError: no kernel)",
        ),
    ],
)
def test_an_import_is_not_to_blame_where_onnx_runtime_computes_what_it_does(
    tmp_path: Path, answer: list[float] | None, status: ImportStatus, words: str
) -> None:
    np.save(tmp_path / "golden.npy", np.array([1, 2], np.float32))

    def results() -> tuple[str, list[np.ndarray]]:
        if answer is None:
            raise ValueError("no kernel")
        return "ONNX Runtime 1", [np.array(answer, np.float32)]

    own_results.write(tmp_path, results, [], 1, None)
    check = second_authority.judged_by_runtime(DIFFERS, MODEL_ROW, tmp_path, tmp_path)
    assert (check.status, check.fails_run) == (status, status is ImportStatus.DIFFERS)
    assert words in check.text


def test_numbers_that_each_implementation_draws_for_itself_are_not_compared() -> None:
    add, rng, bits = (
        OpRow(op_id="0", op_name=f"stablehlo.{name}", module=None, inputs=(), outputs=(), uses=())
        for name in ("add", "rng", "rng_bit_generator")
    )
    assert drawing([add, bits]) == ""
    assert drawing([add, rng]).startswith("stablehlo.rng draws numbers")


def test_rows_are_checked_against_a_run_and_proposed_from_it() -> None:
    row = dataclasses.replace(ROW, where="mine.yaml:2")
    assert outdated([row], [DIFFERS]) == outdated([row], []) == passing([row], [DIFFERS, AGREES]) == []
    names = "mine.yaml:2: expected a model of onnx that `ne*` names"
    assert outdated([row], [AGREES]) == [f"{names} to differ, got net, which agrees; try opscope limitations update"]
    assert passing([row], [AGREES]) == ["mine.yaml:2"]
    assert passing([dataclasses.replace(row, strict=False)], [AGREES]) == []
    (other,) = outdated([dataclasses.replace(row, message="*Pool*")], [DIFFERS])
    assert other.startswith(f"{names} to differ by `*Pool*`, got import_differs: torch-mlir 1 against reference 2")
    (none,) = outdated([dataclasses.replace(row, op=("gpt",), where="mine.yaml:2")], [DIFFERS, UNCHECKED])
    assert none == "mine.yaml:2: expected a model of onnx that `gpt` names, got none of 2; try deleting the row"

    starred = DIFFERS.model_copy(update={"model": "n*", "error": "4 of 6 values differ [*]"})
    (new,) = new_rows([starred, AGREES, UNCHECKED], NewRows("notyet", date(2026, 1, 2)))
    assert (new.reason, new.kind, new.since) == ("node_0/Mod: 4 of 6 values differ [*]", "notyet", date(2026, 1, 2))
    assert not judged_import(starred, [new]).fails_run
    assert judged_import(DIFFERS, [new]).fails_run
    assert new_rows([judged_import(starred, [new])], NewRows("notyet", date(2026, 1, 2))) == []


def test_a_file_of_limitations_may_hold_such_a_row(tmp_path: Path) -> None:
    row = "limitations:\n- {op: net, backend: %s, stage: import, kind: notyet, reason: why}\n"
    (excuse,) = limitation_file.parse(row % "onnx", tmp_path / "mine.yaml").rows
    assert not judged_import(DIFFERS, [excuse]).fails_run
    with pytest.raises(InputError, match="a backend or its file, got 'reference'"):
        limitation_file.parse(row % "reference", tmp_path / "mine.yaml")


def test_the_summary_counts_all_and_lists_what_needs_attention() -> None:
    expected = judged_import(DIFFERS, [ROW])
    assert imports_line([]) == ""
    assert imports_line([AGREES, AGREES, DIFFERS, UNCHECKED]) == (
        "4 imports = 2 agree with their frameworks + 1 differs + 1 not checked"
    )
    sections = {
        heading: [c.text for c in checks] for heading, _, checks in import_sections([DIFFERS, expected, UNCHECKED])
    }
    text = "import_differs: torch-mlir 1 against reference 2, result 0 at node_0/Mod: 4 of 6 values differ"
    assert sections == {
        "Imports that differ from the model's own framework": [text],
        "Imports that are expected to differ": [text],
        "Imports that were not checked": ["import not checked: above the cap"],
    }


MODEL = """
import jax.numpy as jnp
from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

@model(name="made", family="toy")
def build(dtype):
    return Built(lambda w: jnp.maximum(w["x"] @ w["w"], 0) + 1, (
        ArgSpec("x", (4, 8), dtype, "normal:1", "input"), ArgSpec("w", (8, 16), dtype, "normal:1"),
    ))
"""


def checked(tmp_path: Path, word: str, **options: object) -> ImportCheck:
    request = Preparation((word,), cache_dir=str(tmp_path / "cache"), run="one", **options)
    with Claims() as claims:
        header, _ = model_jobs.prepare(request, means=model_jobs.Means(claims))
        (check,) = check_all(tasks(request), header, import_check(claims, ()), lambda event: None)
    return check


@pytest.mark.slow
def test_an_exporter_that_drops_a_relu_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_models", dict(registry._models))  # later tests list the zoo
    path = tmp_path / "made.py"
    path.write_text(MODEL)
    (task,) = tasks(Preparation((str(path),), cache_dir=str(tmp_path / "cache"), run="one"))
    assert task.export is not None
    # What an exporter with an error would have left: the module of another function.
    frontend, source = frontends.get("jax"), Source("made", str(path), "float32", entry="made")
    broken = tmp_path / "broken.py"
    text = MODEL.replace('jnp.maximum(w["x"] @ w["w"], 0)', '(w["x"] @ w["w"])')
    broken.write_text(text.replace('"made"', '"broken"'))
    wrong_source = dataclasses.replace(source, path=str(broken), entry="broken")
    result = frontend.export(frontend.build(wrong_source), wrong_source)
    (temporary := tmp_path / "made").mkdir()
    child.write_result(result, temporary)
    own_results.leave(frontend, frontend.build(source), source, result, temporary, 0, 1 << 30)
    (tmp_path / "cache" / "modules").mkdir(parents=True)
    export_folder.publish(temporary, tmp_path / "cache" / "modules" / task.export.key(tmp_path / "cache"))
    check = checked(tmp_path, str(path))
    assert check.status is ImportStatus.DIFFERS
    assert check.importer.startswith("jax 0.")
    assert check.error.startswith("different by ")
    # With another seed, the framework runs in its own process, as it does where only the walk knows the inputs.
    assert checked(tmp_path, str(path), seed=1).status is ImportStatus.DIFFERS
    # Whatever ends the child that looks for an explanation, the difference stays.
    calls: list[str] = []

    def call(target: str, *task: object, **limits: object) -> object:
        calls.append(target.rpartition(":")[2])
        return call_child(target.replace("explain_import", "no_such_function"), *task, **limits)

    monkeypatch.setattr("opscope.harness.import_check.hold.call", call)
    assert checked(tmp_path, str(path), seed=2).status is ImportStatus.DIFFERS
    assert "explain_import" in calls
    # It is kept, as it is so each time; one that a limit has ended may be a golden in doubt, and is asked again.
    kept = len(list((tmp_path / "cache" / "imports").glob("*/*.json")))

    def call_late(target: str, *task: object, **limits: object) -> object:
        outcome = call_child(target, *task, **limits)
        late = dataclasses.replace(outcome, ending=Ending(Cause.TIMEOUT, "late"), result=None)
        return late if target.endswith("explain_import") else outcome

    monkeypatch.setattr("opscope.harness.import_check.hold.call", call_late)
    assert checked(tmp_path, str(path), seed=3).status is ImportStatus.DIFFERS
    assert len(list((tmp_path / "cache" / "imports").glob("*/*.json"))) == kept


@pytest.mark.slow
def test_a_model_agrees_and_is_not_checked_above_the_cap_or_on_random_inputs(tmp_path: Path) -> None:
    path = tmp_path / "made.py"
    path.write_text(MODEL)
    assert checked(tmp_path, str(path)).status is ImportStatus.AGREES
    assert checked(tmp_path, str(path), seed=1).status is ImportStatus.AGREES, "in a process of its own"
    assert checked(tmp_path, str(path), dtype="bfloat16").status is ImportStatus.AGREES
    assert "its ops have random inputs" in checked(tmp_path, str(path), inputs="random").error
    giant = tmp_path / "giant.py"
    giant.write_text(MODEL.replace('name="made", family="toy"', 'name="large", family="toy", giant=True'))
    large = checked(tmp_path, str(giant))
    assert large.status is ImportStatus.NOT_CHECKED, "llama3_8b in small: its weights are drawn for no op"
    assert large.error == "its ops have random inputs, no result is the model's (its arguments are 160 numbers)"
    small = checked(tmp_path / "small", str(path), max_live_bytes=100, max_tensor_bytes=25)
    assert small.status is ImportStatus.NOT_CHECKED
    assert "above the cap" in small.error


NODES = {
    "mod": ("Mod", {}, [("a", "INT32", (6,)), ("b", "INT32", (6,))], ("INT32", (6,)), "node_0/Mod"),
    "ceil": (
        "MaxPool",
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
        [("x", "FLOAT", (1, 1, 4, 4))],
        ("FLOAT", (1, 1, 2, 2)),
        "node_0/MaxPool",
    ),
    "any": ("ReduceMax", {"keepdims": 0}, [("x", "BOOL", (6,))], ("BOOL", ()), "node_0/ReduceMax"),
    "all": ("ReduceMin", {"keepdims": 0}, [("x", "BOOL", (6,))], ("BOOL", ()), "node_0/ReduceMin"),
    "right": (
        "MaxPool",
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        [("x", "FLOAT", (1, 1, 4, 4))],
        ("FLOAT", (1, 1, 2, 2)),
        "",
    ),
}
"""torch-mlir's own errors, beside what it does right: op, attributes, inputs, result, the node that is to blame."""
VALUES = {
    "mod": {"a": np.array([-4, 7, 5, 4, -7, 8], np.int32), "b": np.array([2, -3, 8, -2, 3, 5], np.int32)},
    "any": {"x": np.zeros(6, np.bool_)},
    "all": {"x": np.ones(6, np.bool_)},
}
"""Inputs that show an error which drawn ones may hide."""


def onnx_file(folder: Path, name: str) -> Path:
    onnx = pytest.importorskip("onnx", reason="pip install -e '.[onnx]'")
    pytest.importorskip("torch_mlir", reason="pip install -e '.[onnx]'")
    helper, (kind, attributes, inputs, (element, shape), _) = onnx.helper, NODES[name]
    infos = [helper.make_tensor_value_info(n, getattr(onnx.TensorProto, e), s) for n, e, s in inputs]
    result = helper.make_tensor_value_info("y", getattr(onnx.TensorProto, element), shape)
    node = helper.make_node(kind, [n for n, _, _ in inputs], ["y"], **attributes)
    graph = helper.make_graph([node], "net", infos, [result])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), folder / f"{name}.onnx"
    )
    return folder / f"{name}.onnx"


AS_IT_IS = """
import importlib.abc, importlib.util, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "opscope.models.frontends.through_onnx.expand":
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (run(module), setattr(module, "expand", lambda model: model))
            return spec

sys.meta_path.insert(0, Finder())
"""
"""A sitecustomize with which graphs go to torch-mlir as they are: what it gets wrong is written out before, else."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NODES)
def test_torch_mlirs_own_errors_are_found_and_the_node_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path, options = onnx_file(tmp_path, name), {}
    if name in VALUES:
        np.savez(tmp_path / "values.npz", **VALUES[name])
        options["inputs"] = str(tmp_path / "values.npz")
    (tmp_path / "mended").mkdir()
    assert checked(tmp_path / "mended", str(path), **options).status is ImportStatus.AGREES
    (tmp_path / "sitecustomize.py").write_text(AS_IT_IS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    check = checked(tmp_path, str(path), **options)
    node = NODES[name][-1]
    assert (check.status is ImportStatus.DIFFERS, check.node) == (bool(node), node)
    assert "torch-mlir" in check.importer
    assert check.held_to.startswith("reference of onnx")

"""Preparing a run: real children, a cache that is used, faults that cost one op and not the run."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope.base.damage import Damaged
from opscope.base.stored import DIGESTS
from opscope.base.tests.captured import captured
from opscope.harness.cache import export_folder
from opscope.harness.cache.claims import Claims
from opscope.harness.engine import model_jobs
from opscope.harness.engine.model_jobs import Means, mend, prepare
from opscope.harness.prepare import domains
from opscope.harness.prepare.inputs import row_golden, row_inputs
from opscope.harness.prepare.preparation import Preparation, tasks
from opscope.harness.record.errors import InputError
from opscope.harness.record.manifests import merge
from opscope.harness.record.records import OpRow
from opscope.harness.record.stages import ModelStatus
from opscope.harness.tests.prepare.test_preparation import job_of
from opscope.models import registry

CALLS_PYTHON = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.exponential %a : tensor<4xf32>
  %1 = stablehlo.custom_call @xla_buffer_python_cpu_callback(%0)
    {api_version = 4 : i32, backend_config = {index = 77 : ui64}} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = stablehlo.sqrt %1 : tensor<4xf32>
  return %2 : tensor<4xf32> }"""
"""Asks XLA for a Python callback that nobody registered here: a process that ran it would die."""

COMPILER_CRASH = """module {
  func.func private @absent(tensor<4xf32>) -> tensor<4xf32>
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.exponential %a : tensor<4xf32>
    %1 = stablehlo.sine %0 : tensor<4xf32>
    %2 = stablehlo.tanh %1 : tensor<4xf32>
    %3 = stablehlo.composite "a.b" %2 {decomposition = @absent} : (tensor<4xf32>) -> tensor<4xf32>
    %4 = stablehlo.sqrt %3 : tensor<4xf32>
    return %4 : tensor<4xf32> } }"""
"""Ends the process when XLA compiles the composite, which may be while an earlier op is evaluated."""

ENDLESS = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %true = stablehlo.constant dense<true> : tensor<i1>
  %r = stablehlo.while(%x = %a) : tensor<4xf32>
    cond { stablehlo.return %true : tensor<i1> }
    do { %y = stablehlo.add %x, %x : tensor<4xf32>
         stablehlo.return %y : tensor<4xf32> }
  %2 = stablehlo.sqrt %r : tensor<4xf32>
  return %2 : tensor<4xf32> }"""


FINE = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %a : tensor<4xf32>
  return %0 : tensor<4xf32> }"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def request_for(cache: Path, *models: str, **options: Any) -> Preparation:
    return Preparation(models=models, cache_dir=str(cache), **options)


@pytest.mark.slow
def test_export_folder_is_whole_and_used_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"  # in which no other test has prepared the model
    events: list[dict[str, Any]] = []
    header, rows = prepare(request_for(cache, "mnist_mlp"), events.append)
    assert [e["stage"] for e in events if e["event"] == "stage" and e["done"] == e["total"]] == [
        "export",
        "split",
        "golden",
    ]
    assert events[-1] == {"event": "done", "model": "mnist_mlp", "export_dir": header.export_dirs[0], "cached": False}
    folder = Path(header.export_dirs[0])
    files = {"module.mlirbc", "manifest.jsonl", "whole.json", "ops", "values", DIGESTS}
    assert re.fullmatch("[0-9a-f]{16}", OpRow.model_validate_json((folder / "whole.json").read_text()).op_id)
    assert {p.name for p in folder.iterdir()} == files
    assert header.module_ops["mnist_mlp"] == sum(len(r.uses) for r in rows) + header.structural["mnist_mlp"]
    for row in rows:
        assert len(row_inputs(row, folder)) == len(row.inputs)
        assert len(row_golden(row, folder)) == len(row.outputs)
    events.clear()
    assert prepare(request_for(cache, "mnist_mlp"), events.append) == (header, rows)
    assert [e["event"] for e in events] == ["models", "done"]
    assert events[1]["cached"]


def test_damaged_exports_of_a_read_only_cache_are_made_elsewhere(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "fine.mlir"
    model.write_text(FINE)
    request = request_for(cache, str(model))
    header, [row] = prepare(request)
    folder = Path(header.export_dirs[0])
    value = folder / row.golden[0]
    value.write_bytes(value.read_bytes()[:-1] + b"\x7f")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    monkeypatch.setattr(model_jobs, "read_only", lambda cache: True)  # root may write where others may not
    with pytest.raises(Damaged) as damaged:
        row_golden(row, folder)
    with Claims() as claims:
        mended, place = mend(request, row, damaged.value, claims)
        assert Path(place).is_relative_to(claims.temporary())
        golden, [stored_input] = row_golden(mended, Path(place))[0], row_inputs(mended, Path(place))
        np.testing.assert_allclose(golden, np.tanh(stored_input), rtol=1e-6)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_the_parent_imports_neither_jax_nor_numpy(cache: Path) -> None:
    prepare(request_for(cache, "mnist_mlp"))
    code = (
        "import sys; from opscope.harness.engine.model_jobs import prepare; import json;"
        f"prepare(dict(models=['mnist_mlp'], cache_dir={str(cache)!r}));"
        "print(sorted({'jax', 'jaxlib', 'numpy', 'xdsl'} & set(sys.modules)))"
    )
    done = captured([sys.executable, "-c", code], check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_process_that_is_forked_has_all_that_a_child_imports_of_ours_and_no_thread(tmp_path: Path) -> None:
    code = (
        "import json, os, sys\n"
        "from opscope.harness.prepare import prepare_child\n"
        "from opscope.harness.prepare.model_job import ModelJob\n"
        "prepare_child.load()\n"
        "before, threads = set(sys.modules), len(os.listdir('/proc/self/task'))\n"
        "prepare_child.make(ModelJob(**json.loads(sys.argv[1])), lambda event, **more: None)\n"
        "print(threads, sorted(name for name in set(sys.modules) - before if 'opscope' in name))"
    )
    job = job_of(tmp_path, FINE)
    done = captured([sys.executable, "-P", "-c", code, json.dumps(asdict(job))], check=True)
    assert done.stdout == "1 []\n"


def test_requested_options_are_part_of_the_key(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variants = [{}, {"dtype": "bf16"}, {"inputs": "random"}, {"seed": 1}, {"max_tensor_bytes": 5}]
    folders = {tasks(request_for(cache, "mnist_mlp", run="one", **v))[0].folder for v in variants}
    assert len(folders) == len(variants)
    assert tasks(request_for(cache, "mnist_mlp", run="one", dtype="f32"))[0].folder in folders
    monkeypatch.setattr(export_folder, "sources_digest", lambda: "changed sources")
    assert tasks(request_for(cache, "mnist_mlp", run="one"))[0].folder not in folders


def test_the_key_covers_every_file_that_the_child_runs() -> None:
    code = (
        "import sys; from opscope.harness.prepare import argument_files, export, inputs, prepare_child;"
        "from opscope.harness.prepare import walk, whole_row; from opscope.harness.prepare.mlir import upcast;"
        "ours = [m.split('.')[1:3] for m in sys.modules if m.startswith(('opscope.harness.', 'opscope.base.'))];"
        "print(*{m[0] if m[0] == 'base' else '/'.join(m) for m in ours})"
    )
    done = captured([sys.executable, "-c", code], check=True)
    assert set(done.stdout.split()) == {*export_folder.SOURCES, *export_folder.WITHOUT_EFFECT}


def test_a_function_of_another_process_is_never_called(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "calls.mlir"
    path.write_text(CALLS_PYTHON)
    _, [exponential, custom, sqrt] = prepare(request_for(cache, str(path)))
    assert exponential.golden
    assert custom.no_golden.endswith("it calls a Python function of the process that exported it")
    assert sqrt.golden
    assert sqrt.sources[0].kind == "random"


def test_a_crash_of_the_compiler_costs_the_golden_of_its_own_op(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "crash.mlir"
    path.write_text(COMPILER_CRASH)
    _, rows = prepare(request_for(cache, str(path)))
    assert [row.op_name.partition(".")[2] for row in rows if row.golden] == ["exponential", "sine", "tanh", "sqrt"]
    [composite] = [row for row in rows if not row.golden]
    assert composite.no_golden.startswith("XLA gave no value (signal SIGSEGV)"), composite
    assert next(row for row in rows if row.op_name == "stablehlo.sqrt").sources[0].kind == "random"
    assert not list((cache / "exports").glob(".making-*"))


@pytest.mark.slow
def test_an_endless_loop_costs_one_golden(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "endless.mlir"
    path.write_text(ENDLESS)
    _, rows = prepare(request_for(cache, str(path), op_seconds=1.5))
    [loop] = [r for r in rows if r.op_name == "stablehlo.while"]
    assert loop.no_golden.startswith("XLA gave no value (more than 1.5 s)")
    assert all(r.golden for r in rows if r is not loop)


def test_what_a_limit_has_cut_short_is_of_its_run_alone(tmp_path: Path) -> None:
    """While another run still uses it, a run has a folder of its own; afterwards the same one, made anew."""
    cache = tmp_path / "cache"  # that of the other tests may hold the same model, cut short by another run
    path = tmp_path / "endless.mlir"
    path.write_text(ENDLESS)
    first = Preparation((str(path),), cache_dir=str(cache), op_seconds=0.2, run="first")
    with Claims() as claims:
        header, _ = prepare(first, means=Means(claims))
        assert tasks(first)[0].folder == header.export_dirs[0], "its own run has it"
        later = tasks(replace(first, run="later"))[0]
        assert later.folder != header.export_dirs[0]
    (task,) = tasks(replace(first, run="later"))
    assert task.folder == header.export_dirs[0]
    assert not Path(task.folder).exists()
    path.write_text(FINE)
    fine = Preparation((str(path),), cache_dir=str(cache), run="first")
    header, _ = prepare(fine)
    assert Path(tasks(replace(fine, run="later"))[0].folder).is_dir(), "what is whole is every run's"


@pytest.mark.slow
def test_one_model_ends_at_its_limit_and_the_others_run(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "a.mlir").write_text(ENDLESS)
    (tmp_path / "b.mlir").write_text("no module")
    (tmp_path / "c.mlir").write_text(FINE)
    header, rows = prepare(request_for(cache, str(tmp_path / "*.mlir"), seconds=12.0))
    assert header.models == ("c",)
    assert [row.op_name for row in rows] == ["stablehlo.tanh"]
    late, unreadable = header.failed
    assert (late.status, unreadable.status) == (ModelStatus.PREPARE_FAILED, ModelStatus.EXPORT_FAILED)
    assert late.error.startswith("timeout at golden of stablehlo.while at a.mlir:3: more than 12 s for all steps")
    assert "b.mlir:1:1: expected valid StableHLO, got custom op 'no' is unknown" in unreadable.error


def test_a_model_beyond_its_memory_is_a_row(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "long.mlir"  # so that it is still read when its memory is looked at first
    ops = "".join(f"  %{n + 1} = stablehlo.sine %{n} : tensor<4xf32>\n" for n in range(20_000))
    path.write_text(f"func.func @main(%0: tensor<4xf32>) -> tensor<4xf32> {{\n{ops}  return %20000 : tensor<4xf32> }}")
    header, _ = prepare(request_for(cache, str(path), memory=40 << 20))
    assert header.failed[0].error.startswith("memory at export: ")
    assert header.failed[0].error.endswith("40 MiB allowed; try --prepare-memory")


def test_no_model_is_prepared_once_the_budget_is_spent(cache: Path, tmp_path: Path) -> None:
    for name, op in (("a", "tan"), ("b", "tanh")):
        (tmp_path / f"{name}.mlir").write_text(FINE.replace("tanh", op))
    prepare(request_for(cache, str(tmp_path / "b.mlir")))
    header, _ = prepare(request_for(cache, str(tmp_path / "*.mlir"), until=time.time() - 1))
    assert header.models == ("b",), "what is kept costs nothing"
    assert [(failure.model, failure.status) for failure in header.failed] == [("a", ModelStatus.NOT_RUN)]
    assert header.failed[0].error == "budget: it was at its beginning when the time of --budget was over"


def test_an_unreadable_file_is_a_row(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (tmp_path / f"{name}.mlir").write_text(FINE)
    read = export_folder.file_digest

    def refuse(path: Path) -> str:
        if path.name == "a.mlir":  # root may read any file
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(export_folder, "file_digest", refuse)
    header, _ = prepare(request_for(cache, str(tmp_path / "*.mlir")))
    assert header.models == ("b",)
    assert header.failed[0].error == f"{tmp_path}/a.mlir: expected a readable file, got Permission denied"


def test_several_models_share_rows(cache: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.mlir").write_text(
            "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.tanh %a : tensor<4xf32>\n"
            + (
                " %1 = stablehlo.sine %0 : tensor<4xf32>\n"
                if name == "two"
                else " %1 = stablehlo.tanh %0 : tensor<4xf32>\n"
            )
            + " return %1 : tensor<4xf32> }"
        )
    header, rows = prepare(request_for(cache, str(tmp_path / "one.mlir"), str(tmp_path / "two.mlir")))
    assert header.models == ("one", "two")
    assert [(r.op_name, [u.model for u in r.uses]) for r in rows] == [
        ("stablehlo.tanh", ["one", "one", "two"]),
        ("stablehlo.sine", ["two"]),
    ]
    assert header.module_ops == {"one": 3, "two": 3}
    assert merge([(header, rows)]) == (header, rows)
    (tmp_path / "[one].mlir").write_bytes((tmp_path / "one.mlir").read_bytes())
    for word, names in (("*.mlir", ["[one]", "one", "two"]), ("[ot]*.mlir", ["one", "two"]), ("[one].mlir", ["[one]"])):
        assert [task.name for task in tasks(request_for(cache, str(tmp_path / word)))] == names


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"models": ("resnet5",)}, r"^--model: expected .*, got 'resnet5'; try resnet50"),
        ({"models": ("no/such/file.mlir",)}, r"^--model: expected the path .*, got 'no/such/file.mlir'"),
        ({"models": ()}, r"^--model: expected at least one model"),
        ({"models": ("mnist_mlp",), "dtype": "int7"}, r"^--dtype: expected bfloat16 or float32, got 'int7'"),
        (
            {"models": ("mnist_mlp",), "inputs": "some"},
            r"^--inputs: expected captured, random, classes or an .npz file, got 'some'",
        ),
    ],
)
def test_bad_requests_are_one_line(cache: Path, options: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line) as caught:
        prepare(Preparation(cache_dir=str(cache), **options))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_mlir_is_one_line(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text("this is a shopping list")
    with pytest.raises(InputError, match=r"x\.mlir") as caught:
        prepare(request_for(cache, str(tmp_path / "x.mlir")))
    assert "\n" not in str(caught.value)


def test_a_model_that_raises_is_a_row_with_its_traceback(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text(
        "from opscope.models.registry import model\n@model(name='raises', family='toy')\n"
        "def build(dtype):\n    raise RuntimeError('two\\nlines')\n"
    )
    artifacts = tmp_path / "run" / "artifacts"
    (tmp_path / "fine.mlir").write_text(FINE)
    request = request_for(cache, str(tmp_path / "raises.py"), str(tmp_path / "fine.mlir"))
    header, rows = prepare(request, means=Means(artifacts=artifacts))
    assert header.models == ("fine",)
    assert rows
    [failed] = header.failed
    assert (failed.model, failed.status, failed.error) == ("raises", "build_failed", "RuntimeError: two (raises.py:4)")
    trace = (tmp_path / "run" / str(failed.artifact)).read_text()
    assert "line 4, in build\n    raise RuntimeError" in trace
    assert header.by_outcome() == {"ran": 1, "build_failed": 1}


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"^cache folder: expected a writable folder, got"):
        prepare(request_for(tmp_path / "file" / "cache", "mnist_mlp"))


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupt(event: dict[str, Any]) -> None:
        if event["event"] != "models":  # which says how many there will be, before anything is begun
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(request_for(tmp_path, "mnist_mlp"), interrupt)
    assert list((tmp_path / "exports").iterdir()) == []


def test_a_model_may_print(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text(
        "from opscope.models.arguments import ArgSpec, Built\nfrom opscope.models.registry import model\n"
        "@model(name='chatty', family='toy')\ndef build(dtype):\n    print('{not an event}')\n"
        "    return Built(lambda w: w['x'] + w['x'], (ArgSpec('x', (2,), dtype, 'normal:1', 'input'),))\n"
    )
    _, rows = prepare(request_for(cache, "chatty", folders=(str(tmp_path),)))
    del registry._models["chatty"]  # later tests list the zoo
    assert [r.op_name for r in rows] == ["stablehlo.add"]


def test_a_python_file_without_a_model_is_one_line(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("x = 1\n")
    with pytest.raises(InputError, match=r"^--model .*plain.py: expected an object 'model' in the file, got none"):
        prepare(request_for(cache, str(tmp_path / "plain.py")))
    (tmp_path / "broken.py").write_text("def (\n")
    with pytest.raises(InputError, match=r"broken\.py: expected Python, got a syntax error"):
        prepare(request_for(cache, str(tmp_path / "broken.py")))
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"--model"):
        prepare(request_for(cache, str(tmp_path / "zero.py")))


def test_a_nan_that_fills_what_is_out_of_range_is_never_chosen(cache: Path, tmp_path: Path) -> None:
    text = """func.func @main(%p: tensor<64xi1>, %x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
      %nan = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %fill = stablehlo.broadcast_in_dim %nan, dims = [] : (tensor<f32>) -> tensor<64xf32>
      %0 = stablehlo.select %p, %x, %fill : tensor<64xi1>, tensor<64xf32>
      %1 = stablehlo.select %p, %fill, %x : tensor<64xi1>, tensor<64xf32>
      return %0, %1 : tensor<64xf32>, tensor<64xf32> }"""
    (tmp_path / "fill.mlir").write_text(text)
    header, rows = prepare(request_for(cache, str(tmp_path / "fill.mlir"), inputs="random"))
    selects = [row for row in rows if row.op_name == "stablehlo.select"]
    assert {s.law for row in selects for s in row.sources if s.law and s.law.startswith("bool")} == {"bool:1", "bool:0"}
    for row in selects:
        assert np.isfinite(row_golden(row, header.export_dirs[0])[0]).all()


def test_inputs_of_classes_reach_the_domain_of_each_op(cache: Path, tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<300x256xbf16>) -> (tensor<300x256xbf16>, tensor<300x256xbf16>) {
      %0 = stablehlo.log %x : tensor<300x256xbf16>
      %1 = stablehlo.tanh %x : tensor<300x256xbf16>
      return %0, %1 : tensor<300x256xbf16>, tensor<300x256xbf16>
    }"""
    (tmp_path / "two.mlir").write_text(text)
    header, rows = prepare(request_for(cache, str(tmp_path / "two.mlir"), inputs="classes"))
    assert [row.provenance for row in rows] == ["classes:0", "classes:0"]
    assert [row.sources[0].law for row in rows] == ["every:0:inf", "every:-inf:inf"]
    for row in rows:
        inputs = row_inputs(row, header.export_dirs[0])
        assert domains.share(row.op_name, inputs) == 1
        assert np.isfinite(row_golden(row, header.export_dirs[0])[0].astype(np.float32)).mean() > 0.99

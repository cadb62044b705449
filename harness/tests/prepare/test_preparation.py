"""One model from its request to its export folder, with a child that plays its part: steps, ends and refusals."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opscope.base import clocks, damage
from opscope.base.children.ending import Cause, ChildEnded, Ending
from opscope.base.tests.each import each
from opscope.harness.cache import export_folder, upkeep
from opscope.harness.cache.export_folder import JOURNAL
from opscope.harness.cache.growing_export import GrowingExport
from opscope.harness.prepare import make_folder, prepare_child
from opscope.harness.prepare.allowance import Allowance, BudgetSpent, Killed, ModelRefused
from opscope.harness.prepare.argument_files import FileValue
from opscope.harness.prepare.make_folder import Event, Making, Unpreparable
from opscope.harness.prepare.model_job import ModelJob, handed_over
from opscope.harness.prepare.preparation import Preparation, Task, _as_input_error, request_of, tasks
from opscope.harness.prepare.split import split_module
from opscope.harness.record.errors import InputError
from opscope.models.arguments import ArgSpec

FINE = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %a : tensor<4xf32>
  return %0 : tensor<4xf32> }"""
GIB = 2**30


def test_a_request_has_defaults() -> None:
    assert asdict(Preparation(("m",), run="r1")) == {
        "run": "r1",
        "models": ("m",),
        "dtype": "float32",
        "inputs": "captured",
        "weights": None,
        "shape": None,
        "mesh": None,
        "export_python": None,
        "torch_by": None,
        "goldens_by": None,
        "seed": 0,
        "cache_dir": None,
        "max_cache": upkeep.MAX_CACHE,
        "folders": (),
        "training": False,
        "dead_ops": False,
        "max_tensor_bytes": 2 * GIB,
        "max_live_bytes": 8 * GIB,
        "op_seconds": 300.0,
        "seconds": 900.0,
        "memory": None,
        "until": None,
    }
    assert request_of({"models": ["a", "b"], "folders": ["c"], "seed": 3, "run": "r1"}) == Preparation(
        ("a", "b"), folders=("c",), seed=3, run="r1"
    )
    assert request_of({"models": ["a"], "run": "r1"}) == Preparation(("a",), run="r1")
    assert Preparation(("a",)).run != Preparation(("a",)).run, "each request may make what no other has"
    allowance = Preparation(("m",), seconds=5.0, memory=GIB).allowance()
    assert (allowance.seconds, allowance.memory, allowance.budget_is_spent) == (5.0, GIB, False)
    assert Preparation(("m",), until=0.0).allowance().budget_is_spent


@each(
    ("text", "said"),
    [
        ("here: expected a, got b; try c", ("here", "a", "b", "c")),
        ("here: expected a, got b", ("here", "a", "b", "")),
        ("something else", ("--model", "a model", "something else", "")),
    ],
)
def test_another_rooms_error_keeps_its_words(text: str, said: tuple[str, ...]) -> None:
    error = _as_input_error(ValueError(text))
    assert (error.where, error.expected, error.got, error.hint) == said


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"dtype": "float64"}, "--dtype: expected bfloat16 or float32, got 'float64'; try float32"),
        ({"inputs": "none"}, "--inputs: expected captured, random, classes or an .npz file, got 'none'; try captured"),
        ({"seed": "one"}, "--seed: expected an integer, got 'one'; try 0"),
        ({"models": ()}, "--model: expected at least one model, got none; try "),
        ({"training": True}, "--training: expected a model that can be trained, got '{}/a.mlir', a StableHLO file"),
        (
            {"models": ("{}/mnist_mlp.mlir", "mnist_mlp")},
            "--model: expected models with different names, got two named 'mnist_mlp'; try renaming a file",
        ),
        (
            {"models": ("{}/none.mlir",)},
            "--model: expected the path of a StableHLO file, got '{}/none.mlir', which is not a file",
        ),
        (
            {"models": ("{}/none.py",)},
            "--model: expected the path of a Python file, got '{}/none.py', which is not a file",
        ),
        (
            {"models": ("mnist_mlp",), "shape": "arg0=4"},
            "--shape: expected a model file that leaves sizes open, got the model mnist_mlp; try leaving it out",
        ),
    ],
)
def test_a_model_that_cannot_be_prepared_is_refused_in_one_line(
    tmp_path: Path, options: dict[str, Any], line: str
) -> None:
    for name in ("a.mlir", "mnist_mlp.mlir"):
        (tmp_path / name).write_text(FINE)
    values: dict[str, Any] = {"models": ("{}/a.mlir",), "cache_dir": str(tmp_path / "cache")} | options
    values["models"] = tuple(model.format(tmp_path) for model in values["models"])
    with pytest.raises(InputError) as caught:
        tasks(Preparation(**values))
    assert str(caught.value).startswith(line.format(tmp_path))


def test_a_model_named_twice_is_one_and_its_place_is_not_part_of_its_key(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("a.mlir", "b/a.mlir"):
        (tmp_path / name).write_text(FINE)
    cache = str(tmp_path / "cache")
    [task] = tasks(Preparation((f"{tmp_path}/a.mlir", f"{tmp_path}/*.mlir"), cache_dir=cache))
    [moved] = tasks(Preparation((f"{tmp_path}/b/a.mlir",), cache_dir=cache))
    assert (task.name, task.path, task.missing, task.entry) == ("a", f"{tmp_path}/a.mlir", "", "")
    assert task.unreadable is None
    assert task.folder == moved.folder
    assert Path(task.folder).parent == tmp_path / "cache" / "exports"
    changes: tuple[dict[str, Any], ...] = (
        {"seed": 1},
        {"max_live_bytes": 1},
        {"max_tensor_bytes": 1},
        {"inputs": "random"},
    )
    seeds = [tasks(Preparation((task.path,), cache_dir=cache, **more))[0].folder for more in changes]
    assert len({task.folder, *seeds}) == 5


def test_a_glob_names_files_of_other_formats_too(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx", "c.tflite", "d[1].onnx"):
        (tmp_path / name).write_bytes(b"")

    def named(word: str) -> list[tuple[str, str]]:
        named_tasks = tasks(Preparation((f"{tmp_path}/{word}",), cache_dir=str(tmp_path / "cache")))
        return [(Path(task.path).name, task.export.framework if task.export else "") for task in named_tasks]

    assert named("[ab].onnx") == [("a.onnx", "onnx"), ("b.onnx", "onnx")]
    assert named("*.tflite") == [("c.tflite", "tflite")]
    assert named("d[1].onnx") == [("d[1].onnx", "onnx")], "a file of that very name is no pattern"
    with pytest.raises(InputError, match=r"--model: expected the path of a \.onnx file, got .*, which is not a file"):
        named("x*.onnx")


def named_by(folder: Path, *words: str) -> dict[str, str]:
    """Path below `folder` -> name of each model that the words name."""
    request = Preparation(tuple(f"{folder}/{word}" for word in words), cache_dir=str(folder / "cache"))
    return {str(Path(task.path).relative_to(folder)): task.name for task in tasks(request)}


def test_a_file_may_have_a_name_of_the_users(tmp_path: Path) -> None:
    for name in ("x/net.mlir", "y/net.mlir"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(FINE)

    def names(*words: str) -> list[str]:
        return [task.name for task in tasks(Preparation(words, cache_dir=str(tmp_path / "cache")))]

    assert names(f"tonight={tmp_path}/x/net.mlir", f"{tmp_path}/y/net.mlir") == ["tonight", "net"]
    assert names(f"Qwen/Qwen3-0.6B={tmp_path}/x/net.mlir") == ["Qwen/Qwen3-0.6B"]
    for name in ("two words", "/root", "a//b", "a:b", "../x", "x/..", "a/./b", ".", "-x", "x/"):
        with pytest.raises(InputError, match=r"expected a name of letters, digits, `_`, `\.`, `\+`, `-` and `/`, e"):
            names(f"{name}={tmp_path}/x/net.mlir")
    for word in ("mine=mnist_mlp", f"both={tmp_path}/*/net.mlir"):
        with pytest.raises(InputError, match=r"--model (mine|both)=: expected the path of one model file, got "):
            names(word)
    for word in ("x" * 300, f"{'x' * 300}={tmp_path}/x/net.mlir", f"{tmp_path}/{'é' * 200}.mlir"):
        with pytest.raises(InputError, match=r"--model: expected a model's name or file, got .*: File name too long"):
            names(word)


def test_a_pattern_may_leave_the_suffix_open(tmp_path: Path) -> None:
    for name in ("a.mlir", "b.mlir.txt", "c.mlirbc"):
        (tmp_path / name).write_text(FINE)
    assert named_by(tmp_path, "*.mlir*") == {"a.mlir": "a", "b.mlir.txt": "b.mlir", "c.mlirbc": "c"}


def test_a_file_has_its_own_types(tmp_path: Path) -> None:
    (tmp_path / "a.mlir").write_text(FINE)
    with pytest.raises(InputError, match=r"--dtype bfloat16: expected a model whose type can be chosen, got .*a\.mlir"):
        tasks(Preparation((f"{tmp_path}/a.mlir",), dtype="bf16", cache_dir=str(tmp_path / "cache")))


def test_a_bad_file_among_others_is_a_row_and_a_name_after_one_keeps_its_error(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def model(:\n")
    (tmp_path / "fine.py").write_text("model, example_inputs = abs, 1.0\n")
    (tmp_path / "own.py").write_text('@model(name="net", family="mlp")\ndef build(dtype): ...\n')
    bad, fine = tasks(Preparation((f"{tmp_path}/[bf]*.py",), cache_dir=str(tmp_path / "cache")))
    assert (bad.name, bad.unreadable) == ("bad", ("Python", "a syntax error: invalid syntax (bad.py, line 1)"))
    assert (fine.name, fine.unreadable) == ("fine", None)
    for word, line in (
        ("bad.py:model", f"{tmp_path}/bad.py: expected Python, got a syntax error: invalid syntax (bad.py, line 1)"),
        ("own.py:other", f"--model {tmp_path}/own.py: expected a model of this file (net), got 'other'"),
    ):
        with pytest.raises(InputError) as caught:
            tasks(Preparation((f"{tmp_path}/{word}",), cache_dir=str(tmp_path / "cache")))
        assert str(caught.value) == line
    [task] = tasks(Preparation((f"{tmp_path}/own.py:net",), cache_dir=str(tmp_path / "cache")))
    assert task.name == "net"


def test_files_of_several_folders_are_named_by_these_and_without_the_time_in_their_names(tmp_path: Path) -> None:
    for name in (
        "net/irs/shlo_compiler_1795713725392.mlir",
        "bert/irs/shlo_compiler_1795713725774.mlir",
        "bert/irs/shlo_compiler_1795713725900.mlir",
        "bert/irs/ttir_1795713725401.txt",
        "x_12.mlir",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(FINE)
    both = {
        "bert/irs/shlo_compiler_1795713725774.mlir": "bert.irs.shlo_compiler.1",
        "bert/irs/shlo_compiler_1795713725900.mlir": "bert.irs.shlo_compiler.2",
        "net/irs/shlo_compiler_1795713725392.mlir": "net.irs.shlo_compiler",
    }
    assert named_by(tmp_path, "**/shlo_compiler_*.mlir") == named_by(tmp_path, "*/irs/*.mlir") == both
    assert named_by(tmp_path, "**/*.mlir") == {**both, "x_12.mlir": "x_12"}
    below = {path: name.removeprefix("bert.") for path, name in both.items() if path.startswith("bert")}
    assert named_by(tmp_path, "bert/**/*.mlir") == below
    assert named_by(tmp_path, "bert/irs/*25774.mlir") == {
        "bert/irs/shlo_compiler_1795713725774.mlir": "shlo_compiler_1795713725774"
    }


def test_files_of_one_name_are_named_by_as_many_folders_as_it_takes(tmp_path: Path) -> None:
    for name in ("a/x/net.mlir", "b/x/net.mlir", "b/y/other.mlir", "a/net.onnx"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(FINE)
    named = {"a/x/net.mlir": "a.x.net", "b/x/net.mlir": "b.x.net", "b/y/other.mlir": "other"}
    assert named_by(tmp_path, *named) == named
    assert named_by(tmp_path, "a/net.onnx", "a/x/net.mlir") == {"a/net.onnx": "a.net", "a/x/net.mlir": "x.net"}
    folders = {task.folder for task in tasks(Preparation((f"{tmp_path}/*/x/net.mlir",), cache_dir=str(tmp_path)))}
    assert len(folders) == 2, "each has an export of its own"


# --- the parent


@pytest.fixture
def task(tmp_path: Path) -> Task:
    request = Preparation(("fine",), cache_dir=str(tmp_path), op_seconds=2.5)
    return Task("fine", "fine.mlir", None, "", str(tmp_path / "exports" / "key"), request)


def make(
    task: Task, allowance: Allowance, report: Callable[[Event], None] = lambda event: None, *, only_split: bool = False
) -> None:
    make_folder.make(Making(task, allowance, report, only_split=only_split))


Play = Callable[[Path, Callable[[dict[str, Any]], None], Callable[[], None]], Ending]
"""What a child does: its folder, what takes its events, and the check of its op."""


def played(monkeypatch: pytest.MonkeyPatch, *plays: Play, line: str = "Fatal: it fell") -> list[dict[str, Any]]:
    """Children that do what they are told, one after another; the tasks that they got."""
    got: list[dict[str, Any]] = []

    def call(function: str, task_given: dict[str, Any], **more: Any) -> Any:
        got.append({**task_given, "fatal_ops": dict(task_given["fatal_ops"])})
        try:
            ending = plays[len(got) - 1](Path(task_given["temporary"]), more["on_message"], more["watch"])
        except ChildEnded as ended:
            ending = ended.ending
        return SimpleNamespace(ending=ending, log=SimpleNamespace(last_line=lambda: line))

    monkeypatch.setattr(make_folder, "call", call)
    return got


def test_from_the_second_model_on_children_are_forks_of_a_process_that_has_all_they_import(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers: list[tuple[str, str]] = []

    def call(function: str, task_given: dict[str, Any], *, server: str = "", **more: Any) -> Any:
        servers.append((task_given["name"], server))
        return SimpleNamespace(ending=DONE)

    monkeypatch.setattr(make_folder, "call", call)
    monkeypatch.setattr(make_folder, "_made", {})
    (kept := Path(task.request.cache_dir or "", "0.split")).touch()
    for model in ("fine", "fine", "other"):
        asked = replace(task, name=model, kept=str(kept))
        make(asked, Allowance(1000), only_split=model == "fine")
        assert kept.exists() == (model == "fine"), "as long as nobody has walked it"
    assert servers == [("fine", ""), ("fine", ""), ("other", make_folder.SERVER)]


def evaluating(text: str, ending: Ending) -> Play:
    def play(folder: Path, take: Any, watch: Any) -> Ending:
        if text:
            (folder / JOURNAL).write_text(text.ljust(256))
        return ending

    return play


FELL, LATE, DONE = Ending(Cause.SIGNAL, "", 11), Ending(Cause.TIMEOUT, ""), Ending(Cause.RETURNED, "")
BEGIN = {"event": "stage", "model": "fine", "stage": "export", "done": 0, "total": 1}


def test_a_child_that_an_op_ends_is_followed_by_one_without_that_op(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With ops compiled beside the one that is evaluated, any of them may have ended the first child.
    got = played(
        monkeypatch,
        evaluating("00 stablehlo.abs", FELL),
        evaluating("0a stablehlo.add at net.py:7", FELL),
        evaluating("0b stablehlo.exp", LATE),
        evaluating("", DONE),
    )
    events: list[dict[str, Any]] = []
    make(task, Allowance(60), events.append)
    assert [each["fatal_ops"] for each in got] == [
        {},
        {},
        {"0a": "XLA gave no value (signal SIGSEGV): Fatal: it fell"},
        {
            "0a": "XLA gave no value (signal SIGSEGV): Fatal: it fell",
            "0b": "XLA gave no value (more than 2.5 s): Fatal: it fell",
        },
    ]
    assert events == [BEGIN] * 4
    assert [bool(each["compile_threads"]) for each in got] == [True, False, False, False]
    assert {each["exported"] for each in got} == {""}
    assert not list(Path(task.folder).parent.iterdir()), "what was unfinished is removed"


KILLED = Ending(Cause.SIGNAL, "killed by SIGKILL", 9)
BY_SYSTEM = "killed by the system (SIGKILL), probably out of memory, at"


def test_an_op_at_which_the_system_kills_the_child_is_not_run(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some more tries, the last without threads; the folder is that of the run alone."""
    falls = [evaluating("0a stablehlo.add at net.py:7", KILLED)] * (make_folder.MAX_KILLS + 2)
    got = played(monkeypatch, *falls, evaluating("", DONE))
    make(task, Allowance(60))
    assert [bool(each["compile_threads"]) for each in got] == [*[True] * (make_folder.MAX_KILLS + 1), False, False]
    assert got[-1]["fatal_ops"] == {"0a": f"{BY_SYSTEM} golden of stablehlo.add at net.py:7"}
    assert got[-1]["limited"]


def test_a_model_whose_child_the_system_kills_elsewhere_has_not_run(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(monkeypatch, *[evaluating("", KILLED)] * (make_folder.MAX_KILLS + 1))
    with pytest.raises(Killed, match=re.escape(f"{BY_SYSTEM} export")):
        make(task, Allowance(60))


@pytest.mark.parametrize(
    ("plays", "line"),
    [
        ([evaluating("", FELL)], "signal SIGSEGV at export: Fatal: it fell"),
        ([evaluating("0a stablehlo.add", FELL)] * 3, "signal SIGSEGV at golden of stablehlo.add: Fatal: it fell"),
        ([evaluating("", LATE)], "timeout at export: more than 60 s for all steps of the model; try --prepare-timeout"),
    ],
)
def test_a_child_that_ends_elsewhere_ends_its_model(
    task: Task, monkeypatch: pytest.MonkeyPatch, plays: list[Play], line: str
) -> None:
    played(monkeypatch, *plays)
    with pytest.raises(Unpreparable) as caught:
        make(task, Allowance(60))
    assert str(caught.value) == line


def test_twenty_ops_of_a_model_may_end_its_child(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    falls = [evaluating(f"{number:02} stablehlo.op{number}", FELL) for number in range(21)]
    got = played(monkeypatch, falls[0], *falls[:20], evaluating("", DONE), line="x" * 300)
    make(task, Allowance(60))
    assert len(got[-1]["fatal_ops"]) == 20
    assert got[2]["fatal_ops"] == {"00": f"XLA gave no value (signal SIGSEGV): {'x' * 200}"}
    played(monkeypatch, falls[0], *falls, line="")
    with pytest.raises(Unpreparable, match=r"signal SIGSEGV at golden of stablehlo\.op20: no output"):
        make(task, Allowance(60))


def test_a_folder_that_is_whole_counts_however_its_child_ended(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, evaluating("", FELL))
    monkeypatch.setattr(export_folder, "complete", lambda folder: folder == Path(task.folder))
    make(task, Allowance(60))


def test_without_time_or_file_no_child_starts(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelRefused, match=r"fine\.mlir: expected a readable file, got gone"):
        make(replace(task, unreadable=("a readable file", "gone")), Allowance(60))
    with pytest.raises(BudgetSpent, match="its beginning"):
        make(task, Allowance(0))
    allowance = Allowance(60, until=0.0)
    monkeypatch.setattr(allowance, "left", iter((1.0, *[0.0] * 9)).__next__)
    for text, step in (("", "export"), ("0a stablehlo.add", "golden")):
        played(monkeypatch, evaluating(text, FELL))
        monkeypatch.setattr(allowance, "left", iter((1.0, *[0.0] * 9)).__next__)
        with pytest.raises(BudgetSpent, match=f"^{step}$"):
            make(task, allowance)


def test_messages_of_a_child_are_forwarded_or_raised(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged: list[str] = []
    monkeypatch.setattr(damage, "say", damaged.append)
    progress = {"event": "stage", "model": "fine", "stage": "golden", "done": 1, "total": 2}

    def saying(*events: dict[str, Any]) -> Play:
        def play(folder: Path, take: Any, watch: Any) -> Ending:
            for event in events:
                take(event)
            return DONE

        return play

    emitted: list[dict[str, Any]] = []
    played(monkeypatch, saying(progress, {"event": "damage", "line": "a file"}))
    allowance = Allowance(60)
    make(task, allowance, emitted.append)
    assert (emitted, damaged, allowance.step) == ([BEGIN, progress], ["a file"], "golden")
    error = {"event": "error", "where": "net", "expected": "a", "got": "b", "hint": "c"}
    for events, kind, line in (
        (error, ModelRefused, "net: expected a, got b; try c"),
        (error | {"where": "cache folder"}, InputError, "cache folder: expected a, got b; try c"),
        ({"event": "error", "got": "ValueError: x"}, Unpreparable, "ValueError: x"),
    ):
        played(monkeypatch, saying(events))
        with pytest.raises(kind) as caught:
            make(task, Allowance(60))
        assert (str(caught.value), type(caught.value)) == (line, kind)


def test_an_op_is_late_by_the_time_since_its_journal_changed(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(clocks, "awake", lambda: now[0])

    def play(folder: Path, take: Any, watch: Callable[[], None]) -> Ending:
        journal = folder / JOURNAL
        watch()  # there is none yet
        journal.write_text("")
        now[0] += 100
        watch()  # no op yet
        journal.write_text("0a stablehlo.add".ljust(256))
        watch()
        now[0] += 2
        watch()
        with journal.open("r+") as file:
            file.write("0b")
        stamp = journal.stat().st_mtime_ns + 1000
        os.utime(journal, ns=(stamp, stamp))
        now[0] += 2
        watch()
        now[0] += 2
        watch()
        now[0] += 1
        with pytest.raises(ChildEnded) as caught:
            watch()
        assert caught.value.ending == Ending(Cause.TIMEOUT, "more than 2.5 s")
        return DONE

    played(monkeypatch, play)
    make(task, Allowance(1000))


def test_a_folder_that_was_completed_meanwhile_has_no_journal(tmp_path: Path) -> None:
    assert make_folder._journals(tmp_path / "moved") == []


def test_of_several_processes_the_one_is_named_whose_op_is_late(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(clocks, "awake", lambda: now[0])

    def play(folder: Path, take: Any, watch: Callable[[], None]) -> Ending:
        waiting, late = folder / f"{JOURNAL}.0", folder / f"{JOURNAL}.1"
        waiting.write_text("")
        late.write_text("0b stablehlo.exp".ljust(256))
        for _ in range(3):  # the first waits for a slot, with no op under evaluation
            watch()
            now[0] += 2
        raise AssertionError("nobody was late")

    got = played(monkeypatch, play, evaluating("", DONE))
    make(task, Allowance(1000))
    assert got[1]["fatal_ops"] == {"0b": "XLA gave no value (more than 2.5 s): Fatal: it fell"}


# --- the child


def job_of(folder: Path, text: str, **more: Any) -> ModelJob:
    (folder / "cache" / "exports").mkdir(parents=True)
    (folder / "fine.mlir").write_text(text)
    (folder / "making").mkdir()
    request = asdict(Preparation(("fine",), cache_dir=str(folder / "cache"), **more))
    return ModelJob(
        "fine",
        path=str(folder / "fine.mlir"),
        entry="",
        folder=str(folder / "cache" / "exports" / "key"),
        request=request,
        exported="",
        temporary=str(folder / "making"),
        compile_threads=1,
    )


def test_a_child_tells_its_steps(tmp_path: Path) -> None:
    events: list[tuple[Any, ...]] = []
    job = job_of(tmp_path, FINE)
    prepare_child.make(job, lambda event, **more: events.append((event, *more.values())))
    assert events == [
        ("stage", "fine", "export", 1, 1),
        ("stage", "fine", "split", 0, 1),
        ("stage", "fine", "split", 1, 1),
        ("stage", "fine", "golden", 0, 1),
        ("stage", "fine", "golden", 1, 1),
    ]
    header, [row] = export_folder.read_manifest(Path(job.folder))
    assert (header.models, header.export_dirs) == (("fine",), (job.folder,))
    assert (header.module_ops, header.structural) == ({"fine": 2}, {"fine": 1})
    assert (row.sources[0].law, row.sources[0].seed, bool(row.golden)) == ("normal:1", 0, True)
    assert row.provenance.startswith("captured:fine-")
    assert [len(part) for part in row.provenance.split(":")[1].split("-")] == [4, 12]
    assert not (Path(job.folder) / JOURNAL).exists()


def test_a_child_announces_ops_before_it_evaluates_them_and_as_they_are_in_the_end(tmp_path: Path) -> None:
    export, steps = GrowingExport(), list[str]()

    def emit(event: str, **more: Any) -> None:
        if event == "announce":
            export.take(more["text"])
        else:
            steps.append(event)

    job = replace(job_of(tmp_path, FINE), kept=str(tmp_path / "0.split"))
    prepare_child.make(replace(job, only_split=True), emit)
    assert (export.folder, steps[-1], Path(job.folder).exists()) == (None, "split", False)
    assert export.manifest is not None
    split = export.manifest[1]
    prepare_child.make(job, emit)
    header, rows = export_folder.read_manifest(Path(job.folder))
    assert list(export.announced().values()) == rows
    assert export.manifest == (header, split), "twice the same"
    known = {"sources", "golden", "term_sizes", "provenance", "no_golden"}
    assert [row.model_dump(exclude=known) for row in split] == [row.model_dump(exclude=known) for row in rows]
    assert not any(row.golden for row in split)


def test_a_child_does_not_split_what_another_has_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, texts = list[str](), list[str]()

    def emit(event: str, **more: Any) -> None:
        steps.append(event)
        texts.append(more.get("text", ""))

    job = replace(job_of(tmp_path, FINE), kept=str(tmp_path / "0.split"))
    prepare_child.make(replace(job, only_split=True), emit)
    with monkeypatch.context() as patch:
        patch.delattr("opscope.harness.prepare.split.split_module")
        prepare_child.make(replace(job, only_split=True), emit)
        prepare_child.make(job, lambda event, **more: None)
    assert (steps.count("split"), sum('"split"' in text for text in texts)) == (2, 1)
    made = export_folder.read_manifest(Path(job.folder))
    Path(job.folder).rename(tmp_path / "apart")
    (tmp_path / "making").mkdir()
    (tmp_path / "0.split").write_bytes(b"damaged")
    prepare_child.make(job, emit)
    assert export_folder.read_manifest(Path(job.folder)) == made
    assert sum('"split"' in text for text in texts) == 2


def test_a_child_on_another_machine_tells_what_it_would_announce(tmp_path: Path) -> None:
    """Its split has left the module for it, and has said how many processes may walk it."""
    events = list[tuple[str, dict[str, Any]]]()
    job = replace(job_of(tmp_path, FINE), kept=str(tmp_path / "0.split"))
    prepare_child.make(
        replace(job, only_split=True, hand_over=True),
        lambda event, **more: events.append((event, more)),
    )
    assert events[-1] == ("split", {"model": "fine", "processes": 1})
    events.clear()
    left = str(handed_over(job.kept))
    there = replace(job, exported=left, path="/elsewhere/fine.mlir", elsewhere="/in/the/end")
    prepare_child.make(there, lambda event, **more: events.append((event, more)))
    [row] = export_folder.read_manifest(Path(job.folder))[1]
    [announced] = [json.loads(more["text"]) for event, more in events if event == "announce"]
    assert (announced["row"], row.uses[0].location) == (row.model_dump_json(), "fine.mlir:2")
    manifest = (Path(job.folder) / "manifest.jsonl").read_text()
    assert json.loads(manifest.splitlines()[0])["export_dirs"] == ["/in/the/end"]


def test_as_much_may_live_as_four_of_the_largest_values(tmp_path: Path) -> None:
    lines = "\n".join(f"%{n + 1} = stablehlo.tanh %{n} : tensor<4xf32>" for n in range(5)).replace("%0 ", "%a ")
    names, types = ", ".join(f"%{n + 1}" for n in range(5)), ", ".join(["tensor<4xf32>"] * 5)
    text = f"func.func @main(%a: tensor<4xf32>) -> ({types}) {{\n{lines}\nreturn {names} : {types} }}"
    job = job_of(
        tmp_path, text.replace("%5 = stablehlo.tanh", "%5 = stablehlo.cosine"), max_tensor_bytes=16, max_live_bytes=0
    )
    prepare_child.make(job, lambda event, **more: None)
    rows = export_folder.read_manifest(Path(job.folder))[1]
    assert [row.no_golden for row in rows] == ["", "80 bytes of values alive at once are above the cap of 64 bytes"]


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (InputError("net", "a", "b", "c"), {"where": "net", "expected": "a", "got": "b", "hint": "c"}),
        (ValueError("  first\nsecond"), {"got": "ValueError: first"}),
        (ValueError("x" * 300), {"got": f"ValueError: {'x' * 188}"}),
        (ValueError(" "), {"got": "ValueError: "}),
        (PermissionError(13, "Permission denied"), {"where": "cache folder", "expected": "a writable folder"}),
    ],
)
def test_a_child_sends_its_error(error: Exception, event: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []

    def fall(task: Any, emit: Any) -> None:
        raise error

    monkeypatch.setattr(prepare_child, "make", fall)
    monkeypatch.setattr(damage, "show_by", lambda show: show("a damaged file"))
    job = ModelJob("fine", "", "", "", {}, "", "/cache/exports/making")
    parent: Any = SimpleNamespace(task=lambda: asdict(job), send=sent.append)
    prepare_child.prepare(parent)
    assert sent[0] == {"event": "damage", "line": "a damaged file"}
    assert len(sent) == 2
    assert sent[1].items() >= {"event": "error", **event}.items()


def test_a_programs_digest_is_of_all_that_its_values_depend_on() -> None:
    def digest(text: str, laws: tuple[str, ...] = ("normal:1",), values: dict[int, FileValue] | None = None) -> str:
        return prepare_child.program_digest(split_module(text), laws, values)

    own = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %c = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
      %0 = stablehlo.add %a, %c : tensor<4xf32>
      return %0 : tensor<4xf32> }"""
    splat = own.replace("[1.0, 2.0, 3.0, 4.0]", "1.0")
    others = [
        digest(own, ("normal:2",)),
        digest(own.replace("add", "multiply")),
        digest(own.replace("4.0]", "5.0]")),
        digest(splat),
        digest(splat.replace("dense<1.0>", "dense<2.0>")),
        digest(own.replace("%a, %c", "%c, %a")),
        digest(own, values={0: FileValue("a.npy", "01")}),
        digest(own, values={0: FileValue("a.npy", "02")}),
        digest(own, values={1: FileValue("a.npy", "01")}),
        digest(own.replace("tensor<4xf32>", "tensor<4xf64>")),
    ]
    assert len({digest(own), *others}) == 1 + len(others)
    assert digest(own) == digest(
        own.replace("stablehlo.add %a, %c : tensor<4xf32>", 'stablehlo.add %a, %c : tensor<4xf32> loc("here")')
    )
    assert {len(each) for each in others} == {12}


def test_arguments_are_inputs_or_parameters() -> None:
    specs = tuple(ArgSpec(name, (), "float32", "", role=role) for name, role in (("x", "input"), ("w", "parameter")))
    exported: Any = SimpleNamespace(arguments=specs, roles=())
    assert prepare_child.argument_types("m", exported) == ("input", "parameter")
    assert prepare_child.argument_types(f"m{prepare_child.TRAINING}", exported) == ()

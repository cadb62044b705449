"""Backends that are stage commands: real programs in real processes, and what is said where they misbehave."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.backends import life, registry
from opscope.harness.backends.base import Job, StageCrashError, StageError
from opscope.harness.backends.commands import identity
from opscope.harness.lanes.ladder import climb
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext
from opscope.harness.record.program_changes import changes_of_counts
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.ops import add_row, climbed

DESC = TensorDesc(shape=(2, 3), data_type="f32")
ADD = """import sys, numpy
given = numpy.load(sys.argv[1])
numpy.savez(sys.argv[2], sum(given[name] for name in given.files))
"""
FINE = """
stages:
  - name: pack
    command: [cp, "{input}", "{output}"]
    writes: op.pack
  - name: run
    command: ["{python}", "{here}/add.py", "{inputs_npz}", "{outputs_npz}", "{input}"]
"""


def backend_of(folder, text, name="mine"):
    (folder / "add.py").write_text(ADD)
    (folder / f"{name}.yaml").write_text(text)
    return registry.load(str(folder / f"{name}.yaml"))


def job_of(*arrays, results=(DESC,), **options):
    return Job("op", b"module {}", list(arrays), ResultOptions(**options), tuple(results))


def test_a_compiler_of_ones_own_is_a_yaml_file(tmp_path):
    backend = backend_of(tmp_path, FINE)
    assert (backend.name, backend.stages) == ("mine", (Stage("pack"), Stage.RUN))
    assert backend.available() is None
    assert backend.target(ResultOptions()).card_type == "host"
    left, right = np.ones((2, 3), np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
    job = climbed(backend, job_of(left, right))
    np.testing.assert_array_equal(job.outputs[0], left + right)
    assert job.ran_on == "host"


def test_stage_commands_climb_like_any_backend(tmp_path):
    backend = backend_of(tmp_path, FINE)
    row = add_row(tmp_path, "op1")
    context = RunContext("r", str(tmp_path / "run"), str(tmp_path / "mine.yaml"))
    test = climb(row, backend, context=context, export_dir=tmp_path)
    assert (test.status, test.backend) == (Status.SUCCESS, "mine")
    assert [str(time.stage) for time in test.stages] == ["pack", "run", "compare"]


def test_patterns_count_the_ops_of_a_program_of_ones_own_language(tmp_path):
    program = "gemm a b\\n  add c\\ngemm d e\\n"
    (tmp_path / "make.py").write_text(f"import sys\nopen(sys.argv[2], 'w').write('{program}')\n")
    text = FINE.replace('[cp, "{input}", "{output}"]', '["{python}", "{here}/make.py", "{input}", "{output}"]')
    text = text.replace("op.pack", "op.txt") + "structure: {gemm: '^gemm ', add: '^ *add ', conv: conv}\n"
    backend = backend_of(tmp_path, text)
    row, run_dir = add_row(tmp_path, "op1"), tmp_path / "run"
    context = RunContext("r", str(run_dir), str(tmp_path / "mine.yaml"), keep_ir=True)
    test = climb(row, backend, context=context, export_dir=tmp_path)
    assert test.status == Status.SUCCESS
    found = test.structure
    assert found is not None
    assert (found.ops, found.launches, found.counted) == ({"add": 1, "conv": 0, "gemm": 2}, 3, True)
    compiles = backend_of(tmp_path, re.sub(r"  - name: run\n.*\n", "", text), "compiles")
    context = RunContext("r", str(run_dir), str(tmp_path / "compiles.yaml"), keep_ir=True)
    test = climb(row, compiles, context=context, export_dir=tmp_path)
    assert (test.status, test.structure) == (Status.PASSED, found), "one that runs nothing is counted too"
    [change] = changes_of_counts(found.ops, {"gemm": 1, "add": 1, "fused": 1})
    assert change.what == "fused +1, gemm -1"
    with pytest.raises(InputError, match="structure: gemm: expected a regular expression"):
        backend_of(tmp_path, text.replace("'^gemm '", "'('"))


@pytest.mark.slow
def test_the_fingerprint_follows_the_file_its_tools_and_what_they_say(tmp_path, monkeypatch):
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho 1\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    text = FINE.replace("stages:", "requires: [tool]\nstages:")
    prints = [backend_of(tmp_path, text).fingerprint() for _ in range(2)]
    assert prints[0] == prints[1]
    tool.write_text("#!/bin/sh\necho 2\n")
    prints.append(backend_of(tmp_path, text).fingerprint())
    prints.append(backend_of(tmp_path, text + "# a word\n").fingerprint())
    prints.append(backend_of(tmp_path, "version: [echo, four]\n" + text + "# a word\n").fingerprint())
    assert len(set(prints)) == 4


@pytest.mark.parametrize(
    ("words", "repository", "commit"),
    [
        ('[cat, "{here}/commit"]', "git@host:a/x.git", {"revision": "abc", "url": "https://host/a/x"}),
        ("[cat, commit]", "", {"revision": "abc"}),
        ("[echo, v1.2-3-gabc-dirty]", "", {"revision": "v1.2-3-gabc", "dirty": "yes"}),
        ("[echo, abc+]", "", {"revision": "abc", "dirty": "yes"}),
        ("[]", "https://host/x", {}),
        ("[git, rev-parse, HEAD]", "", "exit code 128 from `git rev-parse HEAD`: fatal: not a git repository"),
        ("[sh, -c, 'echo fatal: no commit >&2; echo usage >&2; exit 3']", "", "exit code 3 from `sh -c echo fatal: no"),
        ("['true']", "", "exit code 0 from `true`: no output"),
        ("[no-such-tool]", "", "`no-such-tool`: No such file or directory"),
        ("[sleep, '60']", "", "nothing from `sleep 60` within 0 s"),
    ],
)
def test_a_file_may_name_the_commit_of_its_compiler(tmp_path, monkeypatch, capfd, words, repository, commit):
    monkeypatch.setattr(identity, "REVISION_SECONDS", 0.2 if "sleep" in words else 10.0)
    (tmp_path / "commit").write_text("abc\nand more\n")
    backend = backend_of(tmp_path, f"revision: {words}\nrepository: {repository}\n{FINE}")
    named = life.own_commit("mine.yaml", backend)
    if isinstance(commit, dict):
        assert named == commit
    else:
        assert f"--backend mine.yaml: expected its revision, got {commit}" in named["problem"]
        assert named["problem"].endswith("; the tested folder's is stored")
        assert ": fatal: no commit;" in named["problem"] or "usage" not in words
    assert capfd.readouterr() == ("", ""), "one line says it, no traceback before it"


@pytest.mark.parametrize("form", ["npy", "bin"])
def test_values_go_as_one_file_each_and_every_type_comes_back(tmp_path, form):
    script = (
        f"import sys, shutil; n = len(sys.argv) // 2; [shutil.copy(a, b) for a, b in zip(sys.argv[1:], sys.argv[{3}:])]"
    )
    text = f"""stages:
  - name: run
    command: ["{{python}}", -c, '{script}', "{{input_{form}}}", "{{output_{form}}}", "{{module}}"]
"""
    arrays = [np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16), np.array([[True, False, True]])]
    results = (TensorDesc(shape=(2, 3), data_type="bf16"), TensorDesc(shape=(1, 3), data_type="i1"))
    job = climbed(backend_of(tmp_path, text), job_of(*arrays, results=results))
    for array, output in zip(arrays, job.outputs, strict=True):
        assert output.dtype == array.dtype
        np.testing.assert_array_equal(output, array)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ('["true", "{input}", "{output}"]', "true left with exit code 0 and wrote no pack.out"),
        ('[touch, "{output}", "{input}"]', "touch left with exit code 0 and wrote an empty pack.out"),
        ('[sh, -c, "echo fine; echo here: error: bad op; exit 3", "{input}{output}"]', "here: error: bad op"),
        ('[sh, -c, "exit 3", "{input}{output}"]', "sh left with exit code 3"),
        ('[cp, "{env:OPSCOPE_NOT_SET}", "{output}", "{input}"]', "the environment has no OPSCOPE_NOT_SET"),
    ],
)
def test_a_failing_tool_is_reported_in_its_own_words(tmp_path, command, said):
    backend = backend_of(tmp_path, f"stages:\n  - name: pack\n    command: {command}\n")
    with pytest.raises(StageError) as refusal:
        climbed(backend, job_of())
    assert refusal.value.message.startswith(said)


def test_missing_results_and_results_of_another_size_are_reported(tmp_path):
    nothing = FINE.replace('"{here}/add.py"', '-c, "0"')
    with pytest.raises(StageError, match=r"left with exit code 0 and wrote no outputs\.npz"):
        climbed(backend_of(tmp_path, nothing), job_of(np.ones((2, 3), np.float32)))
    two = FINE.replace('"{here}/add.py"', '-c, "import sys, numpy; numpy.savez(sys.argv[2], 1, 2)"')
    with pytest.raises(StageError, match=r"wrote 2 results into outputs\.npz, where 1 are declared"):
        climbed(backend_of(tmp_path, two), job_of(np.ones((2, 3), np.float32)))


def test_a_tool_that_dies_of_a_signal_is_a_crash_of_the_op(tmp_path):
    text = 'stages:\n  - name: pack\n    command: [sh, -c, "echo last words; kill -SEGV $$", "{input}{output}"]\n'
    backend = backend_of(tmp_path, text)
    with pytest.raises(StageCrashError) as crash:
        climbed(backend, job_of())
    assert (crash.value.kind, crash.value.message) == ("signal SIGSEGV", "sh was killed by SIGSEGV")
    assert "last words" in crash.value.diagnostic
    row = add_row(tmp_path, "op1")
    context = RunContext("r", str(tmp_path / "run"), str(tmp_path / "mine.yaml"))
    test = climb(row, backend, context=context, export_dir=tmp_path)
    assert (test.status, test.crash_kind, test.failed_stage) == (Status.CRASHED, "signal SIGSEGV", Stage("pack"))
    assert "last words" in (tmp_path / "run" / test.artifact).read_text()


def test_a_flood_of_output_is_kept_at_both_ends(tmp_path):
    flood = "import sys; print('begin'); sys.stdout.write('x' * 3_000_000); print('end error: here'); sys.exit(1)"
    text = f'stages:\n  - name: pack\n    command: ["{{python}}", -c, "{flood}", "{{input}}{{output}}"]\n'
    with pytest.raises(StageError) as refusal:
        climbed(backend_of(tmp_path, text), job_of())
    diagnostic = refusal.value.diagnostic
    assert diagnostic.startswith("begin")
    assert "bytes left out]" in diagnostic
    assert diagnostic.rstrip().endswith("end error: here")
    assert len(diagnostic) < 1_300_000


def test_the_output_of_a_command_may_be_its_result(tmp_path):
    text = FINE.replace('[cp, "{input}", "{output}"]', '[cat, "{input}"]').replace(
        "writes: op.pack", "writes: op.pack\n    stdout: true"
    )
    assert climbed(backend_of(tmp_path, text), job_of(np.ones((2, 3), np.float32))).outputs


STAGE = "stages: [{name: pack, command: [cp, '{input}', '{output}']}%s]"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "mine.yaml: expected a table of keys and values, got None"),
        ("a: [", "mine.yaml: expected YAML, got "),
        ("card: x", "mine.yaml: expected a list `stages`, got none; try opscope backend new mine.yaml"),
        ("stags: []", "mine.yaml: expected a known key, got 'stags'; try stages"),
        (
            STAGE.replace("{output}", "{outptu}") % "",
            "mine.yaml: stage 1 (pack): expected a placeholder, got {outptu}; try output",
        ),
        (
            STAGE.replace("{output}", "out") % "",
            "mine.yaml: stage 1 (pack): expected a word with {output}, got none; try -o {output}, or stdout: true",
        ),
        (STAGE.replace("{input}", "in") % "", "mine.yaml: stage 1 (pack): expected a word with {input}, got none"),
        (
            STAGE.replace("{input}", "{input}{inputs_npz}") % "",
            "mine.yaml: stage 1 (pack): expected a placeholder (only `run` has values), got {inputs_npz}",
        ),
        (
            STAGE % ", {name: run, command: [x, '{input}', '{inputs_npz}']}",
            "mine.yaml: stage 2 (run): expected a placeholder for the results, got none; try {outputs_npz} or",
        ),
        (
            STAGE % ", {name: run, command: [x, '{input}', '{outputs_npz}']}",
            "mine.yaml: stage 2 (run): expected a placeholder for the inputs, got none; try {inputs_npz} or",
        ),
        (
            STAGE % ", {name: pack, command: [cp, '{input}', '{output}']}",
            "mine.yaml: expected stages of different names, got pack, pack",
        ),
        (STAGE.replace("pack", "compare") % "", "mine.yaml: stage 1 (compare): expected a name that the harness"),
        (STAGE.replace("pack", "Pack It") % "", "mine.yaml: stage 1: expected a `name` of small letters"),
        ("stages: [{name: pack, command: cp}]", "mine.yaml: stage 1 (pack): command: expected a list of words"),
        (
            STAGE % "" + "\nrepository: ./here",
            "mine.yaml: repository: expected the page of a repository, got './here'; try https://host/owner/name",
        ),
        (STAGE % "" + "\nmodule: txt", "mine.yaml: module: expected one of bytecode, text, portable, got 'txt'"),
    ],
)
def test_a_file_that_cannot_work_is_one_line(tmp_path, text, line):
    with pytest.raises(InputError) as refusal:
        backend_of(tmp_path, text)
    said = str(refusal.value).replace(f"{tmp_path}/", "")
    assert said.startswith(line), said
    assert "\n" not in said


def test_tools_that_are_not_there_are_named(tmp_path):
    text = "install: pip install it\n" + STAGE.replace("cp", "no-such-tool") % ""
    assert backend_of(tmp_path, text).available() == "pip install it (not on PATH: no-such-tool)"
    with pytest.raises(InputError, match="--backend command: expected a YAML file with stage commands, got none"):
        registry.load("command")
    with pytest.raises(InputError, match=r"expected the path of a backend's file, got no file nowhere\.yaml"):
        registry.load("nowhere.yaml")


@pytest.mark.slow
def test_a_tool_may_lie_beside_the_file(tmp_path):
    """`{here}` is known before any op: whether the tool is there, its digest and its version."""
    text = """version: ["{here}/tool", --version]
stages:
  - name: pack
    command: ["{here}/tool", "{input}", "{output}"]
"""
    missing = backend_of(tmp_path, text).available()
    assert missing == f"an absolute path, or another PATH (not on PATH: {tmp_path}/tool)"
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n[ $1 = --version ] && cat $(dirname $0)/version || cp $1 $2\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    prints = []
    for version in ("one", "two"):
        (tmp_path / "version").write_text(version)
        prints.append(backend_of(tmp_path, text).fingerprint())
    assert prints[0] != prints[1]
    backend = backend_of(tmp_path, text)
    assert backend.available() is None
    backend.climb(Stage("pack"), job_of())


@pytest.mark.slow
def test_a_file_may_require_nothing(tmp_path, monkeypatch):
    """A tool that only the lanes' machines have; where it is there, it is part of the fingerprint all the same."""
    text = "requires: []\n" + STAGE.replace("cp", "no-such-tool") % ""
    backend = backend_of(tmp_path, text)
    assert backend.available() is None
    before = backend.fingerprint()
    tool = tmp_path / "no-such-tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert backend.fingerprint() != before


def test_tt_mlirs_tools_are_a_file_of_their_own(monkeypatch):
    backend = registry.load("ttmlir")
    assert [str(stage) for stage in backend.stages] == [
        "stablehlo-to-ttir",
        "ttir-to-ttnn",
        "ttnn-to-flatbuffer",
        "run",
    ]
    assert backend.target(ResultOptions(arch="n150")).card_type == "n150"
    monkeypatch.setenv("PATH", "")
    assert "not on PATH: ttmlir-opt, ttmlir-translate, ttrt" in backend.available()


@pytest.mark.slow
def test_ttmlir_lowers_with_tools_of_those_names(tmp_path, monkeypatch):
    """Our own compiler takes tt-mlir's words: under their names it goes through the first two stages."""
    for name in ("ttmlir-opt", "ttmlir-translate", "ttrt"):
        tool = tmp_path / name
        tool.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m opscope.harness.cli.main opt "$@"\n')
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    backend = registry.load("ttmlir")
    kind = "tensor<32x64xf32>"
    module = f"func.func @main(%a: {kind}) -> {kind} {{ %0 = stablehlo.tanh %a : {kind} return %0 : {kind} }}"
    job = Job(
        "op", module.encode(), [], ResultOptions(), (TensorDesc(shape=(32, 64), data_type="f32"),), ir_dir=tmp_path
    )
    backend.climb(Stage.STABLEHLO_TO_TTIR, job)
    assert "ttir.tanh" in (tmp_path / "stablehlo-to-ttir.mlir").read_text()
    with pytest.raises(StageError, match="the environment has no SYSTEM_DESC_PATH"):
        backend.climb(Stage.TTIR_TO_TTNN, job)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "dtype", "op", "numpy"),
    [
        ("f32", np.float32, "negate", np.negative),
        ("bf16", ml_dtypes.bfloat16, "negate", np.negative),
        ("i1", np.bool_, "not", np.logical_not),
        ("ui8", np.uint8, "not", np.invert),
        ("f64", np.float64, "abs", np.abs),
    ],
)
def test_the_real_tools_of_iree(kind, dtype, op, numpy):
    if shutil.which("iree-compile") is None and not (Path(sys.executable).parent / "iree-compile").is_file():
        pytest.skip("pip install 'opscope[iree]'")
    backend = registry.load(str(Path(__file__).parents[3] / "docs" / "examples" / "iree_cli.yaml"))
    text = f"tensor<2x3x{kind}>"
    module = f"func.func @main(%a: {text}) -> {text} {{ %0 = stablehlo.{op} %a : {text} return %0 : {text} }}"
    array = np.arange(6).reshape(2, 3).astype(dtype)
    job = Job("op", module.encode(), [array], ResultOptions(), (TensorDesc(shape=(2, 3), data_type=kind),))
    np.testing.assert_array_equal(climbed(backend, job).outputs[0], numpy(array))
    broken = Job("op2", b"func.func @main() { return stablehlo.nothing }", [], ResultOptions())
    with pytest.raises(StageError, match="error:"):
        backend.climb(Stage.COMPILE, broken)

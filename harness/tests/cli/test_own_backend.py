"""`opscope backend new` and `check`: a backend to begin with, and the suite that each one has to pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.harness.backends import registry
from opscope.harness.cli import backend_suite
from opscope.harness.cli.main import root
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import ResultOptions

GOOD = """
import os, time
from pathlib import Path
import numpy as np
from opscope import Backend, Stage, StageError, Target

class Mine(Backend):
    name = "mine"
    stages = (Stage("lower"), Stage.RUN)

    def target(self, options):
        return Target(card_type="host", float_format=None, math_fidelity="exact")

    def fingerprint(self, options):
        return "mine-1"

    def versions(self):
        return {"mine": "1"}

    def available(self):
        return None

    def climb(self, stage, job):
        known = {b"add": np.add, b"multiply": np.multiply}
        if stage is Stage.RUN:
            job.outputs, job.ran_on = [job.state["function"](*(2 * job.inputs)[:2])], "host"
            return
        for word, function in known.items():
            if word in job.module and b"reduce" not in job.module:
                job.state["function"] = function
                return
        raise StageError("no such op")
"""


def checked(folder: Path, text: str) -> dict[str, backend_suite.Check]:
    """The checks of a backend by their names."""
    (folder / "mine.py").write_text(text, encoding="utf-8")
    (folder / "trial").mkdir()
    made = backend_suite.checks(str(folder / "mine.py"), ResultOptions(), folder / "trial")
    return {check.name: check for check in made}


def failing(made: dict[str, backend_suite.Check]) -> list[str]:
    return [name for name, check in made.items() if check.result == backend_suite.FAILS]


@pytest.mark.slow
def test_a_backend_that_keeps_to_all_has_no_failing_check(tmp_path: Path) -> None:
    made = checked(tmp_path, GOOD)
    assert failing(made) == []
    assert made["ops"].text == "2 of 12 right"
    assert made["an op that it cannot know"].text == "lower: no such op"
    assert {"after its process was killed", "after its process was stopped", "leaves nothing behind"} <= made.keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("good", "bad", "check", "text"),
    [
        ('return "mine-1"', "return str(time.time_ns())", "fingerprint", "differs between two lanes"),
        ('b"add": np.add', 'b"add": lambda a, b: 0 * a', "stablehlo.add", "wrong_result at compare"),
        ("np.multiply}", 'np.multiply}; Path("left").touch()', "files", "left in TMPDIR or the working folder: left"),
        (
            'raise StageError("no such op")',
            "os.abort()",
            "an op that it cannot know",
            "crashed in place of a refusal",
        ),
        (
            "return Target(",
            'return {None: Target, "n150": Target}[options.arch](',
            "a board that does not exist",
            "got KeyError",
        ),
        (
            "        known =",
            '        self.count = getattr(self, "count", 0) + 1\n'
            '        if self.count > 20: raise StageError("full")\n        known =',
            "once more in the same process",
            "ends otherwise",
        ),
    ],
    ids=["fingerprint", "wrong numbers", "file", "crash", "option", "order"],
)
def test_a_fault_of_a_backend_is_a_failing_check(tmp_path: Path, good: str, bad: str, check: str, text: str) -> None:
    assert good in GOOD
    made = checked(tmp_path, GOOD.replace(good, bad, 1))
    assert check in failing(made), made
    assert text in made[check].text


def test_a_new_class_is_a_backend_and_is_not_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(root, ["backend", "new", "my_cc.py"])
    assert done.exit_code == 0, done.output
    assert registry.load(str(tmp_path / "my_cc.py")).available() is None
    again = CliRunner().invoke(root, ["backend", "new", "my_cc.py"])
    assert again.exit_code != 0
    assert "not there yet" in str(again.exception)


def test_a_new_yaml_file_has_the_stages_that_were_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stages = ["--stage", "lower=cp {input} {output}", "--stage", "emit=cat '{input}' \"a b\" {output}"]
    done = CliRunner().invoke(root, ["backend", "new", "mine.yaml", *stages])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "mine.yaml").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text.replace('version: ["cp", --version]', "version: [cp, --version]"))
    assert [str(stage) for stage in registry.load(str(tmp_path / "mine.yaml")).stages] == ["lower", "emit"]


@pytest.mark.slow
def test_a_program_is_looked_for_beside_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any folder that this process works in, as the commands run in folders of their own."""
    place = tmp_path / "project"
    (place / "bin").mkdir(parents=True)
    tool = place / "bin" / "mycc.sh"
    tool.write_text('#!/bin/sh\n[ "$1" = --version ] && echo 1 || cp "$1" "$2"\n')
    tool.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    words = ["backend", "new", "project/mine.yaml", "--stage", "compile=./bin/mycc.sh {input} {output}"]
    assert CliRunner().invoke(root, words).exit_code == 0
    assert registry.load("project/mine.yaml").available() is None
    made = {each.name: each for each in backend_suite.checks("project/mine.yaml", ResultOptions(), tmp_path)}
    assert (failing(made), made["ops"].text) == ([], "12 of 12 right")
    before = registry.load("project/mine.yaml").fingerprint(None)
    tool.write_text(tool.read_text().replace("echo 1", "echo 2"))
    assert registry.load("project/mine.yaml").fingerprint(None) != before


@pytest.mark.parametrize("line", ["stages: 5", "stages: [{name: a, command: 5}]", "version: 5", "requires: 5"])
def test_what_is_no_list_is_one_line_with_what_it_is(tmp_path: Path, line: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        f"{line}\n" + ("" if "stages" in line else "stages: [{name: a, command: [a, '{input}{output}']}]\n")
    )
    with pytest.raises(InputError, match=r"expected a list .*, got 5; try "):
        registry.check_name(str(file))


@pytest.mark.slow
def test_a_backend_that_sleeps_does_not_hold_the_suite_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_suite, "SECONDS", 1.0)
    made = checked(tmp_path, GOOD.replace("        known =", "        time.sleep(600)\n        known =", 1))
    assert failing(made) == ["ops in time"]
    assert made["ops in time"].text.startswith("no end within 1 s: stablehlo.add, ")
    assert list(made)[-1] == "ops in time"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["mine"], "expected a file FILE.yaml or FILE.py, got mine; try mine.yaml"),
        (["My-CC.py"], "expected small letters, digits and _, got My-CC; try my_cc.py"),
        (["Über.yaml"], "expected small letters, digits and _, got Über; try uber.yaml"),
        (["reference.yaml"], "expected a name that no backend has, got reference; try my_reference.yaml"),
        (["tt.py"], "expected a name that no backend has, got tt; try my_tt.py"),
        (["mine.py", "--stage", "a=b"], "expected a YAML file, got mine.py; try mine.yaml"),
        (["mine.yaml", "--stage", "b"], "--stage: expected NAME=COMMAND, got b; try --stage 'compile="),
        (["mine.yaml", "--stage", "b='"], "--stage: expected NAME=COMMAND"),
        (["mine.yaml", "--stage", "b=cc {input}"], "stage 1 (b): expected a word with {output}, got none"),
        (["mine.yaml", "--stage", "b=cc {in} {output}"], "stage 1 (b)"),
    ],
    ids=[
        "suffix",
        "name",
        "letters",
        "own",
        "own class",
        "stage of a class",
        "stage",
        "quotes",
        "no output",
        "placeholder",
    ],
)
def test_what_cannot_be_a_backend_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(root, ["backend", "new", *words])
    assert problem in str(done.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reference", "xla", "stablehlo-interpreter", "null"])
def test_backends_of_this_project_pass(name: str) -> None:
    done = CliRunner().invoke(root, ["backend", "check", name, "--json"])
    assert done.exit_code == 0, done.output
    assert {check["result"] for check in json.loads(done.stdout)} <= {"ok", "note"}

"""`opscope nightly --init`: the files with which a fresh repository gets nights and a gate."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.base.yaml_text import read_yaml
from opscope.harness.cli.main import FILES, root
from opscope.harness.record.errors import InputError
from opscope.harness.record.run_folders import NIGHT_FILE
from opscope.harness.record.store import read_run
from opscope.reports.nightly import first_files
from opscope.reports.nightly.cli import nightly
from opscope.reports.nightly.config import KEYS, POLICY, read_config

STAGES = "stages: [{name: lower, command: [cc, '{input}', '{output}']}]\n"
CLASS = 'from opscope import Backend\n\nclass Mine(Backend):\n    name = "mine"\n'


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*words: str) -> str:
    done = CliRunner().invoke(nightly, ["--init", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_what_is_in_the_repository_is_what_a_night_runs(repository: Path) -> None:
    for place, text in {
        "net.mlir": "",
        "models/two words.mlir": "",
        "models/tests/no.mlir": "",
        ".hidden/no.mlir": "",
        "a/b/c/d/too_deep.mlir": "",
        "compilers/cc.yaml": STAGES,
        "compilers/mine.py": CLASS,
        "compilers/other.py": CLASS,
        "docker.yaml": "stages: [build, test]\n",
        "broken.yaml": "a: [",
        "setup.py": "import opscope\n",
    }.items():
        path = repository / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    init()
    config = read_config(repository / NIGHT_FILE)
    assert config.models == ("models/two words.mlir", "net.mlir")
    assert config.backends == ("compilers/cc.yaml", "compilers/mine.py")
    assert (config.name, config.policy) == ("nightly", POLICY)


def test_an_empty_repository_gets_an_example_and_files_that_are_there_stay(repository: Path) -> None:
    (repository / ".gitlab-ci.opscope.yml").write_text("mine: true\n")
    lines = init().splitlines()
    assert lines[:3] == [
        "wrote     ci/nightly.yaml",
        "wrote     .github/workflows/opscope-nightly.yml",
        "kept      .gitlab-ci.opscope.yml, which is there already",
    ]
    assert (repository / ".gitlab-ci.opscope.yml").read_text() == "mine: true\n"
    config = read_config(repository / NIGHT_FILE)
    assert (config.models, config.backends) == ((first_files.EXAMPLE_MODEL,), (first_files.EXAMPLE_BACKEND,))
    (repository / NIGHT_FILE).write_text("models: [resnet50]\n")
    assert init().count("kept ") == 3
    assert read_config(repository / NIGHT_FILE).models == ("resnet50",)


def test_the_files_of_ci_start_the_night_and_the_gate_and_keep_a_red_night(repository: Path) -> None:
    init()
    jobs = read_yaml(repository / ".github" / "workflows" / "opscope-nightly.yml")["jobs"]
    for name, command in (("night", "opscope nightly"), ("gate", "opscope gate --budget 10m")):
        steps = [step.get("run") or step["uses"].partition("@")[0] for step in jobs[name]["steps"]]
        assert steps.index("pip install opscope") < steps.index(command)
    [save] = [step for step in jobs["night"]["steps"] if step.get("uses", "").startswith("actions/cache/save")]
    assert save["if"] == "always()"
    assert save["with"]["path"].split() == [".opscope", ".opscope-cache"]
    gitlab = read_yaml(repository / ".gitlab-ci.opscope.yml")
    assert gitlab["opscope-night"]["script"] == ["opscope nightly"]
    assert gitlab["opscope-night"]["cache"]["when"] == "always"
    assert gitlab["opscope-gate"]["script"] == ["opscope gate --budget 10m"]


def test_the_configuration_has_every_key_and_its_examples_are_right(repository: Path) -> None:
    init()
    text = (repository / NIGHT_FILE).read_text()
    assert set(read_yaml(repository / NIGHT_FILE)["policy"]) == set(POLICY)
    (repository / NIGHT_FILE).write_text(re.sub(r"^# (?=(  )?\w+:)", "", text, flags=re.MULTILINE))
    config = read_config(repository / NIGHT_FILE)
    assert set(config.content) == set(KEYS)
    assert config.notices is not None
    assert config.notices.email is not None


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ("vendor.github-workflows", ".github/workflows/opscope-nightly.yml"),
        ("vendor.gitlab-ci", ".gitlab-ci.opscope.yml"),
    ],
    ids=["GitHub", "GitLab"],
)
def test_the_systems_take_the_files_of_ci(schema: str, place: str, repository: Path) -> None:
    checker = pytest.importorskip("check_jsonschema", reason="pip install check-jsonschema")
    init()
    assert CliRunner().invoke(checker.main, ["--builtin-schema", schema, place]).exit_code == 0
    (repository / place).write_text(re.sub("script:|steps:", "scripts:", (repository / place).read_text()))
    done = CliRunner().invoke(checker.main, ["--builtin-schema", schema, place])
    assert done.exit_code == 1, "the schema is asked"


def test_what_cannot_be_written_is_one_line(repository: Path) -> None:
    (repository / "ci").write_text("a file")
    with pytest.raises(InputError, match=r"ci/nightly\.yaml: expected a writable place, got .*; try a writable folder"):
        init()
    with pytest.raises(InputError, match=r"--init: expected no other file than ci/nightly\.yaml, got other\.yaml"):
        init("other.yaml")
    with pytest.raises(InputError, match="No such file or directory; try opscope nightly --init"):
        read_config(Path("none.yaml"))


def git(*words: str) -> str:
    command = ["git", "-c", "user.name=Ada L", "-c", "user.email=ada@example.org", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def commits(repository: Path) -> list[str]:
    """A repository with a compiler that takes all ops in its first commit, which is checked out, none in its second."""
    git("init", "-q", "-b", "trunk")
    git("remote", "add", "origin", "https://me:geheim@github.com/ada/compiler.git")
    add = "stablehlo.add %a, %a : tensor<4xf32>"
    (repository / "net.mlir").write_text(
        f"func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{\n  %0 = {add}\n  return %0 : tensor<4xf32>\n}}\n"
    )
    (repository / "cc.yaml").write_text(
        'module: text\nrequires: []\nstages:\n  - {name: lower, command: [sh, "{here}/cc", "{input}", "{output}"]}\n'
        "fingerprint: [cc]\n"
    )
    made = []
    for script in ('grep -q func "$1" && cp "$1" "$2"\n', "echo no add; exit 1\n"):
        (repository / "cc").write_text(script)
        git("add", ".")
        git("commit", "-q", "-m", "compiler")
        made.append(git("rev-parse", "HEAD"))
    git("checkout", "-q", "-B", "trunk", made[0])
    init()
    return made


def called(*words: str) -> tuple[int, str]:
    """Exit code and output of a command; an error is the whole output."""
    done = CliRunner().invoke(root, list(words), obj=FILES)
    return (2, str(done.exception)) if isinstance(done.exception, InputError) else (done.exit_code, done.output)


@pytest.mark.slow
def test_a_night_and_a_gate_in_a_fresh_repository(repository: Path, commits: list[str]) -> None:
    called("nightly")
    [run] = (repository / ".opscope" / "runs").glob("*/run.json")
    assert commits[0] in run.read_text()
    assert "geheim" not in run.read_text()
    git("checkout", "-q", "-b", "topic", commits[1])
    code, output = called("gate")
    assert "gate against nightly-" in output, output
    assert code == 1
    assert f"{commits[0][:8]}..{commits[1][:8]}" in output
    _, output = called("nightly", "--new")
    assert f"{commits[0][:8]}..{commits[1][:8]}" in output


@pytest.mark.slow
def test_a_night_and_a_gate_are_of_the_commit_and_the_branch_that_the_user_names(
    repository: Path, commits: list[str]
) -> None:
    """As where a CI exports an archive: what git says here, branch `trunk`, is not what is tested."""

    def commit_of(pattern: str) -> tuple[str, str]:
        [run] = (repository / ".opscope" / "runs").glob(f"{pattern}/run.json")
        origin = read_run(run.parent).origin
        return origin.revision, origin.branch

    assert called("nightly", "--revision", commits[0], "--branch", "release")[0] == 0
    assert commit_of("nightly-*") == (commits[0], "release")
    code, output = called("gate", "--baseline", "trunk")
    assert (code, "got none; there are nights of release; try " in output) == (2, True), output
    git("checkout", "-q", commits[1])
    code, output = called("gate", "--baseline", "release", "--revision", "v7", "--branch", "topic")
    assert code == 1, output
    assert f"[{commits[0][:8]}..v7](https://github.com/ada/compiler/compare/{commits[0]}...v7)" in output
    assert commit_of("*-gate-*") == ("v7", "topic")
    for words in (("--revision", ""), ("--branch", "two\nlines")):
        code, output = called("gate", *words)
        assert (code, output.startswith(f"{words[0]}: expected ")) == (2, True), (words, output)

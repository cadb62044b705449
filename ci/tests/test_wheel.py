"""An installed wheel owns one import name: a user's project may have folders called as our rooms are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import venv
import zipfile
from pathlib import Path

import pytest

from ci import release
from ci.guides import copied

pytest.importorskip("build", reason="build comes with the dev extra")
pytest.importorskip("auditwheel", reason="auditwheel comes with the dev extra")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("harness", "models", "reports", "compiler")
PASSES = "opscope/base/passes/_passes.abi3.so"

THEIRS = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
    "conftest.py": """
        import harness, models, reports, compiler

        assert all(room.THEIRS for room in (harness, models, reports, compiler))
        """,
    "models/zoo.py": "WIDTH = 4\n",
    "tests/test_theirs.py": """
        import harness.tools
        from models import zoo

        from opscope import split


        def test_theirs_and_ours():
            assert harness.tools.double(zoo.WIDTH) == 8
            module = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
            assert [part.op_name for part in split(module)] == []
        """,
    "harness/tools.py": "def double(number):\n    return 2 * number\n",
    "mine.py": """
        import jax.numpy as jnp

        from models import zoo
        from opscope import ArgSpec, Built, model


        @model(name="mine", family="toy")
        def build(dtype):
            return Built(lambda w: jnp.tanh(w["x"]) + 1, (ArgSpec("x", (zoo.WIDTH,), dtype, "normal:1", "input"),))
        """,
    "plain.py": """
        import jax.numpy as jnp

        from models import zoo

        example_inputs = jnp.ones((zoo.WIDTH,))


        def net(x):
            return jnp.exp(x)
        """,
}
"""A user's project, file by file; the folders of `ROOMS` are packages of theirs."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as for a release: a source distribution, the wheel from that, both of them checked."""
    source, folder = copied(tmp_path_factory.mktemp("source")), tmp_path_factory.mktemp("dist")
    assert release.build(source, folder) == 0
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment that has the wheel, and finds what it needs where this environment has it."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    command = [sys.executable, "-m", "pip", "--python", folder, "install", "-qq", "--no-deps", wheel]
    subprocess.run(command, check=True, capture_output=True)
    (site,) = folder.glob("lib/python*/site-packages")
    # Added folders are searched for packages, their .pth files are not read: the checkout stays unknown.
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin" / "python"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for room in ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("THEIRS = True\n")
    for name, text in THEIRS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path


def test_a_wheel_holds_opscope_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"opscope"}
    assert not [name for name in names if "/tests/" in name]
    assert {"opscope/harness/run/plugin.py", "opscope/reports/database/views/failures.sql"} <= set(names)
    assert "-linux_" not in wheel.name, "an index refuses it"
    assert [name for name in names if "/vega-lite-" in name], "charts need nothing that was not installed"
    if shutil.which("gcc"):
        assert [name for name in names if name.endswith(".so")] == [PASSES]


def test_where_there_is_no_compiler_it_is_built_without_passes_in_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, copied(tmp_path / "source")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "CC": str(tmp_path / "none")})
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as built:
        assert not [name for name in built.namelist() if name.endswith(".so")]
        built.extractall(tmp_path / "site")
    code = "import opscope.simulator.api as api; print(api.__file__, api.passes_by())"
    printed = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    ).stdout
    place, _, passes = printed.strip().partition(" ")
    assert place == str(tmp_path / "site/opscope/simulator/api.py"), "the wheel is what is tested"
    assert passes == "NumPy (not compiled: no C compiler at installation)"


def test_passes_in_c_are_used_where_they_were_compiled(wheel: Path, python: Path) -> None:
    code = "from opscope.simulator.api import passes_by; print(passes_by())"
    printed = subprocess.run([python, "-P", "-c", code], capture_output=True, text=True, check=True, cwd=python.parent)
    compiled = PASSES in zipfile.ZipFile(wheel).namelist()
    assert printed.stdout.strip().startswith("compiled C" if compiled else "NumPy")


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one", "two"])
@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--model", "mine.py", "--model", "plain.py:net", "--op-by-op", "--backend", "xla"],
        ["--model", "mnist_mlp", "--op-by-op"],
    ],
    ids=["theirs", "mine", "ours"],
)
def test_their_tests_and_ours_run_beside_each_other(
    project: Path, python: Path, words: list[str], workers: list[str]
) -> None:
    place = subprocess.run(
        [python, "-P", "-c", "import opscope.harness.run.api as api; print(api.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=project,
    ).stdout
    assert place.startswith(str(python.parents[1])), "the wheel is what is tested"
    command = [python, "-m", "pytest", "-p", "no:benchmark", *words, *workers]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    records = [line for path in project.glob(".opscope/runs/*/journal/*") for line in path.read_text().splitlines()]
    assert bool(records) is bool(words)
    assert f"{len(records) or 1} passed" in done.stdout


COMPILER = """
import pathlib, sys

here, text = pathlib.Path(__file__).parent, pathlib.Path(sys.argv[1]).read_text()
for word in (here / "broken").read_text().split():
    if f"stablehlo.{word}" in text:
        sys.exit(f"error: cannot lower stablehlo.{word}")
pathlib.Path(sys.argv[2]).write_text("object code")
"""
BACKEND = """
module: text
requires: [python3]
fingerprint: [mycc.py, broken]
stages:
  - {name: compile, command: [python3, -S, "{here}/mycc.py", "{input}", "{output}"]}
"""
NOT_OURS = re.compile(r"(?<!-)\bn150|\btiles?\b|\bface\b|\bcycles\b|captured 0|\bdocs/|Traceback")
"""What no output of a compiler without a board has, nor one of a wheel."""


def test_the_owner_of_a_ci_with_a_compiler_of_their_own(python: Path, tmp_path: Path) -> None:
    """An empty repository: --init, a night, the gate of a branch that breaks it, that night, its causes, the repair."""
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "CI"))}
    environment |= {"PATH": path, "COLUMNS": "400", "OPSCOPE_CACHE_DIR": str(tmp_path / "cache")}
    folder = tmp_path / "repository"
    folder.mkdir()

    def called(*words: str) -> tuple[int, str]:
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
        return done.returncode, done.stdout + done.stderr

    def git(*words: str) -> str:
        code, output = called("git", "-c", "user.name=Ada L", "-c", "user.email=ada@example.org", *words)
        assert code == 0, output
        return output.strip()

    def commit(broken: str) -> str:
        (folder / "broken").write_text(broken)
        git("add", ".")
        git("commit", "-q", "--allow-empty", "-m", f"broken: {broken}")
        return git("rev-parse", "HEAD")[:8]

    def opscope(code: int, line: str, *parts: str) -> str:
        got, output = called("opscope", *line.split())
        assert got == code, (line, output)
        assert [part for part in parts if part not in output] == [], (line, output)
        assert str(ROOT) not in output, line
        # A table of sql has the database's columns, whatever the backend.
        assert line.startswith("sql ") or not NOT_OURS.search(output), (line, output)
        return output

    git("init", "-q", "-b", "main")
    for name, text in (("mycc.py", COMPILER), ("mycc.yaml", BACKEND)):
        (folder / name).write_text(text)
    commit("")
    good = commit("")
    opscope(0, "nightly --init", "wrote     ci/nightly.yaml", "wrote     .gitlab-ci.opscope.yml")
    opscope(0, "nightly", "nothing fails: 24 of 24 ops right", "first night")
    opscope(0, "gate", "24 verdicts still hold, 0 ops ran", "nothing worse")
    git("checkout", "-q", "-b", "topic")
    bad = commit("tanh maximum")
    opscope(1, "gate", "3 worse", f"{good}..{bad}")
    opscope(1, "gate --revision v7 --branch other", "3 worse", f"{good}..v7")
    sentence = "3 new failures, 1 cause: start with maximum, reduce (1 model)"
    opscope(1, "nightly", sentence, f"since {good}..{bad}")
    told = re.search(r"cause (\w{8}), 3 ops", opscope(0, "diff", sentence, "by Ada L"))
    assert told is not None
    cause = told[1]
    opscope(0, f"show {cause}", f"cause {cause}", "mycc, 20", "3 ops in mnist_mlp")
    opscope(0, "show mnist_mlp", "not whole since 20", f"{good}..{bad}", cause)
    opscope(0, f"sql failing_ops --cause {cause}", "stablehlo.maximum", "stablehlo.reduce")
    opscope(0, "unblock", "1 model, 0 whole", cause)
    opscope(0, "readiness mnist_mlp", "24 unique ops = 21 right + 3 missing + 0 not attempted", cause)
    opscope(0, "status", "newest complete night: nightly-")
    opscope(0, "report -o page.html", "page.html")
    page = re.sub(r"<(script|style)\b.*?</\1>", "", (folder / "page.html").read_text(), flags=re.DOTALL)
    assert sentence in page
    assert "on n150" not in page
    assert str(ROOT) not in page
    commit("")
    opscope(0, "gate --baseline topic", "nothing worse, 3 fixed")
    opscope(0, "nightly", "nothing fails: 24 of 24 ops right", "3 fixed")
    opscope(0, "unblock", "1 model, 1 whole", "Nothing to fix: no op fails.")
    opscope(0, "diff", "FIXED 3")

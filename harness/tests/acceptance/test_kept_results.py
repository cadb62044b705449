"""A kept result is used as long as what it was made from is as it was, and no longer: each cause by itself.

Every case makes a project, runs, changes one thing, and runs again over the same cache. What has to change shows `sine`
where the first run had `tanh`, or failures of a compiler that worked; what does not matter has to stay kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import py_compile
import re
import site
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LAYER = "import jax.numpy as jnp\n\n\ndef block(x):\n    return jnp.tanh(x)\n"
MODEL = """import jax.numpy as jnp
{imports}


def model(x):
    return {call} + 1


example_inputs = (jnp.ones((4,)),)
"""
NET = MODEL.format(imports="from team.layers import block", call="block(x)")
BY_NAME = MODEL.format(imports="{imports}\n\nname = {name}", call="getattr(jnp, name)(x)")
CLASS = """from opscope import Backend, Job, Stage, Target
from opscope.harness.backends.xla import Xla


class Mine(Backend):
    name = "mine"
    stages = (Stage("lower"), Stage.RUN)

    def __init__(self):
        self.xla = Xla()

    def target(self, options):
        return Target(card_type="host", float_format=None, math_fidelity="exact")

    def fingerprint(self, options):
        return "mine-1"

    def available(self):
        return None

    def climb(self, stage, job: Job):
        if stage is Stage.RUN:
            self.xla.climb(stage, job)
        else:
            self.lowered(job)
            self.xla.climb(Stage.COMPILE, job)

    def lowered(self, job):
        from toycc.lower import FACTOR

        if FACTOR != 1.0:
            raise ValueError("cannot lower")
"""
TOOL = (
    '#!/bin/sh\nif grep -q 3 "$(dirname "$0")/level"; then echo "error: cannot lower" >&2; exit 1; fi\ncp "$1" "$2"\n'
)
YAML = 'stages:\n  - name: lower\n    command: ["{here}/cc.sh", "{input}", "{output}"]\n'
C_LIBRARY = "int fails(void) {{ return {0}; }}\n"
C_LOADER = (
    "#include <dlfcn.h>\n#include <stdio.h>\nint main(int n, char **word) { void *p = dlopen(word[3], RTLD_NOW);"
    ' if (!p || ((int (*)(void))dlsym(p, "fails"))()) { fprintf(stderr, "error: cannot lower\\n"); return 1; }'
    ' FILE *f = fopen(word[2], "wb"); fputs("x", f); return fclose(f); }\n'
)
SINE = "stablehlo.sine"
RUNS = CLASS.replace(
    "from toycc.lower import FACTOR",
    "import subprocess\n\n        tool = __file__[:-7] + 'cc.sh'\n"
    "        FACTOR = 1.0 + subprocess.call([tool, __file__, '/dev/null'])",
).replace('name = "mine"\n', 'name = "mine"\n    made_of = ("cc.sh", "level")\n')
PLUGIN = YAML.replace("cc.sh", "toyopt").replace('"{output}"', '"{output}", "{here}/libtoy.so"')


@dataclass(frozen=True)
class Case:
    """A project, a change, and what the second run shows."""

    files: dict[str, str]
    change: Callable[[Path], object]
    shows: str
    """A pattern that only the second run shows; `kept` where all of its verdicts have to be kept."""
    words: tuple[str, ...] = ("--model", "net.py")
    path: str = ""
    """PYTHONPATH."""
    before: Callable[[Path], object] = field(default=lambda folder: None)
    second: dict[str, str] = field(default_factory=dict)
    """Variables of the second run alone."""


def edit(path: str, old: str = "tanh", new: str = "sin") -> Callable[[Path], object]:
    """Replaces a word of a file."""
    return lambda folder: (folder / path).write_text((folder / path).read_text().replace(old, new))


def edit_unseen(path: str) -> Callable[[Path], object]:
    """Replaces a file by one of the same size, and puts its time back."""

    def change(folder: Path) -> None:
        status = (folder / path).stat()
        (folder / path).write_text((folder / path).read_text().replace("tanh", "sin "))
        os.utime(folder / path, ns=(status.st_atime_ns, status.st_mtime_ns))

    return change


def build(value: int) -> Callable[[Path], object]:
    """Builds the library of a tool."""

    def change(folder: Path) -> None:
        (folder / "lib.c").write_text(C_LIBRARY.format(value))
        (folder / "main.c").write_text(C_LOADER)
        for command in ("gcc -shared -fPIC -o libtoy.so lib.c", "gcc -o toyopt main.c -ldl"):
            subprocess.run(command.split(), cwd=folder, check=True)

    return change


def write(path: str, text: str) -> Callable[[Path], object]:
    """Writes a new file."""
    return lambda folder: (folder / path).write_text(text)


MLP = ("--model", "mnist_mlp", "--backend")


def names_in(name: str) -> Callable[[Path], object]:
    """Writes a database with a name."""

    def change(folder: Path) -> None:
        (folder / "w.db").unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(folder / "w.db")) as database:
            database.execute("create table names (name text)")
            database.execute("insert into names values (?)", (name,))
            database.commit()

    return change


def compile_early(path: str) -> Callable[[Path], object]:
    """Leaves a compiled file of the same second beside a source."""
    return lambda folder: py_compile.compile(str(folder / path), doraise=True)


TOYCC = {"src/toycc/__init__.py": "", "src/toycc/lower.py": "FACTOR = 1.0\n"}
CASES = {
    "namespace package": Case(
        {"src/team/layers.py": LAYER, "net.py": NET}, edit("src/team/layers.py"), SINE, path="src"
    ),
    "relative link to a layer": Case(
        {"shared/layers.py": LAYER, "src/team/__init__.py": "", "net.py": NET},
        edit("shared/layers.py"),
        SINE,
        path="src",
        before=lambda folder: (folder / "src/team/layers.py").symlink_to("../../shared/layers.py"),
    ),
    "a module that shadows another": Case(
        {"first/other.py": "", "src/layers.py": LAYER, "net.py": NET.replace("team.layers", "layers")},
        write("first/layers.py", LAYER.replace("tanh", "sin")),
        SINE,
        path="first:src",
    ),
    "a folder that joins a namespace package": Case(
        {"first/other.py": "", "src/team/layers.py": LAYER, "net.py": NET},
        lambda folder: (
            (folder / "first/team").mkdir(),
            write("first/team/layers.py", LAYER.replace("tanh", "sin"))(folder),
        ),
        SINE,
        path="first:src",
    ),
    "a package that shadows a module": Case(
        {"first/other.py": "", "src/layers.py": LAYER, "net.py": NET.replace("team.layers", "layers")},
        lambda folder: (
            (folder / "first/layers").mkdir(),
            write("first/layers/__init__.py", LAYER.replace("tanh", "sin"))(folder),
        ),
        SINE,
        path="first:src",
    ),
    "a module of the model's folder": Case(
        {"src/layers.py": LAYER, "net.py": NET.replace("team.layers", "layers")},
        write("layers.py", LAYER.replace("tanh", "sin")),
        SINE,
        path=".:src",
    ),
    "a module that was missing": Case(
        {
            "src/other.py": "",
            "net.py": BY_NAME.format(
                imports="try:\n import fast\nexcept ImportError:\n fast = None", name="'sin' if fast else 'tanh'"
            ),
        },
        write("src/fast.py", ""),
        SINE,
        path="src",
    ),
    "a file that was missing": Case(
        {
            "net.py": BY_NAME.format(
                imports="def read():\n try:\n  return open('name').read()\n except OSError:\n  return 'tanh'",
                name="read()",
            )
        },
        write("name", "sin"),
        SINE,
    ),
    "conftest.py": Case(
        {"conftest.py": "NAME = 'tanh'\n", "net.py": BY_NAME.format(imports="from conftest import NAME", name="NAME")},
        edit("conftest.py"),
        SINE,
        path=".",
    ),
    "compiled file of the same second": Case(
        {"src/layers.py": LAYER, "net.py": NET.replace("team.layers", "layers")},
        edit_unseen("src/layers.py"),
        SINE,
        path="src",
        before=compile_early("src/layers.py"),
    ),
    "weights of the same size and time": Case(
        {"net.py": BY_NAME.format(imports="import pathlib", name="pathlib.Path('w').read_text().strip()"), "w": "tanh"},
        edit_unseen("w"),
        SINE,
    ),
    "variable that is read with a default": Case(
        {"net.py": BY_NAME.format(imports="import os", name="os.getenv('TOY_NAME', 'tanh')")},
        lambda folder: None,
        SINE,
        second={"TOY_NAME": "sin"},
    ),
    "program by os.popen": Case(
        {"net.py": BY_NAME.format(imports="import os", name="os.popen('cat name').read().strip()"), "name": "tanh"},
        edit("name"),
        SINE,
    ),
    "numpy's file": Case(
        {
            "net.py": BY_NAME.format(imports="import numpy", name="'sin' if numpy.load('w.npy')[0] else 'tanh'"),
        },
        lambda folder: __import__("numpy").save(folder / "w.npy", [1]),
        SINE,
        before=lambda folder: __import__("numpy").save(folder / "w.npy", [0]),
    ),
    "sqlite's file": Case(
        {
            "net.py": BY_NAME.format(
                imports="import sqlite3", name="sqlite3.connect('w.db').execute('select name from names').fetchone()[0]"
            )
        },
        names_in("sin"),
        SINE,
        before=names_in("tanh"),
    ),
    "class: a worker of multiprocessing": Case(
        {
            "mine.py": CLASS.replace(
                "from toycc.lower import FACTOR",
                "import worker\n\n        FACTOR = worker.pool().apply(worker.level)",
            ),
            "src/worker.py": "import functools\nimport multiprocessing\n\n\n@functools.cache\ndef pool():\n"
            "    return multiprocessing.get_context('spawn').Pool(1)\n\n\ndef level():\n"
            "    return float(open(__file__[:-13] + 'level').read())\n",
            "level": "1.0",
        },
        edit("level", "1.0", "1.5"),
        r"2\d failed",
        (*MLP, "mine.py"),
        "src",
    ),
    "class: module, imported late": Case(
        {**TOYCC, "mine.py": CLASS}, edit("src/toycc/lower.py", "1.0", "1.5"), r"2\d failed", (*MLP, "mine.py"), "src"
    ),
    "class: data that it reads": Case(
        {
            "mine.py": CLASS.replace(
                "from toycc.lower import FACTOR", "FACTOR = float(open(__file__[:-7] + 'level').read())"
            ),
            "level": "1.0",
        },
        edit("level", "1.0", "1.5"),
        r"2\d failed",
        (*MLP, "mine.py"),
    ),
    "class: variable": Case(
        {
            "mine.py": CLASS.replace(
                "from toycc.lower import FACTOR", "import os\n\n        FACTOR = float(os.environ.get('LEVEL', 1))"
            )
        },
        lambda folder: None,
        r"2\d failed",
        (*MLP, "mine.py"),
        second={"LEVEL": "2"},
    ),
    "class: declared program": Case(
        {
            "mine.py": RUNS,
            "cc.sh": TOOL,
            "level": "1",
        },
        edit("level", "1", "3"),
        r"2\d failed",
        (*MLP, "mine.py"),
    ),
    "YAML: symlinked tool": Case(
        {
            "bin/cc.sh": TOOL.replace('"$(dirname "$0")/level"', "level").replace("grep -q 3 level", "false"),
            "mine.yaml": YAML + 'fingerprint: ["cc.sh"]\n',
        },
        edit("bin/cc.sh", "if false", "if true"),
        "24 failed",
        (*MLP, "mine.yaml"),
        before=lambda folder: (folder / "cc.sh").symlink_to("bin/cc.sh"),
    ),
    "YAML: plugin that a declared tool opens": Case(
        {"mine.yaml": PLUGIN + 'fingerprint: ["toyopt"]\n'},
        build(1),
        "24 failed",
        (*MLP, "mine.yaml"),
        before=build(0),
    ),
    "YAML: a file that a pattern names": Case(
        {"cc.sh": TOOL, "level": "1", "mine.yaml": YAML + 'fingerprint: ["*"]\n'},
        edit("level", "1", "3"),
        "24 failed",
        (*MLP, "mine.yaml"),
    ),
    "kept: touched, other user, CI": Case(
        {"src/team/__init__.py": "", "src/team/layers.py": LAYER, "net.py": NET},
        lambda folder: (folder / "src/team/layers.py").touch(),
        "kept",
        path="src",
        second={"USER": "another", "GITHUB_SHA": "1", "TERM": "dumb", "JOB_NAME": "x"},
    ),
    "kept: class with a declared program": Case(
        {
            "mine.py": RUNS,
            "cc.sh": TOOL,
            "level": "1",
        },
        lambda folder: (folder / "unused").write_text("x"),
        "kept",
        (*MLP, "mine.py"),
    ),
    "kept: our own model and backend": Case({"x": ""}, lambda folder: None, "kept", (*MLP, "reference")),
}


def run(folder: Path, name: str, case: Case, variables: dict[str, str], python: str = sys.executable) -> str:
    """What a run printed, and how many verdicts it had kept."""
    paths = os.pathsep.join(str(folder / each) for each in case.path.split(":") if each)
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(folder / "cache"), **variables}
    environment |= {"PYTHONPATH": paths} if paths else {}
    command = [python, "-m", "pytest", "-p", "no:randomly", "--op-by-op", "-q", *case.words, "--run-dir", name]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    journal = "".join(path.read_text() for path in (folder / name / "journal").glob("*.jsonl"))
    kept = len(re.findall(r'"cached_from":"[^"]', journal))
    return f"{done.stdout}{done.stderr}{journal}\nkept {kept} of {journal.count(chr(10))}"


@pytest.mark.parametrize("name", CASES)
def test_a_result_lives_as_long_as_its_cause(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    for path, text in case.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        if path.endswith(".sh"):
            (tmp_path / path).chmod(0o755)
    case.before(tmp_path)
    first = run(tmp_path, "a", case, {})
    case.change(tmp_path)
    second = run(tmp_path, "b", case, case.second)
    if case.shows == "kept":
        kept, of = map(int, re.findall(r"kept (\d+) of (\d+)", second)[-1])
        assert kept == of > 0, second[-3000:]
    else:
        assert not re.search(case.shows, first), first[-3000:]
        assert re.search(case.shows, second), second[-3000:]


def test_two_checkouts_share_a_cache(tmp_path: Path) -> None:
    """Each has its own results, and each is kept when its turn comes again."""
    for checkout, function in (("one", "tanh"), ("two", "sin")):
        folder = tmp_path / checkout
        (folder / "src/team").mkdir(parents=True)
        (folder / "src/team/layers.py").write_text(LAYER.replace("tanh", function))
        (folder / "net.py").write_text(NET)
    case = Case({}, lambda folder: None, "", path="src")
    cache = {"OPSCOPE_CACHE_DIR": str(tmp_path / "cache")}
    shown = [
        run(tmp_path / checkout, f"run{turn}", case, cache)
        for turn, checkout in enumerate(("one", "two", "one", "two"))
    ]
    assert ["stablehlo.sine" in text for text in shown] == [False, True, False, True]
    assert [text.rpartition("kept ")[2].split()[0] for text in shown[2:]] == ["3", "3"]


def test_a_run_of_an_edited_compiler_is_not_resumed(tmp_path: Path) -> None:
    case = CASES["class: module, imported late"]
    for path, text in case.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    run(tmp_path, "a", case, {})
    journal = next((tmp_path / "a" / "journal").glob("*.jsonl"))
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:5]))  # as a run that was killed leaves it
    rest = Case(case.files, case.change, case.shows, ("--resume", "a"), case.path)
    again = resumed(tmp_path, rest)
    assert "24 passed" in again or "19 passed" in again, again[-2000:]
    journal.write_text("".join(lines[:5]))
    case.change(tmp_path)
    refused = resumed(tmp_path, rest)
    assert "expected mine as the run started with it, got src/toycc/lower.py changed; try a new run" in refused


def resumed(folder: Path, case: Case) -> str:
    """What the rest of a run printed."""
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(folder / case.path)}
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "--op-by-op", "-q", *case.words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def environment_of(folder: Path) -> Path:
    """The interpreter of a new environment in a folder, which has all that this one has."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    packages = site_packages(folder)
    (packages / "base.pth").write_text(f"import site; site.addsitedir({site.getsitepackages()[0]!r})\n")
    return folder / "env/bin/python"


def site_packages(folder: Path) -> Path:
    """Where the environment of a folder has its distributions."""
    return next((folder / "env/lib").glob("python*/site-packages"))


def install(folder: Path, function: str) -> None:
    """Installs a wheel's files, of the same version each time."""
    place = site_packages(folder)
    (place / "team-1.0.dist-info").mkdir(exist_ok=True)
    (place / "team").mkdir(exist_ok=True)
    (place / "team/__init__.py").write_text("")
    (place / "team/layers.py").write_text(LAYER.replace("tanh", function))
    (place / "team-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: team\nVersion: 1.0\n")
    (place / "team-1.0.dist-info/RECORD").write_text("team/__init__.py,,\nteam/layers.py,,\n")


def point_at(folder: Path, place: str) -> None:
    """Says by a .pth file where an editable install lies."""
    (site_packages(folder) / "team.pth").write_text(f"{folder / place}\n")


@pytest.mark.parametrize("kind", ["wheel", ".pth", "--export-python"])
def test_what_is_installed_anew_counts(kind: str, tmp_path: Path) -> None:
    own = environment_of(tmp_path)
    for place, function in (("one", "tanh"), ("two", "sin")):
        (tmp_path / place / "team").mkdir(parents=True)
        (tmp_path / place / "team/layers.py").write_text(LAYER.replace("tanh", function))
    (tmp_path / "net.py").write_text(NET)
    changes: list[Callable[[], object]] = [lambda: install(tmp_path, "tanh"), lambda: install(tmp_path, "sin")]
    if kind == ".pth":
        changes = [lambda: point_at(tmp_path, "one"), lambda: point_at(tmp_path, "two")]
    python, words = (sys.executable, ("--export-python", str(own))) if kind == "--export-python" else (str(own), ())
    shown = []
    for number, change in enumerate(changes):
        change()
        shown += [
            run(tmp_path, f"{number}{again}", Case({}, change, "", ("--model", "net.py", *words)), {}, python)
            for again in ("", "again")
        ]
    assert [SINE in text for text in shown] == [False, False, True, True], shown[2][-3000:]
    assert ["kept 3 of 3" in text for text in shown] == [False, True, False, True], shown[-1][-3000:]


def test_an_edit_during_the_export_that_is_undone_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "src/team").mkdir(parents=True)
    (tmp_path / "src/team/layers.py").write_text(LAYER)
    (tmp_path / "net.py").write_text(
        "import os\nimport time\n\nopen('begun', 'w').close()\n"
        f"while not os.path.exists('{tmp_path}/go'):\n    time.sleep(0.05)\n" + NET
    )
    case = Case({}, lambda folder: None, "", path="src")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run, tmp_path, "a", case, {})
        while not (tmp_path / "begun").exists() and not first.done():
            time.sleep(0.05)
        edit("src/team/layers.py")(tmp_path)
        (tmp_path / "go").touch()
        assert SINE in first.result()
    edit("src/team/layers.py", "sin", "tanh")(tmp_path)
    assert SINE not in run(tmp_path, "b", case, {})


def test_an_export_that_comes_out_alike_keeps_splits_goldens_and_verdicts(tmp_path: Path) -> None:
    (tmp_path / "src/team").mkdir(parents=True)
    (tmp_path / "src/team/layers.py").write_text(LAYER)
    (tmp_path / "net.py").write_text(NET)
    case = Case({}, lambda folder: None, "", path="src")
    run(tmp_path, "a", case, {})
    (tmp_path / "src/team/layers.py").write_text(LAYER + "# the same program\n")
    assert "kept 3 of 3" in run(tmp_path, "b", case, {})
    first, second = (tmp_path / "cache/exports").iterdir()
    assert (first / "manifest.jsonl").samefile(second / "manifest.jsonl"), "it was walked once"


def test_ops_that_run_again_and_nights_notice_an_edit(tmp_path: Path) -> None:
    case = CASES["class: module, imported late"]
    for path, text in case.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "nightly.yaml").write_text(
        f"models: [mnist_mlp]\nbackends: [mine.py]\ndatabase: sqlite:///{tmp_path}/results.sqlite\n"
    )
    run(tmp_path, "a", case, {})
    op_id = json.loads((tmp_path / "a/manifest.jsonl").read_text().splitlines()[-1])["op_id"]
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path / "src")}
    night = [sys.executable, "-m", "opscope.harness.cli.main", "nightly", "nightly.yaml"]

    def called() -> tuple[int, str]:
        done = subprocess.run(night, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    code, first = called()
    assert code == 0, first
    case.change(tmp_path)
    code, second = called()
    assert (code, "22 new failures" in second or "24 new failures" in second) == (1, True), second
    again = resumed(tmp_path, Case({}, case.change, "", ("--op", op_id, "--run-dir", "a"), "src"))
    assert "cannot lower" in again, again[-2000:]


def test_a_sample_of_kept_verdicts_notices_what_no_list_can(tmp_path: Path) -> None:
    """Whether a file exists is asked without opening it."""
    ask = "import os\n\n        FACTOR = 2.0 if os.path.exists(__file__[:-7] + 'broken') else 1.0"
    (tmp_path / "mine.py").write_text(CLASS.replace("from toycc.lower import FACTOR", ask))
    case = Case({}, lambda folder: None, "", (*MLP, "mine.py"))
    sampled = Case({}, case.change, "", (*MLP, "mine.py", "--check-kept"))
    run(tmp_path, "a", case, {})
    assert "kept 24 of 24" in run(tmp_path, "b", sampled, {}), "all of the sample agree"
    (tmp_path / "broken").touch()
    assert "kept 24 of 24" in run(tmp_path, "c", case, {}), "a run without a sample knows nothing of it"
    shown = run(tmp_path, "d", sampled, {})
    assert re.search(r"a cached verdict does not hold, so none is used or kept in this run: stablehlo\.\w+ \[", shown)
    assert "ends as compile_failed at lower" in shown
    assert "kept was success" in shown
    assert re.search(r"2\d failed", shown), shown[-3000:]
    assert re.search(r"2\d failed", run(tmp_path, "e", case, {})), "its verdicts are gone"


def test_a_sample_sees_a_bit_that_no_number_shows(tmp_path: Path) -> None:
    """A zero whose sign is another is as right as before."""
    signed = "import os\n\n            if os.path.exists(__file__[:-7] + 'signed'):\n                "
    signed += "job.outputs = [-(0 - output) for output in job.outputs]"
    text = CLASS.replace("self.xla.climb(stage, job)", f"self.xla.climb(stage, job)\n            {signed}")
    (tmp_path / "mine.py").write_text(text.replace("from toycc.lower import FACTOR", "FACTOR = 1.0"))
    net = NET.replace("from team.layers import block", "").replace("block(x) + 1", "jnp.tanh(x)")
    (tmp_path / "net.py").write_text(net.replace("jnp.ones((4,))", "jnp.linspace(-1.0, 1.0, 5)"))
    case = Case({}, Path.touch, "", ("--model", "net.py", "--backend", "mine.py"))
    sampled = Case({}, Path.touch, "", (*case.words, "--check-kept"))
    run(tmp_path, "a", case, {})
    assert "kept 1 of 1" in run(tmp_path, "b", sampled, {})
    (tmp_path / "signed").touch()
    shown = " ".join(run(tmp_path, "c", sampled, {}).split())
    assert re.search(r"stablehlo\.tanh \[\w+\] ends as success .*with other bits than were kept", shown)
    assert "1 passed" in shown


def test_a_run_says_what_is_kept_and_why_not(tmp_path: Path) -> None:
    case = CASES["class: module, imported late"]
    for path, text in case.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    explained = Case({}, case.change, "", (*case.words, "--explain-kept"), "src")
    run(tmp_path, "a", case, {})
    again = run(tmp_path, "b", explained, {})
    assert "\n24 kept\n" in again
    assert re.search(r"verdicts rest on \d+ files, .* of the project mine.py, src/toycc/__init__.py", again)
    op_id = json.loads((tmp_path / "a/manifest.jsonl").read_text().splitlines()[-1])["op_id"]
    assert "all as it was" in shown_op(tmp_path, op_id)
    case.change(tmp_path)
    assert "src/toycc/lower.py changed" in shown_op(tmp_path, op_id)
    assert "none kept: src/toycc/lower.py changed" in run(tmp_path, "c", case, {})


def test_a_run_says_what_of_a_declared_tool_has_changed(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f'{YAML}fingerprint: ["cc.sh", "level"]\n')
    (tmp_path / "cc.sh").write_text(TOOL)
    (tmp_path / "cc.sh").chmod(0o755)
    (tmp_path / "level").write_text("1")
    case = Case({}, Path.touch, "", (*MLP, "mine.yaml"))
    assert "none kept" not in run(tmp_path, "a", case, {})
    (tmp_path / "level").write_text("2")
    assert "none kept: level changed" in run(tmp_path, "b", case, {})
    assert "\n24 kept\n" in run(tmp_path, "c", case, {})


def shown_op(folder: Path, op_id: str) -> str:
    """What `opscope show` prints of an op."""
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(folder / "cache"), "COLUMNS": "400"}
    environment["PYTHONPATH"] = str(folder / "src")
    command = [sys.executable, "-m", "opscope.harness.cli.main", "show", op_id]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout

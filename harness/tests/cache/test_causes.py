"""Each way in which a process reads something: a list of what it was made from holds no more once that is another."""

from __future__ import annotations

import json
import os
import py_compile
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from opscope.harness.cache import made_of

CHILDREN = """
import json, os, runpy, sys
from opscope.base import reading

for line in sys.stdin:
    file, folder, environment = json.loads(line)
    if os.fork() == 0:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        reading.begin()
        runpy.run_path(file)
        print(json.dumps(reading.report()), flush=True)
        os._exit(0)
    os.wait()
    print(flush=True)
"""
"""Forks a process for each case: to start one takes longer than what it does."""

Children = subprocess.Popen[str]


@dataclass(frozen=True)
class Case:
    """What a process does, and what changes then."""

    code: str
    change: Callable[[Path], object] = lambda folder: None
    files: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[Path], object] = lambda folder: None
    path: str = ""
    """PYTHONPATH."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What is set before the second look; `@` is the case's folder."""
    there: str = "."
    """The current folder of the second look."""
    kept: bool = False


def write(path: str, text: str = "b") -> Callable[[Path], object]:
    """Writes a file."""

    def change(folder: Path) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)

    return change


def point(link: str, to: str) -> Callable[[Path], object]:
    """Makes a link, or has it point elsewhere."""

    def change(folder: Path) -> None:
        (folder / link).unlink(missing_ok=True)
        (folder / link).symlink_to(to)

    return change


def pack(name: str, module: str, text: str) -> Callable[[Path], object]:
    """Makes an archive of modules."""

    def change(folder: Path) -> None:
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(module, text)

    return change


def compiled(text: str) -> Callable[[Path], object]:
    """Leaves a compiled module without its source."""

    def change(folder: Path) -> None:
        write("src/x.py", text)(folder)
        py_compile.compile(str(folder / "src/x.py"), cfile=str(folder / "src/layers.pyc"), doraise=True)
        (folder / "src/x.py").unlink()

    return change


def in_log(folder: Path) -> None:
    """Leaves a database whose last change is in its log alone."""
    database = sqlite3.connect(folder / "w.db")
    database.execute("pragma journal_mode=wal")
    database.execute("create table t (a)")
    database.commit()
    for each in ("w.db", "w.db-wal"):
        (folder / each).with_suffix(f"{Path(each).suffix}.copy").write_bytes((folder / each).read_bytes())
    database.close()
    for each in ("w.db", "w.db-wal"):
        (folder / f"{each}.copy").rename(folder / each)


RUN = "import subprocess; subprocess.run(['./bin/op.sh'])\nmade_of = ({!r},)"
TOOL = {"bin/op.sh": "#!/bin/sh\n"}
A = {"w": "a"}
CASES = {
    "file in an open folder": Case(
        "import os; os.read(os.open('w', os.O_RDONLY, dir_fd=os.open('data', os.O_RDONLY)), 9)",
        write("data/w", "b"),
        files={"data/w": "a"},
    ),
    "archive of modules": Case(
        "import layers",
        pack("src.zip", "layers.py", "A = 2"),
        before=pack("src.zip", "layers.py", "A = 1"),
        path="src.zip",
    ),
    "archive that shadows a module now": Case(
        "import layers",
        pack("first.zip", "layers.py", "A = 2"),
        {"src/layers.py": ""},
        pack("first.zip", "other.py", ""),
        "first.zip:src",
    ),
    "archive that is new": Case(
        "import layers", pack("first.zip", "layers.py", ""), {"src/layers.py": ""}, path="first.zip:src"
    ),
    "package beside its module": Case(
        "import layers", write("src/layers/__init__.py"), {"src/layers.py": ""}, path="src"
    ),
    "extension beside its source": Case(
        "import layers", write(f"src/layers{EXTENSION_SUFFIXES[0]}"), {"src/layers.py": ""}, path="src"
    ),
    "kept: other files beside a module": Case(
        "import layers", write("src/layers/data.txt"), {"src/layers.py": ""}, path="src", kept=True
    ),
    "module without a source": Case("import layers", compiled("A = 2"), before=compiled("A = 1"), path="src"),
    "sitecustomize that is new": Case("", write("src/sitecustomize.py"), {"src/other.py": ""}, path="src"),
    "opened to read and write": Case("open('w', 'r+b').read()", write("w"), A),
    "opened to append and read": Case("open('w', 'a+').read()", write("w"), A),
    "opened by its number": Case("import os; os.read(os.open('w', os.O_RDWR), 9)", write("w"), A),
    "numpy.memmap": Case("import numpy; numpy.memmap('w', dtype='uint8')", write("w"), A),
    "read, then written": Case("text = open('w').read(); open('w', 'w').write(text)", write("w"), A),
    "moved": Case("import os; os.rename('w', 'v'); open('v').read()", write("w"), A),
    "linked into a folder of its own": Case(
        "import os; os.mkdir('own'); os.symlink('../w', 'own/w'); open('own/w').read()", write("w"), A
    ),
    "folder linked into one of its own": Case(
        "import os; os.mkdir('own'); os.symlink('../data', 'own/d'); open('own/d/w').read()",
        write("data/w"),
        {"data/w": "a"},
    ),
    "lock file with a content": Case(
        "open('dependencies.lock').read()", write("dependencies.lock"), {"dependencies.lock": "a"}
    ),
    "link that is read": Case("import os; os.readlink('now')", point("now", "b"), before=point("now", "a")),
    "link that is resolved": Case(
        "import pathlib; (pathlib.Path('now').resolve() / 'w').read_text()",
        point("now", "v2"),
        {"v1/w": "a", "v2/w": "b"},
        point("now", "v1"),
    ),
    "folder that is listed by its number": Case(
        "import os; list(os.fwalk('data'))", write("data/more"), {"data/w": ""}
    ),
    "pattern that ends with a name": Case(
        "import glob; glob.glob('data/*/x.json')", write("data/more/x.json"), {"data/more/w": ""}
    ),
    "pattern in a folder": Case(
        "import glob; glob.glob('*/x.json', root_dir='data')", write("data/more/x.json"), {"data/more/w": ""}
    ),
    "pattern of a path in a folder that is missing": Case(
        "import pathlib; list(pathlib.Path('data').rglob('*.json'))", write("data/more/x.json")
    ),
    "module that is looked for": Case(
        "import importlib.util; importlib.util.find_spec('fast')", write("src/fast.py"), {"src/w": ""}, path="src"
    ),
    "kept: what an editor leaves": Case(
        "import os; os.listdir('data')", write("data/.w.swp"), {"data/w": ""}, kept=True
    ),
    "file in shared memory": Case(
        "import os; open(os.readlink('there')).read()",
        lambda folder: (folder / "there").readlink().write_text("b"),
        before=lambda folder: (
            point("there", f"/dev/shm/{folder.name}-{os.getpid()}")(folder),
            (folder / "there").readlink().write_text("a"),
        ),
    ),
    "SQLite's file by an address": Case(
        "import sqlite3; sqlite3.connect('file:w.db?mode=ro', uri=True).execute('pragma user_version')",
        lambda folder: write("w.db")(folder),
        before=lambda folder: sqlite3.connect(folder / "w.db").execute("create table t (a)"),
    ),
    "SQLite's log": Case(
        "import sqlite3; sqlite3.connect('file:w.db?mode=ro&immutable=1', uri=True)", write("w.db-wal"), before=in_log
    ),
    "variable by its bytes": Case("import os; os.environb.get(b'TOY')", variables={"TOY": "1"}),
    "variable that only looks like a CI's": Case("import os; os.getenv('BUILD_TYPE')", variables={"BUILD_TYPE": "1"}),
    "relative PYTHONPATH": Case(
        "import layers", files={"src/layers.py": "", "two/src/layers.py": ""}, path="src", there="two"
    ),
    "relative file": Case("open('w').read()", files={"w": "a", "two/w": "b"}, there="two"),
    "relative folder": Case("import glob; glob.glob('*.cfg')", files={"two/w.cfg": ""}, there="two"),
    "current folder": Case("import pathlib; pathlib.Path.cwd().name", files={"two/w": ""}, there="two"),
    "settings that it wrote because there were none": Case(
        "import pathlib; f = pathlib.Path.home() / '.toy/toy.json'; f.parent.mkdir(exist_ok=True); f.write_text('{}')",
        write("../home1/.toy/toy.json", '{"a": 1}'),
        files={"../home1/.other": ""},
    ),
    "another home": Case(
        "import pathlib; (pathlib.Path.home() / '.toyrc').read_text()",
        files={"../home1/.toyrc": "a", "../home2/.toyrc": "b"},
        variables={"HOME": "@/../home2"},
    ),
    "declared program's variable": Case(RUN.format("bin/op.sh"), files=TOOL, variables={"TOY": "1"}),
    "declared folder": Case(RUN.format("bin"), write("bin/op.sh"), TOOL),
    "file that a pattern now finds": Case(RUN.format("bin/*"), write("bin/more"), TOOL),
    "program beside the declared": Case(RUN.format("other"), write("bin/op.sh"), {**TOOL, "other": ""}),
    "server": Case(
        "import socket, contextlib\nwith contextlib.suppress(OSError): socket.create_connection(('127.0.0.1', 9))"
    ),
    "kept: run elsewhere": Case(
        "open(__file__[:-6] + 'w').read()", files={"w": "a", "two/w": "b"}, there="two", kept=True
    ),
    "kept: temporary files": Case(
        "import os, tempfile\nwith tempfile.TemporaryDirectory() as folder:\n    path = os.path.join(folder, 'x')\n"
        "    open(path, 'w+').write('x')\n    os.rename(path, path + '2')\n    open(path + '2', 'r+').read()",
        kept=True,
    ),
    "kept: what it only writes": Case("open('log', 'a').write('x')", write("log"), {"log": ""}, kept=True),
    "kept: beside what is declared": Case(RUN.format("bin/*"), write("other"), TOOL, kept=True),
    "kept: another host, user and job": Case(
        "import os; dict(os.environ)",
        variables={"HOSTNAME": "x", "USER": "x", "BUILD_NUMBER": "1", "JOB_NAME": "x", "XDG_SESSION_ID": "1"},
        kept=True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_list_holds_as_long_as_what_it_names(
    name: str, children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, folder = CASES[name], tmp_path / "case"
    for path, text in {"net.py": case.code, **case.files}.items():
        write(path, text)(folder)
        (folder / path).chmod(0o755)
    case.before(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home1"))
    if case.path:
        monkeypatch.setenv("PYTHONPATH", case.path, prepend=os.pathsep)
    made = made_of.made(said(folder / "net.py", None if case.path else children), scope(folder))
    case.change(folder)
    for variable, value in case.variables.items():
        monkeypatch.setenv(variable, value.replace("@", str(folder)))
    monkeypatch.chdir(folder / case.there)
    made_of.Lists(tmp_path / "cache")  # as a run begins
    changed = made.unseen or made_of.changed(made.values, scope(folder))
    for path in Path("/dev/shm").glob(f"case-{os.getpid()}"):
        path.unlink()
    assert (changed == "") == case.kept, changed or "nothing changed"


def scope(folder: Path) -> made_of.Scope:
    """What counts of a model's file."""
    path = str(folder / "net.py")
    return made_of.scope_of(path, declared=made_of.declared_in(path))


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    with start() as process:
        yield process


def start() -> Children:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", CHILDREN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def said(file: Path, children: Children | None) -> Any:
    """What a process says that runs a file: one of `children`, or of a new interpreter."""
    asked = json.dumps([str(file), str(Path.cwd()), dict(os.environ)]) + "\n"
    if children is None:
        with start() as process:
            return json.loads(process.communicate(asked)[0].splitlines()[0])
    assert children.stdin is not None
    assert children.stdout is not None
    children.stdin.write(asked)
    children.stdin.flush()
    lines = list(iter(children.stdout.readline, "\n"))
    return json.loads(lines[-1])

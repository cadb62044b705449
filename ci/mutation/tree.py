"""The copy of the checkout in which mutants live: sources, a repository and an environment whose `opscope` it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

BUILD = ROOT / "build" / "mutation"
"""The folder of all that a mutation run makes."""


WITHOUT = ("-p", "no:benchmark", "-p", "no:randomly", "-p", "no:cacheprovider")
OPTIONS = (*WITHOUT, "-q", "-rfE", "--tb=no", "--color=no")
"""How pytest runs tests of the copy, and names those that fail."""


def make(folder: Path) -> Path:
    """Copies all tracked and new files anew to `folder`, and the environment if there is none yet; returns `folder`."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for path in (path for path in folder.glob("*") if path.name != ".venv"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in listed:
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    git = ["git", "-C", str(folder), "-c", "user.name=copy", "-c", "user.email=copy@localhost"]
    shutil.rmtree(folder / ".git", ignore_errors=True)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A copy for mutants"]):
        subprocess.run([*git, *words], check=True)
    if not (folder / ".venv" / "pyvenv.cfg").exists():
        _environment(Path(sys.prefix), folder / ".venv")
    # A compiled file is checked by its source's hash: a mutant of the same size and second is another one.
    rooms = [str(path) for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    run(folder, "-m", "compileall", "-q", "-j", "2", "--invalidation-mode", "checked-hash", *rooms)
    seen = Path(run(folder, "-P", "-c", "import opscope; print(opscope.__file__)").strip())
    if not seen.is_relative_to(folder):
        raise SystemExit(f"mutation: expected the copy's opscope in {folder}, got {seen}; try `rm -r {folder}`")
    return folder


def python(folder: Path) -> Path:
    """The interpreter of the copy's environment."""
    return folder / ".venv" / "bin" / "python"


def run(folder: Path, *words: str) -> str:
    """What the copy's interpreter prints. Raises CalledProcessError."""
    return subprocess.run([python(folder), *words], cwd=folder, text=True, capture_output=True, check=True).stdout


def _environment(source: Path, target: Path) -> None:
    """Copies an environment by hard links; the few files that name its folder are written anew."""
    shutil.rmtree(target, ignore_errors=True)
    try:
        shutil.copytree(source, target, symlinks=True, copy_function=os.link)
    except shutil.Error:  # on another file system
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, symlinks=True)
    old, new = os.fsencode(source.parent), os.fsencode(target.parent)
    own = target.glob("lib/python*/site-packages/*opscope*")
    inside = (path for each in own for path in (each.rglob("*") if each.is_dir() else [each]))
    for path in [target / "pyvenv.cfg", *(target / "bin").iterdir(), *inside]:
        if path.is_file() and not path.is_symlink() and old in (content := path.read_bytes()):
            mode = path.stat().st_mode
            path.unlink()  # it is a link to the file of the other environment
            path.write_bytes(content.replace(old, new))
            path.chmod(mode)
    for compiled in target.glob("lib/python*/site-packages/__pycache__/*opscope*"):
        compiled.unlink()

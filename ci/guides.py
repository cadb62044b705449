"""The guides and the README, walked as a reader would: from a wheel in a fresh environment, each in an empty folder.

`python ci/guides.py [NAME ...]` prints what goes otherwise than a page says; `make measure` counts it as `guides`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUIDES = sorted((ROOT / "docs" / "guide").glob("*.md"))
README = "README"
EXTRAS = {"tt_mlir": "tt"}
"""What a page asks its readers to install beside opscope itself."""
READERS_WORDS = {
    "source .venv/bin/activate\n": "",  # the environment is another one
    "'vit*'": "'mnist_ml?'",
    "resnet50": "mnist_mlp",
    "1a2b3c4d5e6f7a8b": "$(opscope sql 'SELECT op_id FROM op_tests LIMIT 1' --csv | tail -1)",
    "opscope diff ": "pytest --model mnist_mlp --op-by-op && opscope diff ",
    "opscope dashboard up": "opscope dashboard up --port 0 --artifact-port 0",
}
"""What a reader of the README puts in place of its examples: a small model, an op that they have, a second run
to compare, free ports."""


def copied(source: Path) -> Path:
    """The files that are under version control, in a folder of their own, links as links; returns the folder.

    What was there before goes.
    """
    shutil.rmtree(source, ignore_errors=True)
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name, follow_symlinks=False)
    return source


def build_wheel(scratch: Path) -> Path:
    """Builds the wheel from the files that are under version control."""
    source, dist = copied(scratch / "source"), scratch / "dist"
    _pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", dist, source, folder=scratch)
    return next(dist.glob("*.whl"))


def fresh_environment(scratch: Path) -> Path:
    """Installs the wheel, and what it says that it needs, into an environment of its own; returns its Python."""
    venv.create(scratch / "venv", with_pip=True)
    python = scratch / "venv" / "bin" / "python"
    _pip(python, "install", "-c", ROOT / "constraints.txt", build_wheel(scratch), folder=scratch)
    return python


def _pip(python: str | Path, *words: str | Path, folder: Path) -> None:
    command = [python, "-m", "pip", "--disable-pip-version-check", *words[:1], "-q", *words[1:]]
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)


def install_extra(python: Path, page: Path, scratch: Path) -> str:
    """Installs what a page needs beside opscope; returns why it cannot be had, empty if it is there."""
    extra = EXTRAS.get(page.stem)
    if extra is None:
        return ""
    wheel = next((scratch / "dist").glob("*.whl"))
    try:
        _pip(python, "install", "-c", ROOT / "constraints.txt", f"{wheel}[{extra}]", folder=scratch)
    except subprocess.CalledProcessError:
        return f"the registry has no opscope[{extra}] for this machine today"
    return ""


def readme(scratch: Path) -> Path:
    """The README's commands of every day as a page to walk."""
    [commands] = re.findall(r"^## Every day\n\n```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    for words, instead in READERS_WORDS.items():
        if words not in commands:
            raise ValueError(f"README.md: expected `{words.strip()}` among the commands of every day, got none")
        commands = commands.replace(words, instead)
    lines = "".join(f"$ {line}\n" for line in [*commands.splitlines(), "opscope dashboard down"])
    page = scratch / f"{README}.md"
    page.write_text(f"```console\n{lines}```\n", encoding="utf-8")
    return page


def walk(python: Path, page: Path, scratch: Path) -> str:
    """Walks a page in an empty folder; returns what goes otherwise than it says, empty if nothing does."""
    folder = scratch / page.stem / "empty"
    folder.mkdir(parents=True)
    environment = {**os.environ, "OPSCOPE_DASHBOARD_HOME": str(scratch / page.stem / "home")}
    environment.setdefault("OPSCOPE_CACHE_DIR", str(scratch / "cache"))
    command = [python, "-P", ROOT / "ci" / "walk.py", page, folder]
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return "" if done.returncode == 0 else done.stdout or f"exit code {done.returncode}"


def walks(scratch: Path, names: Sequence[str] = ()) -> Iterator[tuple[str, str, float]]:
    """Walks each page, or those named: its name, what goes otherwise than it says, and the seconds that it took."""
    python = fresh_environment(scratch)
    for page in [*GUIDES, readme(scratch)]:
        if not names or page.stem in names:
            started = time.monotonic()
            if missing := install_extra(python, page, scratch):
                print(f"{page.stem}: not walked, {missing}", flush=True)
                continue
            yield page.stem, walk(python, page, scratch), time.monotonic() - started


if __name__ == "__main__":
    problems = 0
    with tempfile.TemporaryDirectory() as made:
        for name, problem, seconds in walks(Path(made), sys.argv[1:]):
            print(f"{name}: {problem or f'as the page says, {seconds:.0f} s'}", flush=True)
            problems += bool(problem)
    raise SystemExit(1 if problems else 0)

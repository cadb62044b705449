"""Where run folders are: the folder of all runs, the name of the next one, and the newest of those that have an op."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from opscope.base.results_folder import make_folder, results_folder

RUN_FILE = "run.json"
MANIFEST_FILE = "manifest.jsonl"
NIGHT_FILE = Path("ci") / "nightly.yaml"
"""What describes a folder's nights, unless another file is named."""
_WEIGHED = 8
"""So many runs say how large all are."""
_LOOKED_AT = 2000
"""So many files are enough to say it."""


def default_run_dir(models: Iterable[str], started: datetime, root: Path | None = None) -> Path:
    """`<root>/.opscope/runs/<UTC yyyymmdd-hhmmss>-<models>`, not yet taken; `root` is the current folder by default."""
    label = file_name("+".join(Path(model).name for model in models))[:60] or "run"
    base = runs_root(root) / f"{started:%Y%m%d-%H%M%S}-{label}"
    path, count = base, 1
    while os.path.lexists(path):
        count += 1
        path = base.with_name(f"{base.name}-{count}")
    return path


def make_run_dir(models: Iterable[str], started: datetime, root: Path | None = None) -> Path:
    """Creates `default_run_dir` and returns it. Of runs that start together, each has its own: where another one was
    faster, the next name is taken. Raises OSError."""
    models = list(models)
    while True:
        path = default_run_dir(models, started, root)
        make_folder(path.parent)
        # Another run has this name, or has removed the folder around it, which was empty.
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            path.mkdir()
            return path


def file_name(text: str) -> str:
    """`text` as the name of a file or folder."""
    utf_8 = sys.getfilesystemencoding() == "utf-8"
    return re.sub(r"[^\w.+-]+", "_", text, flags=0 if utf_8 else re.ASCII)


def runs_root(root: Path | None = None) -> Path:
    """The folder of all runs without `--run-dir`."""
    return results_folder(root) / "runs"


def size_of_runs(root: Path | None = None) -> int:
    """About how many bytes all runs below `root` hold: their number times what the newest few of them hold."""
    folder = runs_root(root)
    runs = sorted(folder.iterdir(), reverse=True) if folder.is_dir() else []
    weighed = files = size = 0
    for run in runs[:_WEIGHED]:
        if files > _LOOKED_AT:  # of runs with many files one is enough: each run ends with this look
            break
        weighed += 1
        for path in run.rglob("*"):
            with contextlib.suppress(OSError):  # of a run that is removed meanwhile
                size += path.lstat().st_size
                files += 1
    return size * len(runs) // max(1, weighed)


def named(run: str, root: Path | None = None) -> Path | None:
    """The folder below `root` of the run with that name or that id; None if there is none."""
    folder = runs_root(root)
    if not run or run in (".", "..") or "/" in run or not folder.is_dir():
        return None
    if (folder / run / RUN_FILE).is_file():
        return folder / run
    entry = f'\n "run_id": "{run}"'.encode()
    return next((path.parent for path in folder.glob(f"*/{RUN_FILE}") if entry in path.read_bytes()), None)


def newest_run(root: Path | None = None) -> Path | None:
    """The newest run folder below `root` that has a manifest; None if there is none."""
    folder = runs_root(root)
    runs = [path.parent for path in folder.glob(f"*/{MANIFEST_FILE}")] if folder.is_dir() else []
    return max(runs, key=lambda run: (run / MANIFEST_FILE).stat().st_mtime_ns, default=None)


def runs_with_ops(words: Sequence[str], root: Path | None = None) -> Iterator[Path]:
    """The run folders below `root` that may have ops whose ids begin with each of `words`, the newest first."""
    folder = runs_root(root)
    manifests = list(folder.glob(f"*/{MANIFEST_FILE}")) if folder.is_dir() else []
    for path in sorted(manifests, key=lambda path: -path.stat().st_mtime_ns):
        text = path.read_bytes()
        if all(f'"op_id":"{word}'.encode() in text for word in words):
            yield path.parent

"""The tree that pyright and import-linter read: `build/lint/opscope/<room>`, as an installed wheel has it.

Neither follows the import hook of an editable installation. The files are hard links to those of the checkout, because
import-linter skips symbolic links. Run as `python ci/lint_tree.py [ROOT [FOLDER]]`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOMS = ("harness", "compiler", "simulator", "models", "reports", "dashboards")


def make(root: Path, folder: Path) -> Path:
    """Creates `folder`/opscope again with links to the tracked and new files of package and rooms; returns `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        "git",
        "-C",
        str(root),
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        "opscope",
        *ROOMS,
    ]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in listed:
        source = root / name
        target = folder / name if name.startswith("opscope/") else folder / "opscope" / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(source, target)
    return folder


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    make(root, Path(sys.argv[2]) if len(sys.argv) > 2 else root / "build" / "lint")

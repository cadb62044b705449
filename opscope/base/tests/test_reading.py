"""What a process says that it has read; each in an interpreter of its own, since the hook stays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HEAD = """
import json, mmap, os, sys, tempfile
from opscope.base import reading

reading.begin()
reading.report()
"""


def said(folder: Path, code: str) -> Any:
    """What a process prints as JSON."""
    command = [sys.executable, "-c", f"{HEAD}\n{code}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_what_it_makes_itself_is_no_news(tmp_path: Path) -> None:
    """A lane's op makes a folder and files: no op after it sends all again."""
    again = said(
        tmp_path,
        """
reports = []
for turn in range(3):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x")
        open(path, "w").write("x")
        open(path).read()
    reports.append(reading.report())
print(json.dumps([None if each is None else sorted(each["files"]) for each in reports[1:]]))
""",
    )
    assert again == [None, None]


def test_a_file_that_is_read_or_mapped_is_news(tmp_path: Path) -> None:
    (tmp_path / "read").write_text("x")
    (tmp_path / "mapped").write_bytes(b"x" * 9000)
    new = said(
        tmp_path,
        """
open("read").read()
first = reading.report()["files"]
libc = __import__("ctypes").CDLL(None)  # opens and maps as native code does, without an event
descriptor = libc.open(b"mapped", 0)
libc.mmap.restype = __import__("ctypes").c_void_p
libc.mmap(None, 9000, 1, 2, descriptor, 0)
print(json.dumps([sorted(first), sorted(reading.report()["files"])]))
""",
    )
    assert str(tmp_path / "read") in new[0]
    assert str(tmp_path / "mapped") not in new[0]
    assert str(tmp_path / "mapped") in new[1]

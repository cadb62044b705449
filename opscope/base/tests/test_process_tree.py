"""What a process holds, as psutil sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import psutil
import pytest

from opscope.base.children import process_tree

CHILD = """
import subprocess, sys
code = "x = bytearray(b'1') * (60 << 20); print('ready', flush=True); input()"
inner = subprocess.Popen([sys.executable, "-c", code], stdin=sys.stdin)
input()
"""


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_process_and_its_children_count(monkeypatch, tmp_path, elsewhere):
    if elsewhere:
        monkeypatch.setattr(process_tree, "_PROC", tmp_path)
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        resident, threads = process_tree.usage(child.pid)
        process = psutil.Process(child.pid)
        members = [process, *process.children(recursive=True)]
        assert len(members) == 2
        assert resident == pytest.approx(sum(member.memory_info().rss for member in members), rel=0.1)
        assert resident > 60 << 20
        assert threads == sum(member.num_threads() for member in members)
    finally:
        child.communicate(b"\n\n")
    assert process_tree.usage(child.pid) == (0, 0)


def test_without_proc_one_look_at_all_processes_serves_all_lanes(monkeypatch, tmp_path):
    monkeypatch.setattr(process_tree, "_PROC", tmp_path)
    looks, process_iter = [], psutil.process_iter
    monkeypatch.setattr(psutil, "process_iter", lambda names: looks.append(names) or process_iter(names))
    monkeypatch.setattr(process_tree, "_swept", (0.0, {}))
    monkeypatch.setattr(process_tree, "_SWEEP", 60.0)
    for _ in range(3):
        assert process_tree.usage(os.getpid())[0] > 0
    assert len(looks) == 1
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        assert child.pid in process_tree.descendants(os.getpid()), "who ends processes never looks at an old list"
    finally:
        child.communicate(b"\n\n")


FORKS = """
import os, sys
x = bytearray(b"1") * (60 << 20)
children = [os.fork() or (sys.stdin.read(), os._exit(0)) for _ in range(3)]
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_what_forks_share_is_held_once() -> None:
    child = subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        child.stdout.readline()
        assert process_tree.usage(child.pid)[0] > 4 * 60 << 20
        members = [psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)]
        exact = sum(member.memory_full_info().pss for member in members)
        assert process_tree.exact_resident(child.pid) == pytest.approx(exact, rel=0.1)
        assert 60 << 20 < exact < 2 * 60 << 20
    finally:
        child.kill()
        child.communicate()
    assert process_tree.exact_resident(child.pid) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_a_thread_that_ends_while_it_is_looked_at_hides_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [SimpleNamespace(name=name) for name in ("0", str(os.getpid()))]  # the first is there no more
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        monkeypatch.setattr(process_tree.os, "scandir", lambda _: nullcontext(entries))
        assert child.pid in process_tree.children_of(os.getpid())
    finally:
        monkeypatch.undo()
        child.kill()
        child.communicate()

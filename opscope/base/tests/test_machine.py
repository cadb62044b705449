"""What a process may use: the least of the machine, its container and every cgroup around it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from opscope.base import machine
from opscope.base.tests.captured import captured
from opscope.base.tests.memory_group import in_group

MIB = 1 << 20
SAY = "from opscope.base import machine as m; print(m.machine_memory(), m.free_memory(), m.memory_limit(None))"


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    machine.cgroups.cache_clear()
    yield
    machine.cgroups.cache_clear()


def test_a_process_in_a_cgroup_has_the_memory_of_the_group() -> None:
    with in_group(256 * MIB, [sys.executable, "-P", "-c", SAY]) as command:
        total, free, limit = map(int, captured(command).stdout.split())
    assert (total, limit) == (256 * MIB, 192 * MIB)
    assert 128 * MIB < free < total, "less by what the process itself holds"


def laid_out(root: Path, groups: str, mount: str, files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel shows a process: where its cgroups are, and their files, below a folder of the test."""
    (root / "proc").mkdir()
    (root / "proc" / "cgroup").write_text(groups)
    (root / "proc" / "mountinfo").write_text(mount.replace("MOUNT", str(root / "fs")) + "\n")
    for name, text in files.items():
        (root / "fs" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "fs" / name).write_text(text + "\n")
    monkeypatch.setattr(machine, "_PROC", root / "proc")


TWO = "41 31 0:38 {root} MOUNT rw - cgroup2 cgroup2 rw"
ONE = "35 31 0:32 {root} MOUNT rw - cgroup cgroup rw,memory"


@pytest.mark.parametrize(
    ("groups", "mount", "files", "memory"),
    [
        ("0::/a/b\n", TWO.format(root="/"), {"a/b/memory.max": "max", "a/memory.max": f"{512 * MIB}"}, 512 * MIB),
        ("0::/a/b\n", TWO.format(root="/"), {"a/b/memory.max": f"{64 * MIB}", "a/memory.max": "max"}, 64 * MIB),
        ("0::/\n", TWO.format(root="/"), {"memory.max": f"{64 * MIB}"}, 64 * MIB),
        ("0::/docker/7\n", TWO.format(root="/docker/7"), {"memory.max": f"{64 * MIB}"}, 64 * MIB),
        ("0::/../other\n", TWO.format(root="/"), {"memory.max": f"{64 * MIB}"}, None),
        ("5:memory:/a\n0::/\n", ONE.format(root="/"), {"a/memory.limit_in_bytes": f"{64 * MIB}"}, 64 * MIB),
        ("5:memory:/a\n", ONE.format(root="/"), {"a/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("5:cpu,cpuacct:/a\n0::/\n", TWO.format(root="/"), {"memory.max": f"{64 * MIB}"}, 64 * MIB),
        ("0::/a\n", ONE.format(root="/"), {"a/memory.max": f"{64 * MIB}"}, None),
    ],
    ids=["parent", "own", "namespace", "part", "outside", "v1", "v1-none", "v2-beside-v1", "not-mounted"],
)
def test_the_least_of_all_groups_around_a_process(
    groups: str, mount: str, files: dict[str, str], memory: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out(tmp_path, groups, mount, files, monkeypatch)
    whole = machine._physical()
    assert machine.machine_memory() == (whole if memory is None else memory)
    assert machine.memory_limit(None) == machine.machine_memory() * 3 // 4


@pytest.mark.parametrize(
    ("groups", "mount", "files", "count"),
    [
        ("0::/a\n", TWO.format(root="/"), {"a/cpu.max": "150000 100000"}, 1),
        ("0::/a\n", TWO.format(root="/"), {"a/cpu.max": "50000 100000"}, 1),
        ("0::/a\n", TWO.format(root="/"), {"a/cpu.max": "300000 100000"}, 3),
        ("0::/a\n", TWO.format(root="/"), {"a/cpu.max": "max 100000"}, 4),
        (
            "2:cpu:/a\n",
            ONE.format(root="/").replace("memory", "cpu"),
            {"a/cpu.cfs_quota_us": "200000", "a/cpu.cfs_period_us": "100000"},
            2,
        ),
        (
            "2:cpu:/a\n",
            ONE.format(root="/").replace("memory", "cpu"),
            {"a/cpu.cfs_quota_us": "-1", "a/cpu.cfs_period_us": "100000"},
            4,
        ),
    ],
)
def test_processors_are_those_of_the_quota(
    groups: str, mount: str, files: dict[str, str], count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out(tmp_path, groups, mount, files, monkeypatch)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)))
    assert machine.processors() == count


def test_what_the_kernel_takes_back_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "memory.max": f"{64 * MIB}",
        "memory.current": f"{60 * MIB}",
        "memory.stat": f"anon 7\ninactive_file {MIB}",
    }
    laid_out(tmp_path, "0::/\n", TWO.format(root="/"), files, monkeypatch)
    assert machine.free_memory() == 5 * MIB


def test_the_kernels_of_blas_are_those_that_numpy_computes_with() -> None:
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_NUM_THREADS": "1"}
    kernels = (
        "from opscope.base.machine import blas_kernel; print([blas_kernel()]); import numpy; print([blas_kernel()])"
    )
    done = captured([sys.executable, "-P", "-c", kernels], env=environment, check=True)
    assert done.stdout == "['']\n['Nehalem']\n"

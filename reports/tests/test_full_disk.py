"""A disk that takes no more: the publish is one line, the database stays what it was, and the run waits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from opscope.reports.database.ask import ask
from opscope.reports.publish.publish import publish
from opscope.reports.publish.upkeep import prune as remove
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.nights import Op, night

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
OPS = {f"op{number}": Op(uses={"a": 1}, error="x" * 400, status="crashed") for number in range(60)}

SCRIPT = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
size = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
from opscope.harness.cli.main import main
sys.argv[1:] = sys.argv[2:]
main()
"""


def limited(folder: Path, size: int, *words: str) -> subprocess.CompletedProcess[str]:
    """`opscope` where no file may grow beyond `size` bytes."""
    command = [sys.executable, "-c", SCRIPT, str(size), *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_full_disk_changes_nothing_and_the_run_arrives_later(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    publish(night(tmp_path, 1, {"add": Op(uses={"a": 1})}), url)
    before = (tmp_path / "db.sqlite").stat().st_size
    run = night(tmp_path, 2, OPS)
    done = limited(tmp_path, before + 4096, "publish", str(run), "--to", url)
    assert done.returncode == 1, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "to write sqlite" in done.stderr
    assert ask(url, "SELECT run_id FROM runs").rows == (("night01",),)
    assert ask(url, "PRAGMA integrity_check").rows == (("ok",),)
    done = limited(tmp_path, 1 << 30, "publish", "--to", url)
    assert (done.returncode, "from the spool to" in done.stdout) == (0, True), done.stderr
    assert ask(url, "SELECT COUNT(*) FROM op_tests").rows == ((61,),)


def full_of_gaps(folder: Path) -> tuple[str, ...]:
    """A database from which a large night was removed, and that is as large as before; the command that prunes it."""
    url = fresh(folder / "db.sqlite")
    publish(night(folder, 1, OPS | {f"more{number}": op for number, op in enumerate(OPS.values())}), url)
    publish(night(folder, 9, {"add": Op(uses={"a": 1})}), url)
    remove(url, datetime.now(UTC) - datetime(2026, 11, 5, tzinfo=UTC))
    return "db", "prune", "--keep", "9999d", "--db", url


def test_a_disk_that_fills_while_the_file_is_rewritten_loses_nothing(tmp_path: Path) -> None:
    prune = full_of_gaps(tmp_path)
    before = (tmp_path / "db.sqlite").stat().st_size
    done = limited(tmp_path, 100_000, *prune)  # of a disk on which others write meanwhile no check knows
    assert (done.returncode, done.stdout) == (1, "removed: 0 nights, 0 runs, 0 op tests\n"), done.stderr
    assert "--db: expected to give disk space of sqlite" in done.stderr
    assert (tmp_path / "db.sqlite").stat().st_size == before
    assert ask(prune[-1], "SELECT run_id FROM runs").rows == (("night09",),)
    assert ask(prune[-1], "PRAGMA integrity_check").rows == (("ok",),)
    done = limited(tmp_path, 1 << 30, *prune)
    assert (done.returncode, "disk: " in done.stdout) == (0, True), done.stderr
    assert (tmp_path / "db.sqlite").stat().st_size < before


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, of half a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("mounting a small disk takes the rights of root; files that may not grow stand for it")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_disk_with_no_room_left_changes_nothing_and_the_run_arrives_later(tmp_path: Path, disk: Path) -> None:
    """The same of a whole disk, on which nothing else can be written either."""
    url = fresh(tmp_path / "db.sqlite")
    publish(night(tmp_path, 1, {"add": Op(uses={"a": 1})}), url)
    shutil.move(tmp_path / "db.sqlite", disk / "db.sqlite")
    url = f"sqlite:///{disk}/db.sqlite"
    with (disk / "fill").open("wb") as fill:
        fill.write(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
    run = night(tmp_path, 2, OPS)
    done = limited(tmp_path, 1 << 30, "publish", str(run), "--to", url)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert "to write sqlite" in done.stderr
    assert ask(url, "SELECT run_id FROM runs").rows == (("night01",),)
    assert ask(url, "PRAGMA integrity_check").rows == (("ok",),)
    (disk / "fill").unlink()
    subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
    done = limited(tmp_path, 1 << 30, "publish", "--to", url)
    assert (done.returncode, "from the spool to" in done.stdout) == (0, True), done.stderr
    assert ask(url, "SELECT COUNT(*) FROM op_tests").rows == ((61,),)


def test_a_run_whose_database_has_no_room_ends_as_its_ops_did_and_arrives_later(tmp_path: Path, disk: Path) -> None:
    url = f"sqlite:///{disk}/db.sqlite"
    with (disk / "fill").open("wb") as fill:
        fill.write(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
    (tmp_path / "net.mlir").write_text(
        "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = stablehlo.add %a, %a : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n"
    )
    sweep = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:benchmark",
        "--model",
        "net.mlir",
        "--op-by-op",
        "--publish",
        url,
    ]
    done = subprocess.run(sweep, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 unique op = 1 success" in done.stdout
    assert f"--publish: expected to write {url}, got database or disk is full; try opscope publish" in done.stdout
    (disk / "fill").unlink()
    subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
    done = limited(tmp_path, 1 << 30, "publish", "--to", url)
    assert (done.returncode, "from the spool to" in done.stdout) == (0, True), done.stderr
    assert ask(url, "SELECT COUNT(*) FROM op_tests").rows == ((1,),)


def test_a_disk_too_full_for_a_copy_is_an_error_before_the_file_is_rewritten(tmp_path: Path, disk: Path) -> None:
    prune = full_of_gaps(tmp_path)
    size = (tmp_path / "db.sqlite").stat().st_size
    subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
    shutil.move(tmp_path / "db.sqlite", disk / "db.sqlite")
    url = f"sqlite:///{disk}/db.sqlite"
    with (disk / "fill").open("wb") as fill:
        fill.write(bytes(shutil.disk_usage(disk).free - 65536))
    done = limited(tmp_path, 1 << 30, *prune[:-1], url)
    assert (done.returncode, done.stdout) == (1, "removed: 0 nights, 0 runs, 0 op tests\n"), done.stderr
    assert f"MB free in {disk} to give" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (disk / "db.sqlite").stat().st_size == size
    (disk / "fill").unlink()
    assert "disk: " in limited(tmp_path, 1 << 30, *prune[:-1], url).stdout
    assert (disk / "db.sqlite").stat().st_size < size


def test_a_device_that_is_full_takes_no_export(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    publish(night(tmp_path, 1, {"add": Op(uses={"a": 1})}), url)
    code = "from opscope.harness.cli.main import main; main()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, "export", "night01", "--format", "csv", "-o", "-", "--db", url],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode != 0
    assert "No space left on device" in done.stderr

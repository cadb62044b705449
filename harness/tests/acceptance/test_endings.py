"""How runs end badly: killed, interrupted, refused. Each loses nothing and says so in one line."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from opscope.base.tests.processes import are_gone
from opscope.harness.tests import run_folder
from opscope.harness.tests.acceptance.conftest import MODEL, Done, Place
from opscope.harness.tests.own_backend import own_backend
from opscope.harness.tests.without_plugins import WITHOUT_PLUGINS

SLOW = own_backend("slow", "time.sleep(0.25)", stages="Stage.RUN", top="import time")


def started(place: Place, *words: str) -> subprocess.Popen[str]:
    """A run on the slow backend whose journal holds a line. It hears Ctrl-C, also behind a shell's &."""
    (place.folder / "slow.py").write_text(SLOW)
    command = place.command("pytest", "--model", MODEL, "--op-by-op", "--backend", "slow.py", "--no-report", *words)
    child = subprocess.Popen(
        ["env", "--default-signal=INT", *command],
        cwd=place.folder,
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.poll() is None:
        if any(path.stat().st_size for path in place.folder.glob(".opscope/runs/*/journal/*.jsonl")):
            return child
        time.sleep(0.02)
    raise AssertionError(f"no op ended: {child.communicate()[0] if child.poll() is not None else 'too slow'}")


def children(pid: int) -> list[int]:
    """The processes below `pid`."""
    pids = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if parent == pid:
            child = int(stat.parent.name)
            pids += [child, *children(child)]
    return pids


@pytest.mark.slow
def test_killed_run_leaves_a_readable_journal(place: Place) -> None:
    child = started(place)
    below = children(child.pid)
    assert below, "the lane is a process of its own"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert are_gone(*below), "no orphan is left"
    tests = place.records()
    assert tests
    shown = place.run("opscope", "show", "--json")
    assert shown.code == 0, shown.err
    page = json.loads(shown.out)
    statuses = Counter(t["status"] for t in page["op_tests"])
    assert statuses["stopped"] == len(tests)
    assert statuses["not_run"] > 0
    assert page["ledger"]["adds_up"]
    assert page["run"]["outcome"] == "running"


@pytest.mark.slow
def test_interrupted_run_says_so(place: Place) -> None:
    child = started(place)
    os.kill(child.pid, signal.SIGINT)
    out, _ = child.communicate(timeout=30)
    assert child.returncode == 2, out
    assert "the run was interrupted: ops that did not run" in out
    assert "KeyboardInterrupt" in out
    statuses = Counter(t["status"] for t in place.records())
    assert statuses["stopped"] >= 1
    assert statuses["not_run"] > 10
    assert json.loads((place.runs()[-1] / "run.json").read_text())["outcome"] == "interrupted"


@pytest.mark.slow
def test_interrupted_workers_lose_nothing(place: Place) -> None:
    child = started(place, "-n", "2")
    os.killpg(child.pid, signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 2, out
    tests = place.records()
    assert len(tests) == len({t["op_id"] for t in tests}) > 20
    assert {t["status"] for t in tests} == {"stopped", "not_run"}


def one_line(text: str) -> str:
    """The only line of a text, which begins with the command that refuses."""
    (line,) = text.strip().splitlines()
    assert line.startswith(("pytest --op-by-op: ", "opscope ")) and "; try " in line, text  # noqa: PT018
    return line


BAD_WORDS = [
    (("--model", "mnist", "--op-by-op"), "--model: expected the name of a model, a glob, `all` or the path"),
    (("--model", MODEL, "--op-by-op", "--backend", "nul"), "--backend: expected a backend, got 'nul'; try null"),
    (("--model", MODEL, "--op-by-op", "--until", "RUIN"), "--until: expected the name of a stage"),
    (("--model", MODEL), "--model: expected --op-by-op or --workflow as well, got --model alone"),
    (("--model", "no/such.mlir", "--op-by-op"), "--model: expected the path of a StableHLO file"),
    (("--op-by-op", MODEL), f"command line: expected --model, --op or --resume with --op-by-op, got '{MODEL}'"),
    (("--op-by-op", "nofile.py"), "command line: expected --model, --op or --resume with --op-by-op, got 'nofile.py'"),
    (("--op-by-op", "--ops", "add"), "expected --model, --op or --resume with --op-by-op, got '--ops'"),
    (("--workflow", "full"), "expected --model, --op or --resume with --op-by-op, got '--workflow'"),
    (("--op-by-op", "-k", "add"), "expected --model, --op or --resume with --op-by-op, got '-k'"),
    (("--ops", "add"), "--ops: expected --op-by-op or --workflow as well"),
    (("--op-by-op", "--op", "0123"), "--op: expected a run that contains the op"),
    (
        ("--op-by-op", "--run-dir", "nowhere"),
        "--run-dir: expected a run folder, or the id or the address of a run, got nowhere",
    ),
    (("--model", MODEL, "--op-by-op", "test_x.py"), "command line: expected no test files"),
    (
        ("--model", MODEL, "--op-by-op", "--op-memory", "8"),
        "--op-memory: expected a size of memory with a unit, from 64MiB",
    ),
]


@pytest.mark.slow
def test_bad_words_and_places_are_one_line(place: Place) -> None:
    blocked = place.folder / "file"
    blocked.write_text("")
    (place.folder / "bad.mlir").write_text("not a module\n")
    *every, no_module, run, cache = place.one_after_another(
        *(("pytest", *words) for words, _ in BAD_WORDS),
        ("pytest", "--model", "bad.mlir", "--op-by-op", "--backend", "null"),
        place.sweep("--run-dir", str(blocked / "run")),
        place.sweep("--seed", "77"),
        OPSCOPE_CACHE_DIR=str(blocked / "cache"),
    )
    for done, (_, expected) in zip(every, BAD_WORDS, strict=True):
        assert (done.code, done.out) == (2, "")
        assert expected in one_line(done.err)
    no_module_is_one_line(no_module)
    assert run.code == cache.code == 2
    assert "expected a writable place, got Not a directory" in one_line(run.err)
    assert "expected a writable folder, got" in one_line(cache.err)
    assert not (place.folder / ".opscope").exists()


def test_bad_ops_and_old_runs(place: Place) -> None:
    run = run_folder.write(place.folder / ".opscope" / "runs" / "20260102-030405-run")
    op_id = place.records()[0]["op_id"]
    wrong = ("0" if op_id[0] != "0" else "1") + op_id[1:]
    for name in ("run.json", "manifest.jsonl"):
        path = Path(shutil.copytree(run, place.folder / f"older {name}")) / name
        # As an older opscope wrote it: without digests.
        older = re.sub(r'"schema_version": ?1', '"schema_version": 0', path.read_text())
        path.write_text(re.sub(r'"digest":"\w+",', "", older))
    no_op, *old = place.one_after_another(
        ("pytest", "--op-by-op", "--op", wrong),
        ("opscope", "show", "older run.json"),
        ("pytest", "--op-by-op", "--run-dir", "older manifest.jsonl", "--op", op_id),
    )
    assert no_op.code == 2
    assert f"try {op_id}" in one_line(no_op.err)
    for done in old:
        assert (done.code, done.out) == (2, "")
        assert "expected schema 1, got schema 0" in one_line(done.err)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("mounting a small disk takes the rights of root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_disk_that_fills_up(place: Place, small_disk: Path, tmp_path: Path, workers: str, cached: bool) -> None:
    cache = {"OPSCOPE_CACHE_DIR": str(tmp_path / "own-cache")}
    if cached:
        place.pytest("--run-dir", str(tmp_path / "before"), **cache)
    (small_disk / "fill").write_bytes(bytes(1_000_000 if cached else 970_000))
    done = place.pytest("-q", "--run-dir", str(small_disk / "run"), "-n", workers, **cache)
    assert done.code == 2
    assert "No space left on device; try another --run-dir" in done.out
    records = place.records(small_disk / "run")
    stopped = sum(record["status"] == "stopped" for record in records)
    if cached:  # else the disk may be too small for what is known of goldens, and ops are recorded as not run
        assert 0 < stopped == len(records) < 24
    ledger = f"{stopped} stopped + {24 - stopped} not_run" if stopped else "24 unique ops = 24 not_run"
    assert ledger in done.out
    assert "Traceback" not in done.out + done.err
    shown = place.run("opscope", "show", str(small_disk / "run"))
    assert ledger in shown.out


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_cache_that_fills_up(place: Place, small_disk: Path, workers: str) -> None:
    """What ran before keeps its verdicts, and with room the rest follows."""
    (small_disk / "fill").write_bytes(bytes(950_000))
    cache = {"OPSCOPE_CACHE_DIR": str(small_disk / "cache")}
    done = place.pytest("-n", workers, **cache)
    assert done.code == 2
    folder = small_disk / "cache" / "exports"
    reason = f"cache folder: expected a writable folder, got {folder} (No space left on device)"
    assert f"{reason}; try another OPSCOPE_CACHE_DIR" in " ".join(done.out.split())
    assert "Traceback" not in done.out + done.err
    assert "keyboard" not in done.out.lower()
    statuses = [record["status"] for record in place.records()]
    assert len(statuses) == 24
    assert set(statuses) <= {"stopped", "not_run"}
    assert not list(folder.glob(".making-*"))
    (small_disk / "fill").unlink()
    done = place.run("pytest", "--op-by-op", "--resume", str(place.runs()[-1]), "--no-report", "-n", workers, **cache)
    assert done.code == 0, done.out + done.err
    assert "24 unique ops = 24 stopped" in done.out


@pytest.mark.slow
def test_a_disk_without_room_for_an_export_is_no_fault_of_the_model(place: Place, small_disk: Path) -> None:
    (small_disk / "fill").write_bytes(bytes(1 << 20))
    (small_disk / "cache").mkdir()
    (small_disk / "cache" / "exports").mkdir()
    (small_disk / "cache" / "modules").mkdir()
    with (small_disk / "fill").open("r+b") as fill:
        fill.truncate((1 << 20) - 16_384)
    done = place.pytest(OPSCOPE_CACHE_DIR=str(small_disk / "cache"))
    assert done.code == 2
    assert "(No space left on device); try another OPSCOPE_CACHE_DIR" in one_line(done.err)
    assert place.runs() == []


@pytest.mark.slow
def test_an_exceeded_cap_is_reported_once_and_early_if_exports_are_cached(place: Place, tmp_path: Path) -> None:
    cache = {"OPSCOPE_CACHE_DIR": str(tmp_path / "own-cache")}
    assert "max_cache: expected" not in place.pytest(**cache).out
    cached, anew = (place.pytest(OPSCOPE_MAX_CACHE="1K", **cache) for _ in range(2))
    for done in (cached, anew):  # the first has trimmed what it used
        assert done.code == 0, done.out + done.err
        assert sum(line.startswith("opscope: max_cache: expected ") for line in done.lines) == 1
    said = next(number for number, line in enumerate(cached.lines) if line.startswith("opscope: max_cache: expected "))
    assert said < next(number for number, line in enumerate(cached.lines) if line.startswith("collected "))
    assert "max_cache: expected" not in place.pytest(**cache).out


@pytest.mark.slow
def test_a_disk_that_is_read_only(place: Place, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = place.pytest("--run-dir", str(small_disk / "run"))
    assert done.code == 2
    assert "expected a writable place, got Read-only file system" in one_line(done.err)
    done = place.pytest(OPSCOPE_CACHE_DIR=str(small_disk / "cache"))
    assert done.code == 2
    assert "Read-only file system" in one_line(done.err)


GOOD = """
module {
  func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf64> {
    %0 = stablehlo.add %a, %a : tensor<4x4xf32>
    %1 = stablehlo.convert %0 : (tensor<4x4xf32>) -> tensor<4x4xf64>
    return %1 : tensor<4x4xf64>
  }
}
"""


def no_module_is_one_line(done: Done) -> None:
    assert done.code == 2, done.out
    assert "bad" in one_line(done.err)
    assert ": expected " in one_line(done.err)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [GOOD[: len(GOOD) // 2], GOOD.replace("stablehlo.add", '"weird.op"')], ids=["truncated", "unknown dialect"]
)
def test_a_file_that_is_no_module(place: Place, text: str) -> None:
    (place.folder / "bad.mlir").write_text(text)
    no_module_is_one_line(place.run("pytest", "--model", "bad.mlir", "--op-by-op", "--backend", "null"))
    assert not place.runs()


@pytest.mark.slow
def test_a_known_limitation_is_an_expected_failure(place: Place) -> None:
    (place.folder / "good.mlir").write_text(GOOD)
    words = ("pytest", "--model", "good.mlir", "--op-by-op", "--no-report", "-q")
    done = place.run(*words)
    assert done.code == 0, done.out
    assert "1 passed, 1 xfailed" in done.lines[-1]
    assert "never: no 64-bit float" in done.out
    statuses = {t["op_name"]: (t["status"], bool(t["expected"])) for t in place.records()}
    assert statuses["stablehlo.convert"] == ("compile_failed", True)
    assert place.run(*words, "--runxfail").code == 1


@pytest.mark.slow
def test_a_users_own_limitations_are_written_read_and_expire(place: Path) -> None:
    (place.folder / "net.mlir").write_text(
        "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  %0 = stablehlo.custom_call @nobody(%a) : (tensor<2xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\n"
    )
    words = ("pytest", "--model", "net.mlir", "--op-by-op", "--no-report", "-q", "--reruns", "0")
    assert place.run(*words).code == 1
    assert place.run("opscope", "limitations", "update", str(place.runs()[-1]), "--write").code == 0
    (place.folder / "pyproject.toml").write_text('[tool.opscope]\nlimitations = "limitations.yaml"\n')
    for more in ((), ("-n", "1")):
        done = place.run(*words, *more)
        assert (done.code, "1 xfailed" in done.lines[-1]) == (0, True), done.out
    file = place.folder / "limitations.yaml"
    file.write_text(re.sub("expires: .*", "expires: 2026-01-01", file.read_text()))
    done = place.run(*words)
    assert done.code == 1
    assert "limitations.yaml:2: limitation expired on 2026-01-01, excuses nothing; renew or delete it" in done.out
    file.write_text("limitations:\n- {op: x}\n")
    done = place.run(*words)
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
    assert "limitations.yaml:2: expected op, backend, stage, kind, reason, got no backend" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("text", ["limitations: [", "- {}", "limitations:\n- {op: x}\n"])
def test_a_spoilt_file_of_the_projects_own_limitations_is_one_line(place: Place, text: str) -> None:
    (place.folder / "own.yaml").write_text(text)
    code = (
        "import sys, pytest; from pathlib import Path; from opscope.harness.limitations import limitation_file\n"
        "limitation_file.OWN = Path('own.yaml')\n"
        f"sys.exit(pytest.main(['--model', '{MODEL}', '--op-by-op', '--backend', 'null', '--no-report']))"
    )
    done = place.run("python", "-P", "-c", code)
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.out + done.err
    assert done.err.startswith("pytest --op-by-op: own.yaml"), done.err
    assert not place.runs()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--arch", "n151"), "--arch: expected a board or an arch, got 'n151'; try n150"),
        (("--data-format", "Bfp9"), "--data-format: expected a float format of n150, got 'Bfp9'; try Bfp"),
    ],
)
def test_a_backend_refuses_options_in_one_line(place: Place, words: tuple[str, str], line: str) -> None:
    done = place.pytest(*words, backend="reference")
    assert done.code == 2
    assert line in one_line(done.err)
    assert not place.runs()


ENDLESS = Path(__file__).parents[4] / "shared" / "cases" / "public_bugs" / "g10_hang.mlirbc"


@pytest.mark.slow
@pytest.mark.skipif(not ENDLESS.exists(), reason=f"{ENDLESS} is not here")
def test_a_file_whose_reading_does_not_end_keeps_no_command_waiting(place: Place) -> None:
    """Also beside a model that is right, which runs; the limit of a listing alone is 60 s."""
    file, null = str(ENDLESS), ("--op-by-op", "--backend", "null", "-q")
    begun = time.monotonic()
    alone, beside = place.one_after_another(
        ("pytest", *WITHOUT_PLUGINS, "--model", file, "--prepare-timeout", "3", *null),
        ("pytest", *WITHOUT_PLUGINS, "--model", file, "--model", MODEL, "--prepare-timeout", "20", *null),
    )
    cut = place.run("pytest", *WITHOUT_PLUGINS, "--model", file, "--budget", "6s", *null)
    assert time.monotonic() - begun < 55, "less than the limit of one listing"
    assert (alone.code, cut.code, beside.code) == (2, 2, 1)
    for done, seconds in ((alone, "3 s"), (cut, "[0-6] s")):
        assert re.search(f"expected a readable file, got a file whose reading does not end within {seconds}", done.err)
    assert place.records(place.runs()[-1]), "the other model has run"


@pytest.mark.slow
def test_what_another_plugin_raises_at_the_end_comes_after_the_runs_own(place: Place) -> None:
    """As where pytest's cache may not be written, and warnings are errors."""
    (place.folder / ".pytest_cache").write_text("a file where pytest wants a folder")
    (place.folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    done = place.run("pytest", "-p", "cacheprovider", "--model", MODEL, "--op-by-op", "--backend", "null")
    assert "PytestCacheWarning" in done.out + done.err, "pytest has raised"
    (run,) = place.runs()
    assert json.loads((run / "run.json").read_text())["outcome"] == "complete"
    assert (run / "report.html").is_file()


@pytest.mark.slow
def test_an_option_for_tests_that_are_no_ops_is_refused_in_a_line(place: Place) -> None:
    done = place.pytest("--benchmark-only", PYTEST_ADDOPTS="")
    assert done.code == 2, done.out
    assert "--benchmark-only: expected none with --op-by-op" in done.err


@pytest.mark.slow
def test_runs_that_begin_in_the_same_second_each_have_a_folder(place: Place) -> None:
    started = [place.start(" ".join(place.sweep())) for _ in range(6)]
    ended = [(run.communicate(timeout=240)[0], run.returncode) for run in started]
    assert [code for _, code in ended] == [0] * 6, "\n".join(out for out, code in ended if code)
    assert len(place.runs()) == 6

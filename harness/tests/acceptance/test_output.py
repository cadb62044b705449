"""A reader who leaves, a full disk below stdout, no stdout, Ctrl-C at the very end: a line, and nothing is lost."""

from __future__ import annotations

import os
import subprocess

import pytest

from opscope.harness.record import store
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.own_backend import own_backend

SLOW = own_backend(
    "slow",
    """
    folder, first = pathlib.Path({folder!r}), b"abs" in job.module
    while not (first or (folder / "reader left").exists()):
        time.sleep(0.01)
    if not (first or (folder / "resumed").exists()):
        time.sleep(0.1)
    """,
    top="import pathlib, time",
)
"""The first op ends at once, the others once nobody reads any more."""
OPS = ("abs", "cbrt", "ceil", "cosine", "exponential", "floor", "logistic", "negate", "sign", "sine", "sqrt", "tanh")
LINES = "\n".join(f"%{n + 1} = stablehlo.{op} %{n} : tensor<4xf32>" for n, op in enumerate(OPS)).replace("%0 ", "%x ")
NET = f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{LINES}\nreturn %{len(OPS)} : tensor<4xf32>\n}}"


def into(place: Place, target: str, *words: str) -> tuple[int, str]:
    """The exit code and stderr of a command whose stdout is redirected by a shell."""
    shell = ["sh", "-c", f'"$@" {target}', "sh", *place.command(*words)]
    done = subprocess.run(
        shell, cwd=place.folder, env=place.environment, stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("lanes", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_a_run_ends_once_nobody_reads_it_and_goes_on_by_resume(place: Place, lanes: str) -> None:
    (place.folder / "slow.py").write_text(SLOW.replace("{folder!r}", repr(str(place.folder))))
    (place.folder / "net.mlir").write_text(NET)
    sweep = ("--model", "net.mlir", "--op-by-op", "--backend", "slow.py", "-n", lanes, "--no-cache", "-v")
    words = place.command("pytest", *sweep, *(["--no-report"] if lanes == "0" else []))
    goldens = ("--model", "net.mlir", "--op-by-op", "--backend", "null", "--run-dir", "goldens", "--no-report")
    place.one_after_another(("pytest", *goldens))
    with subprocess.Popen(
        words, cwd=place.folder, env=place.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        read = ""
        while "stopped" not in read and "PASSED" not in read:  # a line of -v has its end once the next op has begun
            read += (part := os.read(reading.stdout.fileno(), 4096).decode())
            assert part, reading.stderr.read()
        reading.stdout.close()
        (place.folder / "reader left").touch()
        line = reading.stderr.read()
    (run,) = place.runs()
    expected = "pytest --op-by-op: stdout: expected one that can be written, got Broken pipe; try pytest --op-by-op"
    assert (reading.returncode, line) == (2, f"{expected} --resume {run}\n")
    assert 0 < sum(test.status.value == "stopped" for test in store.load_run(run).tests) < len(OPS)
    (place.folder / "resumed").touch()
    (done,) = place.one_after_another(("pytest", "--op-by-op", "--resume", str(run), "--no-report"))
    assert done.code == 0, done.out + done.err
    assert f"{len(OPS)} unique ops = {len(OPS)} stopped" in done.out


# quick: `opscope --version` is refused at the same place as any command, and imports next to nothing
@pytest.mark.parametrize(
    "command",
    [
        pytest.param("pytest", marks=pytest.mark.slow),
        pytest.param("opscope config", marks=pytest.mark.slow),
        "opscope --version",
    ],
)
def test_a_stdout_that_takes_nothing_is_a_line_and_exit_code_2(place: Place, command: str) -> None:
    words = place.sweep() if command == "pytest" else command.split()
    for target, got in ((">/dev/full", "No space left on device"), (">&-", "a closed one"), (">&- 2>&-", "")):
        code, err = into(place, target, *words)
        assert (code, got in err, err.count("\n")) == (2, True, bool(got)), err
    assert into(place, "| head -1 >/dev/null", *words)[1].count("\n") <= 1


INTERRUPTS = """
import pathlib, pytest, signal

@pytest.hookimpl({order})
def {hook}():
    once = pathlib.Path("interrupted")
    if not once.exists():
        once.touch()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
        signal.raise_signal(signal.SIGINT)
"""


@pytest.mark.parametrize(
    ("hook", "order", "report"),
    [
        pytest.param("pytest_sessionfinish", "tryfirst=True", True, marks=pytest.mark.slow),
        pytest.param("pytest_sessionfinish", "trylast=True", True, marks=pytest.mark.slow),
        pytest.param("pytest_unconfigure", "tryfirst=True", True, marks=pytest.mark.slow),
        pytest.param("pytest_unconfigure", "trylast=True", True, marks=pytest.mark.slow),
        ("pytest_unconfigure", "trylast=True", False),
    ],
)
def test_ctrl_c_after_the_last_op_is_a_line_and_the_records_are_there(
    place: Place, hook: str, order: str, report: bool
) -> None:
    (place.folder / "conftest.py").write_text(INTERRUPTS.format(hook=hook, order=order))
    (place.folder / "net.mlir").write_text(NET)
    run = place.folder / "run"
    words = ("pytest", "--model", "net.mlir", "--op-by-op", "--backend", "null", "--run-dir", str(run))
    again = ("pytest", "--op-by-op", "--resume", str(run))
    first, second = place.one_after_another((*words, *(() if report else ("--no-report",))), again)
    line = f"interrupted while the run was ended; try pytest --op-by-op --resume {run}"
    assert (first.code, first.err) == (2, f"pytest --op-by-op: {line}\n"), first.out
    assert second.code == 0, second.out + second.err
    assert f"{len(OPS)} unique ops = {len(OPS)} stopped" in second.out
    assert (run / "report.html").is_file(), "the second has written it"

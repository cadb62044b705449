"""`python -m ci.pybuda_programs DEMOS TESTS --write docs/pybuda_programs.md [--only GLOB...]
[--build | --compile] [--json]`.

DEMOS is a checkout of tenstorrent/tt-buda-demos, TESTS the folder pybuda/test of one of tenstorrent/tt-buda; what runs
needs the packages of its framework beside this Python. With
`--only` the other rows of the page stay as they are, with `--build` those of programs that compile, and with
`--compile` those of programs that run. The outputs of each program are compared with PyTorch's on the same inputs
(correlation >= 0.99), as `PYBUDA_FORCE_VERIFY_ALL` asks for.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
STAND_IN = Path(__file__).parent / "stand_in"
HEAD = """# Public programs for PyBuda

Made by `python -m ci.pybuda_programs DEMOS TESTS --write docs/pybuda_programs.md` over checkouts of
[tt-buda-demos](https://github.com/tenstorrent/tt-buda-demos) and of the tests of
[tt-buda](https://github.com/tenstorrent/tt-buda). Programs run as they are, on a simulated card. There is no network:
models have the sizes of their checkpoints and seeded weights, pictures and tokens are seeded. *Runs* means that the
program ends well and that its outputs are PyTorch's on the same inputs (correlation of at least 0.99); *compiles* that
its model is placed on a card, and how its run ended if it was run (`--compile` ends it there); *builds* that it finds
the names that it uses and makes its model, and was not compiled here (`--build`). Above 300 million parameters a
model has two layers of each kind, which its row says. Each program has {minutes:g} minutes of two processors, and
{memory} GiB.

*Needs* means a package or a file that is not there. Of TT-Buda's tests the cases that call its compiler's inside stop;
those of JAX's modules skip themselves, those of TFLite's need a download, and no program uses a GraphDef's.

| outcome | demos | cases of TT-Buda's tests |
|---|---|---|
"""
TEST_FILES = ("test_user.py", "tvm/sanity/tests_C/test_sanity_tf.py", "tvm/sanity/tests_B/test_sanity_onnx.py")
"""Of TT-Buda's tests: those of its API, of TensorFlow's modules and of ONNX's."""
OUTCOMES = ("runs", "compiles", "builds", "stops", "needs", "not run")
"""It runs; it compiles, and takes too long or fails then; it builds its model, and was not compiled; something of ours
stops it; a package or file is missing."""

MISSING = (
    *("ModuleNotFoundError", "ImportError", "FileNotFoundError", "LookupError", "OSError"),
    *("DecodeError", "ReadError", "LocalEntryNotFoundError"),
)
"""What a program ends with that lacks a package or a file; the last three are those of a model that was to be
downloaded."""


@dataclass(frozen=True)
class Row:
    """What became of one program."""

    program: str
    outcome: str
    why: str = ""
    seconds: int = 0

    def line(self) -> str:
        """Returns it as a row of the table."""
        why = self.why.replace("|", "\\|")
        return f"| `{self.program}` | {self.outcome} | {why} | {self.seconds or ''} |"


def programs(demos: Path) -> list[Path]:
    """Returns the files of a checkout that are programs: they use PyBuda and can be started."""
    found = []
    for path in sorted(demos.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if "pybuda" in text and "__main__" in text and "tests" not in path.parts:
            found.append(path)
    return found


def started(command: list[str], notes: Path, sequential: bool = True) -> subprocess.Popen[str]:
    """Starts Python with the stand-in, in the folder of `notes`.

    `sequential`: devices run in one process, so that what compiles and what fails is known there.
    """
    folders = [str(STAND_IN), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYBUDA_", "TT_BACKEND_"))},
        "PYTHONPATH": os.pathsep.join(folders),
        "PROGRAM_NOTES": str(notes),
        "OPSCOPE_TIMEOUT_SCALE": "100000",
        "PYBUDA_FORCE_VERIFY_ALL": "1",
        **({"PYBUDA_FORCE_SEQUENTIAL": "1"} if sequential else {}),
        "JAX_PLATFORMS": "cpu",
        "HF_HUB_OFFLINE": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", *command],
        cwd=notes.parent,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def without_folders(text: str) -> str:
    """The beginning of a message, without folders of the machine that it comes from."""
    return re.sub(r"(/[\w.+-]+){3,}/", ".../", text)[:200]


def row_of(name: str, code: int | None, output: str, notes: str, seconds: float) -> Row:
    """Returns the row of a program that has ended, or was ended."""
    lines = notes.splitlines()
    said = "; ".join(dict.fromkeys(line for line in lines if line not in ("compiled", "stopped")))
    compiled, stopped = "compiled" in lines, "stopped" in lines
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    last = without_folders(last)
    if stopped:
        return Row(name, "compiles" if compiled else "builds", said)
    if code == 0:
        return Row(name, "runs", said, round(seconds))
    if code is None:
        outcome, last = ("compiles" if compiled else "not run"), f"takes more than {round(seconds / 60, 1):g} minutes"
    elif re.match(rf"[\w.]*({'|'.join(MISSING)})\b", last):
        outcome = "needs"
    elif "NotImplementedError: Model not supported" in last:
        outcome, last = "not run", f"it refuses this card itself: {last}"
    elif code < 0 or "MemoryError" in output[-2000:]:
        outcome, last = ("compiles" if compiled else "not run"), last or f"signal {-code}"
    else:
        outcome = "compiles" if compiled else "stops"
    return Row(name, outcome, "; ".join(filter(None, [last, said])), round(seconds))


def demo_rows(demos: Path, only: list[str], stage: str, seconds: float, gib: int) -> Iterator[Row]:
    """Runs each demo that matches, in the order of `only`, up to a stage; yields its row."""
    named = {path.relative_to(demos).as_posix(): path for path in programs(demos)}
    chosen = list(dict.fromkeys(name for glob in only for name in fnmatch.filter(named, glob)))
    if not chosen:
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        limits = [name, stage, str(seconds), str(gib)]
        command = [str(STAND_IN / "run_each.py"), *limits, *(str(named[one]) for one in chosen)]
        printed = []
        with started(command, folder / "notes") as server:
            for line in server.stdout or ():
                ended = re.fullmatch(r"(\d+) (late|-?\d+) ([\d.]+)\n", line)
                if ended is None:
                    printed.append(line)
                    continue
                output, notes = (folder / f"{ended[1]}.{what}" for what in ("output", "notes"))
                said = notes.read_text() if notes.exists() else ""
                code = None if ended[2] == "late" else int(ended[2])
                took = seconds if code is None else float(ended[3])
                yield row_of(chosen[int(ended[1])], code, output.read_text(errors="replace"), said, took)
        if server.returncode:
            raise SystemExit("".join(printed))


def test_rows(tests: Path, file: str, seconds: float) -> Iterator[Row]:
    """Runs each case of a test file; yields its row."""
    short = Path(file).name
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        quiet = ["--noconftest", "-c", os.devnull, "--rootdir", folder, "-p", "no:cacheprovider", "-p", "no:randomly"]
        arguments = [*quiet, "-q", f"--junitxml={report}", str(tests / file)]
        command = ["-m", "opscope.pybuda", str(STAND_IN / "run_pytest.py"), *arguments]
        process = started(command, Path(folder) / "notes", sequential=False)
        try:
            output, _ = process.communicate(timeout=40 * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        if not report.exists():
            yield Row(short, "stops", output.strip().splitlines()[-1][:200])
            return
        for case in ElementTree.parse(report).iter("testcase"):
            name, took = f"{short}::{case.get('name')}", round(float(case.get("time") or 0))
            failure = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
            why = "" if failure is None else without_folders((failure.get("message") or "").splitlines()[0])
            outcome = "runs" if failure is None else "not run" if failure.tag == "skipped" else "stops"
            yield Row(name, outcome, why, took)


def rows_of_page(path: Path) -> dict[str, Row]:
    """Returns the rows of a page that was written before."""
    rows = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        parsed = re.fullmatch(r"\| `([^`]+)` \| ([\w ]+) \| (.*) \| (\d*) \|", line)
        if parsed:
            why = parsed[3].replace("\\|", "|")
            rows[parsed[1]] = Row(parsed[1], parsed[2], why, int(parsed[4] or 0))
        outcome, _, names = line.removeprefix("**").partition("**: ")
        if outcome in OUTCOMES:
            for name, seconds in re.findall(r"`([^`]+)`(?: (\d+))?", names):
                rows[name] = Row(name, outcome, "", int(seconds or 0))
    return rows


def page(rows: dict[str, Row], minutes: float, gib: int) -> str:
    """Returns the page: a table of what has a reason, and for each outcome the names of what has none."""
    counted = Counter((row.outcome, "::" in name) for name, row in rows.items())
    counts = [f"| {outcome} | {counted[outcome, False]} | {counted[outcome, True]} |" for outcome in OUTCOMES]
    table = ["| program | outcome | why, or what differs | seconds |", "|---|---|---|---|"]
    table += [rows[name].line() for name in sorted(rows) if rows[name].why]
    lists = ["Without more to say, with seconds where it was run:"]
    for outcome in OUTCOMES:
        alike = [rows[name] for name in sorted(rows) if rows[name].outcome == outcome and not rows[name].why]
        if alike:
            named = ", ".join(f"`{row.program}`{f' {row.seconds}' if row.seconds else ''}" for row in alike)
            lists += ["", f"**{outcome}**: {named}"]
    return HEAD.format(minutes=minutes, memory=gib) + "\n".join([*counts, "", *table, "", *lists]) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Runs the programs; prints a line for each, and writes the page. Returns 0."""
    parser = argparse.ArgumentParser(prog="python -m ci.pybuda_programs", description=__doc__)
    parser.add_argument("demos", type=Path, help="checkout of tt-buda-demos")
    parser.add_argument("tests", type=Path, help="folder that has test_user.py")
    parser.add_argument("--write", type=Path, help="the page")
    parser.add_argument(
        "--only", nargs="+", default=["*"], metavar="GLOB", help="programs, such as '*bert*' or test_user.py, in order"
    )
    ends = parser.add_mutually_exclusive_group()
    for stage, where in (("build", "compile: a quick look"), ("compile", "run")):
        text = f"end each demo where it would {where}"
        ends.add_argument(f"--{stage}", dest="stage", action="store_const", const=stage, default="run", help=text)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--minutes", type=float, default=10, help="of two processors, for each program")
    parser.add_argument("--memory", type=int, default=16, help="GiB of address space for each program")
    options = parser.parse_args(argv)
    for folder in (options.demos, options.tests):
        if not folder.is_dir():
            parser.error(f"{folder}: expected a folder, got none")
    whole = options.only == ["*"] and options.stage == "run"
    rows = rows_of_page(options.write) if options.write and not whole else {}
    made = []
    seconds = options.minutes * 60
    reached = {"build": "builds", "compile": "compiles"}.get(options.stage)
    files = [
        file
        for file in TEST_FILES
        if options.stage == "run" and any(fnmatch.fnmatch(Path(file).name, glob) for glob in options.only)
    ]
    for some in (
        *(test_rows(options.tests.resolve(), file, seconds) for file in files),
        demo_rows(options.demos.resolve(), options.only, options.stage, seconds, options.memory),
    ):
        for row in some:
            made.append(row)
            # What came further before does so beyond the stage that it was asked to reach.
            before = rows.setdefault(row.program, row)
            if row.outcome != reached or OUTCOMES.index(before.outcome) > OUTCOMES.index(row.outcome):
                rows[row.program] = row
            if not options.json:
                print(row.line(), flush=True)
            if options.write:
                options.write.write_text(page(rows, options.minutes, options.memory), encoding="utf-8")
    if options.json:
        print(json.dumps([asdict(row) for row in made], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

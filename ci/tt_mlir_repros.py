"""Shows each failure of tt-mlir twice: in a run on backend `tt`, and by the program in its repro folder. Equal words?

`python -m ci.tt_mlir_repros MODULE...` runs the modules (files of StableHLO, or a list of such files after `@`) op by
op, then runs `without_opscope.sh` of each failure, and compares the first diagnostic in its output with the one in the
record. Needs jax-tt-plugin. `--jobs N` runs so many programs side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ci.sweep_command import sweep_command


def main() -> int:
    """Runs the comparison; 1 if a failure has no folder, or its program does not show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="+")
    parser.add_argument("--arch", default="n150")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    modules = [name for word in options.modules for name in _files(word)]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _run(modules, options.arch, options.jobs, work)
        run_dir = work / "run"
        tests = [json.loads(line) for path in run_dir.glob("journal/*.jsonl") for line in _documents(path)]
        failures = {
            test["op_id"]: test
            for test in sorted(tests, key=lambda test: test["attempt"])
            if test["status"] in ("compile_failed", "crashed")
        }
        print(f"{len(modules)} modules, {len(tests)} records, {len(failures)} that tt-mlir refuses or dies of")
        with ThreadPoolExecutor(options.jobs) as pool:
            shown = list(pool.map(lambda test: _shown(test, run_dir), failures.values()))
    print(f"{sum(shown)} of {len(failures)} are shown by the program in their repro folder")
    return 0 if failures and all(shown) else 1


def _files(word: str) -> list[str]:
    return Path(word[1:]).read_text(encoding="utf-8").split() if word.startswith("@") else [word]


def _run(modules: list[str], arch: str, jobs: int, work: Path) -> None:
    """The run, with a repro folder for each failure."""
    models = [word for name in modules for word in ("--model", str(Path(name).resolve()))]
    command = sweep_command(f"--backend tt --arch {arch} --reruns 0 -n {jobs}", *models, "--run-dir", str(work / "run"))
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(
            f"the run: expected exit code 0 or 1, got {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        )


def _documents(path: Path) -> list[str]:
    """The JSON of a journal's lines, without the digest in front."""
    return [line[line.index("{") :] for line in path.read_text(encoding="utf-8").splitlines() if "{" in line]


def _shown(test: dict[str, str], run_dir: Path) -> bool:
    """Whether the program in a failure's folder fails with the record's first diagnostic."""
    script = run_dir / "artifacts" / test["op_id"] / "repro-tt" / "without_opscope.sh"
    said, code = "no such file", 0
    if script.is_file():
        environment = {**os.environ, "PYTHON": sys.executable}
        done = subprocess.run(["sh", script], env=environment, capture_output=True, text=True, check=False)
        said, code = done.stdout + done.stderr, done.returncode
    right = code != 0 and test["error_message"] in said
    print(f"{'shown' if right else 'NOT SHOWN'}  {test['op_name']} [{test['op_id']}]: {test['error_message'][:90]}")
    if not right:
        print(f"  exit code {code}: {said[-600:]}")
    return right


if __name__ == "__main__":
    sys.exit(main())

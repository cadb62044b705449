"""`python -m ci.pybuda_programs.cases TESTS [--count 200] [--seed 0] [--file FILE=N ...] [--write docs/pybuda.md]`.

Draws cases of TT-Buda's tests by a seed, a file first and then one case of it, and runs them as they are. TESTS is the
folder pybuda/test of a checkout of tenstorrent/tt-buda; PyTorch, TensorFlow, transformers and loguru have to be there.
Files that fetch weights or pictures are left out, and so are cases that TT-Buda skips or expects to fail. `--write`
puts the table between its marks in the page; `--rows` reads rows that were printed before instead of running.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from ci.pybuda_programs.__main__ import ROOT, STAND_IN, without_folders

FETCHES = re.compile(
    r"from_pretrained|torch\.hub|hub\.load|download_model|pretrained=True|timm\.create_model|wget|urlopen|requests\.get"
    r"|third_party|confidential|load_dataset|model_zoo|weights=|gluon|mxnet|keras\.applications|pretrained_weights"
    r"|onnx\.load|from diffusers|segmentation_models|import cv2|PIL|hf_hub"
    r"|test\.model_demos"
)
"""What a test says that needs a download, or a file that is in no checkout."""
BEGIN, END = "<!-- cases: generated, see ci/pybuda_programs/cases.py -->", "<!-- end of cases -->"


def files_of(tests: Path) -> list[str]:
    """Returns the test files that need no download."""
    paths = sorted(tests.rglob("test_*.py"))
    return [str(path.relative_to(tests)) for path in paths if not FETCHES.search(path.read_text(encoding="utf-8"))]


def drawn(files: list[str], count: int, seed: int) -> Counter[str]:
    """Returns how many cases of each file are drawn."""
    generator = random.Random(seed)
    return Counter(generator.choice(files) for _ in range(count))


def rows_of(tests: Path, asked: Counter[str], seed: int, seconds: float) -> list[dict[str, Any]]:
    """Runs cases; returns a row for each, and prints it."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "BUDA_HOME": str(tests.parents[1]),
        "PYBUDA_FORCE_SEQUENTIAL": "1",
        "OPSCOPE_TIMEOUT_SCALE": "100000",
        "HF_HUB_OFFLINE": "1",
        "JAX_PLATFORMS": "cpu",
    }
    words = [str(tests), str(seed), str(seconds), *(f"{file}={count}" for file, count in sorted(asked.items()))]
    command = [sys.executable, "-W", "ignore", "-m", "opscope.pybuda", str(STAND_IN / "run_cases.py"), *words]
    rows = []
    with subprocess.Popen(command, cwd=tests.parents[1], env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if line.startswith("{"):
                rows.append(json.loads(line))
                print(line, end="", flush=True)
    return rows


def kind_of(why: str) -> str:
    """A reason without what differs from case to case."""
    why = without_folders(why).removeprefix("opscope.simulator.host.errors.")
    return re.sub(r"\d+(\.\d+)?", "n", why)[:110].replace("|", "\\|")


def table(rows: list[dict[str, Any]]) -> str:
    """Returns the counts, and what stops cases, the most frequent first."""
    ran = [row for row in rows if row["outcome"] not in ("skipped", "absent")]
    absent = sum(row["outcome"] == "absent" for row in rows)
    passed = sum(row["outcome"] == "passed" for row in ran)
    kinds = Counter(kind_of(row["why"]) for row in ran if row["outcome"] != "passed")
    said = f"; {absent} more are in files of which TT-Buda skips all, or expects them to fail" if absent else ""
    lines = [f"{passed} of {len(ran)} pass{said}. What stops the others:", "", "| cases | why |", "|---|---|"]
    return "\n".join([*lines, *(f"| {count} | {kind} |" for kind, count in kinds.most_common())])


def main(argv: list[str] | None = None) -> int:
    """Runs the cases, and writes the table. Returns 0."""
    parser = argparse.ArgumentParser(prog="python -m ci.pybuda_programs.cases", description=__doc__)
    parser.add_argument("tests", type=Path, help="folder that has test_user.py")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=90, help="for each case")
    parser.add_argument("--file", nargs="+", default=[], metavar="FILE=N", help="these files in place of drawn ones")
    parser.add_argument(
        "--rows", type=Path, nargs="+", help="rows that were printed; of a file, those of the last count"
    )
    parser.add_argument("--write", type=Path, help="the page")
    options = parser.parse_args(argv)
    if not options.tests.is_dir():
        parser.error(f"{options.tests}: expected a folder, got none")
    tests = options.tests.resolve()
    if options.rows:
        by_file: dict[str, list[dict[str, Any]]] = {}
        for path in options.rows:
            read = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
            by_file |= {file: [row for row in read if row["file"] == file] for file in {row["file"] for row in read}}
        rows = [row for file in sorted(by_file) for row in by_file[file]]
    else:
        named = Counter({one.rpartition("=")[0]: int(one.rpartition("=")[2]) for one in options.file})
        asked = named or drawn(files_of(tests), options.count, options.seed)
        rows = rows_of(tests, asked, options.seed, options.seconds)
    print(table(rows))
    if options.write:
        text = options.write.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        options.write.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

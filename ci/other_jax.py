"""Runs models with other releases of JAX on other interpreters: `python -m ci.other_jax PYTHON@JAX ...`.

`python -m ci.other_jax python3.12@0.12.0 python3.13@0.11.2 [--model NAME ...] [--folder DIR]` makes an environment for
each with this project and what it needs, runs the models op by op on XLA, and prints which verdicts differ from those
of this interpreter's own JAX. Exit code 1 if one differs, 2 for an interpreter or a release that cannot be had.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from ci.guides import copied

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("resnet50", "suite:ops")


class Verdict(NamedTuple):
    """What became of an op."""

    op_name: str
    status: str


def main() -> int:
    """Prints one line for each environment, and one for each op that ends otherwise there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="+", metavar="PYTHON@JAX")
    parser.add_argument("--model", action="append", help="the models (resnet50 and suite:ops)")
    parser.add_argument("--folder", type=Path, help="where environments and runs are kept (a temporary folder)")
    options = parser.parse_args()
    models = options.model or MODELS
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        own = verdicts(Path(sys.executable), folder / "own", models)
        print(f"this interpreter, jax {version('jax')}: {summary(own)}")
        differing = 0
        for place in options.places:
            python, _, release = place.rpartition("@")
            try:
                other = verdicts(
                    environment(python, release, folder / place.replace("/", "_")), folder / release, models
                )
            except (OSError, subprocess.CalledProcessError) as error:
                got = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
                print(f"ci.other_jax: expected {place} to install and run, got {got[-1] if got else error}; try a path")
                return 2
            print(f"{place}: {summary(other)}")
            for line in differences(own, other):
                print(f"  {line}")
            differing += any(other[op].status != own[op].status for op in own.keys() & other.keys())
    return 1 if differing else 0


def environment(python: str, release: str, folder: Path) -> Path:
    """The interpreter of an environment with this project as it is now and that release of JAX."""
    made = folder / "bin" / "python"
    install = [made, "-m", "pip", "--disable-pip-version-check", "install", "-qq", "-c", folder / "constraints.txt"]
    source = copied(folder / "source")
    if not (folder / "made").exists():
        lines = (ROOT / "constraints.txt").read_text().splitlines()
        pins = [line for line in lines if not re.match(r"jax(lib)?==", line)]
        subprocess.run([python, "-m", "venv", folder], check=True, capture_output=True, text=True)
        (folder / "constraints.txt").write_text("\n".join(pins) + "\n")
        packages = [source, f"jax=={release}", f"jaxlib=={release}"]
        subprocess.run([*install, *packages], check=True, capture_output=True, text=True)
        (folder / "made").touch()
    else:  # the project may be another by now
        again = [*install, "--no-deps", "--force-reinstall", source]
        subprocess.run(again, check=True, capture_output=True, text=True)
    return made


def verdicts(python: Path, folder: Path, models: Sequence[str]) -> Mapping[str, Verdict]:
    """Runs the models there; returns the verdict of each unique op by its id."""
    folder.mkdir(exist_ok=True)
    (folder / "pytest.ini").touch()  # its settings are not this project's
    words = [word for model in models for word in ("--model", model)]
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", "--op-by-op", *words, "--backend", "xla", "-q"]
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(folder / "cache")}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if ran.returncode not in (0, 1):
        raise subprocess.CalledProcessError(ran.returncode, command, stderr=ran.stdout + ran.stderr)
    newest = max((folder / ".opscope" / "runs").iterdir())
    command = [python, "-m", "opscope.harness.cli.main", "show", newest, "--json"]
    shown = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    run = json.loads(shown.stdout)
    for model in run["models"]["failed"]:
        print(f"  {model['model']}: {model['status']}, {model['error']}")
    return {test["op_id"]: Verdict(test["op_name"], test["status"]) for test in run["op_tests"]}


def summary(of: Mapping[str, Verdict]) -> str:
    """`943 unique ops = 941 success + 2 no_golden`."""
    counts = Counter(verdict.status for verdict in of.values())
    return f"{len(of)} unique ops = " + " + ".join(f"{count} {status}" for status, count in counts.most_common())


def differences(own: Mapping[str, Verdict], other: Mapping[str, Verdict]) -> Iterator[str]:
    """The ops that end otherwise, and by name how many only one of the two exports."""
    for op in sorted(own.keys() & other.keys()):
        if own[op].status != other[op].status:
            yield f"{own[op].op_name} [{op}]: {own[op].status} here, {other[op].status} there"
    for where, these, those in (("here", own, other), ("there", other, own)):
        only = Counter(these[op].op_name for op in these.keys() - those.keys())
        if only:
            yield f"only exported {where}: " + ", ".join(f"{count} {name}" for name, count in only.most_common())


if __name__ == "__main__":
    sys.exit(main())

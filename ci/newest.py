"""Runs a model of each framework and of each other compiler with the newest of everything: `python -m ci.newest`.

Each extra gets an environment of its own, with its packages and ours at the newest release that the index has, also
above the bounds of pyproject.toml; then a small model runs op by op there. Prints a row for each, with the releases
that are newer than those in constraints.txt. Exit code 1 if one breaks, 2 if there is no such extra.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from opscope.base.page import Page

ROOT = Path(__file__).resolve().parents[1]
RUNS = {
    "": ("--model", "mnist_mlp"),
    "flax": ("--model", "autoencoder_equinox"),
    "torch": ("--model", "gcn_torch"),
    "torchmlir": ("--model", "dlrm_torch", "--torch-by", "torch-mlir"),
    "keras": ("--model", "text_transformer_keras"),
    "tf": ("--model", "keyword_spotting_tf"),
    "onnx": ("--model", "espcn_onnx"),
    "tflite": ("--model", "mobilenet_v1_tflite"),
    "iree": ("--model", "mnist_mlp", "--backend", "iree"),
    "onnxruntime": ("--model", "mnist_mlp", "--backend", "onnxruntime"),
    "openvino": ("--model", "mnist_mlp", "--backend", "openvino"),
    "tvm": ("--model", "mnist_mlp", "--backend", "tvm"),
    "inductor": ("--model", "mnist_mlp", "--backend", "inductor"),
    "tt": ("--model", "mnist_mlp", "--backend", "tt"),
}
"""Extra (empty: none) -> what is run with it."""
_NAME = re.compile(r"[\w.-]+")


class Outcome(NamedTuple):
    """What became of an extra."""

    extra: str
    works: bool
    said: str
    newer: str
    """Packages that are newer than those in constraints.txt."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Says of each extra as it ends whether it works, and prints a table of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help="default: all, and none")
    extras = parser.parse_args(arguments).extras or list(RUNS)
    if strange := sorted(set(extras) - set(RUNS)):
        print(f"ci.newest: expected extras of {', '.join(filter(None, RUNS))}, got {strange[0]}", file=sys.stderr)
        return 2
    outcomes = []
    for extra in extras:
        print(f"{extra or 'no extra'} ...", file=sys.stderr, flush=True)
        outcomes.append(outcome := tried(extra))
        print(f"{'works' if outcome.works else 'does not work'}: {outcome.said}", file=sys.stderr, flush=True)
    Page().table(
        [("extra", ""), ("works", ""), ("the run said", ""), ("newer than in constraints.txt", "")],
        [[each.extra or "-", "yes" if each.works else "no", each.said, each.newer] for each in outcomes],
    )
    return int(not all(each.works for each in outcomes))


def tried(extra: str) -> Outcome:
    """Installs an extra's newest packages and runs its model."""
    with tempfile.TemporaryDirectory(prefix="newest-") as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "-q")
        for words in ((*pip, "--upgrade", *names_of(extra)), (*pip, "--no-deps", "-e", ROOT)):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                return Outcome(extra, False, last_line(done.stderr or done.stdout), "")
        words = (python, "-m", "pytest", *RUNS[extra], "--op-by-op", "--no-report", "-q")
        environment = {"HOME": name, "PATH": f"{folder / 'venv' / 'bin'}:/usr/bin:/bin"}
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        broken = what_broke(done.stdout) if done.returncode else ""
        said = broken or last_line(done.stdout or done.stderr)
        return Outcome(extra, done.returncode == 0, said, ", ".join(newer(python)))


def names_of(extra: str) -> list[str]:
    """The packages of an extra and our own, without their bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [*project["dependencies"], *(project["optional-dependencies"][extra] if extra else ())]
    plain = []
    for word in names:
        if match := re.match(r"opscope\[(.*)\]", word):
            plain += [name for each in match[1].split(",") for name in names_of(each)]
        else:
            name = _NAME.match(word)
            assert name is not None
            plain.append(name[0])
    return list(dict.fromkeys(plain))


def newer(python: Path) -> Iterator[str]:
    """What is installed at another release than constraints.txt says."""
    listed = subprocess.run(
        (python, "-m", "pip", "list", "--format", "json"), capture_output=True, text=True, check=True
    ).stdout
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    known = {canonical(name): release for name, _, release in (line.partition("==") for line in lines)}
    for package in json.loads(listed):
        release = known.get(canonical(package["name"]))
        if release is not None and release.split()[0] != package["version"]:
            yield f"{package['name']} {package['version']} ({release.split()[0]})"


def canonical(name: str) -> str:
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def what_broke(text: str) -> str:
    """The first cause of failure, or model that was not prepared, that the page of a run tells of; empty if none is."""
    found = re.search(r"^ +cause \w+: (.*)|^Models that were not prepared .*\n +(.*)", text, re.MULTILINE)
    return "" if found is None else found[1] or found[2]


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "nothing")


if __name__ == "__main__":
    sys.exit(main())

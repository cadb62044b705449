"""Runs a folder or zip of tt-mlir's own FileCheck tests with `opscope opt` as `ttmlir-opt`, and lists what fails.

    python -m opscope.compiler.tests.tt_mlir_suite ../shared/data/ttmlir_filecheck.zip

RUN lines are read as lit reads them (`%s`, `%t`, pipes, `2>&1`, `not`), and run in this process, where a start costs
nothing.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser, pattern_for_opts

from opscope.compiler.commands.compile import opt

_REFUSED = re.compile(r"^Error: [^:\n]*: (.*)$", re.MULTILINE)
_OPTION = re.compile(r"No such option[: ]*(.*)|pipeline '[^']*': expected (.*)")


@dataclass(frozen=True)
class Outcome:
    """One test: whether it passes, and if not, by which kind of cause and which words."""

    name: str
    passes: bool
    cause: str = ""
    """`option`, `refused`, `internal error` or `text`."""
    words: str = ""


def outcomes(folder: Path) -> Iterator[Outcome]:
    """Yields the outcome of each file below `folder`, in alphabetical order."""
    with tempfile.TemporaryDirectory() as scratch:
        for path in sorted(folder.rglob("*.mlir")):
            yield outcome(path, Path(scratch), str(path.relative_to(folder)))


def outcome(path: Path, scratch: Path, name: str) -> Outcome:
    """Runs the RUN lines of one file."""
    made = scratch / "made.mlir"
    made.unlink(missing_ok=True)
    source = path.read_text(encoding="utf-8").replace("\\\n", "")
    for line in re.findall(r"^\s*// RUN: (.*)$", source, re.MULTILINE):
        command = line.replace("%system_desc_path%", "").replace("%s", str(path)).replace("%t", str(made))
        code, output = run_line(command)
        if code:
            return Outcome(name, False, *_cause(output))
    return Outcome(name, True)


def run_line(line: str) -> tuple[int, str]:
    """Exit code of the last command of a pipe, and its output."""
    code, output = 0, ""
    for command in line.split("|"):
        words = shlex.split(command.replace("2>&1", ""))
        negated = words[0] == "not"
        words = words[negated:]
        if words[0] == "ttmlir-opt":
            result = CliRunner().invoke(opt, ["--custom-form", *words[1:]], input=output)
            code, output = result.exit_code, result.output
            code = int(not code) if negated else code
            if code:
                return code, output
        elif words[0] == "FileCheck":
            code, output = check(["filecheck", *words[1:]], output)
        else:
            return 1, f"expected ttmlir-opt or FileCheck, got {command}"
    return code, output


def check(words: list[str], text: str) -> tuple[int, str]:
    """Runs filecheck on its input file, or else on `text`."""
    said = io.StringIO()
    with redirect_stderr(said):
        options = parse_argv_options(words)
        name = getattr(options, "input_file", "-")
        read = Path(name).read_text(encoding="utf-8") if name != "-" else text
        with Path(options.match_filename).open(encoding="utf-8") as lines:
            matcher = Matcher(options, FInput(name, read), Parser(options, lines, *pattern_for_opts(options)))
            matcher.stderr = said
            return matcher.run(), said.getvalue()


def _cause(output: str) -> tuple[str, str]:
    if option := _OPTION.search(output):
        return "option", " ".join(option.group(0).split())[:200]
    if "internal error" in output or "Traceback" in output:
        return "internal error", " ".join(output.split())[-300:]
    if refused := _REFUSED.search(output):
        return "refused", refused.group(1)[:300]
    if "failed to legalize" in output:
        return "refused", " ".join(output.split())[:300]
    return "text", "\n".join(line for line in output.splitlines() if line.strip())[:600]


def main(arguments: list[str]) -> int:
    """Prints what fails, by cause and name, and the counts."""
    path = Path(arguments[0])
    with tempfile.TemporaryDirectory() as unpacked:
        if path.suffix == ".zip":
            zipfile.ZipFile(path).extractall(unpacked)
            path = Path(unpacked)
        done = list(outcomes(path))
    for each in sorted((o for o in done if not o.passes), key=lambda o: (o.cause, o.name)):
        print(f"{each.cause}: {each.name}: {each.words}")
    causes = Counter(o.cause for o in done if not o.passes)
    print(f"{sum(o.passes for o in done)} of {len(done)} pass; " + ", ".join(f"{n} {c}" for c, n in causes.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

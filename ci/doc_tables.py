"""Tables of the documentation that stand in the code: `make tables` writes them into their pages.

A table stands between two comments, `<!-- NAME: generated, see ci/doc_tables.py -->` and `<!-- end of NAME -->`. A new
one is a function in TABLES, whose rows come from where the code decides.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from opscope.base.labels import LABELS
from opscope.base.statuses import EFFECTS, STATUSES, Word
from opscope.compiler.buda.balancer.policies import POLICIES
from opscope.compiler.depths import STEPS, CompileDepth
from opscope.compiler.options import CompileOptions
from opscope.compiler.pipelines.pipeline import ttir_passes, ttnn_passes
from opscope.harness.backends.commands.description import KEYS, PLACEHOLDERS, STAGE_KEYS
from opscope.harness.backends.compiler_options import TT_MLIR
from opscope.harness.explain.hypotheses.rounding import block_float
from opscope.harness.explain.hypotheses.table import HYPOTHESES
from opscope.harness.record.flags import WORDS
from opscope.harness.record.workflows import WORKFLOWS
from opscope.reports.nightly.config import PROBLEMS
from opscope.simulator.faults.fault import FORMS

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "pyproject.toml"
BEGIN, END = "<!-- {}: generated, see ci/doc_tables.py -->", "<!-- end of {} -->"


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown; `head` has the names of its columns, parted by bars. Bars in cells are escaped."""
    columns = [name.strip() for name in head.split("|")]
    lines = [["---"] * len(columns), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return (
        "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, *lines))
        .replace("| --- ", "|---")
        .replace("--- |", "---|")
    )


def sentences(of: object) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(of) or "").partition("\n\n")[0].split())


def words(head: str, meanings: Mapping[str, Word]) -> str:
    """A row for each status or label."""
    return table(f"{head} | meaning", ((f"`{word}`", about.meaning) for word, about in meanings.items()))


def effects() -> str:
    """A row for each status: what its ops do to their run."""
    head = "status | exit code | gate | counts | unblock | diff | JUnit | CSV: `is_failure`"
    return table(
        head,
        (
            (f"`{status}`", str(e.exit_code), e.gate, "its own term", e.unblock, f"`{e.diff}`", e.junit, e.csv)
            for status, e in EFFECTS.items()
        ),
    )


def flags() -> str:
    """A row for each flag of a right result."""
    return table("flag | meaning", ((f"`{flag}`", meaning) for flag, meaning in WORDS.items()))


def depths() -> str:
    """A row for each of TT-Buda's compile depths."""
    run = {
        CompileDepth.BACKEND_GOLDEN_VERIFY: "Runs it: bit for bit the unplaced graph.",
        CompileDepth.FULL: "The numbers are right.",
    }
    steps = [(depth.name, sentences(step)) for depth, step in STEPS.items()]
    return table("depth | what is done", [*steps, *((depth.name, done) for depth, done in run.items())])


def passes() -> str:
    """A row for each pass of the usual pipeline, in its order, with the level from which it runs."""
    options = CompileOptions(optimization_level=2, amp_level=1, argument_types=("input",))
    levels = [
        {made.name for made in ttnn_passes("n150", replace(options, optimization_level=level))} for level in (0, 1)
    ]
    rows: dict[str, tuple[str, str, str]] = {}
    for made in ttir_passes("fallback"):
        rows[made.name] = ("`stablehlo-to-ttir`", f"`{made.name}`", sentences(type(made)))
    for made in ttnn_passes("n150", options):
        level = next((level for level in (0, 1) if made.name in levels[level]), 2)
        where = "`ttir-to-ttnn`" + (f" from level {level}" if level else "")
        rows.setdefault(made.name, (where, f"`{made.name}`", OF_XDSL.get(made.name) or sentences(type(made))))
    return table("stage | pass | what it does", rows.values())


OF_XDSL = {
    "canonicalize": "Removes moves without effect, joins consecutive ones, folds those of constants.",
    "cse": "Computes equal values once.",
    "dce": "Drops unused values.",
}
"""Pass of xDSL -> what it does here."""


def hypotheses() -> str:
    """A row for each hypothesis about wrong numbers, by the function that tests it."""
    tested: dict[str, list[str]] = {}
    for name, fits in HYPOTHESES.items():
        tested.setdefault(sentences(block_float if "block" in name else fits), []).append(name)
    return table("hypothesis | what it says", ((", ".join(names), said) for said, names in tested.items()))


def workflows() -> str:
    """A row for each workflow."""
    return table(
        "workflow | each row of the run is | golden",
        ((f"`{name}:N`" if row.size else f"`{name}`", row.rows, row.golden) for name, row in WORKFLOWS.items()),
    )


def keys() -> str:
    """A row for each key of a compiler's YAML file."""
    of_stages = {f"stages[].{name}": about for name, about in STAGE_KEYS.items()}
    rows = {"stages": KEYS["stages"], **of_stages, **KEYS}
    return table("key | meaning | default", ((f"`{name}`", *about) for name, about in rows.items()))


def placeholders() -> str:
    """A row for each placeholder of a command."""
    rows = {**PLACEHOLDERS, "env:NAME": "an environment variable"}
    return table("placeholder | stands for", ((f"`{{{name}}}`", said) for name, said in rows.items()))


def compiler_options() -> str:
    """A row for each option of tt-mlir's compiler that has no flag here."""
    rows = (option for option in TT_MLIR if not option.instead)
    return table(
        "option | values | what it says",
        ((f"`{row.name}`", ", ".join(f"`{value}`" for value in row.values), row.meaning) for row in rows),
    )


def policies() -> str:
    """A row for each of TT-Buda's policies."""
    return table("policy | of an op's models", ((f"`{name}`", sentences(made)) for name, made in POLICIES.items()))


def policy() -> str:
    """A row for each problem of a night, with what it does by default."""
    return table("policy | default | applies if", ((f"`{name}`", *about) for name, about in PROBLEMS.items()))


def faults() -> str:
    """A row for each kind of hardware fault."""
    return table("fault | what it does", ((f"`{form}`", does) for form, does in FORMS.values()))


def reasons(project: str) -> Iterator[tuple[str, list[str], str]]:
    """Extra (empty: what a run needs), requirements and what they are for, as pyproject.toml says it.

    Indented comments above a requirement say it, also for those below it that have none. Raises ValueError for a
    requirement without one.
    """
    extra, reason, members = "", "", list[str]()
    for line in project.partition("\ndependencies = [")[2].partition("\n[project.scripts]")[0].splitlines():
        if name := re.match(r"([\w-]+) = \[", line):
            if members:
                yield extra, members, reason
            extra, reason, members = name[1], "", []
        if comment := re.match(r"    # ?(.*)", line):
            if members:
                yield extra, members, reason
                reason, members = "", []
            reason = f"{reason} {comment[1]}".strip()
        elif requirement := re.match(r'    "([^"]+)",', line):
            if not reason:
                raise ValueError(
                    f"pyproject.toml: expected what {requirement[1]} is for, got none; try a comment above it"
                )
            members.append(requirement[1])
    if members:
        yield extra, members, reason


def _spelled(requirements: Iterable[str]) -> str:
    return ", ".join(f"`{requirement}`" for requirement in requirements)


def dependencies() -> str:
    """A row for what a run needs."""
    rows = (row for row in reasons(PROJECT.read_text(encoding="utf-8")) if not row[0])
    return table("dependency | what for, and why this one", ((_spelled(names), said) for _, names, said in rows))


def extras() -> str:
    """A row for what each extra brings."""
    rows, last = list[tuple[str, str, str]](), ""
    for extra, names, said in reasons(PROJECT.read_text(encoding="utf-8")):
        if extra:
            rows.append((f"`{extra}`" if extra != last else "", _spelled(names), said))
            last = extra
    return table("extra | dependency | what for", rows)


TABLES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "backends.md": {"keys": keys, "placeholders": placeholders, "options": compiler_options},
    "compiler.md": {"passes": passes},
    "debugging.md": {"faults": faults},
    "dependencies.md": {"dependencies": dependencies, "extras": extras},
    "glossary.md": {"statuses": lambda: words("status", STATUSES), "labels": lambda: words("label", LABELS)},
    "netlist.md": {"depths": depths},
    "nightly.md": {"policy": policy},
    "planning.md": {"policies": policies},
    "results.md": {"flags": flags},
    "triage.md": {"hypotheses": hypotheses},
    "verdicts.md": {"effects": effects},
    "workflows.md": {"workflows": workflows},
}
"""Page -> name -> what makes its table."""


def filled(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """A page with its tables made again. Raises ValueError if it lacks the place of one."""
    for name, made in tables.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, marker, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        if not (marker and ended):
            raise ValueError(f"the page: expected {begin} and {end}, got no such place; try git checkout docs")
        text = f"{before}{begin}\n{made()}\n{end}{after}"
    return text


def main() -> int:
    """Writes all pages that have such tables."""
    for name, tables in TABLES.items():
        page = ROOT / "docs" / name
        page.write_text(filled(page.read_text(encoding="utf-8"), tables), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The text of an issue about a failure, for whoever maintains the compiler: `opscope repro ID --as-issue`.

It is made of a repro folder alone: what fails and how, the smallest form that `opscope reduce` found beside it,
versions, the commands that show it, and who needs the op. `issue.json` holds what only the run knows of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from opscope.base import regular_file
from opscope.base.document.as_markdown import rendered
from opscope.base.document.nodes import Column, Table
from opscope.base.inner_path import inside
from opscope.base.plugins import plugins
from opscope.base.visible_text import cut, one_line, visible
from opscope.harness.record import artifacts
from opscope.harness.record.explanation import Explanation
from opscope.harness.record.optest import board_of, shapes_text
from opscope.harness.record.origin import PACKAGES
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage, Status
from opscope.harness.triage import bundle, bundle_texts, issue_facts
from opscope.harness.triage.issue_facts import Facts

FILE = "issue.md"
HISTORY = "opscope.op_history"
"""Entry points that know since when an op fails: `(op id, database or None) -> list of dicts`."""
TITLE = 80
"""Characters of the title."""
WORST = 5
"""Rows of the table of values."""
LONGEST = 12_000
"""Characters of a module above which the issue names its file instead."""
PROGRAMS = ".py"
"""Files that are shown; all others are attached."""
MODELS = 10
"""Models that are named."""
_RESULT = re.compile(r"^result \d+: ")
_PLAIN_NAMES = {
    Status.COMPILE_FAILED: "does not compile",
    Status.RUN_FAILED: "does not run",
    Status.WRONG_RESULT: "gives wrong numbers",
    Status.CRASHED: "ends the process",
    Status.TIMEOUT: "does not end",
}
_NOT_VERSIONS = frozenset({"pydantic", "pytest", "pytest-xdist", "flatbuffers", "xdsl", "ml_dtypes"})
"""Packages of a run's versions that say nothing to whoever maintains a compiler."""


def write(folder: Path, *others: Path, known: Iterable[str] = ()) -> str:
    """Writes issue.md into a repro folder and returns it.

    The smallest form is that of a folder `reduced` beside this one or beside one of `others`, if its failure is the
    same. `known`: lines of what stands outside the folder (`worst`, `since`). Raises InputError for what is no repro
    folder, OSError.
    """
    text = "\n".join(_lines(folder, _reduced([folder, *others]), known)) + "\n"
    inside(folder, FILE).write_text(text, encoding="utf-8")
    return text


def _reduced(folders: list[Path]) -> Path | None:
    """The folder of the smallest form of the failure in the first of `folders`; None if there is none."""
    own = bundle.read(folders[0])
    for folder in folders:
        place = folder.absolute().with_name(artifacts.REDUCED)
        if place == folders[0].absolute() or not (place / bundle.FILE).is_file():
            continue
        small = bundle.read(place)
        same = small.failure.model_copy(update={"message": own.failure.message, "stability": own.failure.stability})
        if same == own.failure and small.options.backend.rpartition("/")[2] == own.options.backend.rpartition("/")[2]:
            return place
    return None


def _lines(folder: Path, reduced: Path | None, known: Iterable[str]) -> Iterator[str]:
    repro, facts = bundle.read(folder), issue_facts.read(folder)
    failure, row = repro.failure, repro.row
    stage = f" at {failure.stage}" if failure.stage else ""
    what = _PLAIN_NAMES.get(failure.status, str(failure.status))
    where = "" if failure.status is Status.WRONG_RESULT else stage
    title = f"{row.op_name} ({shapes_text(row.inputs)}) {what}{where}: {_RESULT.sub('', one_line(failure.message))}"
    yield f"# {cut(title, TITLE)}"
    yield ""
    kind = f" ({failure.crash_kind})" if failure.crash_kind else ""
    yield f"`{row.op_name}` {what}{stage}{kind} on {_board(repro, facts)}:"
    yield from ("", "```", visible(failure.message or failure.crash_kind or str(failure.status)), "```", "")
    yield from known
    yield from _caveats(repro, facts)
    yield from _smallest(folder, reduced, repro)
    yield from ("## Versions and options", "")
    yield from (f"- {line}" for line in _versions(repro, facts))
    yield from ("", "## To reproduce", "")
    yield from _commands(reduced or folder)
    yield from ("## Who needs it", "", _needs(repro, facts), "")
    if facts.build:
        yield from (one_line(facts.build), "")


def worst(explained: Explanation | None) -> Iterator[str]:
    """The values of the first wrong result that are most wrong, as a table."""
    columns = [Column("element"), Column("place"), Column("expected"), Column("got")]
    for result in explained.results[:1] if explained is not None else ():
        values = [
            (f"({', '.join(map(str, each.index))})", each.place, each.expected, each.got)
            for each in result.worst[:WORST]
        ]
        yield from (rendered(Table(columns, values)), "") if values else ()


def since(op_id: str, database: str | None) -> Iterator[str]:
    """Since when the op fails, by which commits and whose, and who owns it, as a results database knows."""
    for point in plugins(HISTORY):
        for row in point.load()(op_id, database):
            commits = f", commits {row['range']}" if row["range"] else ""
            by = f" by {', '.join(row['authors'])}" if row["authors"] else ""
            page = f": {row['url']}" if row["url"] else ""
            yield f"- since {row['night']} on {row['on']}{commits}{by}{page}"
            if row["owner"]:
                yield f"- owner: {row['owner']}"
    yield ""


def _board(repro: bundle.Repro, facts: Facts) -> str:
    board = repro.options.arch
    if facts.card_type.startswith("sim-"):
        return (
            f"{board} (no card: compiled for its description)" if _of_others(repro, facts) else f"{board} (simulated)"
        )
    return facts.card_type or board


def _of_others(repro: bundle.Repro, facts: Facts) -> bool:
    """Whether the compiler is another project's: its backend says which versions it consists of, or whose it is."""
    return bool(repro.versions.keys() - {*PACKAGES} or facts.compiled_by or facts.build)


def _caveats(repro: bundle.Repro, facts: Facts) -> Iterator[str]:
    """Whose result it is, where another program than the compiler's own runtime had it."""
    simulated = facts.card_type.startswith("sim-") and _of_others(repro, facts)
    if simulated and repro.failure.stage is Stage.RUN:
        yield from ("It compiles. What stops here is opscope's simulator, so this may be no fault of the compiler.", "")
    elif simulated and facts.ran_on == "simulator":
        yield "The numbers are those of the compiled program on opscope's simulator; nothing ran on a card."
        yield ""
    for words in facts.narrowed:
        yield from (f"The compiled program is narrower than the op's types, unasked: `{one_line(words)}`.", "")


def _smallest(folder: Path, reduced: Path | None, repro: bundle.Repro) -> Iterator[str]:
    """The module to look at."""
    yield f"## {'Smallest form that fails in this way' if reduced else 'Module'}"
    yield ""
    text = regular_file.read_text((reduced or folder) / bundle.TEXT)
    if len(text) > LONGEST:
        yield f"Attached as `{bundle.TEXT}` ({len(text):,} characters)."
    else:
        yield from ("```mlir", visible(text.rstrip()), "```")
    yield ""
    if reduced is not None:
        place = next((f" at `{one_line(use.location)}`" for use in repro.row.uses if use.location), "")
        yield f"Found by `opscope reduce`, from `{repro.row.op_name}` ({shapes_text(repro.row.inputs)}){place}."
        yield ""


def _versions(repro: bundle.Repro, facts: Facts) -> Iterator[str]:
    """Build, packages, board and the options that are not the usual ones."""
    if facts.compiled_by:
        yield f"compiled by {one_line(facts.compiled_by)}"
    for name, version in repro.versions.items():
        if name not in _NOT_VERSIONS:
            yield f"{one_line(name)}: {one_line(version)}"
    if repro.backend_revision and not _of_others(repro, facts):
        yield f"revision {one_line(repro.backend_revision)}"
    board = board_of({facts.card_type}, repro.options.arch)
    yield f"backend `{one_line(repro.options.backend)}`{f', board {board}' if board else ''}"
    usual = ResultOptions().model_dump(mode="json")
    chosen = ResultOptions.of(repro.options.model_dump()).model_dump(mode="json")
    others = [
        f"{name}={one_line(str(value))}"
        for name, value in chosen.items()
        if value != usual.get(name) and name != "arch"
    ]
    yield f"options: {', '.join(others) or 'the usual ones'}"


def _commands(folder: Path) -> Iterator[str]:
    """What shows it: the backend's own lines with their program, and opscope's."""
    script = folder / bundle_texts.ALONE
    if script.is_file():
        lines = regular_file.read_text(script).splitlines()[2:]
        names = issue_facts.read(folder).files
        attached = (bundle.MODULE, *(name for name in names if not name.endswith(PROGRAMS)))
        yield f"Without opscope, beside {', '.join(f'`{one_line(name)}`' for name in attached)} (attached):"
        yield from ("", "```sh", *map(visible, lines), "```", "")
        for name in names:
            if name.endswith(PROGRAMS):
                text = visible(regular_file.read_text(inside(folder, name)).rstrip())
                yield from (f"`{one_line(name)}`:", "", "```python", text, "```", "")
    yield "With opscope, in the attached folder: `./run.sh`"
    yield ""


def _needs(repro: bundle.Repro, facts: Facts) -> str:
    """How many models and uses need the op, in the run."""
    models = [one_line(model) for model in facts.models if model != bundle.MODEL]
    if not models:
        return f"The op is one of run `{repro.run_id}`." if repro.run_id else "A module of its own."
    named = ", ".join(f"`{model}`" for model in models[:MODELS])
    more = f" and {len(models) - MODELS} more" if len(models) > MODELS else ""
    uses = f"{facts.uses} use{'s' * (facts.uses != 1)}"
    return f"{uses} in {len(models)} model{'s' * (len(models) != 1)} of this run: {named}{more}."

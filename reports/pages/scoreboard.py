"""The scoreboard: compilers and their releases beside op families and models, as a folder of static pages.

    index.html        one cell for each family or model and release: supported, wrong, refused, crashed
    NAME.html         the ops of one release that are not supported: reason, repro, since which release
    scoreboard.json   the same numbers and ops
    badges/NAME.svg   one for each release

Made from the nights of releases (opscope history), and the newest night of every other series. Equal databases give
equal bytes: nothing depends on the clock or the machine.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from opscope.base.op_families import op_family
from opscope.base.statuses import RIGHT
from opscope.base.visible_text import visible
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import release_in
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.run_folders import file_name
from opscope.harness.record.stages import Status
from opscope.harness.record.store import write_whole
from opscope.harness.record.workflows import SPLIT
from opscope.reports.compare.night_views import night_view
from opscope.reports.compare.outcomes import Outcome, RunView
from opscope.reports.database.newest import begun
from opscope.reports.database.rows import RELEASE
from opscope.reports.database.schema import NIGHTS
from opscope.reports.database.schema_nights import NIGHT_SERIES
from opscope.reports.records.demo_data import SAID

ASSETS = Path(__file__).parent / "assets"
INDEX, DATA, BADGES = "index.html", "scoreboard.json", "badges"
WORDS = {
    "supported": "compiled, and right as far as it was run",
    "wrong": "ran, and computed wrong numbers",
    "refused": "a stage of the compiler, or the run, gave an error",
    "crashed": "ended its process, or did not end in time",
}
"""How an op ended on the scoreboard, and what that means."""
_ENDINGS = {
    **dict.fromkeys(RIGHT, "supported"),
    Status.WRONG_RESULT: "wrong",
    Status.COMPILE_FAILED: "refused",
    Status.RUN_FAILED: "refused",
    Status.CRASHED: "crashed",
    Status.TIMEOUT: "crashed",
}
"""Status -> word. Ops of other statuses were not tried, or say nothing of the compiler."""


@dataclass(frozen=True)
class Failure:
    """An op that is not supported in a release."""

    op_id: str
    op_name: str
    types: str
    family: str
    models: tuple[str, ...]
    word: str
    stage: str
    reason: str
    since: str
    """The first release of an unbroken row in which it is not supported."""
    always: bool
    """Whether there is no release before that one in which it was tried."""
    repro: str


@dataclass(frozen=True)
class Column:
    """One release of a compiler, or the newest night of a series that has no releases."""

    compiler: str
    """Backend and board, and the options that are not the usual ones: `tt n150`."""
    release: str
    """`0.1.2`, or the date of the night."""
    page: str
    """Its file, without the suffix."""
    rows: Mapping[str, Mapping[str, int]]
    """`family eltwise` or `model resnet50` -> word -> ops."""
    all: Mapping[str, int]
    failures: tuple[Failure, ...] = field(repr=False)

    @property
    def tried(self) -> int:
        """The ops that were tried."""
        return sum(self.all.values())


@dataclass(frozen=True)
class Scoreboard:
    """All of it."""

    columns: tuple[Column, ...]
    demo: bool = False
    """Whether any of its nights is the demo's."""

    @property
    def compilers(self) -> list[tuple[str, list[Column]]]:
        """Each compiler with its releases, the oldest first."""
        names = dict.fromkeys(column.compiler for column in self.columns)
        return [(name, [column for column in self.columns if column.compiler == name]) for name in names]

    def rows(self, kind: str) -> list[str]:
        """The families or the models of any column."""
        names = {row.partition(" ")[2] for column in self.columns for row in column.rows if row.startswith(f"{kind} ")}
        return sorted(names)

    def as_json(self) -> dict[str, Any]:
        """The scoreboard as JSON."""
        columns = [
            {name: getattr(column, name) for name in ("compiler", "release", "rows")}
            | {"ops": column.all, "failures": [vars(failure) for failure in column.failures]}
            for column in self.columns
        ]
        return {"words": WORDS, "columns": columns}


# --- what it shows


def scoreboard(connection: sa.Connection) -> Scoreboard:
    """The scoreboard of a results database. Raises InputError where it has no night."""
    columns: list[Column] = []
    for of_release in _series(connection):
        history: list[Mapping[str, Outcome]] = []
        names: list[str] = []
        for release, views in of_release:
            ops = {op_id: op for view in views for op_id, op in view.ops.items() if op.status in _ENDINGS}
            history.append(ops)
            names.append(release)
            columns.append(_column(views, release, ops, names, history))
    if not columns:
        raise InputError("opscope scoreboard", "a night", "none", "opscope history --backend tt --model suite:ops")
    made_up = connection.scalar(sa.select(NIGHTS.c.night_id).where(NIGHTS.c.demo).limit(1))
    return Scoreboard(tuple(columns), made_up is not None)


def _series(connection: sa.Connection) -> Iterator[list[tuple[str, list[RunView]]]]:
    """Each series: its releases in their order, each with its nights; of other series the newest night alone."""
    query = sa.select(NIGHT_SERIES.c.series, NIGHT_SERIES.c.night_id, NIGHTS.c.release, NIGHTS.c.label, NIGHTS.c.kind)
    query = query.join(NIGHTS, NIGHTS.c.night_id == NIGHT_SERIES.c.night_id)
    query = query.where(NIGHTS.c.kind.in_(("night", RELEASE)), NIGHT_SERIES.c.compiler != "")
    query = query.where(begun(NIGHTS.c.night_id))
    nights: dict[str, dict[str, list[str]]] = {}
    ordered = query.order_by(NIGHT_SERIES.c.series, NIGHT_SERIES.c.started, NIGHT_SERIES.c.night_id)
    for night in connection.execute(ordered).all():
        of_series = nights.setdefault(night.series, {})
        if night.kind != RELEASE:
            of_series.clear()
        of_series.setdefault(night.release or night.label[:10], []).append(night.night_id)
    for series, releases in nights.items():
        yield [
            (release, [night_view(connection, night_id, series) for night_id in of_release])
            for release, of_release in releases.items()
        ]


def _column(
    views: Sequence[RunView],
    release: str,
    ops: Mapping[str, Outcome],
    names: Sequence[str],
    history: Sequence[Mapping[str, Outcome]],
) -> Column:
    """One column. `history`: the ops of all releases of the series up to this one, which are called `names`."""
    view = views[0]
    compiler = view.name.replace(f"@{release_in(view.backend)}", "", 1) if release_in(view.backend) else view.name
    rows: dict[str, Counter[str]] = {}
    failures = []
    for op_id in sorted(ops, key=lambda op_id: (ops[op_id].op_name, op_id)):
        op = ops[op_id]
        word = _ENDINGS[op.status]
        family, models = op_family(op.op_name), tuple(sorted(op.uses_of))
        for row in (f"family {family}", *(f"model {model}" for model in models)):
            rows.setdefault(row, Counter())[word] += 1
        if word != "supported":
            since, always = _since(op_id, names, history)
            repro = _repro(op_id, next((each for each in views if op_id in each.ops), view), models)
            stage = op.failed_stage or op.stage
            text = (op.op_name, op.types, family, models, word, stage, op.error or op.crash, since, always, repro)
            failures.append(Failure(op_id, *text))
    all_words = Counter(_ENDINGS[op.status] for op in ops.values())
    return Column(
        compiler,
        release,
        file_name(f"{compiler}-{release}".replace(" ", "-")),
        {row: _in_order(rows[row]) for row in sorted(rows)},
        _in_order(all_words),
        tuple(failures),
    )


def _in_order(words: Mapping[str, int]) -> dict[str, int]:
    return {word: words.get(word, 0) for word in WORDS}


def _since(op_id: str, names: Sequence[str], history: Sequence[Mapping[str, Outcome]]) -> tuple[str, bool]:
    """Since which release an op is not supported, and whether none before that one says otherwise."""
    since = names[-1]
    for name, ops in zip(reversed(names), reversed(history), strict=True):
        if op_id not in ops:
            continue
        if ops[op_id].right:
            return since, False
        since = name
    return since, True


def _repro(op_id: str, view: RunView, models: Sequence[str]) -> str:
    """A command that needs no run of before: it makes the model's ops and runs this one, by the night's options."""
    given = view.origin.get("options", {})
    options = ResultOptions.of({**given, "arch": view.arch})
    usual = ResultOptions(arch=view.arch, workflow=options.workflow)  # with what the workflow brings
    words = ["pytest", "--op-by-op", *(["--model", _asked(models[0], given)] if models else [])]
    words += ["--backend", view.backend, *(["--arch", view.arch] if view.board else [])]
    words += ["--workflow", options.workflow] if options.workflow != SPLIT else []
    words += [*options.flags(usual), "-k", op_id]
    return shlex.join(words)


def _asked(model: str, options: Mapping[str, Any]) -> str:
    """What names a model on the command line: `net.py:net` of `net.net`, which no command knows."""
    for word in options.get("models") or ():
        file, _, entry = str(word).partition(":")
        if model == ".".join(filter(None, (Path(file).stem, entry))):
            return str(word)
    return model


# --- its files


def write(board: Scoreboard, folder: Path) -> list[Path]:
    """Writes the pages into a folder, and returns the files. Raises InputError where it cannot be written."""
    from opscope.reports.pages.compiled_templates import environment

    templates = environment(ASSETS)
    css = (ASSETS / "scoreboard.css").read_text(encoding="utf-8")
    shared = {"board": board, "words": WORDS, "css": css, "demo_said": SAID}
    files = {INDEX: templates.get_template("scoreboard.html.j2").render(shared)}
    release_page = templates.get_template("scoreboard_release.html.j2")
    for column in board.columns:
        files[f"{column.page}.html"] = release_page.render({**shared, "column": column})
        files[f"{BADGES}/{column.page}.svg"] = badge(f"{column.compiler} {column.release}", column)
    files[DATA] = json.dumps(board.as_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return [write_whole(folder / name, text, "a writable folder") for name, text in sorted(files.items())]


_BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{name}: {text}">
<title>{name}: {text}</title>
<rect width="{left}" height="20" fill="#3b4554"/><rect x="{left}" width="{right}" height="20" fill="{colour}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{left_middle}" y="14">{name}</text><text x="{right_middle}" y="14">{text}</text>
</g>
</svg>
"""
_CHARACTER = 7
"""Pixels of a character of a badge."""
GOOD, FAIR, POOR = "#1f7a55", "#8a6212", "#b32d40"
"""From 95 % supported on, from 80 % on, below."""


def badge(name: str, column: Column) -> str:
    """An image with a column's name, and how many of its ops are supported."""
    from markupsafe import escape

    text = f"{column.all['supported']} of {column.tried} ops"
    share = column.all["supported"] / column.tried if column.tried else 0.0
    left, right = (10 + _CHARACTER * len(words) for words in (name, text))
    return _BADGE.format(
        width=left + right,
        left=left,
        right=right,
        left_middle=left // 2,
        right_middle=left + right // 2,
        colour=GOOD if share >= 0.95 else FAIR if share >= 0.8 else POOR,
        name=escape(visible(name)),
        text=escape(text),
    )

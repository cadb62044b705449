"""The command that a person would type after a run: a row for each way in which runs end."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.harness.page import failing_ops
from opscope.harness.page.failing_ops import with_short_paths
from opscope.harness.record.earlier_run import earlier_run, shard, shares_beside
from opscope.harness.record.errors import PYTEST, InputError, resuming
from opscope.harness.record.run_folders import NIGHT_FILE, named, size_of_runs
from opscope.harness.record.selection import kills, none_selected
from opscope.harness.record.store import SELECTION_FILE, read_run

if TYPE_CHECKING:
    from opscope.harness.page.summary import Run
    from opscope.harness.record.records import RunRecord

MOST_BYTES = 10**9
"""Bytes of all run folders above which the page names what removes old ones."""

JOINED = "joined"
"""The folder beside its shares that a whole sweep goes into."""

THIS_RUN_ALONE = ("-k", "-m", "--ops", "--run-dir")
"""Flags, each with a word, that leave ops of the models out, or say where this run is."""


def lines(run: Run) -> dict[str, str]:
    """What a run's page ends with: `clean` where old runs hold much, and `next`, the command itself."""
    said = {}
    if (size := size_of_runs(run.folder)) > MOST_BYTES:
        said["clean"] = f"opscope clean: the runs in .opscope/runs hold about {size / 1e9:.1f} GB"
    if command := next((command for ending in ENDINGS if (command := ending(run))), ""):
        said["next"] = command
    return said


def _cut_off(run: Run) -> str:
    """Out of budget, or killed: what did not run is run."""
    killed = kills([*run.tests, *run.whole], run.header.failed)
    return _resumed(run) if killed or run.record.outcome == "out_of_budget" else ""


def _failing(run: Run) -> str:
    """Ops failed, after which the run may have been stopped, as by `-x`: the first of them is shown."""
    causes = failing_ops.failures([test for test in run.tests if test.fails_run], most=1).causes
    return f"opscope show {causes[0].ops[0].op_id}" if causes else ""


def _interrupted(run: Run) -> str:
    """Stopped before an op failed: it goes on."""
    return _resumed(run) if run.record.outcome == "interrupted" else ""


def _unprepared(run: Run) -> str:
    """Models could not be prepared, which the page says why of: once that is mended, the same again."""
    return shlex.join(_typed(run)) if run.header.failed else ""


def _wrong_as_one(run: Run) -> str:
    """Models are wrong as one program, and right op by op: where in it the error jumps is looked for."""
    if not any(test.fails_run for test in run.whole):
        return ""
    words = ["--op-by-op" if word == "--op-by-op-on-fail" else word for word in _typed(run)]
    return shlex.join([*words, "--workflow", "full"]) if words else ""


def _nothing_selected(run: Run) -> str:
    """All ops were left out: their list says which there are."""
    return f"{PYTEST} --run-dir {_quoted(run)} --collect-only -q" if none_selected(run.tests) else ""


def _share(run: Run) -> str:
    """A share of a sweep: the next one that does not lie beside it is run; the last one's are joined."""
    number, of = shard(run.record)
    if of == 1 or "run" not in run.places:
        return ""
    shares = shares_beside(Path(run.places["run"]), run.record)
    if missing := next((other for other in range(1, of + 1) if other not in shares), None):
        return shlex.join(_of_share(_typed(run), f"{number}/{of}", f"{missing}/{of}"))
    if ((first := shares[1].absolute()).parent / JOINED).exists():
        return ""
    folders = [shares[each] for each in range(1, of + 1)]
    *names, into = (
        shlex.quote(with_short_paths(str(folder), run.folder)) for folder in (*folders, first.with_name(JOINED))
    )
    return f"opscope merge {' '.join(names)} --into {into}"


def _of_share(words: Sequence[str], this: str, other: str) -> Iterator[str]:
    """The words of a share's command line for another share, also of its folder if that has the number in its name."""
    number, another = this.partition("/")[0], other.partition("/")[0]
    for before, word in zip(("", *words), words, strict=False):
        option, sign, value = word.rpartition("=")
        if before == "--shard" or option == "--shard":
            yield f"{option}{sign}{value.replace(this, other)}"
        elif before == "--run-dir" or option == "--run-dir":
            yield f"{option}{sign}{another.join(value.rsplit(number, 1))}"
        else:
            yield word


def _selected(run: Run) -> str:
    """Of ops that were chosen all are right: the models' other ops are run, by the same line or that of the run whose
    ops ran again."""
    if "run" not in run.places or not (Path(run.places["run"]) / SELECTION_FILE).is_file():
        return ""
    words = _typed(run)
    if run.answers["run"]:
        earlier, words = named(run.answers["run"], run.folder), ()
        with contextlib.suppress(InputError):
            words = () if earlier is None else _words(read_run(earlier))
    if any(word.startswith("--resume") for word in words):
        return ""
    pairs = zip(("", *words), words, strict=False)
    return shlex.join(word for before, word in pairs if before not in THIS_RUN_ALONE and not _is_of_this_run(word))


def _is_of_this_run(word: str) -> bool:
    """Whether a word of pytest's line means this run alone: `-k`, `-kmatmul`, `--ops=matmul`, the id of a test."""
    short = word[:2] in THIS_RUN_ALONE and not word.startswith("--")
    return short or "::" in word or word.partition("=")[0] in (*THIS_RUN_ALONE, "--lf", "--last-failed", "--deselect")


def _right(run: Run) -> str:
    """The run is compared with the one before; without one, its report is written; where that is there, what keeps a
    change from undoing it: a gate, or first the nights that it looks at."""
    if "run" not in run.places:
        return ""
    this = Path(run.places["run"])
    before = earlier_run(this, run.record, run.folder)
    if before is None and "report" in run.places:
        return "opscope gate" if ((run.folder or Path()) / NIGHT_FILE).is_file() else "opscope nightly --init"
    folders = [this] if before is None else [before, this]
    names = (shlex.quote(with_short_paths(str(folder), run.folder)) for folder in folders)
    return f"opscope {'report' if before is None else 'diff'} {' '.join(names)}"


ENDINGS: Sequence[Callable[[Run], str]] = (
    _cut_off,
    _failing,
    _interrupted,
    _unprepared,
    _wrong_as_one,
    _nothing_selected,
    _share,
    _selected,
    _right,
)
"""The ways in which runs end: each gives the command after such a run, and nothing after another; the first counts."""


def _resumed(run: Run) -> str:
    return resuming(with_short_paths(run.places["run"], run.folder)) if "run" in run.places else ""


def _quoted(run: Run) -> str:
    return shlex.quote(with_short_paths(run.places.get("run", ""), run.folder))


def _typed(run: Run) -> Sequence[str]:
    """The words of the run's own command line; none of a run that a program began."""
    return _words(run.record)


def _words(record: RunRecord) -> Sequence[str]:
    words = record.origin.command_line
    return words if words[:1] == ("pytest",) else ()

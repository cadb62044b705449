"""The commands that narrow a failure down: `opscope repro`, `reduce`, `probe`, `bisect`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from opscope.base.file_names import resolved
from opscope.base.live import progress
from opscope.base.page import Page
from opscope.harness.backends import registry
from opscope.harness.record import explanation
from opscope.harness.record.errors import InputError
from opscope.harness.settings.program_options import program_options, read_options
from opscope.harness.settings.settings import BY_NAME
from opscope.harness.triage import after_run, bundle, from_run, in_child, narrowing
from opscope.harness.triage.elsewhere import is_database

BUDGET = click.option(
    "--budget",
    default="5m",
    show_default=True,
    metavar="TIME",
    help="Try no further variant after this time, such as 90s.",
)
LANES = click.option(
    "-n",
    "lanes",
    default=1,
    show_default=True,
    type=click.IntRange(1, 64),
    help="How many variants to try at the same time.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
RUN = click.option(
    "--run",
    "run_dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The run that contains the op: its folder or its id; default: the newest in .opscope/runs in which it failed.",
)

FROM = click.option(
    "--from",
    "source",
    metavar="URL|DATABASE",
    help="Fetch it from this artifact server (opscope artifacts serve), or from a run that this database knows.",
)


@click.command(short_help="Write a folder that reproduces an op's failure anywhere.")
@click.argument("op_id", metavar="ID|FOLDER")
@RUN
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to write it; default: in the run folder, or .opscope/repro/ID with --from.",
)
@FROM
@click.option("--as-issue", is_flag=True, help="Print the text of an issue about it, and write it to issue.md there.")
def repro(op_id: str, run_dir: Path | None, out: Path | None, source: str | None, as_issue: bool) -> None:
    """Write the repro folder of an op: module, inputs, golden, options, run.sh, a test, a README.

    A run writes one for each failure. This command writes one for any op of a run, with all of its values, wherever
    you want it. An op that no run here has is looked for in this folder's database. With --from, look there: in the
    runs that a database knows, whose folder may be anywhere on this machine or on the server of its --artifact-url; or
    on an artifact server, with the whole ID.

    With --as-issue, print what whoever maintains the compiler wants to know: the smallest module (the one that `opscope
    reduce` found, if you ran it), versions, the error and its worst values, since when. FOLDER is
    a repro folder that you already have.
    """
    if as_issue and (Path(op_id) / bundle.FILE).is_file():
        _print_issue(Path(op_id))
        return
    if out is not None and out.exists() and not (out / bundle.FILE).is_file():
        raise InputError("--out", "a new folder or a repro folder", f"{out}, which is neither")
    candidate = narrowing.find(op_id, run_dir, source, "opscope repro", out)
    if isinstance(candidate, Path):
        _print_issue(candidate) if as_issue else _print_folder(candidate)
        return
    run_dir, run, row, test = candidate
    if as_issue and not narrowing.narrowable(test):
        raise InputError(
            "--as-issue",
            "an op that failed",
            f"{test.op_name} [{test.op_id}], which is {test.status}",
            "opscope repro ID",
        )
    folder = out or after_run.place_to_write(run_dir, test)
    in_child.write(folder, row, test, from_run.origin(run_dir, run, row, test), "opscope repro")
    if as_issue:
        from opscope.harness.triage import issue

        database = source if source is not None and is_database(source) else None
        known = [*issue.worst(explanation.of(run_dir, test)), *issue.since(test.op_id, database)]
        _print_issue(folder, after_run.place(run_dir, test), known=known)
    else:
        _print_folder(folder)


def _print_folder(folder: Path) -> None:
    """Prints the folder alone on stdout, for `$(opscope repro ID)`, and on stderr what is in it and what comes next."""
    click.echo(folder)
    names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    click.echo(f"wrote   {', '.join(names)}", err=True)
    click.echo(f"again   sh {shlex.quote(str(folder))}/run.sh", err=True)
    click.echo(f"smaller opscope reduce {shlex.quote(str(folder))}", err=True)


def _print_issue(folder: Path, *others: Path, known: Iterable[str] = ()) -> None:
    from opscope.harness.triage import issue

    click.echo(issue.write(folder, *others, known=known), nl=False)


def _search(budget: str, lanes: int, **against: str) -> in_child.Search:
    return in_child.Search(lanes, float(BY_NAME["budget"].read("--budget", budget)), **against)


@click.command("reduce", short_help="Find the smallest op that fails in the same way.")
@click.argument("op_id", metavar="ID|FOLDER")
@RUN
@FROM
@click.option(
    "--against",
    default="",
    metavar="BACKEND",
    help="Shrink an op or a model that this backend, such as tt@0.1.2, lowers otherwise, for as long as it does.",
)
@click.option(
    "--against-path",
    default="",
    metavar="DIR",
    help="With --against: the folder from which that backend imports first.",
)
@click.option(
    "--change",
    default="",
    metavar="NAME",
    help="With --against: which of the differences of a whole model, as `opscope gate` names it.",
)
@BUDGET
@LANES
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Where to write the repro folder of the smallest op."
)
@AS_JSON
def reduce_command(
    op_id: str, run_dir: Path | None, source: str | None, out: Path | None, as_json: bool, **search: Any
) -> None:
    """Shrink shapes, rank, attributes, regions and values of a failing op for as long as it fails in the same way.

    ID is an op of a run, FOLDER a repro folder. Prints the module of the smallest op and writes a repro folder for it.
    With --against, the op need not fail: what stays is that its backend and this one lower it differently. A whole
    model is reduced by way of its smallest op, or its fewest ops, that show the difference alone.
    """
    if against := search["against"]:
        registry.check_name(against)
    folder = narrowing.folder_of(op_id, run_dir, "opscope reduce", source, any_status=bool(against))
    target = narrowing.replaced(folder, out or folder.with_name("reduced"))
    reduced = in_child.narrow(folder, "opscope reduce", _search(**search), progress.step, target)
    texts = {side: reduced.pop(f"{side}_text") for side in ("before", "after")}
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.reduce import Reduced

        print_answer(Reduced(**reduced))
        return
    page = Page()
    sides = texts | ({"differs": reduced["difference"]} if against else {})
    page.hanging([(f"{side:<8}", "") for side in sides], list(sides.values()))
    way = "is lowered differently" if against else "fails"
    end = f"nothing smaller {way} in this way" if reduced["complete"] else "it ended before all was tried"
    page.prose(f"{reduced['tried']} variants tried, {len(reduced['steps'])} kept; {end}")
    click.echo(f"\n{reduced['module']}")
    click.echo(f"again   {target}/run.sh")
    if not reduced["complete"]:
        asked = {"--against": against, "--against-path": search["against_path"], "--change": search["change"]}
        kept = [word for name, value in asked.items() if value for word in (name, value)]
        click.echo(f"smaller {shlex.join(['opscope', 'reduce', str(target), *kept, '--out', f'{target}-2'])}")


def _points(finding: dict[str, Any]) -> list[str]:
    """The lines of what was varied: one where it does not matter, else each value by how it ended."""
    ends: dict[str, list[str]] = {}
    for value, end in finding["points"]:
        ends.setdefault(end, []).append(value)
    head = f"{finding['name']} (here {finding['own']}): {finding['rule'] or 'does not matter'}"
    if set(ends) == {"fails"}:
        (values,) = ends.values()
        many = len(values) > 8 and values[0].isdecimal()
        points = f"{values[0]} to {values[-1]}" if many else ", ".join(values)
        return [f"{head}; fails at all {len(values)} tried, {points}"]
    return [head, *(f"  {end}: {', '.join(values)}" for end, values in ends.items())]


@click.command("locate", short_help="Find the first value of a model that its compiler gets wrong.")
@click.argument("op_id", metavar="ID|FOLDER")
@RUN
@FROM
@BUDGET
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to write the repro folder of the smallest piece.",
)
@AS_JSON
def locate_command(
    op_id: str, run_dir: Path | None, source: str | None, budget: str, out: Path | None, as_json: bool
) -> None:
    """Find the first op of a failing model, layer or window after which its values are wrong, or that does not compile.

    ID is a row of a run of several ops, such as that of --workflow full; FOLDER is its repro folder. The program is cut
    by halves: of n ops at most log2(n) + 2 modules are compiled. Each is compared with the values of the ops by
    themselves. Then the op runs alone, and with ever more of the ops before it, on values that are right: the smallest
    piece that still fails gets a repro folder.
    """
    folder = narrowing.folder_of(op_id, run_dir, "opscope locate", source)
    target = narrowing.replaced(folder, out or folder.with_name("located"))
    seconds = float(BY_NAME["budget"].read("--budget", budget))
    located = in_child.locate(folder, "opscope locate", seconds, progress.step, target)
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.locate import Located

        print_answer(Located(**located))
        return
    page = Page()
    lines = _located(located)
    page.hanging([(f"{name:<9}", "") for name in lines], list(lines.values()))
    end = "" if located["complete"] else "; it ended before all was tried: try a larger --budget"
    compiles = f"{located['compiles']} modules compiled to find it (at most {located['at_most']})"
    page.prose(f"{compiles}, {located['tried']} in all{end}")
    click.echo(f"again   {target}/run.sh")
    click.echo(f"smaller opscope reduce {shlex.quote(str(target))}")


def _located(bad: dict[str, Any]) -> dict[str, str]:
    """The lines about the first wrong value."""
    place = f", {bad['location']}" if bad["location"] else ""
    line = f"op {bad['number']} of {bad['ops']}" + (f" in the body of {bad['inside']}" if bad["inside"] else "")
    lines = {"first": f"{bad['op_name']} at {bad['path']}{place}; {line}"}
    if (others := bad["candidates"])[1:]:
        why = "cuts between them end in other ways" if bad["complete"] else "it ended before all was tried"
        lines["or"] = f"one of the {len(others)} ops from {others[0]} on: {why}"
    lines["wrong"] = bad["accumulated_error"] or bad["accumulated"]
    lines["alone"] = "right, on the same values" if bad["interaction"] else bad["isolated_error"] or bad["isolated"]
    if bad["right_when_returned"]:
        lines["kept"] = "the model is right where what this op reads is returned as well: what fuses them is wrong"
    elif bad["changed"]:
        lines["kept"] = f"where what this op reads is returned as well, the model's own results are {bad['changed']}"
    lines["smallest"] = ", ".join(bad["holds"]) + (f"; from level {bad['level']} on" if bad["level"] else "")
    return lines


@click.command("probe", short_help="Find the rule behind a failure, such as: fails when C % 32 != 0.")
@click.argument("op_id", metavar="ID|FOLDER")
@RUN
@FROM
@BUDGET
@LANES
@AS_JSON
def probe_command(op_id: str, run_dir: Path | None, source: str | None, budget: str, lanes: int, as_json: bool) -> None:
    """Vary the values, then one dimension, element type or attribute of a failing op at a time, and find the rule.

    ID is an op of a run, FOLDER a repro folder. The rule by which it fails is printed with everything that was tried,
    and whether the op's values or its shape are to blame: other values are tried in its own shape (random ones, without
    outliers, scaled to at most 1, all ones, in another order).
    """
    folder = narrowing.folder_of(op_id, run_dir, "opscope probe", source)
    probed = in_child.narrow(folder, "opscope probe", _search(budget, lanes), progress.step)
    text = probed.pop("op_text")
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.probe import Probed

        print_answer(Probed(**probed))
        return
    page = Page()
    page.prose(text)
    if probed["blame"]:
        page.prose(probed["blame"], indent=2)
    for line in probed["rules"] or (
        []
        if probed["blame"]
        else ["no dimension, type or attribute matters: the op fails for every value that was tried"]
    ):
        page.prose(line, indent=2)
    page.line()
    for finding in probed["findings"]:
        for line in _points(finding):
            page.prose(line.lstrip(), indent=len(line) - len(line.lstrip()))
    end = "" if probed["complete"] else "; it ended before all was tried: try a larger --budget"
    page.prose(f"{probed['tried']} variants tried{end}")


@click.command("bisect", short_help="Find the revision that broke an op, or changed a model.")
@click.argument("op_id", metavar="[ID|FOLDER]", required=False)
@click.option("--good", required=True, metavar="REV", help="A revision before the change.")
@click.option("--bad", required=True, metavar="REV", help="A later revision, after it.")
@click.option("--model", metavar="MODEL", help="Run this model at each revision, instead of an op.")
@click.option("--workflow", metavar="NAME", help="With --model: how it is run; default: full.")
@click.option("--arch", metavar="BOARD", help="With --model: the board.")
@click.option(
    "--on",
    metavar="MEASURE",
    help="What makes a revision bad; default: the recorded failure of an op, the verdict of a model.",
)
@click.option(
    "--repo",
    default=".",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The repository; default: the current folder.",
)
@click.option(
    "--pin",
    "pins",
    multiple=True,
    metavar="NAME=REPO:FILE:PATTERN",
    help="A repository that --repo, or the one before, pins: in FILE, as the group of PATTERN; or NAME=REPO:SUBMODULE.",
)
@click.option(
    "--build",
    default="",
    metavar="COMMAND",
    help="Command to run in each checkout; if it fails, the revision is skipped.",
)
@click.option(
    "--backend",
    default="",
    metavar="PATH",
    help="Path of the backend's file in the repository; tt:PATH.so for a plugin.",
)
@click.option(
    "--system-desc",
    default="",
    metavar="PATH",
    help="Path of the system descriptor there, if each build takes another one.",
)
@click.option("--python", default="", metavar="PATH", help="The interpreter that runs opscope; default: this one.")
@click.option("--any-failure", is_flag=True, help="Count every failure, not only the recorded one.")
@program_options
@RUN
@FROM
def bisect_command(
    op_id: str | None,
    good: str,
    bad: str,
    model: str | None,
    workflow: str | None,
    on: str | None,
    repo: Path,
    pins: tuple[str, ...],
    run_dir: Path | None,
    source: str | None,
    any_failure: bool,
    **words: Any,
) -> None:
    """Find the revision of a compiler that broke an op, or changed what it makes of a model.

    ID is an op of a run, FOLDER a repro folder. Each revision is checked out in a worktree of its own and built once,
    also if the command is ended and given again. It is skipped if it cannot be built or started, or if the op fails
    there in another way.

    MEASURE is count(OP), such as count(ttnn.rms_norm), count(OP, LAYOUT), such as count(ttnn.rms_norm, sharded),
    cycles, temp_bytes, launches (or dispatches), casts, pcc, structure or verdict. A revision is bad if it fulfils a
    comparison, such as 'cycles > 1000'. Of a number alone it is bad if it is nearer to that of --bad than to that of
    --good; of structure and verdict if they are not those of --good.

    With --pin, once for each repository of a chain, commits of all of them are searched: a commit that moves a pin
    forward is followed through the commits in between.
    """
    from opscope.harness.triage import bisect, reading, revisions

    if (op_id is None) is (model is None):
        raise InputError(
            "opscope bisect",
            "an op or --model",
            "both" if op_id else "neither",
            "opscope bisect ID --good REV --bad REV",
        )
    built = bisect.Built(**{name: words.pop(name) for name in ("build", "backend", "system_desc", "python")})
    options = read_options({"workflow": workflow, **words})
    measure = reading.read_measure(on) if on else None
    chain = [revisions.read_pin(word) for word in pins]
    subject: bisect.Op | bisect.Model
    judge: bisect.Judge
    if model is not None:
        path = Path(model)
        subject = bisect.Model(str(resolved(path)) if path.is_file() else model, {"workflow": "full", **options})
        judge = measure or reading.read_measure("verdict")
    else:
        if options:
            raise InputError(BY_NAME[next(iter(options))].flag, "--model", "an op, whose options are recorded")
        folder = narrowing.folder_of(str(op_id), run_dir, "opscope bisect", source, any_status=measure is not None)
        subject = bisect.Op(resolved(folder))
        judge = measure or bisect.AsRecorded(bundle.read(folder).failure, any_failure)
    bisected = bisect.bisect(subject, judge, repo, good, bad, built, chain, click.echo)
    several = len(bisected.candidates) > 1
    click.echo(f"\n{'one of these is the first bad commit:' if several else 'the first bad commit:'}\n{bisected.text}")
    if bisected.note:
        click.echo(bisected.note)

"""Triage of one op in a child process: its module may be a stranger's, and what it does to the parser ends the child.

The command keeps what reads records; whatever parses the module or reads values is in the child. A refusal there is the
command's own, and so is each line that is said about damage.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import damage
from opscope.base.children.call import call
from opscope.base.children.ending import Cause
from opscope.base.children.inside import Parent
from opscope.base.machine import memory_limit
from opscope.base.stored import checked
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.triage import bundle

if TYPE_CHECKING:
    from opscope.harness.triage import reduce

SECONDS = 600.0
"""What the child may take besides trying variants: reading one op and its values, and writing them."""

Report = Callable[[str], None]


def write(folder: Path, row: OpRow, test: OpTest, origin: bundle.Origin, where: str) -> None:
    """`bundle.write` in a child; `where` is the command. Raises InputError."""
    task = {
        "folder": str(folder),
        "row": row.model_dump(mode="json"),
        "test": test.model_dump(mode="json"),
        "origin": origin.model_dump(mode="json"),
    }
    _ask(where, "write_in_child", task, SECONDS, memory_limit(None))


@dataclass(frozen=True)
class Search:
    """How variants of an op are tried."""

    lanes: int
    budget: float
    """Seconds."""
    against: str = ""
    """A backend that lowers the op differently: that difference is what is reduced."""
    against_path: str = ""
    """The folder from which `against` imports first; empty: as the op's own backend."""
    change: str = ""
    """The name of the one difference of a whole model that is reduced; empty: the first that a part shows."""


def narrow(folder: Path, where: str, search: Search, report: Report, target: Path | None = None) -> dict[str, Any]:
    """Probes the failure of a repro folder, or with `target` reduces it and writes the smallest op's folder there.

    Returns what `opscope probe --json` and `opscope reduce --json` print, with the op's forms as text besides. Raises
    InputError.
    """
    options = bundle.read(folder).options
    task: dict[str, Any] = {"folder": str(folder), "target": target and str(target), **asdict(search)}
    # Variants that are being tried when the budget ends are not cut short; lanes have limits of their own.
    seconds = search.budget + 2 * options.op_timeout + SECONDS
    memory = memory_limit(None) + search.lanes * memory_limit(options.op_memory)
    with _stopped_by_interrupt(report) as task["stop"]:
        return _ask(where, "narrow_in_child", task, seconds, memory, report)


def locate(folder: Path, where: str, budget: float, report: Report, target: Path) -> dict[str, Any]:
    """Finds the first wrong value of the module of a repro folder, and writes the folder of the smallest piece that
    shows it to `target`. Returns what `opscope locate --json` prints. Raises InputError."""
    options = bundle.read(folder).options
    task: dict[str, Any] = {"folder": str(folder), "target": str(target), "budget": budget}
    memory = memory_limit(None) + memory_limit(options.op_memory)
    with _stopped_by_interrupt(report) as task["stop"]:
        return _ask(where, "locate_in_child", task, budget + 2 * options.op_timeout + SECONDS, memory, report)


@contextlib.contextmanager
def _stopped_by_interrupt(report: Report) -> Iterator[str]:
    """A file that the first Ctrl-C makes, so that the child ends with the best that it has; the second ends all."""
    with TemporaryFolder("stop") as name:
        stop = Path(name) / "stop"

        def interrupted(*_: object) -> None:
            if stop.exists():
                raise KeyboardInterrupt
            stop.touch()
            report("stopping with the best so far; Ctrl-C again ends it at once")

        if threading.current_thread() is not threading.main_thread():
            yield str(stop)
            return
        before = signal.signal(signal.SIGINT, interrupted)
        try:
            yield str(stop)
        finally:
            signal.signal(signal.SIGINT, before)


def _ask(
    where: str, work: str, task: dict[str, Any], seconds: float, memory: int, report: Report | None = None
) -> dict[str, Any]:
    """What a function of this module returns in a child. Raises InputError: it refused, or did not come back."""

    def take(message: dict[str, Any]) -> None:
        if "damage" in message:
            damage.say(message["damage"])
        elif report is not None:
            report(message["progress"])

    outcome = call(f"{__name__}:{work}", task, seconds=seconds, memory=memory, on_message=take)
    if not outcome.ending.ok:
        if outcome.ending.cause is Cause.RAISED:
            raise RuntimeError(f"{where}: {outcome.ending.text}\n{outcome.ending.traceback}")
        limits = {Cause.TIMEOUT: f"no end within {seconds:g} s", Cause.MEMORY: outcome.ending.text}
        got = limits.get(outcome.ending.cause, f"the end of what reads it ({outcome.ending.kind})")
        raise InputError(where, "an op whose module can be read", got)
    answer: dict[str, Any] = outcome.result
    if "refused" in answer:
        raise InputError(*answer["refused"])
    if "line" in answer:
        raise ValueError(answer["line"])
    return answer


def _answered(parent: Parent, work: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """The child: what `work` makes of the task, or why it refuses."""
    damage.show_by(lambda line: parent.send({"damage": line}))
    try:
        return work(parent.task())
    except InputError as error:
        return {"refused": [error.where, error.expected, error.got, error.hint]}
    except OSError as error:
        where = str(error.filename or error)
        return {"refused": [where, "a file that can be read", (error.strerror or "an error").lower(), ""]}
    except ValueError as error:  # Damaged is one
        if ": expected " not in str(error):
            raise
        return {"line": str(error)}


def write_in_child(parent: Parent) -> dict[str, Any]:
    """The child of `write`."""

    def work(task: dict[str, Any]) -> dict[str, Any]:
        row, test = OpRow.model_validate(task["row"]), OpTest.model_validate(task["test"])
        bundle.write(Path(task["folder"]), row, test, bundle.Origin.model_validate(task["origin"]))
        return {}

    return _answered(parent, work)


def narrow_in_child(parent: Parent) -> dict[str, Any]:
    """The child of `narrow`."""
    from opscope.harness.triage.lab import Lab

    def report(text: str) -> None:
        parent.send({"progress": text})

    def work(task: dict[str, Any]) -> dict[str, Any]:
        folder = Path(task["folder"])
        repro = bundle.read(folder)
        target, against = task["target"] and Path(task["target"]), task["against"]
        if target and not against and _several_ops(folder, repro, task["budget"]):
            return _as_answer(_reduced_module(folder, target, task, report), target)
        sides = {"against": against, **{name: task[name] for name in ("against_path", "change")}}
        with Lab(folder, repro, lanes=task["lanes"], **_limits(task), **sides) as lab:
            return _as_answer(_reduced(lab, folder, target, report), target, lab) if target else _probed(lab, report)

    return _answered(parent, work)


def locate_in_child(parent: Parent) -> dict[str, Any]:
    """The child of `locate`."""
    from opscope.harness.triage import first_bad
    from opscope.harness.triage.lab import Lab

    def report(text: str) -> None:
        parent.send({"progress": text})

    def work(task: dict[str, Any]) -> dict[str, Any]:
        folder, target = Path(task["folder"]), Path(task["target"])
        with Lab(folder, bundle.read(folder), **_limits(task)) as lab:
            bad = first_bad.find(lab, report)
            bundle.write(target, bad.row, bad.test, _origin(lab, folder))
        module = (target / bundle.TEXT).read_text(encoding="utf-8")
        return {**first_bad.as_answer(bad), "folder": str(target), "module": module}

    return _answered(parent, work)


def _limits(task: dict[str, Any]) -> dict[str, Any]:
    """What ends a lab."""
    return {"budget": task["budget"], "stop": task["stop"]}


def _probed(lab: Any, report: Report) -> dict[str, Any]:
    from opscope.harness.triage import probe, reduce

    probed = probe.probe(lab, report)
    return {
        "op": asdict(probed.form),
        "op_text": reduce.form_text(probed.form),
        "rules": probed.statements,
        "blame": probed.blame,
        "tried": probed.count,
        "complete": probed.complete,
        "findings": [asdict(each) for each in probed.findings],
    }


def _reduced(lab: Any, folder: Path, target: Path, report: Report) -> reduce.Reduced:
    """The smallest op that fails as the lab's does; its folder is written."""
    from opscope.harness.triage import reduce

    reduced = reduce.reduce(lab, report)
    assert reduced.tried.test is not None
    row = lab.row_of(reduced.tried).model_copy(update={"uses": lab.repro.row.uses})
    test = lab.run(row) if lab.compares_lowerings else reduced.tried.test
    bundle.write(target, row, test, _origin(lab, folder))
    return reduced


def _as_answer(reduced: reduce.Reduced, target: Path, lab: Any = None) -> dict[str, Any]:
    """What `opscope reduce --json` prints, with the forms as text besides."""
    return {
        "folder": str(target),
        "module": (target / bundle.TEXT).read_text(encoding="utf-8"),
        "before": asdict(reduced.before),
        "after": asdict(reduced.after),
        "steps": reduced.steps,
        "tried": reduced.count,
        "complete": reduced.complete,
        "difference": "" if lab is None else lab.difference,
        "before_text": _sized(reduced.before),
        "after_text": _sized(reduced.after),
    }


def _origin(lab: Any, folder: Path) -> bundle.Origin:
    """Where what a lab has tried of a repro folder comes from."""
    repro = lab.repro
    options = repro.options.model_copy(update={"backend": bundle.backend_of(folder, repro.options)})
    of_the_run = {name: getattr(repro, name) for name in bundle.OF_THE_RUN}
    return bundle.Origin(export_dir=lab.place, options=options, **of_the_run)


def _several_ops(folder: Path, repro: bundle.Repro, seconds: float) -> bool:
    """Whether the module of a repro folder has more than one op. Raises InputError for one that the parser refuses."""
    from opscope.harness.prepare.split_guard import of_entry, split_bytes

    return repro.row.devices == 1 and len(of_entry(split_bytes(checked(folder, repro.row.module or ""), seconds))) > 1


def _reduced_module(folder: Path, target: Path, task: dict[str, Any], report: Report) -> reduce.Reduced:
    """The smallest piece of a module of several ops that fails in the same way, and of this the smallest op where it is
    one; its folder is written."""
    from opscope.harness.triage import first_bad, reduce
    from opscope.harness.triage.lab import Lab, Tried, Variant

    until, repro = time.monotonic() + task["budget"], bundle.read(folder)
    with TemporaryFolder("located") as name, Lab(folder, repro, **_limits(task)) as lab:
        bad = first_bad.find(lab, report, returns=False)
        before = Variant(checked(folder, repro.row.module or "").read_bytes(), (), repro.row.op_name).form
        step = f"{bad.row.op_name} at {bad.op.path}, the first of {bad.ops} ops that is wrong"
        alone = Path(name) / "alone"
        bundle.write(alone, bad.row, bad.test, _origin(lab, folder))
        task = {**task, "budget": until - time.monotonic()}
        reduced = None
        if not lab.out_of_budget:
            with Lab(alone, bundle.read(alone), lanes=task["lanes"], **_limits(task)) as one:
                reduced = _reduced(one, alone, target, report)
        if reduced is not None and bad.row.holds:
            with Lab(target, bundle.read(target)) as ops:
                if first_bad.fails_alone(ops):  # sizes that an op fails at by itself show another failure
                    reduced = None
        if reduced is None:
            bundle.write(target, bad.row, bad.test, _origin(lab, folder))
            piece = Variant((target / bundle.MODULE).read_bytes(), (), bad.row.op_name if bad.row.holds else "")
            tried = Tried(piece, bad.test, fails=True, passes=False)
            reduced = reduce.Reduced(before, piece.form, tried, (), 0, bad.complete and not lab.out_of_budget)
    return replace(reduced, before=before, steps=(step, *reduced.steps), count=reduced.count + bad.tried)


def _sized(form: Any) -> str:
    from opscope.harness.triage import reduce

    return f"{reduce.form_text(form)}, {form.elements:,} elements"

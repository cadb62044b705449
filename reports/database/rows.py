"""Converts the records of a run to rows of the results database; clock and machine have no influence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from opscope.base.digest import words_digest
from opscope.base.visible_text import cut
from opscope.harness.record.causes import UNSPLITTABLE, cause_of, cause_of_test, element_type
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import release_in
from opscope.harness.record.option_types import without_folder
from opscope.harness.record.origin import as_of_any_run
from opscope.harness.record.records import (
    ManifestHeader,
    ModelFailure,
    OpRow,
    OpTest,
    RunRecord,
    Structure,
    TensorDesc,
    fails_run,
)
from opscope.harness.record.result_options import OPTIONS
from opscope.harness.record.selection import count_deselected, none_selected
from opscope.harness.record.stages import Stage
from opscope.harness.record.store import StoredRun, latest, read_run, whole_models
from opscope.reports.database.schema import DROPPED, OP_TESTS
from opscope.reports.records import quick_records
from opscope.reports.records.columns import plain
from opscope.reports.records.night_record import TIME, VERSION, Membership, membership

Row = dict[str, Any]

AFTER_COMPILE = frozenset({Stage.RUN, Stage.COMPARE})

UNNAMED = ("dtype", "data_format", "math_fidelity", "inputs", "seed")
"""Options whose values appear in the text of a series without their names, in this order."""

NAMED = tuple(name for name, option in OPTIONS.items() if option.series and name not in (*UNNAMED, "arch", "workflow"))
"""All other options that affect an op's numbers. The text names those that differ from their default."""

NO_IMPORT = dict.fromkeys(("import_status", "import_text", "import_expected"), "")

RAN = "ran"
"""Outcome of a model that has a module; the other outcomes are reasons why there is none."""
SELECTION = "selection"
"""Kind of night of a single run in which ops were deselected."""
RELEASE = "release"
"""Kind of night of a release (opscope history)."""
AXIS = "axis"
"""Option of a stored run of such a night, so that its series is known by its row alone."""
ANY_RELEASE = "@*"
"""In place of the release in the name of a series of such nights."""


class Published(NamedTuple):
    """A run with everything about it that is published."""

    record: RunRecord
    header: ManifestHeader
    ops: Sequence[OpRow]
    attempts: Sequence[OpTest]
    """Every attempt, including those that a later one replaced."""
    member: Membership | None
    whole: list[OpTest]
    """The models that ran as one program."""
    clean: bool
    """Whether the texts of rows and attempts contain no NUL, which is so if quick_records.py read them."""

    @property
    def night_id(self) -> str:
        """The id of the night that the run belongs to; a single run counts as a night."""
        return self.member.night.night_id if self.member else self.record.run_id


class Module(NamedTuple):
    """The module of a model, with the places of its ops."""

    module_id: str | None
    """None if the model has no ops."""
    places: list[tuple[str, str, str, str]]
    """(op id, path, location, framework's op)."""


def read(run_dir: Path, records: tuple[StoredRun, Sequence[OpTest]] | None = None) -> Published:
    """Reads the run in `run_dir`, or uses `records` if given. Raises InputError for no run or an unknown schema."""
    member = membership(run_dir)
    if records is not None:
        run, attempts = records
        whole = whole_models(run_dir, run.tests)
        return Published(run.record, run.header, run.rows, attempts, _of_night(member, attempts), whole, clean=False)
    record = read_run(run_dir)
    header, ops = quick_records.manifest(run_dir)
    attempts = list(quick_records.journal(run_dir))
    whole = whole_models(run_dir, latest(attempts))
    return Published(record, header, ops, attempts, _of_night(member, attempts), whole, clean=True)


def _of_night(member: Membership | None, attempts: Sequence[OpTest]) -> Membership | None:
    """The night that a run speaks for: none, where its user left out all ops."""
    return None if none_selected(attempts) else member


def series_text(backend: str, arch: str, options: dict[str, Any]) -> str:
    """The readable key of comparable runs: within a series, a difference comes from a change of the code.

    Runs of releases are one series: `tt@* n150 ...`.

    Raises InputError where a database holds something else than options.
    """
    if not isinstance(options, dict):
        raise InputError("options of a run", "names and values", cut(str(options), 80), "publishing the run again")
    workflow = options.get("workflow")
    unnamed = (
        *(as_of_any_run(options, name) for name in UNNAMED),
        workflow if workflow != OPTIONS["workflow"].default else None,
    )
    if options.get(AXIS) == VERSION and (release := release_in(backend)):
        backend = f"{backend.removesuffix(f'@{release}')}{ANY_RELEASE}"
    named = (
        f"{name}={without_folder(plain(options[name]))}"
        for name in NAMED
        if options.get(name) not in (None, OPTIONS[name].default)
    )
    return " ".join([backend, arch, *(str(plain(value)) for value in unnamed if value is not None), *named])


def series_by_backend(backend: str, arch: str, options: dict[str, Any]) -> dict[str, str]:
    """Backend -> its series. A run may have several backends (`reference,xla`)."""
    return {name: series_text(name, arch, options) for name in backend.split(",")}


# --- the night and the run


def night_row(published: Published) -> Row:
    """The row of `nights`."""
    if published.member is not None:
        night = published.member.night
        fields = night.model_dump(exclude={"schema_version"}, mode="python")
        more = {name: getattr(night, name) for name in ("night_id", "label", "config_hash", "axis")}
        return plain({**fields, **more, "kind": RELEASE if night.release else "night"})
    record = published.record
    kind = SELECTION if count_deselected(latest(published.attempts)) else "run"
    alone = {
        "night_id": record.run_id,
        "kind": kind,
        "name": record.run_id,
        "started": record.started,
        "zone": "UTC",
        "label": f"{record.started:%Y-%m-%d %H:%M}",
        "config": {},
        **{name: [] for name in ("models", "backends", "archs", "data_formats")},
        "shards": 0,
        "demo": False,
        "axis": TIME,
        **dict.fromkeys(("config_hash", "release"), ""),
    }
    return plain(alone)


def run_row(published: Published) -> Row:
    """The row of `runs`."""
    record = plain(published.record)
    origin = record.pop("origin")
    options = published.record.origin.options
    if published.member is not None and published.member.night.release:
        options = origin["options"] = {**origin["options"], AXIS: VERSION}
    return {
        **record,
        **origin,
        "night_id": published.night_id,
        "shard": published.member.shard if published.member else 0,
        "series": series_text(record["backend"], record["arch"], options),
        "compiler": compiler_of(published.record),
        "jaxlib": origin["versions"].get("jaxlib", ""),
    }


def compiler_of(record: RunRecord) -> str:
    """Identifies the compiler: by the backend's fingerprint, or by its revision if the run has no fingerprint."""
    revision = record.origin.backend_revision + ("+" if record.origin.backend_dirty else "")
    return str(plain(record.origin.options.get("fingerprint") or revision))


# --- models and their modules


def modules(published: Published) -> dict[str, Module]:
    """Model -> its module."""
    places: dict[str, list[tuple[str, str, str, str]]] = {plain(model): [] for model in published.header.module_ops}
    for row in published.ops:
        op_id = row.op_id
        for use in row.uses:
            texts = (use.model, use.path, use.location, use.framework_op)
            model, path, location, framework_op = texts if published.clean else plain(texts)
            places.setdefault(model, []).append((op_id, path, location, framework_op))
    return {
        model: Module(words_digest(repr(module_places), digits=16) if module_places else None, module_places)
        for model, module_places in places.items()
    }


def model_rows(published: Published, modules_of_models: dict[str, Module]) -> Iterator[Row]:
    """The rows of `models`: one per requested model."""
    header = published.header
    run_id = published.record.run_id
    counts = {
        kind: {plain(model): count for model, count in getattr(header, kind).items()}
        for kind in ("module_ops", "structural", "dead")
    }
    imports = {
        plain(check.model): dict(zip(NO_IMPORT, (check.status, check.text, check.expected), strict=True))
        for check in header.imports
    }
    failures = {plain(failure.model): failure for failure in header.failed}
    of_model = frameworks(published)
    for position, (model, module) in enumerate(modules_of_models.items()):
        # One whose goldens failed has ops that ran.
        yield {
            "run_id": run_id,
            "model": model,
            **_outcome(failures.pop(model, None), of_model.get(model, "")),
            "module_id": module.module_id,
            "position": position,
            **plain(imports.get(model, NO_IMPORT)),
            **{kind: count.get(model, 0) for kind, count in counts.items()},
        }
    for position, (model, failure) in enumerate(failures.items(), len(modules_of_models)):
        yield {
            "run_id": run_id,
            "model": model,
            **_outcome(failure),
            "module_id": None,
            **dict.fromkeys(counts, 0),
            "position": position,
            **NO_IMPORT,
        }


def frameworks(published: Published) -> dict[str, str]:
    """Model -> the framework that it was built with, of models that became a module and are no file of StableHLO.

    The check of its import names it. Where there is none, its ops name their frontend: one that several models have in
    common names that of the first of them, so it counts where the model has no op of its own.
    """
    own: dict[str, Counter[str]] = {}
    shared: dict[str, Counter[str]] = {}
    for row in published.ops:
        framework = row.frontend.partition(" ")[0]
        for place, model in enumerate(dict.fromkeys(use.model for use in row.uses) if framework else ()):
            (shared if place else own).setdefault(plain(model), Counter())[framework] += 1
    by_ops = {model: counts.most_common(1)[0][0] for model, counts in (shared | own).items()}
    return by_ops | {
        plain(check.model): plain(check.framework) for check in published.header.imports if check.framework
    }


def _outcome(failure: ModelFailure | None, framework: str = "") -> Row:
    """What became of a model of that framework; None for one that ran."""
    if failure is None:
        return {"framework": framework, "outcome": RAN, "reason": "", "artifact": ""}
    what = failure.framework, failure.status, failure.error, failure.artifact or ""
    return plain(dict(zip(("framework", "outcome", "reason", "artifact"), what, strict=True)))


def use_rows(module: Module) -> Iterator[tuple[Any, ...]]:
    """The rows of `uses`."""
    for position, (op_id, path, location, framework_op) in enumerate(module.places):
        yield module.module_id, position, op_id, path, location, framework_op


def module_op_rows(module: Module) -> Iterator[tuple[Any, ...]]:
    """The rows of `module_ops`."""
    for op_id, uses in sorted(Counter(place[0] for place in module.places).items()):
        yield module.module_id, op_id, uses


# --- ops and their tests


def op_rows(published: Published) -> Iterator[list[Any]]:
    """The rows of `ops` in column order, sorted by id, because sorted keys are indexed faster."""
    kinds = {test.op_id: test.op_kind for test in published.attempts}
    described: dict[str, OpRow | OpTest] = {test.op_id: test for test in reversed(published.attempts)}
    described |= {row.op_id: row for row in published.ops}
    for op_id in sorted(described):
        yield _op(described[op_id], kinds.get(op_id, ""))


def _op(row: OpRow | OpTest, kind: str) -> list[Any]:
    tensors = (*row.inputs, *row.outputs)
    dtype, unsplittable = element_type(row.inputs, row.outputs), getattr(row, "unsplittable", "")
    cause = cause_of(UNSPLITTABLE, Stage.SPLIT, row.op_name, dtype) if unsplittable else ""
    said = row.op_id, row.op_name, kind, row.inputs, row.outputs, row.op_params, signature(row.inputs, row.outputs)
    return [*said, dtype, len(tensors[0].shape) if tensors else 0, unsplittable, cause]


def op_test_rows(published: Published, run: Row) -> Iterator[list[Any]]:
    """The rows of `op_tests` in column order, sorted by op id: every attempt at every op."""
    fields = [name for name in OpTest.model_fields if name not in DROPPED]
    assert [column.name for column in OP_TESTS.columns][: len(fields)] == fields
    run_id, place, field_values = run["run_id"], fields.index("run_id"), attrgetter(*fields)
    newest: dict[tuple[str, str], int] = {}
    attempts: dict[tuple[str, str, int], OpTest] = {}
    for test in published.attempts:  # if an attempt's number occurs twice, the later line counts, as in the folder
        attempts[test.op_id, test.backend, test.attempt] = test
        newest[test.op_id, test.backend] = max(test.attempt, newest.get((test.op_id, test.backend), 0))
    series = series_by_backend(run["backend"], run["arch"], run["options"])
    for (op_id, backend, attempt), test in sorted(attempts.items()):
        row = list(field_values(test))
        row[place] = run_id
        old = attempt < newest[op_id, backend]
        row += [run["night_id"], series.get(backend, run["series"]), run_id if old else ""]
        seconds = sum(stage.seconds for stage in test.stages)
        row += [seconds, compile_seconds(test), is_failure(test), cause_of_test(test) or None]
        yield row


def structure_rows(published: Published) -> Iterator[tuple[Any, ...]]:
    """The rows of `structures`, in column order: of attempts that count, and of models that ran before their ops."""
    run_id = published.record.run_id
    tests = {(test.op_id, test.backend): test for test in (*published.whole, *latest(published.attempts))}
    for test in tests.values():
        if test.structure is None:
            continue
        for part in Structure.model_fields:
            for name, place, number in _numbers(getattr(test.structure, part)):
                yield run_id, test.op_id, test.backend, part, plain(name), plain(place), number


def _numbers(value: Any) -> Iterator[tuple[str, str, int]]:
    """The numbers of a field of a structure, each with its name and place."""
    if not isinstance(value, Mapping):
        if value is not None:
            yield "", "", int(value)
        return
    for name, of in value.items():
        if isinstance(of, Mapping):
            yield from ((name, place, number) for place, number in of.items())
        else:
            yield name, "", of


def structure_from(rows: Iterable[tuple[str, str, str, int]]) -> Structure:
    """The structure that these rows are of: part, name, place, number."""
    fields: dict[str, Any] = {}
    for part, name, place, number in rows:
        if place:
            fields.setdefault(part, {}).setdefault(name, {})[place] = number
        elif name:
            fields.setdefault(part, {})[name] = number
        else:
            fields[part] = number
    return Structure.model_validate(fields)


def compile_seconds(test: OpTest) -> float:
    """Seconds of the stages before `run`."""
    return sum(stage.seconds for stage in test.stages if stage.stage not in AFTER_COMPILE)


def is_failure(test: OpTest) -> bool:
    """Whether an op fails its run: it failed and no limitation names the failure, or one does and it did not fail."""
    return fails_run(test.status, test.expected)


def signature(inputs: Iterable[TensorDesc], outputs: Iterable[TensorDesc]) -> str:
    """An op's types in one line: `f32[1,64], f32[64,10] -> f32[1,10]`; a scalar is `f32[]`."""
    sides = (
        ", ".join(f"{tensor.data_type}[{','.join(map(str, tensor.shape))}]" for tensor in tensors)
        for tensors in (inputs, outputs)
    )
    return " -> ".join(sides)

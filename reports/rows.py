"""Stored records of a run -> rows of the results database: a function of records alone, never of clock or machine."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.records import OpRow, OpTest, RunRecord, TensorDesc
from harness.stages import Stage
from harness.store import StoredRun, load_attempts, whole_models
from reports.columns import plain
from reports.night_record import Membership, membership
from reports.schema import DROPPED, OP_TESTS

Row = dict[str, Any]

AFTER_COMPILE = frozenset({Stage.RUN, Stage.COMPARE})

DECIDING = ("dtype", "data_format", "math_fidelity", "inputs", "seed")
"""Options that decide an op's numbers: runs that differ in them are not of one series."""

USUAL = "split"
"""The workflow that runs without a word for it had."""

RAN = "ran"
"""Outcome of a model that has a module; the others say why it has none."""


class Published(NamedTuple):
    """A run and what it is published with."""

    run: StoredRun
    attempts: Sequence[OpTest]
    """Every attempt, also those that a later one took the place of."""
    member: Membership | None
    whole: list[OpTest]
    """The models that ran as one program."""

    @property
    def night_id(self) -> str:
        """The night that it belongs to; a run by itself is a night of its own."""
        return self.member.night.night_id if self.member else self.run.record.run_id


class Module(NamedTuple):
    """What a model became: where its ops stand."""

    module_id: str | None
    """None for a model without a single op."""
    places: list[tuple[str, str, str, str]]
    """(op id, path, location, framework's op)."""


def read(run_dir: Path, records: tuple[StoredRun, Sequence[OpTest]] | None = None) -> Published:
    """The run in `run_dir`, read but where `records` are known. Raises InputError: none there of a known schema."""
    run, attempts = records or load_attempts(run_dir)
    return Published(run, attempts, membership(run_dir), whole_models(run_dir, run.tests))


def series_text(backend: str, arch: str, options: dict[str, Any]) -> str:
    """What two runs have in common if a difference between them is news about the code, as one readable text."""
    workflow = options.get("workflow")
    words = (backend, arch, *(options.get(name) for name in DECIDING), None if workflow == USUAL else workflow)
    return " ".join(str(plain(word)) for word in words if word is not None)


def series_by_backend(backend: str, arch: str, options: dict[str, Any]) -> dict[str, str]:
    """Backend -> series, of a run that may have several backends (`reference,xla`)."""
    return {one: series_text(one, arch, options) for one in backend.split(",")}


# --- the night and the run


def night_row(found: Published) -> Row:
    """The row of `nights`."""
    if found.member is not None:
        night = found.member.night
        told = night.model_dump(exclude={"schema_version"}, mode="python")
        more = {"night_id": night.night_id, "kind": "night", "label": night.label, "config_hash": night.config_hash}
        return plain({**told, **more})
    record = found.run.record
    return plain(
        {
            "night_id": record.run_id, "kind": "run", "name": record.run_id, "started": record.started, "zone": "UTC",
            "label": f"{record.started:%Y-%m-%d %H:%M}", "config": {}, "config_hash": "", "models": [], "backends": [],
            "archs": [], "data_formats": [], "shards": 0, "demo": False,
        }
    )  # fmt: skip


def run_row(found: Published) -> Row:
    """The row of `runs`."""
    record = plain(found.run.record)
    origin = record.pop("origin")
    options = found.run.record.origin.options
    return {
        **record,
        **origin,
        "night_id": found.night_id,
        "shard": found.member.shard if found.member else 0,
        "series": series_text(record["backend"], record["arch"], options),
        "compiler": compiler_of(found.run.record),
        "jaxlib": origin["versions"].get("jaxlib", ""),
    }


def compiler_of(record: RunRecord) -> str:
    """What tells one compiler from another: the backend's fingerprint, or its revision where the run has none."""
    revision = record.origin.backend_revision + ("+" if record.origin.backend_dirty else "")
    return str(plain(record.origin.options.get("fingerprint") or revision))


# --- models and their modules


def modules(run: StoredRun) -> dict[str, Module]:
    """Model -> its module."""
    places: dict[str, list[tuple[str, str, str, str]]] = {model: [] for model in run.header.module_ops}
    for row in run.rows:
        for use in row.uses:
            one = (row.op_id, *(plain(text) for text in (use.path, use.location, use.framework_op)))
            places.setdefault(use.model, []).append(one)
    return {
        model: Module(hashlib.sha256(repr(found).encode()).hexdigest()[:16] if found else None, found)
        for model, found in places.items()
    }


def model_rows(found: Published, of: dict[str, Module]) -> Iterator[Row]:
    """The rows of `models`: one per model that was asked for."""
    header = found.run.header
    run_id = found.run.record.run_id
    for position, (model, module) in enumerate(of.items()):
        yield {
            "run_id": run_id, "model": plain(model), "framework": "", "outcome": RAN, "reason": "", "artifact": "",
            "module_id": module.module_id, "module_ops": header.module_ops.get(model, 0),
            "structural": header.structural.get(model, 0), "position": position,
        }  # fmt: skip
    for position, failure in enumerate(header.failed, len(of)):
        yield plain(
            {
                "run_id": run_id, "model": failure.model, "framework": failure.framework, "outcome": failure.status,
                "reason": failure.error, "artifact": failure.artifact or "", "module_id": None, "module_ops": 0,
                "structural": 0, "position": position,
            }
        )  # fmt: skip


def use_rows(module: Module) -> Iterator[tuple[Any, ...]]:
    """The rows of `uses`."""
    for position, (op_id, path, location, framework_op) in enumerate(module.places):
        yield module.module_id, position, op_id, path, location, framework_op


def module_op_rows(module: Module) -> Iterator[tuple[Any, ...]]:
    """The rows of `module_ops`."""
    for op_id, uses in Counter(place[0] for place in module.places).items():
        yield module.module_id, op_id, uses


# --- ops and their tests


def op_rows(found: Published) -> list[Row]:
    """The rows of `ops`."""
    kinds = {test.op_id: test.op_kind for test in found.attempts}
    described = {row.op_id: _op(row, kinds.get(row.op_id, "")) for row in found.run.rows}
    for test in found.attempts:
        if test.op_id not in described:
            described[test.op_id] = _op(test, test.op_kind)
    return list(described.values())


def _op(row: OpRow | OpTest, kind: str) -> Row:
    tensors = (*row.inputs, *row.outputs)
    return {
        "op_id": row.op_id,
        "op_name": plain(row.op_name),
        "op_kind": kind,
        "inputs": plain(row.inputs),
        "outputs": plain(row.outputs),
        "op_params": plain(row.op_params),
        "signature": signature(row.inputs, row.outputs),
        "dtype": tensors[0].data_type if tensors else "",
        "rank": len(tensors[0].shape) if tensors else 0,
        "unsplittable": plain(row.unsplittable) if isinstance(row, OpRow) else "",
    }


def op_test_rows(found: Published, run: Row) -> Iterator[list[Any]]:
    """The rows of `op_tests`, in its columns' order: every attempt at every op."""
    own = [name for name in OpTest.model_fields if name not in DROPPED]
    assert [column.name for column in OP_TESTS.columns][: len(own)] == own
    run_id = run["run_id"]
    newest: dict[tuple[str, str], int] = {}
    attempts: dict[tuple[str, str, int], OpTest] = {}
    for test in found.attempts:  # the same number twice: the later line counts, as in the folder
        attempts[test.op_id, test.backend, test.attempt] = test
        newest[test.op_id, test.backend] = max(test.attempt, newest.get((test.op_id, test.backend), 0))
    place = own.index("run_id")
    series = series_by_backend(run["backend"], run["arch"], run["options"])
    for test in attempts.values():
        values = test.model_dump()
        row = [values[name] for name in own]
        row[place] = run_id
        old = test.attempt < newest[test.op_id, test.backend]
        row += [run["night_id"], series.get(test.backend, run["series"]), run_id if old else ""]
        row += [sum(stage.seconds for stage in test.stages), compile_seconds(test), is_failure(test)]
        yield row


def compile_seconds(test: OpTest) -> float:
    """What the stages before `run` took."""
    return sum(stage.seconds for stage in test.stages if stage.stage not in AFTER_COMPILE)


def is_failure(test: OpTest) -> bool:
    """Whether an op fails its run: it went wrong and no limitation names that failure, or one does and it passed."""
    return test.fails_run


def signature(inputs: Iterable[TensorDesc], outputs: Iterable[TensorDesc]) -> str:
    """An op's types in one line: `f32[1,64] * f32[64,10] -> f32[1,10]`; a scalar is `f32[]`."""
    sides = (
        " * ".join(f"{tensor.data_type}[{','.join(map(str, tensor.shape))}]" for tensor in tensors)
        for tensors in (inputs, outputs)
    )
    return " -> ".join(sides)

"""Tries variants of an op: each runs in a lane up to the stage of the failure, and its outcome is compared with it.

Inputs of a variant are the original's, cut or repeated to its shapes and converted to its types, so that what is in the
values stays; a golden is computed only where the failure shows in the numbers.

With a second backend a variant counts if the two lower it differently, and in the same way as the original. A whole
model is first replaced by the smallest op or window of it that shows a change of the model when it is compiled alone.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.digest import words_digest
from opscope.base.file_names import resolved
from opscope.base.stored import checked, digest
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.prepare.mlir import piece_module
from opscope.harness.prepare.mlir.single_op import CannotBuildError
from opscope.harness.prepare.mlir.variant import Form, InvalidVariantError, read
from opscope.harness.prepare.program import SingleOp, SplitModule
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.split_guard import split_bytes
from opscope.harness.prepare.subgraph import windows
from opscope.harness.record import artifacts, lowered_ir
from opscope.harness.record.element_types import numpy_dtype, save
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import backend_label
from opscope.harness.record.program_changes import Change, changes_of_texts
from opscope.harness.record.records import WHOLE_MODEL, OpRow, OpTest, Source, TensorDesc, Use
from opscope.harness.record.stages import WENT_THROUGH, Stage
from opscope.harness.triage import bundle
from opscope.harness.triage.evaluator import Evaluator

WINDOWS = (2, 3, 4, 8)
"""How many ops the windows have that are tried of a model none of whose ops alone shows the change."""
LARGEST = 1 << 24
"""A variant is tried only if its tensors have at most this many elements in all."""


@dataclass(frozen=True)
class Variant:
    """A module to be tried, and the values that its arguments take."""

    module: bytes
    inputs: tuple[Any, ...]
    """NumPy arrays; none: it is compiled only."""
    name: str = ""
    """What a module of several ops is called; it is not varied."""

    @property
    def form(self) -> Form:
        """What its op is like, or its program as one. Raises InvalidVariantError."""
        return _as_one(self).form if self.name else read(self.module)

    @property
    def single(self) -> SingleOp:
        """Its op, or its program as one."""
        if self.name:
            return _as_one(self).op
        (single,) = split_module(self.module).ops.values()
        return single


@dataclass(frozen=True)
class Tried:
    """The outcome of a variant."""

    variant: Variant
    test: OpTest | None
    """None if it has no golden and therefore no verdict."""
    fails: bool
    """Whether it fails as the original does."""
    passes: bool


class Lab:
    """A place to try variants of one failure; a context manager. Two variants at once with two lanes."""

    def __init__(
        self,
        folder: Path,
        repro: bundle.Repro,
        *,
        lanes: int = 1,
        budget: float = 300.0,
        against: str = "",
        stop: str = "",
        against_path: str = "",
    ) -> None:
        """`folder` is the repro folder; after `budget` seconds, or once the file `stop` is there, nothing is tried any
        more. `against` is the second backend, where it is two lowerings that differ and not a failure, `against_path`
        the folder from which it imports first."""
        self._scratch = TemporaryFolder("lab")
        self.place = Path(self._scratch.name)
        self.folder, self.repro = resolved(folder), repro
        self._until, self._stop = time.monotonic() + budget, stop
        self._backends = (bundle.backend_of(self.folder, repro.options), *([against] if against else []))
        path = os.pathsep.join(filter(None, (against_path, os.environ.get("PYTHONPATH"))))
        self._environments = {against: {"PYTHONPATH": path}} if against_path else {}
        self._free: queue.SimpleQueue[list[Lane]] = queue.SimpleQueue()
        self._lanes: list[list[Lane]] = []
        """For each variant that is tried at once, a lane of each backend."""
        self._dumping: Lane | None = None
        """A lane that keeps the results of its rows."""
        self._levels: dict[int, Lane] = {}
        """Lanes of other optimization levels."""
        self._lane_count, self._pool = lanes, ThreadPoolExecutor(lanes)
        self._evaluator = Evaluator(repro.options.goldens_by)
        self._mlir = threading.Lock()
        self._tried: dict[tuple[str, str], Tried] = {}
        self.count = 0
        """Variants that were run."""
        self._changes: list[Change] = []
        self._shown: frozenset[str] = frozenset()
        """What the last variant shows, by what such changes have in common."""
        self.whole: Variant | None = None
        """The model that the original is a part of."""

    @property
    def compares_lowerings(self) -> bool:
        """Whether there is a second backend."""
        return len(self._backends) > 1

    @property
    def difference(self) -> str:
        """How the two backends lower the original differently; a variant counts that has one of these changes."""
        return ", ".join(change.what for change in self._changes)

    @property
    def stage(self) -> Stage | None:
        """The stage that the failure is at."""
        return None if self.compares_lowerings else self.repro.failure.stage

    @property
    def out_of_budget(self) -> bool:
        """Whether the time is up, or the user wants what there is."""
        return time.monotonic() >= self._until or (bool(self._stop) and Path(self._stop).exists())

    def original(self) -> Variant:
        """The failure as it was recorded. Raises InputError if its module is none that the parser survives.

        All other modules are made of this one here, so that only this one is read in a fork first.
        """
        row = self.repro.row
        path = checked(self.folder, row.module or "")
        if row.devices > 1:
            raise InputError(str(path), "an op of one device", f"{row.op_name} of {row.devices}", "opscope repro")
        ops = split_bytes(path, max(self._until - time.monotonic(), 1.0))
        if len(ops) == 1:
            return Variant(path.read_bytes(), tuple(row_inputs(row, self.folder)))
        if not self.compares_lowerings and row.holds:
            return Variant(path.read_bytes(), tuple(row_inputs(row, self.folder)), row.op_name)
        if not self.compares_lowerings:
            raise InputError(str(path), "a module of one op", f"one of {len(ops)}")
        return self._part(Variant(path.read_bytes(), (), WHOLE_MODEL))

    def _part(self, model: Variant) -> Variant:
        """The smallest op of a model, else the smallest window, that the backends lower differently as they do the
        model; of several changes, the one of most sites that any shows. Raises InputError where none shows one."""
        self._try(model, 0)
        changes, self.whole = self._changes, model
        if not changes:
            raise self._same_lowering()
        split = split_module(model.module)
        found: tuple[int, Variant] | None = None
        for part in _parts(split):
            if self.out_of_budget or (found is not None and (found[0] == 0 or part.name)):
                break  # windows only where no op shows a change
            self._changes = changes
            tried = self._try(part, 0)
            if tried is None or not tried.fails:
                continue
            place = next(place for place, change in enumerate(changes) if change.alike in self._shown)
            if found is None or place < found[0]:
                found = place, part
        if found is None:
            got = "no time to find it" if self.out_of_budget else f"none of {len(split.ops)} ops and their windows"
            raise InputError("opscope reduce", f"an op or window that shows {changes[0].what}", got, "opscope diff")
        self._changes = [changes[found[0]]]
        self._tried.clear()  # what was asked of them was more
        part = found[1]
        zeros = tuple(np.zeros(each.shape, numpy_dtype(each.data_type)) for each in part.single.inputs)
        return replace(part, inputs=zeros)

    def _same_lowering(self) -> InputError:
        backends = " and ".join(self._backends)
        return InputError("opscope reduce", f"an op that {backends} lower differently", "the same lowering")

    def reproduced(self, where: str) -> tuple[Tried, Form]:
        """The failure, tried once more, and the form that it began with.

        Raises InputError if it does not show any more; `where` is the command.
        """
        original = self.original()
        try:
            form = (self.whole or original).form
        except InvalidVariantError as error:
            raise InputError(where, "an op with static shapes", str(error)) from error
        (tried,) = self.try_all([original])
        if self.compares_lowerings and tried is not None and not tried.fails:
            raise self._same_lowering()
        if tried is None or not tried.fails:
            got = "no time to try it" if tried is None else "a pass" if tried.passes else "a different failure"
            raise InputError(where, "the op to fail as recorded", got, "opscope replay; the failure may be flaky")
        return tried, form

    def try_all(self, variants: Sequence[Variant]) -> list[Tried | None]:
        """The outcome of each, as many at once as there are lanes. None for those that the time did not suffice for."""
        futures = [self._pool.submit(self._try, variant, index) for index, variant in enumerate(variants)]
        return [future.result() for future in futures]

    @property
    def width(self) -> int:
        """How many are tried at once."""
        return self._lane_count

    def _try(self, variant: Variant, index: int) -> Tried | None:
        if self.out_of_budget:
            return None
        with self._mlir:
            single = variant.single
        key = (single.op_id, " ".join(digest(memoryview(array.tobytes())) for array in variant.inputs))
        if key in self._tried:
            return replace(self._tried[key], variant=variant)
        row = self._row(single, variant, f"{index}_{self.count}")
        self.count += 1
        if self.stage is Stage.COMPARE and not row.golden:
            tried = Tried(variant, None, fails=False, passes=False)
        else:
            lanes = self._free.get()
            try:
                test, *others = [lane.run(row) for lane in lanes]
                fails = self._differ(lanes, row) if others else self.repro.failure.same(test)
            finally:
                self._free.put(lanes)
            passes = test.status in WENT_THROUGH
            tried = Tried(variant, test, fails, passes)
        self._tried[key] = tried
        for path in self.place.glob(f"{row.module.removesuffix('.mlirbc') if row.module else ''}[.-]*"):
            path.unlink()
        return tried

    def run(self, row: OpRow, *, dumps: bool = False, level: int | None = None) -> OpTest:
        """The record of a row whose files lie in this place; with `dumps`, `dumped` has its results afterwards; `level`
        is another optimization level than the failure's."""
        if level is not None:
            if level not in self._levels:
                self._levels[level] = self._lane(self._backends[0], f"level{level}", level=level)
            return self._levels[level].run(row)
        if dumps:
            self._dumping = self._dumping or self._lane(self._backends[0], "dumping", dump_tensors="all")
            return self._dumping.run(row)
        lanes = self._free.get()
        try:
            return lanes[0].run(row)
        finally:
            self._free.put(lanes)

    def dumped(self, op_id: str) -> Path:
        """The folder of the results of a row that was run with dumps."""
        assert self._dumping is not None
        folder = Path(self._dumping.config.context.run_dir, artifacts.ARTIFACT_DIR, op_id)
        return folder / f"tensors-{backend_label(self._backends[0])}"

    def _differ(self, lanes: Sequence[Lane], row: OpRow) -> bool:
        """Whether the backends have lowered an op differently, in the way of the original, which comes first."""
        texts = []
        for lane in lanes:
            context = lane.config.context
            folder = Path(context.run_dir, artifacts.ARTIFACT_DIR, row.op_id)
            last = lowered_ir.last_ir(folder / artifacts.ir_folder(backend_label(context.backend)))
            texts.append("" if last is None else lowered_ir.plain(last.read_text(encoding="utf-8", errors="replace")))
            shutil.rmtree(folder, ignore_errors=True)
        one, two = texts
        changes = changes_of_texts(two, one) if one and two else []
        self._changes = self._changes or changes
        self._shown = frozenset(change.alike for change in changes)
        return not self._shown.isdisjoint(change.alike for change in self._changes)

    def _row(self, single: SingleOp, variant: Variant, name: str) -> OpRow:
        """The manifest row of a variant, its files in this place."""
        if single.unsplittable:
            raise InputError(single.op_id, "an op that stands alone", single.unsplittable)
        (self.place / f"{name}.mlirbc").write_bytes(single.bytecode)
        sources = []
        for number, array in enumerate(variant.inputs[: len(single.inputs)]):
            save(self.place / f"{name}-{number}.npy", array)
            sources.append(Source(kind="captured", path=f"{name}-{number}.npy"))
        row = OpRow(
            op_id=single.op_id,
            op_name=single.op_name,
            module=f"{name}.mlirbc",
            inputs=single.inputs,
            outputs=single.outputs,
            sources=tuple(sources),
            op_params=single.op_params,
            no_golden="not needed",
            uses=(Use(model=bundle.MODEL, path="main/0"),),
        )
        if variant.name and self.repro.row.holds:  # the same ops, of other sizes
            row = row.model_copy(
                update={name: getattr(self.repro.row, name) for name in ("op_params", "holds", "argument_types")}
            )
        if self.stage is not Stage.COMPARE:
            return row
        # Beside the inputs, so that all of a variant goes at once.
        row = self._evaluator.with_golden(row.model_copy(update={"op_id": f"{name}-golden"}), self.place)
        return row.model_copy(update={"op_id": single.op_id})

    def _open(self) -> None:
        """Makes the lanes; a fault of one variant costs that lane's child only."""
        while len(self._lanes) < self._lane_count:
            lanes = [  # each with a folder of its own, since two builds may have one name
                self._lane(backend, f"lane{len(self._lanes)}-{side}", keep_ir=self.compares_lowerings)
                for side, backend in enumerate(self._backends)
            ]
            self._lanes.append(lanes)
            self._free.put(lanes)

    def _lane(self, backend: str, name: str, level: int | None = None, **kept: Any) -> Lane:
        """A lane with a run folder of its own; `kept` are fields of its context."""
        options = self.repro.options
        until = str(self.stage) if self.stage not in (None, Stage.COMPARE) else options.until
        context = bundle.context_of(self.folder, self.repro, self.place / name)
        changed = {"until": until} | ({} if level is None else {"optimization_level": level})
        context = replace(context, backend=backend, options=context.options.changed(**changed), **kept)
        folders = {bundle.MODEL: str(self.place)}
        limits = {"op_timeout": options.op_timeout, "memory_limit": options.op_memory}
        return Lane(LaneConfig(context, folders, environment=self._environments.get(backend, {}), **limits))

    def row_of(self, tried: Tried) -> OpRow:
        """The manifest row of a variant that was tried, its values in this place."""
        return self._row(tried.variant.single, tried.variant, "chosen")

    def close(self) -> None:
        """Ends lanes and child, and clears the place."""
        self._pool.shutdown()
        for lane in chain(*self._lanes, [self._dumping] if self._dumping else (), self._levels.values()):
            lane.close()
        self._evaluator.close()
        self._scratch.cleanup()

    def __enter__(self) -> Lab:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class _AsOne:
    """A program of several ops as if it were one."""

    op: SingleOp
    form: Form


def _as_one(variant: Variant) -> _AsOne:
    split = split_module(variant.module)
    taken, given = ([split.values[v] for v in of] for of in (split.program.arguments, split.program.results))
    op_id = words_digest(variant.module.hex(), digits=16)
    op = SingleOp(op_id, variant.name, variant.module, tuple(taken), tuple(given), {}, ())
    shapes, kinds = (
        (tuple(d.shape for d in of) for of in (taken, given)),
        (tuple(d.data_type for d in of) for of in (taken, given)),
    )
    (operands, results), (types, result_types) = shapes, kinds
    return _AsOne(op, Form(variant.name, operands, types, results, result_types, (), tuple(range(len(taken)))))


def _parts(split: SplitModule) -> Iterator[Variant]:
    """The ops of a model, then its windows of more and more ops, each kind once, the smallest first."""
    ops = [op for op in split.ops.values() if not op.unsplittable]
    yield from (Variant(op.bytecode, ()) for op in sorted(ops, key=lambda op: _elements((*op.inputs, *op.outputs))))
    for size in WINDOWS:
        pieces = {piece_module.content_id(piece, split, frozenset()): piece for piece in windows(split.program, size)}
        values = {key: [split.values[v] for v in (*piece.arguments, *piece.results)] for key, piece in pieces.items()}
        for key in sorted(pieces, key=lambda key: _elements(values[key])):
            with contextlib.suppress(CannotBuildError):
                yield Variant(piece_module.build(pieces[key], split), (), pieces[key].name)


def _elements(tensors: Iterable[TensorDesc]) -> int:
    return sum(math.prod(each.shape) for each in tensors)


def refit(variant: Variant, before: Form, module: bytes, after: Form) -> Variant:
    """A variant of another form with the values of `variant`, cut or repeated to its shapes."""
    inputs = list(variant.inputs)
    for operand, number in enumerate(after.arguments):
        if number < 0:
            continue
        inputs[number] = fitted(
            variant.inputs[before.arguments[operand]], after.operands[operand], numpy_dtype(after.types[operand])
        )
    return Variant(module, tuple(inputs))


def fitted(array: Any, shape: Sequence[int], dtype: Any) -> Any:
    """`array` in another shape and type: its first values where it is longer, its values again where it is shorter."""
    while array.ndim > len(shape):
        unit = next((axis for axis, extent in enumerate(array.shape) if extent == 1), 0)
        array = np.take(array, 0, axis=unit)
    while array.ndim < len(shape):
        array = array[None]
    for axis, extent in enumerate(shape):
        if array.shape[axis] == 0:
            return np.zeros(shape, dtype)
        if array.shape[axis] != extent:
            array = np.take(array, np.arange(extent) % array.shape[axis], axis=axis)
    if np.iscomplexobj(array) and not np.issubdtype(dtype, np.complexfloating):
        array = array.real
    return np.ascontiguousarray(array.astype(dtype, copy=False)).reshape(tuple(shape))

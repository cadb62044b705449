"""Tries variants of an op: each runs in a lane up to the stage of the failure, and its outcome is compared with it.

Inputs of a variant are the original's, cut or repeated to its shapes and converted to its types, so that what is in the
values stays; a golden is computed only where the failure shows in the numbers.

With a second backend a variant counts if the two lower it differently, and in the same way as the original. A whole
model is first replaced by its smallest op, or its fewest ops, that show a change of the model when compiled alone.
"""

from __future__ import annotations

import math
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.digest import words_digest
from opscope.base.file_names import resolved
from opscope.base.op_families import WINDOW
from opscope.base.stored import checked, digest
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.prepare.mlir import piece_module
from opscope.harness.prepare.mlir.single_op import CannotBuildError
from opscope.harness.prepare.mlir.variant import Form, InvalidVariantError, read
from opscope.harness.prepare.program import SingleOp, SplitModule
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.split_guard import of_entry, split_bytes
from opscope.harness.prepare.subgraph import Line, uncounted
from opscope.harness.record import artifacts, lowered_ir
from opscope.harness.record.element_types import numpy_dtype, save
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import backend_label
from opscope.harness.record.program_changes import Change, changes_of_texts
from opscope.harness.record.records import WHOLE_MODEL, OpRow, OpTest, Source, TensorDesc, Use
from opscope.harness.record.stages import WENT_THROUGH, Stage
from opscope.harness.triage import bundle
from opscope.harness.triage.evaluator import Evaluator

OF_OPS = 1 / 3
"""Of the time, what the ops of a model may take that are tried alone before several of them are."""
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
        return _as_one(self.module, self.name).form if self.name else read(self.module)

    @property
    def single(self) -> SingleOp:
        """Its op, or its program as one."""
        if self.name:
            return _as_one(self.module, self.name).op
        split = split_module(self.module)
        (node,) = (node for node in split.program.nodes if node.kind != "constant")
        return split.ops[node.op_id]


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
        change: str = "",
    ) -> None:
        """`folder` is the repro folder; after `budget` seconds, or once the file `stop` is there, nothing is tried any
        more. `against` is the second backend, where it is two lowerings that differ and not a failure, `against_path`
        the folder from which it imports first, `change` the name of the one difference of a whole model that is meant,
        where there are several."""
        self._scratch = TemporaryFolder("lab")
        self.place = Path(self._scratch.name)
        self.folder, self.repro = resolved(folder), repro
        self._until, self._stop, self._change = time.monotonic() + budget, stop, change
        self._backends = (bundle.backend_of(self.folder, repro.options), *([against] if against else []))
        path = os.pathsep.join(filter(None, (against_path, os.environ.get("PYTHONPATH"))))
        self._environments = {against: {"PYTHONPATH": path}} if against_path else {}
        self._free: queue.SimpleQueue[list[Lane]] = queue.SimpleQueue()
        self._lanes: list[list[Lane]] = []
        """For each variant that is tried at once, a lane of each backend."""
        self._dumping: Lane | None = None
        """A lane that keeps the results of its rows."""
        self._levels: dict[int | None, Lane] = {}
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
        ops = of_entry(split_bytes(path, max(self._until - time.monotonic(), 1.0)))
        if len(ops) == 1:
            return Variant(path.read_bytes(), tuple(row_inputs(row, self.folder)))
        if not self.compares_lowerings and row.holds:
            return Variant(path.read_bytes(), tuple(row_inputs(row, self.folder)), row.op_name)
        if not self.compares_lowerings:
            raise InputError(str(path), "a module of one op", f"one of {len(ops)}")
        return self._part(Variant(path.read_bytes(), (), WHOLE_MODEL))

    def _part(self, model: Variant) -> Variant:
        """The smallest op of a model, else the fewest ops, that the backends lower differently as they do the model; of
        several changes the asked one, else of ops the one of most sites that any shows. Raises InputError where there
        is no such change, or nothing less than the model shows it."""
        self._try(model, 0)
        changes, self.whole = self._asked(self._changes), model
        split = split_module(model.module)
        best: tuple[int, Variant] | None = None
        ops_until = time.monotonic() + (self._until - time.monotonic()) * OF_OPS
        for part in _ops(split):
            if time.monotonic() >= ops_until or self.out_of_budget or (best is not None and best[0] == 0):
                break
            if (place := self._shows(part, changes)) is not None and (best is None or place < best[0]):
                best = place, part
        shows = partial(self._shows, changes=changes[:1])
        place, part = best or (0, fewest(split, lambda part: shows(part) is not None, lambda: self.out_of_budget))
        if part is None:
            got = "no time to find it" if self.out_of_budget else f"none, not even all of {len(split.ops)} ops"
            raise InputError("opscope reduce", f"a part that shows {changes[0].what}", got, "a longer --budget")
        self._changes, part = [changes[place]], _with_zeros(part)
        of_part = part.single.op_id
        self._tried = {key: tried for key, tried in self._tried.items() if key[0] == of_part}  # others were asked more
        return part

    def _asked(self, changes: list[Change]) -> list[Change]:
        """The change that is asked for, or all. Raises InputError if there is none."""
        if not changes:
            raise self._same_lowering()
        asked = [change for change in changes if self._change in ("", change.name)]
        if not asked:
            names = ", ".join(f"{change.name} ({change.what})" for change in changes)
            raise InputError("--change", names, self._change, "opscope gate, whose lines name them")
        return asked

    def _shows(self, part: Variant, changes: list[Change]) -> int | None:
        """The first of some changes that the backends lower a part with; None if they do with none."""
        self._changes = changes
        tried = self._try(_with_zeros(part), 0)
        alike = [place for place, change in enumerate(changes) if tried and tried.fails and change.alike in self._shown]
        return alike[0] if alike else None

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
        with self._mlir:
            single = variant.single
        key = (single.op_id, " ".join(digest(memoryview(array.tobytes())) for array in variant.inputs))
        if key in self._tried:
            return replace(self._tried[key], variant=variant)
        if self.out_of_budget:
            return None
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
        if level is not None or self.compares_lowerings:  # whose other lanes run nothing
            if level not in self._levels:
                self._levels[level] = self._lane(self._backends[0], f"level-{level}", level=level)
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
        two = self.compares_lowerings
        while len(self._lanes) < self._lane_count:
            lanes = [  # each with a folder of its own, since two builds may have one name
                self._lane(backend, f"lane{len(self._lanes)}-{side}", keep_ir=two, compiles_only=two)
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


@lru_cache(4)
def _as_one(module: bytes, name: str) -> _AsOne:
    split = split_module(module)
    taken, given = ([split.values[v] for v in of] for of in (split.program.arguments, split.program.results))
    op_id = words_digest(module.hex(), digits=16)
    op = SingleOp(op_id, name, module, tuple(taken), tuple(given), {}, ())
    shapes, kinds = (
        (tuple(d.shape for d in of) for of in (taken, given)),
        (tuple(d.data_type for d in of) for of in (taken, given)),
    )
    (operands, results), (types, result_types) = shapes, kinds
    return _AsOne(op, Form(name, operands, types, results, result_types, (), tuple(range(len(taken)))))


def _ops(split: SplitModule) -> Iterator[Variant]:
    """The ops of a model, each kind once, the smallest first."""
    ops = [op for op in split.ops.values() if not op.unsplittable]
    yield from (Variant(op.bytecode, ()) for op in sorted(ops, key=lambda op: _elements((*op.inputs, *op.outputs))))


def fewest(
    split: SplitModule, shows: Callable[[Variant], bool], ended: Callable[[], bool] = lambda: False
) -> Variant | None:
    """The ops of a model without any run of them that need not be there, runs of half of them first, as one module;
    None if not even all of them do. `shows` says whether a module still shows what is looked for, `ended` whether the
    best so far has to do: a module of many ops takes its time even where it is not tried."""
    line, best = Line(split.program, uncounted(split.program)), None
    held, size = list(line.places), len(line.places)
    while size > 1:
        size = (size + 1) // 2
        start = 0
        while start < len(held) and not ended():
            fewer = held[:start] + held[start + size :]
            part = _window(split, line, fewer) if fewer else None
            if part is not None and shows(part):
                held, best = fewer, part
            else:
                start += size
    whole = None if best or ended() else _window(split, line, held)
    return whole if whole is not None and shows(whole) else best


def _with_zeros(part: Variant) -> Variant:
    """A part of a model with values of its own."""
    arrays = (np.zeros(each.shape, numpy_dtype(each.data_type)) for each in part.single.inputs)
    return replace(part, inputs=tuple(arrays))


def _window(split: SplitModule, line: Line, places: Sequence[int]) -> Variant | None:
    """The ops at some places of a program as one module; None where there is no such module."""
    name = f"{WINDOW}:{line.nodes[places[-1]].name.rpartition('.')[2]}"
    try:
        return Variant(piece_module.build(line.piece(set(places), name), split), (), name)
    except CannotBuildError:
        return None


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

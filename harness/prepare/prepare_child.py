"""The child of `jobs/model_jobs.py`: splits one exported model, walks it, and writes its export folder."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import damage
from opscope.base.children.ending import KILLED, OF_THE_MACHINE
from opscope.base.children.forks import RaisedInFork
from opscope.base.children.inside import Parent
from opscope.base.machine import memory_limit
from opscope.base.slots import Slots, slots_of
from opscope.base.visible_text import cut
from opscope.harness.cache import export_folder, growing_export
from opscope.harness.prepare.model_job import ModelJob
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import ManifestHeader
from opscope.harness.record.result_options import DRAWN
from opscope.models.registry import TRAINING

if TYPE_CHECKING:
    from opscope.harness.prepare.argument_files import FileValue
    from opscope.harness.prepare.export import Exported
    from opscope.harness.prepare.mesh.sharding import Sharded
    from opscope.harness.prepare.program import SplitModule
    from opscope.harness.prepare.walk import Limits, Walked, Walker, WalkTask
    from opscope.harness.prepare.whole_row import WholeProgram

Emit = Callable[..., None]

LOADED = (
    "export",
    "argument_files",
    "dead_ops",
    "authorities.golden_author",
    "by_formula",
    "disk_space",
    "kept_split",
    "split",
    "input_distributions",
    "mlir.effects",
    "mlir.initial_values",
    "mlir.named_calls",
    "mlir.shardy_ops",
    "mlir.upcast",
    "parts.walk_in_parts",
    "walk",
    "whole_row",
)
"""The modules that are imported below once they are needed."""


def prepare(parent: Parent) -> None:
    """Does a task, or sends an `error` event with the reason."""

    def emit(event: str, **fields: Any) -> None:
        parent.send({"event": event, **fields})

    job = ModelJob(**parent.task())
    damage.show_by(lambda line: emit("damage", line=line))
    try:
        make(job, emit)
    except RaisedInFork as error:
        emit("error", got=cut(str(error), 200))
    except InputError as error:
        emit("error", where=error.where, expected=error.expected, got=error.got, hint=error.hint)
    except OSError as error:
        refused = export_folder.unwritable(Path(job.temporary).parent, error)
        emit("error", where=refused.where, expected=refused.expected, got=refused.got, hint=refused.hint)
    except Exception as error:  # noqa: BLE001 - any error that a module causes is reported in one line
        traceback.print_exc()
        got = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:200]
        emit("error", got=got)


def load() -> None:
    """Imports what splits and walks a model, for all forks of a process. Starts no thread."""
    for name in LOADED:
        importlib.import_module(f"opscope.harness.prepare.{name}")
    from opscope.harness.prepare import golden

    golden.load_ahead(())


def make(job: ModelJob, emit: Emit) -> None:
    """Announces a model's ops, and unless it is only to be split, evaluates them and writes its export folder.

    A process that only splits leaves its split in the file `kept`, after it has announced the ops; one that finds such
    a file does not split.
    """
    slots = slots_of(*job.slots) if job.slots else None
    if slots is not None:
        slots.take()
    split = _Split.of(job, emit)
    arguments = split.arguments()
    header = ManifestHeader(
        models=(job.name,),
        export_dirs=(job.elsewhere or job.folder,),
        module_ops={job.name: split.program.module_ops},
        structural={job.name: split.program.structural},
        dead={job.name: split.program.dead},
        notes={job.name: split.notes} if split.notes else {},
    )
    announcer = split.announce(header)
    if job.only_split:
        split.keep()
        return
    from opscope.harness.prepare import whole_row
    from opscope.harness.prepare.parts import walk_in_parts

    walked = split.walk(arguments, announcer, slots)
    whole_row.write(Path(job.temporary), job.name, split.whole(arguments, walked.results))
    with contextlib.suppress(FileNotFoundError):
        (Path(job.temporary) / export_folder.JOURNAL).unlink()
    walk_in_parts.discard_results(Path(job.temporary))
    export_folder.write_manifest(Path(job.temporary), header, walked.rows)
    if job.limited or any(each.search(row.no_golden) for row in walked.rows for each in (KILLED, OF_THE_MACHINE)):
        (Path(job.temporary) / export_folder.LIMITED).write_text(job.request["run"], encoding="utf-8")
    export_folder.publish(Path(job.temporary), Path(job.folder))


@dataclass(frozen=True)
class _Arguments:
    """The values of a program's arguments."""

    distributions: Sequence[str]
    files: Mapping[int, str]
    """Argument -> the file of its value, where the user brought it."""
    digest: str
    """Names the program and these values in records."""


@dataclass(frozen=True)
class _Split:
    """A model that is split."""

    job: ModelJob
    emit: Emit
    exported: Exported
    notes: tuple[str, ...]
    """What a user should know of the export."""
    module: bytes
    """The bytecode that was split."""
    program: SplitModule
    mesh: Sharded | None
    known: bool
    """Whether another process had split it, and has announced its ops."""
    limits: Limits

    @classmethod
    def of(cls, job: ModelJob, emit: Emit) -> _Split:
        """Splits the model, unless a process before this one has kept its split."""
        exported, notes = _exported(job)
        (Path(job.temporary) / export_folder.MODULE).write_bytes(exported.bytecode)
        emit("stage", model=job.name, stage="export", done=1, total=1)
        emit("stage", model=job.name, stage="split", done=0, total=1)
        from opscope.harness.prepare import kept_split

        mesh, request = None, job.request
        if request["mesh"]:
            from opscope.harness.prepare.mesh.sharding import sharded

            mesh = sharded(exported, request["mesh"], job.name, request["memory"])
        module = mesh.bytecode if mesh else exported.bytecode
        program = known = kept_split.read(Path(job.kept), module) if job.kept else None
        if program is None:
            from opscope.harness.prepare.split import split_module

            program = split_module(module, job.name)
            if not request["dead_ops"]:
                from opscope.harness.prepare.dead_ops import without_dead_ops

                program = without_dead_ops(program)
        emit("stage", model=job.name, stage="split", done=1, total=1)
        from opscope.harness.prepare.walk import Limits

        limits = Limits(request["max_tensor_bytes"], max(request["max_live_bytes"], 4 * request["max_tensor_bytes"]))
        return cls(job, emit, exported, notes, module, program, mesh, known is not None, limits)

    @property
    def _random(self) -> bool:
        """Whether no op reads what another computed."""
        return self.job.request["inputs"] in DRAWN

    def arguments(self) -> _Arguments:
        """The values of the arguments. Raises InputError for files that do not fit, and a disk that is too small."""
        from opscope.harness.prepare import argument_files, disk_space
        from opscope.harness.prepare.input_distributions import argument_distributions

        temporary, request = Path(self.job.temporary), self.job.request
        disk_space.check(self.program, self.limits, temporary, self.job.name, random=self._random)
        distributions = argument_distributions(self.program)
        if specs := self.exported.arguments:
            distributions = [spec.law or own for spec, own in zip(specs, distributions, strict=True)]
        brought = argument_files.files(request["inputs"], request["weights"])
        types = (
            self.mesh.wholes if self.mesh else [self.program.values[value] for value in self.program.program.arguments]
        )
        values = argument_files.values(self.exported, types, temporary, brought)
        placements = repr(self.mesh.arguments) if self.mesh else ""
        digest = program_digest(self.program, distributions, values, placements) + argument_files.label(brought)
        return _Arguments(distributions, {index: value.file for index, value in values.items()}, digest)

    def announce(self, header: ManifestHeader) -> growing_export.Announcer | None:
        """Says which ops there are and how many processes may walk them; returns who announces what becomes of them."""
        from opscope.harness.prepare.parts import walk_in_parts
        from opscope.harness.prepare.walk import split_row

        job = self.job
        if not job.kept:
            return None
        announcer = growing_export.Announcer(lambda text: self.emit("announce", text=text))
        if not job.elsewhere:
            if not self.known:
                announcer.split(header, [split_row(op, self.exported.frontend) for op in self.program.ops.values()])
            if not job.only_split:
                announcer.begin(Path(job.temporary))
            most = walk_in_parts.MOST if job.hand_over and not self.mesh else 1
            self.emit("split", model=job.name, processes=self._worth(most))
        return announcer

    def keep(self) -> None:
        """Keeps the split for the process that walks the model."""
        if not self.known and self.job.kept:
            from opscope.harness.prepare import kept_split

            kept_split.write(Path(self.job.kept), self.program, self.module)

    def _worth(self, most: int) -> int:
        """How many processes are worth starting for the walk, at most so many."""
        from opscope.harness.prepare.parts import walk_in_parts

        if most < 2:
            return 1
        parts, memory = walk_in_parts.parts(self.program, self._random), memory_limit(self.job.request["memory"])
        return walk_in_parts.processes(self.program, parts, most, memory, self.limits, self._random)

    def walk(self, arguments: _Arguments, announcer: growing_export.Announcer | None, slots: Slots | None) -> Walked:
        """Evaluates the program, in several processes where that is worth it."""
        from opscope.harness.prepare.authorities import golden_author
        from opscope.harness.prepare.parts import walk_in_parts
        from opscope.harness.prepare.walk import WalkTask, walk

        job, temporary = self.job, Path(self.job.temporary)

        def on_progress(done: int, total: int) -> None:
            self.emit("stage", model=job.name, stage="golden", done=done, total=total)

        plan = WalkTask(
            split=self.program,
            distributions=arguments.distributions,
            seed=job.request["seed"],
            folder=temporary,
            value_files=arguments.files,
            provenance=f"captured:{job.name}-{arguments.digest}:{job.request['seed']}",
            author=golden_author.words(job.request["goldens_by"]),
            cache_dir=Path(job.request["cache_dir"]),
            limits=self.limits,
            fatal_ops=job.fatal_ops,
            compile_threads=job.compile_threads,
            random=self._random,
            classes=job.request["inputs"] == "classes",
            frontend=self.exported.frontend,
            slots=slots,
            on_progress=on_progress,
            on_row=None if announcer is None else partial(announcer.op, temporary),
        )
        on_progress(0, sum(node.kind == "op" for node in self.program.program.nodes))
        several = self._worth(slots.count if slots is not None and not self.mesh else 1)
        if several > 1:
            return walk_in_parts.walk_in_parts(plan, walk_in_parts.parts(self.program, plan.random), several)
        return walk(plan, walker_over(self.mesh) if self.mesh else None)

    def whole(self, arguments: _Arguments, results: Sequence[Any]) -> WholeProgram:
        """The model as one program, with the results of its walk."""
        from opscope.harness.prepare.whole_row import WholeProgram

        mesh = self.mesh
        return WholeProgram(
            self.program,
            joined(mesh, results) if mesh else results,
            arguments.distributions,
            self.job.request["seed"],
            digest=arguments.digest,
            frontend=self.exported.frontend,
            value_files=arguments.files,
            argument_types=argument_types(self.job.name, self.exported),
            types=(mesh.wholes, [desc for desc, _ in mesh.results]) if mesh else None,
        )


def _exported(job: ModelJob) -> tuple[Exported, tuple[str, ...]]:
    """The model as its exporter has left it, or as its StableHLO file says; left for machines that will walk it. And
    the lines about it, which have been said."""
    from opscope.harness.prepare.export import export_file, hand_over, handed_over

    lines: list[str] = []
    if job.exported:
        exported = handed_over(Path(job.exported), lambda line: lines.append(f"{job.name}: {line}"))
    else:
        exported = export_file(Path(job.path), job.entry, job.request["shape"], lines.append)
    lines += (f"{job.name}: {note}" for note in exported.notes)
    for line in lines:
        damage.say(line)
    if job.handed_over is not None:
        hand_over(exported, job.handed_over)
    return exported, tuple(lines)


def walker_over(mesh: Sharded) -> Callable[[WalkTask], Walker]:
    """What makes the walker of a mesh."""
    from opscope.harness.prepare.mesh.mesh_walk import MeshWalker

    return lambda plan: MeshWalker(plan, mesh)


def joined(mesh: Sharded, results: Sequence[Any]) -> list[Any]:
    """The whole results from the devices' parts, where the walk has them: those of the model without shardings."""
    return [
        place.joined(parts, desc.shape) if isinstance(parts, list) else parts
        for parts, (desc, place) in zip(results, mesh.results, strict=True)
    ]


def argument_types(name: str, exported: Exported) -> tuple[str, ...]:
    """The type of each argument for a compiler: from its exporter, or as a StableHLO file says it.

    Empty for files that do not say it, and for training steps, which change all arguments.
    """
    if name.endswith(TRAINING):
        return ()
    if exported.roles:
        return exported.roles
    return tuple("input" if spec.role == "input" else "parameter" for spec in exported.arguments)


def program_digest(
    split: SplitModule,
    distributions: Sequence[str],
    file_values: Mapping[int, FileValue] | None = None,
    placements: str = "",
) -> str:
    """A digest, 12 digits long, of what the values of a walk depend on besides the seed.

    That is ops, wiring, types, distributions and values from files, and how arguments are split over devices
    (`placements`), but not locations.
    """
    digest = hashlib.sha256(repr(list(distributions)).encode() + placements.encode())
    for index, value in sorted((file_values or {}).items()):
        digest.update(f"{index}={value.digest};".encode())
    for node in split.program.walk():
        digest.update(f"{node.op_id}{node.inputs}{node.outputs};".encode())
        if node.value is not None:
            # A splat is a view of one element, so that one is enough.
            elements = node.value if any(node.value.strides) else node.value[(slice(0, 1),) * node.value.ndim]
            digest.update(f"{node.value.shape}{node.value.dtype}".encode() + elements.tobytes())
    for desc in split.values:
        digest.update(f"{desc.shape}{desc.data_type}".encode())
    return digest.hexdigest()[:12]

"""The child of `prepare.prepare_models`: splits one exported model, walks it, and writes its export folder."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import damage
from opscope.base.children.forks import RaisedInFork
from opscope.base.children.inside import Parent
from opscope.base.children.slots import slots_of
from opscope.base.machine import memory_limit
from opscope.harness.cache import export_folder, growing_export
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import ManifestHeader
from opscope.models.registry import TRAINING

if TYPE_CHECKING:
    from opscope.harness.prepare.argument_files import FileValue
    from opscope.harness.prepare.export import Exported
    from opscope.harness.prepare.mesh.sharding import Sharded
    from opscope.harness.prepare.program import SplitModule
    from opscope.harness.prepare.walk import Walker, WalkTask

Emit = Callable[..., None]

LOADED = (
    "export",
    "argument_files",
    "disk_space",
    "kept_split",
    "split",
    "input_distributions",
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

    task = parent.task()
    damage.show_by(lambda line: emit("damage", line=line))
    try:
        make(task, emit)
    except RaisedInFork as error:
        emit("error", got=str(error)[:200])
    except InputError as error:
        emit("error", where=error.where, expected=error.expected, got=error.got, hint=error.hint)
    except OSError as error:
        refused = export_folder.unwritable("cache folder", Path(task["temporary"]).parent, error)
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


def make(task: dict[str, Any], emit: Emit) -> None:
    """Writes the export folder for `task`, which is a `preparation.Task` with `exported`, `temporary`,
    `fatal_ops`, `compile_threads`, `slots` (a file of slots and their number: this process works in one of them; or
    None), `only_split`: whether to say which ops there are, and nothing else, and `tell`: the folder's place in
    the end where the parent, who knows the ops already, writes what is announced, else empty;
    `hand_over`: whether other machines will walk the model, and `hand_over_to`: a folder in which its module is left
    for them, where no exporter has left it, else empty.

    Where the task has `announcements`, ops are announced there (`cache/growing_export.py`). A process that only splits
    leaves its split in the file `kept`, after it has announced the ops, and one that finds such a file does not split.
    """
    request, name, temporary = task["request"], task["name"], Path(task["temporary"])
    slots = slots_of(*task["slots"]) if task["slots"] else None
    if slots is not None:
        slots.take()

    def stage(which: str, done: int, total: int) -> None:
        emit("stage", model=name, stage=which, done=done, total=total)

    from opscope.harness.prepare.export import export_file, hand_over, handed_over

    if task["exported"]:
        exported = handed_over(Path(task["exported"]))
    else:
        exported = export_file(Path(task["path"]), task["entry"], request["shape"], damage.say)
    if task["hand_over_to"]:
        hand_over(exported, Path(task["hand_over_to"]))
    (temporary / export_folder.MODULE).write_bytes(exported.bytecode)
    stage("export", 1, 1)
    stage("split", 0, 1)
    from opscope.harness.prepare import argument_files, disk_space, kept_split

    mesh = None
    if request["mesh"]:
        from opscope.harness.prepare.mesh.sharding import sharded

        mesh = sharded(exported, request["mesh"], name, request["memory"])
    module, kept = mesh.bytecode if mesh else exported.bytecode, Path(task["kept"]) if task["kept"] else None
    split = known = kept_split.read(kept, module) if kept is not None else None
    if split is None:
        from opscope.harness.prepare.split import split_module

        split = split_module(module, name)
    stage("split", 1, 1)
    from opscope.harness.prepare import whole_row
    from opscope.harness.prepare.input_distributions import argument_distributions
    from opscope.harness.prepare.parts import walk_in_parts
    from opscope.harness.prepare.walk import Limits, WalkTask, split_row, walk

    limits = Limits(request["max_tensor_bytes"], max(request["max_live_bytes"], 4 * request["max_tensor_bytes"]))
    disk_space.check(split, limits, temporary, name, random=request["inputs"] == "random")
    distributions = argument_distributions(split)
    if exported.arguments:
        distributions = [
            spec.law or distribution for spec, distribution in zip(exported.arguments, distributions, strict=True)
        ]
    seed = request["seed"]
    brought = argument_files.files(request["inputs"], request["weights"])
    descs = mesh.wholes if mesh else [split.values[value] for value in split.program.arguments]
    values = argument_files.values(exported, descs, temporary, brought)
    digest = program_digest(split, distributions, values, repr(mesh.arguments) if mesh else "")
    digest += argument_files.label(brought)
    header = ManifestHeader(
        models=(name,),
        export_dirs=(task["tell"] or task["folder"],),
        module_ops={name: split.module_ops},
        structural={name: split.structural},
    )

    def worth(most: int) -> int:
        """How many processes are worth starting for the walk, at most so many."""
        if most < 2:
            return 1
        random = request["inputs"] == "random"
        parts, memory = walk_in_parts.parts(split, random), memory_limit(request["memory"])
        return walk_in_parts.processes(split, parts, most, memory, limits, random)

    announcer = None
    if task["announcements"]:
        tell = (lambda text: emit("announce", text=text)) if task["tell"] else None
        announcer = growing_export.Announcer(Path(task["announcements"]), tell)
    if announcer is not None and not task["tell"]:
        if known is None:
            announcer.split(header, [split_row(op, exported.frontend) for op in split.ops.values()])
        if not task["only_split"]:
            announcer.begin(temporary)
        most = walk_in_parts.MOST if task["hand_over"] and not mesh else 1
        emit("split", model=name, processes=worth(most))
    if task["only_split"]:
        if known is None and kept is not None:
            kept_split.write(kept, split, module)
        return
    order = WalkTask(
        split=split,
        distributions=distributions,
        seed=seed,
        folder=temporary,
        value_files={index: value.file for index, value in values.items()},
        provenance=f"captured:{name}-{digest}:{seed}",
        cache_dir=Path(request["cache_dir"]),
        limits=limits,
        fatal_ops=task["fatal_ops"],
        compile_threads=task["compile_threads"],
        random=request["inputs"] == "random",
        frontend=exported.frontend,
        slots=slots,
        on_progress=lambda done, total: stage("golden", done, total),
        on_row=None if announcer is None else partial(announcer.op, temporary),
    )
    several = worth(slots.count if slots is not None and not mesh else 1)
    if several > 1:
        walked = walk_in_parts.walk_in_parts(order, walk_in_parts.parts(split, order.random), several)
    else:
        walked = walk(order, walker_over(mesh) if mesh else None)
    results = joined(mesh, walked.results) if mesh else walked.results
    whole_row.write(
        temporary,
        name,
        split,
        results,
        distributions,
        seed,
        digest,
        exported.frontend,
        {index: value.file for index, value in values.items()},
        argument_types(name, exported),
        (mesh.wholes, [desc for desc, _ in mesh.results]) if mesh else None,
    )
    with contextlib.suppress(FileNotFoundError):
        (temporary / export_folder.JOURNAL).unlink()
    walk_in_parts.discard_results(temporary)
    export_folder.write_manifest(temporary, header, walked.rows)
    export_folder.publish(temporary, Path(task["folder"]))


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

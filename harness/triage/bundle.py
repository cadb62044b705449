"""A repro folder: one op with all that it takes to see its failure again, on any machine that has opscope.

    module.mlir, module.mlirbc   the op's module, as text and as bytecode (the one that is run)
    inputs/<n>.npy               its inputs in order; types that are not NumPy's own as integers of their bits
    golden/<n>.npy               what each result must be
    result-<n>.npy               what the device gave, where the numbers were wrong; compare.txt, .svg, .json explain it
    issue.json                   what `opscope repro --as-issue` says beside that
    repro.json                   the op, the options, the failure, versions and seed
    run.sh, test_repro.py        run it; README.md says how, also without opscope
    without_opscope.sh           shows it with the backend alone, where that says how (`Backend.repro_lines`), with the
                                 files that this needs (`Backend.repro_files`)
    backend/                     the backend's own file, where it is one, with the files beside it that it names, and
                                 the system descriptor that it was given

Values that do not fit into the room for them are left out: inputs are then drawn again by their distribution and seed,
and the golden is computed when it is needed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from opscope.base import regular_file
from opscope.base.file_names import resolved
from opscope.base.inner_path import copy_file, inside
from opscope.base.stored import checked
from opscope.harness.backends import registry
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext
from opscope.harness.record.option_types import path_of
from opscope.harness.record.records import OpRow, OpTest, Record, Shard, Source, Use
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.signature import shorten
from opscope.harness.record.stages import Stage, Status
from opscope.harness.triage import beside, bundle_texts, issue_facts

FORMAT = 1
FILE = "repro.json"
MODULE, TEXT = "module.mlirbc", "module.mlir"
OWN = "backend"
"""The folder for files that the backend was given: its own, a system descriptor."""
LEFT_OUT = "needed_as_well.txt"
"""Names the files there that the backend's file reads and that are not in the folder, for their size or place."""
OF_THE_RUN = ("run_id", "seed", "revision", "backend_revision", "versions")
"""What repro.json says of the run that the failure was in."""
MODEL = "repro"
"""What the one use of the op calls its model."""


class Failure(Record):
    """The failure that a repro folder reproduces."""

    status: Status
    stage: Stage | None = None
    message: str = ""
    signature: str = ""
    crash_kind: str = ""
    question: str = ""
    """The question that the numbers failed; empty in folders from before it was recorded."""
    stability: str = ""

    @classmethod
    def of(cls, test: OpTest) -> Failure:
        """The failure in a record."""
        return cls(
            status=test.status,
            stage=test.failed_stage,
            message=test.error_message or "",
            signature=test.error_signature or "",
            crash_kind=test.crash_kind or "",
            question=test.question,
            stability=test.stability,
        )

    def same(self, test: OpTest) -> bool:
        """Whether a record has this failure: equal status, stage, kind of crash, fingerprint and question."""
        other = Failure.of(test)
        names = ("status", "stage", "crash_kind", "signature", *["question"] * bool(self.question))
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def alike(self, test: OpTest) -> bool:
        """Whether a record has this failure at another place, or at another level: as `same`, but of wrong numbers it
        is not asked in which results they are, nor which question they failed."""
        other = Failure.of(test)
        names = ("status", "stage", "crash_kind", *["signature"] * (self.stage is not Stage.COMPARE))
        return all(getattr(self, name) == getattr(other, name) for name in names)


class Options(ResultOptions, frozen=True):
    """How the op was run."""

    backend: str
    """A backend's name, or a file's path below the folder."""
    op_timeout: float = 120.0
    op_memory: int | None = None


class Repro(Record):
    """What repro.json holds."""

    format: int = FORMAT
    row: OpRow
    options: Options
    failure: Failure
    run_id: str = ""
    seed: int = 0
    revision: str = ""
    backend_revision: str = ""
    versions: dict[str, str]
    note: str = ""
    """What became of values that are not in the folder."""


class Origin(Record):
    """Where a failure comes from: its run, and the files of its op."""

    export_dir: Path
    options: Options
    run_id: str = ""
    seed: int = 0
    revision: str = ""
    backend_revision: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    explanation: Path | None = None
    """The folder that explains its wrong numbers (harness/record/explanation.py)."""


def write(
    folder: Path,
    row: OpRow,
    test: OpTest,
    origin: Origin,
    *,
    values: bool = True,
    known: MutableMapping[str, Path] | None = None,
) -> int:
    """Writes the repro folder of a failure in the place of an older one; returns the bytes of values that it took.

    `values`: whether inputs and goldens are stored. `known` holds files written before by what is in them: equal
    values are links to one file. Raises OSError if the disk refuses.
    """
    part = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        row = row.of_failure(test)
        store = _Values(part, origin.export_dir, known if known is not None else {}, values)
        bundled = store.bundled(row)
        module = checked(origin.export_dir, row.module or "").read_bytes()
        (part / MODULE).write_bytes(module)
        (part / TEXT).write_text(bundle_texts.module_text(module), encoding="utf-8")
        repro = Repro(
            row=bundled,
            options=_with_backend_file(part, origin.options),
            failure=Failure.of(test),
            note=store.note,
            **{name: getattr(origin, name) for name in OF_THE_RUN},
        )
        (part / FILE).write_text(repro.model_dump_json(indent=1) + "\n", encoding="utf-8")
        own = _of_backend(part, origin.options, row, module)
        issue_facts.write(part, test, own.build, own.files)
        explained = store.explanation(origin.explanation) if origin.explanation is not None else []
        beside = bundle_texts.Beside(repro.options.backend, repro.note, explained, own.lines)
        bundle_texts.write(part, test, bundled, beside)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
        written_files = {name: folder / path.relative_to(part) for name, path in store.written.items()}
        if known is not None:
            known.update(written_files)
        return store.size
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


class _Values:
    """Puts values into a folder, each once."""

    def __init__(self, folder: Path, export_dir: Path, written_before: Mapping[str, Path], keep: bool) -> None:
        self._folder, self._export, self._known_files, self._keep = folder, export_dir, written_before, keep
        self.written: dict[str, Path] = {}
        self.size, self.note = 0, ""

    def bundled(self, row: OpRow) -> OpRow:
        """The row as repro.json has it: its module and values are in the folder, and it has one use."""
        sources, golden = self.all_of(row)
        shards = []
        for shard in row.shards:
            of_shard = self.all_of(row.on(shard), f"d{shard.devices[0]}.") if row.devices > 1 else (sources, golden)
            shards.append(Shard(devices=shard.devices, sources=of_shard[0], golden=of_shard[1]))
        uses = [
            Use(model=MODEL, path=use.path, location=use.location, framework_op=use.framework_op)
            for use in row.uses[:1]
        ]
        return row.model_copy(
            update={
                "module": MODULE,
                "sources": sources,
                "golden": golden,
                "term_sizes": (),
                "second": None,
                "shards": tuple(shards),
                "no_golden": row.no_golden if self._keep else "its values were left out",
                "uses": tuple(uses) or (Use(model=MODEL, path="main/0"),),
            }
        )

    def all_of(self, row: OpRow, device: str = "") -> tuple[tuple[Source, ...], tuple[str, ...]]:
        """The places of all inputs and goldens in the folder; `device` begins the names of a device's own."""
        sources = tuple(self.source(row, index, device) for index in range(len(row.sources)))
        paths = enumerate(row.golden if self._keep else ())
        return sources, tuple(self.golden(path, index, device) for index, path in paths)

    def source(self, row: OpRow, index: int, device: str = "") -> Source:
        """Where input `index` comes from in the folder."""
        from opscope.harness.prepare import input_distributions, inputs
        from opscope.harness.record.element_types import save

        source, desc = row.sources[index], row.inputs[index]
        if any(size < 0 for size in desc.shape):
            self.note = "an input has an open dimension, so it has no values; --shape of a run binds it"
            return source
        if not self._keep:
            if source.kind != "captured":
                self.note = self.note or "inputs are generated again, from distribution and seed"
                return source
            self.note = (
                "inputs captured from the model were too large to keep, so these are random ones in the op's domain"
            )
            try:
                distribution = input_distributions.distribution_of(row.op_name, index, row.inputs, row.op_params)
            except (IndexError, ValueError):  # constants inside the module shift the operands
                distribution = input_distributions.default_distribution(desc.data_type)
            return inputs.drawn("random", distribution, 0, index)
        name = f"{source.law} {source.seed} {source.index} {desc.shape} {desc.data_type}"
        path = Path("inputs") / f"{device}{index}.npy"
        if source.whole:
            name = f"{name} {source.path} {source.start}"
        if source.kind == "captured" and not source.whole:
            self._put(f"{self._export}/{source.path}", path, copy=self._export / (source.path or ""))
        else:
            self._put(name, path, make=lambda to: save(to, inputs.materialise(source, desc, self._export)))
        return Source(kind="captured", path=path.as_posix())

    def golden(self, path: str, index: int, device: str = "") -> str:
        """The place of golden `index` in the folder."""
        place = Path("golden") / f"{device}{index}.npy"
        self._put(f"{self._export}/{path}", place, copy=self._export / path)
        return place.as_posix()

    def explanation(self, folder: Path) -> list[str]:
        """Copies what explains the wrong numbers, and the device's results where values are kept; returns the names."""
        names = []
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if self._keep or path.suffix != ".npy":
                copy_file(path, self._folder / path.name)
                names.append(path.name)
                self.size += path.stat().st_size if path.suffix == ".npy" else 0
        return names

    def _put(self, name: str, place: Path, *, copy: Path | None = None, make: Any = None) -> None:
        target = self._folder / place
        target.parent.mkdir(exist_ok=True)
        before = self.written.get(name) or self._known_files.get(name)
        try:
            if before is not None:
                os.link(before, target)
                return
        except OSError:
            pass  # another disk, or gone meanwhile
        if copy is not None:
            shutil.copyfile(copy, target)  # never a link: the cache must not change with what a user does here
        else:
            make(target)
        self.written[name] = target
        self.size += target.stat().st_size


@dataclass(frozen=True)
class _BackendsOwn:
    """What the backend itself says of a failure, and of how to show it without opscope."""

    lines: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    build: str = ""


def _of_backend(folder: Path, options: Options, row: OpRow, module: bytes) -> _BackendsOwn:
    """Asks the backend, and writes its files into the folder, none over another file. Nothing where it says nothing."""
    from opscope.harness.backends import registry

    if not {"repro_lines", "build_note"} & registry.declarations_of(options.backend).methods:
        return _BackendsOwn()
    from opscope.harness.backends.base import Job

    job = Job(row.op_id, module, [], ResultOptions.of(options.model_dump()), row.outputs, row.argument_types)
    job.several_devices = row.devices > 1
    try:
        backend = registry.load(options.backend)
        build, files = backend.build_note(), backend.repro_files(job)
        lines = [part for line in backend.repro_lines(job) for part in str(line).splitlines()]
        for name, content in files.items():
            with inside(folder, name).open("xb") as file:
                file.write(content)
    except Exception as error:  # noqa: BLE001  the folder shows the failure with opscope all the same
        text = " ".join(str(error).split())
        return _BackendsOwn((f"# the backend could not say it: {type(error).__name__}: {text}",))
    return _BackendsOwn(tuple(lines), tuple(files), build)


def _with_backend_file(folder: Path, options: Options) -> Options:
    """The options with the backend's file, where it is one, copied into the folder with the files beside it that it
    names; a system descriptor is too. What is not taken stands in a text file there."""
    if options.system_desc is not None:
        _copied(path_of(options.system_desc), folder / OWN)
    kind, colon, name = options.backend.rpartition(":")
    path = Path(name)
    if path.suffix not in registry.FILES or not path.is_file():
        return options  # a plugin's library stays where it is: hundreds of megabytes
    _copied(path, folder / OWN)
    needed, left_out = beside.of(path)
    for file in needed:
        copy_file(file, folder / OWN / file.relative_to(path.parent))
    if left_out:
        (folder / OWN / LEFT_OUT).write_text("\n".join([*left_out, ""]), encoding="utf-8")
    return options.model_copy(update={"backend": f"{kind}{colon}{OWN}/{path.name}"})


def _copied(path: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    shutil.copyfile(path, folder / path.name)


def read(folder: Path) -> Repro:
    """What a repro folder holds. Raises InputError if it is none, or of a newer opscope."""
    path = folder / FILE
    try:
        values = json.loads(regular_file.read_text(path))
        if isinstance(values, dict) and values.get("format") != FORMAT:
            raise InputError(str(path), f"format {FORMAT}", f"format {values.get('format')}", "a newer opscope")
        return Repro.model_validate(values)
    except FileNotFoundError:
        raise InputError(str(folder), "a repro folder", f"no {FILE}", "opscope repro ID") from None
    except (OSError, ValidationError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(str(path), "a file that opscope repro wrote", shorten(str(error), 120)) from error


def backend_of(folder: Path, options: Options) -> str:
    """The backend as `--backend` takes it: a name, or a path that can be found from anywhere."""
    kind, colon, name = options.backend.rpartition(":")
    own = resolved(folder) / name
    return f"{kind}{colon}{own}" if name.startswith(f"{OWN}/") and own.is_file() else options.backend


def context_of(folder: Path, repro: Repro, run_dir: Path) -> RunContext:
    """The context in which the op is run again, its artifacts below `run_dir`."""
    options = repro.options
    values = options.model_dump()
    if options.system_desc is not None:
        own = resolved(folder) / OWN / path_of(options.system_desc).name
        values["system_desc"] = f"{own}{options.system_desc[-17:]}" if own.is_file() else options.system_desc
    return RunContext("repro", str(run_dir), backend_of(folder, options), ResultOptions.of(values))

"""Kept verdicts: stored by a key of everything that they depend on, and shared by all runs on this machine.

The key holds the op's id, where its inputs come from, what the backend computes with (its fingerprint), the options
that affect compilation and climb, and everything that judges the result (harness/cache/verdict_fingerprint.py, with the
version of the tolerance table).
Only verdicts that the op will get again are kept, not those that time, memory or a signal decided. With a verdict go
the digests of the values that it rests on: where they are known, a verdict that rests on others is not used.
"""

from __future__ import annotations

import base64
import contextlib
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from opscope.base import damage, regular_file, stored
from opscope.base.children.ending import OF_THE_MACHINE
from opscope.base.digest import json_digest, words_digest
from opscope.base.statuses import RIGHT
from opscope.harness.backends import compiler_commits, registry
from opscope.harness.backends.commands import description, identity
from opscope.harness.cache import export_folder, made_of, op_key, verdict_fingerprint
from opscope.harness.cache.json_store import JsonStore
from opscope.harness.climb.by_class import WITHOUT_INPUTS, of_classes
from opscope.harness.climb.doubts import Doubts
from opscope.harness.climb.keeping import FOLDER, AtOnce, Keeping, drop_where
from opscope.harness.lanes.flight import Ready
from opscope.harness.lanes.lists import scope_of
from opscope.harness.prepare.authorities import voices
from opscope.harness.record import artifacts, explanation
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext, backend_label, build_test
from opscope.harness.record.records import SCHEMA_VERSION, OpRow, OpTest
from opscope.harness.record.result_options import Decides
from opscope.harness.record.stages import VARYING, Stage, Status

VERSION = 4
"""Increased when entries of older versions must no longer be read."""

KEPT = RIGHT | {Status.COMPILE_FAILED, Status.RUN_FAILED, Status.WRONG_RESULT, Status.GOLDEN_IN_DOUBT}
"""Endings that the same op will have again."""

OF_THE_RUN = (
    "run_id",
    "attempt",
    "test_case_name",
    "full_test_name",
    "filepath",
    "test_start_ts",
    "test_end_ts",
    "frontend",
    "model_name",
    "holds",
    "framework_op_name",
    "uses",
    "locations",
    "models",
    "provenance",
    "input_class",
    "repro",
    "expected",
    "flaky",
)
"""Fields of a record that depend on its run, not on the verdict."""

MOST_SEEN = 4096
"""So many kept verdicts, of some 5 kB each, wait in memory until they are used."""

_HINT = '; say in the class what they are made of: made_of = ("FILE", "FOLDER/*.py")'


class ResultCache:
    """The kept verdicts of one cache folder, as one run may use them."""

    def __init__(
        self,
        cache_dir: Path,
        context: RunContext,
        ready: Ready | None,
        folders: Mapping[str, str] | None = None,
        doubted: bool = False,
        keeping: Keeping | None = None,
    ) -> None:
        """`ready` is the backend's report. With None, verdicts are kept but none is read; with `doubted`, neither.
        `folders` has each model's export folder; `keeping` gets verdicts to write them (with None, it is done here)."""
        self._store, self._context, self._folders = JsonStore(cache_dir / FOLDER), context, folders or {}
        self._keeping = keeping or AtOnce(cache_dir, Path(context.run_dir))
        self._lists = made_of.Lists(cache_dir)
        self._scope = scope_of(context.backend, cache_dir, context.run_dir)
        self.unseen = "a sample of them does not hold" if doubted else _unseen(context.backend)
        """Why no verdict of this backend is kept; empty if some may be."""
        self._says = True
        self._seen: dict[tuple[str, str], dict[str, Any]] = {}
        """Verdicts that were read to know whether an op has one, until they are used."""
        self._made: dict[int, made_of.Made] = {}
        self._noted: made_of.Made | None = None
        """The list that was kept last: most ops of a run have the same."""
        self._reports: tuple[Any, ...] = ()
        """The report of that list, so that its id is no other's."""
        self._last_key: tuple[OpRow, Ready, str] | None = None
        self._reads = ready is not None
        # With --dump-tensors, the op has to run to produce them.
        self._ready = None if context.dump_tensors != "none" else ready

    def has(self, row: OpRow) -> bool:
        """Whether an op's verdict is kept and may be read, on each class of its inputs."""
        for number, each in enumerate(row.by_class):
            if (entry := self._entry(each)) is None:
                return False
            if len(self._seen) < MOST_SEEN:
                self._seen[each.op_id, each.input_class] = entry
            if not number and entry["test"]["status"] in WITHOUT_INPUTS:
                break
        return True

    def find(self, row: OpRow, attempt: int = 1) -> OpTest | None:
        """The kept record of an op, as this run would write it. Returns None if no verdict is kept."""
        return of_classes(row, lambda each: self.of_class(each, attempt))

    def of_class(self, row: OpRow, attempt: int = 1) -> OpTest | None:
        """The kept record of an op on one class of inputs, as it ran. Returns None if no verdict is kept."""
        entry = self._seen.pop((row.op_id, row.input_class), None) or self._entry(row)
        if entry is None:
            return None
        try:
            kept = OpTest.model_validate(entry["test"])
            diagnostic = str(entry["diagnostic"])
        except (KeyError, ValidationError):
            return None
        values, now = entry.get("values"), self._values(row)
        if values is not None and now is not None and values != now:
            damage.say(f"{row.op_name} [{row.op_id}]: its cached verdict rests on other values; it runs again")
            return None
        fresh = build_test(row, self._context, status=kept.status, started=None, attempt=attempt)
        values = {name: getattr(fresh, name) for name in OF_THE_RUN}
        artifact = self._restored(row, kept, diagnostic, entry.get("files", {}))
        self._leave_ir(row, kept, entry)
        return kept.model_copy(update={**values, "artifact": artifact, "cached_from": kept.cached_from or kept.run_id})

    def _entry(self, row: OpRow) -> dict[str, Any] | None:
        """The newest kept verdict of an op whose lists hold; None if there is none."""
        changed = ""
        for entry in self._entries(row):
            if self._context.keep_ir and not entry.get("all_ir"):
                continue
            what = self._lists.changed(entry.get("lists", ()), self._scope)
            if not what and "voices" in entry and entry["voices"] != voices.present():
                what = "who can be asked about goldens has"
            if not what:
                return entry
            changed = changed or what
        if changed:
            self._say(f"cached verdicts are not used: {changed} changed")
        return None

    def _entries(self, row: OpRow) -> list[dict[str, Any]]:
        """All kept verdicts of an op, the newest first."""
        if self._ready is None or self.unseen:
            return []
        name = self._key(row, self._ready)
        return list((self._store.get(name) or {}).get("results", ())) if self._store.has(name) else []

    def _key(self, row: OpRow, ready: Ready) -> str:
        """The key of a verdict; that of the last one is known."""
        last = self._last_key
        if last is None or last[0] is not row or last[1] != ready:
            last = self._last_key = row, ready, key(row, self._context, ready)
        return last[2]

    def _say(self, what: str) -> None:
        """Says once why verdicts are not kept, or are not used."""
        if self._says:
            self._says = False
            damage.say(f"{backend_label(self._context.backend)}: {what}")

    def changed(self, rows: Iterable[OpRow]) -> str:
        """The first thing that is another by now of what earlier runs' verdicts on some ops rest on; empty if there are
        no such verdicts."""
        for row in _each_class(rows):
            for entry in self._entries(row):
                if self._context.run_id != entry["test"]["run_id"]:
                    what = self._lists.changed(entry.get("lists", ()), self._scope)
                    if what:
                        return what
        noted = self._store.get(_request(self._context)) or {}
        return noted.get(OTHER, "") if noted.get(NOTED_IN) == self._context.run_id else ""

    def rests_on(self, rows: Iterable[OpRow]) -> tuple[dict[str, int], list[str]]:
        """How many files, folders and variables the newest verdicts on some ops rest on, and the user's files."""
        newest = [entry for row in _each_class(rows) for entry in self._entries(row)[:1]]
        names = {name: None for entry in newest for name in entry.get("lists", ())}
        return self._lists.contents(names)

    def forget(self, row: OpRow) -> None:
        """Removes an op's kept verdict, and all of this backend that rest on the same."""
        if (entry := self._entry(row)) is not None:
            lists, label = entry.get("lists"), backend_label(self._context.backend)
            cache_dir = self._store.root.parent
            drop_where(cache_dir, lambda each: (each.get("lists"), each["test"]["backend"]) == (lists, label))

    def _restored(self, row: OpRow, kept: OpTest, diagnostic: str, files: Mapping[str, str]) -> str | None:
        """Writes the diagnostic, and the `files` beside it, into this run's folder.

        Returns None if there is none or the disk refuses it.
        """
        if kept.artifact is None:
            return None
        folder = ""
        if explanation.folder_of(kept) is not None:
            folder = f"{explanation.folder_name(backend_label(self._context.backend))}/"
            for name, content in files.items():
                path = f"{folder}{Path(name).name}"
                artifacts.write(self._context.run_dir, row.op_id, path, base64.b64decode(content))
        return artifacts.write(self._context.run_dir, row.op_id, f"{folder}{Path(kept.artifact).name}", diagnostic)

    def keep(self, row: OpRow, test: OpTest, ready: Ready, *others: Ready, text: str = "") -> None:
        """Keeps a verdict for later runs; `ready` is the report of the child that ran the op, `others` are those of
        its reruns, `text` is the record's JSON, where that is known. One whose cause is not known in full is not kept.
        """
        if self.unseen or test.status not in KEPT or test.flaky or test.stability == VARYING:
            return
        if OF_THE_MACHINE.search(test.error_message or ""):
            return
        entry = {"values": self._values(row), "backend": registry.absolute(self._context.backend)}
        if test.second_authority:
            entry["voices"] = voices.present()
        if self._context.keep_ir:
            entry["all_ir"] = True
        self._keeping.keep(self._key(row, ready), test, entry, lambda: self._made_of((ready, *others)), text)

    def close(self) -> None:
        """Leaves the digests that lists needed to later runs."""
        export_folder.keep_sources(self._store.root.parent)

    def _made_of(self, reports: Iterable[Ready]) -> list[str] | None:
        """The lists of what some children have read; None if one is not known, which is said once."""
        if self.unseen:
            return None
        names: list[str] = []
        for ready in reports:
            made = ready.made or self._made.get(id(ready.read)) or made_of.made(ready.read, self._scope)
            if ready.read is not None:
                self._made, self._reports = {id(ready.read): made}, (ready.read,)
            unseen = made.unseen or (self._other_there(made) if ready.made is not None else "")
            if unseen and ready.read is None and self._scope.declared is None:
                continue  # of another machine: what our own backends are made from is in the key
            if unseen:
                self._say(f"a verdict is not kept: {unseen}{_HINT if 'declares' in unseen else ''}")
                return None
            if made is self._noted:
                names.append(made.digest)
                continue
            names.append(self._lists.keep(made))
            label = backend_label(self._context.backend)
            if path := self._lists.other_in_run(made, words_digest(self._context.run_id, label, digits=32)):
                self._say(f"no verdict is kept: lanes of this run do not have the same {path}")
                self.unseen = f"lanes do not have the same {path}"
                self._keeping.drop(self._context.run_id, label)
                return None
            self._noted = made
        return list(dict.fromkeys(names))

    def _other_there(self, made: made_of.Made) -> str:
        """What is another on the machine that has made a list than it is here; empty if the list holds here too."""
        what = self._lists.changed([self._lists.keep(made)], self._scope)
        return f"its worker has another {what.removeprefix('variable ')}" if what else ""

    def _leave_ir(self, row: OpRow, kept: OpTest, entry: Mapping[str, Any]) -> None:
        """Writes the IR that is kept with a verdict into this run's folder, with the files' order by age."""
        if kept.right and not self._context.keep_ir:
            return
        folder, files = artifacts.ir_folder(backend_label(self._context.backend)), entry.get("ir", {})
        began = time.time() - len(files)
        for age, (name, content) in enumerate(files.items()):
            data = zlib.decompress(base64.b64decode(content))
            path = artifacts.write(self._context.run_dir, row.op_id, f"{folder}/{Path(name).name}", data)
            if path is not None:
                os.utime(Path(self._context.run_dir, path), (began + age, began + age))

    @property
    def doubts(self) -> Doubts:
        """The goldens in doubt that this cache knows."""
        return Doubts(self._store.root.parent, self._values, reads=self._reads)

    def _values(self, row: OpRow) -> list[str] | None:
        """The digests of the captured inputs and goldens of an op; None if they are not known here."""
        folder = self._folders.get(row.uses[0].model) if row.uses else None
        return None if folder is None else stored.digests_of(_path(folder), export_folder.value_files(row))


_path = lru_cache(maxsize=64)(Path)
"""The path of an export folder, made once for all ops."""


def _each_class(rows: Iterable[OpRow]) -> Iterator[OpRow]:
    """Ops on each class of their inputs: each has verdicts of its own."""
    return (each for row in rows for each in row.by_class)


def key(row: OpRow, context: RunContext, ready: Ready) -> str:
    """The key of a kept verdict; 32 hex digits."""
    return json_digest({"run": _of_the_run(context, ready), **op_key.of_row(row)}, digits=32)


@lru_cache(maxsize=16)
def _of_the_run(context: RunContext, ready: Ready) -> str:
    """The digest of the parts of a key that all ops of a run have in common on one backend."""
    parts = {
        "version": (VERSION, SCHEMA_VERSION),
        "backend": backend_label(context.backend),
        "asked": context.options.decisive(Decides.COMPILATION, Decides.CLIMB),
        "ready": {
            name: value
            for name, value in asdict(replace(ready, read=None, made=None)).items()
            if name not in ("commit", "read", "made") and (value or name != "versions")
        },
    }
    return json_digest(parts, digits=32)


# --- what a backend reported when it was last started

PARTS, OTHER, NOTED_IN = "parts", "other", "noted_in"
"""Beside the report of a YAML file's compiler: what it is made of, the first part that is another than at the report
before, and the run that has noted it."""


def recall(cache_dir: Path, context: RunContext) -> Ready | None:
    """Returns the backend's report for the same options, if nothing that it could depend on has changed since."""
    if reason := _unseen(context.backend):
        damage.say(f"no verdict of {backend_label(context.backend)} is kept: {reason}")
    value = JsonStore(cache_dir / FOLDER).get(_request(context))
    export_folder.keep_sources(cache_dir)
    if value is None:
        return None
    try:
        values = {name: value[name] for name in value.keys() - {PARTS, OTHER, NOTED_IN}}
        ready = Ready(**{**values, "stages": tuple(Stage(stage) for stage in value["stages"])})
    except (KeyError, TypeError, ValueError):
        return None
    file = registry.command_file(context.backend)
    return ready if file is None else _of_commands(context.backend, file, ready)


def _of_commands(backend: str, path: Path, ready: Ready) -> Ready | None:
    """The kept report of a YAML file's compiler, with its commit of today; None if the compiler is another by now."""
    try:
        file = description.read(path)
        if identity.fingerprint(file) != ready.fingerprint:
            return None
    except (InputError, OSError):
        return None  # its lane says what is wrong
    revision = partial(identity.revision, file)
    return replace(ready, commit=compiler_commits.named(backend, revision, lambda: file.repository))


def note(cache_dir: Path, context: RunContext, ready: Ready) -> None:
    """Keeps a backend's report, if the backend declares that it depends only on sources and packages; that of a YAML
    file's compiler with what this is made of, and what of it is another than at the report before."""
    if not ready.lasting:
        return
    store, request = JsonStore(cache_dir / FOLDER), _request(context)
    value = asdict(replace(ready, read=None, made=None))
    if (path := registry.command_file(context.backend)) is not None:
        with contextlib.suppress(InputError, OSError):
            before, parts = (store.get(request) or {}).get(PARTS, {}), identity.parts(description.read(path))
            other = made_of.first_other(before, parts) if before else ""
            value |= {PARTS: parts, OTHER: other, NOTED_IN: context.run_id}
    store.put(request, value)


def _request(context: RunContext) -> str:
    options = context.options.decisive(Decides.COMPILATION, Decides.CLIMB)
    words = (VERSION, context.backend, options, verdict_fingerprint.of_all_sources(context.backend))
    if changes_with := registry.mark(context.backend):
        words = (*words, changes_with)
    return words_digest(repr(words), digits=32)


def changed_since(
    cache_dir: Path, context: RunContext, ready: Ready, rows: Iterable[OpRow], tests: Mapping[str, OpTest]
) -> str | None:
    """What is another by now of all that the verdicts of a run rest on, `tests` by op; empty if all of it holds, and
    None if that is not known of any."""
    kept, lists = JsonStore(cache_dir / FOLDER), made_of.Lists(cache_dir)
    scope = scope_of(context.backend, cache_dir, context.run_dir)
    known = None
    for row in _each_class(rows):
        if (test := tests.get(row.op_id)) is None or test.status not in KEPT:
            continue
        for entry in (kept.get(key(row, context, ready)) or {}).get("results", ()):
            if entry["test"]["run_id"] in (test.run_id, test.cached_from):
                known = lists.changed(entry.get("lists", ()), scope)
                if known:
                    return known
    return known


class Basis(NamedTuple):
    """What a kept verdict rests on."""

    backend: str
    run_id: str
    status: str
    counts: Mapping[str, int]
    """How many files, folders and variables its lists name."""
    own: Sequence[str]
    """The files among them beside the backend, relative to it."""
    changed: str
    """The first thing that is another by now; empty if all of it holds."""
    inputs: str
    """The class of inputs with its worst element, as z over its limit and where: `cancelling (0.31 at [3, 4])`; empty
    if the op has no classes."""


def bases(cache_dir: Path, op_id: str) -> list[Basis]:
    """What the kept verdicts on an op rest on, of all backends, those of the newest runs first.

    All kept verdicts are looked at: some seconds for 100,000.
    """
    found, lists = [], made_of.Lists(cache_dir)
    for path in (cache_dir / FOLDER).glob("*/*.json"):
        with contextlib.suppress(OSError, damage.Damaged, KeyError, TypeError):
            if op_id.encode() not in regular_file.read_bytes(path):
                continue
            for entry in stored.read_json(path)["results"]:
                if entry["test"]["op_id"] == op_id:
                    found.append(_basis(entry, lists, cache_dir))
    return sorted(found, key=lambda basis: basis.run_id, reverse=True)


def _basis(entry: Mapping[str, Any], lists: made_of.Lists, cache_dir: Path) -> Basis:
    test, scope = entry["test"], scope_of(entry["backend"], cache_dir)
    counts, own = lists.contents(entry["lists"])
    changed = lists.changed(entry["lists"], scope)
    return Basis(test["backend"], test["run_id"], test["status"], counts, own, changed, _inputs(test))


def _inputs(test: Mapping[str, Any]) -> str:
    """The class of inputs of a kept verdict, with its worst element."""
    scored = [check for check in test.get("results", ()) if check.get("z_max") and check.get("z_limit")]
    if not test.get("input_class") or not scored:
        return str(test.get("input_class", ""))
    worst = max(scored, key=lambda check: check["z_max"] / check["z_limit"])
    where = f" at {[*worst['z_index']]}" if worst.get("z_index") else ""
    return f"{test['input_class']} ({worst['z_max'] / worst['z_limit']:.2g}{where})"


def _unseen(backend: str) -> str:
    """Why no verdict of a backend is kept; empty if some may be."""
    file = registry.command_file(backend)
    if file is None:
        return ""
    try:
        return identity.unseen(description.read(file))
    except (InputError, OSError):
        return ""  # its lane says what is wrong

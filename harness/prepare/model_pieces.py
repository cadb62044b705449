"""The child of `programs.derived_exports` for pieces of a model: rows that hold several ops each.

The model is split and walked once more, and the walk's values at the borders of pieces are kept, one file a value:
what goes into a piece, and its golden, are those of the ops by themselves. Nothing is drawn but the model's arguments.
Pieces that are equal are one row, run on the values of the first. The names of files are values' numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.children.inside import Parent
from opscope.base.stored import checked
from opscope.harness.cache import export_folder
from opscope.harness.cache.export_folder import JOURNAL, MODULE, OPS, VALUES
from opscope.harness.prepare import golden
from opscope.harness.prepare.authorities import golden_author
from opscope.harness.prepare.authorities.beside_goldens import save_anew
from opscope.harness.prepare.dead_ops import without_dead_ops
from opscope.harness.prepare.inputs import materialise
from opscope.harness.prepare.mlir import piece_module
from opscope.harness.prepare.mlir.single_op import TOKEN, CannotBuildError
from opscope.harness.prepare.own_random_numbers import OWN_NUMBERS, own_random_numbers
from opscope.harness.prepare.program import Node, Program, SplitModule
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.subgraph import Piece, layers, patterns, reads, windows
from opscope.harness.prepare.walk import Missing, Walker, WalkTask
from opscope.harness.prepare.whole_manifest import whole_rows
from opscope.harness.prepare.whole_row import products_in_a_row
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import PRODUCTS_IN_A_ROW, HeldOp, ManifestHeader, OpRow, Source, Use
from opscope.harness.record.workflows import PATTERNS, ops_in_a_piece

PARAMETER, INPUT = "parameter", "input"


def derive(parent: Parent) -> str:
    """Writes the export folder of a task (harness/programs/derived_exports.py), or returns why there are no pieces."""
    task = parent.task()
    context = RunContext.from_json(task["context"])
    base, temporary, model = Path(task["base"]), Path(task["temporary"]), task["model"]
    for name in (OPS, VALUES):
        (temporary / name).mkdir()
    author = golden_author.words(context.options.goldens_by)
    try:
        rows = rows_of(base, temporary, task["workflow"], author, dead_ops=context.options.dead_ops)
    except InputError as error:
        return str(error)
    places = sum(len(row.uses) for row in rows)
    header = ManifestHeader(
        models=(model,), export_dirs=(task["folder"],), module_ops={model: places}, structural={model: 0}
    )
    export_folder.write_manifest(temporary, header, rows)
    (temporary / export_folder.BASE).write_text(base.name, encoding="utf-8")
    export_folder.publish(temporary, Path(task["folder"]))
    return ""


def rows_of(base: Path, folder: Path, workflow: str, author: str = "", *, dead_ops: bool = False) -> list[OpRow]:
    """The rows of the pieces that a workflow makes of the model in the export folder `base`; their files are written
    into `folder`. `author` ends their provenance, where another release than the installed one makes goldens. Raises
    InputError for a model that has no such piece."""
    (whole,) = whole_rows([base])
    model = whole.uses[0].model
    split = split_module(checked(base, MODULE).read_bytes(), model)
    split = split if dead_ops else without_dead_ops(split)
    size = ops_in_a_piece(workflow)
    if size:
        pieces, some, other = windows(split.program, size), "ops that read one another", "split"
    elif workflow == PATTERNS:
        pieces, some, other = patterns(split.program), "ops that compilers fuse", "windows:4"
    else:
        some, other = "ops in numbered scopes, such as `layer3` of jax.named_scope", "windows:8"
        pieces = layers(split.program)
    if not pieces and split.ops:
        raise InputError(f"--workflow {workflow}: {model}", some, "none", f"--workflow {other}")
    return Rows(split, whole, base, folder, author).of(pieces)


class Rows:
    """The rows of one model's pieces."""

    def __init__(self, split: SplitModule, whole: OpRow, base: Path, folder: Path, author: str = "") -> None:
        """`whole` is the model's own row, its files in `base`; those of its pieces come into `folder`."""
        self.split, self.whole, self.base, self.folder, self.author = split, whole, base, folder, author
        self.arguments = {value: number for number, value in enumerate(split.program.arguments)}
        self.parameters = _parameters(split.program, whole.argument_types)

    def of(self, pieces: Sequence[Piece]) -> list[OpRow]:
        """One row for each unique piece, with all its places, in order of the first."""
        first: dict[str, Piece] = {}
        uses: dict[str, list[Use]] = {}
        for piece in pieces:
            op_id = piece_module.content_id(piece, self.split, self.parameters)
            first.setdefault(op_id, piece)
            end = piece.members[-1]
            use = Use(
                model=self.whole.uses[0].model, path=end.path, location=end.location, framework_op=end.framework_op
            )
            uses.setdefault(op_id, []).append(use)
        _, ops = export_folder.read_manifest(self.base)
        refused = {row.op_id: row.no_golden for row in ops if row.no_golden not in ("", OWN_NUMBERS)}
        borders = {value for piece in first.values() for value in (*self._taken(piece), *piece.results)}
        walk = self.walked(borders, refused)
        return [self.row(op_id, piece, uses[op_id], walk) for op_id, piece in first.items()]

    def walked(self, borders: set[int], refused: Mapping[str, str]) -> BorderWalk:
        """The walk that has stored the values at `borders`; ops that are `refused`, by id, have none, for a reason."""
        # Arguments of the model have sources of their own.
        walk = BorderWalk(self, borders - self.arguments.keys(), refused)
        try:
            walk.run()
        finally:
            walk.close()
        (self.folder / JOURNAL).unlink()
        return walk

    def _taken(self, piece: Piece) -> list[int]:
        """The arguments of a piece's module: all but tokens, which are made inside."""
        return [value for value in piece.arguments if self.split.values[value].data_type != TOKEN]

    def row(self, op_id: str, piece: Piece, uses: Sequence[Use], walk: BorderWalk) -> OpRow:
        """The row of a piece; its module is written."""
        values, taken, end = self.split.values, self._taken(piece), piece.members[-1]
        module, unsplittable = f"{OPS}/{op_id}.mlirbc", ""
        try:
            (self.folder / module).write_bytes(piece_module.build(piece, self.split))
        except CannotBuildError as error:
            unsplittable = str(error)
        sources = [self._source(value, walk) for value in taken]
        no_inputs = next((walk.absent[value] for value in taken if value in walk.absent), "")
        reason = f"unsplittable: {unsplittable}" if unsplittable else no_inputs or self._no_golden(piece, walk)
        names = [node.name for node in piece.members]
        chain = products_in_a_row(Program("piece", (), piece.members, ()))
        return OpRow(
            op_id=op_id,
            op_name=piece.name,
            module=None if unsplittable else module,
            inputs=tuple(values[value] for value in taken),
            outputs=tuple(values[value] for value in piece.results),
            op_params={"ops": ", ".join(names), PRODUCTS_IN_A_ROW: str(chain)},
            sources=() if no_inputs else tuple(filter(None, sources)),
            golden=() if reason else tuple(_file(value) for value in piece.results),
            no_golden=reason,
            uses=tuple(uses),
            provenance=f"captured:{self.whole.provenance.partition(':')[2]}:{end.path}{self.author}",
            frontend=self.whole.frontend,
            unsplittable=unsplittable,
            argument_types=tuple(PARAMETER if value in self.parameters else INPUT for value in taken),
            holds=tuple(HeldOp(op_id=node.op_id, op_name=node.name, path=node.path) for node in piece.members),
        )

    def op(self, node: Node, uses: Sequence[Use], walk: BorderWalk) -> OpRow:
        """The row of an op by itself, on the walk's values; its module is written."""
        single, module = self.split.ops[node.op_id], f"{OPS}/{node.op_id}.mlirbc"
        (self.folder / module).write_bytes(single.bytecode)
        sources = [self._source(value, walk) for value in node.inputs]
        reason = next((walk.absent[value] for value in (*node.inputs, *node.outputs) if value in walk.absent), "")
        return OpRow(
            op_id=node.op_id,
            op_name=single.op_name,
            module=None if single.unsplittable else module,
            inputs=single.inputs,
            outputs=single.outputs,
            op_params=single.op_params,
            sources=tuple(filter(None, sources)),
            golden=() if reason else tuple(map(_file, node.outputs)),
            no_golden=reason,
            uses=tuple(uses),
        )

    def _no_golden(self, piece: Piece, walk: BorderWalk) -> str:
        """Why a piece with inputs has no golden; empty if it has one."""
        if any(own_random_numbers(self.split.ops[node.op_id]) for node in piece.members):
            return OWN_NUMBERS
        return next((walk.absent[value] for value in piece.results if value in walk.absent), "")

    def _source(self, value: int, walk: BorderWalk) -> Source | None:
        """Where the value of a piece's argument comes from; None if nobody has it."""
        if value in walk.absent:
            return None
        if value not in self.arguments:
            return Source(kind="captured", path=_file(value))
        source = self.whole.sources[self.arguments[value]]
        if source.path is not None and not (self.folder / source.path).exists():
            (self.folder / source.path).parent.mkdir(exist_ok=True)
            (self.folder / source.path).write_bytes(checked(self.base, source.path).read_bytes())
        return source


def _file(value: int) -> str:
    """The file of a value below an export folder."""
    return f"{VALUES}/{value}.npy"


def _parameters(program: Program, types: Sequence[str]) -> frozenset[int]:
    """The values that stay from run to run: parameters, constants, and what is computed from these alone, which a
    compiler computes once."""
    kinds = zip(program.arguments, types, strict=bool(types))
    fixed = {value for value, kind in kinds if kind == PARAMETER}
    for node in program.nodes:
        if node.kind == "constant" or (node.kind == "op" and fixed.issuperset(reads(node))):
            fixed.update(node.results)
    return frozenset(fixed) if types else frozenset()


class BorderWalk(Walker):
    """A walk that keeps the values at the borders of pieces."""

    def __init__(self, rows: Rows, borders: set[int], refused: Mapping[str, str]) -> None:
        split = rows.split
        task = WalkTask(
            split=split,
            distributions=(),
            seed=0,
            folder=rows.folder,
            provenance="",
            cache_dir=export_folder.cache_dir(None),
            fatal_ops=refused,
        )
        super().__init__(task)
        self.sources = dict.fromkeys(split.ops, ())  # every op counts as met: nothing is stored for it
        self.whole, self.base = rows.whole, rows.base
        self.absent: dict[int, str] = dict.fromkeys(borders, "the walk did not come to it")
        """Values at a border that nobody has, and why."""

    def argument(self, value: int) -> Any:
        """The buffer of an argument of the program."""
        source = self.whole.sources[self.arguments[value]]
        return golden.put(materialise(source, self.split.values[value], self.base))

    def enters(self, body: Program) -> bool:
        """Whether a body is evaluated: each has pieces of its own."""
        return True

    def node(self, node: Node, env: dict[int, Any]) -> None:
        """Evaluates a node, and keeps what it reads (a body's arguments come from no node) and what it makes."""
        self.keep(reads(node), env)
        super().node(node, env)
        self.keep(node.results, env)

    def keep(self, values: Sequence[int], env: dict[int, Any]) -> None:
        """Writes those values that are at a border, once."""
        for value in values:
            if value not in self.absent or value not in env:
                continue
            buffer = env[value]
            if isinstance(buffer, Missing):
                self.absent[value] = buffer.why
                continue
            array = buffer if isinstance(buffer, np.ndarray) else golden.view(buffer)
            save_anew(self.plan.folder / _file(value), array)
            del self.absent[value]

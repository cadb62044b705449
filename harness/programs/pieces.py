"""Rows of a run that are ops of a compiler's own program: the workflows `compile-split` and `split-compile-split`.

A module is compiled, run once on the device, and taken apart during the run. The inputs of each op come from the walk
over the StableHLO program: as soon as the device has computed a value that corresponds to one of the program, the
walk's value replaces it. So an op's inputs have no errors except those of ops that it was lowered together with. The
golden of an op is XLA's result for the equivalent StableHLO op on the same inputs. If no single StableHLO op is
equivalent, it is the corresponding value of the walk. If there is none either, the op has no golden, and its row gives
the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from opscope.base.op_families import PRODUCTS, op_family
from opscope.harness.backends.base import Apart, Piece, StageError
from opscope.harness.cache.export_folder import OPS, VALUES
from opscope.harness.lanes.explained import MEANING
from opscope.harness.prepare import golden
from opscope.harness.prepare.live_golden import LiveGolden
from opscope.harness.prepare.mlir.tagged import tagged
from opscope.harness.prepare.paths import moved_back, moves_of, path_of
from opscope.harness.prepare.program import SplitModule
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.walk import Missing
from opscope.harness.record.element_types import numpy_dtype, save
from opscope.harness.record.records import OpRow, Source, Use
from opscope.harness.verdict.intermediates import CompiledOp, candidates

LEVEL = "ttnn"
"""The level of such rows' modules; a lane starts them at the next stage."""


@dataclass
class Collected:
    """The rows of one model, and the number of ops that only move data."""

    folder: Path
    """The folder for files: modules below `ops`, values below `values`."""
    cache_dir: Path | None
    frontend: str = ""
    provenance: str = ""
    rows: dict[str, OpRow] = field(default_factory=dict)
    uses: dict[str, list[Use]] = field(default_factory=dict)
    moves: int = 0

    def finished(self) -> list[OpRow]:
        """Returns the rows with all their uses, in the order in which they were found."""
        return [row.model_copy(update={"uses": tuple(self.uses[op_id])}) for op_id, row in self.rows.items()]


def collect(
    into: Collected,
    module: bytes,
    inputs: Sequence[np.ndarray],
    apart: Callable[[bytes], Apart],
    uses: Sequence[Use],
    model: str = "",
) -> None:
    """Compiles `module`, runs it on `inputs` and adds its pieces to `into`.

    `uses` are the places of a single op's module in the model; empty for the model itself. Raises StageError if a stage
    refuses the module. Ops after one that the device refuses have no inputs.
    """
    split = split_module(module, model)
    pieces = apart(tagged(module))
    unit = _Unit(into, split, inputs, pieces, uses, model)
    try:
        unit.run()
    finally:
        unit.walk.close()
    into.moves += pieces.moves * max(len(uses), 1)


class _Unit:
    """One module while the device runs it."""

    def __init__(
        self,
        into: Collected,
        split: SplitModule,
        inputs: Sequence[np.ndarray],
        apart: Apart,
        uses: Sequence[Use],
        model: str,
    ) -> None:
        self.into, self.split, self.inputs, self.apart, self.uses, self.model = into, split, inputs, apart, uses, model
        nodes = {node.path: node for node in split.program.walk() if node.kind == "op" and node.outputs}
        self.nodes = nodes
        operations = [
            CompiledOp(p.program, p.location, [(d.shape, d.data_type) for d in p.outputs]) for p in apart.pieces
        ]
        expected = {path: tuple(split.values[v] for v in node.outputs) for path, node in nodes.items()}
        carried = candidates(operations, expected)
        self.carries = {number: path for path, number in carried.items()}
        self.alone = {
            path
            for path, count in Counter(path_of(operation.location) for operation in operations).items()
            if count == 1
        }
        self.walk = LiveGolden(split, inputs, frozenset(carried), into.cache_dir)
        self.met: set[int] = set()

    def run(self) -> None:
        """Runs the program and adds the rows of its pieces. A piece that never ran has a reason instead of inputs."""
        reason = "the program did not come to it"
        try:
            self.apart.run(self.inputs, self.on_piece)
        except StageError as error:
            reason = f"the program ended before: {error.message}"
        for number, piece in enumerate(self.apart.pieces):
            if number not in self.met and piece.op_id not in self.into.rows:
                self.add(piece, (), [], reason)
            self.note(number, piece)

    def on_piece(self, number: int, fetch: Callable[[], list[np.ndarray]]) -> Sequence[np.ndarray] | None:
        """Keeps the inputs of a new piece, and replaces its results by the walk's if there are any."""
        if number in self.met:
            return None
        self.met.add(number)
        piece = self.apart.pieces[number]
        walked = self.walked(number, piece)
        if piece.op_id not in self.into.rows:
            arrays = fetch()
            right, reason = self.golden(piece, number, arrays, walked)
            self.add(
                piece,
                [self.file(f"{piece.op_id}.i{n}", array) for n, array in enumerate(arrays)],
                [self.file(f"{piece.op_id}.o{n}", array) for n, array in enumerate(right)],
                reason,
            )
        return walked or None

    def walked(self, number: int, piece: Piece) -> list[np.ndarray]:
        """The walk's values for the results of a piece, in their types and order. Empty if the walk has none."""
        path = self.carries.get(number)
        results = self.walk.results(path) if path is not None else []
        values = []
        moves = moves_of(piece.location)
        for result, desc in zip(results, piece.outputs, strict=False):
            if isinstance(result, Missing):
                return []
            value = moved_back(result, moves, desc.shape) if moves else result
            cast = value.astype(numpy_dtype(desc.data_type), copy=False)
            if cast.dtype != value.dtype and not np.array_equal(cast, value):
                return []  # an index that does not fit 32 bits
            values.append(cast)
        return values

    def golden(
        self, piece: Piece, number: int, arrays: Sequence[np.ndarray], walked: Sequence[np.ndarray]
    ) -> tuple[Sequence[np.ndarray], str]:
        """Returns the goldens of a piece on its inputs, or the reason why there are none."""
        if piece.meaning:
            try:
                return golden.compile_module(piece.meaning, self.into.cache_dir, widen=True)(arrays), ""
            except golden.GoldenError as error:
                return walked, "" if walked else f"XLA: {error}"
        if walked:
            return walked, ""
        path = path_of(piece.location)
        name = self.nodes[path].name if path in self.nodes else "an op"
        return (), f"it is a part of {name}, of which StableHLO has no value, and no one op of StableHLO means it"

    def add(self, piece: Piece, inputs: Sequence[str], right: Sequence[str], reason: str) -> None:
        """Adds the row of a piece."""
        path = f"{OPS}/{piece.op_id}.mlir"
        (self.into.folder / path).write_text(piece.text, encoding="utf-8")
        if piece.meaning:
            (self.into.folder / path).with_suffix(MEANING).write_text(piece.meaning, encoding="utf-8")
        node = self.nodes.get(path_of(piece.location))
        held_to, params = piece.held_to, dict(piece.combines)
        # An op that was fused into a product has the product's tolerance.
        own = piece.meaning or op_family(held_to) in PRODUCTS
        if node is not None and (not held_to or not (own or node.path in self.alone)):
            held_to = node.name
            params = {name: text for name, text in self.split.ops[node.op_id].op_params.items() if name == "body"}
        self.into.rows[piece.op_id] = OpRow(
            op_id=piece.op_id,
            op_name=piece.op_name,
            module=path,
            level=LEVEL,
            held_to=held_to,
            inputs=piece.inputs,
            outputs=piece.outputs,
            sources=tuple(Source(kind="captured", path=name) for name in inputs),
            golden=tuple(right),
            no_golden=reason,
            op_params={**piece.attributes, **params},
            provenance=self.into.provenance,
            frontend=self.into.frontend,
        )

    def note(self, number: int, piece: Piece) -> None:
        """Notes the uses of a piece: its own one, or every use of the op that it is a part of."""
        path = path_of(piece.location)
        node = self.nodes.get(path)
        location, framework_op = (node.location, node.framework_op) if node is not None else ("", "")
        places = self.uses or (
            Use(model=self.model, path=path or "main", location=location, framework_op=framework_op),
        )
        self.into.uses.setdefault(piece.op_id, []).extend(
            use.model_copy(update={"path": f"{use.path}#{number}"}) for use in places
        )

    def file(self, name: str, array: np.ndarray) -> str:
        """Writes a value once and returns its path below the folder."""
        path = f"{VALUES}/{name}.npy"
        save(self.into.folder / path, array)
        return path

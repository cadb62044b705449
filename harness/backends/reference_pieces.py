"""Compiles a model with the reference compiler and takes its TTNN apart into ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.harness.backends.base import Job, OnPiece, Piece, StageError
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage


@dataclass(frozen=True)
class CompiledPieces:
    """A compiled program and its pieces."""

    pieces: tuple[Piece, ...]
    moves: int
    """Number of ops that are not pieces."""
    binary: bytes
    board: str
    numbers: dict[tuple[int, int], int]
    """(program, operation) -> piece."""

    def run(self, inputs: Sequence[np.ndarray], on_piece: OnPiece) -> None:
        """Runs the whole program on the simulated card. Raises StageError if the device refuses it."""
        from opscope.simulator.api import Device, DeviceError

        try:
            executable = Device(self.board).load(self.binary)
            places: dict[int, int] = {}
            for number, program in enumerate(executable.programs.values()):
                for index, op in enumerate(program.operations):
                    if (number, index) in self.numbers:
                        places[id(op)] = self.numbers[number, index]

            def observe(step: Any) -> Sequence[np.ndarray] | None:
                number = places.get(id(step.operation))
                return None if number is None else on_piece(number, lambda: _once(step))

            executable.run(inputs, observe=observe)
        except DeviceError as error:
            raise StageError(f"{type(error).__name__}: {error}") from error


def _once(step: Any) -> list[np.ndarray]:
    """The operands of a step without duplicates, which are the arguments of the piece's module."""
    tensors = step.operation.inputs
    arrays = step.inputs()
    return [arrays[tensors.index(tensor)] for tensor in dict.fromkeys(tensors)]


def take_apart(
    backend: Any, module: bytes, options: ResultOptions, argument_types: tuple[str, ...] = ()
) -> CompiledPieces:
    """Compiles a module and takes its TTNN apart. Raises StageError with the stage's own message.

    `argument_types` is as in `Job`: which arguments of a whole model stay the same from run to run.
    """
    from opscope.compiler.api import StageFailure
    from opscope.compiler.api import take_apart as pieces_of
    from opscope.harness.backends.reference import described
    from opscope.harness.backends.simulated import board_of

    board = board_of(options.arch)
    job = Job("whole", module, [], options, argument_types=argument_types)
    backend.climb(Stage.STABLEHLO_TO_TTIR, job)
    backend.climb(Stage.TTIR_TO_TTNN, job)
    try:
        program_pieces = pieces_of(job.state[Stage.TTIR_TO_TTNN], board)
    except StageFailure as failure:
        raise StageError(f"{failure.op}: {failure.message}", failure.diagnostic or str(failure)) from failure
    backend.climb(Stage.TTNN_TO_FLATBUFFER, job)
    pieces = tuple(
        Piece(
            piece.program,
            piece.piece_id,
            piece.op_name,
            piece.text,
            tuple(map(described, piece.inputs)),
            tuple(map(described, piece.outputs)),
            piece.location,
            piece.attributes,
            piece.held_to,
            piece.combines,
            piece.meaning,
        )
        for piece in program_pieces.pieces
    )
    numbers = {(piece.program, piece.operation): number for number, piece in enumerate(program_pieces.pieces)}
    return CompiledPieces(pieces, program_pieces.moves, job.state[Stage.TTNN_TO_FLATBUFFER], board.board, numbers)

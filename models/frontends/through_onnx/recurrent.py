"""Writes out ONNX's recurrent ops step by step, because torch-mlir's StableHLO pipeline cannot lower them.

Equations: the operators' pages of the ONNX standard; gates in ONNX's order (LSTM: i o f c; GRU: z r h).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.models.frontends.through_onnx.writer import Writer

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
"""Default activations per direction. Others are refused, except those in `PLAIN`, which have no parameters."""
PLAIN = ("Sigmoid", "Tanh", "Relu")


def expand(write: Writer) -> None:
    """Replaces one LSTM, GRU or RNN node. Raises ValueError for unsupported forms (see `_refuse`)."""
    kind, node = write.node.op_type, write.attributes()
    _refuse(write, node)
    directions = 2 if node.get("direction") == "bidirectional" else 1
    batch_first = bool(node.get("layout", 0))
    x, shape = write.input(0), write.shape(0)
    if batch_first:
        x, shape = write.op("Transpose", x, perm=[1, 0, 2]), (shape[1], shape[0], shape[2])
    steps, batch, _ = shape
    hidden = int(node["hidden_size"])
    names = node.get("activations") or ACTIVATIONS[kind] * directions
    masks = _masks(write, steps)
    zeros = write.zeros((batch, hidden)) if masks else ""
    sequences, finals, cells = [], [], []
    for d in range(directions):
        backward = d == 1 or node.get("direction") == "reverse"
        w, r = (write.part(write.input(i), 0, d, d + 1, squeeze=True) for i in (1, 2))
        gates = GATES[kind] * hidden
        wb = rb = None
        if write.has(3):
            both = write.part(write.input(3), 0, d, d + 1, squeeze=True)
            wb, rb = write.part(both, 0, 0, gates), write.part(both, 0, gates, 2 * gates)
        state = _initial(write, 5, d, batch, hidden, batch_first)
        cell = _initial(write, 6, d, batch, hidden, batch_first) if kind == "LSTM" else ""
        peepholes = None
        if kind == "LSTM" and write.has(7):
            row = write.part(write.input(7), 0, d, d + 1, squeeze=True)
            peepholes = [write.part(row, 0, k * hidden, (k + 1) * hidden) for k in range(3)]
        # The product with the inputs of all steps at once; only the one with the state has to go step by step.
        inputs = write.op("MatMul", x, write.op("Transpose", w, perm=[1, 0]))
        inputs = inputs if wb is None else write.op("Add", inputs, wb)
        activations, late = names[d * len(ACTIVATIONS[kind]) :], bool(node.get("linear_before_reset", 0))
        direction = Direction(write, activations, write.op("Transpose", r, perm=[1, 0]), rb, hidden, peepholes, late)
        outputs = [""] * steps
        for t in reversed(range(steps)) if backward else range(steps):
            part = write.part(inputs, 0, t, t + 1, squeeze=True)
            fresh, fresh_cell = STEPS[kind](direction, part, state, cell)
            seen = fresh
            if masks:
                # Beyond the end of its sequence an entry of the batch keeps its state and gives zeros.
                seen = write.op("Where", masks[t], fresh, zeros)
                fresh = write.op("Where", masks[t], fresh, state)
                fresh_cell = write.op("Where", masks[t], fresh_cell, cell) if cell else ""
            state, cell = fresh, fresh_cell
            outputs[t] = write.op("Unsqueeze", seen, write.ints([0, 1]))
        sequences.append(write.op("Concat", *outputs, axis=0) if steps > 1 else outputs[0])
        finals.append(write.op("Unsqueeze", state, write.ints([0])))
        cells.append(write.op("Unsqueeze", cell, write.ints([0])) if cell else "")

    def finish(index: int, value: str, perm: list[int]) -> None:
        write.finish(index, write.op("Transpose", value, perm=perm) if batch_first else value)

    finish(0, _joined(write, sequences, 1), [2, 0, 1, 3])
    finish(1, _joined(write, finals, 0), [1, 0, 2])
    if kind == "LSTM":
        finish(2, _joined(write, cells, 0), [1, 0, 2])


@dataclass(frozen=True)
class Direction:
    """What one direction of a layer multiplies, adds and applies in each step."""

    write: Writer
    activations: list[str]
    recurrent: str
    """[hidden, gates * hidden]."""
    bias: str | None
    """[gates * hidden], of the product with the state."""
    hidden: int
    peepholes: list[str] | None = None
    """[hidden] for the gates i, o, f of an LSTM."""
    late_reset: bool = False
    """Whether a GRU resets the product of its state, and not the state."""


def _masks(write: Writer, steps: int) -> list[str]:
    """Per step, which entries of the batch still have an element ([batch, 1]); empty if all are of full length."""
    if not write.has(4):
        return []
    known = write.scope.constants.get(write.input(4))
    if known is not None and (known >= steps).all():
        return []
    lengths = write.op("Unsqueeze", write.input(4), write.ints([1]))
    return [write.op("Less", write.constant(np.asarray(t, np.int32)), lengths) for t in range(steps)]


def _refuse(write: Writer, node: Mapping[str, Any]) -> None:
    """Raises ValueError for forms of the ops that are not written out."""
    for name, neutral in (("clip", None), ("input_forget", 0)):
        if node.get(name, neutral) != neutral:
            raise write.refusal(f"{name} left at its default", f"{name}={node[name]}")
    for name in node.get("activations") or ():
        if name not in PLAIN:
            raise write.refusal(f"activations {', '.join(PLAIN)}", name)


def _initial(write: Writer, index: int, d: int, batch: int, hidden: int, batch_first: bool) -> str:
    """The state before the first step: the input of that number, else zeros."""
    if write.has(index):
        return write.part(write.input(index), 1 if batch_first else 0, d, d + 1, squeeze=True)
    return write.zeros((batch, hidden))


def _joined(write: Writer, parts: list[str], axis: int) -> str:
    return write.op("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


Step = Callable[[Direction, str, str, str], tuple[str, str]]


def _product(write: Writer, state: str, recurrent: str, bias: str | None) -> str:
    product = write.op("MatMul", state, recurrent)
    return product if bias is None else write.op("Add", product, bias)


def _lstm(w: Direction, x: str, state: str, cell: str) -> tuple[str, str]:
    write, (f, g, h) = w.write, w.activations[:3]
    total = write.op("Add", x, _product(write, state, w.recurrent, w.bias))
    gates = [write.part(total, 1, k * w.hidden, (k + 1) * w.hidden) for k in range(4)]
    if w.peepholes:
        for gate in (0, 2):
            gates[gate] = write.op("Add", gates[gate], write.op("Mul", w.peepholes[gate], cell))
    i, forget = write.op(f, gates[0]), write.op(f, gates[2])
    cell = write.op("Add", write.op("Mul", forget, cell), write.op("Mul", i, write.op(g, gates[3])))
    if w.peepholes:
        gates[1] = write.op("Add", gates[1], write.op("Mul", w.peepholes[1], cell))
    return write.op("Mul", write.op(f, gates[1]), write.op(h, cell)), cell


def _gru(w: Direction, x: str, state: str, cell: str) -> tuple[str, str]:
    write, recurrent, bias, hidden = w.write, w.recurrent, w.bias, w.hidden
    f, g = w.activations[:2]
    xs = [write.part(x, 1, k * hidden, (k + 1) * hidden) for k in range(3)]
    if w.late_reset:
        product = _product(write, state, recurrent, bias)
        hs = [write.part(product, 1, k * hidden, (k + 1) * hidden) for k in range(3)]
        z, r = (write.op(f, write.op("Add", xs[k], hs[k])) for k in (0, 1))
        fresh = write.op(g, write.op("Add", xs[2], write.op("Mul", r, hs[2])))
    else:
        ws = [write.part(recurrent, 1, k * hidden, (k + 1) * hidden) for k in range(3)]
        bs = [None if bias is None else write.part(bias, 0, k * hidden, (k + 1) * hidden) for k in range(3)]
        z, r = (write.op(f, write.op("Add", xs[k], _product(write, state, ws[k], bs[k]))) for k in (0, 1))
        reset = write.op("Mul", r, state)
        fresh = write.op(g, write.op("Add", xs[2], _product(write, reset, ws[2], bs[2])))
    # (1 - z) * fresh + z * state, with one product less.
    return write.op("Add", fresh, write.op("Mul", z, write.op("Sub", state, fresh))), ""


def _rnn(w: Direction, x: str, state: str, cell: str) -> tuple[str, str]:
    product = _product(w.write, state, w.recurrent, w.bias)
    return w.write.op(w.activations[0], w.write.op("Add", x, product)), ""


STEPS: dict[str, Step] = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}
"""op type -> one step: (direction, input's part, state, cell) -> (state, cell)."""

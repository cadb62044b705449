"""Writes out ONNX's recurrent ops step by step, because torch-mlir's StableHLO pipeline cannot lower them.

Equations: the operators' pages of the ONNX standard; gates in ONNX's order (LSTM: i o f c; GRU: z r h).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
    steps, batch, _ = write.shape(0)
    hidden = int(node["hidden_size"])
    names = node.get("activations") or ACTIVATIONS[kind] * directions
    sequences, finals, cells = [], [], []
    for d in range(directions):
        backward = d == 1 or node.get("direction") == "reverse"
        w, r = (write.part(write.input(i), 0, d, d + 1, squeeze=True) for i in (1, 2))
        gates = GATES[kind] * hidden
        wb = rb = None
        if write.has(3):
            both = write.part(write.input(3), 0, d, d + 1, squeeze=True)
            wb, rb = write.part(both, 0, 0, gates), write.part(both, 0, gates, 2 * gates)
        state = _initial(write, 5, d, batch, hidden)
        cell = _initial(write, 6, d, batch, hidden) if kind == "LSTM" else ""
        # The product with the inputs of all steps at once; only the one with the state has to go step by step.
        inputs = write.op("MatMul", write.input(0), write.op("Transpose", w, perm=[1, 0]))
        inputs = inputs if wb is None else write.op("Add", inputs, wb)
        recurrent = write.op("Transpose", r, perm=[1, 0])
        outputs = [""] * steps
        for t in reversed(range(steps)) if backward else range(steps):
            x = write.part(inputs, 0, t, t + 1, squeeze=True)
            step = STEPS[kind]
            state, cell = step(
                write, x, state, cell, (recurrent, rb, hidden), names[d * len(ACTIVATIONS[kind]) :], node
            )
            outputs[t] = write.op("Unsqueeze", state, write.ints([0, 1]))
        sequences.append(write.op("Concat", *outputs, axis=0) if steps > 1 else outputs[0])
        finals.append(write.op("Unsqueeze", state, write.ints([0])))
        cells.append(write.op("Unsqueeze", cell, write.ints([0])) if cell else "")
    write.finish(0, _joined(write, sequences, 1))
    write.finish(1, _joined(write, finals, 0))
    if kind == "LSTM":
        write.finish(2, _joined(write, cells, 0))


def _refuse(write: Writer, node: Mapping[str, Any]) -> None:
    """Raises ValueError for forms of the ops that are not written out."""
    for name, neutral in (("layout", 0), ("clip", None), ("input_forget", 0)):
        if node.get(name, neutral) != neutral:
            raise write.refusal(f"{name} left at its default", f"{name}={node[name]}")
    for i, name in ((4, "sequence_lens"), (7, "peepholes")):
        if write.has(i):
            raise write.refusal(f"no {name}", f"{name} {write.input(i)!r}")
    for name in node.get("activations") or ():
        if name not in PLAIN:
            raise write.refusal(f"activations {', '.join(PLAIN)}", name)


def _initial(write: Writer, index: int, d: int, batch: int, hidden: int) -> str:
    """The state before the first step: the input of that number, else zeros."""
    if write.has(index):
        return write.part(write.input(index), 0, d, d + 1, squeeze=True)
    return write.zeros((batch, hidden))


def _joined(write: Writer, parts: list[str], axis: int) -> str:
    return write.op("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


Step = Callable[..., tuple[str, str]]


def _product(write: Writer, state: str, recurrent: str, bias: str | None) -> str:
    product = write.op("MatMul", state, recurrent)
    return product if bias is None else write.op("Add", product, bias)


def _lstm(
    write: Writer, x: str, state: str, cell: str, w: tuple[str, str | None, int], names: list[str], node: Any
) -> tuple[str, str]:
    recurrent, bias, hidden = w
    f, g, h = names[:3]
    total = write.op("Add", x, _product(write, state, recurrent, bias))
    gates = [write.part(total, 1, k * hidden, (k + 1) * hidden) for k in range(4)]
    i, o, forget = (write.op(f, gate) for gate in gates[:3])
    cell = write.op("Add", write.op("Mul", forget, cell), write.op("Mul", i, write.op(g, gates[3])))
    return write.op("Mul", o, write.op(h, cell)), cell


def _gru(
    write: Writer, x: str, state: str, cell: str, w: tuple[str, str | None, int], names: list[str], node: Any
) -> tuple[str, str]:
    recurrent, bias, hidden = w
    f, g = names[:2]
    xs = [write.part(x, 1, k * hidden, (k + 1) * hidden) for k in range(3)]
    if node.get("linear_before_reset", 0):
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


def _rnn(
    write: Writer, x: str, state: str, cell: str, w: tuple[str, str | None, int], names: list[str], node: Any
) -> tuple[str, str]:
    recurrent, bias, _ = w
    return write.op(names[0], write.op("Add", x, _product(write, state, recurrent, bias))), ""


STEPS: dict[str, Step] = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}
"""op type -> one step: (writer, input's part, state, cell, (recurrent weight, bias, hidden size), activations, node's
attributes) -> (state, cell)."""

"""Writes a `Loop` or `Scan` whose number of steps is fixed as its steps, one after another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from opscope.models.frontends.through_onnx.decided_ifs import renamed
from opscope.models.frontends.through_onnx.fold import constant_value, value_of
from opscope.models.frontends.through_onnx.writer import Scope

KINDS = ("Loop", "Scan")
MOST = 64
"""Steps up to which a loop is unrolled; a longer one stays."""


def without_loops(model: ModelProto, scope: Scope) -> ModelProto:
    """`model` with the steps of loops in their place: of a Loop whose trip count and conditions follow from constants,
    of a Scan over inputs of fixed shapes."""
    if not any(node.op_type in KINDS for node in model.graph.node):
        return model
    out = ModelProto()
    out.CopyFrom(model)
    del out.graph.node[:]
    for node in model.graph.node:
        steps = _Steps(node, scope, model) if node.op_type in KINDS and not node.domain else None
        if steps is not None and (steps.of_loop() if node.op_type == "Loop" else steps.of_scan()):
            out.graph.initializer.extend(steps.constants)
            out.graph.node.extend(steps.nodes)
        else:
            out.graph.node.append(node)
    return out


class _Steps:
    """The nodes of one loop's steps, and their constants."""

    def __init__(self, node: NodeProto, scope: Scope, model: ModelProto) -> None:
        self.node, self.scope, self.model = node, scope, model
        self.attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self.body: GraphProto = self.attributes["body"]
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.known = dict(scope.constants)
        self._prefix = f"{next(filter(None, node.output))}/step"

    def of_loop(self) -> bool:
        """Whether the steps are known and written: the trip count, and before each step its condition."""
        count, condition, *state = self.node.input
        if count and count not in self.known:
            return False
        steps = int(self.known[count].item()) if count else MOST + 1
        carried, collected = list(state), [[] for _ in self.node.output[len(state) :]]
        going = np.asarray(True) if not condition else self.known.get(condition)
        taken = 0
        while going is not None and going.item() and taken < min(steps, MOST + 1):
            read = [self._constant(np.asarray(taken, np.int64)), self._constant(np.asarray(True)), *carried]
            condition, *made = self._step(str(taken), read)
            carried, taken, going = made[: len(state)], taken + 1, self.known.get(condition)
            for values, value in zip(collected, made[len(state) :], strict=True):
                values.append(value)
        if going is None or not 0 < taken <= MOST:
            return False
        self._finish(carried, [(values, 0) for values in collected])
        return True

    def of_scan(self) -> bool:
        """Whether the shapes of what is scanned are known, and the steps written."""
        scanned = int(self.attributes["num_scan_inputs"])
        inputs = list(self.node.input[-scanned:])
        shapes = [self.scope.shapes.get(name, ()) for name in inputs]
        if not all(shapes):
            return False
        if len(self.body.input) < len(self.node.input):  # version 8, which has lengths and a batch
            return not self.node.input[0] and self._of_batch(inputs, shapes)
        axes = [axis % len(s) for axis, s in zip(self._of_each("scan_input_axes", scanned), shapes, strict=True)]
        back = self._of_each("scan_input_directions", scanned)
        if not 0 < shapes[0][axes[0]] <= MOST:
            return False
        state = list(self.node.input[:-scanned])
        state, collected = self._scanned(state, list(zip(inputs, axes, back, strict=True)), shapes[0][axes[0]])
        turned = self._of_each("scan_output_directions", len(collected))
        ordered = [values[::-1] if back else values for values, back in zip(collected, turned, strict=True)]
        self._finish(state, list(zip(ordered, self._of_each("scan_output_axes", len(ordered)), strict=True)))
        return True

    def _of_batch(self, inputs: list[str], shapes: list[tuple[int, ...]]) -> bool:
        """A Scan of version 8 without lengths: one along the second axis for each element of the first."""
        batch, steps = shapes[0][:2]
        if not 0 < batch * steps <= MOST:
            return False
        back = self._of_each("directions", len(inputs))
        names = list(self.node.output)
        made: list[list[str]] = [[] for _ in names]
        for element in range(batch):
            state = [self._gather(name, element, 0) for name in self.node.input[1 : -len(inputs)]]
            parts = [(self._gather(name, element, 0), 0, turned) for name, turned in zip(inputs, back, strict=True)]
            state, collected = self._scanned(state, parts, steps, f"{element}/")
            ends = [f"{self._prefix}/{element}/end{n}" for n in range(len(collected))]
            for values, end in zip(collected, ends, strict=True):
                self.nodes.append(helper.make_node("Concat", list(self._rows(end, values, 0)), [end], axis=0))
            for values, value in zip(made, [*state, *ends], strict=True):
                values.append(value)
        self._finish([], [(values, 0) for values in made])
        return True

    def _scanned(
        self, state: list[str], inputs: list[tuple[str, int, int]], steps: int, mark: str = ""
    ) -> tuple[list[str], list[list[str]]]:
        """Writes the steps over inputs (name, axis, whether backwards); returns the last state, and what each gave."""
        collected: list[list[str]] = [[] for _ in self.node.output[len(state) :]]
        for step in range(steps):
            parts = [self._gather(name, steps - 1 - step if back else step, axis) for name, axis, back in inputs]
            made = self._step(f"{mark}{step}", [*state, *parts])
            state = made[: len(state)]
            for values, value in zip(collected, made[len(state) :], strict=True):
                values.append(value)
        return state, collected

    def _gather(self, name: str, index: int, axis: int) -> str:
        """One element of an axis, without it."""
        place = self._constant(np.asarray(index, np.int64))
        part = f"{place}/part"
        self.nodes.append(helper.make_node("Gather", [name, place], [part], self.node.name, axis=axis))
        return part

    def _of_each(self, name: str, count: int) -> list[int]:
        return list(self.attributes.get(name) or [0] * count)

    def _constant(self, value: np.ndarray) -> str:
        name = f"{self._prefix}/c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        self.known[name] = value
        return name

    def _step(self, step: str, read: list[str]) -> list[str]:
        """Writes the body once more; returns the names of its results."""
        body = GraphProto()
        body.CopyFrom(self.body)
        del body.input[:]
        outer = dict(zip([info.name for info in self.body.input], read, strict=True))
        body = renamed(body, f"{self._prefix}{step}/", outer)
        self.constants.extend(body.initializer)
        self.known |= {tensor.name: numpy_helper.to_array(tensor) for tensor in body.initializer}
        for node in body.node:
            self.nodes.append(node)
            if node.op_type == "Constant":
                self.known[node.output[0]] = constant_value(node)
            else:
                self.known |= value_of(node, self.known, self.scope, self.model, floats=True) or {}
        return [info.name for info in body.output]

    def _finish(self, carried: list[str], collected: list[tuple[list[str], int]]) -> None:
        """Gives the results their names: the last state, and what each step gave along a new axis."""
        names = list(self.node.output)
        ends = zip(carried, names, strict=False)
        self.nodes += [helper.make_node("Identity", [value], [name], self.node.name) for value, name in ends if name]
        for (values, axis), name in zip(collected, names[len(carried) :], strict=True):
            if name:
                rows = list(self._rows(name, values, axis))
                self.nodes.append(helper.make_node("Concat", rows, [name], self.node.name, axis=axis))

    def _rows(self, name: str, values: list[str], axis: int) -> Iterator[str]:
        """Each value with a new axis, which is an attribute before version 13."""
        given = {"axes": [axis]} if self.scope.opset < 13 else {}
        second = [] if given else [self._constant(np.asarray([axis], np.int64))]
        for index, value in enumerate(values):
            row = f"{name}/row{index}"
            self.nodes.append(helper.make_node("Unsqueeze", [value, *second], [row], self.node.name, **given))
            yield row

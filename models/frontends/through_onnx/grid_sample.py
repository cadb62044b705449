"""ONNX's GridSample as gathers: one for each neighbour of a place that its mode reads, in any number of dimensions.

Coordinates, paddings and the cubic kernel (a = -0.75): the GridSample page of the ONNX standard.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from onnx import TensorProto

from opscope.models.frontends.through_onnx.writer import Writer

MODES = {"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}
"""Mode -> neighbours that it reads along an axis."""
MOST = 256
"""Neighbours of a place up to which it is written out."""
_NEAR, _FAR = (1.25, -2.25, 0.0, 1.0), (-0.75, 3.75, -6.0, 3.0)
"""Coefficients of the cubic kernel's polynomials in the distance, highest power first: up to 1, and beyond."""

Tap = tuple[str, str]
"""A neighbour along an axis: its index, a float, and its weight, which may be empty for 1."""


def grid_sample(write: Writer) -> None:
    """The weighted sum of the neighbours of each place of the grid. Raises ValueError for unknown modes."""
    node, shape, grid = write.attributes(), write.shape(0), write.shape(1)
    mode, padding = node.get("mode", "linear"), node.get("padding_mode", "zeros")
    if mode not in MODES or padding not in ("zeros", "border", "reflection"):
        raise write.refusal(f"mode {', '.join(MODES)}", f"{mode}, {padding}")
    extents, places = shape[2:], math.prod(grid[1:-1])
    if MODES[mode] ** len(extents) > MOST:
        return
    sampler = _Sampler(write, padding, bool(node.get("align_corners", 0)))
    flat = write.op("Reshape", sampler.wide(0), write.ints([*shape[:2], math.prod(extents)]))
    points = write.op("Reshape", sampler.wide(1), write.ints([grid[0], places, len(extents)]))
    taps: list[list[Tap]] = []
    for axis, extent in enumerate(extents):  # the grid's last number belongs to the last axis
        last = len(extents) - 1 - axis
        taps.append(sampler.taps(write.part(points, 2, last, last + 1, squeeze=True), extent, MODES[mode]))
    total = ""
    for chosen in itertools.product(*taps):
        index, weight = "", ""
        for (place, share), extent in zip(chosen, extents, strict=True):
            index = write.op("Add", write.op("Mul", index, sampler.number(extent)), place) if index else place
            weight = write.op("Mul", weight, share) if weight and share else weight or share
        index = write.op("Unsqueeze", write.op("Cast", index, to=TensorProto.INT64), write.ints([1]))
        whole = write.op("Expand", index, write.ints([*shape[:2], places]))
        term = write.op("GatherElements", flat, whole, axis=2)
        if weight:
            term = write.op("Mul", term, write.op("Unsqueeze", weight, write.ints([1])))
        total = write.op("Add", total, term) if total else term
    result = write.op("Reshape", total, write.ints([*shape[:2], *grid[1:-1]]))
    write.finish(0, write.op("Cast", result, to=write.element(0)) if sampler.type != write.element(0) else result)


class _Sampler:
    """Writes places, neighbours and weights along one axis, in float32, or float64 where an operand has that."""

    def __init__(self, write: Writer, padding: str, align: bool) -> None:
        self.write, self.padding, self.align = write, padding, align
        double = TensorProto.DOUBLE in (write.element(0), write.element(1))
        self.type = TensorProto.DOUBLE if double else TensorProto.FLOAT

    def number(self, value: float) -> str:
        """A constant."""
        return self.write.constant(np.asarray(value, np.float64), self.type)

    def wide(self, index: int) -> str:
        """An operand in the type that is computed in."""
        x = self.write.input(index)
        return x if self.write.element(index) == self.type else self.write.op("Cast", x, to=self.type)

    def taps(self, point: str, extent: int, count: int) -> list[Tap]:
        """The neighbours of places from -1 to 1 along an axis."""
        op, number = self.write.op, self.number
        place = op("Add", point, number(1))
        if self.align:
            place = op("Mul", op("Div", place, number(2)), number(extent - 1))
        else:
            place = op("Div", op("Sub", op("Mul", place, number(extent)), number(1)), number(2))
        if count == 1:
            return [self._inside(self._padded(op("Round", place), extent), "", extent)]
        place = self._padded(place, extent)
        low = op("Floor", place)
        part = op("Sub", place, low)
        rest = op("Sub", number(1), part)
        if count == 2:
            near = [(low, rest), (op("Add", low, number(1)), part)]
        else:
            distances = (op("Add", part, number(1)), part, rest, op("Add", rest, number(1)))
            weights = map(self._polynomial, distances, (_FAR, _NEAR, _NEAR, _FAR))
            near = [(op("Add", low, number(k - 1)), weight) for k, weight in enumerate(weights)]
        return [self._inside(index, weight, extent) for index, weight in near]

    def _polynomial(self, x: str, coefficients: tuple[float, ...]) -> str:
        op, total = self.write.op, self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            total = op("Add", op("Mul", total, x), self.number(coefficient))
        return total

    def _padded(self, place: str, extent: int) -> str:
        """A place beyond the borders where its padding puts it; with zeros it stays there."""
        op, number = self.write.op, self.number
        low, high = (0.0, extent - 1.0) if self.align else (-0.5, extent - 0.5)
        if self.padding == "zeros":
            return place
        outside = op("Or", op("Less", place, number(low)), op("Greater", place, number(high)))
        if self.padding == "border" or high == low:
            return op("Where", outside, op("Clip", place, number(0), number(extent - 1)), place)
        period = number(2 * (high - low))
        away = op("Abs", op("Sub", place, number(low)))
        away = op("Sub", away, op("Mul", period, op("Floor", op("Div", away, period))))
        return op("Where", outside, op("Add", op("Min", away, op("Sub", period, away)), number(low)), place)

    def _inside(self, index: str, weight: str, extent: int) -> Tap:
        """A neighbour that lies in the tensor; one that does not weighs nothing with zeros around it."""
        op, number = self.write.op, self.number
        clipped = op("Clip", self._padded(index, extent), number(0), number(extent - 1))
        if self.padding != "zeros":
            return clipped, weight
        inside = op("Equal", index, clipped)
        return clipped, op("Where", inside, weight or number(1), number(0))

"""ONNX's Resize, Upsample and Pad as gathers by constant indices, axis by axis, and weighted sums of them.

Coordinates, rounding and the cubic kernel: the Resize page of the ONNX standard.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opscope.models.frontends.through_onnx.writer import Writer

Tap = tuple[np.ndarray, np.ndarray]
"""One term of an output: index and weight per output element of an axis."""

COORDINATES: dict[str, Callable[[np.ndarray, float, int, int], np.ndarray]] = {
    "half_pixel": lambda x, scale, n, m: (x + 0.5) / scale - 0.5,
    "asymmetric": lambda x, scale, n, m: x / scale,
    "pytorch_half_pixel": lambda x, scale, n, m: (x + 0.5) / scale - 0.5 if m > 1 else x * 0,
    "align_corners": lambda x, scale, n, m: x * (n - 1) / (scale * n - 1) if scale * n != 1 else x * 0,
    "half_pixel_symmetric": lambda x, scale, n, m: n / 2 * (1 - m / (scale * n)) + (x + 0.5) / scale - 0.5,
}
"""coordinate_transformation_mode -> place in the input: (output indices, scale, input extent, output extent)."""

CROP = "tf_crop_and_resize"
"""The coordinates that also read a region of the input, and give elements outside of it a constant."""

ROUND: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
"""nearest_mode -> integer."""


def resize(write: Writer) -> None:
    """Replaces a Resize node. Raises ValueError for unknown modes."""
    node = write.attributes()
    shape = write.shape(0)
    axes = [a % len(shape) for a in node.get("axes") or range(len(shape))]
    if write.has(3):
        sizes = [int(n) for n in write.constant_input(3)]
        scales = [m / shape[a] for a, m in zip(axes, sizes, strict=True)]
        if (policy := node.get("keep_aspect_ratio_policy", "stretch")) != "stretch":
            scales = [(min if policy == "not_larger" else max)(scales)] * len(axes)
            sizes = [int(shape[a] * s + 0.5) for a, s in zip(axes, scales, strict=True)]
    else:
        scales = [float(s) for s in write.constant_input(2)]
        sizes = [math.floor(shape[a] * s) for a, s in zip(axes, scales, strict=True)]
    if node.get("coordinate_transformation_mode") == CROP:
        region = [float(v) for v in write.constant_input(1)]
        node["regions"] = {a: (region[k], region[k + len(axes)]) for k, a in enumerate(axes)}
    _resample(write, node, [(a, shape[a], m, s) for a, m, s in zip(axes, sizes, scales, strict=True)])


def upsample(write: Writer) -> None:
    """Replaces an Upsample node, Resize's predecessor."""
    shape = write.shape(0)
    scales = [float(s) for s in write.constant_input(1)]
    node = {**write.attributes(), "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    _resample(write, node, [(a, n, math.floor(n * s), s) for a, (n, s) in enumerate(zip(shape, scales, strict=True))])


def _resample(write: Writer, node: dict[str, Any], axes: Sequence[tuple[int, int, int, float]]) -> None:
    """Resamples the axes (axis, input extent, output extent, scale) that change."""
    mode, coordinate = node.get("mode", "nearest"), node.get("coordinate_transformation_mode", "half_pixel")
    if coordinate not in (*COORDINATES, CROP) or mode not in TAPS:
        known = f"mode {', '.join(TAPS)} and coordinates {', '.join((*COORDINATES, CROP))}"
        raise write.refusal(known, f"{mode}, {coordinate}")
    x, outside = write.input(0), []
    for axis, extent, size, scale in axes:
        if size == extent and scale == 1 and coordinate != CROP:
            continue
        steps = np.arange(size, dtype=np.float64)
        if coordinate == CROP:
            places = _cropped(steps, scale, extent, node["regions"][axis])
            outside.append((axis, (places < 0) | (places > extent - 1)))
        else:
            places = COORDINATES[coordinate](steps, scale, extent, size)
        antialias = node.get("antialias") and scale < 1 and mode in FILTERS
        taps = _filtered(places, extent, node, scale) if antialias else TAPS[mode](places, extent, node)
        x = _summed(write, x, axis, taps)
    value = write.constant(np.asarray(node.get("extrapolation_value", 0.0), np.float32), write.element(0))
    for axis, mask in outside:
        if mask.any():
            shape = [-1 if a == axis else 1 for a in range(len(write.shape(0)))]
            x = write.op("Where", write.constant(mask.reshape(shape)), value, x)
    write.finish(0, x)


def _cropped(steps: np.ndarray, scale: float, extent: int, region: tuple[float, float]) -> np.ndarray:
    """Places of output elements in the input for tf_crop_and_resize; `region` is a part of the axis, from 0 to 1."""
    start, end = region
    width = scale * extent
    if width == 1:
        return steps * 0 + (start + (end - start) / 2) * (extent - 1)
    return start * (extent - 1) + steps * (end - start) * (extent - 1) / (width - 1)


def _filtered(places: np.ndarray, extent: int, node: dict[str, Any], scale: float) -> list[Tap]:
    """The taps of a filter as wide as 1 / scale input elements: antialiasing, for scales below 1."""
    kernel, reach = FILTERS[node.get("mode", "nearest")]
    low = np.floor(places)
    taps = []
    for k in range(math.floor(-reach / scale), math.ceil(reach / scale) + 2):
        index = low + k
        weight = kernel(np.abs(index - places) * scale, node)
        if node.get("exclude_outside"):
            weight = np.where((index < 0) | (index > extent - 1), 0.0, weight)
        if weight.any():
            taps.append((np.clip(index, 0, extent - 1), weight))
    total = sum(weight for _, weight in taps)
    return [(index, weight / total) for index, weight in taps]


def _summed(write: Writer, x: str, axis: int, taps: Sequence[Tap]) -> str:
    """The weighted sum of gathers along an axis."""
    rank = len(write.shape(0))
    total = ""
    for indices, weights in taps:
        term = write.op("Gather", x, write.constant(indices.astype(np.int64)), axis=axis)
        if not np.all(weights == 1):
            shape = [-1 if a == axis else 1 for a in range(rank)]
            term = write.op("Mul", term, write.constant(weights.reshape(shape).astype(np.float32), write.element(0)))
        total = write.op("Add", total, term) if total else term
    return total


def _nearest(places: np.ndarray, extent: int, node: dict[str, Any]) -> list[Tap]:
    rounded = ROUND[node.get("nearest_mode", "round_prefer_floor")](places)
    return [(np.clip(rounded, 0, extent - 1), np.ones(len(places)))]


def _linear(places: np.ndarray, extent: int, node: dict[str, Any]) -> list[Tap]:
    places = np.clip(places, 0, extent - 1)
    low = np.floor(places)
    part = places - low
    return [(low, 1 - part), (np.minimum(low + 1, extent - 1), part)]


def _triangle(d: np.ndarray, node: dict[str, Any]) -> np.ndarray:
    """The weight of linear interpolation at a distance."""
    return np.clip(1 - d, 0.0, 1.0)


def _keys(d: np.ndarray, node: dict[str, Any]) -> np.ndarray:
    """The weight of cubic interpolation at a distance (Keys 1981)."""
    a = float(node.get("cubic_coeff_a", -0.75))
    near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


FILTERS: dict[str, tuple[Callable[[np.ndarray, dict[str, Any]], np.ndarray], int]] = {
    "linear": (_triangle, 1),
    "cubic": (_keys, 2),
}
"""mode -> (weight at a distance, the distance beyond which the weight is 0)."""


def _cubic(places: np.ndarray, extent: int, node: dict[str, Any]) -> list[Tap]:
    low = np.floor(places)
    taps = []
    for k in range(-1, 3):
        index = low + k
        weight = _keys(np.abs(places - index), node)
        if node.get("exclude_outside"):
            weight = np.where((index < 0) | (index > extent - 1), 0.0, weight)
        taps.append((np.clip(index, 0, extent - 1), weight))
    total = sum(weight for _, weight in taps)
    return [(index, weight / total) for index, weight in taps] if node.get("exclude_outside") else taps


TAPS: dict[str, Callable[[np.ndarray, int, dict[str, Any]], list[Tap]]] = {
    "nearest": _nearest,
    "linear": _linear,
    "cubic": _cubic,
}
"""mode -> the terms of each output element: (places in the input, input extent, attributes)."""

BORDERS = {
    "reflect": lambda i, n: (n - 1) - np.abs((n - 1) - np.mod(i, 2 * (n - 1))) if n > 1 else i * 0,
    "edge": lambda i, n: np.clip(i, 0, n - 1),
    "wrap": lambda i, n: np.mod(i, n),
}
"""Pad's mode -> index in the input: (index that may lie outside, extent)."""


def pad(write: Writer) -> None:
    """Replaces a Pad node that repeats its input; one that pads with a constant is left as it is."""
    mode = write.attributes().get("mode", "constant")
    if mode not in BORDERS:
        return
    shape, pads = write.shape(0), [int(p) for p in write.constant_input(1)]
    axes = [int(a) % len(shape) for a in write.constant_input(3)] if write.has(3) else list(range(len(shape)))
    x = write.input(0)
    for k, axis in enumerate(axes):
        before, after, extent = pads[k], pads[k + len(axes)], shape[axis]
        if before or after:
            indices = BORDERS[mode](np.arange(-before, extent + after), extent)
            x = _summed(write, x, axis, [(indices, np.ones(len(indices)))])
    write.finish(0, x)

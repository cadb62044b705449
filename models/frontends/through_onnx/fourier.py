"""ONNX's DFT and STFT as products with a constant matrix: complex numbers are pairs along the last axis."""

from __future__ import annotations

import math

import numpy as np

from opscope.models.frontends.through_onnx.writer import Writer

MOST = 1 << 20
"""Elements of a matrix up to which a transform is written as a product."""


def dft(write: Writer) -> None:
    """The transform along one axis, also inverse, of one-sided spectra, and of lengths other than the axis has."""
    node, shape = write.attributes(), write.shape(0)
    axis = int(write.constant_input(2)) if write.has(2) else int(node.get("axis", 1 if write.scope.opset < 20 else -2))
    axis %= len(shape)
    inverse, onesided = bool(node.get("inverse", 0)), bool(node.get("onesided", 0))
    held = shape[axis]
    length = int(write.constant_input(1)) if write.has(1) else 2 * (held - 1) if inverse and onesided else held
    matrix = _matrix(length, shape[-1], inverse, onesided)
    if matrix.size > MOST:
        return
    order = [a for a in range(len(shape) - 1) if a != axis] + [axis, len(shape) - 1]
    x = write.op("Transpose", write.input(0), perm=order)
    rest, read = [shape[a] for a in order[:-2]], matrix.shape[0]
    if held > read:
        x = write.part(x, len(shape) - 2, 0, read)
    elif held < read:
        x = write.op("Concat", x, write.zeros([*rest, read - held, shape[-1]]), axis=len(shape) - 2)
    made = _product(write, x, rest, matrix)
    write.finish(0, write.op("Transpose", made, perm=[order.index(a) for a in range(len(shape))]))


def stft(write: Writer) -> None:
    """The transform of each frame of a signal, `frame_step` elements after the one before, times the window."""
    node, (batch, signal, numbers) = write.attributes(), write.shape(0)
    step = int(write.constant_input(1))
    length = int(write.constant_input(3)) if write.has(3) else write.shape(2)[0]
    matrix = _matrix(length, numbers, inverse=False, onesided=bool(node.get("onesided", 1)))
    if matrix.size > MOST:
        return
    frames = (signal - length) // step + 1
    places = np.arange(frames)[:, None] * step + np.arange(length)
    x = write.op("Gather", write.input(0), write.constant(places.astype(np.int64)), axis=1)
    if write.has(2):
        x = write.op("Mul", x, write.op("Unsqueeze", write.input(2), write.ints([1])))
    write.finish(0, _product(write, x, [batch, frames], matrix))


def _product(write: Writer, x: str, rest: list[int], matrix: np.ndarray) -> str:
    """`x` [*rest, n, numbers] times `matrix` [n, numbers, m, numbers] over both."""
    read, numbers, made, pairs = matrix.shape
    flat = write.op("Reshape", x, write.ints([math.prod(rest), read * numbers]))
    weights = write.constant(matrix.reshape(read * numbers, made * pairs), write.element(0))
    return write.op("Reshape", write.op("MatMul", flat, weights), write.ints([*rest, made, pairs]))


def _matrix(length: int, numbers: int, inverse: bool, onesided: bool) -> np.ndarray:
    """float64 [read, numbers, made, 2]: what each number read gives to each made; `numbers` 1: real parts are read."""
    half = length // 2 + 1
    read, made = (half, length) if inverse and onesided else (length, half if onesided else length)
    turns = np.outer(np.arange(read), np.arange(made)) % max(1, length) / max(1, length)
    wave = np.exp((2j if inverse else -2j) * np.pi * turns)[:, :, None]
    matrix = np.stack([np.stack([wave.real, wave.imag], -1), np.stack([-wave.imag, wave.real], -1)], 1)[:, :, :, 0]
    if inverse:
        matrix = matrix / length
    if inverse and onesided:  # the other half of the spectrum is this one's conjugate, and results are real
        matrix = matrix[..., :1] * np.where(np.isin(np.arange(read), [0, length / 2]), 1, 2)[:, None, None, None]
    return matrix[:, :numbers]

"""`rng_bit_generator`: Threefry-2x32 and Philox-4x32 as XLA lays their bits out, exact to the bit.

The state is 64-bit words as pairs of 32-bit ones: a key, then a counter that grows by the number of blocks made.
(Salmon et al., Parallel random numbers: as easy as 1, 2, 3; 20 and 10 rounds.)
"""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.program import RandomParams
from opscope.simulator.kernels.registry import PASS, Call, Images, kernel, params_of

U32, U64 = np.uint32, np.uint64
_THREEFRY_PARITY = U32(0x1BD11BDA)
_THREEFRY_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PHILOX_FACTORS = (U64(0xD2511F53), U64(0xCD9E8D57))
_PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = U64(0xFFFFFFFF)


def threefry(key: tuple[np.uint32, np.uint32], low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Threefry-2x32 of counters (low, high), 20 rounds."""
    schedule = (*key, key[0] ^ key[1] ^ _THREEFRY_PARITY)
    a, b = low + schedule[0], high + schedule[1]
    for block in range(5):
        for turn in _THREEFRY_TURNS[block % 2]:
            a = a + b
            b = ((b << U32(turn)) | (b >> U32(32 - turn))) ^ a
        a = a + schedule[(block + 1) % 3]
        b = b + schedule[(block + 2) % 3] + U32(block + 1)
    return a, b


def philox(key: tuple[int, int], counter: list[np.ndarray]) -> list[np.ndarray]:
    """Philox-4x32 of counters of four words, 10 rounds."""
    a, b, c, d = counter
    for turn in range(10):
        k0, k1 = (U32((k + turn * w) & 0xFFFFFFFF) for k, w in zip(key, _PHILOX_WEYL, strict=True))
        left, right = a.astype(U64) * _PHILOX_FACTORS[0], c.astype(U64) * _PHILOX_FACTORS[1]
        a, c = (right >> U64(32)).astype(U32) ^ b ^ k0, (left >> U64(32)).astype(U32) ^ d ^ k1
        b, d = (right & _LOW).astype(U32), (left & _LOW).astype(U32)
    return [a, b, c, d]


def _threefry_bits(state: np.ndarray, shape: tuple[int, ...], wide: bool) -> tuple[np.ndarray, int]:
    """Words of the result, and blocks made. Narrow results have one dim split in two, which holds a block's words."""
    halves, dim, whole = shape, 0, shape
    if not wide:
        whole = shape or (1,)
        even = [d for d, size in enumerate(whole) if size % 2 == 0]
        dim = even[0] if even else whole.index(max(whole))
        halves = tuple(-(-size // 2) if d == dim else size for d, size in enumerate(whole))
    blocks = int(np.prod(halves, dtype=np.int64))
    counter = state[1] + np.arange(blocks, dtype=U64)
    key = (U32(state[0] & _LOW), U32(state[0] >> U64(32)))
    a, b = threefry(key, (counter & _LOW).astype(U32), (counter >> U64(32)).astype(U32))
    a, b = a.reshape(halves), b.reshape(halves)
    if wide:
        return np.stack([a, b], -1), blocks
    joined = np.stack([a, b], dim + 1).reshape(*halves[:dim], halves[dim] * 2, *halves[dim + 1 :])
    return joined[tuple(slice(size) for size in whole)].reshape(shape), blocks


def _philox_bits(state: np.ndarray, shape: tuple[int, ...], wide: bool) -> tuple[np.ndarray, int]:
    words = int(np.prod(shape, dtype=np.int64)) * (2 if wide else 1)
    blocks = -(-words // 4)
    high = state[2] if len(state) > 2 else state[0]
    low = state[1] + np.arange(blocks, dtype=U64)
    high = high + (low < state[1]).astype(U64)
    counter = [(half >> U64(shift) & _LOW).astype(U32) for half in (low, high) for shift in (0, 32)]
    made = np.stack(philox((int(state[0] & _LOW), int(state[0] >> U64(32))), counter), -1).ravel()[:words]
    return made.reshape(*shape, 2) if wide else made.reshape(shape), blocks


@kernel("rng_bit_generator", RandomParams, cycles=PASS * 20)
def rng_bit_generator(images: Images, call: Call) -> Images:
    """The new state, and the bits."""
    params = params_of(call, RandomParams)
    state = np.ascontiguousarray(images[0]).view(U64).reshape(-1).copy()
    shape = call.outputs[1].shape
    shape = shape[:-1] if params.wide else shape
    if params.algorithm not in ("THREE_FRY", "PHILOX"):
        raise ValueError(f"algorithm THREE_FRY or PHILOX, not {params.algorithm}")
    make = _threefry_bits if params.algorithm == "THREE_FRY" else _philox_bits
    bits, blocks = make(state, shape, params.wide)
    before = state[1]
    state[1] += U64(blocks)
    if len(state) > 2 and state[1] < before:
        state[2] += U64(1)
    return [state.view(U32).reshape(-1, 2), bits]

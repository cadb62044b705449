"""The formulas, which depend on counts alone. Source: tenstorrent/tt-budabackend, perf_lib/op_model/op_model.cpp.

`t` macro blocks follow one another; each has `ublocks` micro blocks of `tiles` tiles in all.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST = 1 << 30
"""Largest estimate."""


@dataclass(frozen=True)
class Work:
    """One core's share of an op."""

    t: int
    ublocks: int
    """Output micro blocks of one macro block."""
    u_rt: int
    u_ct: int
    m_k: int = 1
    """Steps along the inner dimension."""
    u_kt: int = 1
    """Tiles of one such step."""
    phases: int = 1
    """Fidelity phases."""

    @property
    def tiles(self) -> int:
        """Output tiles of one macro block."""
        return self.ublocks * self.u_rt * self.u_ct


def _whole(cycles: float) -> int:
    return min(MOST, int(cycles))


def elementwise(work: Work, weights: tuple[float, ...], format_weight: int = 1) -> int:
    """Estimates unary, binary and reduce ops: a cost per micro block and a cost per tile."""
    per_ublock, per_tile = weights
    return _whole(work.t * (work.ublocks * per_ublock + work.tiles * per_tile * format_weight))


def reduce_z(work: Work, weights: tuple[float, ...], z: int) -> int:
    """Estimates a reduction along z: the same cost `z` times, and a constant each time."""
    per_ublock, per_tile, per_z = weights
    each = work.ublocks * per_ublock + work.tiles * per_tile
    return _whole(work.t * (z * (each + per_z) if z > 1 else each))


def matmul_grayskull(work: Work, weights: tuple[float, ...]) -> int:
    """Estimates a dense product on Grayskull; data formats have no term."""
    per_step, per_ublock, per_tile = weights
    steps = work.m_k * work.ublocks
    products = steps * work.u_kt * work.u_rt * work.u_ct
    return _whole(work.t * ((work.m_k - 1) * per_step + steps * per_ublock + products * per_tile * work.phases))


def matmul(work: Work, weights: tuple[float, ...]) -> int:
    """Estimates a dense product on Wormhole or any depthwise one: math by phases, spills of partial sums, unpacking."""
    per_product, per_spill, per_ublock, per_unpack = weights
    steps = work.m_k * work.ublocks
    products = steps * work.u_kt * work.u_rt * work.u_ct * work.phases
    spills = (work.m_k - 1) * work.tiles
    unpacked = steps * work.u_kt * work.u_rt * (1 + work.u_ct)
    return _whole(work.t * (products * per_product + spills * per_spill + steps * per_ublock + unpacked * per_unpack))

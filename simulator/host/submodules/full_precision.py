"""TT-Buda's golden, which computes in full float32 unless it is told to keep to the card's number formats."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

from opscope.compiler.target.system_desc import DEFAULT_BOARD, load_board
from opscope.simulator.host.devices.device import Device
from opscope.simulator.host.devices.tt_device import TTDevice
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings.enumerations import BackendType
from opscope.simulator.host.settings.options import global_compiler_config, using
from opscope.simulator.host.settings.verify_config import RELATIVE_ATOL, VerifyConfig


class LostByFormats(UserWarning):
    """A result is not the reference's in the card's number formats, and is in Float32."""


def verified(
    devices: Sequence[Device],
    config: VerifyConfig,
    verify: Callable[[VerifyConfig], None],
    again: Callable[[], None],
) -> None:
    """Calls `verify`, which compares what devices compute; where that raises, `again`, with programs in Float32.

    That is for cards of `BackendType.Golden` with `golden_ignore_df_precision`, which is TT-Buda's default: what its
    tests ask of its golden says nothing of formats. For others it is so where the program states no `pcc` and all is
    within a tenth of the largest value, which passes in TT-Buda. A card that cannot compute in Float32 is a Wormhole
    meanwhile. What formats lose is a LostByFormats. Raises PyBudaError where the results differ in Float32 too.
    """
    try:
        verify(config)
        return
    except PyBudaError as error:
        cards = [device for device in devices if isinstance(device, TTDevice)]
        if not config.golden_ignore_df_precision or not (_are_golden(cards) or _within_a_tenth(config, verify)):
            raise
        lost = error
    kept = [(card.compiled, card.programs, card.board) for card in cards]
    try:
        with using(global_compiler_config().in_full_precision()):
            for card in cards:
                card.compiled, card.programs = [], {}
                if not load_board(card.board).has_fp32_dst:
                    card.board = DEFAULT_BOARD["wormhole_b0"]
            again()
    except PyBudaError as error:
        raise PyBudaError(f"{lost}; in Float32: {error}") from error
    finally:
        for card, (compiled, programs, board) in zip(cards, kept, strict=True):
            card.compiled, card.programs, card.board = compiled, programs, board
    warnings.warn(f"{lost}; in Float32 it does", LostByFormats, stacklevel=3)


def _are_golden(cards: Sequence[TTDevice]) -> bool:
    return all(card.devtype is BackendType.Golden for card in cards)


def _within_a_tenth(config: VerifyConfig, verify: Callable[[VerifyConfig], None]) -> bool:
    """Whether TT-Buda's own limit is kept, where the program leaves the limits to it."""
    if config.pcc is not None or config.states_tolerances:
        return False
    try:
        verify(replace(config, relative_atol=float(RELATIVE_ATOL)))
    except PyBudaError:
        return False
    return True

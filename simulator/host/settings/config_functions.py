"""The functions of `pybuda.config` that the guide does not print, which public programs call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from opscope.compiler.api import Nop
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.query import NodePredicateBuilder
from opscope.simulator.host.settings.checked_options import named_ops
from opscope.simulator.host.settings.compiler_config import ATTRIBUTES, CompilerConfig
from opscope.simulator.host.settings.options import (
    global_compiler_config,
    reset_options,
    set_chip_break,
    set_epoch_break,
    set_transposed,
)
from opscope.simulator.host.settings.without_effect import say_once

k_dim = -(2**31)
"""The contracted dimension, for `insert_fracture_group`."""

_get_global_compiler_config = global_compiler_config


def _clear_global_compiler_config() -> None:
    """Forgets every option."""
    reset_options()


def _set_global_compiler_config(config: CompilerConfig) -> None:
    """Sets all options to those of another configuration. Raises PyBudaError for what is none."""
    if not isinstance(config, CompilerConfig):
        raise PyBudaError(f"_set_global_compiler_config: expected a CompilerConfig, got {type(config).__name__}")
    global_compiler_config().take_over(config)


def override_t_stream_dir(op_name: str, direction: str | None) -> None:
    """Sets the direction in which an op's result is cut in time: n (not at all), r, c, rz or cz."""
    global_compiler_config().balancer_op_override(op_name, "t_stream_dir", direction)


def override_t_stream_shape(op_name: str, shape: tuple[int, int]) -> None:
    """Sets into how many rows and columns an op's result is cut in time."""
    global_compiler_config().balancer_op_override(op_name, "t_stream_shape", shape)


def override_u_kt(op_name: str, u_kt: int) -> None:
    """Sets the inner block of a product, in tiles."""
    global_compiler_config().balancer_op_override(op_name, "u_kt", u_kt)


def override_dram_parameters(op_name: str, force_dram_parameters: bool) -> None:
    """Keeps an op's parameters in DRAM, or lets them be held in L1."""
    global_compiler_config().balancer_op_override(op_name, "force_dram_parameters", force_dram_parameters)


def override_input_buffer_multiplier(op_name: str, operand_index: int, *, multiplier: int) -> None:
    """Has no effect; it says why."""
    global_compiler_config().balancer_op_override(op_name, "input_buffer_multiplier", {operand_index: multiplier})


def internal_override_output_buffer_multiplier(op_name: str, *, multiplier: int) -> None:
    """Has no effect; it says why."""
    global_compiler_config().balancer_op_override(op_name, "output_buffer_multiplier", multiplier)


def override_multi_op_fracture_factor(op_name: str, multi_op_fracture_factor: int) -> None:
    """Has no effect; it says why."""
    _without_effect("override_multi_op_fracture_factor", "conv_multi_op_fracture_factor_override")


def add_cpu_fallback_ops(op_types: str | list[str]) -> None:
    """Has no effect; it says why."""
    _without_effect("add_cpu_fallback_ops", "cpu_fallback_ops")


def remove_cpu_fallback_ops(op_types: str | list[str]) -> None:
    """Has no effect; it says why."""
    _without_effect("remove_cpu_fallback_ops", "cpu_fallback_ops")


def insert_fracture_group(nodes: Sequence[Any], chip_ids: Sequence[int] | Mapping[str, Sequence[int]] = ()) -> None:
    """Has no effect; it says why."""
    _without_effect("insert_fracture_group", "fracture_groups")


def add_schedule_constraint(partial_ordering: list[str]) -> None:
    """Has no effect; it says why."""
    _without_effect("add_schedule_constraint", "scheduler_constraints")


def set_num_repeated_patterns(module_name: str, num_patterns: int) -> None:
    """Has no effect; it says why."""
    _without_effect("set_num_repeated_patterns", "tvm_module_to_num_patterns")


def set_auto_transposing_placement(is_enabled: bool) -> None:
    """Allows tall ops to be placed on their side, or not."""
    global_compiler_config().enable_auto_transposing_placement = is_enabled


def override_dram_queue_placement(dram_queue: str, *, chip_id: int | None = None, channel: int | None = None) -> None:
    """Has no effect; it says why."""
    global_compiler_config().place_queue_to_chip_dram(dram_queue, chip_id=chip_id, channel=channel)


def override_op_placement(
    op_name: str | NodePredicateBuilder,
    *,
    start: tuple[int, int] | None = None,
    transpose_op: bool = False,
    chip_id: int | None = None,
    spatial_epoch_break: bool = False,
    temporal_epoch_break: bool = False,
) -> None:
    """Starts an epoch at an op (`temporal_epoch_break`), or one on the next chip (`spatial_epoch_break`).

    With `transpose_op` it lies on its side. A first core and a chip of its own have no effect. Raises PyBudaError.
    """
    named_ops("override_op_placement", op_name)
    if start is not None or chip_id is not None:
        why = "the placer chooses cores and fills chips in order; try set_chip_break"
        say_once("override_op_placement: start and chip_id", why)
    if transpose_op:
        set_transposed(op_name)
    if temporal_epoch_break:
        set_epoch_break(op_name)
    if spatial_epoch_break:
        set_chip_break(op_name)


def insert_nop(
    src_op: str,
    dest_ops: str | list[str],
    *,
    hoist_tms: bool = True,
    nop_count: int = 1,
    daisy_chain: bool = False,
) -> None:
    """Puts a nop, which copies, between an op or an input and ops that read it.

    `hoist_tms` moves data before the nop and not after it; `nop_count` are that many in a row; a `daisy_chain` has one
    for each op that reads. Their names are `buffer_<number>_<src_op>_<first of dest_ops>`. Raises PyBudaError.
    """
    readers = [dest_ops] if isinstance(dest_ops, str) else dest_ops
    if not isinstance(src_op, str) or not isinstance(readers, list | tuple) or not readers:
        raise PyBudaError(f"insert_nop: expected names of an op and of ops that read it, got {src_op!r}, {dest_ops!r}")
    if not isinstance(nop_count, int) or nop_count < 1 or not all(isinstance(reader, str) for reader in readers):
        raise PyBudaError(f"insert_nop: expected names, and a number from 1 on, got {readers!r} and {nop_count!r}")
    global_compiler_config().insert_nop(Nop(src_op, tuple(readers), bool(hoist_tms), nop_count, bool(daisy_chain)))


insert_buffering_nop = _internal_insert_fj_buffering_nop = insert_nop


def get_harvesting_mask(row_indices: list[int]) -> int:
    """Returns a mask with a bit for each row."""
    return sum(1 << row for row in row_indices)


def _set_pybuda_override_veto(general_config_dict: Mapping[str, Any], environ_config_dict: Mapping[str, Any]) -> None:
    """Notes options that a test forbids in the environment, as TT-Buda does; nothing reads it here."""
    import json

    kept = {"general_conf": dict(general_config_dict), "environ_conf": dict(environ_config_dict)}
    os.environ["PYBUDA_OVERRIDES_VETO"] = json.dumps(kept)


def _without_effect(function: str, attribute: str) -> None:
    say_once(function, ATTRIBUTES[attribute].no_effect)

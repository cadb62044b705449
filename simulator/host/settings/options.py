"""The compile options, which are global, as in TT-Buda: every device that compiles later has them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opscope.compiler.api import CompileDepth, CompilerInputError, Configuration, OpPrecision
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.query import NodePredicateBuilder
from opscope.simulator.host.settings import environment
from opscope.simulator.host.settings.checked_options import checked, named_ops
from opscope.simulator.host.settings.compiler_config import NARROW, CompilerConfig
from opscope.simulator.host.settings.enumerations import (
    DataFormat,
    DRAMPlacementAlgorithm,
    MathFidelity,
    PerfTraceLevel,
)

Ops = str | NodePredicateBuilder | list[str | NodePredicateBuilder]
_GLOBAL = Configuration()
OF_OPTIMIZERS = OpPrecision(epoch_type="optimizer", output_df="Float32", math_fidelity="HiFi4")
"""What `set_configuration_options(amp_level=1)` asks for."""
_COMPILER_CONFIG = CompilerConfig(_GLOBAL)


def configuration() -> Configuration:
    """Returns a copy of the options that are set now: what a compilation begins with. Raises PyBudaError.

    Environment variables set those that the program does not; of the others it is said once that they have no effect.
    """
    copied = _GLOBAL.copy()
    copied.values = {name: tuple(v) if isinstance(v, list) else v for name, v in copied.values.items()}
    taken = {n: v for n, v in environment.options().items() if n in environment.FIRST or n not in copied.values}
    checked("environment", copied, taken)
    environment.say_what_has_no_effect()
    CompilerConfig(copied).enable_amp_light(environment.amp_light())
    return copied


def described_card() -> tuple[str, int]:
    """Returns board ('' if none was set) and mask of harvested rows of the card that options describe.

    Raises PyBudaError for a file that describes none.
    """
    try:
        return configuration().device
    except CompilerInputError as error:
        raise PyBudaError(str(error)) from None


def global_compiler_config() -> CompilerConfig:
    """Returns the options as TT-Buda's configuration object: what is set on it is set for all that compiles later."""
    return _COMPILER_CONFIG


def compile_depth() -> CompileDepth:
    """Returns how far devices compile: what `PYBUDA_COMPILE_DEPTH` says, or the compiler configuration.

    Raises PyBudaError for a depth that there is not.
    """
    named = os.environ.get(environment.COMPILE_DEPTH, "")
    try:
        return CompileDepth.of(named) if named else _COMPILER_CONFIG.compile_depth
    except CompilerInputError as error:
        raise PyBudaError(f"{environment.COMPILE_DEPTH}: {error}") from None


@contextmanager
def using(config: CompilerConfig | None) -> Iterator[None]:
    """Within it the options are those of another compiler configuration, unless that is None or the global one."""
    if config is None or config is _COMPILER_CONFIG:
        yield
        return
    before = CompilerConfig()
    before.take_over(_COMPILER_CONFIG)
    _COMPILER_CONFIG.take_over(config)
    try:
        yield
    finally:
        _COMPILER_CONFIG.take_over(before)


def reset_options() -> None:
    """Forgets every option."""
    fresh = Configuration()
    for name in vars(fresh):
        setattr(_GLOBAL, name, getattr(fresh, name))
    _COMPILER_CONFIG.forget()


def stable_softmax() -> bool:
    """Whether a softmax subtracts the maximum (`enable_stable_softmax`)."""
    return bool(option("enable_stable_softmax", True))


def option(name: str, default: Any = None) -> Any:
    """Returns the value of an option. Raises PyBudaError for an environment variable with a wrong value."""
    return _GLOBAL.get(name, environment.options().get(name, default))


def set_configuration_options(
    enable_recompute: bool | None = None,
    balancer_policy: str | None = None,
    place_on_one_row: bool | None = None,
    enable_t_streaming: bool | None = None,
    manual_t_streaming: bool | None = None,
    enable_consteval: bool | None = None,
    default_df_override: DataFormat | None = None,
    accumulate_df: DataFormat | None = None,
    math_fidelity: MathFidelity | None = None,
    performance_trace: PerfTraceLevel | None = None,
    backend_opt_level: int | None = None,
    backend_output_dir: str | None = None,
    backend_device_descriptor_path: str | None = None,
    backend_cluster_descriptor_path: str | None = None,
    backend_runtime_params_path: str | None = None,
    backend_runtime_args: str | None = None,
    enable_auto_fusing: bool | None = None,
    enable_conv_prestride: bool | None = None,
    enable_stable_softmax: bool | None = None,
    amp_level: int | None = None,
    harvested_rows: list[list[int]] | None = None,
    store_backend_db_to_yaml: bool | None = None,
    input_queues_on_host: bool | None = None,
    output_queues_on_host: bool | None = None,
    enable_auto_transposing_placement: bool | None = None,
    use_interactive_placer: bool | None = None,
    op_intermediates_to_save: list[str] | None = None,
    enable_enumerate_u_kt: bool | None = None,
    enable_device_tilize: bool | None = None,
    dram_placement_algorithm: DRAMPlacementAlgorithm | None = None,
    chip_placement_policy: str | None = None,
    enable_forked_dram_inputs: bool | None = None,
    device_config: str | None = None,
    **unknown: Any,
) -> None:
    """Sets compile options for every device that compiles later; None leaves one as it is.

    What each does here is in docs/pybuda.md; one that does nothing gives a warning. Raises PyBudaError for an unknown
    option or a wrong value.
    """
    named = {name: value for name, value in locals().items() if name != "unknown"} | unknown
    if amp_level in (0, 1):
        # TT-Buda documents this level of this function so; the levels of products are those of CompilerConfig.
        _GLOBAL.precisions = [one for one in _GLOBAL.precisions if one != OF_OPTIMIZERS]
        _GLOBAL.precisions += [OF_OPTIMIZERS] * amp_level
        named["amp_level"] = None if amp_level else 0
    caught = checked("set_configuration_options", _GLOBAL, {n: v for n, v in named.items() if v is not None})
    for warning in caught:
        warnings.warn(warning.message, stacklevel=2)


def set_epoch_break(op_names: Ops) -> None:
    """Makes each of these ops, or of those that a predicate matches, start an epoch. Raises PyBudaError."""
    _GLOBAL.set_epoch_break(named_ops("set_epoch_break", op_names))


def set_chip_break(op_names: Ops) -> None:
    """Makes each of these ops, or of those that a predicate matches, start an epoch on the next chip."""
    _GLOBAL.set_chip_break(named_ops("set_chip_break", op_names))


def set_transposed(op_names: Ops) -> None:
    """Places each of these ops, or of those that a predicate matches, on its side. Raises PyBudaError."""
    _GLOBAL.set_transposed(named_ops("override_op_placement", op_names))


def override_op_size(op_name: str, grid_size: tuple[int, int]) -> None:
    """Gives an op a grid of rows and columns of cores. Raises PyBudaError."""
    sizes = tuple(grid_size) if isinstance(grid_size, tuple | list) else ()
    if not isinstance(op_name, str) or len(sizes) != 2 or not all(isinstance(n, int) and n > 0 for n in sizes):
        raise PyBudaError(f"override_op_size: expected a name and (rows, columns), got {op_name!r} and {grid_size!r}")
    _GLOBAL.override_op_size(op_name, (sizes[0], sizes[1]))


def configure_mixed_precision(
    op_type: str | None = None,
    epoch_type: str | None = None,
    output_df: DataFormat | None = None,
    intermediate_df: DataFormat | None = None,
    accumulate_df: DataFormat | None = None,
    math_fidelity: MathFidelity | None = None,
    name_regex: str | None = None,
    input_df: dict[int, Any] | None = None,
    is_gradient_op: bool | None = None,
    input_parameter_indices_to_optimize: list[tuple[int, int]] | None = None,
) -> None:
    """Sets formats and fidelity of ops: of a type, of a kind of epoch, whose whole name matches, or of all.

    `input_df` is operand -> format, or (format, whether it must be so); `input_parameter_indices_to_optimize` has pairs
    of an operand and the bits of its mantissa (8, 4 or 2). Raises PyBudaError for a wrong value.
    """
    formats = {k: v[0] if isinstance(v, tuple | list) else v for k, v in (input_df or {}).items()}
    for pair in input_parameter_indices_to_optimize or ():
        if not isinstance(pair, tuple | list) or len(pair) != 2 or pair[1] not in NARROW:
            raise PyBudaError(
                "configure_mixed_precision: input_parameter_indices_to_optimize: "
                f"expected pairs of an operand and 8, 4 or 2 bits, got {pair!r}"
            )
        formats[pair[0]] = NARROW[pair[1]]
    try:
        _GLOBAL.configure_mixed_precision(
            op_type=op_type,
            epoch_type=epoch_type,
            name_regex=name_regex,
            is_gradient_op=is_gradient_op,
            output_df=output_df,
            intermediate_df=intermediate_df,
            accumulate_df=accumulate_df,
            math_fidelity=math_fidelity,
            input_df=formats,
        )
    except CompilerInputError as error:
        raise PyBudaError(f"configure_mixed_precision: {error}") from None

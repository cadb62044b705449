"""TT-Buda's compiler configuration as programs set it: attributes of one global object, which are the options here."""

from __future__ import annotations

import difflib
from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opscope.compiler.api import CompileDepth, CompilerInputError, Configuration, Nop
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.query import NodePredicateBuilder
from opscope.simulator.host.settings.checked_options import checked, named_ops
from opscope.simulator.host.settings.enumerations import (
    DataFormat,
    DeviceMode,
    DRAMPlacementAlgorithm,
    MathFidelity,
    NamedValue,
    PerfTraceLevel,
)
from opscope.simulator.host.settings.without_effect import say_once

Ops = str | NodePredicateBuilder | list[str | NodePredicateBuilder]

NO_TVM = "models are traced by JAX, not by TVM"
NO_SPLIT = "an op runs on the host where no card computes it, whatever its type"
NO_SOLVER = "the planner here has no such choice"
AMP_LIGHT = {1: (8, MathFidelity.HiFi2), 2: (4, MathFidelity.HiFi2), 3: (4, MathFidelity.LoFi)}
"""Level of enable_amp_light -> bits of a weight's mantissa, fidelity of products."""
NARROW = {8: "Bfp8_b", 4: "Bfp4_b", 2: "Bfp2_b"}
"""Bits of a mantissa, with its sign -> format of a parameter."""


@dataclass(frozen=True)
class Attribute:
    """One attribute: TT-Buda's default, and the option that it is here, what else it does, or why it does nothing."""

    default: Any
    option: str = ""
    does: str = ""
    no_effect: str = ""
    kind: type[NamedValue] | None = None
    """Enumeration of its values, if it has one."""


def _same(**defaults: Any) -> dict[str, Attribute]:
    return {name: Attribute(default, name) for name, default in defaults.items()}


def _unused(why: str, **defaults: Any) -> dict[str, Attribute]:
    return {name: Attribute(default, no_effect=why) for name, default in defaults.items()}


ATTRIBUTES: dict[str, Attribute] = {
    **_same(
        enable_recompute=False,
        balancer_policy="default",
        enable_t_streaming=True,
        manual_t_streaming=False,
        enable_consteval=True,
        enable_auto_fusing=True,
        enable_enumerate_u_kt=True,
        enable_conv_prestride=True,
        chip_placement_policy="",
        default_dram_parameters=None,
        amp_level=None,
        enable_auto_transposing_placement=True,
        enable_stable_softmax=True,
        enable_single_buffer_fallback=False,
        backend_output_dir="",
        backend_device_descriptor_path="",
        backend_cluster_descriptor_path="",
        backend_runtime_params_path="",
        store_backend_db_to_yaml=False,
        input_queues_on_host=True,
        output_queues_on_host=True,
        op_intermediates_to_save=(),
        op_names_dont_fuse=(),
        op_names_manual_fuse=(),
        # These three have no effect, which the options themselves say.
        use_interactive_placer=True,
        enable_device_tilize=False,
        enable_forked_dram_inputs=False,
        backend_opt_level=4,
        backend_runtime_args="",
    ),
    "default_df_override": Attribute(None, "default_df_override", kind=DataFormat),
    "default_accumulate_df": Attribute(None, "accumulate_df", kind=DataFormat),
    "default_math_fidelity": Attribute(MathFidelity.HiFi3, "math_fidelity", kind=MathFidelity),
    "performance_trace": Attribute(PerfTraceLevel.NONE, "performance_trace", kind=PerfTraceLevel),
    "dram_placement_algorithm": Attribute(
        DRAMPlacementAlgorithm.ROUND_ROBIN, "dram_placement_algorithm", kind=DRAMPlacementAlgorithm
    ),
    "harvesting_mask": Attribute(0, "harvested_rows"),
    "enable_training": Attribute(
        False, does="`pybuda_compile` compiles the passes of training; `initialize_pipeline` and `run_training` say it"
    ),
    **_unused(
        "equal layers are planned alike in any case", match_subgraph_patterns=None, tvm_module_to_num_patterns={}
    ),
    **_unused(
        NO_SOLVER,
        scheduler_policy="ModuleInputsBFS",
        graph_solver_self_cut_type="FastCut",
        enable_broadcast_splitting=False,
        scheduler_constraints=[],
        paddings={},
        insert_queues=[],
    ),
    **_unused(
        NO_TVM,
        enable_tvm_dropout=False,
        enable_tvm_unsupported_ops=False,
        enable_op_level_comparision=False,
        enable_tvm_constant_prop=False,
        convert_framework_params_to_tvm=True,
        enable_xla_jax_convert=False,
        enable_tvm_jax_freeze_large_model=True,
        framework_model_output_names=[],
        tvm_constnat_prop_mask=set(),
        compile_tvm_to_python=True,
        retain_tvm_python_files=False,
        tvm_graph_store_path="",
        tvm_graph_load_path="",
    ),
    **_unused(
        NO_SPLIT,
        enable_tvm_cpu_fallback=True,
        cpu_fallback_ops={"embedding"},
        enable_tm_cpu_fallback=False,
        tm_cpu_fallback_max_depth=10,
    ),
    **_unused("every module of a device has a program of its own", compile_subgraphs=False),
    **_unused("a program passes past keys and values on itself", enable_link_past_cache_ios=False, loopback_outputs={}),
    **_unused("PyTorch's graphs are not taken apart here", enable_pt2_fx_graph_link=False),
    "compile_depth": Attribute(CompileDepth.FULL, does="how far devices compile; a shorter way runs nothing"),
    **_unused(
        "a maximum of windows is computed as it is, negative or not",
        max_pool_add_sub_surround=False,
        max_pool_add_sub_surround_value=1.0,
    ),
    **_unused(
        "convolutions are not split, and the ops of a module stay on its chip",
        conv_multi_op_fracture_factor_override={},
        fracture_groups=[],
    ),
    **_unused("queues are placed by dram_placement_algorithm alone", manual_dram_queue_placement={}),
    **_unused("images have one form", tti_dump_format=None),
    **_unused("try TTDevice(device_mode=...)", device_mode=DeviceMode.CompileAndRun),
    **_unused("try place_on_new_epoch", op_names_to_epoch_break=[]),
    **_unused("try place_on_new_chip", op_names_to_chip_break=[]),
    "balancer_op_overrides": Attribute({}, does="name of an op -> `OpOverride`: what of it is fixed"),
    **_unused("try override_op_placement", placer_op_overrides=[]),
    **_unused("try insert_nop", buffering_nops_to_insert={}),
    **_unused("try configure_mixed_precision", amp_properties=[]),
}
"""Name -> what it is here."""

UNPLANNED = {
    "input_buffer_multiplier": "inputs have two buffers",
    "output_buffer_multiplier": "outputs have the buffers that L1 has room for",
    "fracture_factor": "ops are not split",
}
"""Attributes of an op's override in TT-Buda that have no effect here, and why."""


class OpOverride:
    """What is fixed of an op, in `CompilerConfig.balancer_op_overrides`; None is left to the balancer."""

    grid_shape: tuple[int, int] | None = None
    force_dram_parameters: bool | None = None
    t_stream_dir: str | None = None
    t_stream_shape: tuple[int, int] | None = None
    u_kt: int | None = None
    input_buffer_multiplier: Mapping[int, int] | None = None
    output_buffer_multiplier: int | None = None

    def __init__(self) -> None:
        object.__setattr__(self, "_of", [])

    def __setattr__(self, name: str, value: Any) -> None:
        """Fixes one choice. Raises PyBudaError for a name that TT-Buda has not, or a wrong value."""
        if name not in OpOverride.__annotations__:
            known = ", ".join(OpOverride.__annotations__)
            raise PyBudaError(f"OpOverride: expected one of {known}, got {name!r}")
        for config, op_name in vars(self)["_of"]:
            config.balancer_op_override(op_name, name, value)
        object.__setattr__(self, name, value)

    def fix(self, config: CompilerConfig, op_name: str) -> None:
        """Fixes what is set, and what will be, of an op. Raises PyBudaError for a wrong value."""
        for name, value in vars(self).items():
            if name in OpOverride.__annotations__ and value is not None:
                config.balancer_op_override(op_name, name, value)
        vars(self)["_of"].append((config, op_name))


class _OpOverrides(UserDict[str, OpOverride]):
    """Overrides by the names of ops; what is written is fixed in the configuration."""

    def __init__(self, config: CompilerConfig, data: Mapping[str, OpOverride]) -> None:
        self._config = config
        super().__init__(data)

    def __setitem__(self, op_name: str, override: OpOverride) -> None:
        if not isinstance(override, OpOverride):
            raise PyBudaError(f"balancer_op_overrides: expected an OpOverride, got {override!r}"[:300])
        override.fix(self._config, op_name)
        super().__setitem__(op_name, override)


class UnknownAttribute(PyBudaError, AttributeError):
    """An attribute that TT-Buda's configuration has not."""


class CompilerConfig:
    """The compiler configuration; attributes are read and set, `ATTRIBUTES` has all of them."""

    _configuration: Configuration
    _unused: dict[str, Any]

    def __init__(self, configuration: Configuration | None = None, **attributes: Any) -> None:
        """`configuration` is what it sets; its own by default. Raises PyBudaError."""
        object.__setattr__(self, "_configuration", configuration if configuration is not None else Configuration())
        object.__setattr__(self, "_unused", {})
        for name, value in attributes.items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute as TT-Buda has it. Raises UnknownAttribute."""
        attribute = _attribute(name)
        if name == "balancer_op_overrides":
            return self._unused.setdefault(name, _OpOverrides(self, {}))
        if not attribute.option:
            if name not in self._unused:
                default = attribute.default
                self._unused[name] = default.copy() if isinstance(default, set | list | dict) else default
            value = self._unused[name]
            if isinstance(value, set | list | dict):  # who asks for it is going to change it
                say_once(name, attribute.no_effect)
            return value
        value = self._configuration.get(attribute.option, attribute.default)
        if name == "harvesting_mask":
            return self._configuration.device[1]
        if isinstance(value, tuple):  # a program may append to it
            value = self._configuration.values[attribute.option] = list(value)
        if attribute.kind is not None and isinstance(value, str):
            return attribute.kind.from_json(value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute. Raises UnknownAttribute, PyBudaError for a wrong value."""
        attribute = _attribute(name)
        if not attribute.option:
            default = attribute.default
            if name == "compile_depth" and isinstance(value, str):
                value = CompileDepth.of(value)
            if default is not None and not isinstance(value, _kinds(default)):
                kind = type(default).__name__
                raise PyBudaError(
                    f"compiler configuration: {name}: expected a value of type {kind}, got {value!r}"[:300]
                )
            self._unused[name] = _OpOverrides(self, value) if name == "balancer_op_overrides" else value
            if attribute.no_effect:
                say_once(name, attribute.no_effect)
            return
        if value is None or (value == "" and attribute.default == ""):
            self._configuration.values.pop(attribute.option, None)
            return
        if name == "harvesting_mask":
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise PyBudaError(f"compiler configuration: {name}: expected a mask of rows, got {value!r}")
            value = [row for row in range(value.bit_length()) if value >> row & 1]
        for warning in checked(f"compiler configuration: {name}", self._configuration, {attribute.option: value}):
            say_once(name, str(warning.message).rpartition("has no effect here: ")[2])

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *ATTRIBUTES})

    def __repr__(self) -> str:
        return f"CompilerConfig({self._configuration.described()})"

    def forget(self) -> None:
        """Forgets what was set on it and has no effect."""
        self._unused.clear()

    @property
    def keeps_outputs(self) -> bool:
        """Whether a program has asked for outputs to stay on the card as inputs of the next run."""
        return bool(self._unused.get("loopback_outputs") or self._unused.get("enable_link_past_cache_ios"))

    def take_over(self, other: CompilerConfig) -> None:
        """Sets everything as it is in another configuration."""
        copied = other._configuration.copy()
        for name in vars(copied):
            setattr(self._configuration, name, getattr(copied, name))
        self._unused.clear()
        for name, value in other._unused.items():
            self._unused[name] = _OpOverrides(self, value) if isinstance(value, _OpOverrides) else value

    def in_full_precision(self) -> CompilerConfig:
        """Returns a copy in which every float is Float32, products have HiFi4, and no op has formats of its own."""
        copied = CompilerConfig()
        copied.take_over(self)
        copied._configuration.precisions = []
        copied.amp_level = None
        copied.default_df_override = copied.default_accumulate_df = DataFormat.Float32
        copied.default_math_fidelity = MathFidelity.HiFi4
        return copied

    def insert_nop(self, nop: Nop) -> None:
        """Puts a nop between an op or input and some of its readers."""
        self._configuration.insert_nop(nop)

    # --- methods

    def place_on_new_epoch(self, op_names: Ops) -> None:
        """Makes each of these ops, or of those that a predicate matches, start an epoch. Raises PyBudaError."""
        self._configuration.set_epoch_break(named_ops("place_on_new_epoch", op_names))

    def place_on_new_chip(self, op_names: Ops) -> None:
        """Makes each of these ops, or of those that a predicate matches, start an epoch on the next chip."""
        self._configuration.set_chip_break(named_ops("place_on_new_chip", op_names))

    def place_queue_to_chip_dram(self, dram_queue: str, *, chip_id: int | None, channel: int | None) -> None:
        """Has no effect: see `ATTRIBUTES`."""
        say_once("override_dram_queue_placement", ATTRIBUTES["manual_dram_queue_placement"].no_effect)

    def dont_fuse(self, op_names: str | list[str]) -> None:
        """Keeps ops out of fused ones."""
        more = [op_names] if isinstance(op_names, str) else list(op_names)
        self.op_names_dont_fuse = [*getattr(self, "op_names_dont_fuse"), *more]  # noqa: B009 - see __getattr__

    def manual_fuse(self, op_names: str | list[str]) -> None:
        """Fuses only these ops, and those named before."""
        more = [op_names] if isinstance(op_names, str) else list(op_names)
        self.op_names_manual_fuse = [*getattr(self, "op_names_manual_fuse"), *more]  # noqa: B009 - see __getattr__

    def balancer_op_override(self, op_name: str, attribute: str, value: Any) -> None:
        """Fixes a choice of the balancer for an op: `grid_shape`, `t_stream_shape`, `u_kt` and so on.

        Raises PyBudaError for an attribute that TT-Buda has not, or a wrong value.
        """
        if attribute in UNPLANNED:
            say_once(f"override of {attribute}", UNPLANNED[attribute])
            return
        if not isinstance(op_name, str):
            raise PyBudaError(f"balancer_op_override: expected the name of an op, got {op_name!r}"[:300])
        try:
            self._configuration.override_op(op_name, attribute, value)
        except CompilerInputError as error:
            raise PyBudaError(f"balancer_op_override: {error}") from None

    def save_intermediates(self) -> bool:
        """Whether results of ops are saved (`op_intermediates_to_save`)."""
        return bool(self._configuration.get("op_intermediates_to_save", ()))

    def enable_amp_light(self, level: int = 1) -> None:
        """Narrows weights and fidelity of products: level 1 Bfp8_b and HiFi2, 2 Bfp4_b, 3 also LoFi; 0 nothing."""
        if level == 0:
            return
        if level not in AMP_LIGHT:
            raise PyBudaError(f"enable_amp_light: expected a level from 0 to {max(AMP_LIGHT)}, got {level!r}")
        bits, fidelity = AMP_LIGHT[level]
        formats = {1: NARROW[bits], 2: NARROW[bits]}
        self._configuration.configure_mixed_precision(op_type="matmul", math_fidelity=fidelity, input_df=formats)


def _attribute(name: str) -> Attribute:
    if name in ATTRIBUTES:
        return ATTRIBUTES[name]
    if name.startswith("__"):
        raise AttributeError(name)
    near = difflib.get_close_matches(name, ATTRIBUTES, n=3, cutoff=0.4) or ["set_configuration_options"]
    raise UnknownAttribute(
        f"compiler configuration: expected an attribute of TT-Buda's, got {name!r}; try {', '.join(near)}"
    )


def _kinds(default: Any) -> tuple[type, ...]:
    """The types that are taken in place of a default."""
    if isinstance(default, bool):
        return (bool,)
    if isinstance(default, float):
        return (float, int)
    if isinstance(default, set | list):
        return (set, list, tuple)
    return (Mapping,) if isinstance(default, dict) else (type(default),)

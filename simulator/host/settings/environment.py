"""TT-Buda's environment variables: those that are options here, and why the others are none."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings.without_effect import say_once

PREFIXES = ("PYBUDA_", "TT_BACKEND_")


def _flag(text: str) -> bool:
    words = {"1": True, "true": True, "0": False, "false": False}
    if text.lower() not in words:
        raise ValueError("0 or 1")
    return words[text.lower()]


def _not(text: str) -> bool:
    return not _flag(text)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("a number")
    return int(text)


@dataclass(frozen=True)
class Variable:
    """A variable that is an option: the option, and how its text is read (ValueError says what is expected)."""

    option: str
    read: Callable[[str], Any]
    does: str


VARIABLES: dict[str, Variable] = {
    "PYBUDA_BALANCER_POLICY_TYPE": Variable("balancer_policy", str, "the policy"),
    "PYBUDA_DISABLE_OP_FUSING": Variable("enable_auto_fusing", lambda text: False, "set at all: ops are not fused"),
    "PYBUDA_PERFORMANCE_TRACE": Variable("performance_trace", str.upper, "`none`, `light` or `verbose`"),
    "PYBUDA_ENABLE_INPUT_QUEUES_ON_HOST": Variable("input_queues_on_host", _flag, "where inputs are kept"),
    "PYBUDA_ENABLE_OUTPUT_QUEUES_ON_HOST": Variable("output_queues_on_host", _flag, "where outputs are kept"),
    "PYBUDA_DEFAULT_DRAM_PARAMETERS": Variable("default_dram_parameters", _flag, "whether parameters stay in DRAM"),
    "PYBUDA_PRESTRIDE_DISABLE": Variable("enable_conv_prestride", _not, "1: no rearranged images"),
    "PYBUDA_DISABLE_STABLE_SOFTMAX": Variable("enable_stable_softmax", _not, "1: a softmax subtracts no maximum"),
    "PYBUDA_ENABLE_STABLE_SOFTMAX": Variable("enable_stable_softmax", _flag, "whether a softmax subtracts the maximum"),
    "PYBUDA_DEFAULT_DF": Variable("default_df_override", str, "number format of all floats"),
    "PYBUDA_DISABLE_ENUMERATE_U_KT": Variable("enable_enumerate_u_kt", _not, "1: no smaller inner blocks"),
    "PYBUDA_ENABLE_SINGLE_BUFFER_FALLBACK": Variable(
        "enable_single_buffer_fallback", _flag, "1: holds an output once where it does not fit twice"
    ),
    "PYBUDA_ENABLE_DEVICE_TILIZE": Variable("enable_device_tilize", _flag, "1: the card makes the tiles of inputs"),
    "PYBUDA_ENABLE_AUTO_TRANSPOSE": Variable(
        "enable_auto_transposing_placement", lambda text: True, "set at all: tall ops may be placed on their side"
    ),
    "PYBUDA_AMP_LEVEL": Variable("amp_level", _number, "mixed precision, where the program sets no level"),
}
"""Variables that are options; where a program sets the option, that counts, but for those in `FIRST`."""
FIRST = ("balancer_policy",)
"""Options of which a variable counts more than what the program sets."""

SEQUENTIAL = ("PYBUDA_FORCE_SEQUENTIAL", "PYBUDA_DEVMODE")
"""Variables that make every run `_sequential`."""
AMP_LIGHT = "PYBUDA_AMP_LIGHT"
VERIFY_ALL = "PYBUDA_FORCE_VERIFY_ALL"
"""Variable that is the default of VerifyConfig's `verify_all`."""
GOLDEN_QUANTIZE = "TT_BACKEND_GOLDEN_QUANTIZE"
"""Variable without which VerifyConfig's `golden_ignore_df_precision` is True by default."""
DEVICE = "PYBUDA_OVERRIDE_DEVICE_YAML"
COMPILE_DEPTH = "PYBUDA_COMPILE_DEPTH"
READ_ELSEWHERE = {AMP_LIGHT, VERIFY_ALL, GOLDEN_QUANTIZE, COMPILE_DEPTH, *SEQUENTIAL}
"""Variables that have an effect and are no option."""

NO_CHOICE = "the planner here has no such choice"
NO_RUNTIME = "there is no backend runtime"
NO_TVM = "models are traced by JAX, not by TVM"
NO_PADDING = "tensors are padded to whole tiles and no further"
NO_SPLIT = "convolutions are not split"
READ_BY_PROGRAMS = "one card computes all of a batch"
WITHOUT_EFFECT: dict[str, str] = {
    "PYBUDA_N300_DATA_PARALLEL": READ_BY_PROGRAMS,
    "PYBUDA_OVERRIDE_NUM_CHIPS": "try TTDevice(num_chips=...)",
    "PYBUDA_FORCE_EMULATE_HARVESTED": "try harvested_rows or device_config",
    "PYBUDA_DISABLE_CONSTANT_FOLDING": "try enable_consteval",
    "PYBUDA_CONVERT_PARAMS_TO_TVM": NO_TVM,
    "PYBUDA_INSERT_SLICE_FOR_CONCAT": NO_CHOICE,
    "PYBUDA_CONCAT_SLICE_Y": NO_CHOICE,
    "PYBUDA_MANUAL_SPLICE_DECOMP_TH": NO_CHOICE,
    "PYBUDA_SPLIT_RESIZE2D": NO_CHOICE,
    "PYBUDA_DECOMPOSE_SIGMOID": "a sigmoid is one op",
    "PYBUDA_EXP_APPROX": "exponentials are as exact as the card's",
    "PYBUDA_DISABLE_CAP_SPARSE_MM_FIDELITY": "a gather only moves data",
    "PYBUDA_NETLIST_OVERRIDE": "a netlist runs by itself: `opscope netlist`",
    "PYBUDA_DUMP_CONFIG": "options are in an image's info",
    "PYBUDA_LOAD_CONFIG": "try set_configuration_options",
    "PYBUDA_VERIFY_GOLDEN": "try VerifyConfig",
    "PYBUDA_VERIFY_NET2PIPE": "the compiler's own tests check its pipes",
    "PYBUDA_TTI_BACKEND_FORMAT": "images have one form",
    "PYBUDA_TTI_BACKEND_TILIZED_FORMAT": "images have one form",
    "PYBUDA_ENABLE_FORKED_DRAM_INPUTS": "the ops of an epoch share a read in any case",
    "PYBUDA_SCHEDULER_POLICY": NO_CHOICE,
    "PYBUDA_GOLDEN_BLACKHOLE": "try TTDevice(arch=...)",
    "PYBUDA_ENABLE_VERSIM_DEVICE": "try TTDevice(devtype=...)",
    "PYBUDA_ENABLE_MODEL_DEVICE": "try TTDevice(devtype=...)",
    "PYBUDA_ENABLE_EMULATION_DEVICE": "try TTDevice(devtype=...)",
    "PYBUDA_VERSIM_DEVICE_ARCH": "try TTDevice(arch=...)",
    "PYBUDA_EMULATION_DEVICE_ARCH": "try TTDevice(arch=...)",
    "PYBUDA_OVERRIDES_VETO": "options are what the program sets",
    "PYBUDA_OVERRIDES_VETO_CUSTOM_SETUP": "options are what the program sets",
}
"""Variables without effect, and why."""
FAMILIES: dict[str, str] = {
    "TT_BACKEND_GOLDEN": "a golden is XLA's",
    "TT_BACKEND_": NO_RUNTIME,
    "PYBUDA_PAD_": NO_PADDING,
    "PYBUDA_DISABLE_PADDING": NO_PADDING,
    "PYBUDA_FORCE_CONV_": NO_SPLIT,
    "PYBUDA_DISABLE_CONV_": NO_SPLIT,
    **dict.fromkeys(
        (
            "PYBUDA_RIBBON",
            "PYBUDA_NLP_",
            "PYBUDA_GRAPHSOLVER_",
            "PYBUDA_FORK_JOIN_",
            "PYBUDA_LEGACY_",
            "PYBUDA_TEMP_",
            "PYBUDA_MAX_",
            "PYBUDA_BALANCER_",
            "PYBUDA_EXTRA_L1_MARGIN",
            "PYBUDA_DISABLE_DYNAMIC_DRAM",
            "PYBUDA_DISABLE_STREAM_OUTPUT",
            "PYBUDA_DRAM_",
            "PYBUDA_FUSE_",
            "PYBUDA_NEBULA_GALAXY_PLACER",
            "PYBUDA_DISABLE_INTERACTIVE_PLACER",
        ),
        NO_CHOICE,
    ),
}
"""How names of variables without effect begin, and why they have none."""


def options() -> dict[str, Any]:
    """Returns the options that variables set. Raises PyBudaError for a wrong value."""
    made: dict[str, Any] = {}
    for name, variable in VARIABLES.items():
        text = os.environ.get(name, "")
        if text:
            made[variable.option] = _read(name, variable.read, text)
    descriptor = os.environ.get(DEVICE, "")
    if descriptor and Path(descriptor).is_file():
        made["backend_device_descriptor_path"] = descriptor
    return made


def amp_light() -> int:
    """Returns the level of `PYBUDA_AMP_LIGHT`; 0 if it is not set. Raises PyBudaError."""
    return _read(AMP_LIGHT, _number, os.environ.get(AMP_LIGHT) or "0")


def sequential() -> bool:
    """Whether a variable makes every run sequential."""
    return any(os.environ.get(name, "0") not in ("", "0") for name in SEQUENTIAL)


def say_what_has_no_effect() -> None:
    """Warns once of each variable of TT-Buda's that is set and has no effect."""
    for name in sorted(os.environ):
        if name.startswith(PREFIXES) and name not in READ_ELSEWHERE | VARIABLES.keys():
            if name == DEVICE:
                path = os.environ[name]
                if path and not Path(path).is_file():
                    say_once(name, f"there is no file {path}; try device_config")
                continue
            family = next((why for start, why in FAMILIES.items() if name.startswith(start)), "")
            say_once(name, WITHOUT_EFFECT.get(name) or family or "no variable of that name is known")


def _read(name: str, read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise PyBudaError(f"{name}: expected {error}, got {text!r}") from None

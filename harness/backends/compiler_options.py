"""The options that a backend's own compiler takes with --backend-option: names, kinds and values, by distribution.

A library that is given an option it does not know, or a value that it cannot read, may refuse each op or end its
process, and none lists what it takes. So the rows here are checked before a lane starts. Imports neither NumPy nor a
compiler, as pytest processes call it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opscope.harness.backends import registry
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.masking import MASK
from opscope.harness.record.optest import backend_label
from opscope.harness.record.result_options import ResultOptions

SWITCH = ("true", "false")


@dataclass(frozen=True)
class CompilerOption:
    """One option of a compiler."""

    name: str
    values: tuple[str, ...]
    """What it may be given."""
    meaning: str
    instead: str = ""
    """The flag of ours that sets it, where there is one; then it is refused here."""


# Names and values: tt-xla, pjrt_implementation/src/api/compile_options.cc; each tried on jax-tt-plugin 0.1.3, with a
# value that it does not have too. Those that write files or code elsewhere than into the executable are left out
# (`backend`, `export_path`, `export_tensors`, `dry_run`, `codegen_*`, `ttnn_perf_metrics_*`, `export_model_name`), and
# so are those whose `true` aborts a matmul (`enable_create_d2m_subgraphs`).
TT_MLIR = (
    CompilerOption("optimization_level", ("0", "1", "2"), "level of TTNN's optimizer", "--optimization-level"),
    CompilerOption("math_fidelity", ("lofi", "hifi2", "hifi3", "hifi4", "ttnn_default"), "passes of the matrix unit"),
    CompilerOption("fp32_dest_acc_en", SWITCH, "whether the matrix unit adds up in 32 bits"),
    CompilerOption("enable_const_eval", SWITCH, "whether what follows from constants is a function of its own"),
    CompilerOption("enable_const_eval_on_cpu", SWITCH, "whether such functions run on the host"),
    CompilerOption(
        "enable_const_eval_inputs_to_system_memory", SWITCH, "whether inputs of such functions stay on the host"
    ),
    CompilerOption("enable_trace", SWITCH, "whether the program is captured as a trace"),
    CompilerOption("experimental_weight_dtype", ("bfp_bf8", "bfp_bf4"), "format of the weights of products"),
    CompilerOption("experimental-kv-cache-dtype", ("none", "bfp_bf8", "bfp_bf4"), "format of key-value caches"),
    CompilerOption(
        "experimental_enable_fusing_conv2d_with_multiply_pattern", SWITCH, "whether a scale is fused into conv2d"
    ),
    CompilerOption("experimental_enable_permute_matmul_fusion", SWITCH, "whether a permute is fused into a product"),
    CompilerOption("experimental-enable-dram-space-saving-optimization", SWITCH, "whether DRAM is freed early"),
)
TABLES: Mapping[str, Sequence[CompilerOption]] = {"tt": TT_MLIR}
"""Backend -> the options of its compiler. `jax-tt-plugin` and `pjrt-plugin-tt` are builds of one compiler."""

ANY = ("pjrt",)
"""Backends whose options only the plugin knows: they are handed on as they are."""


def check(backends: Sequence[str], options: ResultOptions) -> None:
    """Raises InputError for an option that no compiler of `backends` has, or a value that it does not take."""
    words = [word for word in (options.backend_option or "").split(",") if word]
    labels = [backend_label(backend) for backend in backends]
    for word in words:
        scoped, _, value = word.partition("=")
        backend, _, name = scoped.rpartition(":")
        if value == MASK:
            got, hint = f"{MASK}, as a run keeps no secrets", f"--backend-option {scoped}=..."
            raise InputError("--backend-option", f"the value of {name}", got, hint)
        if backend and backend not in labels:
            raise InputError(
                "--backend-option",
                f"a backend of this run ({', '.join(labels)})",
                repr(backend),
                f"{closest(backend, labels)}:{name}={value}",
            )
        for own, label in zip(backends, labels, strict=True):
            if not backend or backend == label:
                _check_one(own, label, name, value, labels)


def _check_one(backend: str, label: str, name: str, value: str, labels: Sequence[str]) -> None:
    """Raises InputError unless `backend` has an option `name` that takes `value`."""
    family = registry.parts(backend)[0]
    if family in ANY or (family not in TABLES and registry.declares(backend, "takes_options")):
        return
    table = {option.name: option for option in TABLES.get(family, ())}
    if not table:
        able = [other for other in labels if registry.parts(other)[0] in (*TABLES, *ANY)]
        hint = f"--backend-option {able[0]}:{name}={value}" if able else "--backend tt"
        raise InputError("--backend-option", f"no option with --backend {label}", repr(f"{name}={value}"), hint)
    if name not in table:
        raise InputError("--backend-option", f"an option of {label}", repr(name), closest(name, table))
    option = table[name]
    if option.instead:
        raise InputError(
            "--backend-option",
            f"{option.instead}, which sets {name}",
            repr(f"{name}={value}"),
            f"{option.instead} {value}",
        )
    if value not in option.values:
        raise InputError(
            "--backend-option",
            f"{name} of {', '.join(option.values)}",
            repr(value),
            f"{name}={closest(value, option.values)}",
        )

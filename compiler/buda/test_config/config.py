"""Reads the `test-config` of a netlist (tt-budabackend: verif/verif_stimulus.cpp, verif_comparison.cpp).

A key that is not known is refused by name: a comparison that half understands its rule proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from opscope.compiler.buda.test_config.comparison import TILE, TYPES, Comparison
from opscope.compiler.buda.test_config.rows import Row
from opscope.compiler.errors import CompilerInputError

DEFAULTS: Row = {
    "comparison-config": {"type": "AllCloseHw", "atol": 0.01, "rtol": 0.15, "check_pct": 0.8, "check_pcc": 0.99},
    "stimulus-config": {"type": "Uniform", "uniform_lower_bound": -1.0, "uniform_upper_bound": 1.0},
}
"""Taken for a section that a netlist has not (tt-budabackend: verif/graph_tests/default_test_config.yaml)."""
POSITIVE: Row = {"type": "Uniform", "uniform_lower_bound": 0.001, "uniform_upper_bound": 2.0}
"""The other default stimulus there (verif/netlist_tests/default_test_config.yaml)."""
CONSTANTS: Mapping[str, float] = {"eps": 2.0**-23, "mean": 1.0, "var": 1.0, "sum": 1.0}
"""What the name of a queue has in it -> what it is filled with where `io-config` names inputs and outputs; the first
counts (tt-budabackend: verif/netlist_tests/test_inference.hpp, test_training.hpp)."""
SHARES = ("mean", "var")
"""Of them those that are divided by the length of a sequence."""
SECTIONS = frozenset({"test-args", "comparison-config", "stimulus-config", "io-config", "test-generation-debug"})
"""Sections of a test-config; the last one notes how its generator drew it, and decides nothing."""
COMPARISON_KEYS = frozenset(
    {
        "type",
        "atol",
        "rtol",
        "check_pct",
        "check_pcc",
        "verbosity",
        "method",
        "check_tile_rows_range",
        "check_tile_cols_range",
        "lhs_header",
        "rhs_header",
        "overrides",
    }
)
STIMULUS_NEEDS: Mapping[str, tuple[str, ...]] = {
    "uniform": ("uniform_lower_bound", "uniform_upper_bound"),
    "normal": ("normal_mean", "normal_stddev"),
    "constant": (),
    "debugtileid": ("debug_tile_id_base", "debug_tile_id_step"),
    "step": ("step_start", "step_increment"),
    "steprowwise": ("step_start", "step_increment"),
    "stepcolumnwise": ("step_start", "step_increment"),
    "sparse": ("matmul_ident_name",),
    "sparse_encoding": ("matmul_ident_name", "enc_tile_byte_size"),
    "sparse_encoding_nz_counts": ("matmul_ident_name", "enc_tile_byte_size", "nz_strips", "nz_ublocks", "nz_tiles"),
}
"""Type of a stimulus, in small letters -> the keys that it needs."""
STIMULUS_KEYS = frozenset(
    {
        "type",
        "constant_value",
        "set_tile_rows",
        "set_tile_cols",
        "zero_strip_freq",
        "zero_ublock_freq",
        "zero_tile_freq",
        "overrides",
        *(key for keys in STIMULUS_NEEDS.values() for key in keys),
    }
)


@dataclass(frozen=True)
class TestConfig:
    """How a netlist's inputs are drawn and its outputs compared."""

    __test__ = False  # no test of pytest's

    stimulus: Row
    comparison: Row
    arguments: Mapping[str, int] = field(default_factory=dict)
    """`test-args`: loop_count, microbatch_count and the like."""
    drawn_by_default: bool = False
    """Whether the netlist does not say how its inputs are drawn."""
    names_queues: bool = False
    """Whether `io-config` names inputs and outputs, and `stimulus-config` says how to draw what is no constant."""

    @property
    def parameters(self) -> dict[str, int]:
        """What its programs are given (tt-budabackend: verif/graph_tests/test_graph.cpp)."""
        named = ("microbatch_count", "microbatch_size", "zero_grad")
        return {f"p_{name}": self.arguments[name] for name in named if name in self.arguments}

    def stimulus_of(self, queue: str) -> Row:
        """Returns the rule by which a queue is filled.

        That is its override, one whose pattern it matches, a constant by its name, or the default.
        """
        rule = _rule(self.stimulus, queue)
        part = next((part for part in CONSTANTS if part in queue), "") if self.names_queues else ""
        if not part or rule is not self.stimulus:
            return rule
        length = self.arguments.get("sequence_length", self.arguments.get("sequence_lenth", 128))  # as TT-Buda spells
        return {"type": "Constant", "constant_value": CONSTANTS[part] / (length if part in SHARES else 1)}

    def comparison_of(self, queue: str) -> Comparison:
        """Returns the rule by which a queue is compared. Raises CompilerInputError for one that makes no sense."""
        return read_comparison(f"test-config.comparison-config ({queue})", _rule(self.comparison, queue))


def read(netlist: Row) -> TestConfig:
    """Reads the section `test-config`. Raises CompilerInputError if there is none, or for what is not known."""
    raw = netlist.get("test-config")
    if not isinstance(raw, Mapping) or not raw:
        raise CompilerInputError(
            "test-config: expected a section that says how inputs are drawn and outputs compared, got none"
        )
    _known("test-config", raw, SECTIONS)
    stimulus = raw.get("stimulus-config") or DEFAULTS["stimulus-config"]
    comparison = raw.get("comparison-config") or DEFAULTS["comparison-config"]
    for where, rule in _rules("test-config.stimulus-config", stimulus):
        _known(where, rule, STIMULUS_KEYS)
        if "type" not in rule and rule.get("overrides"):
            continue  # only its overrides are asked for
        kind = str(rule.get("type", "")).lower()
        if kind not in STIMULUS_NEEDS:
            raise CompilerInputError(f"{where}.type: expected {', '.join(STIMULUS_NEEDS)}, got {rule.get('type')!r}")
        for key in STIMULUS_NEEDS[kind]:
            if key not in rule:
                raise CompilerInputError(f"{where}: expected {key} for a stimulus of type {rule['type']}, got none")
    for where, rule in _rules("test-config.comparison-config", comparison):
        read_comparison(where, rule)
    test_args = raw.get("test-args") or {}
    if not isinstance(test_args, Mapping):
        raise CompilerInputError(f"test-config.test-args: expected a mapping, got {test_args!r}")
    arguments = {str(k): v for k, v in test_args.items() if isinstance(v, int)}
    return TestConfig(
        stimulus,
        comparison,
        arguments,
        not raw.get("stimulus-config"),
        bool(raw.get("io-config") and raw.get("stimulus-config")),
    )


def _rules(where: str, raw: Any) -> list[tuple[str, Row]]:
    if not isinstance(raw, Mapping):
        raise CompilerInputError(f"{where}: expected a mapping, got {raw!r}")
    overrides = raw.get("overrides") or {}
    if not isinstance(overrides, Mapping) or not all(isinstance(rule, Mapping) for rule in overrides.values()):
        raise CompilerInputError(f"{where}.overrides: expected rules by the name of a queue, got {overrides!r}")
    return [(where, raw), *((f"{where}.overrides.{name}", rule) for name, rule in overrides.items())]


def _rule(raw: Row, queue: str) -> Row:
    overrides = raw.get("overrides") or {}
    if queue in overrides:
        return overrides[queue]
    return next((rule for name, rule in overrides.items() if _matches(str(name), queue)), raw)


def _matches(pattern: str, queue: str) -> bool:
    try:
        return re.fullmatch(pattern, queue) is not None
    except re.error as error:
        raise CompilerInputError(
            f"test-config: expected the name of a queue or a regular expression, got {pattern!r} ({error})"
        ) from error


def _known(where: str, raw: Row, keys: frozenset[str]) -> None:
    for key in raw:
        if key not in keys:
            raise CompilerInputError(f"{where}: expected {', '.join(sorted(keys))}, got {key!r}")


def read_comparison(where: str, raw: Row) -> Comparison:
    _known(where, raw, COMPARISON_KEYS)
    kind = next((name for name in TYPES if name.lower() == str(raw.get("type", "")).lower()), "")
    if not kind:
        raise CompilerInputError(f"{where}.type: expected {', '.join(TYPES)}, got {raw.get('type')!r}")
    numbers = {key: raw[key] for key in ("rtol", "atol", "check_pct", "check_pcc") if key in raw}
    for key, value in numbers.items():
        most = 1 if key.startswith("check") else float("inf")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise CompilerInputError(f"{where}.{key}: expected a number from 0 to {most}, got {value!r}")
    rule = Comparison(kind, **numbers)
    for key, name in (("check_tile_rows_range", "rows"), ("check_tile_cols_range", "cols")):
        if key in raw:
            rule = replace(rule, **{name: _range(f"{where}.{key}", raw[key])})
    return rule


def _range(where: str, value: Any) -> tuple[int, int]:
    if (
        not isinstance(value, list)
        or len(value) != 2
        or not all(isinstance(v, int) for v in value)
        or not 1 <= value[0] <= value[1] <= TILE
    ):
        raise CompilerInputError(f"{where}: expected first and last from 1 to {TILE}, got {value!r}")
    return value[0], value[1]


__all__ = ["DEFAULTS", "POSITIVE", "TestConfig", "read"]

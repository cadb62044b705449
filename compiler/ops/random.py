"""Rows of random bits, and of 64-bit words that the host splits for the device and joins again."""

from __future__ import annotations

from typing import Any

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import BOOL, TEXT
from opscope.compiler.ops.row import INT, NUMBER, OpRow, register_all
from opscope.compiler.ops.shapes import Shape
from opscope.compiler.target.program import LayoutParams, RandomParams


def _split(op: Any, attrs: dict[str, Any]) -> Shape | None:
    return (*shapes.shape_of(op.operands[0]), 2)


def _joined(op: Any, attrs: dict[str, Any]) -> Shape | None:
    return shapes.shape_of(op.operands[0])[:-1]


register_all(
    OpRow(
        "stablehlo.rng_bit_generator",
        group="random",
        dtypes=INT,
        lowering="pattern",
        reason="Threefry and Philox on 32-bit words",
    ),
    OpRow(
        "stablehlo.rng",
        group="random",
        dtypes=NUMBER,
        lowering="pattern",
        reason="Philox from a state of each op's own; the algorithm is each implementation's",
    ),
    OpRow(
        "",
        "rng_bit_generator",
        group="random",
        dtypes=INT,
        shape_rule=shapes.unchecked,
        attrs={"rng_algorithm": TEXT, "wide": BOOL},
        params=lambda a, op: RandomParams(a["rng_algorithm"], a["wide"]),
        lowering="device",
    ),
    *(
        OpRow(
            "",
            name,
            group="layout",
            dtypes=INT,
            shape_rule=rule,
            params=lambda a, op: LayoutParams(),
            lowering="device",
        )
        for name, rule in (("split_words", _split), ("join_words", _joined))
    ),
)

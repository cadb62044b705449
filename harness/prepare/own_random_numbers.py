"""Which ops draw random numbers by an algorithm that each implementation has for itself: `rng`, and `DEFAULT`."""

from __future__ import annotations

from collections.abc import Mapping

from opscope.harness.prepare.program import SingleOp
from opscope.models.frontends.own_results import RNG

OWN_NUMBERS = "its algorithm is each implementation's own: no value is the right one"
DRAWS = "draws"
"""Parameter of a whole model that draws such numbers: how many of its last results these are."""

_BIT_GENERATOR = b"rng_bit_generator\0"


def draws_by_itself(op_name: str, op_params: Mapping[str, str]) -> bool:
    """Whether an op is one that draws such numbers."""
    return op_name == "stablehlo.rng" or "DEFAULT" in op_params.get("rng_algorithm", "")


def own_random_numbers(op: SingleOp) -> str:
    """The name of the op that draws such numbers: this one, or one in what belongs to it; empty if none does."""
    if draws_by_itself(op.op_name, op.op_params):
        return op.op_name
    # The strings of bytecode end in zeros. Other names may end alike, so the module is read where one is found.
    if RNG not in op.bytecode and _BIT_GENERATOR not in op.bytecode:
        return ""
    from opscope.harness.prepare import mlir
    from opscope.harness.prepare.mlir.single_op import inner_ops

    for inner in inner_ops(mlir.load(op.bytecode).operation):
        algorithm = str(inner.attributes["rng_algorithm"]) if "rng_algorithm" in inner.attributes else ""
        if draws_by_itself(inner.name, {"rng_algorithm": algorithm}):
            return inner.name
    return ""

"""What a kernel was promised to compute in, as text: `ieee`, `bf16`, `tf32`, `card:HiFi2`, `2 ulp`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from opscope.harness.record.errors import InputError
from opscope.harness.verdict.target import HOST, Target

PROMISES: dict[str, Target] = {
    "ieee": HOST,
    "steps": replace(HOST, rounds_steps=True),
    "tf32": replace(HOST, tf32_products=True),
    "bf16": replace(HOST, float_format="Float16_b", rounds_steps=True),
    "f16": replace(HOST, float_format="Float16", rounds_steps=True),
}
"""Name -> target. `ieee`: each op in its own type, steps of composites in float32 or wider. `steps`: composites may
round each step to their type, as XLA does in 16 bits. `tf32`: products of float32 in TF32. `bf16`, `f16`: all floats
are stored in 16 bits."""
_ULP = re.compile(r"(\d+(?:\.\d+)?) ?ulps?")
_CARD = re.compile(r"card(?::([a-z]+\d+\w*))?(?::(LoFi|HiFi[234]))?(:dst16)?")


@dataclass(frozen=True)
class Promise:
    """What a result is held to."""

    text: str
    target: Target
    ulp: float | None = None
    """The accuracy of a kernel in units in the last place of its result's type; None if none is stated."""


def promised(target: str | float | Target) -> Promise:
    """The promise of a text, of a number (an accuracy in ULP), or of a Target as a backend states it.

    `card`, `card:HiFi2` and `card:p150:LoFi:dst16` are a card with ttnn's kernels by board and fidelity (n150 and HiFi4
    if not given); `dst16`: its Dst has 16 bits (fp32_dest_acc_en=false), else 32. Raises InputError for any other text.
    """
    if isinstance(target, Target):
        return Promise(target.card_type, target)
    if isinstance(target, int | float):
        return Promise(f"{target:g} ulp", HOST, float(target))
    text = target.strip()
    if text in PROMISES:
        return Promise(text, PROMISES[text])
    if accuracy := _ULP.fullmatch(text):
        return Promise(text, HOST, float(accuracy[1]))
    if card := _CARD.fullmatch(text):
        return Promise(text, _card(card[1] or "n150", card[2], bool(card[3])))
    raise InputError(
        "target", f"one of {', '.join(PROMISES)}, card:HiFi2, card:p150:LoFi:dst16, 2 ulp", repr(target), "ieee"
    )


def _card(board: str, fidelity: str | None, narrow_dst: bool) -> Target:
    from opscope.harness.backends import registry
    from opscope.harness.record.optest import DEFAULT_BACKEND
    from opscope.harness.record.result_options import ResultOptions

    # A card's kernels are ttnn's.
    options = ResultOptions(arch=board, math_fidelity=fidelity, exact_order=True)
    target = registry.load(DEFAULT_BACKEND).target(options)
    return replace(target, narrow_dst=target.narrow_dst or narrow_dst)

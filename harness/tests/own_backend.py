"""The source of a backend as a user writes one, for tests that give it to a run."""

from __future__ import annotations

import textwrap


def own_backend(
    name: str, climb: str, *, stages: str = "Stage.COMPILE, Stage.RUN", at: str = "none", top: str = ""
) -> str:
    """A backend of this name: `climb` is the body of its method, `at` the target's card, `top` what stands above it."""
    return f"""{top.strip()}
from opscope import Backend, Stage, StageError, Target


class Own(Backend):
    name = "{name}"
    stages = ({stages},)

    def target(self, options):
        return Target(card_type="{at}", float_format=None, math_fidelity="exact")

    def fingerprint(self):
        return "{name}-1"

    def available(self):
        return None

    def climb(self, stage, job):
{textwrap.indent(textwrap.dedent(climb).strip(), "        ")}
"""

"""The policies, which choose an op model for each op. One file each, all behind `base.Policy`."""

from __future__ import annotations

import difflib

from opscope.compiler.buda.balancer.policies.base import Choice, Policy, PolicyOptions
from opscope.compiler.buda.balancer.policies.cnn import Cnn
from opscope.compiler.buda.balancer.policies.maximize_t_minimize_grid import MaximizeTMinimizeGrid
from opscope.compiler.buda.balancer.policies.minimize_grid import MinimizeGrid
from opscope.compiler.buda.balancer.policies.nlp import Nlp
from opscope.compiler.buda.balancer.policies.random_choice import RandomChoice
from opscope.compiler.buda.balancer.policies.ribbon import Ribbon
from opscope.compiler.errors import CompilerInputError

__all__ = ["POLICIES", "Choice", "Policy", "PolicyOptions", "Ribbon", "policy"]

POLICIES: dict[str, type[Policy]] = {
    cls.name: cls for cls in (MaximizeTMinimizeGrid, MinimizeGrid, RandomChoice, Nlp, Cnn, Ribbon)
}
"""TT-Buda's name -> class."""


def policy(name: str, options: PolicyOptions | None = None) -> Policy:
    """Returns the policy of that name; `default` is NLP, as in TT-Buda. Raises CompilerInputError for unknown ones."""
    names = {known.lower(): known for known in POLICIES} | {"default": Nlp.name}
    if name.lower() not in names:
        near = difflib.get_close_matches(name.lower(), names, n=2, cutoff=0.4)
        hint = ", ".join(names[n] for n in near) or ", ".join(POLICIES)
        raise CompilerInputError(f"policy: expected one of {', '.join(POLICIES)}, got {name!r}; try {hint}")
    return POLICIES[names[name.lower()]](options or PolicyOptions())

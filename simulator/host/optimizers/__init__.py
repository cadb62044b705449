"""Optimizers under TT-Buda's names: each states its update rule once, as a JAX function that the compiler then plans.

Names, parameters and defaults are those of tt-buda's pybuda/optimizers.py. Tests compare each rule with optax.
"""

from opscope.simulator.host.optimizers.adam import Adam, AdamW
from opscope.simulator.host.optimizers.lamb import LAMB
from opscope.simulator.host.optimizers.lars import LARS
from opscope.simulator.host.optimizers.optimizer import Optimizer
from opscope.simulator.host.optimizers.sgd import SGD

__all__ = ["LAMB", "LARS", "SGD", "Adam", "AdamW", "Optimizer"]
